package main

import (
	"encoding/json"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// publicNames are the options that are stored under a short name.
var publicNames = map[string]string{
	"de": "deduplication", "fpof": "failParentOnFailure", "cpof": "continueParentOnFailure",
	"idof": "ignoreDependencyOnFailure", "rdof": "removeDependencyOnFailure", "kl": "keepLogs",
}

// viewJob is a job as answers show it: a field that the job lacks is left out.
func viewJob(j *bullmq.Job) map[string]any {
	view := map[string]any{
		"id": j.ID, "data": j.Data, "opts": viewOptions(j), "attemptsMade": j.AttemptsMade,
		"attemptsStarted": j.AttemptsStarted, "stalledCounter": j.StalledCounter,
		"returnvalue": orNull(j.ReturnValue), "progress": 0,
	}
	switch {
	case len(j.Progress) > 0 && string(j.Progress) != "null":
		view["progress"] = j.Progress
	case len(j.Progress) > 0 && dialect == bullmq.V5:
		delete(view, "progress") // null is 0 to BullMQ 6 alone
	}
	if !j.Timestamp.IsZero() {
		view["name"], view["timestamp"] = j.Name, j.Timestamp.UnixMilli()
		view["delay"], view["priority"] = j.Delay.Milliseconds(), j.Priority
	}
	for name, at := range map[string]time.Time{"processedOn": j.ProcessedOn, "finishedOn": j.FinishedOn} {
		if !at.IsZero() {
			view[name] = at.UnixMilli()
		}
	}
	for name, text := range map[string]string{
		"failedReason": j.FailedReason, "parentKey": j.ParentKey, "processedBy": j.ProcessedBy,
		"repeatJobKey": j.SchedulerID, "deduplicationId": j.DeduplicationID,
	} {
		if text != "" {
			view[name] = text
		}
	}
	return view
}

func viewOptions(j *bullmq.Job) map[string]any {
	view := publicOptions(j.RawOpts)
	if view["attempts"] == nil {
		view["attempts"] = 0
	}
	if raw, _ := view["backoff"].(json.RawMessage); len(raw) > 0 && raw[0] != '{' {
		view["backoff"] = map[string]any{"type": "fixed", "delay": raw} // a number means fixed
	}
	delete(view, "repeatJobKey")
	return view
}

// publicOptions are stored options in their public spelling.
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
