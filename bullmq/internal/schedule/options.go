package schedule

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
)

// options is the option repeat of a scheduler's job.
type options struct {
	Pattern   string      `json:"pattern"`
	Every     json.Number `json:"every"`
	Limit     json.Number `json:"limit"`
	Count     json.Number `json:"count"`
	Offset    json.Number `json:"offset"`
	TimeZone  string      `json:"tz"`
	HashSeed  string      `json:"hashSeed"`
	StartDate date        `json:"startDate"`
	EndDate   date        `json:"endDate"`
}

// date is in milliseconds. Clients write dates as milliseconds or as text.
type date int64

func (d *date) UnmarshalJSON(text []byte) error {
	if unquoted, err := strconv.Unquote(string(text)); err == nil {
		at, err := time.Parse(time.RFC3339, unquoted)
		if err != nil {
			return err
		}
		*d = date(at.UnixMilli())
		return nil
	}
	ms, err := strconv.ParseFloat(string(text), 64)
	if err == nil {
		*d = date(ms)
	}
	return nil
}

func whole(n json.Number) int64 {
	f, _ := n.Float64()
	return int64(f)
}

// nextOptions returns the options of the next job. They are the options of this job, except
// for the fields that change from run to run.
func nextOptions(schedulerID string, fields map[string]json.RawMessage, repeat options, due time.Time, count int64, now time.Time) (string, error) {
	var kept map[string]json.RawMessage
	if err := json.Unmarshal(fields["repeat"], &kept); err != nil {
		return "", err
	}
	delete(kept, "immediately")
	set(kept, "count", count)
	set(kept, "startDate", int64(repeat.StartDate))
	set(kept, "endDate", int64(repeat.EndDate))
	var offset, prevMillis int64
	if due.IsZero() {
		offset = whole(repeat.Offset)
	} else {
		prevMillis = due.UnixMilli()
	}
	set(kept, "offset", offset)
	set(fields, "timestamp", now.UnixMilli())
	set(fields, "prevMillis", prevMillis)
	for name, value := range map[string]any{"repeat": kept, "repeatJobKey": schedulerID} {
		text, err := wire.EncodeJSON(value)
		if err != nil {
			return "", err
		}
		fields[name] = json.RawMessage(text)
	}
	if _, err := strconv.ParseFloat(string(fields["backoff"]), 64); err == nil { // a number means a backoff of type fixed
		fields["backoff"] = json.RawMessage(`{"type":"fixed","delay":` + string(fields["backoff"]) + `}`)
	}
	if _, there := fields["attempts"]; !there {
		fields["attempts"] = json.RawMessage("0")
	}
	return wire.EncodeJSON(fields)
}

// set writes a number. Zero is left out.
func set(fields map[string]json.RawMessage, name string, value int64) {
	delete(fields, name)
	if value != 0 {
		fields[name] = json.RawMessage(strconv.FormatInt(value, 10))
	}
}
