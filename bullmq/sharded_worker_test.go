package bullmq_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// runSharded runs a worker of a sharded queue until the spec ends.
func runSharded(sharded *bullmq.ShardedQueue, handler bullmq.Handler, options *bullmq.WorkerOptions) *bullmq.ShardedWorker {
	GinkgoHelper()
	worker, err := bullmq.NewShardedWorker(context.Background(), sharded, handler, options)
	Expect(err).NotTo(HaveOccurred())
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(context.Background()) }()
	DeferCleanup(func() {
		Expect(worker.Close()).To(Succeed())
		Eventually(ended, "20s").Should(Receive(Or(BeNil(), MatchError(ContainSubstring("has been run or closed")))))
	})
	return worker
}

// runsByData counts the runs of jobs by their data.
type runsByData struct {
	mu   sync.Mutex
	runs map[string]int
}

func (r *runsByData) handle(_ context.Context, job *bullmq.Job) (any, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.runs == nil {
		r.runs = map[string]int{}
	}
	r.runs[string(job.Data)]++
	return nil, nil
}

func (r *runsByData) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.runs)
}

// all returns how often each job has run.
func (r *runsByData) all() []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []int
	for _, n := range r.runs {
		all = append(all, n)
	}
	return all
}

var _ = Describe("A worker of a sharded queue", func() {
	var (
		name string
		ctx  context.Context
	)
	BeforeEach(func() { name, ctx = newQueueName(), specContext() })
	addAll := func(sharded *bullmq.ShardedQueue, from, count int) {
		GinkgoHelper()
		bulk := make([]bullmq.BulkJob, count)
		for i := range bulk {
			bulk[i] = bullmq.BulkJob{Name: "paint", Data: from + i}
		}
		_, err := sharded.AddBulk(ctx, bulk)
		Expect(err).NotTo(HaveOccurred())
	}

	It("runs the jobs of all shards on all servers, each once", Label("slow"), func() {
		_, connections := shardServers(2)
		sharded := newSharded(name, 5, bullmq.ShardedQueueOptions{Connections: connections})
		addAll(sharded, 0, 500)
		var runs runsByData
		worker := runSharded(sharded, runs.handle, &bullmq.WorkerOptions{Concurrency: 21})
		addAll(sharded, 500, 500)
		Eventually(runs.count, "20s").Should(Equal(1000))
		Expect(runs.all()).To(HaveEach(1))
		Eventually(func() (map[bullmq.State]int, error) { return sharded.Counts(ctx, bullmq.StateCompleted) }, "20s").Should(HaveKeyWithValue(bullmq.StateCompleted, 1000))
		var concurrency []int
		for _, one := range worker.Workers() {
			concurrency = append(concurrency, one.Concurrency())
		}
		Expect(concurrency).To(Equal([]int{11, 10}))
		Expect(worker.Health().Reachable).To(BeTrue())
	})

	It("serves the shards of a new generation, and those of older ones until they are removed", Label("slow"), func() {
		now := &atomic.Int64{}
		now.Store(fixedNow)
		sharded := newSharded(name, 2, bullmq.ShardedQueueOptions{Queue: bullmq.QueueOptions{Now: func() time.Time { return time.UnixMilli(now.Load()) }}})
		addAll(sharded, 0, 20)
		Expect(sharded.Resize(ctx, 3)).To(Succeed())
		addAll(sharded, 20, 20)
		var runs runsByData
		serving := newSharded(name, 2, bullmq.ShardedQueueOptions{})
		worker := runSharded(serving, runs.handle, &bullmq.WorkerOptions{Concurrency: 10, KeepCompleted: bullmq.KeepNone()})
		Eventually(runs.count, "20s").Should(Equal(40))
		Expect(sharded.Resize(ctx, 4)).To(Succeed())
		addAll(sharded, 40, 20)
		Eventually(runs.count, "20s").Should(Equal(60))
		Expect(runs.all()).To(HaveEach(1))
		Eventually(func() (map[bullmq.State]int, error) {
			return sharded.Counts(ctx, bullmq.StateActive, bullmq.StateWaiting)
		}, "20s").Should(HaveEach(0))

		now.Add(2 * time.Hour.Milliseconds())
		Expect(sharded.Retire(ctx, &bullmq.RetireOptions{RemoveFinished: true})).To(HaveLen(5))
		Eventually(func() []string { return worker.Workers()[0].Queues() }, "20s").Should(HaveLen(4))
	})

	It("runs the jobs of the other servers while one is down, and its jobs when it is back", Label("slow"), func() {
		servers, connections := shardServers(3)
		sharded := newSharded(name, 3, bullmq.ShardedQueueOptions{Connections: connections, OnShardDown: bullmq.ElsewhereWhenDown})
		var runs runsByData
		worker := runSharded(sharded, runs.handle, &bullmq.WorkerOptions{Concurrency: 30, LockDuration: 3 * time.Second, StalledInterval: time.Second})
		addAll(sharded, 0, 300)
		Eventually(runs.count, "20s").Should(Equal(300))
		for _, one := range worker.Workers() {
			Expect(one.Pause(ctx)).To(Succeed())
		}
		addAll(sharded, 300, 90)
		servers[1].Kill()
		for _, one := range worker.Workers() {
			one.Resume()
		}
		Eventually(func() bool { return worker.Health().Reachable }, "20s").Should(BeFalse())
		ledger := newAddLedger()
		for i := range 90 {
			_, err := sharded.Add(ctx, "paint", 390+i, nil)
			ledger.record(390+i, err)
		}
		Expect(ledger.failures()).To(BeEmpty())
		Eventually(runs.count, "20s").Should(BeNumerically(">=", 300+60+len(ledger.added)))
		Expect(servers[1].Start()).To(Succeed())
		Eventually(runs.count, "30s").Should(BeNumerically(">=", 390+len(ledger.added)))
		Eventually(func() bool { return worker.Health().Reachable }, "20s").Should(BeTrue())
	})

	It("stops with an error that names the jobs of each shard that are left", Label("slow"), func() {
		sharded := newSharded(name, 2, bullmq.ShardedQueueOptions{})
		addAll(sharded, 0, 2)
		var running atomic.Int64
		release := make(chan struct{})
		worker, err := bullmq.NewShardedWorker(ctx, sharded, func(context.Context, *bullmq.Job) (any, error) {
			running.Add(1)
			<-release
			return nil, nil
		}, &bullmq.WorkerOptions{Concurrency: 2})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { close(release) })
		ended := make(chan error, 1)
		go func() { ended <- worker.Run(ctx) }()
		Eventually(running.Load, "20s").Should(BeEquivalentTo(2))
		short, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		for _, err := range []error{worker.Shutdown(short), <-ended} {
			var names []string
			for _, shard := range sharded.Shards() {
				if err != nil && namesUnfinished(err, shard.Name()) {
					names = append(names, shard.Name())
				}
			}
			Expect(names).To(HaveLen(2), "%v", err)
		}
	})

	It("moves failed jobs to dead letters, and calls OnMoved for one job at a time", func() {
		sharded := newSharded(name, 4, bullmq.ShardedQueueOptions{Connections: []*bullmq.Connection{connection(), connectTo(redis.Addr())}})
		var at, moved, overlaps atomic.Int64
		worker := runSharded(sharded, func(context.Context, *bullmq.Job) (any, error) { return nil, errors.New("no") }, &bullmq.WorkerOptions{
			Concurrency: 8,
			DeadLetters: &bullmq.DeadLetterOptions{QueueName: name + "-dead", OnMoved: func(context.Context, bullmq.DeadLetter) {
				if at.Add(1) > 1 {
					overlaps.Add(1)
				}
				time.Sleep(10 * time.Millisecond)
				at.Add(-1)
				moved.Add(1)
			}},
		})
		Expect(worker.Workers()).To(HaveLen(2))
		addAll(sharded, 0, 12)
		Eventually(moved.Load, "20s").Should(BeEquivalentTo(12))
		Expect(overlaps.Load()).To(BeZero())
		Expect(newQueue(name+"-dead", nil).Counts(ctx, bullmq.StateWaiting)).To(HaveKeyWithValue(bullmq.StateWaiting, 12))
		Expect(sharded.Counts(ctx, bullmq.StateFailed)).To(HaveKeyWithValue(bullmq.StateFailed, 0))
	})

	It("fails a job with a target that another client has added to a shard", func() {
		sharded := newSharded(name, 2, bullmq.ShardedQueueOptions{})
		shard := sharded.Shards()[0].Name()
		flows, err := bullmq.NewFlowProducer(ctx, &bullmq.FlowProducerOptions{Connection: connection()}) // adds it to the queue itself, as Node does
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(flows.Close)
		node, err := flows.Add(ctx, bullmq.Flow{Name: "a", QueueName: shard, Options: &bullmq.JobOptions{Attempts: 3, Target: &bullmq.Target{Region: "eu"}}})
		Expect(err).NotTo(HaveOccurred())
		runSharded(sharded, doNothing, nil)
		Eventually(func() (bullmq.State, error) { return node.Job.State(ctx) }, "20s").Should(Equal(bullmq.StateFailed))
		job, err := sharded.Job(ctx, shard, node.Job.ID)
		Expect(err).NotTo(HaveOccurred())
		Expect(job.FailedReason).To(ContainSubstring("has a Target"))
		Expect(redisStrings("KEYS", "bull:"+shard+"@region*")).To(BeEmpty())
	})

	It("cancels a running job of a shard", func() {
		sharded := newSharded(name, 3, bullmq.ShardedQueueOptions{})
		started, cause := make(chan *bullmq.Job, 1), make(chan error, 1)
		worker := runSharded(sharded, func(ctx context.Context, job *bullmq.Job) (any, error) {
			started <- job
			<-ctx.Done()
			cause <- context.Cause(ctx)
			return nil, nil
		}, nil)
		addAll(sharded, 0, 1)
		var job *bullmq.Job
		Eventually(started, "20s").Should(Receive(&job))
		Expect(worker.CancelJob(job.QueueName(), "none", "void")).To(BeFalse())
		Expect(worker.CancelJob(job.QueueName(), job.ID, "void")).To(BeTrue())
		var cancelled *bullmq.CancelledError
		var err error
		Eventually(cause, "20s").Should(Receive(&err))
		Expect(errors.As(err, &cancelled)).To(BeTrue())
	})

	It("is refused without a handler, and with a connection of its own", func() {
		sharded := newSharded(name, 2, bullmq.ShardedQueueOptions{})
		_, err := bullmq.NewShardedWorker(ctx, sharded, nil, nil)
		Expect(err).To(MatchError(ContainSubstring("the handler is nil")))
		_, err = bullmq.NewShardedWorker(ctx, sharded, doNothing, &bullmq.WorkerOptions{URL: "redis://x"})
		Expect(err).To(MatchError(ContainSubstring("those of the queue are used")))
		_, err = bullmq.NewShardedWorker(ctx, sharded, doNothing, &bullmq.WorkerOptions{Concurrency: -1})
		Expect(err).To(MatchError(ContainSubstring("Concurrency")))
		worker, err := bullmq.NewShardedWorker(ctx, sharded, doNothing, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(worker.Close()).To(Succeed())
		Expect(worker.Run(ctx)).To(MatchError(ContainSubstring("has been run or closed")))
	})
})

// namesUnfinished reports whether an error names one unfinished job of a queue.
func namesUnfinished(err error, queueName string) bool {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		var unfinished *bullmq.UnfinishedError
		return errors.As(err, &unfinished) && unfinished.QueueName == queueName && len(unfinished.JobIDs) == 1
	}
	return slices.ContainsFunc(joined.Unwrap(), func(err error) bool { return namesUnfinished(err, queueName) })
}
