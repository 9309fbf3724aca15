package tests

import (
	"context"
	"errors"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/interop/nodeprobe"
)

var _ = Describe("A stored job", func() {
	var name string
	var queue *bullmq.Queue
	BeforeEach(func() {
		name = newQueueName()
		queue = newGoQueue(name)
	})
	addInGo := func(data any, options *bullmq.JobOptions) string {
		GinkgoHelper()
		job, err := queue.Add(soon(), "a", data, options)
		Expect(err).NotTo(HaveOccurred())
		return job.ID
	}
	endInGo := func(id string, state bullmq.State, handler bullmq.Handler) {
		GinkgoHelper()
		worker := runGoWorker(name, handler, bullmq.WorkerOptions{})
		Eventually(stateOf(queue, id)).Should(Equal(state))
		worker.stop()
	}

	DescribeTable("has the failure reason as raw text and a stack trace that both libraries decode",
		func(reason string) {
			byGo := node.Add(name, "a", object{}, object{})
			endInGo(byGo, bullmq.StateFailed, failing(reason))
			Expect(stored(name, byGo, "failedReason")).To(Equal(reason))
			record := node.Record(name, byGo)
			if reason == "" {
				Expect(record).NotTo(HaveKey("failedReason")) // the SDK does not add a reason
			} else {
				Expect(record).To(HaveKeyWithValue("failedReason", reason))
			}
			Expect(record["stacktrace"]).To(ConsistOf(ContainSubstring(reason)))

			byNode := addInGo(nil, nil)
			node.Run(name, 1, object{"throw": reason}, object{})(nil)
			Expect(stored(name, byNode, "failedReason")).To(Equal(reason))
			job := readJob(queue, byNode)
			Expect(job.FailedReason).To(Equal(reason))
			Expect(job.StackTrace).To(ConsistOf(And(HavePrefix("Error"), ContainSubstring(reason))))
		},
		func(reason string) string { return fmt.Sprintf("when it is %q", reason) },
		Entry(nil, `boom "quoted" 'text'`),
		Entry(nil, `<a href="x"> & </a>`),
		Entry(nil, "é 日本語 😀 \u2028 end"),
		Entry(nil, ""),
		Entry(nil, `{"a":1}`),
		Entry(nil, `"already quoted"`),
		Entry(nil, `back\slash \n \u0041`),
		Entry(nil, "two\nlines\tand a tab"),
	)

	It("that panicked in Go has the panic's text and stack for Node to read", func() {
		id := node.Add(name, "a", object{}, object{})
		endInGo(id, bullmq.StateFailed, func(context.Context, *bullmq.Job) (any, error) { panic(`no "<way>"`) })
		record := node.Record(name, id)
		Expect(record["failedReason"]).To(ContainSubstring(`no "<way>"`))
		Expect(record["stacktrace"]).To(ConsistOf(ContainSubstring("records_test.go")))
	})

	DescribeTable("has the same return value in both libraries",
		func(value any, text string) {
			byGo := node.Add(name, "a", object{}, object{})
			endInGo(byGo, bullmq.StateCompleted, returning(value))
			Expect(stored(name, byGo, "returnvalue")).To(Equal(text))
			Expect(node.Record(name, byGo)).To(HaveKeyWithValue("returnvalue", valueOf(text)))

			byNode := addInGo(nil, nil)
			handler := object{"return": value}
			if value == nil {
				handler = object{} // the handler returns undefined
			}
			node.Run(name, 1, handler, object{})(nil)
			Expect(string(readJob(queue, byNode).ReturnValue)).To(Equal(text))
			Expect(queue.WaitForJob(soon(), byNode)).To(MatchJSON(text))
		},
		func(_ any, text string) string { return "when it is " + text },
		Entry(nil, nil, "null"),
		Entry(nil, "", `""`),
		Entry(nil, "<b> & \u2028 \"x\"", "\"<b> & \u2028 \\\"x\\\"\""),
		Entry(nil, false, "false"),
		Entry(nil, 0, "0"),
		Entry(nil, -1.5, "-1.5"),
		Entry(nil, []any{}, "[]"),
		Entry(nil, object{}, "{}"),
		Entry(nil, object{"a": []any{1, nil, "é"}}, `{"a":[1,null,"é"]}`),
	)

	DescribeTable("has the same progress in both libraries",
		func(progress any, text string) {
			id := addInGo(nil, nil)
			Expect(queue.JobRef(id).UpdateProgress(soon(), progress)).To(Succeed())
			Expect(stored(name, id, "progress")).To(Equal(text))
			Expect(node.Record(name, id)).To(HaveKeyWithValue("progress", valueOf(text)))

			id = node.Add(name, "a", object{}, object{})
			node.Do("progress", object{"queue": name, "id": id, "progress": progress}, nil)
			Expect(string(readJob(queue, id).Progress)).To(Equal(text))
		},
		func(_ any, text string) string { return "when it is " + text },
		Entry(nil, 50, "50"),
		Entry(nil, 0.5, "0.5"),
		Entry(nil, "half", `"half"`),
		Entry(nil, "", `""`),
		Entry(nil, true, "true"),
		Entry(nil, false, "false"),
		Entry(nil, []any{}, "[]"),
		Entry(nil, object{"step": "<2>", "of": 3}, `{"of":3,"step":"<2>"}`),
	)

	It("without progress has progress 0 in Node and none in Go", func() {
		id := addInGo(nil, nil)
		Expect(node.Record(name, id)).To(HaveKeyWithValue("progress", 0.))
		Expect(readJob(queue, node.Add(name, "a", object{}, object{})).Progress).To(BeNil())
	})

	DescribeTable("has the same data, falsy values included, in both libraries",
		func(data any, text string) {
			given := data
			switch data {
			case nil:
				given = rawJSON("null")
			case nodeprobe.Absent:
				given = nil
			}
			id := addInGo(given, nil)
			Expect(stored(name, id, "data")).To(Equal(text))
			Expect(node.Record(name, id)).To(HaveKeyWithValue("data", valueOf(text)))

			id = node.Add(name, "a", data, object{})
			job := readJob(queue, id)
			Expect(string(job.Data)).To(Equal(text))
			var value any
			Expect(job.Decode(&value)).To(Succeed())
			Expect(stringified(value)).To(Equal(text))
		},
		func(_ any, text string) string { return "when it is " + text },
		Entry(nil, 0, "0"),
		Entry(nil, false, "false"),
		Entry(nil, "", `""`),
		Entry(nil, nil, "null"),
		Entry(nil, []int{}, "[]"),
		Entry("when there is none", nodeprobe.Absent, "{}"),
		Entry(nil, int64(9007199254740991), "9007199254740991"),
		Entry(nil, object{"html": "<&>\u2028", "none": nil, "text": "😀\u0001\""}, "{\"html\":\"<&>\u2028\",\"none\":null,\"text\":\"😀\\u0001\\\"\"}"),
	)

	It("has the log lines of both libraries in one list", func() {
		rows := []string{"first <&>", "", "ünï \u2028 😀", "two\nlines", `{"json":true}`}
		id := addInGo(nil, nil)
		for i, row := range rows {
			count, err := queue.JobRef(id).Log(soon(), row)
			Expect(err).NotTo(HaveOccurred())
			Expect(count).To(Equal(2*i + 1))
			node.Do("log", object{"queue": name, "id": id, "row": row}, nil)
		}
		var both []any
		var texts []string
		for _, row := range rows {
			both = append(both, row, row)
			texts = append(texts, row, row)
		}
		Expect(node.Record(name, id)["logs"]).To(Equal(both))
		inGo, count, err := queue.JobLogs(soon(), id, bullmq.Page{Limit: -1, Ascending: true})
		Expect(err).NotTo(HaveOccurred())
		Expect(count).To(Equal(len(texts)))
		Expect(inGo).To(Equal(texts))
	})

	It("keeps at most as many log lines as its option allows, whichever library writes them", func() {
		id := node.Add(name, "a", object{}, object{"keepLogs": 3})
		job := readJob(queue, id)
		for i := range 5 {
			_, err := job.Log(soon(), fmt.Sprint("row ", i))
			Expect(err).NotTo(HaveOccurred())
		}
		Expect(node.Record(name, id)["logs"]).To(Equal([]any{"row 2", "row 3", "row 4"}))
	})

	It("keeps options unknown to Go through attempts and retries in Go and when Go adds them again", func() {
		id := node.Add(name, "a", object{"x": 1}, object{
			"foo": 1, "kl": 5, "attempts": 2, "nested": object{"list": []any{1, "<&>"}}, "backoff": object{"type": "fixed", "delay": 1, "more": true},
		})
		before := stored(name, id, "opts")
		unchanged := func() {
			GinkgoHelper()
			after := stored(name, id, "opts")
			Expect(after).To(Equal(before))
		}
		endInGo(id, bullmq.StateFailed, failing("no"))
		unchanged()
		job := readJob(queue, id)
		Expect(job.Options.KeepLogs).To(Equal(5))
		Expect(job.Options.Extra).To(HaveKeyWithValue("foo", rawJSON("1")))
		Expect(job.Retry(soon(), bullmq.StateFailed, nil)).To(Succeed())
		unchanged()
		endInGo(id, bullmq.StateCompleted, returning(nil))
		unchanged()

		again := addInGo(job.Data, &job.Options)
		after := stored(name, again, "opts")
		Expect(after).To(MatchJSON(before))
		Expect(node.Record(name, again)["opts"]).To(Equal(node.Record(name, id)["opts"]))
	})

	It("has Go's options under the names and in the forms that Node reads", func() {
		id := addInGo(nil, &bullmq.JobOptions{
			JobID: "mine é", Delay: 0, Priority: 7, Attempts: 4, Backoff: &bullmq.Backoff{Type: "exponential", Delay: 1500e6, Jitter: 0.25},
			KeepCompleted: bullmq.KeepWithin(bullmq.RetentionLimits{Age: 3600e9, Count: 10}), KeepFailed: bullmq.KeepLast(5), KeepLogs: 9, StackTraceLimit: 2,
			SizeLimit: 1000, Deduplication: &bullmq.Deduplication{ID: "d", TTL: 5e9, Extend: true},
		})
		Expect(node.Record(name, id)["opts"]).To(Equal(object{
			"jobId": "mine é", "priority": 7., "attempts": 4.,
			"backoff":          object{"type": "exponential", "delay": 1500., "jitter": 0.25},
			"removeOnComplete": object{"age": 3600., "count": 10.}, "removeOnFail": 5., "keepLogs": 9., "stackTraceLimit": 2.,
			"sizeLimit": 1000., "deduplication": object{"id": "d", "ttl": 5000., "extend": true},
		}))
	})

	DescribeTable("with options in any of Node's forms is read correctly:",
		func(given object, check func(o bullmq.JobOptions)) {
			check(readJob(queue, node.Add(name, "a", object{}, given)).Options)
		},
		Entry("backoff as a number", object{"attempts": 3, "backoff": 1500}, func(o bullmq.JobOptions) {
			Expect(o.Attempts).To(Equal(3))
			Expect(o.Backoff.Type).To(Equal("fixed"))
			Expect(o.Backoff.Delay.Milliseconds()).To(BeEquivalentTo(1500))
		}),
		Entry("a custom backoff", object{"backoff": object{"type": "mine"}}, func(o bullmq.JobOptions) {
			Expect(o.Backoff.Type).To(Equal("mine"))
		}),
		Entry("removal as true", object{"removeOnComplete": true, "removeOnFail": false}, func(o bullmq.JobOptions) {
			Expect([]string{o.KeepCompleted.String(), o.KeepFailed.String()}).To(Equal([]string{"true", "false"}))
		}),
		Entry("removal as a number", object{"removeOnComplete": 0, "removeOnFail": 100}, func(o bullmq.JobOptions) {
			Expect([]string{o.KeepCompleted.String(), o.KeepFailed.String()}).To(Equal([]string{"0", "100"}))
		}),
		Entry("removal as an object", object{"removeOnComplete": object{"age": 60, "count": 5}}, func(o bullmq.JobOptions) {
			Expect(o.KeepCompleted.String()).To(MatchJSON(`{"age":60,"count":5}`))
		}),
		Entry("a telemetry context", object{"telemetry": object{"metadata": "trace", "omitContext": true}}, func(o bullmq.JobOptions) {
			Expect(o.Telemetry).To(Equal(&bullmq.JobTelemetry{Metadata: "trace", OmitContext: true}))
		}),
	)

	It("whose data is not JSON is failed with a clear reason, and the worker continues", func() {
		bad := node.Add(name, "a", object{}, object{})
		Expect(ask("HSET", "bull:"+name+":"+bad, "data", "{not json").Error()).To(Succeed())
		good := node.Add(name, "a", object{}, object{})
		endInGo(good, bullmq.StateCompleted, returning(1))
		Expect(stateOf(queue, bad)()).To(Equal(bullmq.StateFailed))
		reason := stored(name, bad, "failedReason")
		Expect(reason).To(ContainSubstring("not JSON"))
	})

	It("that does not exist is a distinct error in Go, and undefined in Node", func() {
		_, err := queue.Job(soon(), "nobody")
		Expect(errors.Is(err, bullmq.ErrJobNotFound)).To(BeTrue())
		var record any
		node.Do("record", object{"queue": name, "id": "nobody"}, &record)
		Expect(record).To(BeNil())
	})
})

// valueOf returns a matcher for the value of a JSON text.
func valueOf(text string) any {
	if value := decoded(rawJSON(text)); value != nil {
		return Equal(value)
	}
	return BeNil()
}
