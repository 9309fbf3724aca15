package bullmq_test

import (
	"context"
	"errors"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// counters is a Telemetry that sums its counters by name and state.
type counters struct {
	mu  sync.Mutex
	sum map[string]float64
}

func (c *counters) StartSpan(ctx context.Context, _ string, _ bullmq.SpanKind) (context.Context, bullmq.Span) {
	return ctx, noSpan{}
}
func (c *counters) Inject(context.Context) string                         { return "" }
func (c *counters) Extract(ctx context.Context, _ string) context.Context { return ctx }

func (c *counters) Record(_ context.Context, metric bullmq.Instrument, value float64, attributes ...bullmq.Attribute) {
	if metric.Kind != bullmq.InstrumentCounter {
		return
	}
	name := metric.Name
	for _, a := range attributes {
		if a.Key == "bullmq.job.state" {
			name += " " + a.Value.(string)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sum == nil {
		c.sum = map[string]float64{}
	}
	c.sum[name] += value
}

func (c *counters) all() map[string]float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	sum := map[string]float64{}
	for name, n := range c.sum {
		sum[name] = n
	}
	return sum
}

var _ = Describe("Counters", func() {
	It("distinguish failed attempts from jobs that are returned without one", func() {
		name, ctx := newQueueName(), specContext()
		queue, seen := newQueue(name, nil), &counters{}
		boom := errors.New("boom")
		for _, job := range []struct {
			name    string
			options bullmq.JobOptions
		}{
			{"fails with a backoff", bullmq.JobOptions{Attempts: 3, Backoff: bullmq.FixedBackoff(time.Millisecond)}},
			{"fails", bullmq.JobOptions{Attempts: 2}},
			{"snoozes", bullmq.JobOptions{Attempts: 3}},
			{"snoozes for no time", bullmq.JobOptions{}},
			{"can't succeed", bullmq.JobOptions{Attempts: 3}},
			{"is rate limited", bullmq.JobOptions{}},
		} {
			_, err := queue.Add(ctx, job.name, nil, &job.options)
			Expect(err).NotTo(HaveOccurred())
		}
		runWorker(name, func(_ context.Context, job *bullmq.Job) (any, error) {
			again := job.AttemptsStarted < 3
			switch {
			case job.Name == "fails with a backoff", job.Name == "fails":
				return nil, boom
			case job.Name == "snoozes" && again:
				return nil, bullmq.Snooze(time.Millisecond)
			case job.Name == "snoozes for no time" && again:
				return nil, bullmq.ErrSnoozed
			case job.Name == "is rate limited" && again:
				return nil, bullmq.RateLimit(time.Millisecond)
			case job.Name == "can't succeed":
				return nil, bullmq.Unrecoverable(boom)
			}
			return nil, nil
		}, &bullmq.WorkerOptions{Telemetry: seen})
		Eventually(seen.all).Should(Equal(map[string]float64{
			"bullmq.jobs.completed completed":     3,
			"bullmq.jobs.failed failed":           3,
			"bullmq.jobs.retried retried":         1,
			"bullmq.jobs.delayed delayed":         2 + 2 + 2, // by backoff, by Snooze, and by RateLimit without a limiter
			"bullmq.jobs.waiting waiting":         2,
			"bullmq.jobs.attempts.failed failed":  3,
			"bullmq.jobs.attempts.failed retried": 1,
			"bullmq.jobs.attempts.failed delayed": 2,
		}))
	})
})
