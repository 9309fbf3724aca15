package bullmq_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("A manually fetched job", func() {
	var (
		name   string
		queue  *bullmq.Queue
		worker *bullmq.Worker
		ctx    context.Context
	)
	BeforeEach(func() {
		name, ctx = newQueueName(), specContext()
		queue = newQueue(name, nil)
		worker = newWorker(name, nil, &bullmq.WorkerOptions{Name: "by-hand", LockDuration: 5 * time.Second})
	})
	add := func(options *bullmq.JobOptions) *bullmq.Job {
		GinkgoHelper()
		job, err := queue.Add(ctx, "a", map[string]int{"n": 1}, options)
		Expect(err).NotTo(HaveOccurred())
		return job
	}
	take := func(token string) *bullmq.Job {
		GinkgoHelper()
		job, err := worker.GetNextJob(ctx, token, 0)
		Expect(err).NotTo(HaveOccurred())
		Expect(job).NotTo(BeNil())
		return job
	}

	It("is active, locked by its token and marked with the worker's name", func() {
		added := add(nil)
		job := take("mine")
		Expect(job.ID).To(Equal(added.ID))
		Expect(string(job.Data)).To(Equal(`{"n":1}`))
		Expect(job.Token()).To(Equal("mine"))
		Expect(stateOf(queue, job.ID)()).To(Equal(bullmq.StateActive))
		Expect(stringAt(keyOf(name, job.ID+":lock"))).To(Equal("mine"))
		Expect(redisDo("PTTL", keyOf(name, job.ID+":lock")).AsInt64()).To(And(BeNumerically(">", 4000), BeNumerically("<=", 5000)))
		Expect(hashAt(keyOf(name, job.ID))).To(And(HaveKeyWithValue("pb", "by-hand"), HaveKeyWithValue("ats", "1"), HaveKey("processedOn")))
	})

	DescribeTable("cannot be fetched with a token that owns every lock:", func(token string) {
		add(nil)
		_, err := worker.GetNextJob(ctx, token, 0)
		Expect(err).To(MatchError(ContainSubstring("token")))
		Expect(listAt(keyOf(name, "active"))).To(BeEmpty())
	}, Entry("zero", "0"), Entry("an empty token", ""))

	It("cannot be finished with another token", func() {
		add(nil)
		job := take("mine")
		_, err := worker.Complete(ctx, job, "theirs", nil, false)
		Expect(err).To(MatchError(bullmq.ErrLockMismatch))
		_, err = worker.Complete(ctx, job, "mine", "done", false)
		Expect(err).NotTo(HaveOccurred())
	})

	It("is waited for until one is added, the wait is over or the context ends", func() {
		Expect(worker.GetNextJob(ctx, "t:1", 50*time.Millisecond)).To(BeNil())

		got := make(chan *bullmq.Job, 1)
		go func() {
			defer GinkgoRecover()
			job, err := worker.GetNextJob(ctx, "t:2", 10*time.Second)
			Expect(err).NotTo(HaveOccurred())
			got <- job
		}()
		waitUntilIdle(queue)
		add(nil)
		Eventually(got, "3s").Should(Receive(HaveField("ID", "1")))

		short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		begun := time.Now()
		_, err := worker.GetNextJob(short, "t:3", 10*time.Second)
		Expect(err).To(MatchError(context.DeadlineExceeded))
		Expect(time.Since(begun)).To(BeNumerically("<", 3*time.Second))
	})

	It("completes with its value and returns the next job on request", func() {
		add(nil)
		add(nil)
		job := take("mine")
		next, err := worker.Complete(ctx, job, "mine", map[string]string{"colour": "red"}, true)
		Expect(err).NotTo(HaveOccurred())
		Expect(next.ID).To(Equal("2"))
		Expect(string(job.ReturnValue)).To(Equal(`{"colour":"red"}`))
		Expect(job.AttemptsMade).To(Equal(1))
		Expect(job.FinishedOn).NotTo(BeZero())
		Expect(stringAt(keyOf(name, "2:lock"))).To(Equal("mine"))
		Expect(hashAt(keyOf(name, "1"))).To(HaveKeyWithValue("returnvalue", `{"colour":"red"}`))
		next, err = worker.Complete(ctx, next, "mine", nil, true)
		Expect(err).NotTo(HaveOccurred())
		Expect(next).To(BeNil())
	})

	It("stays as it is if JSON cannot represent its value", func() {
		add(nil)
		job := take("mine")
		_, err := worker.Complete(ctx, job, "mine", func() {}, false)
		Expect(err).To(MatchError(ContainSubstring("can't be written as JSON")))
		Expect(stateOf(queue, job.ID)()).To(Equal(bullmq.StateActive))
		Expect(stringAt(keyOf(name, job.ID+":lock"))).To(Equal("mine"))
	})

	It("that fails is retried by its options and then fails for good", func() {
		add(&bullmq.JobOptions{Attempts: 3, Backoff: bullmq.FixedBackoff(30 * time.Millisecond)})
		fail := func(token string) {
			GinkgoHelper()
			job, err := worker.GetNextJob(ctx, token, 2*time.Second)
			Expect(err).NotTo(HaveOccurred())
			Expect(job).NotTo(BeNil(), "it waits for what is delayed")
			_, err = worker.Fail(ctx, job, token, errors.New("boom"), false)
			Expect(err).NotTo(HaveOccurred())
			Expect(job.FailedReason).To(Equal("boom"))
			Expect(job.StackTrace).To(HaveLen(job.AttemptsMade))
		}
		fail("t:1")
		Expect(stateOf(queue, "1")()).To(Equal(bullmq.StateDelayed))
		fail("t:2")
		fail("t:3")
		Expect(stateOf(queue, "1")()).To(Equal(bullmq.StateFailed))
		Expect(hashAt(keyOf(name, "1"))).To(And(HaveKeyWithValue("atm", "3"), HaveKeyWithValue("failedReason", "boom")))
		Expect(eventsOf(name)).To(ContainElement("retries-exhausted jobId=1 attemptsMade=3"))
	})

	DescribeTable("that has a priority and fails is retried after lower numbers and earlier equals", func(backoff *bullmq.Backoff) {
		add(&bullmq.JobOptions{Priority: 2, Attempts: 2, Backoff: backoff})
		job := take("mine")
		for _, priority := range []int{1, 2, 3} {
			add(&bullmq.JobOptions{Priority: priority})
		}
		_, err := worker.Fail(ctx, job, "mine", errors.New("boom"), false)
		Expect(err).NotTo(HaveOccurred())
		if backoff != nil {
			Expect(job.Promote(ctx)).To(Succeed())
		}
		Expect(zsetAt(keyOf(name, "prioritized"))).To(Equal([]string{"2", "3", "1", "4"}))
	},
		Entry("at once", nil), Entry("after a backoff", bullmq.FixedBackoff(time.Hour)),
	)

	It("that fails returns the next job on request", func() {
		add(nil)
		add(nil)
		next, err := worker.Fail(ctx, take("mine"), "mine", bullmq.Unrecoverable(errors.New("boom")), true)
		Expect(err).NotTo(HaveOccurred())
		Expect(next.ID).To(Equal("2"))
		Expect(next.Token()).To(Equal("mine"))
	})

	It("that fails without a reason still fails", func() {
		add(nil)
		_, err := worker.Fail(ctx, take("mine"), "mine", nil, false)
		Expect(err).NotTo(HaveOccurred())
		Expect(stateOf(queue, "1")()).To(Equal(bullmq.StateFailed))
	})

	It("keeps its lock for the requested time, alone or with others", func() {
		add(nil)
		add(nil)
		one, two := take("t:1"), take("t:2")
		ttl := func(job *bullmq.Job) int64 {
			ms, err := redisDo("PTTL", keyOf(name, job.ID+":lock")).AsInt64()
			Expect(err).NotTo(HaveOccurred())
			return ms
		}
		Expect(one.ExtendLock(ctx, time.Minute)).To(BeTrue())
		Expect(ttl(one)).To(BeNumerically(">", 50000))
		Expect(one.WithToken("t:2").ExtendLock(ctx, time.Hour)).To(BeFalse())
		Expect(ttl(one)).To(BeNumerically("<=", 60000))

		Expect(redisDo("DEL", keyOf(name, one.ID+":lock")).Error()).To(Succeed())
		Expect(worker.ExtendLocks(ctx, []*bullmq.Job{one, two}, []string{"t:1", "t:2"}, time.Minute)).To(Equal([]string{one.ID}))
		Expect(ttl(two)).To(BeNumerically(">", 50000))
		_, err := worker.ExtendLocks(ctx, []*bullmq.Job{one, two}, []string{"t:1"}, time.Minute)
		Expect(err).To(HaveOccurred())
	})

	It("is delayed without using an attempt, and is fetched again when it is due", func() {
		add(nil)
		job := take("t:1")
		Expect(job.WithToken("other").MoveToDelayed(ctx, time.Now().Add(100*time.Millisecond))).To(MatchError(bullmq.ErrLockMismatch))
		begun := time.Now()
		Expect(job.MoveToDelayed(ctx, begun.Add(100*time.Millisecond))).To(Succeed())
		Expect(stateOf(queue, job.ID)()).To(Equal(bullmq.StateDelayed))
		again, err := worker.GetNextJob(ctx, "t:2", 5*time.Second)
		Expect(err).NotTo(HaveOccurred())
		Expect(again.ID).To(Equal(job.ID))
		Expect(again.AttemptsMade).To(BeZero())
		Expect(time.Since(begun)).To(And(BeNumerically(">=", 99*time.Millisecond), BeNumerically("<", 4*time.Second)))
	})

	It("that stalled too often reports that it must be failed", func() {
		add(nil)
		Expect(redisDo("HSET", keyOf(name, "1"), "defa", "job stalled more than allowable limit").Error()).To(Succeed())
		job := take("mine")
		Expect(job.DeferredFailure).To(Equal("job stalled more than allowable limit"))
		_, err := worker.Fail(ctx, job, "mine", bullmq.Unrecoverable(errors.New(job.DeferredFailure)), false)
		Expect(err).NotTo(HaveOccurred())
		Expect(hashAt(keyOf(name, "1"))).NotTo(HaveKey("defa"))
	})

	It("is returned when the rate limit ends and when the queue is resumed", func() {
		worker = newWorker(name, nil, &bullmq.WorkerOptions{Limiter: &bullmq.Limiter{Max: 1, Duration: 300 * time.Millisecond}})
		add(nil)
		add(nil)
		begun := time.Now()
		take("t:1")
		job, err := worker.GetNextJob(ctx, "t:2", 5*time.Second)
		Expect(err).NotTo(HaveOccurred())
		Expect(job.ID).To(Equal("2"))
		Expect(time.Since(begun)).To(And(BeNumerically(">=", 290*time.Millisecond), BeNumerically("<", 4*time.Second)))

		Expect(queue.Pause(ctx)).To(Succeed())
		add(nil)
		got := make(chan *bullmq.Job, 1)
		go func() {
			defer GinkgoRecover()
			job, err := worker.GetNextJob(ctx, "t:3", 10*time.Second)
			Expect(err).NotTo(HaveOccurred())
			got <- job
		}()
		waitUntilIdle(queue)
		Expect(queue.Resume(ctx)).To(Succeed())
		Eventually(got, "4s").Should(Receive(HaveField("ID", "3")))
	})

	It("is returned to one of many waiting calls, each of which gets its own", func() {
		const many = 8
		got := make(chan string, many)
		var waiting sync.WaitGroup
		for i := range many {
			waiting.Go(func() {
				defer GinkgoRecover()
				token := fmt.Sprint("t:", i)
				job, err := worker.GetNextJob(ctx, token, 10*time.Second)
				Expect(err).NotTo(HaveOccurred())
				got <- job.ID
				_, err = worker.Complete(ctx, job, token, nil, false)
				Expect(err).NotTo(HaveOccurred())
			})
		}
		Eventually(func() ([]bullmq.ConnectedClient, error) { return queue.Workers(ctx) }).Should(HaveLen(many))
		for range many {
			add(nil)
		}
		waiting.Wait()
		close(got)
		ids := map[string]bool{}
		for id := range got {
			ids[id] = true
		}
		Expect(ids).To(HaveLen(many))
	})

	It("stays active, and Fail returns an error, if Classify panics", func() {
		worker = newWorker(name, nil, &bullmq.WorkerOptions{Classify: func(error, *bullmq.Job) bullmq.Verdict { panic("no idea") }})
		add(&bullmq.JobOptions{Attempts: 2})
		job := take("mine")
		_, err := worker.Fail(ctx, job, "mine", errors.New("boom"), false)
		Expect(err).To(MatchError(ContainSubstring("panicked")))
		Expect(stateOf(queue, job.ID)()).To(Equal(bullmq.StateActive), "left as it is")
	})

	It("is not returned by a closed worker, whether paused or not", func() {
		Expect(worker.Close()).To(Succeed())
		_, err := worker.GetNextJob(ctx, "mine", time.Second)
		Expect(err).To(MatchError(bullmq.ErrClosed))
		Expect(worker.Pause(ctx)).To(Succeed())
		_, err = worker.GetNextJob(ctx, "mine", time.Second)
		Expect(err).To(And(MatchError(bullmq.ErrClosed), MatchError(ContainSubstring(name))))
		_, err = worker.CheckStalled(ctx)
		Expect(err).To(MatchError(bullmq.ErrClosed))
	})

	It("ends its wait when the worker is closed", func() {
		got := make(chan error, 1)
		go func() {
			_, err := worker.GetNextJob(ctx, "mine", 10*time.Second)
			got <- err
		}()
		waitUntilIdle(queue)
		Expect(worker.Close()).To(Succeed())
		Eventually(got, "4s").Should(Receive(MatchError(bullmq.ErrClosed)))
	})
})
