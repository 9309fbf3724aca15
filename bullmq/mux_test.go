package bullmq_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("A mux", func() {
	named := func(result string) bullmq.Handler {
		return func(context.Context, *bullmq.Job) (any, error) { return result, nil }
	}
	serve := func(mux *bullmq.Mux, name string) (any, error) {
		return mux.ServeJob(context.Background(), &bullmq.Job{ID: "1", Name: name, Data: json.RawMessage(`{}`)})
	}
	// run adds a job and returns it once it is in one of the states.
	run := func(mux *bullmq.Mux, name string, data any, o *bullmq.JobOptions, states ...bullmq.State) *bullmq.Job {
		GinkgoHelper()
		queue := newQueue(newQueueName(), nil)
		runWorker(queue.Name(), mux.ServeJob, nil)
		job, err := queue.Add(specContext(), name, data, o)
		Expect(err).NotTo(HaveOccurred())
		Eventually(stateOf(queue, job.ID)).Should(BeElementOf(states))
		job, err = queue.Job(specContext(), job.ID)
		Expect(err).NotTo(HaveOccurred())
		return job
	}

	DescribeTable("runs a job by the handler of", func(name, result string) {
		mux := bullmq.NewMux()
		mux.HandleFunc("report.*", named("reports"))
		mux.HandleFunc("report.daily.*", named("daily reports"))
		mux.HandleFunc("report.daily.sales", named("sales"), bullmq.HandleOptions{Aliases: []string{"sales"}})
		mux.NotFound(named("unknown"))
		Expect(serve(mux, name)).To(Equal(result))
	},
		Entry("its name", "report.daily.sales", "sales"),
		Entry("an alias of its name", "sales", "sales"),
		Entry("the longest prefix of its name", "report.daily.costs", "daily reports"),
		Entry("a shorter prefix", "report.weekly", "reports"),
		Entry("the prefix alone", "report.", "reports"),
		Entry("NotFound, without a match", "report", "unknown"),
	)

	It("runs jobs of any name by the handler of *", func() {
		mux := &bullmq.Mux{}
		mux.HandleFunc("*", named("any"))
		Expect(serve(mux, "")).To(Equal("any"))
		Expect(mux.Handles("x")).To(BeTrue())
	})

	It("fails a job of an unknown name without a retry", func() {
		mux := bullmq.NewMux()
		_, err := serve(mux, "nobody")
		Expect(err).To(And(MatchError(bullmq.ErrNoHandler), MatchError(bullmq.ErrUnrecoverable), MatchError(ContainSubstring(`"nobody"`))))
		Expect(mux.Handles("nobody")).To(BeFalse())
		job := run(mux, "nobody", nil, &bullmq.JobOptions{Attempts: 3}, bullmq.StateFailed)
		Expect(job.AttemptsMade).To(Equal(1))
		Expect(job.FailedReason).To(ContainSubstring(`no handler for the job's name: "nobody"`))
	})

	It("leaves a job of an unknown name to a newer worker if NotFound snoozes it", func() {
		mux := bullmq.NewMux()
		mux.NotFound(func(context.Context, *bullmq.Job) (any, error) { return nil, bullmq.Snooze(time.Minute) })
		job := run(mux, "new", nil, nil, bullmq.StateDelayed)
		Expect(job.AttemptsMade).To(BeZero())
	})

	It("fails a job whose data does not fit without a retry, and names the place", func() {
		mux := bullmq.NewMux()
		bullmq.Handle(mux, bullmq.Define[email, receipt]("welcome"), func(context.Context, *bullmq.Job, email) (receipt, error) {
			return receipt{}, errors.New("the handler ran")
		})
		job := run(mux, "welcome", map[string]any{"items": []any{map[string]any{"price": "free"}}}, &bullmq.JobOptions{Attempts: 3}, bullmq.StateFailed)
		Expect(job.AttemptsMade).To(Equal(1))
		Expect(job.FailedReason).To(HaveSuffix("at $.items[0].price"))
	})

	It("ends a handler's context after its timeout and fails the attempt with its own text", func() {
		mux := bullmq.NewMux()
		mux.HandleFunc("slow", func(ctx context.Context, _ *bullmq.Job) (any, error) {
			<-ctx.Done()
			return nil, fmt.Errorf("stopped: %w", context.Cause(ctx))
		}, bullmq.HandleOptions{Timeout: 20 * time.Millisecond})
		job := run(mux, "slow", nil, &bullmq.JobOptions{Attempts: 2, Backoff: bullmq.FixedBackoff(time.Hour)}, bullmq.StateDelayed)
		Expect(job.AttemptsMade).To(Equal(1))
		Expect(job.FailedReason).To(HavePrefix("bullmq: the handler's timeout has passed after 20ms: stopped: "))
	})

	It("completes a job that succeeds although its timeout has passed", func() {
		mux := bullmq.NewMux()
		mux.HandleFunc("late", func(ctx context.Context, _ *bullmq.Job) (any, error) {
			<-ctx.Done()
			return "done", nil
		}, bullmq.HandleOptions{Timeout: time.Millisecond})
		Expect(run(mux, "late", nil, nil, bullmq.StateCompleted).ReturnValue).To(MatchJSON(`"done"`))
	})

	It("runs as many jobs of a name at the same time as its concurrency allows", func() {
		var running, most atomic.Int32
		mux := bullmq.NewMux()
		mux.HandleFunc("limited", func(context.Context, *bullmq.Job) (any, error) {
			n := running.Add(1)
			defer running.Add(-1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			time.Sleep(5 * time.Millisecond)
			return nil, nil
		}, bullmq.HandleOptions{Concurrency: 2})
		queue := newQueue(newQueueName(), nil)
		bulk := make([]bullmq.BulkJob, 20)
		for i := range bulk {
			bulk[i].Name = "limited"
		}
		_, err := queue.AddBulk(specContext(), bulk)
		Expect(err).NotTo(HaveOccurred())
		runWorker(queue.Name(), mux.ServeJob, &bullmq.WorkerOptions{Concurrency: 10})
		Eventually(countOf(queue, bullmq.StateCompleted)).Should(Equal(20))
		Expect(most.Load()).To(Equal(int32(2)))
	})

	It("retries jobs of a name by its own rules instead of the worker's", func() {
		mux := bullmq.NewMux()
		mux.HandleFunc("own", func(context.Context, *bullmq.Job) (any, error) { return nil, errors.New("closed") },
			bullmq.HandleOptions{Classify: func(err error, _ *bullmq.Job) bullmq.Verdict {
				Expect(err).To(MatchError("closed"))
				return bullmq.Permanent()
			}})
		mux.HandleFunc("other", func(context.Context, *bullmq.Job) (any, error) { return nil, errors.New("closed") })
		queue := newQueue(newQueueName(), nil)
		runWorker(queue.Name(), mux.ServeJob, &bullmq.WorkerOptions{
			Classify: func(error, *bullmq.Job) bullmq.Verdict { return bullmq.RetryAfter(time.Hour) },
		})
		for name, state := range map[string]bullmq.State{"own": bullmq.StateFailed, "other": bullmq.StateDelayed} {
			job, err := queue.Add(specContext(), name, nil, &bullmq.JobOptions{Attempts: 3})
			Expect(err).NotTo(HaveOccurred())
			Eventually(stateOf(queue, job.ID)).Should(Equal(state))
		}
	})

	It("runs middleware around every handler, the first one outermost", func() {
		var order []string
		step := func(name string) bullmq.Middleware {
			return func(next bullmq.Handler) bullmq.Handler {
				return func(ctx context.Context, job *bullmq.Job) (any, error) {
					order = append(order, name)
					return next(ctx, job)
				}
			}
		}
		mux := bullmq.NewMux()
		mux.Use(step("first"))
		mux.HandleFunc("a", named("a"))
		mux.Use(step("second"))
		Expect(serve(mux, "a")).To(Equal("a"))
		_, err := serve(mux, "unknown")
		Expect(err).To(MatchError(bullmq.ErrNoHandler))
		Expect(order).To(Equal([]string{"first", "second", "first", "second"}))
	})

	DescribeTable("refuses", func(text string, register func(*bullmq.Mux)) {
		mux := bullmq.NewMux()
		mux.HandleFunc("taken", doNothing)
		Expect(func() { register(mux) }).To(PanicWith(ContainSubstring(text)))
	},
		Entry("a second handler of a name", `"taken": the name has a handler`, func(m *bullmq.Mux) { m.HandleFunc("taken", doNothing) }),
		Entry("an alias that has a handler", `"taken": the name has a handler`, func(m *bullmq.Mux) {
			m.HandleFunc("b", doNothing, bullmq.HandleOptions{Aliases: []string{"taken"}})
		}),
		Entry("no handler", "the handler is nil", func(m *bullmq.Mux) { m.HandleFunc("b", nil) }),
		Entry("no typed handler", "the handler is nil", func(m *bullmq.Mux) {
			bullmq.Handle[email, receipt](m, bullmq.Define[email, receipt]("b"), nil)
		}),
		Entry("a negative timeout", "less than 0", func(m *bullmq.Mux) {
			m.HandleFunc("b", doNothing, bullmq.HandleOptions{Timeout: -1})
		}),
	)
})
