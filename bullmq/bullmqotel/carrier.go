package bullmqotel

import (
	"bytes"
	"encoding/json"
	"slices"

	"go.opentelemetry.io/otel/propagation"
)

// carrier is the target of a propagator. It keeps the order of the fields, because the
// stored text depends on it.
type carrier []field

type field struct{ key, value string }

func (c *carrier) Get(key string) string {
	for _, f := range *c {
		if f.key == key {
			return f.value
		}
	}
	return ""
}

func (c *carrier) Set(key, value string) {
	for i, f := range *c {
		if f.key == key {
			(*c)[i].value = value
			return
		}
	}
	*c = append(*c, field{key, value})
}

func (c *carrier) Keys() []string {
	keys := make([]string, len(*c))
	for i, f := range *c {
		keys[i] = f.key
	}
	return keys
}

// text returns the carrier as a JSON object. The fields are in the order of Node, where the
// W3C propagator writes traceparent first. In Go it writes tracestate first.
func (c carrier) text() string {
	if at := slices.Index(c.Keys(), "traceparent"); at > 0 && c[at-1].key == "tracestate" {
		c[at-1], c[at] = c[at], c[at-1]
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	write := func(text string) {
		_ = encoder.Encode(text) // a string can always be encoded
		out.Truncate(out.Len() - 1)
	}
	out.WriteByte('{')
	for i, f := range c {
		if i > 0 {
			out.WriteByte(',')
		}
		write(f.key)
		out.WriteByte(':')
		write(f.value)
	}
	out.WriteByte('}')
	return out.String()
}

// readCarrier parses the text of a carrier. Like a propagator, which ignores invalid fields,
// it ignores invalid text and fields that are not strings.
func readCarrier(text string) propagation.MapCarrier {
	var fields map[string]any
	_ = json.Unmarshal([]byte(text), &fields)
	c := propagation.MapCarrier{}
	for key, value := range fields {
		if v, ok := value.(string); ok {
			c[key] = v
		}
	}
	return c
}
