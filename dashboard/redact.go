package dashboard

import (
	"encoding/json"
	"errors"
	"maps"
	"strings"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// errHiddenData and errHiddenErrors refuse searches of what is redacted. The number of matches
// would tell what it contains.
var (
	errHiddenData   = errors.New("the data of jobs is hidden, so it can't be searched")
	errHiddenErrors = errors.New("the errors of jobs are hidden, so they can't be searched")
)

// shownJob returns a job as it may be shown. All pages and replies show jobs that were passed
// through it, and actions work with the jobs themselves.
func (d *Dashboard) shownJob(queue string, job *bullmq.Job) *bullmq.Job {
	if d.o.Redact == nil && d.o.RedactText == nil {
		return job
	}
	shown, queues := *job, queuesOf(queue, job)
	for _, value := range []*json.RawMessage{&shown.Data, &shown.ReturnValue, &shown.Progress} {
		for _, name := range queues {
			*value = d.redacted(name, job.Name, *value)
		}
	}
	if d.o.RedactText == nil {
		return &shown
	}
	shown.FailedReason = d.redactedText(queue, job, job.FailedReason)
	shown.StackTrace = nil
	for _, trace := range job.StackTrace {
		shown.StackTrace = append(shown.StackTrace, d.redactedText(queue, job, trace))
	}
	if _, isLetter := job.DeadLetter(); isLetter {
		shown.RawOptions = changed(job.RawOptions, "deadLetter", func(option json.RawMessage) json.RawMessage { return d.withoutReason(queue, job, option) })
		shown.Options.Extra = maps.Clone(job.Options.Extra)
		for name, option := range shown.Options.Extra {
			if name == "deadLetter" {
				shown.Options.Extra[name] = d.withoutReason(queue, job, option)
			}
		}
	}
	return &shown
}

// withoutReason returns the option of a dead letter with its reason redacted.
func (d *Dashboard) withoutReason(queue string, job *bullmq.Job, option json.RawMessage) json.RawMessage {
	return changed(option, "reason", func(stored json.RawMessage) json.RawMessage {
		var reason string
		if json.Unmarshal(stored, &reason) != nil {
			return json.RawMessage(`null`)
		}
		text, _ := json.Marshal(d.redactedText(queue, job, reason)) // can't fail
		return text
	})
}

// changed returns a JSON object with a field changed; nil for other text. Like encoding/json, it
// ignores the case of the name.
func changed(object json.RawMessage, name string, change func(json.RawMessage) json.RawMessage) json.RawMessage {
	var fields map[string]json.RawMessage
	if json.Unmarshal(object, &fields) != nil {
		return nil
	}
	for field, value := range fields {
		if strings.EqualFold(field, name) {
			fields[field] = change(value)
		}
	}
	text, _ := json.Marshal(fields) // can't fail
	return text
}

// queuesOf returns the queues to which the data of a job belongs: its own and, before it, that in
// which the job of a dead letter has failed.
func queuesOf(queue string, job *bullmq.Job) []string {
	if letter, isLetter := job.DeadLetter(); isLetter && letter.QueueName != queue {
		return []string{letter.QueueName, queue}
	}
	return []string{queue}
}

// redacted returns what to show of a value of a job, or of a template.
func (d *Dashboard) redacted(queue, name string, value []byte) []byte {
	if d.o.Redact == nil || len(value) == 0 {
		return value
	}
	return d.o.Redact(queue, name, value)
}

// redactedText returns what to show of a text that a program has written about a job.
func (d *Dashboard) redactedText(queue string, job *bullmq.Job, text string) string {
	if d.o.RedactText == nil || text == "" {
		return text
	}
	for _, name := range queuesOf(queue, job) {
		text = d.o.RedactText(name, job.Name, text)
	}
	return text
}

// shownLines returns lines of a log as they may be shown.
func (d *Dashboard) shownLines(queue string, job *bullmq.Job, lines []string) []string {
	if d.o.RedactText == nil {
		return lines
	}
	shown := make([]string, len(lines))
	for i, line := range lines {
		shown[i] = d.redactedText(queue, job, line)
	}
	return shown
}

// shownReason returns the failed reason of a job of a flow as it may be shown. One that was not
// read whole can't be redacted, because a part of what is to be hidden may be missing.
func (d *Dashboard) shownReason(node *bullmq.FlowTreeNode) string {
	if d.o.RedactText == nil || node.FailedReason == "" {
		return node.FailedReason
	}
	if node.FailedReasonSize > len(node.FailedReason) {
		return "hidden"
	}
	return d.o.RedactText(node.QueueName, node.Name, node.FailedReason)
}

// maySearch returns an error if a search would tell something about what is redacted.
func (d *Dashboard) maySearch(data, failure string) error {
	switch {
	case d.o.Redact != nil && data != "":
		return badRequest{errHiddenData}
	case d.o.RedactText != nil && failure != "":
		return badRequest{errHiddenErrors}
	}
	return nil
}
