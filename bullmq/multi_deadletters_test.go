package bullmq_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/faultproxy"
)

var _ = Describe("A worker over many queues with DeadLetters", func() {
	var ctx context.Context
	var names []string
	var queues []*bullmq.Queue
	var dead *bullmq.Queue
	setUp := func(count int) {
		GinkgoHelper()
		ctx, names = specContext(), newQueueNames(count)
		queues = openQueues(names...)
		dead = newQueue(newQueueName()+".dead", nil)
	}
	failing := func(context.Context, *bullmq.Job) (any, error) { return nil, errors.New("no") }

	// alerts are the ids of the letters that OnMoved has got.
	var mu sync.Mutex
	var alerts []string
	BeforeEach(func() { alerts = nil })
	alert := func(_ context.Context, letter bullmq.DeadLetter) {
		mu.Lock()
		defer mu.Unlock()
		alerts = append(alerts, letter.Letter.ID)
	}
	alerted := func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Sorted(slices.Values(alerts))
	}
	letters := func() []string {
		GinkgoHelper()
		ids, err := dead.JobIDs(ctx, bullmq.AllEntries(), bullmq.StateWaiting)
		Expect(err).NotTo(HaveOccurred())
		return slices.Sorted(slices.Values(ids))
	}
	// failElsewhere adds a failed job that no worker has run.
	failElsewhere := func(queue *bullmq.Queue) {
		GinkgoHelper()
		job, err := queue.Add(ctx, "a", nil, &bullmq.JobOptions{Delay: time.Hour})
		Expect(err).NotTo(HaveOccurred())
		Expect(redisDo("ZREM", keyOf(queue.Name(), "delayed"), job.ID).Error()).To(Succeed())
		Expect(redisDo("ZADD", keyOf(queue.Name(), "failed"), "1700000000000", job.ID).Error()).To(Succeed())
	}
	options := func(o bullmq.DeadLetterOptions) bullmq.MultiWorkerOptions {
		o.QueueName = dead.Name()
		if o.OnMoved == nil {
			o.OnMoved = alert
		}
		return bullmq.MultiWorkerOptions{Queues: served(names...), Worker: bullmq.WorkerOptions{Concurrency: 10, DeadLetters: &o}}
	}

	It("moves the jobs that it has failed to one queue, and leaves the others", func() {
		setUp(5)
		runMultiWorker(func(_ context.Context, job *bullmq.Job) (any, error) {
			if job.QueueName() == names[0] {
				return nil, nil
			}
			return nil, errors.New("no")
		}, options(bullmq.DeadLetterOptions{Interval: time.Hour}))
		addMany(queues, 3)
		Eventually(alerted, "10s").Should(HaveLen(12))
		Expect(letters()).To(Equal(alerted()))
		for i, queue := range queues {
			Expect(countOf(queue, bullmq.StateFailed)()).To(BeZero())
			if i > 0 {
				letter, err := dead.DeadLetter(ctx, names[i], "2")
				Expect(err).NotTo(HaveOccurred())
				Expect(letter).To(And(HaveField("QueueName", names[i]), HaveField("Reason", "no"), HaveField("Name", names[i])))
			}
		}
		Eventually(countOf(queues[0], bullmq.StateCompleted)).Should(Equal(3))
		Consistently(alerted, "200ms").Should(HaveLen(12))
	})

	It("moves jobs that others have failed, at its start and every Interval", func() {
		setUp(20)
		for _, queue := range queues[:10] {
			failedJob(ctx, queue)
		}
		worker := runMultiWorker(doNothing, options(bullmq.DeadLetterOptions{Interval: 100 * time.Millisecond}))
		Eventually(alerted, "10s").Should(HaveLen(10))
		late := newQueueName()
		Expect(worker.AddQueue(bullmq.ServedQueue{Name: late})).To(Succeed())
		names = append(names, late)
		for _, queue := range append(openQueues(late), queues[10:15]...) {
			failElsewhere(queue)
		}
		Eventually(alerted, "10s").Should(HaveLen(16))
		Expect(letters()).To(Equal(alerted()))
	})

	It("moves each job once and reports it once, beside another such worker on the same queues", func() {
		setUp(20)
		for range 2 {
			runMultiWorker(failing, options(bullmq.DeadLetterOptions{Interval: 20 * time.Millisecond}))
		}
		for range 5 {
			addMany(queues, 5)
		}
		Eventually(alerted, "20s").Should(HaveLen(500))
		Consistently(alerted, "300ms").Should(HaveLen(500))
		Expect(letters()).To(Equal(alerted()))
		for _, queue := range queues {
			Expect(countOf(queue, bullmq.StateFailed)()).To(BeZero())
		}
	})

	It("moves the jobs that fail while it stops, also of a queue that was removed", func() {
		setUp(3)
		started, release := make(chan struct{}, 3), make(chan struct{})
		worker := newMultiWorker(func(context.Context, *bullmq.Job) (any, error) {
			started <- struct{}{}
			<-release
			return nil, errors.New("no")
		}, options(bullmq.DeadLetterOptions{Interval: time.Hour}))
		addMany(queues, 1)
		ended, stop := make(chan error, 1), make(chan struct{})
		running, cancel := context.WithCancel(ctx)
		go func() {
			<-stop
			cancel()
		}()
		go func() { ended <- worker.Run(running) }()
		for range 3 {
			Eventually(started, "10s").Should(Receive())
		}
		Expect(worker.RemoveQueue(names[2])).To(BeTrue())
		close(stop)
		close(release)
		Eventually(ended, "10s").Should(Receive(BeNil()))
		Expect(alerted()).To(HaveLen(3))
		Expect(letters()).To(HaveLen(3))
	})

	It("leaves cancelled jobs, and the failed jobs of the queue for dead letters if it serves that queue", func() {
		setUp(2)
		o := options(bullmq.DeadLetterOptions{Interval: 50 * time.Millisecond})
		o.Queues = append(o.Queues, bullmq.ServedQueue{Name: dead.Name()})
		job, err := queues[0].Add(ctx, "a", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(queues[0].Cancel(ctx, job.ID, "enough")).To(Equal(bullmq.CancelQueued))
		addMany(queues[1:], 2)
		runMultiWorker(failing, o)
		Eventually(countOf(dead, bullmq.StateFailed), "10s").Should(Equal(2))
		Eventually(countOf(queues[0], bullmq.StateFailed), "10s").Should(Equal(1))
		Consistently(alerted, "300ms").Should(HaveLen(2))
		Expect(countOf(queues[0], bullmq.StateFailed)()).To(Equal(1))
		Expect(countOf(dead, bullmq.StateFailed)()).To(Equal(2))
	})

	It("moves jobs after an outage, during which it looks for them every Interval, and those of other queues while one has broken values", func() {
		setUp(4)
		proxy, through := proxiedRedis()
		o := options(bullmq.DeadLetterOptions{Interval: 50 * time.Millisecond})
		o.Worker.Connection = through
		var faults atomic.Int64
		o.Worker.Events.Error = func(error) { faults.Add(1) }
		Expect(redisDo("SET", keyOf(names[0], "failed"), "no zset").Error()).To(Succeed())
		runMultiWorker(doNothing, o)
		failElsewhere(queues[1])
		Eventually(alerted, "10s").Should(HaveLen(1))
		Expect(proxy.Set(faultproxy.Faults{Refuse: true})).To(Succeed())
		proxy.CutAll()
		failElsewhere(queues[2])
		failElsewhere(queues[3])
		Consistently(alerted, "300ms").Should(HaveLen(1))
		Expect(faults.Load()).To(BeNumerically("<", 100))
		Expect(proxy.Set(faultproxy.Faults{})).To(Succeed())
		Eventually(alerted, "10s").Should(HaveLen(3))
		Expect(letters()).To(Equal(alerted()))
	})

	It("refuses a queue with another hash tag than the queue for dead letters", func() {
		ctx = specContext()
		conn, tag := clustered(), "{"+newQueueName()+"}"
		o := bullmq.MultiWorkerOptions{Queues: served(tag + "-a"), Worker: bullmq.WorkerOptions{
			Connection: conn, DeadLetters: &bullmq.DeadLetterOptions{QueueName: tag + "-dead", OnMoved: alert},
		}}
		worker := runMultiWorker(failing, o)
		Expect(worker.AddQueue(bullmq.ServedQueue{Name: "{other}"})).To(MatchError(ContainSubstring("must have the same hash tag")))
		addMany([]*bullmq.Queue{newQueue(tag+"-a", &bullmq.QueueOptions{Connection: conn})}, 2)
		Eventually(alerted, "10s").Should(HaveLen(2))
		o.Worker.DeadLetters.QueueName = "{another}"
		_, err := bullmq.NewMultiWorker(ctx, failing, &o)
		Expect(err).To(MatchError(ContainSubstring("must have the same hash tag")))
	})
})

var _ = Describe("The counts of a queue for dead letters", func() {
	It("are those of letters by queue and by reason, in all states that can be replayed", func() {
		ctx, names := specContext(), newQueueNames(3)
		queues := openQueues(names...)
		dead := newQueue(newQueueName()+".dead", nil)
		Expect(dead.DeadLetterCounts(ctx)).To(Equal(bullmq.DeadLetterCounts{Queues: map[string]int{}, Reasons: map[string]int{}}))
		long := strings.Repeat("é", 300)
		reasons := map[string]string{names[0]: "no", names[1]: "no", names[2]: long + "end"}
		addMany(queues, 4)
		runMultiWorker(func(_ context.Context, job *bullmq.Job) (any, error) {
			return nil, errors.New(reasons[job.QueueName()])
		}, bullmq.MultiWorkerOptions{Queues: served(names...), Worker: bullmq.WorkerOptions{DeadLetters: &bullmq.DeadLetterOptions{QueueName: dead.Name()}}})
		Eventually(countOf(dead, bullmq.StateWaiting), "10s").Should(Equal(12))
		addMany([]*bullmq.Queue{dead}, 1) // no letter
		fetcher := newFetcher(dead.Name(), nil)
		endJob(fetcher, takeJob(fetcher), "seen", nil)
		endJob(fetcher, takeJob(fetcher), nil, errors.New("another reason"))
		Expect(dead.DeadLetterCounts(ctx)).To(Equal(bullmq.DeadLetterCounts{
			Total:   12,
			Queues:  map[string]int{names[0]: 4, names[1]: 4, names[2]: 4},
			Reasons: map[string]int{"no": 8, long[:200]: 4},
		}))
	})

	It("tell 200 reasons apart, and read many letters in pages", func() {
		ctx, name := specContext(), newQueueName()
		queue, dead := newQueue(name, nil), newQueue(name+".dead", nil)
		const jobs = 2300
		addMany([]*bullmq.Queue{queue}, jobs)
		runMultiWorker(func(_ context.Context, job *bullmq.Job) (any, error) {
			return nil, errors.New("reason " + job.ID)
		}, bullmq.MultiWorkerOptions{Queues: served(name), Worker: bullmq.WorkerOptions{Concurrency: 100, DeadLetters: &bullmq.DeadLetterOptions{QueueName: dead.Name()}}})
		Eventually(countOf(dead, bullmq.StateWaiting), "30s").Should(Equal(jobs))
		counts, err := dead.DeadLetterCounts(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(counts.Total).To(Equal(jobs))
		Expect(counts.Queues).To(Equal(map[string]int{name: jobs}))
		Expect(counts.Reasons).To(HaveLen(200))
		Expect(counts.OtherReasons).To(Equal(jobs - 200))
	})
})
