package tests

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// payload is the data of a job of the mix. Its sequence number identifies the job whatever its id.
type payload struct {
	Sequence         int `json:"sequence"`
	FailUntilAttempt int `json:"failUntilAttempt,omitempty"`
	Payload          any `json:"payload"`
}

// mixOfJobs returns jobs of every kind, determined by the seed. A job's name is its kind. Some fail without a retry;
// all others complete.
func mixOfJobs(count int, seed uint64) []bullmq.BulkJob {
	m := mixer{rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))}
	kinds := []string{
		"standard", "delayed", "prioritised", "lifo", "retried", "failing", "failing-once", "custom-id",
		"removed", "kept", "deduplicated", "detailed",
	}
	jobs := make([]bullmq.BulkJob, count)
	for i := range jobs {
		name := kinds[m.whole(0, len(kinds)-1)]
		data := payload{Sequence: i, Payload: payloads[m.whole(0, len(payloads)-1)]}
		jobs[i] = bullmq.BulkJob{Name: name, Options: m.options(name, seed, &data)}
		jobs[i].Data = data
	}
	return jobs
}

type mixer struct{ *rand.Rand }

func (m mixer) whole(from, to int) int { return from + m.IntN(to-from+1) }

func (m mixer) ms(from, to int) time.Duration {
	return time.Duration(m.whole(from, to)) * time.Millisecond
}

func (m mixer) options(kind string, seed uint64, data *payload) *bullmq.JobOptions {
	o := &bullmq.JobOptions{}
	switch kind {
	case "standard":
		return nil
	case "delayed":
		o.Delay = m.ms(1, 300)
	case "prioritised":
		o.Priority = m.whole(1, 20)
	case "lifo":
		o.LIFO = true
	case "retried":
		o.Attempts, o.Backoff = 3, m.backoff()
		o.Priority = m.whole(0, 1) * m.whole(1, 5)
		data.FailUntilAttempt = m.whole(2, 3)
	case "failing":
		o.Attempts, o.Backoff = m.whole(2, 3), m.backoff()
		data.FailUntilAttempt = 99
	case "failing-once":
		data.FailUntilAttempt = 2
		if m.whole(0, 1) == 1 {
			o.KeepFailed = bullmq.KeepNone()
		}
	case "custom-id":
		o.JobID = fmt.Sprintf("go-%d-%d é😀", seed, data.Sequence)
	case "removed":
		o.KeepCompleted = []bullmq.Retention{bullmq.KeepNone(), bullmq.KeepLast(0)}[m.whole(0, 1)]
	case "kept":
		o.KeepCompleted = []bullmq.Retention{
			bullmq.KeepAll(), bullmq.KeepLast(100000), bullmq.KeepFor(time.Hour), bullmq.KeepWithin(bullmq.RetentionLimits{Age: time.Hour, Count: 100000, Removals: 10}),
		}[m.whole(0, 3)]
	case "deduplicated":
		o.Deduplication = &bullmq.Deduplication{ID: fmt.Sprintf("only-%d-%d", seed, data.Sequence)}
	case "detailed":
		o.KeepLogs, o.StackTraceLimit, o.SizeLimit, o.Timestamp = 3, 2, 1<<20, time.Now().Add(-time.Minute)
		o.Extra = map[string]json.RawMessage{"foo": json.RawMessage(`{"bar":[1,"<&>"]}`)}
	}
	return o
}

func (m mixer) backoff() *bullmq.Backoff {
	jittered := bullmq.ExponentialBackoff(m.ms(4, 20))
	jittered.Jitter = 0.5
	return []*bullmq.Backoff{nil, bullmq.FixedBackoff(m.ms(10, 40)), bullmq.ExponentialBackoff(m.ms(5, 20)), jittered}[m.whole(0, 3)]
}

var payloads = []any{
	nil, 0, -1.5, int64(9007199254740991), "", "text", true, false, []any{}, object{},
	"señor 日本語 😀 👩‍👩‍👧",
	`<a href="x">1 & 2 > 0</a>`,
	"line\u2028paragraph\u2029 \"quoted\" back\\slash \u0001\t\n\b\f\u007f",
	object{"nested": object{"list": []any{1, []any{2, object{"deep": nil}}}, "empty": object{}, "none": []any{}}, "key <&> é": 1},
	[]any{object{"id": 1, "tags": []any{"a", "b"}}, object{"id": 2, "tags": []any{}}},
	1e21, 1e-7, 0.1, 123456789012,
	strings.Repeat("x", 2000),
}

// stringified returns the text that JSON.stringify produces, without using the SDK. The other library must
// receive it byte for byte.
func stringified(value any) string {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(err)
	}
	return strings.NewReplacer(`\\`, `\\`, `\u2028`, "\u2028", `\u2029`, "\u2029").Replace(strings.TrimSuffix(out.String(), "\n"))
}
