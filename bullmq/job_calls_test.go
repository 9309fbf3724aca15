package bullmq_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// callsUnderLock are the calls of a job that need the token of its lock.
var callsUnderLock = map[string]func(ctx context.Context, job *bullmq.Job) error{
	"ExtendLock": func(ctx context.Context, job *bullmq.Job) error {
		_, err := job.ExtendLock(ctx, time.Minute)
		return err
	},
	"MoveToDelayed": func(ctx context.Context, job *bullmq.Job) error {
		return job.MoveToDelayed(ctx, time.Now().Add(time.Minute))
	},
	"MoveToWait": func(ctx context.Context, job *bullmq.Job) error { return job.MoveToWait(ctx) },
	"MoveToWaitingChildren": func(ctx context.Context, job *bullmq.Job) error {
		_, err := job.MoveToWaitingChildren(ctx)
		return err
	},
	"MoveToWaitingChild": func(ctx context.Context, job *bullmq.Job) error {
		_, err := job.MoveToWaitingChild(ctx, "bull:any:1")
		return err
	},
}

var _ = Describe("A call that needs a job's lock", func() {
	It("returns an error that names WithToken and writes nothing if the job has no token", func() {
		ctx, name := specContext(), newQueueName()
		queue := newQueue(name, nil)
		_, err := queue.Add(ctx, "paint", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		fetcher := newFetcher(name, nil)
		id := takeJob(fetcher).ID
		read, err := queue.Job(ctx, id)
		Expect(err).NotTo(HaveOccurred())
		before := snapshot(name)
		for method, call := range callsUnderLock {
			for _, job := range []*bullmq.Job{read, queue.JobRef(id), fetcher.JobRef(id)} {
				Expect(call(ctx, job)).To(MatchError(And(
					HavePrefix("bullmq: "), ContainSubstring("job "+id+" of queue "+name), ContainSubstring("Job.WithToken"),
				)), method)
			}
		}
		Expect(snapshot(name)).To(Equal(before))
	})

	It("accepts the token that owns every lock for a job that another program holds", func() {
		ctx, name := specContext(), newQueueName()
		queue := newQueue(name, nil)
		_, err := queue.Add(ctx, "paint", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		id := takeJob(newFetcher(name, nil)).ID
		Expect(queue.JobRef(id).WithToken("0").MoveToWait(ctx)).To(Succeed())
		Expect(stateOf(queue, id)()).To(Equal(bullmq.StateWaiting))
	})

	It("uses the token of the copy that WithToken returns and leaves the job's own as it is", func() {
		ctx, name := specContext(), newQueueName()
		queue := newQueue(name, nil)
		_, err := queue.Add(ctx, "paint", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		fetched := takeJob(newFetcher(name, nil))
		theirs := fetched.WithToken("theirs")
		Expect(theirs.ID).To(Equal(fetched.ID))
		Expect(fetched.Token()).To(Equal("token"))
		Expect(theirs.MoveToWait(ctx)).To(MatchError(bullmq.ErrLockMismatch))
		Expect(queue.JobRef(fetched.ID).WithToken("token").MoveToWait(ctx)).To(Succeed())
		Expect(stateOf(queue, fetched.ID)()).To(Equal(bullmq.StateWaiting))
	})

	It("has no job to give a token to if the job is nil", func() {
		var job *bullmq.Job
		Expect(job.WithToken("token")).To(BeNil())
		Expect((&bullmq.Job{ID: "7"}).WithToken("token").MoveToWait(specContext())).To(MatchError(bullmq.ErrNoQueue))
	})
})
