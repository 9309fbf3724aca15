package dashboard

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// apiBase is the path of the JSON API below the base.
const apiBase = "/api/v1"

// apiRoutes registers the addresses of the JSON API.
func (d *Dashboard) apiRoutes() {
	read := func(path string, read func(*http.Request) (any, error)) {
		d.handle("GET", apiBase+path, func(w http.ResponseWriter, r *http.Request) error {
			if err := d.mayRead(r); err != nil {
				return err
			}
			content, err := read(r)
			if err != nil {
				return err
			}
			writeJSON(w, http.StatusOK, content)
			return nil
		})
	}
	read("/queues", d.apiQueues)
	read("/queues/{queue}", d.apiQueue)
	read("/queues/{queue}/jobs", d.apiJobs)
	read("/queues/{queue}/jobs/{job}", d.apiJob)
	read("/queues/{queue}/jobs/{job}/logs", d.apiLogs)
	read("/queues/{queue}/jobs/{job}/flow", d.apiFlow)
	read("/queues/{queue}/metrics", d.apiMetrics(d.queueMetrics))
	read("/queues/{queue}/routes", d.apiRoutesOf)
	read("/queues/{queue}/schedulers", d.apiSchedulers(d.queueSchedulers, "from"))
	read("/queues/{queue}/schedulers/{scheduler}", d.apiScheduler)
	read("/queues/{queue}/dead-letters", d.apiLetters)
	read("/metrics", d.apiMetrics(d.fleetMetrics))
	read("/routes", d.apiRoutesAndShards)
	read("/schedulers", d.apiSchedulers(d.allSchedulers, "after"))
	read("/search", d.apiSearch)
	read("/server", d.apiServer)
	read("/workers", d.apiWorkers)
	read("/actions", d.apiActions)
	read("/openapi.json", d.openAPI)
	d.handle("GET", apiBase+"/queues/{queue}/jobs/{job}/values/{part}", d.raw)
	d.handle("GET", apiBase+"/queues/{queue}/schedulers/{scheduler}/values/{part}", d.rawTemplate)
	d.handle("POST", apiBase+"/queues/{queue}/actions/{action}", d.apiAct)
}

// missesAPI replies to a request of the API to which no address belongs, and reports whether
// it did.
func (d *Dashboard) missesAPI(w http.ResponseWriter, r *http.Request) bool {
	has := func(method string) bool {
		asked := *r
		asked.Method = method
		_, pattern := d.mux.Handler(&asked)
		return pattern != "" && pattern != "GET "+d.o.Base+"/"
	}
	switch {
	case !d.isAPI(r) || has(r.Method):
		return false
	case has(http.MethodGet):
		w.Header().Set("Allow", http.MethodGet)
		d.fail(w, r, http.StatusMethodNotAllowed, errors.New("this address is for GET"))
	case has(http.MethodPost):
		w.Header().Set("Allow", http.MethodPost)
		d.fail(w, r, http.StatusMethodNotAllowed, errors.New("this address is for POST"))
	default:
		d.fail(w, r, http.StatusNotFound, errors.New("the API has no such address: see "+d.o.Base+apiBase+"/openapi.json"))
	}
	return true
}

// isAPI reports whether a request is one of the JSON API.
func (d *Dashboard) isAPI(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, d.o.Base+"/api/")
}

func writeJSON(w http.ResponseWriter, status int, content any) {
	text, err := json.Marshal(content)
	if err != nil {
		status, text = http.StatusInternalServerError, []byte(`{"error":{"code":"internal","message":"the reply can't be written as JSON"}}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n'))
}

// apiError is what the API replies to a request that was refused.
type apiError struct {
	Error struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// errorCodes are the codes of the API by their status.
var errorCodes = map[int]string{
	http.StatusBadRequest: "bad_request", http.StatusForbidden: "forbidden", http.StatusNotFound: "not_found", http.StatusMethodNotAllowed: "method_not_allowed",
	http.StatusConflict: "conflict", http.StatusRequestEntityTooLarge: "too_large", http.StatusUnsupportedMediaType: "unsupported_media_type",
	http.StatusUnprocessableEntity: "rejected", http.StatusTooManyRequests: "too_many_requests", http.StatusServiceUnavailable: "unavailable", http.StatusGatewayTimeout: "timeout",
}

// failJSON replies with an error.
func failJSON(w http.ResponseWriter, status int, err error) {
	var reply apiError
	reply.Error.Code, reply.Error.Message = errorCodes[status], cut(err.Error(), 2000)
	switch {
	case errors.Is(err, errReadOnly):
		reply.Error.Code = "read_only"
	case errors.Is(err, errElsewhere):
		reply.Error.Code = "cross_origin"
	case errors.Is(err, errConfirm):
		reply.Error.Code = "confirmation_required"
	case reply.Error.Code == "":
		reply.Error.Code = "internal"
	}
	writeJSON(w, status, reply)
}

// apiField and apiAction describe an action.
type apiField struct {
	Name     string   `json:"name"`
	Label    string   `json:"label"`
	Kind     string   `json:"kind"`
	Hint     string   `json:"hint,omitempty"`
	Choices  []string `json:"choices,omitempty"`
	Required bool     `json:"required"`
}

type apiAction struct {
	Name    string     `json:"name"`
	Title   string     `json:"title"`
	On      string     `json:"on"`
	States  []string   `json:"states,omitempty"`
	Single  bool       `json:"single"`
	Confirm bool       `json:"confirm"`
	Warning string     `json:"warning,omitempty"`
	Fields  []apiField `json:"fields"`
}

// apiActions lists the actions.
func (d *Dashboard) apiActions(*http.Request) (any, error) {
	list := []apiAction{}
	for _, a := range actions {
		if !d.o.ReadOnly {
			list = append(list, describeAction(a))
		}
	}
	return map[string]any{"actions": list}, nil
}

func describeAction(a action) apiAction {
	described := apiAction{Name: a.name, Title: a.title, On: string(a.on), Single: a.single, Confirm: a.typed, Warning: a.warn, Fields: []apiField{}}
	for _, state := range a.states {
		described.States = append(described.States, string(state))
	}
	for _, f := range a.fields {
		described.Fields = append(described.Fields, apiField{f.Name, f.Label, f.Kind, f.Hint, f.Choices, f.Required})
	}
	return described
}

// apiDone is what an action has done.
type apiDone struct {
	Done   string    `json:"done"`
	More   bool      `json:"more"`
	Next   *string   `json:"next"`
	Links  []link    `json:"links"`
	Failed []failure `json:"failed"`
}

// apiAct does an action, or with ?plan=1 tells what it would do.
func (d *Dashboard) apiAct(w http.ResponseWriter, r *http.Request) error {
	a, err := actionNamed(r.PathValue("action"))
	if err != nil {
		return err
	}
	s := &subject{dashboard: d, request: r, name: r.PathValue("queue")}
	if err := d.readJSON(w, r, a, s); err != nil {
		d.audit(a, s, outcome{}, err)
		return err
	}
	if key := r.Header.Get("Idempotency-Key"); key != "" {
		if len(key) > 200 {
			return badRequest{errors.New("the Idempotency-Key is longer than 200 bytes")}
		}
		s.once = "api " + key
	}
	if isTrue(r.URL.Query().Get("plan")) {
		plan, values, err := d.planned(r.Context(), a, s)
		if err != nil {
			return err
		}
		writeJSON(w, http.StatusOK, struct {
			Plan    string            `json:"plan"`
			Warning string            `json:"warning,omitempty"`
			Values  map[string]string `json:"values,omitempty"`
		}{plan, a.warn, values})
		return nil
	}
	done, err := d.do(a, s)
	if err != nil {
		return err
	}
	reply := apiDone{Done: done.Done, More: done.More, Links: orEmpty(done.Links), Failed: orEmpty(done.Failed)}
	if done.After != "" {
		reply.Next = &done.After
	}
	writeJSON(w, http.StatusOK, reply)
	return nil
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func isTrue(text string) bool {
	b, err := strconv.ParseBool(text)
	return err == nil && b
}

// readJSON reads the body of an action as a form.
func (d *Dashboard) readJSON(w http.ResponseWriter, r *http.Request, a action, s *subject) error {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return unsupported{errors.New("send JSON as application/json")}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return bodyError(err)
	}
	bodyRead(w)
	var given map[string]json.RawMessage
	if len(bytes.TrimSpace(body)) > 0 {
		if err := json.Unmarshal(body, &given); err != nil || given == nil {
			return badRequest{errors.New("the body is not a JSON object")}
		}
	}
	s.form = url.Values{"sent": {"1"}}
	for name, value := range given {
		texts, err := formValue(a, name, value)
		if err != nil {
			return badRequest{fmt.Errorf("%s: %w", cut(name, 80), err)}
		}
		if texts != nil {
			s.form[name] = texts
		}
	}
	return s.readIDs()
}

// formValue returns a value of a JSON body as a form has it; nil for one that is not set.
func formValue(a action, name string, value json.RawMessage) ([]string, error) {
	kind := ""
	if at := slices.IndexFunc(a.fields, func(f field) bool { return f.Name == name }); at >= 0 {
		kind = a.fields[at].Kind
	} else if !slices.Contains(a.selectors(), name) {
		return nil, fmt.Errorf("this action has no such field; it has %s", strings.Join(append(a.selectors(), fieldNames(a)...), ", "))
	}
	if kind == "json" {
		return []string{string(value)}, nil
	}
	switch value[0] {
	case '"':
		var text string
		err := json.Unmarshal(value, &text)
		return []string{text}, err
	case 't':
		return []string{"1"}, nil
	case 'n':
		if kind == "number" {
			return []string{""}, nil // none
		}
		return nil, nil
	case 'f':
		return nil, nil
	case '[':
		if name != "job" && name != "id" {
			return nil, errors.New("this is an array, where a string, a number or a bool is expected")
		}
		var items []json.RawMessage
		if err := json.Unmarshal(value, &items); err != nil {
			return nil, err
		}
		texts := []string{}
		for _, item := range items {
			one, err := formValue(a, name, item)
			if err != nil || len(one) != 1 || item[0] != '"' && item[0] != '-' && (item[0] < '0' || item[0] > '9') {
				return nil, errors.New("write the ids as strings")
			}
			texts = append(texts, one...)
		}
		return texts, nil
	case '{':
		return nil, errors.New("this is an object, where a string, a number or a bool is expected")
	}
	return []string{string(value)}, nil // a number
}

// selectors are the fields that select what the action is about.
func (a action) selectors() []string {
	names := []string{}
	switch a.on {
	case onQueue:
	case onJobs:
		names = []string{"job", "id", "all", "state", "name", "data", "error", "older", "newer", "after"}
	case onLetters:
		names = []string{"job", "id", "all", "reason", "origin"}
	default:
		names = append(names, string(a.on))
	}
	if a.typed {
		names = append(names, "confirm")
	}
	return names
}

func fieldNames(a action) (names []string) {
	for _, f := range a.fields {
		names = append(names, f.Name)
	}
	return names
}
