package bullmq

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
)

// MarshalJSON returns the job as JSON.stringify returns a job in Node (BullMQ:
// toJSON). Times are in whole milliseconds, options have their public names, and
// fields that are not set are omitted. The JSON is for display and can't be decoded to
// a Job. MarshalJSON returns an error for a job without a record, such as one from
// [Queue.JobRef].
func (j *Job) MarshalJSON() ([]byte, error) {
	switch {
	case j == nil:
		return []byte("null"), nil
	case j.isRef:
		return nil, j.unread("show")
	}
	view := struct {
		Name            string          `json:"name"`
		Data            json.RawMessage `json:"data"`
		Opts            map[string]any  `json:"opts"`
		ID              string          `json:"id"`
		Progress        json.RawMessage `json:"progress"`
		ReturnValue     json.RawMessage `json:"returnvalue"`
		StackTrace      []string        `json:"stacktrace"`
		Delay           json.RawMessage `json:"delay"`
		Priority        json.RawMessage `json:"priority"`
		AttemptsStarted int             `json:"attemptsStarted"`
		AttemptsMade    int             `json:"attemptsMade"`
		StalledCounter  int             `json:"stalledCounter"`
		SchedulerID     string          `json:"repeatJobKey,omitempty"`
		Timestamp       int64           `json:"timestamp,omitempty"`
		ParentKey       string          `json:"parentKey,omitempty"`
		Parent          json.RawMessage `json:"parent,omitempty"`
		DebounceID      string          `json:"debounceId,omitempty"` // the name of deduplicationId in BullMQ 5
		DeduplicationID string          `json:"deduplicationId,omitempty"`
		Queue           string          `json:"queueQualifiedName,omitempty"`
		FinishedOn      int64           `json:"finishedOn,omitempty"`
		ProcessedOn     int64           `json:"processedOn,omitempty"`
		FailedReason    string          `json:"failedReason,omitempty"`
		DeferredFailure string          `json:"deferredFailure,omitempty"`
		ProcessedBy     string          `json:"processedBy,omitempty"`
		Token           string          `json:"token,omitempty"`
	}{
		Name: j.Name, Data: j.Data, Opts: publicOptions(j.RawOptions), ID: j.ID,
		Progress: j.Progress, ReturnValue: j.ReturnValue, StackTrace: j.StackTrace,
		Delay: shownNumber(j.Delay.Milliseconds(), j.lacksDelay), Priority: shownNumber(int64(j.Priority), j.lacksPriority),
		AttemptsStarted: j.AttemptsStarted, AttemptsMade: j.AttemptsMade, StalledCounter: j.StalledCounter,
		SchedulerID: j.SchedulerID, Timestamp: millisOf(j.Timestamp),
		ParentKey: j.ParentKey, Parent: j.RawParent, DeduplicationID: j.DeduplicationID,
		FinishedOn: millisOf(j.FinishedOn), ProcessedOn: millisOf(j.ProcessedOn),
		FailedReason: j.FailedReason, DeferredFailure: j.DeferredFailure, ProcessedBy: j.ProcessedBy, Token: j.token,
	}
	v5 := false
	if j.core != nil {
		view.Queue, v5 = j.core.keys.qualifiedName(), j.core.dialect == V5
	}
	if v5 {
		view.DebounceID = j.DeduplicationID
	}
	if view.StackTrace == nil {
		view.StackTrace = []string{}
	}
	if p := string(view.Progress); p == "" || p == "null" && !v5 {
		view.Progress = json.RawMessage("0")
	}
	switch {
	case len(view.Data) == 0:
		view.Data = json.RawMessage("{}")
	case !json.Valid(view.Data):
		view.Data, _ = json.Marshal(string(view.Data)) // not JSON, so shown as a string
	}
	text, err := wire.EncodeJSON(view)
	return []byte(text), err
}

// shownNumber returns a number as Node shows it. A field that is missing in the hash is
// NaN in Node, which JSON.stringify writes as null.
func shownNumber(n int64, lacking bool) json.RawMessage {
	if lacking && n == 0 {
		return json.RawMessage("null")
	}
	return strconv.AppendInt(nil, n, 10)
}

// millisOf returns a time in milliseconds, or 0 for the zero time.
func millisOf(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// publicOptions returns stored options under their public names, including options
// that this SDK does not know.
func publicOptions(stored json.RawMessage) map[string]any {
	public := map[string]any{"attempts": 0}
	var values map[string]json.RawMessage
	_ = json.Unmarshal(stored, &values) // invalid options are not shown
	telemetry := map[string]any{}
	for name, value := range values {
		option := jobOptionsByName[name]
		switch {
		case name == "tm":
			telemetry["metadata"] = value
		case name == "omc":
			telemetry["omitContext"] = value
		case name == "repeatJobKey": // it is a field of the job
		case name == "backoff" && json.Valid(value) && value[0] != '{':
			public[name] = map[string]any{"type": "fixed", "delay": value} // a number means fixed
		case option != nil:
			public[option.name] = value
		default:
			public[name] = value
		}
	}
	if len(telemetry) > 0 {
		public["telemetry"] = telemetry
	}
	return public
}
