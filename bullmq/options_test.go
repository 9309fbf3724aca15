package bullmq_test

import (
	"encoding/json"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("Job options", func() {
	DescribeTable("are stored under the names that all clients read", func(options bullmq.JobOptions, wire string) {
		Expect(json.Marshal(options)).To(MatchJSON(wire))

		var back bullmq.JobOptions
		Expect(json.Unmarshal([]byte(wire), &back)).To(Succeed())
		Expect(json.Marshal(back)).To(MatchJSON(wire), "read and written again")
	},
		Entry("none but attempts", bullmq.JobOptions{}, `{"attempts":0}`),
		Entry("attempts", bullmq.JobOptions{Attempts: 3}, `{"attempts":3}`),
		Entry("delay", bullmq.JobOptions{Delay: time.Minute}, `{"attempts":0,"delay":60000}`),
		Entry("a delay with a fraction", bullmq.JobOptions{Delay: 1500 * time.Microsecond}, `{"attempts":0,"delay":1.5}`),
		Entry("priority", bullmq.JobOptions{Priority: 10}, `{"attempts":0,"priority":10}`),
		Entry("lifo", bullmq.JobOptions{LIFO: true}, `{"attempts":0,"lifo":true}`),
		Entry("jobId", bullmq.JobOptions{JobID: "a<b"}, `{"attempts":0,"jobId":"a<b"}`),
		Entry("timestamp", bullmq.JobOptions{Timestamp: time.UnixMilli(1700000000000)}, `{"attempts":0,"timestamp":1700000000000}`),
		Entry("a fixed backoff", bullmq.JobOptions{Backoff: bullmq.Fixed(time.Second)}, `{"attempts":0,"backoff":{"type":"fixed","delay":1000}}`),
		Entry("an exponential backoff with jitter",
			bullmq.JobOptions{Backoff: &bullmq.Backoff{Type: "exponential", Delay: time.Second, Jitter: 0.25}},
			`{"attempts":0,"backoff":{"type":"exponential","delay":1000,"jitter":0.25}}`),
		Entry("a backoff of one's own", bullmq.JobOptions{Backoff: bullmq.Custom("tide")}, `{"attempts":0,"backoff":{"type":"tide"}}`),
		Entry("removeOnComplete, removeOnFail", bullmq.JobOptions{RemoveOnComplete: bullmq.RemoveAll(), RemoveOnFail: bullmq.KeepFor(time.Hour, 5, 0)},
			`{"attempts":0,"removeOnComplete":true,"removeOnFail":{"age":3600,"count":5}}`),
		Entry("keepLogs", bullmq.JobOptions{KeepLogs: 5}, `{"attempts":0,"kl":5}`),
		Entry("stackTraceLimit", bullmq.JobOptions{StackTraceLimit: 2}, `{"attempts":0,"stackTraceLimit":2}`),
		Entry("no stack traces", bullmq.JobOptions{StackTraceLimit: bullmq.NoStackTraces}, `{"attempts":0,"stackTraceLimit":0}`),
		Entry("sizeLimit", bullmq.JobOptions{SizeLimit: 100}, `{"attempts":0,"sizeLimit":100}`),
		Entry("deduplication", bullmq.JobOptions{Deduplication: &bullmq.Deduplication{ID: "d"}}, `{"attempts":0,"de":{"id":"d"}}`),
		Entry("deduplication with everything",
			bullmq.JobOptions{Deduplication: &bullmq.Deduplication{ID: "d", TTL: time.Second, Extend: true, Replace: true, KeepLastIfActive: true, Reschedule: true}},
			`{"attempts":0,"de":{"id":"d","ttl":1000,"extend":true,"replace":true,"keepLastIfActive":true,"reschedule":true}}`),
		Entry("parent", bullmq.JobOptions{Parent: &bullmq.Parent{ID: "p", Queue: "bull:orders"}}, `{"attempts":0,"parent":{"id":"p","queue":"bull:orders"}}`),
		Entry("failParentOnFailure", bullmq.JobOptions{FailParentOnFailure: true}, `{"attempts":0,"fpof":true}`),
		Entry("continueParentOnFailure", bullmq.JobOptions{ContinueParentOnFailure: true}, `{"attempts":0,"cpof":true}`),
		Entry("ignoreDependencyOnFailure", bullmq.JobOptions{IgnoreDependencyOnFailure: true}, `{"attempts":0,"idof":true}`),
		Entry("removeDependencyOnFailure", bullmq.JobOptions{RemoveDependencyOnFailure: true}, `{"attempts":0,"rdof":true}`),
		Entry("telemetry", bullmq.JobOptions{Telemetry: &bullmq.JobTelemetry{Metadata: "trace", OmitContext: true}}, `{"attempts":0,"tm":"trace","omc":true}`),
		Entry("what only others know", bullmq.JobOptions{Extra: map[string]json.RawMessage{"foo": []byte(`{"a":[1.0]}`)}}, `{"attempts":0,"foo":{"a":[1.0]}}`),
	)

	DescribeTable("are read in every form that some client writes", func(wire string, want bullmq.JobOptions) {
		var options bullmq.JobOptions
		Expect(json.Unmarshal([]byte(wire), &options)).To(Succeed())
		Expect(options).To(Equal(want))
	},
		Entry("an empty list, as Lua writes an empty object", `[]`, bullmq.JobOptions{}),
		Entry("nothing", `null`, bullmq.JobOptions{}),
		Entry("public names", `{"attempts":2,"keepLogs":5,"failParentOnFailure":true}`,
			bullmq.JobOptions{Attempts: 2, KeepLogs: 5, FailParentOnFailure: true}),
		Entry("telemetry under its public name", `{"telemetry":{"metadata":"trace","omitContext":true}}`,
			bullmq.JobOptions{Telemetry: &bullmq.JobTelemetry{Metadata: "trace", OmitContext: true}}),
		Entry("numbers as Lua writes large ones", `{"attempts":1e1,"timestamp":1.7e+12}`,
			bullmq.JobOptions{Attempts: 10, Timestamp: time.UnixMilli(1700000000000)}),
		Entry("removeOnFail that is a number", `{"removeOnFail":7}`, bullmq.JobOptions{RemoveOnFail: bullmq.KeepLast(7)}),
		Entry("removeOnFail that is false", `{"removeOnFail":false}`, bullmq.JobOptions{RemoveOnFail: bullmq.KeepAll()}),
		Entry("a stackTraceLimit of 0", `{"stackTraceLimit":0}`, bullmq.JobOptions{StackTraceLimit: bullmq.NoStackTraces}),
		Entry("an empty parent list", `{"parent":[]}`, bullmq.JobOptions{Extra: map[string]json.RawMessage{"parent": []byte(`[]`)}}),
	)

	It("are read with a backoff that is a number, which means fixed", func() {
		var options bullmq.JobOptions
		Expect(json.Unmarshal([]byte(`{"backoff":1500}`), &options)).To(Succeed())
		Expect(options.Backoff.Type).To(Equal("fixed"))
		Expect(options.Backoff.Delay).To(Equal(1500 * time.Millisecond))
	})

	DescribeTable("keep what they can't take in, and write it again", func(wire, again string) {
		var options bullmq.JobOptions
		Expect(json.Unmarshal([]byte(wire), &options)).To(Succeed())
		Expect(json.Marshal(options)).To(MatchJSON(again))
	},
		Entry("a newer client's options", `{"attempts":1,"foo":1,"bar":{"x":null}}`, `{"attempts":1,"foo":1,"bar":{"x":null}}`),
		Entry("a delay that is a text", `{"attempts":0,"delay":"1000"}`, `{"attempts":0,"delay":"1000"}`),
		Entry("a delay of zero, which is more than none", `{"attempts":0,"delay":0}`, `{"attempts":0,"delay":0}`),
		Entry("lifo false", `{"attempts":0,"lifo":false}`, `{"attempts":0,"lifo":false}`),
		Entry("attempts that are a text", `{"attempts":"3"}`, `{"attempts":"3"}`),
		Entry("a priority with a fraction", `{"attempts":0,"priority":1.5}`, `{"attempts":0,"priority":1.5}`),
		Entry("a removal rule nobody knows", `{"attempts":0,"removeOnComplete":"daily"}`, `{"attempts":0,"removeOnComplete":"daily"}`),
		Entry("under the stored name, whatever it was called", `{"attempts":0,"keepLogs":"many"}`, `{"attempts":0,"kl":"many"}`),
		Entry("further fields of a backoff", `{"attempts":0,"backoff":{"type":"fixed","delay":0,"note":"x"}}`, `{"attempts":0,"backoff":{"type":"fixed","delay":0,"note":"x"}}`),
		Entry("further fields of a deduplication", `{"attempts":0,"de":{"id":"d","extend":false,"note":"x"}}`, `{"attempts":0,"de":{"id":"d","extend":false,"note":"x"}}`),
		Entry("a scheduler's fields", `{"attempts":0,"repeat":{"every":1000,"count":1},"prevMillis":1,"repeatJobKey":"k"}`,
			`{"attempts":0,"repeat":{"every":1000,"count":1},"prevMillis":1,"repeatJobKey":"k"}`),
	)

	It("are refused when they are no object", func() {
		var options bullmq.JobOptions
		Expect(json.Unmarshal([]byte(`"attempts"`), &options)).NotTo(Succeed())
		Expect(json.Unmarshal([]byte(`[1]`), &options)).NotTo(Succeed())
	})

	Describe("that Node refuses", func() {
		DescribeTable("are refused before anything is sent, with what to change", func(options bullmq.JobOptions, data any, hints ...string) {
			name := newQueueName()
			queue := newQueue(name, nil)
			before := snapshot(name)
			job, err := queue.Add(specContext(), "paint", data, &options)
			for _, hint := range append(hints, name, `"paint"`) {
				Expect(err).To(MatchError(ContainSubstring(hint)))
			}
			Expect(job).To(BeNil())
			Expect(snapshot(name)).To(Equal(before))
		},
			Entry("a priority above the highest", bullmq.JobOptions{Priority: 2097152}, nil, "2097152", "2097151"),
			Entry("a priority with a fraction", bullmq.JobOptions{Extra: map[string]json.RawMessage{"priority": []byte("1.5")}}, nil, "1.5", "whole number"),
			Entry("two bytes a letter, one byte too many", bullmq.JobOptions{SizeLimit: 7}, "ééé", "8 bytes", "7 bytes", "SizeLimit"),
			Entry("a deduplication without an id", bullmq.JobOptions{Deduplication: &bullmq.Deduplication{TTL: time.Second}}, nil, "Deduplication", "ID"),
			Entry("a deduplication with a negative ttl", bullmq.JobOptions{Deduplication: &bullmq.Deduplication{ID: "d", TTL: -time.Second}}, nil, "TTL", "-1s"),
			Entry("a deduplication with a ttl that would be none on the wire",
				bullmq.JobOptions{Deduplication: &bullmq.Deduplication{ID: "d", TTL: time.Microsecond}}, nil, "TTL", "1µs"),
			Entry("a deduplication of a child", bullmq.JobOptions{Deduplication: &bullmq.Deduplication{ID: "d"}, Parent: &bullmq.Parent{ID: "p", Queue: "bull:q"}},
				nil, "Deduplication", "Parent"),
			Entry("two rules for a child's failure", bullmq.JobOptions{FailParentOnFailure: true, RemoveDependencyOnFailure: true}, nil,
				"FailParentOnFailure and RemoveDependencyOnFailure", "choose one"),
			Entry("three of them", bullmq.JobOptions{ContinueParentOnFailure: true, IgnoreDependencyOnFailure: true, RemoveDependencyOnFailure: true}, nil,
				"ContinueParentOnFailure", "IgnoreDependencyOnFailure", "RemoveDependencyOnFailure"),
			Entry("a jitter above 1", bullmq.JobOptions{Backoff: &bullmq.Backoff{Type: "fixed", Jitter: 1.1}}, nil, "Jitter", "1.1"),
			Entry("a backoff without a type", bullmq.JobOptions{Backoff: &bullmq.Backoff{Delay: time.Second}}, nil, "no Type", "Fixed"),
			Entry("a backoff counted in nothing", bullmq.JobOptions{Backoff: bullmq.Fixed(1000)}, nil, "Backoff.Delay", "1µs"),
			Entry("a negative jitter", bullmq.JobOptions{Backoff: &bullmq.Backoff{Type: "fixed", Jitter: -0.1}}, nil, "Jitter", "-0.1"),
			Entry("a parent without a queue", bullmq.JobOptions{Parent: &bullmq.Parent{ID: "p"}}, nil, "Parent", "Queue"),
			Entry("a parent without an id", bullmq.JobOptions{Parent: &bullmq.Parent{Queue: "bull:q"}}, nil, "Parent", "ID"),
			Entry("further options that aren't JSON", bullmq.JobOptions{Extra: map[string]json.RawMessage{"foo": []byte(`{`)}}, nil, "JSON"),
			Entry("data that JSON can't hold", bullmq.JobOptions{}, func() {}, "data", "func()"),
		)

		DescribeTable("are taken just within the limit", func(options bullmq.JobOptions, data any) {
			_, err := newQueue(newQueueName(), nil).Add(specContext(), "paint", data, &options)
			Expect(err).NotTo(HaveOccurred())
		},
			Entry("the highest priority", bullmq.JobOptions{Priority: 2097151}, nil),
			Entry("as many bytes as allowed", bullmq.JobOptions{SizeLimit: 8}, "ééé"),
			Entry("a jitter of 1", bullmq.JobOptions{Backoff: &bullmq.Backoff{Type: "fixed", Jitter: 1}}, nil),
			Entry("a ttl of a millisecond", bullmq.JobOptions{Deduplication: &bullmq.Deduplication{ID: "d", TTL: time.Millisecond}}, nil),
		)
	})

	Describe("of a queue", func() {
		add := func(defaults bullmq.JobOptions, own *bullmq.JobOptions) map[string]string {
			GinkgoHelper()
			name := newQueueName()
			queue := newQueue(name, &bullmq.QueueOptions{DefaultJobOptions: &defaults})
			job, err := queue.Add(specContext(), "paint", nil, own)
			Expect(err).NotTo(HaveOccurred())
			return hash(key(name, job.ID))
		}
		defaults := bullmq.JobOptions{Attempts: 3, Backoff: bullmq.Fixed(time.Second), RemoveOnComplete: bullmq.KeepLast(10), Delay: time.Hour}

		It("hold for jobs without options", func() {
			Expect(add(defaults, nil)).To(And(
				HaveKeyWithValue("opts", MatchJSON(`{"attempts":3,"backoff":{"type":"fixed","delay":1000},"removeOnComplete":10,"delay":3600000}`)),
				HaveKeyWithValue("delay", "3600000")))
		})

		It("give way, one by one, to a job's own", func() {
			own := &bullmq.JobOptions{Attempts: 5, Delay: time.Minute, Priority: 2}
			Expect(add(defaults, own)).To(HaveKeyWithValue("opts",
				MatchJSON(`{"attempts":5,"backoff":{"type":"fixed","delay":1000},"removeOnComplete":10,"delay":60000,"priority":2}`)))
			Expect(*own).To(Equal(bullmq.JobOptions{Attempts: 5, Delay: time.Minute, Priority: 2}), "the caller's options stay as they are")
		})

		It("never hand on a job id", func() {
			Expect(add(bullmq.JobOptions{JobID: "same", Attempts: 2}, nil)).To(HaveKeyWithValue("opts", MatchJSON(`{"attempts":2}`)))
			Expect(add(bullmq.JobOptions{JobID: "same"}, &bullmq.JobOptions{JobID: "own"})).To(HaveKeyWithValue("opts", MatchJSON(`{"attempts":0,"jobId":"own"}`)))
		})
	})
})
