package scripts

import (
	"strconv"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

// The compact forms of the calls that carry many jobs. Each value of a call costs
// Redis about as much as a small command (docs/adr/0002), so values that repeat are
// left out. parts/codec.lua is the other side.
//
// # Added jobs
//
// addPlainJobs takes kinds, a digit for each job, and then the values of each job:
//
//	0  data, name, opts, timestamp; the job is fetched last
//	1  the same; the job is fetched next (lifo)
//	2  the same, then delay and priority
//	4  added to the digit: name, opts and timestamp are those of the job before and left out
//
// It returns the number of the first job; [idText] makes ids of it and those after it.
//
// # Finished jobs
//
// moveToFinished takes kinds, a digit for each job, which is the sum of
//
//	1  fetch a next job under the same token
//	2  the job has more to tell
//	4  the job had only the six fields that every job has when it was fetched
//
// and value, the common value of all jobs, or "". Then follow columns: all ids, all
// tokens and, without a common value, all values. Then, for each job with more to
// tell, the number of values that follow it: keepCount, keepAge, keepLimit and, of a
// failed job, attempts, field, value, field, value …
//
// # Fetched jobs
//
// A reply lists its jobs one after the other in one flat list. A job is
//
//	id, name, data, opts, timestamp           with delay 0 and priority 0, and no other field;
//	                                          null for a name or opts equal to those of the last such job
//	-1, id, name, data, opts, timestamp,      with no other field
//	    delay, priority
//	n, id, field, value, field, value …       any other job, with n texts
//
// An id is text and the first value of the other forms is a number, so a reader can
// tell them apart. The fields are those from before the start of the job.

// baseFields are the fields that every job is added with, in the order of a reply.
var baseFields = [...]string{"name", "data", "opts", "timestamp", "delay", "priority"}

// encodePlainAdds returns the arguments of addPlainJobs.
func encodePlainAdds(base string, jobs []*backend.Add) []string {
	kinds := make([]byte, len(jobs))
	args := make([]string, 2, 2+4*len(jobs))
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
	args[0], args[1] = base, string(kinds)
	return args
}

// isLike reports whether two jobs have the same name, options and timestamp.
func isLike(a, b *backend.Add) bool {
	return a.Name == b.Name && a.Opts == b.Opts && a.Timestamp.Equal(b.Timestamp) && a.TimestampText == b.TimestampText
}

// idText returns an id as Lua writes the number, with 14 digits at most.
func idText(n int64) string {
	if n < 1e14 {
		return decimal(n)
	}
	return strconv.FormatFloat(float64(n), 'g', 14, 64)
}

// encodeFinish returns the arguments of moveToFinished.
func encodeFinish(base string, f Finish) []string {
	points := ""
	if f.Points > 0 {
		points = decimal(f.Points)
	}
	many := len(f.Ends)
	kinds := make([]byte, many)
	value := commonValue(f.Ends)
	args := make([]string, 9+2*many, 9+3*many)
	copy(args, []string{base, decimal(f.NowMs), points})
	args[4] = value
	copy(args[5:], f.Worker.args())
	ids, tokens := args[9:], args[9+many:]
	var more []string
	for i, e := range f.Ends {
		kinds[i] = '0'
		if e.Fetch {
			kinds[i]++
		}
		if e.Bare {
			kinds[i] += 4
		}
		ids[i], tokens[i] = e.JobID, e.Token
		if value == "" {
			args = append(args, e.Value)
		}
		switch {
		case e.Failed:
			kinds[i] += 2
			more = append(more, decimal(int64(4+len(e.Fields))), e.Keep.Count, e.Keep.Age, e.Keep.Limit, decimal(e.Attempts))
			more = append(more, e.Fields...)
		case e.Keep != Keep{} && e.Keep != Keep{Count: "-1"}:
			kinds[i] += 2
			more = append(more, "3", e.Keep.Count, e.Keep.Age, e.Keep.Limit)
		}
	}
	args[3] = string(kinds)
	return append(args, more...)
}

// commonValue returns the value that all jobs finish with, or "" if there is none.
func commonValue(ends []*End) string {
	for _, e := range ends[1:] {
		if e.Value != ends[0].Value {
			return ""
		}
	}
	return ends[0].Value
}

// commonFields are those of the last job of the short form in a reply.
type commonFields struct{ name, opts string }

// next reads the next job of a reply. bare is set if it has only the base fields.
func (c *commonFields) next(reply []rueidis.RedisMessage) (id string, hash []string, bare bool, rest []rueidis.RedisMessage) {
	if !reply[0].IsInt64() {
		id, reply = text(reply[0]), reply[1:]
		if len(reply) < 4 {
			return "", nil, false, nil
		}
		if !reply[0].IsNil() {
			c.name = text(reply[0])
		}
		if !reply[2].IsNil() {
			c.opts = text(reply[2])
		}
		hash = append(make([]string, 0, roomForHash), "name", c.name, "data", text(reply[1]), "opts", c.opts,
			"timestamp", text(reply[3]), "delay", "0", "priority", "0")
		return id, hash, true, reply[4:]
	}
	n, _ := reply[0].AsInt64()
	id, reply = text(reply[1]), reply[2:]
	if bare = n < 0; bare {
		n = int64(len(baseFields))
	}
	n = max(0, min(n, int64(len(reply))))
	hash = make([]string, 0, max(roomForHash, int(n)+startFields))
	for i, value := range reply[:n] {
		if bare {
			hash = append(hash, baseFields[i])
		}
		hash = append(hash, text(value))
	}
	return id, hash, bare, reply[n:]
}

// The start of a job sets three fields at most, each with its value.
const (
	startFields = 6
	roomForHash = 2*len(baseFields) + startFields
)
