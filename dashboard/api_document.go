package dashboard

import (
	_ "embed"
	"encoding/json"
	"net/http"
)

// document is the OpenAPI document without the actions, which are in their table.
//
//go:embed openapi.json
var document []byte

// openAPI returns the OpenAPI document.
func (d *Dashboard) openAPI(*http.Request) (any, error) {
	var whole map[string]any
	if err := json.Unmarshal(document, &whole); err != nil {
		return nil, err
	}
	whole["servers"] = []any{map[string]any{"url": d.o.Base + apiBase}}
	paths := whole["paths"].(map[string]any)
	for _, a := range actions {
		paths["/queues/{queue}/actions/"+a.name] = map[string]any{"post": documentAction(a)}
	}
	return whole, nil
}

// documentAction returns the operation of an action.
func documentAction(a action) map[string]any {
	schema := func(name string) map[string]any { return map[string]any{"$ref": "#/components/schemas/" + name} }
	properties, required := map[string]any{}, []string{}
	for _, name := range a.selectors() {
		properties[name] = documentSelector(name)
	}
	for _, f := range a.fields {
		properties[f.Name] = documentField(f)
		if f.Required {
			required = append(required, f.Name)
		}
	}
	body := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if a.typed {
		required = append(required, "confirm")
	}
	if len(required) > 0 {
		body["required"] = required
	}
	responses := map[string]any{"200": map[string]any{
		"description": "What was done, or with plan what would be done.",
		"content":     map[string]any{"application/json": map[string]any{"schema": map[string]any{"oneOf": []any{schema("Done"), schema("Plan")}}}},
	}}
	for _, status := range []string{"400", "403", "404", "409", "413", "415", "422", "503", "504"} {
		responses[status] = map[string]any{"$ref": "#/components/responses/Error"}
	}
	operation := map[string]any{
		"operationId": "action-" + a.name, "summary": a.title, "responses": responses,
		"parameters": []any{
			map[string]any{"$ref": "#/components/parameters/queue"}, map[string]any{"$ref": "#/components/parameters/plan"}, map[string]any{"$ref": "#/components/parameters/key"},
		},
		"requestBody": map[string]any{"content": map[string]any{"application/json": map[string]any{"schema": body}}},
	}
	if a.warn != "" {
		operation["description"] = a.warn
	}
	return operation
}

func documentSelector(name string) map[string]any {
	text := map[string]any{"type": "string"}
	many := map[string]any{"oneOf": []any{text, map[string]any{"type": "integer"}, map[string]any{"type": "array", "maxItems": maxIDs, "items": text}}}
	switch name {
	case "job":
		many["description"] = "The ids of the jobs."
		return many
	case "id":
		many["description"] = "The ids of the jobs, percent-encoded, for ids that are not UTF-8."
		return many
	case "all":
		return map[string]any{"type": "boolean", "description": "All, or all jobs of the state that match name, data and error."}
	case "state":
		return map[string]any{"enum": shownStates, "description": "The state of the jobs, if all are selected."}
	case "older", "newer":
		return map[string]any{"type": "string", "description": "The jobs are " + name + " than this, such as 5m, 1h or 7d: since they finished, if all jobs of the state have, otherwise since they were added."}
	case "reason":
		return map[string]any{"type": "string", "description": "The beginning of the reason of the dead letters."}
	case "origin":
		return map[string]any{"type": "string", "description": "The queue where the jobs have failed."}
	case "after":
		return map[string]any{"type": "string", "description": "The next of an action on all jobs, which continues it."}
	case "confirm":
		return map[string]any{"type": "string", "description": "The name of the queue."}
	}
	return text
}

func documentField(f field) map[string]any {
	property := map[string]any{}
	switch f.Kind {
	case "json":
	case "check":
		property["type"] = "boolean"
	case "number":
		property["type"], property["minimum"] = "integer", 0
		if f.None {
			property["type"] = []string{"integer", "null"}
		}
	case "choice":
		property["enum"] = f.Choices
	default:
		property["type"] = "string"
	}
	description := f.Label
	if f.Hint != "" {
		description += ". " + f.Hint
	}
	if description != "" {
		property["description"] = description
	}
	return property
}
