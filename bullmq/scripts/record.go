package scripts

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
)

// Record parses a job's hash: field, value, field, value … If a field appears more than once,
// its last value is used. As in Node, invalid values are ignored.
func Record(jobID string, hash []string) *backend.JobRecord {
	p := newRecordReader(jobID)
	for i := 0; i+1 < len(hash); i += 2 {
		p.set(hash[i], hash[i+1])
	}
	return p.read()
}

// recordReader parses the fields of a job's hash.
type recordReader struct {
	record   *backend.JobRecord
	formerly string // the field attemptsMade
	starts   string // the field ats
}

func newRecordReader(jobID string) recordReader {
	return recordReader{record: &backend.JobRecord{ID: jobID, Incomplete: true, LacksDelay: true, LacksPriority: true}}
}

// set parses one field.
func (p *recordReader) set(field, value string) {
	r := p.record
	switch field {
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
	case "attemptsMade": // the name of atm before BullMQ 5
		p.formerly = value
	case "ats":
		p.starts, r.AttemptsStarted = value, number(value)
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
	case "cancelled":
		r.Cancelled = true
	}
}

// read returns the job.
func (p *recordReader) read() *backend.JobRecord {
	if p.formerly != "" {
		// Node shows only the old count.
		p.record.AttemptsMade, p.record.AttemptsSince = number(p.formerly), p.record.AttemptsMade
	}
	return p.record
}

// started returns the job including the fields that the fetch wrote after it had read the
// hash.
func (p *recordReader) started(on time.Time, workerName string) *backend.JobRecord {
	var before float64
	if p.starts != "" {
		before, _ = strconv.ParseFloat(p.starts, 64)
	}
	p.record.ProcessedOn, p.record.AttemptsStarted = on, safeCount(int64(before)+1)
	if workerName != "" {
		p.record.ProcessedBy = workerName
	}
	return p.read()
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

// readIfHash reads a job. If its key is no hash, it is as if the job did not exist.
func readIfHash(id string, result rueidis.RedisResult) (*backend.JobRecord, error) {
	record, err := readRecord(id, result)
	if reply, is := rueidis.IsRedisErr(err); is && strings.HasPrefix(reply.Error(), "WRONGTYPE") {
		return nil, nil
	}
	return record, err
}
