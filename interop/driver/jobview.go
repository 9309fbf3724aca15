package main

import (
	"encoding/json"
	"strconv"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// publicNames maps stored option names to public ones.
var publicNames = map[string]string{
	"de": "deduplication", "fpof": "failParentOnFailure", "cpof": "continueParentOnFailure",
	"idof": "ignoreDependencyOnFailure", "rdof": "removeDependencyOnFailure", "kl": "keepLogs",
}

// viewFields are the fields of a job that responses contain.
var viewFields = []string{
	"id", "name", "data", "opts", "attemptsMade", "attemptsStarted", "delay", "priority", "timestamp",
	"processedOn", "finishedOn", "returnvalue", "failedReason", "progress", "parentKey",
	"stalledCounter", "processedBy", "repeatJobKey", "deduplicationId",
}

// viewJob returns a job as responses represent it, without missing fields.
func viewJob(j *bullmq.Job) map[string]any {
	whole, view := viewJSON(j), map[string]any{}
	for _, name := range viewFields {
		value, has := whole[name]
		if has && (string(value) != "null" || name == "data" || name == "returnvalue") {
			view[name] = value
		}
	}
	if j.Timestamp.IsZero() { // only its id is known
		delete(view, "name")
	}
	return view
}

// viewJSON returns a job's JSON form without its stack traces, which name source files.
func viewJSON(j *bullmq.Job) map[string]json.RawMessage {
	view := map[string]json.RawMessage{}
	text, err := json.Marshal(j)
	if err == nil {
		err = json.Unmarshal(text, &view)
	}
	if err != nil {
		panic(err)
	}
	view["stacktrace"] = json.RawMessage(strconv.Itoa(len(j.StackTrace)))
	return view
}

// publicOptions returns stored options under their public names.
func publicOptions(raw json.RawMessage) map[string]any {
	stored := map[string]json.RawMessage{}
	_ = json.Unmarshal(raw, &stored)
	view, telemetry := map[string]any{}, map[string]any{}
	for name, value := range stored {
		switch name {
		case "tm":
			telemetry["metadata"] = value
		case "omc":
			telemetry["omitContext"] = value
		default:
			if public, ok := publicNames[name]; ok {
				name = public
			}
			view[name] = value
		}
	}
	if len(telemetry) > 0 {
		view["telemetry"] = telemetry
	}
	return view
}

func viewJobs(jobs []*bullmq.Job) []map[string]any {
	views := make([]map[string]any, len(jobs))
	for i, job := range jobs {
		views[i] = viewJob(job)
	}
	return views
}

func orNull(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("null")
	}
	return raw
}
