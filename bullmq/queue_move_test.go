package bullmq_test

import (
	"context"
	"errors"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("A job that is moved to another queue", func() {
	var ctx context.Context
	var name, otherName string
	var queue, other *bullmq.Queue
	BeforeEach(func() {
		ctx, name, otherName = specContext(), newQueueName(), newQueueName()
		queue, other = newQueue(name, nil), newQueue(otherName, nil)
	})
	add := func(options *bullmq.JobOptions) *bullmq.Job {
		GinkgoHelper()
		job, err := queue.Add(ctx, "paint", map[string]string{"color": "<blue>"}, options)
		Expect(err).NotTo(HaveOccurred())
		return job
	}

	It("keeps its state, data, options and log", func() {
		for state, options := range map[bullmq.State]*bullmq.JobOptions{
			bullmq.StateWaiting: {Attempts: 3}, bullmq.StatePrioritized: {Priority: 4, Attempts: 3}, bullmq.StateDelayed: {Delay: time.Hour, JobID: "own"},
		} {
			job := add(options)
			_, err := job.Log(ctx, "a row")
			Expect(err).NotTo(HaveOccurred())
			stored, scores := hashAt(job.Key()), scoresAt(keyOf(name, "delayed"))
			moved, err := queue.MoveJob(ctx, job.ID, otherName)
			Expect(err).NotTo(HaveOccurred())
			Expect(moved.ID).To(Equal(job.ID))
			Expect(moved.QueueName()).To(Equal(otherName))
			Expect(hashAt(moved.Key())).To(Equal(stored))
			Expect(moved.State(ctx)).To(Equal(state))
			Expect(listAt(keyOf(otherName, job.ID+":logs"))).To(Equal([]string{"a row"}))
			if state == bullmq.StateDelayed {
				Expect(scoresAt(keyOf(otherName, "delayed"))).To(Equal(scores))
			}
			Expect(queue.Job(ctx, job.ID)).Error().To(MatchError(bullmq.ErrJobNotFound))
			Expect(queue.MoveJob(ctx, job.ID, otherName)).Error().To(MatchError(bullmq.ErrJobNotFound))
		}
		Expect(queue.Counts(ctx)).To(HaveEach(0))
	})

	It("waits there if it has failed, with its attempts", func() {
		job := add(nil)
		worker := runWorker(name, func(context.Context, *bullmq.Job) (any, error) { return nil, errors.New("no") }, nil)
		Eventually(stateOf(queue, job.ID), "10s").Should(Equal(bullmq.StateFailed))
		Expect(worker.Close()).To(Succeed())
		moved, err := queue.MoveJob(ctx, job.ID, otherName)
		Expect(err).NotTo(HaveOccurred())
		stored, err := other.Job(ctx, moved.ID)
		Expect(err).NotTo(HaveOccurred())
		Expect(stored).To(And(HaveField("AttemptsMade", 1), HaveField("AttemptsStarted", 1), HaveField("FailedReason", ""), HaveField("FinishedOn", BeZero())))
		runWorker(otherName, doNothing, nil)
		Eventually(stateOf(other, moved.ID), "10s").Should(Equal(bullmq.StateCompleted))
	})

	It("gets another number if its own is taken", func() {
		_, err := other.Add(ctx, "first", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		job := add(nil)
		Expect(job.ID).To(Equal("1"))
		moved, err := queue.MoveJob(ctx, job.ID, otherName)
		Expect(err).NotTo(HaveOccurred())
		Expect(moved.ID).To(Equal("2"))
		Expect(other.Job(ctx, "1")).To(HaveField("Name", "first"))
		Expect(other.Job(ctx, "2")).To(HaveField("Name", "paint"))
	})

	It("stays if it runs, or is part of a flow or a scheduler, or if the other queue has it", func() {
		refused := func(id string, reason error) {
			GinkgoHelper()
			before := snapshot(name)
			Expect(queue.MoveJob(ctx, id, otherName)).Error().To(MatchError(reason))
			Expect(snapshot(name)).To(Equal(before))
		}
		running := add(nil)
		takeJob(newFetcher(name, nil))
		refused(running.ID, bullmq.ErrNotInState)
		refused("none", bullmq.ErrJobNotFound)
		scheduled, err := queue.UpsertScheduler(ctx, "tick", bullmq.Repeat{Pattern: "0 9 * * *"}, nil)
		Expect(err).NotTo(HaveOccurred())
		refused(scheduled.ID, bullmq.ErrSchedulerJob)
		for _, own := range []*bullmq.JobOptions{{JobID: "own"}, {Deduplication: &bullmq.Deduplication{ID: "one"}}} {
			job := add(own)
			_, err := other.Add(ctx, "paint", nil, own)
			Expect(err).NotTo(HaveOccurred())
			refused(job.ID, bullmq.ErrMoveConflict)
		}
		parent := add(&bullmq.JobOptions{JobID: "parent"})
		child := add(&bullmq.JobOptions{Parent: parent.AsParent()})
		refused(child.ID, bullmq.ErrInFlow)
		refused(parent.ID, bullmq.ErrInFlow)
		Expect(queue.MoveJob(ctx, running.ID, name)).Error().To(MatchError(ContainSubstring("it is in this queue")))
		Expect(queue.MoveJob(ctx, running.ID, "a:b")).Error().To(MatchError(ContainSubstring("a:b")))
	})

	It("is moved once by several callers, and with all that match", func() {
		_, err := queue.AddBulk(ctx, make([]bullmq.BulkJob, 200))
		Expect(err).NotTo(HaveOccurred())
		var callers sync.WaitGroup
		for range 3 {
			callers.Go(func() {
				defer GinkgoRecover()
				_, err := queue.EachMatch(ctx, bullmq.JobSearch{}, func(ctx context.Context, job *bullmq.Job) error {
					_, err := queue.MoveJob(ctx, job.ID, otherName)
					return err
				})
				Expect(err).NotTo(HaveOccurred())
			})
		}
		callers.Wait()
		Expect(countOf(queue, bullmq.StateWaiting)()).To(BeZero())
		Expect(countOf(other, bullmq.StateWaiting)()).To(Equal(200))
		var t tally
		runWorker(otherName, t.handle, nil)
		Eventually(countOf(other, bullmq.StateCompleted), "20s").Should(Equal(200))
		t.once(200)
	})
})
