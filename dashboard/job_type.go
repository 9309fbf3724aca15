package dashboard

import (
	"context"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// JobType describes the jobs of one name, for the form that adds a job. [TypeOf] makes one of a
// [bullmq.JobType].
type JobType struct {
	// Name is the name of the jobs.
	Name string
	// Queues are the queues whose form offers the type.
	// Defaults to nil, all queues.
	Queues []string
	// Example is JSON with which the form begins.
	// Defaults to nil, an empty object.
	Example json.RawMessage
	// Schema is a JSON schema of the data. The form shows it.
	// Defaults to nil, none.
	Schema json.RawMessage
	// Check returns an error if data does not fit. The job is then not added, and the error is
	// shown.
	// Defaults to nil, which accepts all JSON.
	Check func(data []byte) error

	options func(given *bullmq.JobOptions) *bullmq.JobOptions // with the defaults of the type
}

// TypeOf returns the JobType of a typed job, which the queues offer, or all queues if none is
// given. Example and Schema are made from the type of the data. Data that doesn't fit the type
// is refused, with the JSON path of the value. Jobs have the default options of the type.
//
//	dashboard.Options{JobTypes: []dashboard.JobType{dashboard.TypeOf(Welcome, "mails")}}
func TypeOf[D, R any](t *bullmq.JobType[D, R], queues ...string) JobType {
	kind := reflect.TypeFor[D]()
	sample, err := json.MarshalIndent(exampleOf(kind, 0).Interface(), "", "  ")
	if err != nil {
		sample = nil
	}
	schema, err := json.MarshalIndent(schemaOf(kind, nil), "", "  ")
	if err != nil {
		schema = nil
	}
	return JobType{
		Name: t.Name(), Queues: queues, Example: sample, Schema: schema,
		Check: func(data []byte) error {
			_, err := t.Data(&bullmq.Job{Name: t.Name(), Data: data})
			if err == nil {
				return nil
			}
			if _, cause, ok := strings.Cut(err.Error(), ": json: "); ok { // without the id that the job does not have yet
				return errors.New(cause)
			}
			return err
		},
		options: func(given *bullmq.JobOptions) *bullmq.JobOptions {
			var none D
			return t.Bulk(none, given).Options
		},
	}
}

// typeNamed returns the type of the jobs of a name in a queue, or nil.
func (d *Dashboard) typeNamed(name, queue string) *JobType {
	for i, t := range d.o.JobTypes {
		if t.Name == name && t.in(queue) {
			return &d.o.JobTypes[i]
		}
	}
	return nil
}

func (t JobType) in(queue string) bool { return len(t.Queues) == 0 || slices.Contains(t.Queues, queue) }

// checkType returns an error if data doesn't fit the type of the job.
func (d *Dashboard) checkType(name, queue string, data []byte) error {
	if t := d.typeNamed(name, queue); t != nil && t.Check != nil {
		if err := t.Check(data); err != nil {
			return badRequest{fmt.Errorf("the data doesn't fit %s: %w", name, err)}
		}
	}
	return nil
}

// exampleOf returns a value of a type: zero, but with an element in each slice and map.
func exampleOf(t reflect.Type, depth int) reflect.Value {
	value := reflect.New(t).Elem()
	if depth > 6 || isOpaque(t) {
		return value
	}
	switch t.Kind() {
	case reflect.Pointer:
		value.Set(reflect.New(t.Elem()))
		value.Elem().Set(exampleOf(t.Elem(), depth+1))
	case reflect.Slice:
		if t.Elem().Kind() != reflect.Uint8 {
			value.Set(reflect.Append(value, exampleOf(t.Elem(), depth+1)))
		}
	case reflect.Map:
		value.Set(reflect.MakeMap(t))
	case reflect.Struct:
		for i := range t.NumField() {
			if t.Field(i).IsExported() {
				value.Field(i).Set(exampleOf(t.Field(i).Type, depth+1))
			}
		}
	}
	return value
}

var (
	jsonMarshaler = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
)

// isOpaque reports whether the JSON of a type does not follow from its fields.
func isOpaque(t reflect.Type) bool {
	for _, kind := range []reflect.Type{t, reflect.PointerTo(t)} {
		if kind.Implements(jsonMarshaler) || kind.Implements(textMarshaler) {
			return true
		}
	}
	return false
}

// schemaOf returns the JSON schema of a type, as encoding/json writes it. above are the structs
// that contain it.
func schemaOf(t reflect.Type, above []reflect.Type) map[string]any {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return map[string]any{"type": "string", "format": "date-time"}
	case t == reflect.TypeFor[json.Number]():
		return map[string]any{"type": "number"}
	case t.Kind() != reflect.Pointer && isOpaque(t):
		if t.Implements(textMarshaler) && !t.Implements(jsonMarshaler) {
			return map[string]any{"type": "string"}
		}
		return map[string]any{}
	case slices.Contains(above, t):
		return map[string]any{}
	}
	switch t.Kind() {
	case reflect.Pointer:
		inner := schemaOf(t.Elem(), above)
		if kind, ok := inner["type"].(string); ok {
			inner["type"] = []string{kind, "null"}
		}
		return inner
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Float32, reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return map[string]any{"type": "integer"}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return map[string]any{"type": "integer", "minimum": 0}
	case reflect.Slice, reflect.Array:
		if t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 {
			return map[string]any{"type": "string", "contentEncoding": "base64"}
		}
		return map[string]any{"type": "array", "items": schemaOf(t.Elem(), above)}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": schemaOf(t.Elem(), above)}
	case reflect.Struct:
		properties, required := map[string]any{}, []string{}
		for _, f := range reflect.VisibleFields(t) {
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			if !f.IsExported() || name == "-" && options == "" || f.Anonymous && name == "" {
				continue
			}
			if name == "" {
				name = f.Name
			}
			properties[name] = schemaOf(f.Type, append(slices.Clone(above), t))
			if !strings.Contains(options, "omitempty") && !strings.Contains(options, "omitzero") {
				required = append(required, name)
			}
		}
		schema := map[string]any{"type": "object", "properties": properties}
		if len(required) > 0 {
			schema["required"] = required
		}
		return schema
	}
	return map[string]any{}
}

// typeChoice is a type that the form offers.
type typeChoice struct {
	Name, URL, Schema string
	Selected          bool
}

// typeChoices returns the types that the form of a queue offers.
func (s *subject) typeChoices() (choices []typeChoice) {
	address := s.dashboard.link("queues", s.name, "actions", addAction.name)
	for _, t := range s.dashboard.o.JobTypes {
		if t.in(s.name) {
			choices = append(choices, typeChoice{t.Name, address + "?" + url.Values{"type": {t.Name}}.Encode(), string(t.Schema), s.form.Get("type") == t.Name || s.form.Get("name") == t.Name})
		}
	}
	return choices
}

// typeValues begins the form with the example of the selected type.
func typeValues(_ context.Context, s *subject) (map[string]string, error) {
	t := s.dashboard.typeNamed(s.form.Get("type"), s.name)
	if t == nil {
		return nil, nil
	}
	values := map[string]string{"name": t.Name}
	if len(t.Example) > 0 {
		values["data"] = string(t.Example)
	}
	return values, nil
}
