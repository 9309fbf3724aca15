package bullmq_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/faultproxy"
)

var errBoom = errors.New("boom")

var workerTasks = []task{
	{"runs jobs, which succeed, fail, are retried and wait again", func(p *program) {
		again := bullmq.JobOptions{Attempts: 2}
		later, next := again, again
		later.Backoff, next.LIFO = bullmq.FixedBackoff(time.Millisecond), true
		for job, o := range map[string]bullmq.JobOptions{
			"complete": {}, "fail": {}, "delayed": {Delay: 5 * time.Millisecond}, "delayed-in-order": {Delay: 5 * time.Millisecond, Priority: 3},
			"throttled": {Deduplication: &bullmq.Deduplication{ID: "t", TTL: time.Hour}},
			"keep-last": {KeepCompleted: bullmq.KeepLast(1)}, "keep-none": {KeepCompleted: bullmq.KeepNone()}, "fail-and-keep": {KeepFailed: bullmq.KeepFor(time.Hour)},
			"retry": again, "retry-later": later, "retry-next": next, "retry-in-order": {Priority: 3, Attempts: 2},
			"snooze": {}, "snooze-in-order": {Priority: 3}, "limit": {},
		} {
			p.others.add(job, o)
		}
		p.others.do("RPUSH", p.others.key("wait"), "0:0") // a wake-up entry of BullMQ 4
		p.others.do("HSET", p.others.key("meta"), "concurrency", "50")
		p.others.do("ZADD", p.others.key("failed"), "1", "old")
		p.others.do("HSET", p.others.key("metrics:completed"), "prevTS", "1", "prevCount", "0", "count", "0")

		var mu sync.Mutex
		runs := map[string]int{}
		p.runJobs(func(_ context.Context, job *bullmq.Job) (any, error) {
			mu.Lock()
			runs[job.Name]++
			first := runs[job.Name] == 1
			mu.Unlock()
			switch job.Name {
			case "fail", "fail-and-keep":
				return nil, bullmq.Unrecoverable(errBoom)
			case "retry", "retry-later", "retry-next", "retry-in-order":
				if first {
					return nil, errBoom
				}
			case "snooze", "snooze-in-order":
				if first {
					return nil, bullmq.Snooze(map[string]time.Duration{"snooze": 5 * time.Millisecond}[job.Name])
				}
			case "limit":
				if first {
					return nil, bullmq.RateLimit(5 * time.Millisecond)
				}
			}
			return nil, nil
		})
		p.Expect(runs).To(Equal(map[string]int{
			"complete": 1, "fail": 1, "delayed": 1, "delayed-in-order": 1, "throttled": 1, "keep-last": 1, "keep-none": 1, "fail-and-keep": 1,
			"retry": 2, "retry-later": 2, "retry-next": 2, "retry-in-order": 2, "snooze": 2, "snooze-in-order": 2, "limit": 2,
		}))
	}},

	{"changes the job that it runs", func(p *program) {
		p.others.add("a", bullmq.JobOptions{})
		p.runJobs(p.changeJob)
		p.Expect(p.others.queue.Counts(p.ctx, bullmq.StateCompleted)).To(HaveKeyWithValue(bullmq.StateCompleted, 1))
	}},

	{"runs the job that was added while the owner of its deduplication id ran", func(p *program) {
		d := bullmq.JobOptions{Deduplication: &bullmq.Deduplication{ID: "d", KeepLastIfActive: true}}
		p.others.add("first", d)
		var names []string
		p.runJobs(func(_ context.Context, job *bullmq.Job) (any, error) {
			if names = append(names, job.Name); job.Name == "first" {
				p.others.add("second", d)
			}
			return nil, nil
		})
		p.Expect(names).To(Equal([]string{"first", "second"}))
	}},

	{"runs flows whose children fail, with each policy and parents of each state", func(p *program) {
		for _, policy := range []bullmq.JobOptions{
			{OnFailure: bullmq.FailParent}, {OnFailure: bullmq.ContinueParent}, {OnFailure: bullmq.IgnoreDependency}, {OnFailure: bullmq.RemoveDependency},
		} {
			for _, parent := range []bullmq.JobOptions{{}, {Priority: 2}, {Delay: time.Millisecond}} {
				p.others.addFlow(bullmq.Flow{Name: "parent", Options: &parent},
					bullmq.Flow{Name: "child"}, bullmq.Flow{Name: "child", Options: &bullmq.JobOptions{KeepCompleted: bullmq.KeepNone()}}, bullmq.Flow{Name: "fail", Options: &policy})
			}
		}
		p.runJobs(func(ctx context.Context, job *bullmq.Job) (any, error) {
			if job.Name == "fail" {
				return nil, bullmq.Unrecoverable(errBoom)
			}
			return p.changeJob(ctx, job)
		})
		// Of each policy three children fail, and three parents of the first. A parent of the second fails if it runs
		// before its other children.
		p.Expect(p.others.queue.Counts(p.ctx, bullmq.StateFailed)).To(HaveKeyWithValue(bullmq.StateFailed, And(BeNumerically(">=", 4*3+3), BeNumerically("<=", 4*3+6))))
	}},

	{"moves a job to waiting-children, and runs it again after its child", func(p *program) {
		p.others.add("parent", bullmq.JobOptions{JobID: "parent"})
		var runs atomic.Int32
		p.runJobs(func(ctx context.Context, job *bullmq.Job) (any, error) {
			if job.Name != "parent" || runs.Add(1) > 1 {
				return nil, nil
			}
			for {
				p.others.add("child", bullmq.JobOptions{Parent: &bullmq.ParentRef{ID: job.ID, QueueKey: "bull:" + p.name}})
				moved, err := job.MoveToWaitingChildren(ctx)
				if p.Expect(err).NotTo(HaveOccurred()); moved {
					return nil, bullmq.ErrMovedToWaitingChildren
				} // else the child has run already
			}
		})
		p.Expect(runs.Load()).To(BeEquivalentTo(2))
	}},

	{"runs the job of a scheduler, and adds the next one", func(p *program) {
		p.others.upsertScheduler("often", &bullmq.JobTemplate{Name: "a"})
		p.runJobsUntil(func(left map[bullmq.State]int) bool {
			completed, err := p.others.queue.Counts(p.ctx, bullmq.StateCompleted)
			p.Expect(err).NotTo(HaveOccurred())
			return completed[bullmq.StateCompleted] == 1 && left[bullmq.StateDelayed] == 1
		}, p.workerOptions(), doNothing)
	}},

	{"renews locks, recovers stalled jobs, and drops ids without a job", func(p *program) {
		p.others.add("stuck", bullmq.JobOptions{JobID: "stuck"})
		p.others.do("LREM", p.others.key("wait"), "1", "stuck")
		p.others.do("LPUSH", p.others.key("active"), "stuck", "0:0")
		p.others.do("SADD", p.others.key("stalled"), "stuck", "0:0")
		p.others.do("RPUSH", p.others.key("foreign"), "no job")
		p.others.do("LPUSH", p.others.key("wait"), "foreign")
		p.others.add("long", bullmq.JobOptions{})
		checker, err := bullmq.NewFetcher(p.ctx, p.name, &bullmq.FetcherOptions{Connection: p.connection(p.others.address), MaxStalledCount: -1})
		p.Expect(err).NotTo(HaveOccurred())
		p.opened = append(p.opened, checker)
		p.runJobs(func(ctx context.Context, job *bullmq.Job) (any, error) {
			if job.Name != "long" {
				return nil, nil
			}
			time.Sleep(100 * time.Millisecond) // longer than LockRenewTime
			p.others.do("DEL", p.others.key("stalled-check"))
			p.Expect(checker.CheckStalled(ctx)).Error().NotTo(HaveOccurred())
			return nil, nil
		})
		p.Expect(p.others.queue.JobState(p.ctx, "stuck")).To(Or(Equal(bullmq.StateCompleted), Equal(bullmq.StateFailed)))
	}},

	{"finds out what a call did whose reply is lost", func(p *program) {
		proxy, err := faultproxy.Start(p.others.address)
		p.Expect(err).NotTo(HaveOccurred())
		defer proxy.Close()
		lost := proxy.LoseCommand("lost-on-its-way")
		p.others.add("a", bullmq.JobOptions{})
		o := p.workerOptions()
		o.Connection = p.connection(proxy.Addr())
		o.Events.Error = func(err error) { // the loss is reported too
			if isDenied(err) {
				p.note(err)
			}
		}
		p.runJobsUntil(none, o, func(context.Context, *bullmq.Job) (any, error) { return "lost-on-its-way", nil })
		p.Eventually(lost).Should(BeClosed())
		p.Expect(p.others.queue.Counts(p.ctx, bullmq.StateCompleted)).To(HaveKeyWithValue(bullmq.StateCompleted, 1))
	}},
}

// changeJob is a handler that makes each call which a handler may make about its job.
func (p *program) changeJob(ctx context.Context, job *bullmq.Job) (any, error) {
	p.Expect(job.Log(ctx, "row")).Error().NotTo(HaveOccurred())
	p.Expect(job.UpdateProgress(ctx, 1)).To(Succeed())
	p.Expect(job.UpdateData(ctx, 1)).To(Succeed())
	p.Expect(bullmq.Children[any](ctx, job)).Error().NotTo(HaveOccurred())
	return nil, nil
}

// workerOptions returns options of a worker that reports each error as a failure.
func (p *program) workerOptions() *bullmq.WorkerOptions {
	return &bullmq.WorkerOptions{
		Connection: p.connection(p.others.address), Name: "painter", Concurrency: 5, ShutdownTimeout: 5 * time.Second,
		LockDuration: 15 * time.Second, LockRenewTime: 20 * time.Millisecond, MaxStalledCount: -1,
		Limiter: &bullmq.Limiter{Max: 1000, Duration: 50 * time.Millisecond}, MetricsPoints: 5,
		Events: bullmq.WorkerEvents{Error: p.note},
	}
}

// none reports whether no jobs are left.
func none(left map[bullmq.State]int) bool {
	for _, n := range left {
		if n > 0 {
			return false
		}
	}
	return true
}

// runJobs runs a worker until no jobs are left.
func (p *program) runJobs(handler bullmq.Handler) { p.runJobsUntil(none, p.workerOptions(), handler) }

// runJobsUntil runs a worker until done returns true for the numbers of unfinished jobs.
func (p *program) runJobsUntil(done func(left map[bullmq.State]int) bool, o *bullmq.WorkerOptions, handler bullmq.Handler) {
	worker, err := bullmq.NewWorker(p.ctx, p.name, handler, o)
	p.Expect(err).NotTo(HaveOccurred())
	p.opened = append(p.opened, worker)
	run, end := context.WithCancel(p.ctx)
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(run) }()
	stop := sync.OnceValue(func() error { end(); return <-ended })
	defer stop()

	p.Eventually(func() bool {
		if p.failed() != nil {
			return true
		}
		left, err := p.others.queue.Counts(p.ctx, bullmq.StateWaiting, bullmq.StateActive, bullmq.StatePrioritized, bullmq.StateWaitingChildren, bullmq.StateDelayed)
		p.Expect(err).NotTo(HaveOccurred())
		return done(left)
	}, "15s", "10ms").Should(BeTrue(), "jobs were left")
	p.Expect(stop()).To(Succeed())
	p.Expect(p.failed()).NotTo(HaveOccurred())
}
