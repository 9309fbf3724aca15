package middleware_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmq/middleware"
)

var queues atomic.Int64

// syncBuffer is a bytes.Buffer for several goroutines.
type syncBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func newQueue(add ...bullmq.AddMiddleware) *bullmq.Queue {
	GinkgoHelper()
	queue, err := bullmq.NewQueue(context.Background(), fmt.Sprint("queue-", queues.Add(1)), &bullmq.QueueOptions{URL: redis.URL(), Middleware: add})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(queue.Close)
	return queue
}

// run runs the jobs of a queue until the spec ends.
func run(queue *bullmq.Queue, handler bullmq.Handler, o bullmq.WorkerOptions) {
	GinkgoHelper()
	o.URL = redis.URL()
	worker, err := bullmq.NewWorker(context.Background(), queue.Name(), handler, &o)
	Expect(err).NotTo(HaveOccurred())
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(context.Background()) }()
	DeferCleanup(func() {
		Expect(worker.Close()).To(Succeed())
		Eventually(ended).Should(Receive(BeNil()))
	})
}

var _ = Describe("Middleware of handlers", func() {
	It("logs the end of each run", func(ctx context.Context) {
		var lines syncBuffer
		queue := newQueue()
		run(queue, bullmq.Wrap(func(_ context.Context, job *bullmq.Job) (any, error) {
			switch job.Name {
			case "bad":
				return nil, bullmq.Snooze(time.Hour)
			case "handed over":
				return nil, bullmq.ErrHandedOver
			}
			return nil, nil
		}, middleware.Log(slog.LevelInfo)), bullmq.WorkerOptions{Logger: bullmq.Slog(slog.New(slog.NewTextHandler(&lines, nil)))})
		for _, name := range []string{"bad", "good"} {
			job, err := queue.Add(ctx, name, nil, nil)
			Expect(err).NotTo(HaveOccurred())
			Eventually(func() (bullmq.State, error) { return queue.JobState(ctx, job.ID) }).Should(Or(Equal(bullmq.StateCompleted), Equal(bullmq.StateDelayed)))
		}
		Expect(lines.String()).To(MatchRegexp(`level=WARN msg="the handler returned an error" queue=%s job=1 name=bad attempt=1 duration_ms=\S+ error=`, queue.Name()))
		Expect(lines.String()).To(MatchRegexp(`level=INFO msg="the handler succeeded" queue=%s job=2 name=good attempt=1 duration_ms=`, queue.Name()))
		_, err := queue.Add(ctx, "handed over", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		Eventually(lines.String).Should(MatchRegexp(`level=INFO msg="the handler has handed the job over" queue=%s job=3 name="handed over" attempt=1 duration_ms=`, queue.Name()))
	})

	It("leaves the end of a cancelled run to the worker, which logs it once", func(ctx context.Context) {
		var lines syncBuffer
		queue := newQueue()
		started := make(chan struct{})
		run(queue, bullmq.Wrap(func(ctx context.Context, _ *bullmq.Job) (any, error) {
			close(started)
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}, middleware.Log(slog.LevelInfo)), bullmq.WorkerOptions{Logger: bullmq.Slog(slog.New(slog.NewTextHandler(&lines, nil)))})
		job, err := queue.Add(ctx, "bill", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		Eventually(started).Should(BeClosed())
		Expect(queue.Cancel(ctx, job.ID, "by the customer")).To(Equal(bullmq.CancelRunning))
		Eventually(lines.String, "10s").Should(ContainSubstring("by the customer"))
		Expect(strings.Count(lines.String(), "by the customer")).To(Equal(1), lines.String())
		Expect(lines.String()).To(MatchRegexp(`level=INFO msg="a job was cancelled" .* error="cancelled: by the customer"`))
	})

	It("observes how long a job waited and ran", func(ctx context.Context) {
		runs := make(chan middleware.Run, 3)
		handler := bullmq.Wrap(func(_ context.Context, job *bullmq.Job) (any, error) {
			time.Sleep(2 * time.Millisecond)
			if job.Name == "panic" {
				panic("boom")
			}
			return nil, errors.New("closed")
		}, middleware.Timing(func(_ context.Context, run middleware.Run) { runs <- run }))
		ready := time.UnixMilli(1_700_000_000_000)
		_, err := handler(ctx, &bullmq.Job{
			ID: "7", Timestamp: ready.Add(-time.Hour), Options: bullmq.JobOptions{Delay: time.Hour}, AttemptsStarted: 1, ProcessedOn: ready.Add(30 * time.Millisecond),
		})
		Expect(err).To(MatchError("closed"))
		var seen middleware.Run
		Expect(runs).To(Receive(&seen))
		Expect(seen.Wait).To(Equal(30 * time.Millisecond))
		Expect(seen.Duration).To(BeNumerically(">=", 2*time.Millisecond))
		Expect(seen.Err).To(MatchError("closed"))

		Expect(func() { _, _ = handler(ctx, &bullmq.Job{Name: "panic"}) }).To(PanicWith("boom"))
		Expect(runs).To(Receive(&seen))
		Expect(seen.Wait).To(BeZero())
		Expect(seen.Err).To(MatchError(ContainSubstring("did not return")))
	})
})
