package scripts

import (
	"encoding/json"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
)

// Record parses a job's hash: field, value, field, value … The last value of a field
// takes precedence. As in Node, invalid values are ignored.
func Record(jobID string, hash []string) *backend.JobRecord {
	r := &backend.JobRecord{ID: jobID, Incomplete: true, LacksDelay: true, LacksPriority: true}
	formerly := ""
	for i := 0; i+1 < len(hash); i += 2 {
		value := hash[i+1]
		switch hash[i] {
		case "name":
			r.Name, r.Incomplete = value, false
		case "data":
			r.Data = []byte(value)
		case "opts":
			r.Opts = value
		case "timestamp":
			r.Timestamp = wire.ParseTime(value)
		case "delay":
			r.Delay, r.LacksDelay = wire.ParseMillis(value), false
		case "priority":
			r.Priority, r.LacksPriority = number(value), false
		case "atm":
			r.AttemptsMade = number(value)
		case "attemptsMade": // its name before BullMQ 5
			formerly = value
		case "ats":
			r.AttemptsStarted = number(value)
		case "stc":
			r.StalledCounter = number(value)
		case "processedOn":
			r.ProcessedOn = wire.ParseTime(value)
		case "finishedOn":
			r.FinishedOn = wire.ParseTime(value)
		case "pb":
			r.ProcessedBy = value
		case "progress":
			r.Progress = validJSON(value)
		case "returnvalue":
			r.ReturnValue = validJSON(value)
		case "failedReason":
			r.FailedReason = value
		case "stacktrace":
			if json.Unmarshal([]byte(value), &r.StackTrace) != nil {
				r.StackTrace = nil
			}
		case "parentKey":
			r.Parent = backend.ParseJobRef(value)
		case "parent":
			r.ParentPolicy = validJSON(value)
		case "rjk":
			r.SchedulerID = value
		case "deid":
			r.DeduplicationID = value
		case "defa":
			r.DeferredFailure = value
		}
	}
	if formerly != "" {
		// Node shows only the old count. The attempts made since are added here.
		r.AttemptsMade, r.AttemptsSince = number(formerly), r.AttemptsMade
	}
	return r
}

// readRecord reads a job from the reply to HGETALL; nil for an empty one.
func readRecord(jobID string, result rueidis.RedisResult) (*backend.JobRecord, error) {
	fields, err := result.AsStrMap()
	if err != nil || len(fields) == 0 {
		return nil, err
	}
	hash := make([]string, 0, 2*len(fields))
	for field, value := range fields {
		hash = append(hash, field, value)
	}
	return Record(jobID, hash), nil
}
