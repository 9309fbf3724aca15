package bullmq_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("A handler's result", func() {
	var (
		name  string
		queue *bullmq.Queue
		ctx   context.Context
	)
	BeforeEach(func() {
		name, ctx = newQueueName(), specContext()
		queue = newQueue(name, nil)
	})
	run := func(options *bullmq.JobOptions, handler bullmq.Handler) *bullmq.Job {
		GinkgoHelper()
		runWorker(name, handler, nil)
		job, err := queue.Add(ctx, "paint", nil, options)
		Expect(err).NotTo(HaveOccurred())
		_, err = job.Wait(ctx, queue)
		if err != nil {
			var failed *bullmq.JobFailedError
			Expect(errors.As(err, &failed)).To(BeTrue(), err.Error())
		}
		job, err = queue.Job(ctx, job.ID)
		Expect(err).NotTo(HaveOccurred())
		return job
	}

	DescribeTable("is stored as JSON in the hash and in the event:", func(value any, want string) {
		job := run(nil, func(context.Context, *bullmq.Job) (any, error) { return value, nil })
		Expect(hashAt(job.Key())).To(HaveKeyWithValue("returnvalue", want))
		Expect(string(job.ReturnValue)).To(Equal(want))
		Expect(eventsOf(name)).To(ContainElement("completed jobId=1 returnvalue=" + want + " prev=active"))
	},
		Entry("nothing", nil, `null`),
		Entry("an empty string", "", `""`),
		Entry("a string", "foo", `"foo"`),
		Entry("a string that looks like JSON", `{"a":1}`, `"{\"a\":1}"`),
		Entry("false", false, `false`),
		Entry("zero", 0, `0`),
		Entry("an empty list", []string{}, `[]`),
		Entry("raw JSON, byte for byte", rawJSON(` {"a" : 1}`), ` {"a" : 1}`),
		Entry("HTML", "<b>&", `"<b>&"`),
	)

	DescribeTable("fails the job with a clear reason if it cannot be encoded as JSON:", func(value any, hint string) {
		calls := 0
		job := run(nil, func(context.Context, *bullmq.Job) (any, error) { calls++; return value, nil })
		Expect(job.State(ctx)).To(Equal(bullmq.StateFailed))
		Expect(job.FailedReason).To(And(ContainSubstring("can't be written as JSON"), ContainSubstring(hint)))
		Expect(hashAt(job.Key())).NotTo(HaveKey("returnvalue"))
		Expect(calls).To(Equal(1))
	},
		Entry("NaN", math.NaN(), "float64"),
		Entry("infinity", map[string]float64{"x": math.Inf(1)}, "Inf"),
		Entry("a function", func() {}, "func()"),
	)

	DescribeTable("that is an error is stored as plain text, byte for byte:", func(text string) {
		job := run(nil, func(context.Context, *bullmq.Job) (any, error) { return nil, errors.New(text) })
		Expect(hashAt(job.Key())).To(HaveKeyWithValue("failedReason", text))
		Expect(job.FailedReason).To(Equal(text))
		Expect(eventsOf(name)).To(ContainElement("failed jobId=1 failedReason=" + text + " prev=active"))
	},
		Entry("quotes and HTML", `boom "q" <&> é`),
		Entry("nothing", ""),
		Entry("text that looks like JSON", `{"a":1}`),
		Entry("a backslash", `C:\new`),
		Entry("several lines", "one\ntwo"),
	)

	Describe("that is an error", func() {
		failing := func() bullmq.Handler {
			n := 0
			return func(context.Context, *bullmq.Job) (any, error) { n++; return nil, fmt.Errorf("failure %d", n) }
		}

		It("adds a stack trace for each attempt, the newest last", func() {
			Expect(run(&bullmq.JobOptions{Attempts: 3}, failing()).StackTrace).To(HaveExactElements(
				ContainSubstring("failure 1"), ContainSubstring("failure 2"), ContainSubstring("failure 3")))
		})

		It("leaves only the newest stack traces within StackTraceLimit", func() {
			job := run(&bullmq.JobOptions{Attempts: 3, StackTraceLimit: 2}, failing())
			Expect(job.StackTrace).To(HaveExactElements(ContainSubstring("failure 2"), ContainSubstring("failure 3")))
			Expect(hashAt(job.Key())).To(HaveKeyWithValue("stacktrace", MatchJSON(fmt.Sprintf("[%q,%q]", job.StackTrace[0], job.StackTrace[1]))))
		})

		It("leaves an empty list with NoStackTraces", func() {
			Expect(hashAt(run(&bullmq.JobOptions{Attempts: 3, StackTraceLimit: bullmq.NoStackTraces}, failing()).Key())).To(HaveKeyWithValue("stacktrace", "[]"))
		})

		It("adds a stack trace of the panic if the handler panicked", func() {
			job := run(nil, func(context.Context, *bullmq.Job) (any, error) { panic("boom <&>") })
			Expect(job.FailedReason).To(Equal("panic: boom <&>"))
			Expect(job.StackTrace).To(HaveExactElements(And(ContainSubstring("boom <&>"), ContainSubstring("worker_outcomes_test.go"))))
		})
	})

	It("is passed to the parent as JSON, and an ignored failure as plain text", func() {
		parent, err := queue.Add(ctx, "wall", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		fetcher := newFetcher(name, nil)
		_, err = fetcher.TryFetch(ctx)
		Expect(err).NotTo(HaveOccurred())
		child := func() *bullmq.Job {
			GinkgoHelper()
			_, err := queue.Add(ctx, "brick", nil, &bullmq.JobOptions{
				Parent: &bullmq.ParentRef{ID: parent.ID, QueueKey: "bull:" + name}, OnFailure: bullmq.IgnoreDependency,
			})
			Expect(err).NotTo(HaveOccurred())
			job, err := fetcher.TryFetch(ctx)
			Expect(err).NotTo(HaveOccurred())
			return job
		}
		good, bad := child(), child()
		err = fetcher.Complete(ctx, good, "laid")
		Expect(err).NotTo(HaveOccurred())
		err = fetcher.Fail(ctx, bad, errors.New(`crack "q"`))
		Expect(err).NotTo(HaveOccurred())
		Expect(hashAt(parent.Key() + ":processed")).To(Equal(map[string]string{good.Key(): `"laid"`}))
		Expect(hashAt(parent.Key() + ":failed")).To(Equal(map[string]string{bad.Key(): `crack "q"`}))
		Expect(setAt(parent.Key() + ":dependencies")).To(BeEmpty())
	})

	It("is stored for a job from Node whose times have fractions of a millisecond", func() {
		due := make(chan *bullmq.Job, 1)
		redisDo("HSET", keyOf(name, "7"), "name", "paint", "data", "{}", "opts", `{"delay":1000.7}`, "timestamp", "1700000000000.5", "delay", "1000.7", "priority", "0")
		redisDo("ZADD", keyOf(name, "delayed"), fmt.Sprint((1700000000000.5+1000.7)*4096), "7")
		runWorker(name, func(_ context.Context, job *bullmq.Job) (any, error) { due <- job; return "ok", nil }, nil)
		Expect(queue.WaitForJob(ctx, "7")).To(MatchJSON(`"ok"`))
		Expect((<-due).Timestamp.UnixMilli()).To(BeEquivalentTo(fixedNow))
	})
})

var _ = Describe("Text that is not UTF-8 or contains NUL", func() {
	It("is kept byte for byte in reasons and logs, and gets replacement characters in JSON", func() {
		const text = "a\x00b 日\xe6\x97 caf\xe9 \xed\xa0\x80"
		name, ctx := newQueueName(), specContext()
		queue := newQueue(name, nil)
		runWorker(name, func(ctx context.Context, job *bullmq.Job) (any, error) {
			_, err := job.Log(ctx, text)
			if err = errors.Join(err, job.UpdateProgress(ctx, text)); err != nil {
				return nil, err
			}
			if job.Name == "fails" {
				return nil, errors.New(text)
			}
			return text, nil
		}, nil)
		for _, called := range []string{"fails", "completes"} {
			_, err := queue.Add(ctx, called, text, &bullmq.JobOptions{JobID: called})
			Expect(err).NotTo(HaveOccurred())
		}
		Eventually(stateOf(queue, "fails")).Should(Equal(bullmq.StateFailed))
		Eventually(stateOf(queue, "completes")).Should(Equal(bullmq.StateCompleted))
		Expect(hashAt(keyOf(name, "fails"))).To(HaveKeyWithValue("failedReason", text))
		Expect(listAt(keyOf(name, "fails:logs"))).To(Equal([]string{text}))
		for _, field := range []string{"data", "progress", "returnvalue"} {
			var read string
			Expect(json.Unmarshal([]byte(hashAt(keyOf(name, "completes"))[field]), &read)).To(Succeed(), field)
			Expect(read).To(And(HavePrefix("a\x00b 日\ufffd"), HaveSuffix("\ufffd")), field)
		}
	})
})
