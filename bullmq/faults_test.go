package bullmq_test

import (
	"bytes"
	"context"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/rs/zerolog"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/faultproxy"
	"github.com/17a2ac88/bullmq-go/internal/redisserver"
)

// logLines counts what a logger writes.
type logLines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logLines) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Count(l.text.Bytes(), []byte("\n"))
}

var _ = Describe("A worker behind a link that fails", func() {
	var (
		name  string
		queue *bullmq.Queue
		proxy *faultproxy.Proxy
		ctx   context.Context
	)
	BeforeEach(func() {
		name, ctx = newQueueName(), specContext()
		queue = newQueue(name, nil)
		var err error
		proxy, err = faultproxy.Start(redis.Addr())
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(proxy.Close)
	})
	add := func(job string) *bullmq.Job {
		GinkgoHelper()
		added, err := queue.Add(ctx, job, nil, nil)
		Expect(err).NotTo(HaveOccurred())
		return added
	}
	throughProxy := func(o bullmq.WorkerOptions) *bullmq.WorkerOptions {
		o.Connection = bullmq.URL("redis://" + proxy.Addr())
		return &o
	}

	It("completes a job once when the answer to its end is lost, and keeps the next job that came with it", func() {
		var mu sync.Mutex
		runs := map[string]int{}
		var lost atomic.Int64
		begin := make(chan struct{})
		first, second := add("first"), add("second")
		runWorker(name, func(_ context.Context, job *bullmq.Job) (any, error) {
			mu.Lock()
			runs[job.ID]++
			mu.Unlock()
			if job.Name == "first" {
				<-begin
			}
			return "the end of " + job.Name, nil
		}, throughProxy(bullmq.WorkerOptions{Events: bullmq.WorkerEvents{LocksLost: func([]string) { lost.Add(1) }}}))
		Eventually(state(queue, first.ID)).Should(Equal(bullmq.Active))
		gone := proxy.LoseReply("the end of first")
		close(begin)
		Eventually(gone).Should(BeClosed())
		Eventually(state(queue, first.ID)).Should(Equal(bullmq.Completed))
		Eventually(state(queue, second.ID)).Should(Equal(bullmq.Completed), "it must not wait for the stalled check")
		mu.Lock()
		defer mu.Unlock()
		Expect(runs).To(Equal(map[string]int{first.ID: 1, second.ID: 1}))
		Expect(lost.Load()).To(BeZero())
		Expect(hash(key(name, first.ID))).To(HaveKeyWithValue("atm", "1"))
	})

	It("runs a job whose take's answer is lost, without waiting for the stalled check", func() {
		var runs atomic.Int64
		runWorker(name, func(context.Context, *bullmq.Job) (any, error) { runs.Add(1); return nil, nil },
			throughProxy(bullmq.WorkerOptions{Name: "the-one-that-takes"}))
		time.Sleep(200 * time.Millisecond) // it is idle and connected
		gone := proxy.LoseReply("the-one-that-takes")
		job := add("a")
		Eventually(gone).Should(BeClosed())
		Eventually(state(queue, job.ID)).Should(Equal(bullmq.Completed))
		Expect(runs.Load()).To(BeEquivalentTo(1))
		Expect(hash(key(name, job.ID))).To(HaveKeyWithValue("ats", "1"))
		Expect(hash(key(name, job.ID))).NotTo(HaveKey("stc"))
	})

	It("loses nothing when all its connections are cut again and again", func() {
		const jobs = 200
		var mu sync.Mutex
		runs := map[string]int{}
		runWorker(name, func(_ context.Context, job *bullmq.Job) (any, error) {
			mu.Lock()
			defer mu.Unlock()
			runs[job.ID]++
			return nil, nil
		}, throughProxy(bullmq.WorkerOptions{Concurrency: 5}))
		for i := range jobs {
			add("a")
			if i%20 == 0 {
				proxy.CutAll()
			}
		}
		Eventually(func() (int64, error) {
			c, err := queue.Counts(ctx, bullmq.Completed)
			return c[bullmq.Completed], err
		}, 15*time.Second).Should(BeEquivalentTo(jobs))
		mu.Lock()
		defer mu.Unlock()
		Expect(runs).To(HaveLen(jobs))
		for id, n := range runs {
			Expect(n).To(Equal(1), "job "+id)
		}
	})

	It("doesn't take one failed renewal for a lost lock", func() {
		job := add("a")
		var lost atomic.Int64
		ended := make(chan error, 1)
		runWorker(name, func(ctx context.Context, _ *bullmq.Job) (any, error) {
			time.Sleep(900 * time.Millisecond)
			ended <- ctx.Err()
			return nil, nil
		}, throughProxy(bullmq.WorkerOptions{LockDuration: time.Second, Events: bullmq.WorkerEvents{LocksLost: func([]string) { lost.Add(1) }}}))
		Eventually(state(queue, job.ID)).Should(Equal(bullmq.Active))
		Expect(proxy.Set(faultproxy.Faults{Refuse: true})).To(Succeed())
		proxy.CutAll()
		time.Sleep(350 * time.Millisecond)
		Expect(proxy.Set(faultproxy.Faults{})).To(Succeed())
		Eventually(ended).Should(Receive(BeNil()))
		Eventually(state(queue, job.ID)).Should(Equal(bullmq.Completed))
		Expect(lost.Load()).To(BeZero())
	})

	It("says little while Redis is out of reach, and is back soon after it is", func() {
		var lines logLines
		started := make(chan string, 1)
		runWorker(name, func(_ context.Context, job *bullmq.Job) (any, error) { started <- job.Name; return nil, nil },
			throughProxy(bullmq.WorkerOptions{Logger: zerolog.New(&lines)}))
		time.Sleep(100 * time.Millisecond)
		Expect(proxy.Set(faultproxy.Faults{Refuse: true})).To(Succeed())
		proxy.CutAll()
		time.Sleep(3 * time.Second)
		Expect(lines.count()).To(And(BeNumerically(">", 0), BeNumerically("<=", 5)))
		Expect(proxy.Set(faultproxy.Faults{})).To(Succeed())
		add("back")
		Eventually(started, 2*time.Second).Should(Receive(Equal("back")))
	})

	It("stops in time while Redis is out of reach", func() {
		w := newWorker(name, func(context.Context, *bullmq.Job) (any, error) { return nil, nil }, throughProxy(bullmq.WorkerOptions{ShutdownTimeout: time.Second}))
		run, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- w.Run(run) }()
		time.Sleep(100 * time.Millisecond)
		Expect(proxy.Set(faultproxy.Faults{BlackHole: true})).To(Succeed())
		stop()
		Eventually(ended, 5*time.Second).Should(Receive())
	})

	It("loses no job and runs none twice while the server forgets its scripts", func() {
		const jobs = 300
		var runs atomic.Int64
		runWorker(name, func(context.Context, *bullmq.Job) (any, error) { runs.Add(1); return nil, nil }, throughProxy(bullmq.WorkerOptions{Concurrency: 5}))
		for i := range jobs {
			add("a")
			if i%10 == 0 {
				Expect(do("SCRIPT", "FLUSH").Error()).To(Succeed())
			}
		}
		Eventually(func() (int64, error) { c, err := queue.Counts(ctx, bullmq.Completed); return c[bullmq.Completed], err }).Should(BeEquivalentTo(jobs))
		Expect(runs.Load()).To(BeEquivalentTo(jobs))
	})
})

var _ = Describe("A worker whose Redis restarts", func() {
	It("writes the end of a job when Redis is back, while the lock lasts", func() {
		name, ctx := newQueueName(), specContext()
		server, err := redisserver.Start(redisserver.Options{AppendOnly: true})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(server.Close)
		own := bullmq.URL(server.URL())
		queue := newQueue(name, &bullmq.QueueOptions{Connection: own})
		job, err := queue.Add(ctx, "a", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		started, finish := make(chan struct{}), make(chan struct{})
		var runs atomic.Int64
		runWorker(name, func(context.Context, *bullmq.Job) (any, error) {
			if runs.Add(1) == 1 {
				close(started)
			}
			<-finish
			return "kept", nil
		}, &bullmq.WorkerOptions{Connection: own})
		Eventually(started).Should(BeClosed())
		server.Stop()
		close(finish)
		time.Sleep(500 * time.Millisecond)
		Expect(server.Start()).To(Succeed())
		Eventually(state(queue, job.ID), 8*time.Second).Should(Equal(bullmq.Completed))
		Expect(runs.Load()).To(BeEquivalentTo(1))
	})
})
