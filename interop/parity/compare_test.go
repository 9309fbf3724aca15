package parity_test

import (
	"maps"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/interop/parity"
)

// The run of these specs takes place within ten seconds of 2030. Stopped clocks show 2023.
var (
	runStart = time.UnixMilli(1_900_000_000_000)
	present  = parity.Present{
		Run:   parity.Window{From: runStart, To: runStart.Add(10 * time.Second)},
		Slack: 2 * time.Second,
	}
)

const (
	stopped    = "1700000000000"
	nowHere    = "1900000001000" // a time of the run at the reference
	nowThere   = "1900000001700" // a slightly later time at the subject
	muchLater  = "1900000008000" // further apart than two clocks of a run can be
	nowScore   = 1_900_000_001_000
	thereScore = 1_900_000_001_700
)

func str(text string) parity.Value         { return parity.Value{Type: "string", Text: text} }
func list(elements ...string) parity.Value { return parity.Value{Type: "list", List: elements} }
func set(members ...string) parity.Value   { return parity.Value{Type: "set", Members: members} }
func hash(fields map[string]string) parity.Value {
	return parity.Value{Type: "hash", Fields: fields}
}
func zset(members ...parity.ScoredMember) parity.Value {
	return parity.Value{Type: "zset", Scored: members}
}
func stream(entries ...[]parity.Field) parity.Value {
	return parity.Value{Type: "stream", Entries: entries}
}

func entry(namesAndValues ...string) []parity.Field {
	var fields []parity.Field
	for index := 0; index < len(namesAndValues); index += 2 {
		fields = append(fields, parity.Field{Name: namesAndValues[index], Value: namesAndValues[index+1]})
	}
	return fields
}

func expiring(value parity.Value, from, to time.Duration) parity.Value {
	value.Life = &parity.Span{Min: from, Max: to}
	return value
}

const jobKey = "bull:orders:1"

// job returns the hash of a job with changed or additional fields.
func job(changes ...string) parity.Value {
	fields := map[string]string{
		"name": "paint", "data": `{"n":1}`, "opts": `{"attempts":0}`, "timestamp": stopped, "delay": "0", "priority": "0",
	}
	for index := 0; index < len(changes); index += 2 {
		fields[changes[index]] = changes[index+1]
	}
	return hash(fields)
}

func jobWithout(field string) parity.Value {
	value := job()
	delete(value.Fields, field)
	return value
}

var _ = Describe("Comparing keyspaces", func() {
	whole := parity.Keyspace{
		jobKey:                       job(),
		"bull:orders:1:lock":         expiring(str("token"), 29*time.Second, 31*time.Second),
		"bull:orders:wait":           list("3", "2"),
		"bull:orders:delayed":        zset(parity.ScoredMember{Member: "4", Score: 1_700_000_000_000 * 4096}),
		"bull:orders:1:dependencies": set("bull:parts:1", "bull:parts:2"),
		"bull:orders:events":         stream(entry("event", "added", "jobId", "1"), entry("event", "waiting", "jobId", "1")),
	}

	It("finds no difference between equal keyspaces", func() {
		Expect(parity.Compare(whole, maps.Clone(whole), present)).To(BeEmpty())
	})

	It("finds a key that is missing from either keyspace", func() {
		for key := range whole {
			less := maps.Clone(whole)
			delete(less, key)
			Expect(parity.Compare(whole, less, present)).To(ConsistOf(HaveField("Key", key)))
			Expect(parity.Compare(less, whole, present)).To(ConsistOf(And(HaveField("Key", key), HaveField("Reference", "(absent)"))))
		}
	})

	It("returns differences in the order of the keys", func() {
		other := maps.Clone(whole)
		other["bull:orders:wait"] = list("2")
		other[jobKey] = job("name", "other")
		Expect(parity.Compare(whole, other, present)).To(HaveExactElements(
			HaveField("Key", jobKey), HaveField("Key", "bull:orders:wait")))
	})

	DescribeTable("finds", func(key string, reference, subject parity.Value, part string) {
		Expect(parity.Compare(parity.Keyspace{key: reference}, parity.Keyspace{key: subject}, present)).
			To(HaveExactElements(And(HaveField("Key", key), HaveField("Part", part))))
		Expect(parity.Compare(parity.Keyspace{key: subject}, parity.Keyspace{key: reference}, present)).To(HaveLen(1))
	},
		Entry("a different type", "k", list("a"), set("a"), "type"),
		Entry("a different text", "k", str("1"), str("2"), ""),
		Entry("a number with different digits", "k", str("1"), str("1.0"), ""),
		Entry("a different order of a list", "k", list("a", "b"), list("b", "a"), "elements"),
		Entry("a duplicate element of a list", "k", list("a"), list("a", "a"), "elements"),
		Entry("a different member of a set", "k", set("a", "b"), set("a", "c"), "members"),
		Entry("a different score", "k", zset(parity.ScoredMember{Member: "a", Score: 1}), zset(parity.ScoredMember{Member: "a", Score: 2}), "members and scores"),
		Entry("a different member with the same score", "k", zset(parity.ScoredMember{Member: "a", Score: 1}), zset(parity.ScoredMember{Member: "b", Score: 1}), "members and scores"),
		Entry("an additional member of a sorted set", "k", zset(parity.ScoredMember{Member: "a", Score: 1}), zset(parity.ScoredMember{Member: "a", Score: 1}, parity.ScoredMember{Member: "b", Score: 1}), "members and scores"),
		Entry("a different sequence number within a delayed score", "k", zset(parity.ScoredMember{Member: "a", Score: 1_700_000_000_000 * 4096}), zset(parity.ScoredMember{Member: "a", Score: 1_700_000_000_000*4096 + 1}), "members and scores"),
		Entry("times of the run that are too far apart", "k", zset(parity.ScoredMember{Member: "a", Score: nowScore}), zset(parity.ScoredMember{Member: "a", Score: nowScore + 7000}), "members and scores"),
		Entry("a different value of a field", jobKey, job(), job("delay", "5"), "field delay"),
		Entry("a missing field", jobKey, job(), jobWithout("priority"), "field priority"),
		Entry("a field that is empty in one keyspace", jobKey, job("failedReason", ""), job(), "field failedReason"),
		Entry("a different time of a stopped clock", jobKey, job(), job("timestamp", "1700000000001"), "field timestamp"),
		Entry("a time of the run where the other is of a stopped clock", jobKey, job("timestamp", nowHere), job(), "field timestamp"),
		Entry("times of the run that are too far apart", jobKey, job("finishedOn", nowHere), job("finishedOn", muchLater), "field finishedOn"),
		Entry("a different value in the options", jobKey, job(), job("opts", `{"attempts":1}`), "field opts"),
		Entry("an additional option", jobKey, job(), job("opts", `{"attempts":0,"lifo":true}`), "field opts"),
		Entry("a different type in the data", jobKey, job(), job("data", `{"n":"1"}`), "field data"),
		Entry("a different time of the run in the data", jobKey, job("data", nowHere), job("data", nowThere), "field data"),
		Entry("different integers that are equal as float64", jobKey, job("data", "9007199254740993"), job("data", "9007199254740992"), "field data"),
		Entry("a different order of a JSON list", jobKey, job("data", "[1,2]"), job("data", "[2,1]"), "field data"),
		Entry("different data that is not JSON", jobKey, job("data", "{"), job("data", "[ "), "field data"),
		Entry("a return value stored as raw text", jobKey, job("returnvalue", `"x"`), job("returnvalue", "x"), "field returnvalue"),
		Entry("different escapes in a failed reason, which is raw text", jobKey, job("failedReason", "<"), job("failedReason", `\u003c`), "field failedReason"),
		Entry("a different number of stack traces", jobKey, job("stacktrace", `["a"]`), job("stacktrace", `["a","b"]`), "field stacktrace"),
		Entry("a stack trace that is not a list", jobKey, job("stacktrace", `["a"]`), job("stacktrace", `"a"`), "field stacktrace"),
		Entry("a different parent", jobKey, job("parent", `{"id":"p"}`), job("parent", `{"id":"q"}`), "field parent"),
		Entry("a different return value of a child", "bull:orders:p:processed", hash(map[string]string{"bull:parts:1": "1"}), hash(map[string]string{"bull:parts:1": "2"}), "field bull:parts:1"),
		Entry("a different failure of a child, which is raw text", "bull:orders:p:failed", hash(map[string]string{"bull:parts:1": `{"a":1}`}), hash(map[string]string{"bull:parts:1": `{"a": 1}`}), "field bull:parts:1"),
		Entry("a different version outside meta", "bull:orders:x", hash(map[string]string{"version": "a"}), hash(map[string]string{"version": "b"}), "field version"),
		Entry("a missing version", "bull:orders:meta", hash(map[string]string{"version": "a"}), hash(nil), "field version"),
		Entry("a different event", "k", stream(entry("event", "a")), stream(entry("event", "b")), "entry 1"),
		Entry("an additional event", "k", stream(entry("event", "a")), stream(entry("event", "a"), entry("event", "drained")), "entry 2"),
		Entry("a different order of an event's fields", "k", stream(entry("event", "a", "jobId", "1")), stream(entry("jobId", "1", "event", "a")), "entry 1"),
		Entry("an additional field of an event", "k", stream(entry("event", "a")), stream(entry("event", "a", "prev", "active")), "entry 1"),
		Entry("a different time of a stopped clock in an event", "k", stream(entry("event", "delayed", "delay", stopped)), stream(entry("event", "delayed", "delay", "1700000000500")), "entry 1"),
		Entry("an expiry of one key only", "k", expiring(str("a"), time.Second, time.Second), str("a"), "expiry"),
		Entry("times to live that differ by more than two percent", "k", expiring(str("a"), 30*time.Second, 30*time.Second), expiring(str("a"), 31*time.Second, 31*time.Second), "expiry"),
	)

	DescribeTable("ignores", func(key string, reference, subject parity.Value) {
		Expect(parity.Compare(parity.Keyspace{key: reference}, parity.Keyspace{key: subject}, present)).To(BeEmpty())
		Expect(parity.Compare(parity.Keyspace{key: subject}, parity.Keyspace{key: reference}, present)).To(BeEmpty())
	},
		Entry("the order and formatting of JSON in the options", jobKey, job("opts", `{"attempts":3,"backoff":{"type":"fixed","delay":1000}}`), job("opts", `{"backoff":{"delay":1e3,"type":"fixed"}, "attempts":3}`)),
		Entry("escapes in JSON", jobKey, job("data", `{"html":"<&>"}`), job("data", `{"html":"\u003c\u0026\u003e"}`)),
		Entry("the order of JSON in a progress event", "k", stream(entry("event", "progress", "jobId", "1", "data", `{"a":1,"b":2}`)), stream(entry("event", "progress", "jobId", "1", "data", `{"b":2,"a":1}`))),
		Entry("the order of JSON in the children's return values", "bull:orders:p:processed", hash(map[string]string{"c": `{"a":1,"b":2}`}), hash(map[string]string{"c": `{"b":2,"a":1}`})),
		Entry("the text of stack traces", jobKey, job("stacktrace", `["Error: x\n at a.js"]`), job("stacktrace", `["x\ngoroutine 1"]`)),
		Entry("the version in meta", "bull:orders:meta", hash(map[string]string{"version": "bullmq:6.7.0"}), hash(map[string]string{"version": "other"})),
		Entry("small differences between times of the run", jobKey, job("timestamp", nowHere, "processedOn", nowThere), job("timestamp", nowThere, "processedOn", nowHere)),
		Entry("small differences between times of the run in the options", jobKey, job("opts", `{"timestamp":`+nowHere+`}`), job("opts", `{"timestamp":`+nowThere+`}`)),
		Entry("small differences between scores that are times of the run", "k", zset(parity.ScoredMember{Member: "a", Score: nowScore}), zset(parity.ScoredMember{Member: "a", Score: thereScore})),
		Entry("small differences between scores that are scaled times of the run", "k", zset(parity.ScoredMember{Member: "a", Score: nowScore * 4096}), zset(parity.ScoredMember{Member: "a", Score: thereScore*4096 + 3})),
		Entry("the order of members whose scores are times of the run", "k",
			zset(parity.ScoredMember{Member: "0", Score: 0}, parity.ScoredMember{Member: "a", Score: nowScore}, parity.ScoredMember{Member: "b", Score: nowScore + 1}),
			zset(parity.ScoredMember{Member: "0", Score: 0}, parity.ScoredMember{Member: "b", Score: nowScore}, parity.ScoredMember{Member: "a", Score: nowScore})),
		Entry("small differences between times of the run in an event", "k", stream(entry("event", "delayed", "delay", nowHere)), stream(entry("event", "delayed", "delay", nowThere))),
		Entry("times to live that differ by less than two percent", "k", expiring(str("a"), 30*time.Second, 30*time.Second), expiring(str("a"), 30500*time.Millisecond, 30500*time.Millisecond)),
		Entry("times to live that are uncertain because a step was slow", "k", expiring(str("a"), 25*time.Second, 32*time.Second), expiring(str("a"), 29900*time.Millisecond, 30*time.Second)),
	)
})
