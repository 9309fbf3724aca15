package bullmqhttp

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// serverOptions are the options of a job that the Server sets, or that would break its replies, by
// their names in JobOptions.Extra:
//
//   - With another id, or in the queue of a target, the job is not found at its Location.
//   - A deduplicated job is never added.
//   - A removed job has no status and no result, and its idempotency key is free.
//   - A job with a parent is part of a flow, which a client must not cancel.
//   - A timestamp would be that of all jobs, and the begin of their delays.
//   - A repeated job has other ids.
var serverOptions = []string{
	"jobId", "deduplication", "de", "debounce", "target", "parent", "removeOnComplete", "removeOnFail", "timestamp",
	"repeat", "repeatJobKey", "rjk", "prevMillis",
}

// notInherited are those of them that a job must not inherit from QueueOptions.DefaultJobOptions. The
// Server sets the others in each job.
var notInherited = []string{"deduplication", "target", "parent", "timestamp"}

// noScheduler removes the options of a scheduler from the defaults. A null is not stored.
var noScheduler = map[string]json.RawMessage{
	"repeat": json.RawMessage("null"), "repeatJobKey": json.RawMessage("null"), "rjk": json.RawMessage("null"), "prevMillis": json.RawMessage("null"),
}

// jobOptions returns the options of the jobs of a route, without the id: with the retention of the Server,
// and with what keeps a job from inheriting options that a route must not set.
func (s *Server) jobOptions(o bullmq.JobOptions) bullmq.JobOptions {
	extra := maps.Clone(noScheduler)
	maps.Copy(extra, o.Extra)
	o.Extra, o.Reset = extra, append(slices.Clone(o.Reset), notInherited...)
	o.KeepCompleted, o.KeepFailed = bullmq.KeepFor(s.o.KeepFor), bullmq.KeepFor(s.o.KeepFor)
	return o
}

// invalidOption returns the name of an option that a route must not set, or "".
func invalidOption(o *bullmq.JobOptions) string {
	switch {
	case o.JobID != "":
		return "JobID"
	case o.Deduplication != nil:
		return "Deduplication"
	case o.Target != nil:
		return "Target"
	case o.Parent != nil:
		return "Parent"
	case !o.KeepCompleted.IsZero():
		return "KeepCompleted"
	case !o.KeepFailed.IsZero():
		return "KeepFailed"
	case !o.Timestamp.IsZero():
		return "Timestamp"
	}
	for name := range o.Extra {
		if slices.Contains(serverOptions, name) {
			return "Extra " + name
		}
	}
	return ""
}
