package bullmq_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/rs/zerolog"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/faultproxy"
)

var _ = Describe("A worker with DeadLetters", func() {
	var queue, dead *bullmq.Queue
	var ctx context.Context
	setUp := func() {
		GinkgoHelper()
		ctx = specContext()
		name := newQueueName()
		queue, dead = newQueue(name, nil), newQueue(name+".dead", nil)
	}
	BeforeEach(setUp)
	failing := func(context.Context, *bullmq.Job) (any, error) { return nil, errors.New("no") }

	// alerts records the letters of OnMoved.
	type alerts struct {
		mu  sync.Mutex
		ids []string
	}
	record := func(a *alerts) func(context.Context, bullmq.DeadLetter) {
		return func(_ context.Context, letter bullmq.DeadLetter) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.ids = append(a.ids, letter.Letter.ID)
		}
	}
	read := func(a *alerts) func() []string {
		return func() []string {
			a.mu.Lock()
			defer a.mu.Unlock()
			return slices.Clone(a.ids)
		}
	}

	It("moves a job that it has failed for good within a second, after its last attempt", func() {
		steadily(func(g Gomega) {
			setUp()
			var a alerts
			letters := make(chan bullmq.DeadLetter, 10)
			runWorker(queue.Name(), failing, &bullmq.WorkerOptions{DeadLetters: &bullmq.DeadLetterOptions{
				QueueName: dead.Name(), Interval: time.Hour,
				OnMoved: func(ctx context.Context, letter bullmq.DeadLetter) {
					record(&a)(ctx, letter)
					letters <- letter
				},
			}})
			job, err := queue.Add(ctx, "mail", map[string]int{"n": 1}, &bullmq.JobOptions{Attempts: 3})
			Expect(err).NotTo(HaveOccurred())
			var moved bullmq.DeadLetter
			g.Eventually(letters, "1s").Should(Receive(&moved))
			Expect(moved).To(And(HaveField("QueueName", queue.Name()), HaveField("JobID", job.ID), HaveField("Name", "mail"),
				HaveField("Reason", "no"), HaveField("AttemptsMade", 3), HaveField("Cancelled", false)))
			letter := moved.Letter
			Expect(letter.QueueName()).To(Equal(dead.Name()))
			Expect(string(letter.Data)).To(Equal(`{"n":1}`))
			Expect(letter.StackTrace).To(HaveLen(3))
			Expect(letter.State(ctx)).To(Equal(bullmq.StateWaiting))
			Consistently(read(&a), "200ms").Should(HaveLen(1))
		})
	})

	It("moves jobs that others have failed, at its start and every Interval", func() {
		failedJob(ctx, queue)
		var a alerts
		runWorker(queue.Name(), doNothing, &bullmq.WorkerOptions{DeadLetters: &bullmq.DeadLetterOptions{
			QueueName: dead.Name(), Interval: 100 * time.Millisecond, OnMoved: record(&a),
		}})
		Eventually(read(&a)).Should(HaveLen(1))
		job, err := queue.Add(ctx, "a", nil, &bullmq.JobOptions{Delay: time.Hour})
		Expect(err).NotTo(HaveOccurred())
		redisDo("ZREM", keyOf(queue.Name(), "delayed"), job.ID)
		redisDo("ZADD", keyOf(queue.Name(), "failed"), strconv.FormatInt(time.Now().UnixMilli(), 10), job.ID)
		Eventually(read(&a)).Should(HaveLen(2))
	})

	It("moves a failed parent when its last child has finished", func() {
		var a alerts
		runWorker(queue.Name(), failing, &bullmq.WorkerOptions{DeadLetters: &bullmq.DeadLetterOptions{
			QueueName: dead.Name(), Interval: 50 * time.Millisecond, OnMoved: record(&a),
		}})
		flows, err := bullmq.NewFlowProducer(ctx, &bullmq.FlowProducerOptions{Connection: connection()})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(flows.Close)
		_, err = flows.Add(ctx, bullmq.Flow{Name: "parent", QueueName: queue.Name(), Options: &bullmq.JobOptions{JobID: "parent"}, Children: []bullmq.Flow{
			{Name: "bad", QueueName: queue.Name(), Options: &bullmq.JobOptions{JobID: "bad", OnFailure: bullmq.FailParent}},
			{Name: "late", QueueName: queue.Name() + ".late"},
		}})
		Expect(err).NotTo(HaveOccurred())
		Eventually(stateOf(queue, "parent"), "10s").Should(Equal(bullmq.StateFailed))
		Eventually(read(&a), "10s").Should(Equal([]string{queue.Name() + "-bad"}))
		Consistently(read(&a), "200ms").Should(HaveLen(1))
		late := newFetcher(queue.Name()+".late", nil)
		endJob(late, takeJob(late), "done", nil)
		Eventually(read(&a), "10s").Should(Equal([]string{queue.Name() + "-bad", queue.Name() + "-parent"}))
	})

	DescribeTable("leaves a job that was cancelled, whether it ran or waited, unless IncludeCancelled is set:", func(include, runs bool) {
		letters := make(chan bullmq.DeadLetter, 1)
		log := gbytes.NewBuffer()
		started := make(chan struct{})
		worker := newWorker(queue.Name(), func(ctx context.Context, job *bullmq.Job) (any, error) {
			if job.Name == "broken" {
				return nil, errors.New("no")
			}
			close(started)
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}, &bullmq.WorkerOptions{Logger: bullmq.Zerolog(zerolog.New(log)), DeadLetters: &bullmq.DeadLetterOptions{
			QueueName: dead.Name(), Interval: 50 * time.Millisecond, IncludeCancelled: include,
			OnMoved: func(_ context.Context, letter bullmq.DeadLetter) { letters <- letter },
		}})
		// A job that is not kept would become no letter, which is no reason for a warning if it is cancelled.
		keep := bullmq.KeepAll()
		if !include {
			keep = bullmq.KeepNone()
		}
		job, err := queue.Add(ctx, "void", nil, &bullmq.JobOptions{KeepFailed: keep})
		Expect(err).NotTo(HaveOccurred())
		if !runs {
			Expect(queue.Cancel(ctx, job.ID, "by the customer")).To(Equal(bullmq.CancelQueued))
		}
		go func() { _ = worker.Run(ctx) }()
		if runs {
			Eventually(started, "5s").Should(BeClosed())
			Expect(queue.Cancel(ctx, job.ID, "by the customer")).To(Equal(bullmq.CancelRunning))
		}
		var letter bullmq.DeadLetter
		if include {
			Eventually(letters, "10s").Should(Receive(&letter))
			Expect(letter).To(And(HaveField("JobID", job.ID), HaveField("Cancelled", true), HaveField("Reason", "cancelled: by the customer")))
			return
		}
		Eventually(func() error { _, err := queue.Job(ctx, job.ID); return err }, "10s").Should(MatchError(bullmq.ErrJobNotFound))
		_, err = queue.Add(ctx, "broken", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		Eventually(letters, "10s").Should(Receive(&letter))
		Expect(letter).To(And(HaveField("Name", "broken"), HaveField("Cancelled", false)))
		Expect(log).NotTo(gbytes.Say("did not become a dead letter"))
	},
		Entry("it ran, and stays", false, true), Entry("it waited, and stays", false, false),
		Entry("it ran, and moves", true, true), Entry("it waited, and moves", true, false),
	)

	It("moves each job once and reports it once, beside another worker with DeadLetters", func() {
		const count = 50
		var a alerts
		for range 2 {
			runWorker(queue.Name(), failing, &bullmq.WorkerOptions{Concurrency: 5, DeadLetters: &bullmq.DeadLetterOptions{
				QueueName: dead.Name(), Interval: 20 * time.Millisecond, OnMoved: record(&a),
			}})
		}
		for range count {
			_, err := queue.Add(ctx, "mail", nil, nil)
			Expect(err).NotTo(HaveOccurred())
		}
		Eventually(read(&a)).Should(HaveLen(count))
		Consistently(read(&a), "200ms").Should(HaveLen(count))
		waiting, err := dead.JobIDs(ctx, bullmq.AllEntries(), bullmq.StateWaiting)
		Expect(err).NotTo(HaveOccurred())
		reported := read(&a)()
		slices.Sort(reported)
		slices.Sort(waiting)
		Expect(reported).To(Equal(waiting))
		Expect(countOf(queue, bullmq.StateFailed)()).To(BeZero())
	})

	It("moves a job that fails while it stops", func() {
		started, release := make(chan struct{}), make(chan struct{})
		var a alerts
		_, stop, ended := startWorker(queue.Name(), func(context.Context, *bullmq.Job) (any, error) {
			close(started)
			<-release
			return nil, errors.New("no")
		}, &bullmq.WorkerOptions{DeadLetters: &bullmq.DeadLetterOptions{QueueName: dead.Name(), OnMoved: record(&a)}})
		_, err := queue.Add(ctx, "mail", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		Eventually(started).Should(BeClosed())
		stop()
		close(release)
		Eventually(ended).Should(Receive(BeNil()))
		Expect(read(&a)()).To(HaveLen(1))
		Expect(countOf(dead, bullmq.StateWaiting)()).To(Equal(1))
	})

	It("gives OnMoved a letter whose methods act on the queue for dead letters, without events of the worker", func() {
		progress := make(chan string, 1)
		done := make(chan error, 1)
		runWorker(queue.Name(), failing, &bullmq.WorkerOptions{
			Events: bullmq.WorkerEvents{Progress: func(job *bullmq.Job, _ any) { progress <- job.ID }},
			DeadLetters: &bullmq.DeadLetterOptions{QueueName: dead.Name(), OnMoved: func(ctx context.Context, letter bullmq.DeadLetter) {
				done <- errors.Join(letter.Letter.UpdateProgress(ctx, 1), letter.Letter.UpdateData(ctx, "new"))
			}},
		})
		_, err := queue.Add(ctx, "mail", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		Eventually(done).Should(Receive(BeNil()))
		letters, err := dead.Jobs(ctx, bullmq.AllEntries(), bullmq.StateWaiting)
		Expect(err).NotTo(HaveOccurred())
		Expect(letters).To(HaveLen(1))
		Expect(string(letters[0].Data)).To(Equal(`"new"`))
		Consistently(progress, "100ms").ShouldNot(Receive())
	})

	It("goes on after a panic of OnMoved", func() {
		var calls alerts
		runWorker(queue.Name(), failing, &bullmq.WorkerOptions{DeadLetters: &bullmq.DeadLetterOptions{
			QueueName: dead.Name(), OnMoved: func(ctx context.Context, letter bullmq.DeadLetter) {
				record(&calls)(ctx, letter)
				panic("of OnMoved")
			},
		}})
		for range 3 {
			_, err := queue.Add(ctx, "mail", nil, nil)
			Expect(err).NotTo(HaveOccurred())
		}
		Eventually(read(&calls)).Should(HaveLen(3))
	})

	It("moves jobs after an outage", func() {
		proxy, through := proxiedRedis()
		var a alerts
		runWorker(queue.Name(), doNothing, &bullmq.WorkerOptions{Connection: through, DeadLetters: &bullmq.DeadLetterOptions{
			QueueName: dead.Name(), Interval: 50 * time.Millisecond, OnMoved: record(&a),
		}})
		Expect(proxy.Set(faultproxy.Faults{Refuse: true})).To(Succeed())
		proxy.CutAll()
		failedJob(ctx, queue)
		Consistently(read(&a), "300ms").Should(BeEmpty())
		Expect(proxy.Set(faultproxy.Faults{})).To(Succeed())
		Eventually(read(&a)).Should(HaveLen(1))
	})

	It("warns once of jobs that their own options remove when they fail", func() {
		log := gbytes.NewBuffer()
		runWorker(queue.Name(), failing, &bullmq.WorkerOptions{
			Logger:      bullmq.Zerolog(zerolog.New(log)),
			DeadLetters: &bullmq.DeadLetterOptions{QueueName: dead.Name()},
		})
		for range 2 {
			_, err := queue.Add(ctx, "mail", nil, &bullmq.JobOptions{KeepFailed: bullmq.KeepNone()})
			Expect(err).NotTo(HaveOccurred())
		}
		Eventually(countOf(queue, bullmq.StateWaiting)).Should(BeZero())
		Eventually(log).Should(gbytes.Say("did not become a dead letter"))
		Consistently(func() int { return strings.Count(string(log.Contents()), "did not become") }, "200ms").Should(Equal(1))
		Expect(countOf(dead, bullmq.StateWaiting)()).To(BeZero())
	})

	DescribeTable("is refused", func(options bullmq.WorkerOptions, reason string) {
		options.Connection = connection()
		_, err := bullmq.NewWorker(ctx, "orders", doNothing, &options)
		Expect(err).To(MatchError(And(HavePrefix("bullmq: worker of queue orders: "), ContainSubstring(reason))))
	},
		Entry("without the name of a queue", bullmq.WorkerOptions{DeadLetters: &bullmq.DeadLetterOptions{}}, "has no name"),
		Entry("for its own queue", bullmq.WorkerOptions{DeadLetters: &bullmq.DeadLetterOptions{QueueName: "orders"}}, "the queue itself"),
		Entry("for a name with a colon", bullmq.WorkerOptions{DeadLetters: &bullmq.DeadLetterOptions{QueueName: "a:b"}}, "colon"),
		Entry("with a negative Interval", bullmq.WorkerOptions{DeadLetters: &bullmq.DeadLetterOptions{QueueName: "d", Interval: -1}}, "Interval"),
		Entry("if it removes failed jobs", bullmq.WorkerOptions{
			KeepFailed: bullmq.KeepNone(), DeadLetters: &bullmq.DeadLetterOptions{QueueName: "d"},
		}, "KeepFailed removes a job when it fails"),
	)
})
