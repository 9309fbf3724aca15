package bullmq_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
	"github.com/rs/zerolog"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/faultproxy"
)

// These functions do everything that programs of four kinds do with a queue, each on a connection of its own user.
// They return the first error. others prepares what other programs of the queue would do.

// firstError keeps the first error that is noted.
type firstError struct {
	mu  sync.Mutex
	err error
}

func (f *firstError) note(what string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil && err != nil {
		f.err = fmt.Errorf("%s: %w", what, err)
	}
}

func (f *firstError) first() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// Write notes each log line as an error.
func (f *firstError) Write(line []byte) (int, error) {
	f.note("log", errors.New(string(line)))
	return len(line), nil
}

func (f *firstError) logger() bullmq.Logger {
	return bullmq.Zerolog(zerolog.New(f).Level(zerolog.WarnLevel))
}

// A bystander acts as other programs of the queue, with all permissions.
type bystander struct {
	address string
	client  rueidis.Client
	*bullmq.Queue
	flows *bullmq.FlowProducer
}

func (b *bystander) do(words ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return b.client.Do(ctx, b.client.B().Arbitrary(words...).Build()).Error()
}

func (b *bystander) key(suffix string) string { return "bull:" + b.Name() + ":" + suffix }

// A role is a kind of program.
type role struct {
	name string
	work func(ctx context.Context, at func(address string) *bullmq.Connection, others *bystander, queue string) error
}

var roles = []role{{"producer", produce}, {"worker", runJobs}, {"events", follow}, {"admin", administer}}

func produce(ctx context.Context, at func(address string) *bullmq.Connection, others *bystander, name string) error {
	var f firstError
	link := at(others.address)
	open := func(d bullmq.Dialect) *bullmq.Queue {
		q, err := bullmq.NewQueue(ctx, name, &bullmq.QueueOptions{Connection: link, Dialect: d, Logger: f.logger()})
		f.note("opening", err)
		return q
	}
	queue := open(bullmq.Detect)
	if queue == nil {
		return f.first()
	}
	defer queue.Close()
	add := func(o bullmq.JobOptions) *bullmq.Job {
		job, err := queue.Add(ctx, "paint", 1, &o)
		f.note(fmt.Sprintf("adding %+v", o), err)
		if job == nil {
			job = &bullmq.Job{ID: "none"}
		}
		return job
	}
	parent := add(bullmq.JobOptions{})
	add(bullmq.JobOptions{JobID: "own"})
	add(bullmq.JobOptions{JobID: "own"})
	add(bullmq.JobOptions{LIFO: true})
	add(bullmq.JobOptions{Delay: time.Hour})
	add(bullmq.JobOptions{Priority: 5})
	add(bullmq.JobOptions{Parent: &bullmq.ParentRef{ID: parent.ID, QueueKey: "bull:" + name}})
	for _, d := range []bullmq.Deduplication{
		{ID: "simple"}, {ID: "throttle", TTL: time.Hour}, {ID: "extend", TTL: time.Hour, Extend: true}, {ID: "replace", Replace: true},
		{ID: "reschedule", Reschedule: true}, {ID: "last", KeepLastIfActive: true}, {ID: "both", TTL: time.Hour, Replace: true},
	} {
		owner := add(bullmq.JobOptions{Deduplication: &d, Delay: time.Hour})
		if d.KeepLastIfActive { // which runs
			others.do("LPUSH", others.key("active"), owner.ID)
		}
		add(bullmq.JobOptions{Deduplication: &d, Delay: time.Minute})
		if d.ID == "simple" { // and is removed completely
			others.do("DEL", others.key(owner.ID))
			add(bullmq.JobOptions{Deduplication: &d})
		}
	}
	_, err := queue.AddBulk(ctx, []bullmq.BulkJob{{Name: "a"}, {Name: "b"}, {Name: "c", Options: &bullmq.JobOptions{Priority: 1}}})
	f.note("a bulk", err)
	producer, err := bullmq.NewFlowProducer(ctx, &bullmq.FlowProducerOptions{Connection: link, Logger: f.logger()})
	f.note("a flow producer", err)
	if producer != nil {
		defer producer.Close()
		others.do("ZADD", others.key("completed"), "1", "done")
		others.do("HSET", others.key("done"), "name", "a", "returnvalue", "1")
		for range 2 {
			_, err = producer.Add(ctx, bullmq.Flow{Name: "top", QueueName: name, Options: &bullmq.JobOptions{JobID: "top"}, Children: []bullmq.Flow{
				{Name: "below", QueueName: name, Options: &bullmq.JobOptions{JobID: "done"}},
			}})
			f.note("a flow", err)
		}
	}
	for _, r := range []bullmq.Repeat{{Every: time.Hour}, {Pattern: "0 0 * * *"}, {Every: time.Minute}} {
		_, err = queue.UpsertScheduler(ctx, "s", r, nil)
		f.note("a scheduler", err)
	}
	_, err = queue.Publish(ctx, "mine", &bullmq.PublishOptions{MaxEvents: 10}, "a", "b")
	f.note("an event", err)
	// The queue is paused in the way of BullMQ 5.
	others.do("HSET", others.key("meta"), "paused", "1")
	if five := open(bullmq.V5); five != nil {
		_, err = five.Add(ctx, "paint", nil, &bullmq.JobOptions{JobID: "of-5"})
		f.note("adding for BullMQ 5", err)
		f.note("closing", five.Close())
	}
	for _, end := range []string{"completed", "failed"} {
		others.do("ZADD", others.key(end), "1", "has-"+end)
		others.do("HSET", others.key("has-"+end), "name", "a", "returnvalue", "1", "failedReason", "why")
		_, err = queue.WaitForJob(ctx, "has-"+end)
		var failed *bullmq.JobFailedError
		if !errors.As(err, &failed) {
			f.note("waiting for a job that has ended", err)
		}
	}
	others.do("XADD", others.key("events"), "*", "event", "completed", "jobId", "gone", "returnvalue", "1")
	_, err = queue.WaitForJob(ctx, "gone")
	f.note("waiting for a job that has ended and is gone", err)
	waited := make(chan error, 1)
	soon, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	go func() { _, err := queue.WaitForJob(soon, parent.ID); waited <- err }()
	for tell := true; tell; {
		others.do("XADD", others.key("events"), "*", "event", "completed", "jobId", parent.ID, "returnvalue", "1")
		select {
		case err := <-waited:
			f.note("waiting for a job", err)
			tell = false
		case <-time.After(20 * time.Millisecond):
		}
	}
	return f.first()
}

// runJobs runs jobs with every outcome, and then one whose result is lost in transit.
func runJobs(ctx context.Context, at func(address string) *bullmq.Connection, others *bystander, name string) error {
	var f firstError
	ctx, stop := context.WithTimeout(ctx, 8*time.Second)
	defer stop()
	one, again := &bullmq.JobOptions{}, bullmq.JobOptions{Attempts: 2}
	later, next := again, again
	later.Backoff, next.LIFO = bullmq.FixedBackoff(time.Millisecond), true
	for job, o := range map[string]*bullmq.JobOptions{
		"complete": one, "retry": &again, "retry-later": &later, "retry-next": &next, "unrecoverable": one, "snooze": one, "limit": one, "long": one,
		"in-order": {Priority: 3, Attempts: 2}, "put-off": {Priority: 3}, "delayed": {Delay: 5 * time.Millisecond}, "delayed-in-order": {Delay: 5 * time.Millisecond, Priority: 3},
		"few": {KeepCompleted: bullmq.KeepLast(1)}, "young": {KeepFailed: bullmq.KeepFor(time.Hour)}, "gone": {KeepCompleted: bullmq.KeepNone()},
		"fetch-children": {JobID: "fetch-children"}, "stuck": {JobID: "stuck"},
		"deduplicated": {Deduplication: &bullmq.Deduplication{ID: "d", KeepLastIfActive: true}},
		"throttled":    {Deduplication: &bullmq.Deduplication{ID: "t", TTL: time.Hour}},
	} {
		_, err := others.Add(ctx, job, 1, o)
		f.note("others add "+job, err)
	}
	for policy, o := range map[string]bullmq.JobOptions{
		"fail": {OnFailure: bullmq.FailParent}, "go-on": {OnFailure: bullmq.ContinueParent}, "ignore": {OnFailure: bullmq.IgnoreDependency}, "forget": {OnFailure: bullmq.RemoveDependency},
	} {
		for _, parent := range []bullmq.JobOptions{{}, {Priority: 2}, {Delay: time.Millisecond}} {
			_, err := others.flows.Add(ctx, bullmq.Flow{Name: "complete", QueueName: name, Options: &parent, Children: []bullmq.Flow{
				{Name: "complete", QueueName: name}, {Name: "complete", QueueName: name, Options: &bullmq.JobOptions{KeepCompleted: bullmq.KeepNone()}},
				{Name: "unrecoverable", QueueName: name, Options: &o},
			}})
			f.note("others add a flow, "+policy, err)
		}
	}
	_, err := others.UpsertScheduler(ctx, "often", bullmq.Repeat{Every: time.Hour}, &bullmq.JobTemplate{Name: "complete"})
	f.note("others add a scheduler", err)
	others.do("RPUSH", others.key("wait"), "0:0") // a wake-up entry of BullMQ 4
	others.do("RPUSH", others.key("foreign"), "no job")
	others.do("LPUSH", others.key("wait"), "foreign")
	others.do("LREM", others.key("wait"), "1", "stuck")
	others.do("LPUSH", others.key("active"), "stuck", "0:0")
	others.do("SADD", others.key("stalled"), "stuck", "0:0")
	others.do("HSET", others.key("meta"), "concurrency", "50")
	others.do("ZADD", others.key("failed"), "1", "old")
	others.do("HSET", others.key("metrics:completed"), "prevTS", "1", "prevCount", "0", "count", "0")
	proxy, err := faultproxy.Start(others.address)
	if err != nil {
		return err
	}
	defer proxy.Close()
	var failedOnce sync.Map
	var lossy atomic.Bool
	checker, err := bullmq.NewFetcher(ctx, name, &bullmq.FetcherOptions{Connection: at(proxy.Addr()), MaxStalledCount: -1})
	if err != nil {
		return err
	}
	defer checker.Close()
	handler := func(ctx context.Context, job *bullmq.Job) (any, error) {
		switch job.Name {
		case "retry", "retry-later", "retry-next", "in-order":
			if _, again := failedOnce.LoadOrStore(job.ID, true); !again {
				return nil, errors.New("boom")
			}
		case "unrecoverable", "young":
			return nil, bullmq.Unrecoverable(errors.New("boom"))
		case "snooze", "limit", "put-off":
			if _, again := failedOnce.LoadOrStore(job.ID, true); !again {
				return nil, map[string]error{"snooze": bullmq.Snooze(5 * time.Millisecond), "limit": bullmq.RateLimit(5 * time.Millisecond), "put-off": bullmq.Snooze(0)}[job.Name]
			}
		case "long":
			time.Sleep(100 * time.Millisecond) // its lock is renewed
			others.do("DEL", others.key("stalled-check"))
			_, err := checker.CheckStalled(ctx)
			f.note("a check for stalled jobs", err)
		case "deduplicated":
			if _, again := failedOnce.LoadOrStore("deduplicated", true); !again {
				_, err := others.Add(ctx, "complete", nil, &bullmq.JobOptions{Deduplication: &bullmq.Deduplication{ID: "d", KeepLastIfActive: true}})
				f.note("others add what comes after", err)
			}
		case "fetch-children":
			if _, again := failedOnce.LoadOrStore(job.ID, true); again {
				break
			}
			_, err := others.Add(ctx, "complete", nil, &bullmq.JobOptions{Parent: &bullmq.ParentRef{ID: job.ID, QueueKey: "bull:" + name}})
			f.note("others add a child", err)
			parked, err := job.MoveToWaitingChildren(ctx)
			f.note("waiting for children", err)
			if parked {
				return nil, bullmq.ErrMovedToWaitingChildren
			}
		case "complete":
			_, err := job.Log(ctx, "row")
			f.note("a log", err)
			f.note("progress", job.UpdateProgress(ctx, 1))
			f.note("data", job.UpdateData(ctx, 1))
			_, err = bullmq.Children[any](ctx, job)
			f.note("children", err)
		case "lost":
			return "lost-on-its-way", nil
		}
		return nil, nil
	}
	worker, err := bullmq.NewWorker(ctx, name, handler, &bullmq.WorkerOptions{
		Connection: at(proxy.Addr()), Name: "painter", Concurrency: 5, LockDuration: 3 * time.Second, LockRenewTime: 20 * time.Millisecond, ShutdownTimeout: time.Second, MetricsPoints: 5, MaxStalledCount: -1,
		Limiter: &bullmq.Limiter{Max: 1000, Duration: 50 * time.Millisecond}, Events: bullmq.WorkerEvents{Error: func(err error) {
			if !lossy.Load() || isDenied(err) {
				f.note("the worker", err)
			}
		}},
	})
	if err != nil {
		return err
	}
	run, end := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(run) }()
	settled := func() bool {
		counts, err := others.Counts(ctx, bullmq.StateWaiting, bullmq.StateActive, bullmq.StatePrioritized, bullmq.StateWaitingChildren, bullmq.StateDelayed)
		f.note("others count", err)
		left := -1 // the scheduler's next job
		for _, n := range counts {
			left += n
		}
		return left <= 0
	}
	for !settled() && f.first() == nil && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	lossy.Store(true)
	lost := proxy.LoseCommand("lost-on-its-way")
	_, err = others.Add(ctx, "lost", nil, nil)
	f.note("others add a job", err)
	for (!isClosed(lost) || !settled()) && f.first() == nil && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	f.note("the end of all jobs", ctx.Err())
	end()
	f.note("the worker's end", <-ended)
	return f.first()
}

// isDenied reports whether a permission was missing, according to Redis or its scripts.
func isDenied(err error) bool {
	return denied.MatchString(fmt.Sprint(err))
}

var denied = regexp.MustCompile("NOPERM|can't run this command|ACL failure in script|EXECABORT|EXEC without MULTI")

func isClosed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// follow reads new events and events from the beginning.
func follow(ctx context.Context, at func(address string) *bullmq.Connection, others *bystander, name string) error {
	var f firstError
	ctx, stop := context.WithTimeout(ctx, 3*time.Second)
	defer stop()
	for _, from := range []string{"", "0-0"} {
		others.do("XADD", others.key("events"), "*", "event", "waiting", "jobId", "1")
		reader, err := bullmq.NewQueueEvents(ctx, name, &bullmq.QueueEventsOptions{Connection: at(others.address), LastEventID: from, Logger: f.logger()})
		if err != nil {
			return err
		}
		others.do("XADD", others.key("events"), "*", "event", "waiting", "jobId", "2")
		heard := false
		for event, err := range reader.All(ctx) {
			f.note("reading", err)
			if heard = event.JobID == "2"; heard || f.first() != nil {
				break
			}
		}
		f.note("closing", reader.Close())
		if !heard {
			f.note("an event", errors.New("it didn't come"))
		}
	}
	return f.first()
}

// administer reads, changes and removes everything.
func administer(ctx context.Context, at func(address string) *bullmq.Connection, others *bystander, name string) error {
	var f firstError
	ctx, stop := context.WithTimeout(ctx, 8*time.Second)
	defer stop()
	for _, dialect := range []bullmq.Dialect{bullmq.V6, bullmq.V5} {
		queue, err := bullmq.NewQueue(ctx, name, &bullmq.QueueOptions{Connection: at(others.address), Dialect: dialect, Logger: f.logger()})
		if err != nil {
			return err
		}
		f.look(ctx, queue, others)
		f.change(ctx, queue, others)
		f.clear(ctx, queue, others)
		f.note("closing", queue.Close())
	}
	producer, err := bullmq.NewFlowProducer(ctx, &bullmq.FlowProducerOptions{Connection: at(others.address), Logger: f.logger()})
	f.note("a flow producer", err)
	if producer != nil {
		_, err := others.flows.Add(ctx, bullmq.Flow{Name: "a", QueueName: name, Options: &bullmq.JobOptions{JobID: "read"}, Children: []bullmq.Flow{{Name: "b", QueueName: name}}})
		f.note("others add a flow", err)
		_, err = producer.Flow(ctx, bullmq.FlowQuery{QueueName: name, ID: "read"})
		f.note("a flow", err)
		f.note("closing", producer.Close())
	}
	return f.first()
}

func (f *firstError) look(ctx context.Context, queue *bullmq.Queue, others *bystander) {
	root, err := others.flows.Add(ctx, bullmq.Flow{Name: "a", QueueName: queue.Name(), Children: []bullmq.Flow{{Name: "b", QueueName: queue.Name()}}})
	if f.note("others add a flow", err); err != nil {
		return
	}
	job := queue.JobRef(root.Job.ID)
	others.do("ZADD", others.key(job.ID+":unsuccessful"), "1", others.key("x"))
	_, err = queue.Job(ctx, job.ID)
	f.note("a job", err)
	_, err = queue.JobState(ctx, job.ID)
	f.note("a state", err)
	_, err = queue.Jobs(ctx, bullmq.AllJobs())
	f.note("jobs", err)
	_, err = queue.JobIDs(ctx, bullmq.AllJobs())
	f.note("ids", err)
	_, err = queue.JobIDs(ctx, bullmq.Page{Limit: 6}, bullmq.StateCompleted, bullmq.StateWaiting)
	f.note("ids, newest first", err)
	_, err = queue.Counts(ctx)
	f.note("counts", err)
	_, err = queue.CountDelayedBefore(ctx, time.Now())
	f.note("delayed", err)
	_, err = queue.CountsPerPriority(ctx, 0, 1)
	f.note("counts by priority", err)
	_, err = queue.Metrics(ctx, bullmq.StateCompleted, bullmq.Page{Limit: -1})
	f.note("metrics", err)
	_, err = queue.Meta(ctx)
	f.note("meta", err)
	_, err = queue.IsMaxed(ctx)
	f.note("is it maxed", err)
	others.do("SET", others.key("limiter"), "9", "PX", "60000")
	_, err = queue.RateLimitTTL(ctx, 1)
	f.note("the rate limit", err)
	_, _, err = queue.Logs(ctx, job.ID, bullmq.Page{Limit: -1})
	f.note("logs", err)
	_, err = job.Dependencies(ctx)
	f.note("dependencies", err)
	_, err = job.DependencyPage(ctx, bullmq.DependencyQuery{Processed: &bullmq.DependencyCursor{}, Unprocessed: &bullmq.DependencyCursor{}, Ignored: &bullmq.DependencyCursor{}, Failed: &bullmq.DependencyCursor{}})
	f.note("some dependencies", err)
	_, err = bullmq.Children[any](ctx, job)
	f.note("children", err)
	_, _, err = queue.PendingChildren(ctx, job.ID, bullmq.Page{Limit: -1})
	f.note("pending children", err)
	if _, err = queue.DeduplicationJobID(ctx, "d"); !errors.Is(err, bullmq.ErrDeduplicationNotFound) {
		f.note("a deduplication id's owner", err)
	}
	_, err = others.UpsertScheduler(ctx, "s", bullmq.Repeat{Every: time.Hour}, nil)
	f.note("others add a scheduler", err)
	_, err = queue.Scheduler(ctx, "s")
	f.note("a scheduler", err)
	_, err = queue.Schedulers(ctx, bullmq.AllJobs())
	f.note("schedulers", err)
	_, err = queue.Schedulers(ctx, bullmq.Page{Limit: -1})
	f.note("schedulers, last first", err)
	_, err = queue.CountSchedulers(ctx)
	f.note("the number of schedulers", err)
	_, err = queue.FindOrphanedJobs(ctx)
	f.note("orphans", err)
	_, err = queue.FindStrandedJobs(ctx)
	f.note("stranded jobs", err)
	_, err = queue.UpsertScheduler(ctx, "t", bullmq.Repeat{Every: time.Hour}, nil)
	f.note("making a scheduler", err)
	f.note("removing a scheduler", queue.RemoveScheduler(ctx, "t"))
}

func (f *firstError) change(ctx context.Context, queue *bullmq.Queue, others *bystander) {
	name := queue.Name()
	f.note("a concurrency", queue.SetGlobalConcurrency(ctx, 5))
	f.note("no concurrency", queue.RemoveGlobalConcurrency(ctx))
	f.note("a rate limit", queue.SetGlobalRateLimit(ctx, bullmq.Limiter{Max: 5, Duration: time.Second}))
	f.note("no rate limit", queue.RemoveGlobalRateLimit(ctx))
	f.note("stopping the queue for a time", queue.RateLimit(ctx, time.Millisecond))
	_, err := queue.RemoveRateLimitKey(ctx)
	f.note("no rate limit any more", err)
	_, err = queue.TrimEvents(ctx, 10)
	f.note("trimming", err)
	add := func(o bullmq.JobOptions) *bullmq.Job {
		job, err := others.Add(ctx, "paint", nil, &o)
		f.note("others add a job", err)
		if job == nil {
			return queue.JobRef("none")
		}
		return queue.JobRef(job.ID)
	}
	waiting, delayed, kept := add(bullmq.JobOptions{}), add(bullmq.JobOptions{Delay: time.Hour}), add(bullmq.JobOptions{Delay: time.Hour, Priority: 2})
	add(bullmq.JobOptions{Delay: time.Hour})
	_, err = waiting.Log(ctx, "row")
	f.note("a log", err)
	_, err = queue.AddJobLog(ctx, waiting.ID, "row", &bullmq.LogOptions{Keep: 5})
	f.note("a log that is cut", err)
	f.note("clearing a log", waiting.ClearLogs(ctx, &bullmq.ClearLogsOptions{Keep: 1}))
	f.note("no log", waiting.ClearLogs(ctx, nil))
	f.note("data", waiting.UpdateData(ctx, 1))
	f.note("progress", waiting.UpdateProgress(ctx, 1))
	f.note("a priority", waiting.ChangePriority(ctx, 5, nil))
	f.note("a priority, next", waiting.ChangePriority(ctx, 5, &bullmq.ChangePriorityOptions{LIFO: true}))
	f.note("no priority, next", waiting.ChangePriority(ctx, 0, &bullmq.ChangePriorityOptions{LIFO: true}))
	f.note("a delay", delayed.ChangeDelay(ctx, time.Minute))
	f.note("promoting", delayed.Promote(ctx))
	f.note("promoting one with a priority", kept.Promote(ctx))
	f.note("promoting all", queue.PromoteJobs(ctx, nil))
	f.note("pausing", queue.Pause(ctx))
	add(bullmq.JobOptions{})
	f.note("resuming", queue.Resume(ctx))
	others.do("LPUSH", others.key("paused"), "parked")
	_, err = queue.RepairPaused(ctx)
	f.note("repairing", err)
	others.do("HSET", others.key("lost"), "name", "a", "data", "{}", "timestamp", "1", "priority", "1")
	others.do("HSET", others.key("lost-too"), "name", "a", "data", "{}", "timestamp", "1")
	_, err = queue.RepairPaused(ctx)
	f.note("putting back", err)
	root, err := others.flows.Add(ctx, bullmq.Flow{Name: "a", QueueName: name, Children: []bullmq.Flow{{Name: "b", QueueName: name}, {Name: "c", QueueName: name}}})
	f.note("others add a flow", err)
	for i, state := range []string{"failed", "completed", "failed", "completed"} {
		id := fmt.Sprint("ended-", i)
		others.do("HSET", others.key(id), "name", "a", "finishedOn", "1", "failedReason", "x", "parentKey", others.key(root.Job.ID))
		others.do("ZADD", others.key(state), "1", id)
		others.do("ZADD", others.key(root.Job.ID+":unsuccessful"), "1", others.key(id))
		others.do("HSET", others.key(root.Job.ID+":processed"), others.key(id), "1")
	}
	f.note("retrying", queue.JobRef("ended-0").Retry(ctx, bullmq.StateFailed, &bullmq.RetryOptions{ResetAttemptsMade: true}))
	f.note("retrying a completed one", queue.JobRef("ended-1").Retry(ctx, bullmq.StateCompleted, nil))
	f.note("retrying all", queue.RetryJobs(ctx, nil))
	if root != nil && len(root.Children) == 2 {
		child, err := queue.Job(ctx, root.Children[0].Job.ID)
		f.note("a child", err)
		if child != nil {
			_, err = child.RemoveChildDependency(ctx)
			f.note("loosing a child", err)
		}
		f.note("removing children", queue.JobRef(root.Job.ID).RemoveUnprocessedChildren(ctx))
	}
	_, err = queue.RemoveDeduplicationKey(ctx, "d")
	f.note("freeing a deduplication id", err)
}

func (f *firstError) clear(ctx context.Context, queue *bullmq.Queue, others *bystander) {
	name := queue.Name()
	family := func() *bullmq.FlowNode {
		root, err := others.flows.Add(ctx, bullmq.Flow{Name: "a", QueueName: name, Children: []bullmq.Flow{
			{Name: "b", QueueName: name, Options: &bullmq.JobOptions{JobID: "b:b:" + fmt.Sprint(time.Now().UnixNano())}}, {Name: "c", QueueName: name, Options: &bullmq.JobOptions{Delay: time.Hour}},
		}})
		f.note("others add a flow", err)
		return root
	}
	if root := family(); root != nil {
		f.note("removing", queue.Remove(ctx, root.Job.ID, nil))
	}
	job, err := others.Add(ctx, "a", nil, &bullmq.JobOptions{Deduplication: &bullmq.Deduplication{ID: "d"}})
	f.note("others add a job", err)
	if err == nil {
		f.note("removing alone", queue.Remove(ctx, job.ID, &bullmq.RemoveOptions{KeepChildren: true}))
	}
	others.do("HSET", others.key("orphan"), "name", "a")
	_, err = queue.RemoveOrphanedJobs(ctx, nil)
	f.note("removing orphans", err)
	for _, state := range []bullmq.State{bullmq.StateWaiting, bullmq.StateDelayed, bullmq.StatePrioritized, bullmq.StateCompleted, bullmq.StateFailed, bullmq.StateActive} {
		family()
		others.do("HSET", others.key("old"), "name", "a", "timestamp", "1", "rjk", "s")
		switch state {
		case bullmq.StateWaiting:
			others.do("LPUSH", others.key("wait"), "old")
		case bullmq.StateActive:
			others.do("LPUSH", others.key("active"), "old")
		default:
			others.do("ZADD", others.key(string(state)), "1", "old")
		}
		_, err = queue.Clean(ctx, &bullmq.CleanOptions{State: state})
		f.note("cleaning "+string(state), err)
	}
	family()
	f.note("draining", queue.Drain(ctx, &bullmq.DrainOptions{Delayed: true}))
	family()
	others.do("LPUSH", others.key("active"), "runs")
	f.note("obliterating", queue.Obliterate(ctx, &bullmq.ObliterateOptions{Force: true}))
}
