package scripts

import (
	"slices"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
)

// The compact forms of the calls that carry many jobs. Each value of a call costs
// Redis about as much as a small command (docs/adr/0002), so values that repeat are
// left out. parts/codec.lua reads and writes these forms in Lua.
//
// # Added jobs
//
// addPlainJobs takes kinds, a digit for each job, and then the values of each job:
//
//	0  data, name, opts, timestamp; the job is fetched last
//	1  the same values; the job is fetched next (lifo)
//	2  the same values, then delay and priority
//	4  added to the digit if name, opts and timestamp equal those of the previous job, and are left out
//
// It returns the number of the first job. The other jobs have the numbers after it. [idText]
// makes an id of a number.
//
// addPlainJobsTo takes the same for each of several queues. The number of the values precedes
// them, except for a single job of the kind '0' or '4'. '4' then means the name, opts and
// timestamp of the last single job of these kinds, of any queue.
//
// # Finished jobs
//
// moveToFinished takes kinds, a digit for each job, which is the sum of
//
//	1  fetch a next job under the same token
//	2  the job has a retention or a failure
//	4  the job had only the base fields when it was fetched
//
// and value, the common value of all jobs, or "". Then follow columns: all ids, all tokens
// and, without a common value, all values. Then follows, for each job with a retention or a
// failure, the number of its further values and these values: keepCount, keepAge, keepLimit
// and, for a failed job, attempts, field, value, field, value …
//
// # Fetched jobs
//
// A reply lists its jobs one after the other in one flat list. A job is
//
//	id, name, data, opts, timestamp           a job with delay 0, priority 0 and no other field; name is null if
//	                                          it equals that of the last job in this form, and so is opts
//	-1, id, name, data, opts, timestamp,      a job with no other field
//	    delay, priority
//	n, id, field, value, field, value …       any other job, with n texts after the id
//
// The first form begins with a text, the other forms with a number. The fields have the values
// from before the start of the job.

// baseFields are the fields that every job is added with, in the order of a reply.
var baseFields = [...]string{"name", "data", "opts", "timestamp", "delay", "priority"}

// encodePlainAdds returns the arguments of addPlainJobs.
func encodePlainAdds(base string, jobs []*backend.Add) []string {
	args, kinds := appendPlainAdds(make([]string, 2, 2+4*len(jobs)), jobs)
	args[0], args[1] = base, kinds
	return args
}

// appendPlainAdds appends the values of plain jobs, and returns their kinds too.
func appendPlainAdds(args []string, jobs []*backend.Add) (with []string, kindsOf string) {
	kinds := make([]byte, len(jobs))
	for i, a := range jobs {
		kinds[i] = '0'
		args = append(args, a.Data)
		if i > 0 && isLike(a, jobs[i-1]) {
			kinds[i] += 4
		} else {
			args = append(args, a.Name, a.Opts, timestampText(a))
		}
		switch {
		case a.State != backend.Waiting:
			kinds[i] += 2
			args = append(args, delayText(a), strconv.Itoa(a.Priority))
		case a.LIFO:
			kinds[i]++
		}
	}
	return args, string(kinds)
}

// isLike reports whether two jobs have the same name, options and timestamp.
func isLike(a, b *backend.Add) bool {
	return a.Name == b.Name && a.Opts == b.Opts && a.Timestamp.Equal(b.Timestamp) && a.TimestampText == b.TimestampText
}

// idText returns an id as Lua writes the number: with at most 14 significant digits.
func idText(n int64) string {
	if n < 1e14 {
		return decimal(n)
	}
	return strconv.FormatFloat(float64(n), 'g', 14, 64)
}

// encodeFinish returns the arguments of moveToFinished.
func encodeFinish(base string, f backend.Finish) []string {
	points := ""
	if f.MetricsPoints > 0 {
		points = strconv.Itoa(f.MetricsPoints)
	}
	args := make([]string, 9, 9+3*len(f.Ends))
	args[0], args[1], args[2] = base, decimal(f.Now.UnixMilli()), points
	options := workerArgs(f.Worker)
	copy(args[5:], options[:])
	args, kinds, value := appendEnds(args, f.Ends, true)
	args[3], args[4] = kinds, value
	return args
}

// appendEnds appends the values of jobs that end. It also returns the kinds of the jobs and
// their common value. If fetch is false, Fetch of the jobs is ignored.
func appendEnds(args []string, ends []*backend.End, fetch bool) (with []string, kindsOf, value string) {
	many := len(ends)
	kinds := make([]byte, many)
	value = commonValue(ends)
	from := len(args)
	args = slices.Grow(args, 3*many)[:from+2*many]
	ids, tokens := args[from:], args[from+many:]
	var more []string
	for i, e := range ends {
		kinds[i] = '0'
		if e.Fetch && fetch {
			kinds[i]++
		}
		if e.Hint == onlyBaseFields {
			kinds[i] += 4
		}
		ids[i], tokens[i] = e.JobID, e.Token
		if value == "" {
			args = append(args, endValue(e))
		}
		if e.Failure == nil && (e.Keep == backend.Keep{} || e.Keep == keepAll) {
			continue
		}
		kinds[i] += 2
		length := len(more)
		more = append(more, "", optional(e.Keep.Count), optional(e.Keep.Age), optional(e.Keep.Removals))
		if e.Failure != nil {
			more = appendFailure(append(more, strconv.Itoa(e.Attempts)), e.Failure)
		}
		more[length] = strconv.Itoa(len(more) - length - 1)
	}
	return append(args, more...), string(kinds), value
}

var keepAll = backend.Keep{Count: backend.Int(-1)}

// endValue returns the return value of a job that completes, or the reason of one that
// fails.
func endValue(e *backend.End) string {
	if e.Failure != nil {
		return e.Failure.Reason
	}
	return e.ReturnValue
}

// commonValue returns the value that all jobs finish with, or "" if there is none.
func commonValue(ends []*backend.End) string {
	value := endValue(ends[0])
	for _, e := range ends[1:] {
		if endValue(e) != value {
			return ""
		}
	}
	return value
}

// commonFields are the fields of the last job in the short form that was read from a reply.
type commonFields struct{ name, opts string }

// next reads the next job of a reply. isBase is true if the job has only the base fields.
// job.record is nil if the reply is incomplete.
func (c *commonFields) next(reply []rueidis.RedisMessage) (job recordReader, isBase bool, rest []rueidis.RedisMessage) {
	if !reply[0].IsInt64() {
		id, fields := text(reply[0]), reply[1:]
		if len(fields) < 4 {
			return recordReader{}, false, nil
		}
		if !fields[0].IsNil() {
			c.name = text(fields[0])
		}
		if !fields[2].IsNil() {
			c.opts = text(fields[2])
		}
		return recordReader{record: &backend.JobRecord{
			ID: id, Name: c.name, Data: []byte(text(fields[1])), Opts: c.opts, Timestamp: wire.ParseTime(text(fields[3])),
		}}, true, fields[4:]
	}
	n, _ := reply[0].AsInt64()
	job, reply = newRecordReader(text(reply[1])), reply[2:]
	if isBase = n < 0; isBase {
		n = int64(len(baseFields))
	}
	n = max(0, min(n, int64(len(reply))))
	if isBase {
		for i, value := range reply[:n] {
			job.set(baseFields[i], text(value))
		}
	} else {
		for i := 0; i+1 < int(n); i += 2 {
			job.set(text(reply[i]), text(reply[i+1]))
		}
	}
	return job, isBase, reply[n:]
}
