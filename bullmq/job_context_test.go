package bullmq_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/rs/zerolog"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("The context of a handler", func() {
	// within runs a handler once, and returns the job and its queue.
	within := func(handler func(ctx context.Context, job *bullmq.Job) error, o *bullmq.WorkerOptions) (*bullmq.Queue, *bullmq.Job) {
		GinkgoHelper()
		queue := newQueue(newQueueName(), nil)
		job, err := queue.Add(specContext(), "paint", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		runWorker(queue.Name(), func(ctx context.Context, job *bullmq.Job) (any, error) {
			return nil, handler(ctx, job)
		}, o)
		Expect(queue.WaitForJob(specContext(), job.ID)).Error().NotTo(HaveOccurred())
		return queue, job
	}

	It("has the job, also in contexts that are made from it", func() {
		within(func(ctx context.Context, job *bullmq.Job) error {
			child, cancel := context.WithCancel(ctx)
			defer cancel()
			if bullmq.JobFromContext(child) != job {
				return errors.New("another job")
			}
			return nil
		}, nil)
		Expect(bullmq.JobFromContext(context.Background())).To(BeNil())
		made := &bullmq.Job{ID: "1"}
		Expect(bullmq.JobFromContext(bullmq.ContextWithJob(context.Background(), made))).To(BeIdenticalTo(made))
	})

	It("updates the progress of the job", func() {
		queue, job := within(func(ctx context.Context, _ *bullmq.Job) error {
			return bullmq.UpdateProgress(ctx, map[string]int{"percent": 40})
		}, nil)
		stored, err := queue.Job(specContext(), job.ID)
		Expect(err).NotTo(HaveOccurred())
		Expect(stored.Progress).To(MatchJSON(`{"percent":40}`))
		Expect(bullmq.UpdateProgress(context.Background(), 1)).To(MatchError(ContainSubstring("not that of a handler")))
	})

	It("adds jobs to the job's queue and to others over the worker's connection", func() {
		other := newQueueName()
		queue, _ := within(func(ctx context.Context, job *bullmq.Job) error {
			if job.Name == "next" {
				return nil
			}
			for _, name := range []string{"", other, other} {
				queue, err := bullmq.QueueFromContext(ctx, name)
				if err != nil {
					return err
				}
				if _, err = queue.Add(ctx, "next", nil, &bullmq.JobOptions{Priority: 1}); err != nil {
					return err
				}
			}
			return nil
		}, &bullmq.WorkerOptions{QueueOptions: &bullmq.QueueOptions{DefaultJobOptions: &bullmq.JobOptions{Attempts: 4}}})
		jobs, err := newQueue(other, nil).Jobs(specContext(), bullmq.Page{}, bullmq.StatePrioritized)
		Expect(err).NotTo(HaveOccurred())
		Expect(jobs).To(HaveLen(2))
		Expect(jobs[0].Options.Attempts).To(Equal(4))
		Eventually(countOf(queue, bullmq.StateCompleted)).Should(Equal(2))
		_, err = bullmq.QueueFromContext(context.Background(), other)
		Expect(err).To(MatchError(ContainSubstring("make the queue with NewQueue")))
	})

	It("has a logger with the fields of the job, whose lines the job's log keeps from a level on", func() {
		var lines logLines
		queue, job := within(func(ctx context.Context, _ *bullmq.Job) error {
			log := bullmq.LoggerFromContext(ctx).With("step", 1)
			log.Debug("mixed")
			log.Info("started", "colour", "blue")
			for i := range 5 {
				log.Warn(fmt.Sprintf("layer %d %s", i, strings.Repeat("é", 40)))
			}
			return nil
		}, &bullmq.WorkerOptions{
			Name: "w1", Logger: bullmq.Zerolog(zerolog.New(&lines).Level(zerolog.DebugLevel)),
			JobLog: &bullmq.JobLogOptions{MaxLines: 3, MaxLineSize: 100},
		})
		Expect(lines.all()).To(ContainSubstring(`"message":"mixed"`))
		for _, field := range []string{`"queue":"` + queue.Name() + `"`, `"worker":"w1"`, `"job":"` + job.ID + `"`, `"name":"paint"`, `"attempt":1`, `"step":1`} {
			Expect(lines.all()).To(ContainSubstring(field))
		}
		rows, n, err := queue.JobLogs(specContext(), job.ID, bullmq.Page{})
		Expect(err).NotTo(HaveOccurred())
		Expect(n).To(Equal(4))
		slices.Reverse(rows) // the newest comes first
		Expect(rows[0]).To(And(ContainSubstring("level=INFO msg=started step=1 colour=blue"), Not(ContainSubstring("queue="))))
		Expect(rows[1]).To(And(ContainSubstring("layer 0"), HaveSuffix("…"), MatchRegexp(`^[\x00-\x7fé…]*$`)))
		Expect(rows[3]).To(ContainSubstring("has reached its limit of 3 lines"))
	})

	It("has one logger, so that MaxLines is the limit of an attempt, wherever it logs", func() {
		queue := newQueue(newQueueName(), &bullmq.QueueOptions{DefaultJobOptions: &bullmq.JobOptions{Attempts: 2}})
		runWorker(queue.Name(), func(ctx context.Context, job *bullmq.Job) (any, error) {
			child, cancel := context.WithCancel(ctx)
			defer cancel()
			for i := range 3 {
				bullmq.LoggerFromContext(ctx).Info(fmt.Sprint("layer ", i))
				bullmq.LoggerFromContext(child).Info(fmt.Sprint("dried ", i))
			}
			if job.AttemptsMade == 0 {
				return nil, errors.New("too thin")
			}
			return nil, nil
		}, &bullmq.WorkerOptions{JobLog: &bullmq.JobLogOptions{MaxLines: 2}})
		job, err := queue.Add(specContext(), "paint", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(queue.WaitForJob(specContext(), job.ID)).Error().NotTo(HaveOccurred())
		rows, _, err := queue.JobLogs(specContext(), job.ID, bullmq.Page{Ascending: true})
		Expect(err).NotTo(HaveOccurred())
		attempt := []any{ContainSubstring("layer 0"), ContainSubstring("dried 0"), ContainSubstring("limit of 2 lines")}
		Expect(rows).To(HaveExactElements(append(attempt, attempt...)...))
	})

	It("has a logger with the fields of ContextWithLogAttrs", func() {
		var lines logLines
		queue, job := within(func(ctx context.Context, _ *bullmq.Job) error {
			ctx = bullmq.ContextWithLogAttrs(ctx, slog.String("tenant", "acme"))
			inner := bullmq.ContextWithLogAttrs(ctx, slog.Int("page", 3), slog.Bool("last", true))
			bullmq.LoggerFromContext(inner).Info("inner")
			bullmq.LoggerFromContext(ctx).Info("outer")
			bullmq.LoggerFromContext(bullmq.ContextWithLogAttrs(inner, slog.String("tenant", "globex"))).Info("replaced")
			return nil
		}, &bullmq.WorkerOptions{Logger: bullmq.Zerolog(zerolog.New(&lines)), JobLog: &bullmq.JobLogOptions{}})
		Expect(lines.all()).To(ContainSubstring(`"attempt":1,"tenant":"acme","page":3,"last":true,"message":"inner"`))
		Expect(lines.all()).To(ContainSubstring(`"attempt":1,"tenant":"acme","message":"outer"`))
		Expect(lines.all()).To(ContainSubstring(`"attempt":1,"page":3,"last":true,"tenant":"globex","message":"replaced"`))
		rows, _, err := queue.JobLogs(specContext(), job.ID, bullmq.Page{Ascending: true})
		Expect(err).NotTo(HaveOccurred())
		Expect(rows).To(HaveExactElements(
			HaveSuffix("msg=inner tenant=acme page=3 last=true"), HaveSuffix("msg=outer tenant=acme"), HaveSuffix("msg=replaced page=3 last=true tenant=globex")))
	})

	It("keeps lines out of the job's log without JobLog", func() {
		queue, job := within(func(ctx context.Context, _ *bullmq.Job) error {
			bullmq.LoggerFromContext(ctx).Error("an error")
			return nil
		}, nil)
		_, n, err := queue.JobLogs(specContext(), job.ID, bullmq.Page{})
		Expect(err).NotTo(HaveOccurred())
		Expect(n).To(BeZero())
		Expect(bullmq.LoggerFromContext(context.Background())).To(BeIdenticalTo(slog.Default()))
	})

	It("tells a panic from an error", func() {
		failed := make(chan error, 1)
		queue := newQueue(newQueueName(), nil)
		runWorker(queue.Name(), func(context.Context, *bullmq.Job) (any, error) { panic(context.Canceled) }, &bullmq.WorkerOptions{
			Events: bullmq.WorkerEvents{Failed: func(_ *bullmq.Job, err error) { failed <- err }},
		})
		_, err := queue.Add(specContext(), "paint", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		var reason error
		Eventually(failed).Should(Receive(&reason))
		var panicked *bullmq.PanicError
		Expect(errors.As(reason, &panicked)).To(BeTrue())
		Expect(panicked.Value).To(Equal(context.Canceled))
		Expect(panicked.Stack).To(ContainSubstring("job_context_test.go"))
		Expect(reason).To(MatchError(context.Canceled))
	})
})
