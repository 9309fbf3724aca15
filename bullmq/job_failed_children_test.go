package bullmq_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("A running job whose child has failed it", func() {
	var (
		name, parts string
		queue       *bullmq.Queue
		ctx         context.Context
	)
	setUp := func() {
		GinkgoHelper()
		name, parts, ctx = newQueueName(), newQueueName(), specContext()
		queue = newQueue(name, nil)
	}
	BeforeEach(setUp)
	// failChild adds a child to a job and fails it, so that it fails its parent.
	failChild := func(parent *bullmq.Job) {
		GinkgoHelper()
		_, err := newQueue(parts, nil).Add(ctx, "part", nil, &bullmq.JobOptions{Parent: parent.AsParent(), OnFailure: bullmq.FailParent})
		Expect(err).NotTo(HaveOccurred())
		fetcher := newFetcher(parts, nil)
		endJob(fetcher, takeJob(fetcher), nil, errors.New("broken"))
	}
	add := func() *bullmq.Job {
		GinkgoHelper()
		job, err := queue.Add(ctx, "assemble", nil, &bullmq.JobOptions{Attempts: 3, Backoff: bullmq.FixedBackoff(time.Hour)})
		Expect(err).NotTo(HaveOccurred())
		return job
	}
	const words = "Cannot complete job 1 because it has at least one failed child. "

	DescribeTable("fails for good at once when its handler", func(reason string, handle bullmq.Handler) {
		job := add()
		failed := make(chan error, 5)
		runWorker(name, func(ctx context.Context, job *bullmq.Job) (any, error) {
			failChild(job)
			return handle(ctx, job)
		}, &bullmq.WorkerOptions{
			Events:   bullmq.WorkerEvents{Failed: func(_ *bullmq.Job, err error) { failed <- err }},
			Classify: func(error, *bullmq.Job) bullmq.Verdict { return bullmq.RetryAfter(time.Hour) },
		})
		var err error
		Eventually(failed).Should(Receive(&err))
		Expect(err).To(MatchError(reason))
		Expect(err).To(MatchError(bullmq.ErrFailedChildren))
		Expect(err).To(MatchError(bullmq.ErrUnrecoverable))
		Expect(stateOf(queue, job.ID)()).To(Equal(bullmq.StateFailed))
		Expect(hashAt(job.Key())).To(And(
			HaveKeyWithValue("failedReason", reason), HaveKeyWithValue("atm", "1"), HaveKeyWithValue("ats", "1"), Not(HaveKey("defa")),
		))
		Expect(eventsOf(name)).To(ContainElement("failed jobId=1 failedReason=" + reason + " prev=active"))
		Expect(strings.Join(eventsOf(name), "\n")).NotTo(ContainSubstring("delayed jobId=1"))
		Expect(failed).NotTo(Receive())
	},
		Entry("returns the error of MoveToWaitingChildren", words+"moveToWaitingChildren", func(ctx context.Context, job *bullmq.Job) (any, error) {
			_, err := job.MoveToWaitingChildren(ctx)
			return nil, err
		}),
		Entry("returns the error of MoveToWaitingChild", words+"moveToWaitingChildren", func(ctx context.Context, job *bullmq.Job) (any, error) {
			_, err := job.MoveToWaitingChild(ctx, "bull:any:1")
			return nil, err
		}),
		Entry("wraps that error", "step 2: "+words+"moveToWaitingChildren", func(ctx context.Context, job *bullmq.Job) (any, error) {
			_, err := job.MoveToWaitingChildren(ctx)
			return nil, fmt.Errorf("step 2: %w", err)
		}),
		Entry("joins it to another", "tidying up: no\n"+words+"moveToWaitingChildren", func(ctx context.Context, job *bullmq.Job) (any, error) {
			_, err := job.MoveToWaitingChildren(ctx)
			return nil, errors.Join(errors.New("tidying up: no"), err)
		}),
		Entry("joins it to a Snooze", "bullmq: snoozed for 1h0m0s\n"+words+"moveToWaitingChildren", func(ctx context.Context, job *bullmq.Job) (any, error) {
			_, err := job.MoveToWaitingChildren(ctx)
			return nil, errors.Join(bullmq.Snooze(time.Hour), err)
		}),
		Entry("panics with it", "panic: "+words+"moveToWaitingChildren", func(ctx context.Context, job *bullmq.Job) (any, error) {
			_, err := job.MoveToWaitingChildren(ctx)
			panic(err)
		}),
		Entry("waits for its children", words+"moveToWaitingChildren", func(context.Context, *bullmq.Job) (any, error) {
			return nil, bullmq.ErrWaitForChildren
		}),
		Entry("completes it", words+"moveToFinished", func(context.Context, *bullmq.Job) (any, error) { return "done", nil }),
	)

	It("is retried after another failure, and fails at its next start", func() {
		job, err := queue.Add(ctx, "assemble", nil, &bullmq.JobOptions{Attempts: 3})
		Expect(err).NotTo(HaveOccurred())
		runWorker(name, func(_ context.Context, job *bullmq.Job) (any, error) {
			failChild(job)
			return nil, errors.New("boom")
		}, nil)
		Eventually(stateOf(queue, job.ID)).Should(Equal(bullmq.StateFailed))
		Expect(hashAt(job.Key())).To(And(HaveKeyWithValue("atm", "2"), HaveKeyWithValue("failedReason", HavePrefix("child bull:"+parts))))
	})

	It("is not cancelled by a renewal of its lock, and its handler runs on", func() {
		job := add()
		renewed, causes := make(chan []string, 100), make(chan error, 1)
		runWorker(name, func(ctx context.Context, job *bullmq.Job) (any, error) {
			failChild(job)
			for range 2 { // the first one may have been in flight
				select {
				case <-renewed:
				case <-ctx.Done():
				}
			}
			causes <- context.Cause(ctx)
			return nil, errors.New("boom")
		}, &bullmq.WorkerOptions{
			LockRenewTime: 100 * time.Millisecond, Events: bullmq.WorkerEvents{LocksRenewed: func(ids []string) { renewed <- ids }},
		})
		Eventually(causes, "20s").Should(Receive(BeNil()))
		Eventually(stateOf(queue, job.ID)).Should(Equal(bullmq.StateDelayed), "it is retried")
	})

	It("fails even while its worker stops", Label("slow"), func() {
		steadily(func(g Gomega) { // a tenth of ShutdownTimeout is left for the move and the outcome
			setUp()
			job := add()
			started := make(chan struct{})
			_, stop, ended := startWorker(name, func(ctx context.Context, job *bullmq.Job) (any, error) {
				failChild(job)
				close(started)
				<-ctx.Done()
				_, err := job.MoveToWaitingChildren(context.WithoutCancel(ctx))
				return nil, err
			}, &bullmq.WorkerOptions{ShutdownTimeout: 2 * time.Second})
			Eventually(started).Should(BeClosed())
			stop()
			g.Eventually(ended).Should(Receive(BeNil()))
			g.Expect(stateOf(queue, job.ID)()).To(Equal(bullmq.StateFailed))
		})
	})

	DescribeTable("is not failed for good by the refusal of another job", func(other func() (queue, id string)) {
		queueOfOther, id := other()
		otherQueue := newQueue(queueOfOther, nil)
		_, err := otherQueue.Add(ctx, "other", nil, &bullmq.JobOptions{JobID: id})
		Expect(err).NotTo(HaveOccurred())
		otherWorker := newFetcher(queueOfOther, nil)
		taken := takeJob(otherWorker)
		failChild(taken)
		_, refusal := taken.MoveToWaitingChildren(ctx)
		Expect(refusal).To(MatchError(bullmq.ErrFailedChildren))

		fetcher := newFetcher(name, nil)
		job, err := queue.Add(ctx, "assemble", nil, &bullmq.JobOptions{JobID: "mine", Attempts: 3})
		Expect(err).NotTo(HaveOccurred())
		endJob(fetcher, takeJob(fetcher), nil, fmt.Errorf("asking: %w", refusal))
		Expect(stateOf(queue, job.ID)()).To(Equal(bullmq.StateWaiting))
		Expect(hashAt(job.Key())).To(HaveKeyWithValue("failedReason", "asking: "+refusal.Error()))

		failed := takeJob(fetcher)
		failChild(failed)
		_, own := failed.MoveToWaitingChildren(ctx)
		endJob(fetcher, failed, nil, errors.Join(refusal, own))
		Expect(stateOf(queue, job.ID)()).To(Equal(bullmq.StateFailed), "its own is found beside it")
	},
		Entry("of its queue", func() (string, string) { return name, "other" }),
		Entry("with the same id in another queue", func() (string, string) { return newQueueName(), "mine" }),
	)

	It("fails for good, when fetched manually, with the error that refused its completion", func() {
		job := add()
		fetcher := newFetcher(name, nil)
		taken := takeJob(fetcher)
		failChild(taken)
		refusal := fetcher.Complete(ctx, taken, "done")
		Expect(refusal).To(MatchError(bullmq.ErrFailedChildren))
		endJob(fetcher, taken, nil, refusal)
		Expect(stateOf(queue, job.ID)()).To(Equal(bullmq.StateFailed))
		Expect(taken.FailedReason).To(Equal(words + "moveToFinished"))
	})
})
