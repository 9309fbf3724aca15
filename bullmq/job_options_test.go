package bullmq_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("Job options", func() {
	DescribeTable("are stored under the names that all clients read:", func(options bullmq.JobOptions, wire string) {
		Expect(json.Marshal(options)).To(MatchJSON(wire))

		var back bullmq.JobOptions
		Expect(json.Unmarshal([]byte(wire), &back)).To(Succeed())
		Expect(json.Marshal(back)).To(MatchJSON(wire), "read and written again")
	},
		Entry("only attempts", bullmq.JobOptions{}, `{"attempts":0}`),
		Entry("attempts", bullmq.JobOptions{Attempts: 3}, `{"attempts":3}`),
		Entry("delay", bullmq.JobOptions{Delay: time.Minute}, `{"attempts":0,"delay":60000}`),
		Entry("a delay with a fraction", bullmq.JobOptions{Delay: 1500 * time.Microsecond}, `{"attempts":0,"delay":1.5}`),
		Entry("priority", bullmq.JobOptions{Priority: 10}, `{"attempts":0,"priority":10}`),
		Entry("lifo", bullmq.JobOptions{LIFO: true}, `{"attempts":0,"lifo":true}`),
		Entry("jobId", bullmq.JobOptions{JobID: "a<b"}, `{"attempts":0,"jobId":"a<b"}`),
		Entry("timestamp", bullmq.JobOptions{Timestamp: time.UnixMilli(1700000000000)}, `{"attempts":0,"timestamp":1700000000000}`),
		Entry("a fixed backoff", bullmq.JobOptions{Backoff: bullmq.FixedBackoff(time.Second)}, `{"attempts":0,"backoff":{"type":"fixed","delay":1000}}`),
		Entry("an exponential backoff with jitter",
			bullmq.JobOptions{Backoff: &bullmq.Backoff{Type: "exponential", Delay: time.Second, Jitter: 0.25}},
			`{"attempts":0,"backoff":{"type":"exponential","delay":1000,"jitter":0.25}}`),
		Entry("a custom backoff", bullmq.JobOptions{Backoff: bullmq.CustomBackoff("tide")}, `{"attempts":0,"backoff":{"type":"tide"}}`),
		Entry("removeOnComplete, removeOnFail", bullmq.JobOptions{KeepCompleted: bullmq.KeepNone(), KeepFailed: bullmq.KeepWithin(bullmq.RetentionLimits{Age: time.Hour, Count: 5})},
			`{"attempts":0,"removeOnComplete":true,"removeOnFail":{"age":3600,"count":5}}`),
		Entry("keepLogs", bullmq.JobOptions{KeepLogs: 5}, `{"attempts":0,"kl":5}`),
		Entry("stackTraceLimit", bullmq.JobOptions{StackTraceLimit: 2}, `{"attempts":0,"stackTraceLimit":2}`),
		Entry("no stack traces", bullmq.JobOptions{StackTraceLimit: bullmq.NoStackTraces}, `{"attempts":0,"stackTraceLimit":0}`),
		Entry("sizeLimit", bullmq.JobOptions{SizeLimit: 100}, `{"attempts":0,"sizeLimit":100}`),
		Entry("deduplication", bullmq.JobOptions{Deduplication: &bullmq.Deduplication{ID: "d"}}, `{"attempts":0,"de":{"id":"d"}}`),
		Entry("deduplication with all fields",
			bullmq.JobOptions{Deduplication: &bullmq.Deduplication{ID: "d", TTL: time.Second, Extend: true, Replace: true, KeepLastIfActive: true, Reschedule: true}},
			`{"attempts":0,"de":{"id":"d","ttl":1000,"extend":true,"replace":true,"keepLastIfActive":true,"reschedule":true}}`),
		Entry("parent", bullmq.JobOptions{Parent: &bullmq.ParentRef{ID: "p", QueueKey: "bull:orders"}}, `{"attempts":0,"parent":{"id":"p","queue":"bull:orders"}}`),
		Entry("failParentOnFailure", bullmq.JobOptions{OnFailure: bullmq.FailParent}, `{"attempts":0,"fpof":true}`),
		Entry("continueParentOnFailure", bullmq.JobOptions{OnFailure: bullmq.ContinueParent}, `{"attempts":0,"cpof":true}`),
		Entry("ignoreDependencyOnFailure", bullmq.JobOptions{OnFailure: bullmq.IgnoreDependency}, `{"attempts":0,"idof":true}`),
		Entry("removeDependencyOnFailure", bullmq.JobOptions{OnFailure: bullmq.RemoveDependency}, `{"attempts":0,"rdof":true}`),
		Entry("telemetry", bullmq.JobOptions{Telemetry: &bullmq.JobTelemetry{Metadata: "trace", OmitContext: true}}, `{"attempts":0,"tm":"trace","omc":true}`),
		Entry("options that only other clients know", bullmq.JobOptions{Extra: map[string]json.RawMessage{"foo": []byte(`{"a":[1.0]}`)}}, `{"attempts":0,"foo":{"a":[1.0]}}`),
	)

	DescribeTable("are read in every form that some client writes:", func(wire string, want bullmq.JobOptions) {
		var options bullmq.JobOptions
		Expect(json.Unmarshal([]byte(wire), &options)).To(Succeed())
		Expect(options).To(Equal(want))
	},
		Entry("an empty list, as Lua writes an empty object", `[]`, bullmq.JobOptions{}),
		Entry("an empty object", `null`, bullmq.JobOptions{}),
		Entry("public names", `{"attempts":2,"keepLogs":5,"failParentOnFailure":true}`,
			bullmq.JobOptions{Attempts: 2, KeepLogs: 5, OnFailure: bullmq.FailParent}),
		Entry("telemetry under its public name", `{"telemetry":{"metadata":"trace","omitContext":true}}`,
			bullmq.JobOptions{Telemetry: &bullmq.JobTelemetry{Metadata: "trace", OmitContext: true}}),
		Entry("numbers as Lua writes large ones", `{"attempts":1e1,"timestamp":1.7e+12}`,
			bullmq.JobOptions{Attempts: 10, Timestamp: time.UnixMilli(1700000000000)}),
		Entry("removeOnFail as a number", `{"removeOnFail":7}`, bullmq.JobOptions{KeepFailed: bullmq.KeepLast(7)}),
		Entry("removeOnFail false", `{"removeOnFail":false}`, bullmq.JobOptions{KeepFailed: bullmq.KeepAll()}),
		Entry("a stackTraceLimit of 0", `{"stackTraceLimit":0}`, bullmq.JobOptions{StackTraceLimit: bullmq.NoStackTraces}),
		Entry("an empty parent list", `{"parent":[]}`, bullmq.JobOptions{Extra: map[string]json.RawMessage{"parent": []byte(`[]`)}}),
	)

	It("are read with a backoff that is a number, which means fixed", func() {
		var options bullmq.JobOptions
		Expect(json.Unmarshal([]byte(`{"backoff":1500}`), &options)).To(Succeed())
		Expect(options.Backoff.Type).To(Equal("fixed"))
		Expect(options.Backoff.Delay).To(Equal(1500 * time.Millisecond))
	})

	DescribeTable("keep what has no field here and write it again:", func(wire, again string) {
		var options bullmq.JobOptions
		Expect(json.Unmarshal([]byte(wire), &options)).To(Succeed())
		Expect(json.Marshal(options)).To(MatchJSON(again))
	},
		Entry("a newer client's options", `{"attempts":1,"foo":1,"bar":{"x":null}}`, `{"attempts":1,"foo":1,"bar":{"x":null}}`),
		Entry("a delay that is a string", `{"attempts":0,"delay":"1000"}`, `{"attempts":0,"delay":"1000"}`),
		Entry("a delay of zero", `{"attempts":0,"delay":0}`, `{"attempts":0,"delay":0}`),
		Entry("lifo false", `{"attempts":0,"lifo":false}`, `{"attempts":0,"lifo":false}`),
		Entry("attempts that are a string", `{"attempts":"3"}`, `{"attempts":"3"}`),
		Entry("a priority with a fraction", `{"attempts":0,"priority":1.5}`, `{"attempts":0,"priority":1.5}`),
		Entry("an unknown retention rule", `{"attempts":0,"removeOnComplete":"daily"}`, `{"attempts":0,"removeOnComplete":"daily"}`),
		Entry("under the stored name if the public name was read", `{"attempts":0,"keepLogs":"many"}`, `{"attempts":0,"kl":"many"}`),
		Entry("further fields of a backoff", `{"attempts":0,"backoff":{"type":"fixed","delay":0,"note":"x"}}`, `{"attempts":0,"backoff":{"type":"fixed","delay":0,"note":"x"}}`),
		Entry("further fields of a deduplication", `{"attempts":0,"de":{"id":"d","extend":false,"note":"x"}}`, `{"attempts":0,"de":{"id":"d","extend":false,"note":"x"}}`),
		Entry("several rules for a child's failure", `{"attempts":0,"rdof":true,"idof":true,"cpof":true,"fpof":true}`, `{"attempts":0,"rdof":true,"idof":true,"cpof":true,"fpof":true}`),
		Entry("rules for a child's failure that are false", `{"attempts":0,"fpof":false,"cpof":true,"idof":false}`, `{"attempts":0,"fpof":false,"cpof":true,"idof":false}`),
		Entry("rules for a child's failure that are numbers", `{"attempts":0,"fpof":1,"cpof":true,"idof":0}`, `{"attempts":0,"fpof":1,"cpof":true,"idof":0}`),
		Entry("a scheduler's fields", `{"attempts":0,"repeat":{"every":1000,"count":1},"prevMillis":1,"repeatJobKey":"k"}`,
			`{"attempts":0,"repeat":{"every":1000,"count":1},"prevMillis":1,"repeatJobKey":"k"}`),
	)

	DescribeTable("with several rules for a child's failure have the one that takes effect in OnFailure:", func(text string, policy bullmq.ParentPolicy) {
		for range 20 { // the order of a map differs
			var options bullmq.JobOptions
			Expect(json.Unmarshal([]byte(text), &options)).To(Succeed())
			Expect(options.OnFailure).To(Equal(policy))
		}
	},
		Entry("all", `{"rdof":true,"idof":true,"cpof":true,"fpof":true}`, bullmq.FailParent),
		Entry("all, by their public names", `{"removeDependencyOnFailure":true,"ignoreDependencyOnFailure":true,"continueParentOnFailure":true,"failParentOnFailure":true}`, bullmq.FailParent),
		Entry("without fpof", `{"rdof":true,"idof":true,"cpof":true,"fpof":false}`, bullmq.ContinueParent),
		Entry("idof and rdof", `{"rdof":true,"idof":true}`, bullmq.IgnoreDependency),
	)

	It("are refused if they are not an object", func() {
		var options bullmq.JobOptions
		Expect(json.Unmarshal([]byte(`"attempts"`), &options)).NotTo(Succeed())
		Expect(json.Unmarshal([]byte(`[1]`), &options)).NotTo(Succeed())
	})

	DescribeTable("have one value for an option in a field and in Extra, which is the field's if set:", func(options bullmq.JobOptions, wire string) {
		Expect(json.Marshal(options)).To(MatchJSON(wire))
		name := newQueueName()
		job, err := newQueue(name, nil).Add(specContext(), "paint", nil, &options)
		Expect(err).NotTo(HaveOccurred())
		Expect(hashAt(keyOf(name, job.ID))).To(HaveKeyWithValue("opts", MatchJSON(wire)))
	},
		Entry("by its stored name", bullmq.JobOptions{KeepLogs: 3, Extra: map[string]json.RawMessage{"kl": []byte("9")}}, `{"attempts":0,"kl":3}`),
		Entry("by its public name", bullmq.JobOptions{KeepLogs: 3, Extra: map[string]json.RawMessage{"keepLogs": []byte("9")}}, `{"attempts":0,"kl":3}`),
		Entry("field not set", bullmq.JobOptions{Extra: map[string]json.RawMessage{"keepLogs": []byte("9")}}, `{"attempts":0,"kl":9}`),
		Entry("attempts", bullmq.JobOptions{Attempts: 2, Extra: map[string]json.RawMessage{"attempts": []byte("9")}}, `{"attempts":2}`),
		Entry("telemetry", bullmq.JobOptions{Telemetry: &bullmq.JobTelemetry{Metadata: "own"}, Extra: map[string]json.RawMessage{"telemetry": []byte(`{"metadata":"m"}`)}},
			`{"attempts":0,"tm":"own"}`),
		Entry("named in Reset, and null options that are not known", bullmq.JobOptions{
			KeepLogs: 3, Reset: []string{"keepLogs", "lifo"}, Extra: map[string]json.RawMessage{"repeat": json.RawMessage("null"), "tenant": json.RawMessage("null")},
		}, `{"attempts":0,"kl":3}`),
		Entry("named in Reset", bullmq.JobOptions{KeepLogs: 3, Reset: []string{"keepLogs", "lifo", "attempts"}}, `{"kl":3}`),
	)

	It("in Extra place a job as the fields do", func() {
		queue := newQueue(newQueueName(), nil)
		job, err := queue.Add(specContext(), "paint", nil, &bullmq.JobOptions{Extra: map[string]json.RawMessage{"delay": []byte("60000")}})
		Expect(err).NotTo(HaveOccurred())
		Expect(job.State(specContext())).To(Equal(bullmq.StateDelayed))
		Expect(job.Options.Delay).To(Equal(time.Minute))
	})

	Describe("of an add", func() {
		DescribeTable("are refused before sending if invalid:", func(options bullmq.JobOptions, data any, hints ...string) {
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
			Entry("two bytes a letter, one byte above the limit", bullmq.JobOptions{SizeLimit: 7}, "ééé", "8 bytes", "7 bytes", "SizeLimit"),
			Entry("a deduplication without an id", bullmq.JobOptions{Deduplication: &bullmq.Deduplication{TTL: time.Second}}, nil, "Deduplication", "ID"),
			Entry("a deduplication with a negative ttl", bullmq.JobOptions{Deduplication: &bullmq.Deduplication{ID: "d", TTL: -time.Second}}, nil, "TTL", "-1s"),
			Entry("a deduplication with a ttl that rounds to none",
				bullmq.JobOptions{Deduplication: &bullmq.Deduplication{ID: "d", TTL: time.Microsecond}}, nil, "TTL", "1µs"),
			Entry("a deduplication of a child", bullmq.JobOptions{Deduplication: &bullmq.Deduplication{ID: "d"}, Parent: &bullmq.ParentRef{ID: "p", QueueKey: "bull:q"}},
				nil, "Deduplication", "Parent"),
			Entry("two rules for a child's failure", bullmq.JobOptions{OnFailure: bullmq.FailParent, Extra: map[string]json.RawMessage{"rdof": []byte("1")}}, nil,
				"failParentOnFailure and removeDependencyOnFailure", "choose one"),
			Entry("three rules for a child's failure", bullmq.JobOptions{Extra: map[string]json.RawMessage{"cpof": []byte("true"), "idof": []byte("true"), "rdof": []byte("true")}}, nil,
				"continueParentOnFailure", "ignoreDependencyOnFailure", "removeDependencyOnFailure"),
			Entry("an unknown rule for a child's failure", bullmq.JobOptions{OnFailure: "failParent"}, nil, `OnFailure "failParent"`, "ParentPolicy"),
			Entry("a jitter above 1", bullmq.JobOptions{Backoff: &bullmq.Backoff{Type: "fixed", Jitter: 1.1}}, nil, "Jitter", "1.1"),
			Entry("a backoff without a type", bullmq.JobOptions{Backoff: &bullmq.Backoff{Delay: time.Second}}, nil, "no Type", "FixedBackoff"),
			Entry("a backoff without a unit", bullmq.JobOptions{Backoff: bullmq.FixedBackoff(1000)}, nil, "Backoff.Delay", "1µs"),
			Entry("a negative jitter", bullmq.JobOptions{Backoff: &bullmq.Backoff{Type: "fixed", Jitter: -0.1}}, nil, "Jitter", "-0.1"),
			Entry("a negative number of attempts", bullmq.JobOptions{Attempts: -1}, nil, "Attempts -1", "0 means one attempt"),
			Entry("a negative priority", bullmq.JobOptions{Priority: -1}, nil, "Priority -1", "0 means none"),
			Entry("a negative number of log rows", bullmq.JobOptions{KeepLogs: -1}, nil, "KeepLogs -1", "0 means all"),
			Entry("a negative size limit", bullmq.JobOptions{SizeLimit: -1}, nil, "SizeLimit -1", "0 means no limit"),
			Entry("a negative number of stack traces other than NoStackTraces", bullmq.JobOptions{StackTraceLimit: -2}, nil, "StackTraceLimit -2", "NoStackTraces"),
			Entry("a timestamp before 1970", bullmq.JobOptions{Timestamp: time.UnixMilli(-1)}, nil, "Timestamp", "1970"),
			Entry("a negative number of completed jobs to keep", bullmq.JobOptions{KeepCompleted: bullmq.KeepLast(-1)}, nil, "KeepCompleted", "-1", "KeepAll()"),
			Entry("a negative age of failed jobs to keep", bullmq.JobOptions{KeepFailed: bullmq.KeepFor(-time.Hour)}, nil, "KeepFailed", "Age", "-1h"),
			Entry("an age without a unit", bullmq.JobOptions{KeepFailed: bullmq.KeepFor(3600)}, nil, "KeepFailed", "3.6µs", "time.Millisecond"),
			Entry("a negative count with an age", bullmq.JobOptions{KeepFailed: bullmq.KeepWithin(bullmq.RetentionLimits{Age: time.Hour, Count: -1})}, nil, "KeepFailed", "Count", "-1"),
			Entry("a negative limit with an age", bullmq.JobOptions{KeepFailed: bullmq.KeepWithin(bullmq.RetentionLimits{Age: time.Hour, Count: 1, Removals: -1})}, nil, "KeepFailed", "Removals", "-1"),
			Entry("a delay without a unit", bullmq.JobOptions{Delay: 500}, nil, "Delay 500ns", "500*time.Millisecond"),
			Entry("a delay with a fraction of a millisecond", bullmq.JobOptions{Delay: 1500 * time.Microsecond}, nil, "Delay 1.5ms", "whole number", "Round(time.Millisecond)"),
			Entry("a backoff with a fraction of a millisecond", bullmq.JobOptions{Backoff: bullmq.ExponentialBackoff(3_600_000)}, nil, "Backoff.Delay 3.6ms", "whole number"),
			Entry("a negative backoff", bullmq.JobOptions{Backoff: bullmq.FixedBackoff(-time.Second)}, nil, "Backoff.Delay -1s", "less than 0"),
			Entry("a backoff of an unknown type", bullmq.JobOptions{Backoff: &bullmq.Backoff{Type: "expo"}}, nil, `"expo"`, "fixed", "exponential", `CustomBackoff("expo")`),
			Entry("a backoff type in another case", bullmq.JobOptions{Backoff: &bullmq.Backoff{Type: "Fixed", Delay: time.Second}}, nil, `"Fixed"`, "CustomBackoff"),
			Entry("a ttl with a fraction of a millisecond",
				bullmq.JobOptions{Deduplication: &bullmq.Deduplication{ID: "d", TTL: 1500 * time.Microsecond}}, nil, "TTL", "1.5ms", "whole number"),
			Entry("an unknown name in Reset", bullmq.JobOptions{Reset: []string{"delay", "Lifo"}}, nil, `"Lifo"`, "attempts, backoff", "keepLogs, lifo, parent"),
			Entry("a stored name in Reset", bullmq.JobOptions{Reset: []string{"kl"}}, nil, `"kl"`, "keepLogs"),
			Entry("a parent without a queue", bullmq.JobOptions{Parent: &bullmq.ParentRef{ID: "p"}}, nil, "Parent.QueueKey", "bull:orders"),
			Entry("a parent without an id", bullmq.JobOptions{Parent: &bullmq.ParentRef{QueueKey: "bull:q"}}, nil, "Parent.ID"),
			Entry("extra options that are not JSON", bullmq.JobOptions{Extra: map[string]json.RawMessage{"foo": []byte(`{`)}}, nil, "JSON"),
			Entry("data that JSON cannot represent", bullmq.JobOptions{}, func() {}, "data", "func()"),
		)

		It("are refused with the size and the limit if the data is too large", func() {
			queue := newQueue(newQueueName(), &bullmq.QueueOptions{DefaultJobOptions: &bullmq.JobOptions{SizeLimit: 7}})
			_, err := queue.Add(specContext(), "paint", "ééé", nil)
			var large *bullmq.SizeLimitError
			Expect(errors.As(err, &large)).To(BeTrue(), "%v", err)
			Expect(*large).To(Equal(bullmq.SizeLimitError{Size: 8, Limit: 7}))
			_, err = queue.AddBulk(specContext(), []bullmq.BulkJob{{Name: "paint", Data: "ééé"}})
			Expect(errors.As(err, &large)).To(BeTrue(), "%v", err)
		})

		DescribeTable("are accepted within the limits:", func(options bullmq.JobOptions, data any) {
			_, err := newQueue(newQueueName(), nil).Add(specContext(), "paint", data, &options)
			Expect(err).NotTo(HaveOccurred())
		},
			Entry("the highest priority", bullmq.JobOptions{Priority: 2097151}, nil),
			Entry("the largest allowed size", bullmq.JobOptions{SizeLimit: 8}, "ééé"),
			Entry("a jitter of 1", bullmq.JobOptions{Backoff: &bullmq.Backoff{Type: "fixed", Jitter: 1}}, nil),
			Entry("a negative delay, as of a time that has passed", bullmq.JobOptions{Delay: -1234567}, nil),
			Entry("a custom backoff type of the worker", bullmq.JobOptions{Backoff: bullmq.CustomBackoff("expo")}, nil),
			Entry("a rule for the parent of a job without one, as in Node", bullmq.JobOptions{OnFailure: bullmq.FailParent}, nil),
			Entry("a ttl of a millisecond", bullmq.JobOptions{Deduplication: &bullmq.Deduplication{ID: "d", TTL: time.Millisecond}}, nil),
		)
	})

	DescribeTable("that were read from JSON are accepted as in Node:", func(text, stored string) {
		var options bullmq.JobOptions
		Expect(json.Unmarshal([]byte(text), &options)).To(Succeed())
		name := newQueueName()
		job, err := newQueue(name, &bullmq.QueueOptions{DefaultJobOptions: &options}).Add(specContext(), "paint", nil, &options)
		Expect(err).NotTo(HaveOccurred())
		Expect(hashAt(keyOf(name, job.ID))).To(HaveKeyWithValue("opts", MatchJSON(stored)))
	},
		Entry("negative attempts", `{"attempts":-1}`, `{"attempts":-1}`),
		Entry("a negative priority", `{"priority":-1}`, `{"attempts":0,"priority":-1}`),
		Entry("a delay with a fraction", `{"delay":1.5}`, `{"attempts":0,"delay":1.5}`),
		Entry("a negative number of jobs to keep, which keeps all", `{"removeOnComplete":-1}`, `{"attempts":0,"removeOnComplete":-1}`),
		Entry("any backoff type", `{"backoff":{"type":"expo","delay":-1}}`, `{"attempts":0,"backoff":{"type":"expo","delay":-1}}`),
		Entry("a backoff of zero milliseconds", `{"backoff":0}`, `{"attempts":0,"backoff":{"type":"fixed","delay":0}}`),
		Entry("null, which omits an option", `{"attempts":null,"delay":null,"shard":null}`, `{}`),
	)

	Describe("of a queue", func() {
		add := func(defaults bullmq.JobOptions, own *bullmq.JobOptions) map[string]string {
			GinkgoHelper()
			name := newQueueName()
			queue := newQueue(name, &bullmq.QueueOptions{DefaultJobOptions: &defaults})
			job, err := queue.Add(specContext(), "paint", nil, own)
			Expect(err).NotTo(HaveOccurred())
			return hashAt(keyOf(name, job.ID))
		}
		defaults := bullmq.JobOptions{Attempts: 3, Backoff: bullmq.FixedBackoff(time.Second), KeepCompleted: bullmq.KeepLast(10), Delay: time.Hour}

		It("apply to jobs without options", func() {
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

		DescribeTable("give way to an explicit zero that was read from JSON", func(text, stored, state string) {
			var own bullmq.JobOptions
			Expect(json.Unmarshal([]byte(text), &own)).To(Succeed())
			all := bullmq.JobOptions{Attempts: 3, Priority: 7, LIFO: true, KeepLogs: 5, Delay: time.Hour, Backoff: bullmq.FixedBackoff(time.Second)}
			name := newQueueName()
			queue := newQueue(name, &bullmq.QueueOptions{DefaultJobOptions: &all})
			job, err := queue.Add(specContext(), "paint", nil, &own)
			Expect(err).NotTo(HaveOccurred())
			Expect(hashAt(keyOf(name, job.ID))).To(HaveKeyWithValue("opts", MatchJSON(stored)))
			Expect(queue.JobState(specContext(), job.ID)).To(BeEquivalentTo(state))
		},
			Entry("for every option", `{"attempts":0,"delay":0,"priority":0,"lifo":false,"keepLogs":0,"backoff":0}`,
				`{"attempts":0,"delay":0,"priority":0,"lifo":false,"kl":0,"backoff":{"type":"fixed","delay":0}}`, "waiting"),
			Entry("for one option", `{"delay":0}`, `{"attempts":3,"delay":0,"priority":7,"lifo":true,"kl":5,"backoff":{"type":"fixed","delay":1000}}`, "prioritized"),
			Entry("or to null", `{"attempts":null,"delay":null,"backoff":null,"keepLogs":null}`, `{"priority":7,"lifo":true}`, "prioritized"),
		)

		It("are not set for a job that names them in Reset", func() {
			own := &bullmq.JobOptions{Reset: []string{"delay", "backoff"}, Attempts: 5}
			Expect(add(defaults, own)).To(And(HaveKeyWithValue("opts", MatchJSON(`{"attempts":5,"removeOnComplete":10}`)), HaveKeyWithValue("delay", "0")))
			Expect(*own).To(Equal(bullmq.JobOptions{Reset: []string{"delay", "backoff"}, Attempts: 5}), "the caller's options stay as they are")
			Expect(json.Marshal(own)).To(MatchJSON(`{"attempts":5}`))
		})

		DescribeTable("give way to a job's own rule for its failure:", func(standard, own bullmq.JobOptions, stored string) {
			Expect(add(standard, &own)).To(HaveKeyWithValue("opts", MatchJSON(stored)))
		},
			Entry("none", bullmq.JobOptions{OnFailure: bullmq.FailParent}, bullmq.JobOptions{}, `{"attempts":0,"fpof":true}`),
			Entry("another", bullmq.JobOptions{OnFailure: bullmq.FailParent}, bullmq.JobOptions{OnFailure: bullmq.RemoveDependency}, `{"attempts":0,"rdof":true}`),
			Entry("another than one in Extra", bullmq.JobOptions{Extra: map[string]json.RawMessage{"cpof": []byte("1"), "fpof": []byte("false")}},
				bullmq.JobOptions{OnFailure: bullmq.RemoveDependency}, `{"attempts":0,"rdof":true,"fpof":false}`),
			Entry("the default's, named in Reset", bullmq.JobOptions{OnFailure: bullmq.FailParent}, bullmq.JobOptions{Reset: []string{"failParentOnFailure"}}, `{"attempts":0}`),
			Entry("another one, named in Reset", bullmq.JobOptions{OnFailure: bullmq.FailParent}, bullmq.JobOptions{Reset: []string{"continueParentOnFailure"}}, `{"attempts":0,"fpof":true}`),
			Entry("false", bullmq.JobOptions{OnFailure: bullmq.FailParent}, bullmq.JobOptions{Extra: map[string]json.RawMessage{"fpof": []byte("false")}}, `{"attempts":0,"fpof":false}`),
		)

		It("apply in Extra name by name", func() {
			extra := func(text string) (fields map[string]json.RawMessage) {
				Expect(json.Unmarshal([]byte(text), &fields)).To(Succeed())
				return fields
			}
			standard := bullmq.JobOptions{Extra: extra(`{"tenant":"a","shard":1,"kl":0}`)}
			Expect(add(standard, &bullmq.JobOptions{Extra: extra(`{"requestId":"r","shard":2}`)})).To(
				HaveKeyWithValue("opts", MatchJSON(`{"attempts":0,"kl":0,"tenant":"a","requestId":"r","shard":2}`)))
			Expect(add(standard, &bullmq.JobOptions{KeepLogs: 3, Extra: extra(`{"tenant":null}`)})).To(
				HaveKeyWithValue("opts", MatchJSON(`{"attempts":0,"kl":3,"shard":1}`)))
			Expect(standard.Extra).To(HaveLen(3), "the queue's own stay as they are")
		})

		It("do not change a job that was read and is added again", func() {
			source, target := newQueue(newQueueName(), nil), newQueue(newQueueName(), &bullmq.QueueOptions{DefaultJobOptions: &bullmq.JobOptions{Attempts: 3}})
			for _, attempts := range []int{0, 2} {
				added, err := source.Add(specContext(), "paint", nil, &bullmq.JobOptions{Attempts: attempts})
				Expect(err).NotTo(HaveOccurred())
				job, err := source.Job(specContext(), added.ID)
				Expect(err).NotTo(HaveOccurred())
				again, err := target.Add(specContext(), job.Name, job.Data, &job.Options)
				Expect(err).NotTo(HaveOccurred())
				Expect(again.RawOptions).To(MatchJSON(added.RawOptions))
			}
		})

		It("let a job that was read be changed before it is added again, even to zero values", func() {
			queue := newQueue(newQueueName(), nil)
			stored := `{"attempts":3,"backoff":{"type":"fixed","delay":500,"jitter":0.5,"own":1},"de":{"id":"d","ttl":60000,"extend":true,"own":0}}`
			var o bullmq.JobOptions
			Expect(json.Unmarshal([]byte(stored), &o)).To(Succeed())
			Expect(json.Marshal(o)).To(MatchJSON(stored))
			o.Backoff.Delay, o.Backoff.Jitter = 0, 0
			o.Deduplication.TTL, o.Deduplication.Extend = 0, false
			job, err := queue.Add(specContext(), "paint", nil, &o)
			Expect(err).NotTo(HaveOccurred())
			Expect(job.RawOptions).To(MatchJSON(`{"attempts":3,"backoff":{"type":"fixed","own":1},"de":{"id":"d","own":0}}`))
			Expect(redisDo("PTTL", keyOf(queue.Name(), "de:d")).AsInt64()).To(BeEquivalentTo(-1))
		})

		It("do not treat a value in Extra as unset", func() {
			extra := map[string]json.RawMessage{"tenant": nil, "delay": nil, "lifo": {}, "jobId": nil}
			Expect(add(bullmq.JobOptions{Delay: time.Hour}, &bullmq.JobOptions{Extra: extra})).To(HaveKeyWithValue("opts", MatchJSON(`{"attempts":0}`)))
		})

		It("that came from a scheduler's job do not make another job the scheduler's", func() {
			queue, ctx := newQueue(newQueueName(), nil), specContext()
			first, err := queue.UpsertScheduler(ctx, "tick", bullmq.Repeat{Every: time.Hour}, nil)
			Expect(err).NotTo(HaveOccurred())
			job, err := queue.Job(ctx, first.ID)
			Expect(err).NotTo(HaveOccurred())
			Expect(job.SchedulerID).To(Equal("tick"))
			o := job.Options
			o.JobID = "copy"
			again, err := newQueue(newQueueName(), nil).Add(ctx, "tick", nil, &o)
			Expect(err).NotTo(HaveOccurred())
			Expect(hashAt(again.Key())).NotTo(HaveKey("rjk"))
			Expect(again.RawOptions).NotTo(ContainSubstring("repeatJobKey"))
		})

		It("are refused by the queue or the flow producer if no job could have them", func() {
			name := newQueueName()
			jitter := func(part float64) *bullmq.Backoff {
				return &bullmq.Backoff{Type: "fixed", Delay: time.Second, Jitter: part}
			}
			for _, bad := range []bullmq.JobOptions{
				{Attempts: -1}, {Reset: []string{"attemps"}}, {Delay: 500}, {Priority: 2097152},
				{Backoff: jitter(2)}, {Backoff: jitter(-0.1)}, {Backoff: jitter(math.NaN())},
				{Deduplication: &bullmq.Deduplication{}}, {Parent: &bullmq.ParentRef{QueueKey: "bull:orders"}}, {Parent: &bullmq.ParentRef{ID: "1"}},
			} {
				_, err := bullmq.NewQueue(context.Background(), name, &bullmq.QueueOptions{Connection: connection(), DefaultJobOptions: &bad})
				Expect(err).To(MatchError(And(ContainSubstring(name), ContainSubstring("DefaultJobOptions"))))
				_, err = bullmq.NewFlowProducer(context.Background(), &bullmq.FlowProducerOptions{Connection: connection(), DefaultJobOptions: map[string]bullmq.JobOptions{name: bad}})
				Expect(err).To(MatchError(And(ContainSubstring(name), ContainSubstring("DefaultJobOptions"))))
			}
			Expect(keysOf(name)).To(BeEmpty())
		})

		It("never pass on a job id", func() {
			Expect(add(bullmq.JobOptions{JobID: "same", Attempts: 2}, nil)).To(HaveKeyWithValue("opts", MatchJSON(`{"attempts":2}`)))
			Expect(add(bullmq.JobOptions{JobID: "same"}, &bullmq.JobOptions{JobID: "own"})).To(HaveKeyWithValue("opts", MatchJSON(`{"attempts":0,"jobId":"own"}`)))
		})
	})
})
