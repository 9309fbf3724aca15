package bullmq_test

import (
	"context"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("A job whose handler returns ErrWaitForChildren", func() {
	var (
		name, parts  string
		queue, below *bullmq.Queue // of the job and of its children
		ctx          context.Context
	)
	setUp := func() {
		GinkgoHelper()
		name, parts, ctx = newQueueName(), newQueueName(), specContext()
		queue, below = newQueue(name, nil), newQueue(parts, nil)
	}
	BeforeEach(setUp)
	add := func() *bullmq.Job {
		GinkgoHelper()
		job, err := queue.Add(ctx, "assemble", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		return job
	}
	// assemble adds a child when it runs first, and waits for it.
	assemble := func(_ context.Context, job *bullmq.Job) (any, error) {
		if job.AttemptsStarted > 1 {
			return "whole", nil
		}
		if _, err := below.Add(ctx, "part", nil, &bullmq.JobOptions{Parent: job.AsParent()}); err != nil {
			return nil, err
		}
		return nil, bullmq.ErrWaitForChildren
	}
	finishPart := func() {
		GinkgoHelper()
		fetcher := newFetcher(parts, nil)
		endJob(fetcher, takeJob(fetcher), "part", nil)
	}

	It("waits until its children have finished and runs again with all its attempts", func() {
		job := add()
		var failures, faults atomic.Int64
		runWorker(name, assemble, &bullmq.WorkerOptions{Events: bullmq.WorkerEvents{
			Failed: func(*bullmq.Job, error) { failures.Add(1) }, Error: func(error) { faults.Add(1) },
		}})
		Eventually(stateOf(queue, job.ID)).Should(Equal(bullmq.StateWaitingChildren))
		Expect(hashAt(job.Key())).To(And(HaveKeyWithValue("ats", "1"), Not(HaveKey("atm")), Not(HaveKey("failedReason"))))
		Expect(keysOf(name)).NotTo(ContainElement(HaveSuffix(":lock")))
		Expect(eventsOf(name)).To(ContainElement("waiting-children jobId=" + job.ID + " prev=active"))
		finishPart()
		Expect(job.Wait(ctx, queue)).To(MatchJSON(`"whole"`))
		Expect(hashAt(job.Key())).To(And(HaveKeyWithValue("ats", "2"), HaveKeyWithValue("atm", "1")))
		Expect([]int64{failures.Load(), faults.Load()}).To(Equal([]int64{0, 0}))
	})

	It("runs again at once if no child is pending and uses no attempt", func() {
		job := add()
		runWorker(name, func(_ context.Context, job *bullmq.Job) (any, error) {
			if job.AttemptsStarted < 4 {
				return nil, bullmq.ErrWaitForChildren
			}
			return "whole", nil
		}, nil)
		Expect(job.Wait(ctx, queue)).To(MatchJSON(`"whole"`))
		Expect(hashAt(job.Key())).To(And(HaveKeyWithValue("ats", "4"), HaveKeyWithValue("atm", "1")))
	})

	It("waits for its children even if the worker stops meanwhile", Label("slow"), func() {
		steadily(func(g Gomega) { // a tenth of ShutdownTimeout is left for the child and the outcome
			setUp()
			job := add()
			started := make(chan struct{})
			_, stop, ended := startWorker(name, func(ctx context.Context, job *bullmq.Job) (any, error) {
				close(started)
				<-ctx.Done()
				return assemble(ctx, job)
			}, &bullmq.WorkerOptions{ShutdownTimeout: 2 * time.Second})
			Eventually(started).Should(BeClosed())
			stop()
			g.Eventually(ended).Should(Receive(BeNil()))
			g.Expect(stateOf(queue, job.ID)()).To(Equal(bullmq.StateWaitingChildren))
		})
	})

	It("is moved once even if the reply is lost", Label("slow"), func() {
		// The server knows the script from now on, so that the lost reply is not NOSCRIPT.
		other := newQueue(newQueueName(), nil)
		_, err := other.Add(ctx, "a", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		fetcher := newFetcher(other.Name(), nil)
		Expect(fetcher.Fail(ctx, takeJob(fetcher), bullmq.ErrWaitForChildren)).To(Succeed())

		proxy, via := proxiedRedis()
		job := add()
		var runs, faults atomic.Int64
		started, free := make(chan struct{}), make(chan struct{})
		runWorker(name, func(ctx context.Context, job *bullmq.Job) (any, error) {
			if runs.Add(1) == 1 {
				close(started)
				<-free
			}
			return assemble(ctx, job)
		}, &bullmq.WorkerOptions{Connection: via, SkipStalledCheck: true, Events: bullmq.WorkerEvents{Error: func(error) { faults.Add(1) }}})
		Eventually(started).Should(BeClosed())
		lost := proxy.LoseReply(keyOf(name, "waiting-children"))
		close(free)
		Eventually(lost).Should(BeClosed())
		Eventually(faults.Load).Should(BeEquivalentTo(1), "the lost reply")
		Expect(stateOf(queue, job.ID)()).To(Equal(bullmq.StateWaitingChildren))
		finishPart()
		Expect(job.Wait(ctx, queue)).To(MatchJSON(`"whole"`))
		Expect(runs.Load()).To(BeEquivalentTo(2))
		Expect(faults.Load()).To(BeEquivalentTo(1))
	})

	It("does the same after a manual fetch", func() {
		job := add()
		fetcher := newFetcher(name, nil)
		taken := takeJob(fetcher)
		Expect(fetcher.Fail(ctx, taken, bullmq.ErrWaitForChildren)).To(Succeed())
		Expect(stateOf(queue, job.ID)()).To(Equal(bullmq.StateWaiting), "no child is pending")
		taken = takeJob(fetcher)
		_, err := below.Add(ctx, "part", nil, &bullmq.JobOptions{Parent: taken.AsParent()})
		Expect(err).NotTo(HaveOccurred())
		Expect(fetcher.Fail(ctx, taken, bullmq.ErrWaitForChildren)).To(Succeed())
		Expect(stateOf(queue, job.ID)()).To(Equal(bullmq.StateWaitingChildren))
		Expect(hashAt(job.Key())).To(And(HaveKeyWithValue("ats", "2"), Not(HaveKey("atm"))))
	})
})
