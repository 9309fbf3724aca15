package parity_test

import (
	"maps"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/interop/parity"
)

// The run of these specs took place in ten seconds of 2030; stopped clocks showed 2023.
var (
	runStart = time.UnixMilli(1_900_000_000_000)
	present  = parity.Present{
		Run:   parity.Window{From: runStart, To: runStart.Add(10 * time.Second)},
		Slack: 2 * time.Second,
	}
)

const (
	stopped    = "1700000000000"
	nowHere    = "1900000001000" // a time of the run on one side
	nowThere   = "1900000001700" // and a little later on the other
	muchLater  = "1900000008000" // further apart than the sides' clocks can be
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

// job is the hash of a job with one field changed, added, or (with two) several.
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

	It("finds nothing between equal ones", func() {
		Expect(parity.Compare(whole, maps.Clone(whole), present)).To(BeEmpty())
	})

	It("finds a key that one side lacks, whichever side", func() {
		for key := range whole {
			less := maps.Clone(whole)
			delete(less, key)
			Expect(parity.Compare(whole, less, present)).To(ConsistOf(HaveField("Key", key)))
			Expect(parity.Compare(less, whole, present)).To(ConsistOf(And(HaveField("Key", key), HaveField("Reference", "(absent)"))))
		}
	})

	It("lists differences in the order of the keys", func() {
		other := maps.Clone(whole)
		other["bull:orders:wait"] = list("2")
		other[jobKey] = job("name", "other")
		Expect(parity.Compare(whole, other, present)).To(HaveExactElements(
			HaveField("Key", jobKey), HaveField("Key", "bull:orders:wait")))
	})

	DescribeTable("finds what differs in a key", func(key string, reference, subject parity.Value, part string) {
		Expect(parity.Compare(parity.Keyspace{key: reference}, parity.Keyspace{key: subject}, present)).
			To(HaveExactElements(And(HaveField("Key", key), HaveField("Part", part))))
		Expect(parity.Compare(parity.Keyspace{key: subject}, parity.Keyspace{key: reference}, present)).To(HaveLen(1))
	},
		Entry("another type", "k", list("a"), set("a"), "type"),
		Entry("another text", "k", str("1"), str("2"), ""),
		Entry("the same number in other digits", "k", str("1"), str("1.0"), ""),
		Entry("another order of a list", "k", list("a", "b"), list("b", "a"), "elements"),
		Entry("a doubled element of a list", "k", list("a"), list("a", "a"), "elements"),
		Entry("another member of a set", "k", set("a", "b"), set("a", "c"), "members"),
		Entry("another score", "k", zset(parity.ScoredMember{Member: "a", Score: 1}), zset(parity.ScoredMember{Member: "a", Score: 2}), "members and scores"),
		Entry("another member with the score", "k", zset(parity.ScoredMember{Member: "a", Score: 1}), zset(parity.ScoredMember{Member: "b", Score: 1}), "members and scores"),
		Entry("a further member of a zset", "k", zset(parity.ScoredMember{Member: "a", Score: 1}), zset(parity.ScoredMember{Member: "a", Score: 1}, parity.ScoredMember{Member: "b", Score: 1}), "members and scores"),
		Entry("the sequence within a delayed score", "k", zset(parity.ScoredMember{Member: "a", Score: 1_700_000_000_000 * 4096}), zset(parity.ScoredMember{Member: "a", Score: 1_700_000_000_000*4096 + 1}), "members and scores"),
		Entry("times of the run that are too far apart", "k", zset(parity.ScoredMember{Member: "a", Score: nowScore}), zset(parity.ScoredMember{Member: "a", Score: nowScore + 7000}), "members and scores"),
		Entry("another value of a field", jobKey, job(), job("delay", "5"), "field delay"),
		Entry("a field that one side lacks", jobKey, job(), jobWithout("priority"), "field priority"),
		Entry("a field that is empty on one side", jobKey, job("failedReason", ""), job(), "field failedReason"),
		Entry("a time of a stopped clock", jobKey, job(), job("timestamp", "1700000000001"), "field timestamp"),
		Entry("a time of the run and one of a stopped clock", jobKey, job("timestamp", nowHere), job(), "field timestamp"),
		Entry("times of the run that are too far apart", jobKey, job("finishedOn", nowHere), job("finishedOn", muchLater), "field finishedOn"),
		Entry("another value in the options", jobKey, job(), job("opts", `{"attempts":1}`), "field opts"),
		Entry("a further option", jobKey, job(), job("opts", `{"attempts":0,"lifo":true}`), "field opts"),
		Entry("another type in the data", jobKey, job(), job("data", `{"n":"1"}`), "field data"),
		Entry("a time of the run in the data", jobKey, job("data", nowHere), job("data", nowThere), "field data"),
		Entry("large integers that float64 can't tell apart", jobKey, job("data", "9007199254740993"), job("data", "9007199254740992"), "field data"),
		Entry("another order in a JSON list", jobKey, job("data", "[1,2]"), job("data", "[2,1]"), "field data"),
		Entry("data that isn't JSON", jobKey, job("data", "{"), job("data", "[ "), "field data"),
		Entry("a return value given as raw text", jobKey, job("returnvalue", `"x"`), job("returnvalue", "x"), "field returnvalue"),
		Entry("escapes in a failed reason, which is raw text", jobKey, job("failedReason", "<"), job("failedReason", `\u003c`), "field failedReason"),
		Entry("the number of stack traces", jobKey, job("stacktrace", `["a"]`), job("stacktrace", `["a","b"]`), "field stacktrace"),
		Entry("a stack trace that isn't a list", jobKey, job("stacktrace", `["a"]`), job("stacktrace", `"a"`), "field stacktrace"),
		Entry("another parent", jobKey, job("parent", `{"id":"p"}`), job("parent", `{"id":"q"}`), "field parent"),
		Entry("a child's value", "bull:orders:p:processed", hash(map[string]string{"bull:parts:1": "1"}), hash(map[string]string{"bull:parts:1": "2"}), "field bull:parts:1"),
		Entry("a child's failure, which is raw text", "bull:orders:p:failed", hash(map[string]string{"bull:parts:1": `{"a":1}`}), hash(map[string]string{"bull:parts:1": `{"a": 1}`}), "field bull:parts:1"),
		Entry("a version outside meta", "bull:orders:x", hash(map[string]string{"version": "a"}), hash(map[string]string{"version": "b"}), "field version"),
		Entry("a version that one side doesn't write", "bull:orders:meta", hash(map[string]string{"version": "a"}), hash(nil), "field version"),
		Entry("another event", "k", stream(entry("event", "a")), stream(entry("event", "b")), "entry 1"),
		Entry("a further event", "k", stream(entry("event", "a")), stream(entry("event", "a"), entry("event", "drained")), "entry 2"),
		Entry("another order of an event's fields", "k", stream(entry("event", "a", "jobId", "1")), stream(entry("jobId", "1", "event", "a")), "entry 1"),
		Entry("a further field of an event", "k", stream(entry("event", "a")), stream(entry("event", "a", "prev", "active")), "entry 1"),
		Entry("an event's time of a stopped clock", "k", stream(entry("event", "delayed", "delay", stopped)), stream(entry("event", "delayed", "delay", "1700000000500")), "entry 1"),
		Entry("an expiry on one side alone", "k", expiring(str("a"), time.Second, time.Second), str("a"), "expiry"),
		Entry("lives further apart than two parts in a hundred", "k", expiring(str("a"), 30*time.Second, 30*time.Second), expiring(str("a"), 31*time.Second, 31*time.Second), "expiry"),
	)

	DescribeTable("takes as alike", func(key string, reference, subject parity.Value) {
		Expect(parity.Compare(parity.Keyspace{key: reference}, parity.Keyspace{key: subject}, present)).To(BeEmpty())
		Expect(parity.Compare(parity.Keyspace{key: subject}, parity.Keyspace{key: reference}, present)).To(BeEmpty())
	},
		Entry("the order and spelling of JSON in the options", jobKey, job("opts", `{"attempts":3,"backoff":{"type":"fixed","delay":1000}}`), job("opts", `{"backoff":{"delay":1e3,"type":"fixed"}, "attempts":3}`)),
		Entry("escapes in JSON", jobKey, job("data", `{"html":"<&>"}`), job("data", `{"html":"\u003c\u0026\u003e"}`)),
		Entry("JSON in a progress event", "k", stream(entry("event", "progress", "jobId", "1", "data", `{"a":1,"b":2}`)), stream(entry("event", "progress", "jobId", "1", "data", `{"b":2,"a":1}`))),
		Entry("JSON among the children's values", "bull:orders:p:processed", hash(map[string]string{"c": `{"a":1,"b":2}`}), hash(map[string]string{"c": `{"b":2,"a":1}`})),
		Entry("the text of stack traces", jobKey, job("stacktrace", `["Error: x\n at a.js"]`), job("stacktrace", `["x\ngoroutine 1"]`)),
		Entry("the version in meta", "bull:orders:meta", hash(map[string]string{"version": "bullmq:6.7.0"}), hash(map[string]string{"version": "other"})),
		Entry("times of the run", jobKey, job("timestamp", nowHere, "processedOn", nowThere), job("timestamp", nowThere, "processedOn", nowHere)),
		Entry("times of the run in the options", jobKey, job("opts", `{"timestamp":`+nowHere+`}`), job("opts", `{"timestamp":`+nowThere+`}`)),
		Entry("scores that are times of the run", "k", zset(parity.ScoredMember{Member: "a", Score: nowScore}), zset(parity.ScoredMember{Member: "a", Score: thereScore})),
		Entry("scores that are scaled times of the run", "k", zset(parity.ScoredMember{Member: "a", Score: nowScore * 4096}), zset(parity.ScoredMember{Member: "a", Score: thereScore*4096 + 3})),
		Entry("another order where scores are times of the run", "k",
			zset(parity.ScoredMember{Member: "0", Score: 0}, parity.ScoredMember{Member: "a", Score: nowScore}, parity.ScoredMember{Member: "b", Score: nowScore + 1}),
			zset(parity.ScoredMember{Member: "0", Score: 0}, parity.ScoredMember{Member: "b", Score: nowScore}, parity.ScoredMember{Member: "a", Score: nowScore})),
		Entry("an event's time of the run", "k", stream(entry("event", "delayed", "delay", nowHere)), stream(entry("event", "delayed", "delay", nowThere))),
		Entry("lives within two parts in a hundred", "k", expiring(str("a"), 30*time.Second, 30*time.Second), expiring(str("a"), 30500*time.Millisecond, 30500*time.Millisecond)),
		Entry("lives that a slow step makes uncertain", "k", expiring(str("a"), 25*time.Second, 32*time.Second), expiring(str("a"), 29900*time.Millisecond, 30*time.Second)),
	)
})
