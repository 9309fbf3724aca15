package scripts

import (
	"strconv"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
)

var (
	addPlainJobs      = load("addPlainJobs")
	addStandardJob    = load("addStandardJob")
	addDelayedJob     = load("addDelayedJob")
	addPrioritizedJob = load("addPrioritizedJob")
	addParentJob      = load("addParentJob")
)

// addCommand returns the command that adds a job.
func addCommand(a *backend.Add) *command {
	switch a.State {
	case backend.Delayed:
		return addDelayedJob
	case backend.Prioritized:
		return addPrioritizedJob
	case backend.WaitingChildren:
		return addParentJob
	}
	return addStandardJob
}

// encodeAdd returns the arguments of the command that adds a job. deferred reports whether
// the job is part of a flow whose parents are released only after all jobs were added.
func encodeAdd(base string, a *backend.Add, deferred bool) []string {
	d := &a.Deduplication
	ttl := ""
	if ms := d.TTL.Milliseconds(); ms > 0 {
		ttl = decimal(ms)
	}
	args := []string{base, a.ID, a.Name, a.Data, a.Opts, timestampText(a), delayText(a), strconv.Itoa(a.Priority), flag(a.LIFO),
		a.Parent.String(), a.ParentPolicy, a.SchedulerID, d.ID, ttl, deduplicationFlags(d), flag(deferred)}
	used := len(args)
	for used > 8 && args[used-1] == "" {
		used--
	}
	// A deduplicated add needs its flags, even if they are empty.
	if d.ID != "" && used < 15 {
		used = 15
	}
	return args[:used]
}

func timestampText(a *backend.Add) string {
	if a.TimestampText != "" {
		return a.TimestampText
	}
	return wire.FormatTime(a.Timestamp)
}

func delayText(a *backend.Add) string {
	if a.DelayText != nil {
		return *a.DelayText
	}
	return wire.FormatMillis(a.Delay)
}

// deduplicationFlags returns a letter for each mode that is set, as part deduplication
// expects them.
func deduplicationFlags(d *backend.Deduplication) string {
	flags := make([]byte, 0, 4)
	for _, mode := range [...]struct {
		letter byte
		set    bool
	}{{'e', d.Extend}, {'r', d.Replace}, {'k', d.KeepLastIfActive}, {'s', d.Reschedule}} {
		if mode.set {
			flags = append(flags, mode.letter)
		}
	}
	return string(flags)
}

// added parses the reply of a script that adds one job: an id, {id, outcome}, or a
// negative error code.
func (q *Store) added(a *backend.Add, message rueidis.RedisMessage) backend.AddResult {
	if id, err := message.ToString(); err == nil {
		return backend.AddResult{JobID: id}
	}
	if message.IsArray() {
		if parts := texts(message); len(parts) == 2 && parts[1] == "exists" {
			return backend.AddResult{JobID: parts[0], Outcome: backend.AlreadyExists}
		} else if len(parts) == 2 && parts[1] == "deduplicated" {
			return backend.AddResult{JobID: parts[0], Outcome: backend.Deduplicated}
		}
	}
	code, err := message.AsInt64()
	switch {
	case err != nil:
		return backend.AddResult{Err: q.unexpected(addCommand(a), err)}
	case code < 0:
		return backend.AddResult{Err: q.refusal(addCommand(a), code, a.ID, "parent "+a.Parent.String())}
	}
	return backend.AddResult{JobID: decimal(code)}
}
