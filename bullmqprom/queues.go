package bullmqprom

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// QueuesOptions configures [NewQueues]. A nil pointer and the zero value select the
// defaults.
type QueuesOptions struct {
	// Timeout limits how long the reads of one scrape take. It should be shorter than the
	// scrape timeout of Prometheus.
	// Defaults to 5 seconds.
	Timeout time.Duration
	// MaxAge is how long the values of one scrape are used for later scrapes. It is at
	// least one second.
	// Defaults to 1 second.
	MaxAge time.Duration
	// ConstLabels are added to each sample. Set prefix if the queues have a Prefix other
	// than [bullmq.DefaultPrefix].
	// Defaults to none.
	ConstLabels prometheus.Labels
}

// Queues is a [prometheus.Collector] that reads queues from Redis at scrape time. It works
// for queues that only Node clients use. Its methods are safe for concurrent use.
type Queues struct {
	timeout, maxAge time.Duration
	queues          []*bullmq.Queue

	up, jobs, completed, failed, oldest           *prometheus.Desc
	paused, workers, schedulers, limited, maximum *prometheus.Desc
	unserved                                      *prometheus.Desc

	mu      sync.Mutex
	samples []prometheus.Metric
	read    time.Time
}

// NewQueues returns a collector of queues. It reads all queues together. Close the queues
// after the last scrape. options may be nil.
//
// NewQueues panics if a queue is nil, or if two queues have the same name. If two queues with
// different prefixes have the same name, use a second collector with other ConstLabels.
func NewQueues(options *QueuesOptions, queues ...*bullmq.Queue) *Queues {
	var o QueuesOptions
	if options != nil {
		o = *options
	}
	if o.Timeout <= 0 {
		o.Timeout = 5 * time.Second
	}
	c := &Queues{timeout: o.Timeout, maxAge: max(o.MaxAge, time.Second), queues: queues}
	seen := map[string]bool{}
	for i, q := range queues {
		if q == nil {
			panic(fmt.Sprintf("bullmqprom: queue %d of %d is nil", i+1, len(queues)))
		}
		if seen[q.Name()] {
			panic(fmt.Sprintf("bullmqprom: two queues are named %s: use a second collector with other ConstLabels", q.Name()))
		}
		seen[q.Name()] = true
	}
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, append([]string{"queue"}, labels...), o.ConstLabels)
	}
	c.up = desc("bullmq_up", "Whether the queue could be read from Redis.")
	c.jobs = desc("bullmq_job_count", "Number of jobs in the queue by state", "state")
	c.completed = desc("bullmq_job_completed_total", "Total number of completed jobs")
	c.failed = desc("bullmq_job_failed_total", "Total number of failed jobs")
	c.oldest = desc("bullmq_queue_oldest_job_seconds", "How long the oldest job has been ready, overdue (delayed) or running (active).", "state")
	c.paused = desc("bullmq_queue_paused", "Whether the queue is paused.")
	c.workers = desc("bullmq_queue_workers", "Number of workers that are connected to the queue.")
	c.schedulers = desc("bullmq_queue_schedulers", "Number of job schedulers of the queue.")
	c.limited = desc("bullmq_queue_rate_limited_seconds", "How long the rate limit still stops the queue.")
	c.maximum = desc("bullmq_queue_concurrency_limit", "Global concurrency of the queue. Absent without a limit.")
	c.unserved = desc("bullmq_route_unserved_jobs", "Number of jobs that are ready in a route that no worker serves. Absent for other routes.", "route")
	return c
}

// Describe implements [prometheus.Collector].
func (c *Queues) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{c.up, c.jobs, c.completed, c.failed, c.oldest, c.paused, c.workers, c.schedulers, c.limited, c.maximum, c.unserved} {
		ch <- desc
	}
}

// Collect implements [prometheus.Collector]. A queue that can't be read has bullmq_up 0 as
// its only sample.
func (c *Queues) Collect(ch chan<- prometheus.Metric) {
	for _, sample := range c.current() {
		ch <- sample
	}
}

// current returns the samples. It reads them if those of the last scrape are too old.
func (c *Queues) current() []prometheus.Metric {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.read.IsZero() && time.Since(c.read) < c.maxAge {
		return c.samples
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
	defer cancel()
	c.samples = c.readAll(ctx)
	c.read = time.Now()
	return c.samples
}

// readAll reads all queues at the same time, so that their commands share round trips.
func (c *Queues) readAll(ctx context.Context) []prometheus.Metric {
	var running sync.WaitGroup
	states := make([]*queueState, len(c.queues))
	for i, q := range c.queues {
		running.Go(func() {
			if s, err := readQueue(ctx, q); err == nil {
				states[i] = s
			}
		})
	}
	var workers []int
	var workersErr error
	running.Go(func() { workers, workersErr = bullmq.CountWorkers(ctx, c.queues...) })
	running.Wait()
	var samples []prometheus.Metric
	for i, q := range c.queues {
		add := func(desc *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
			samples = append(samples, prometheus.MustNewConstMetric(desc, kind, value, append([]string{q.Name()}, labels...)...))
		}
		if states[i] == nil || workersErr != nil {
			add(c.up, prometheus.GaugeValue, 0)
			continue
		}
		add(c.up, prometheus.GaugeValue, 1)
		add(c.workers, prometheus.GaugeValue, float64(workers[i]))
		c.addState(add, states[i])
	}
	return samples
}

func (c *Queues) addState(add func(*prometheus.Desc, prometheus.ValueType, float64, ...string), s *queueState) {
	for state, n := range s.counts {
		add(c.jobs, prometheus.GaugeValue, float64(n), string(state))
	}
	for state, age := range s.ages {
		add(c.oldest, prometheus.GaugeValue, age.Seconds(), string(state))
	}
	paused := 0.0
	if s.meta.Paused {
		paused = 1
	}
	add(c.paused, prometheus.GaugeValue, paused)
	add(c.schedulers, prometheus.GaugeValue, float64(s.schedulers))
	add(c.limited, prometheus.GaugeValue, max(0, s.limited.Seconds()))
	if limit := s.meta.Concurrency; limit != nil {
		add(c.maximum, prometheus.GaugeValue, float64(*limit))
	}
	for _, route := range s.routes {
		if !route.IsServed() && route.Err == nil {
			add(c.unserved, prometheus.GaugeValue, float64(route.Ready), route.Name)
		}
	}
	for desc, ended := range map[*prometheus.Desc]bullmq.JobMetrics{c.completed: s.completed, c.failed: s.failed} {
		if !ended.PrevTime.IsZero() || ended.Count > 0 {
			add(desc, prometheus.CounterValue, float64(ended.Count))
		}
	}
}

// queueState is what is read of a queue.
type queueState struct {
	counts            map[bullmq.State]int
	ages              map[bullmq.State]time.Duration
	completed, failed bullmq.JobMetrics
	meta              bullmq.Meta
	schedulers        int
	limited           time.Duration
	routes            []bullmq.RouteInfo // none if the user may not read them
}

// readQueue reads a queue. Its calls run at the same time. It returns the first error.
func readQueue(ctx context.Context, q *bullmq.Queue) (*queueState, error) {
	var s queueState
	calls := []func() error{
		func() (err error) { s.counts, err = q.Counts(ctx); return err },
		func() (err error) { s.ages, err = q.Ages(ctx); return err },
		func() (err error) {
			s.completed, err = q.Metrics(ctx, bullmq.StateCompleted, bullmq.Page{Limit: 1})
			return err
		},
		func() (err error) {
			s.failed, err = q.Metrics(ctx, bullmq.StateFailed, bullmq.Page{Limit: 1})
			return err
		},
		func() (err error) { s.meta, err = q.Meta(ctx); return err },
		func() (err error) { s.schedulers, err = q.CountSchedulers(ctx); return err },
		func() (err error) { s.limited, err = q.RateLimitTTL(ctx, 0); return err },
		func() error { s.routes, _ = q.Routes(ctx); return nil },
	}
	errs := make(chan error, len(calls))
	for _, call := range calls {
		go func() { errs <- call() }()
	}
	var first error
	for range calls {
		if err := <-errs; err != nil && first == nil {
			first = err
		}
	}
	if first != nil {
		return nil, first
	}
	return &s, nil
}
