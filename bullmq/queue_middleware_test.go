package bullmq_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("NewJob.Added", func() {
	var (
		ctx   context.Context
		queue *bullmq.Queue
		added []string // of the last call; "" for a job that was not added
	)
	observe := func(next bullmq.AddFunc) bullmq.AddFunc {
		return func(ctx context.Context, jobs []*bullmq.NewJob) error {
			for _, job := range jobs {
				Expect(job.Added()).To(BeNil(), "before the call")
			}
			err := next(ctx, jobs)
			added = nil
			for _, job := range jobs {
				id := ""
				if job.Added() != nil {
					id = job.Added().ID
				}
				added = append(added, id)
			}
			return err
		}
	}
	BeforeEach(func() {
		ctx = specContext()
		queue = newQueue(newQueueName(), &bullmq.QueueOptions{Middleware: []bullmq.AddMiddleware{observe}})
	})

	It("returns a job that was added, and nil for one that was deduplicated, existed or was refused", func() {
		job, err := queue.Add(ctx, "a", nil, &bullmq.JobOptions{Deduplication: &bullmq.Deduplication{ID: "d"}})
		Expect(err).NotTo(HaveOccurred())
		Expect(added).To(Equal([]string{job.ID}))
		_, err = queue.Add(ctx, "a", nil, &bullmq.JobOptions{JobID: "own"})
		Expect(err).NotTo(HaveOccurred())
		Expect(added).To(Equal([]string{"own"}))
		for _, options := range []*bullmq.JobOptions{{Deduplication: &bullmq.Deduplication{ID: "d"}}, {JobID: "own"}, {Priority: -1}} {
			_, err = queue.Add(ctx, "a", nil, options)
			Expect(added).To(Equal([]string{""}))
		}
		Expect(err).To(HaveOccurred())
	})

	It("returns the added part of a bulk that failed", func() {
		_, err := queue.AddBulk(ctx, []bullmq.BulkJob{
			{Name: "a"}, {Name: "b", Options: &bullmq.JobOptions{Parent: &bullmq.ParentRef{ID: "nobody", QueueKey: "bull:" + queue.Name()}}}, {Name: "c"},
		})
		Expect(err).To(MatchError(bullmq.ErrParentNotFound))
		Expect(added).To(HaveExactElements(Not(BeEmpty()), "", Not(BeEmpty())))
	})

	It("returns each job of a flow that was added, and none of one that was refused", func() {
		flows := newFlows(bullmq.FlowProducerOptions{Connection: connection(), Middleware: []bullmq.AddMiddleware{observe}})
		flow := func(leaf string) bullmq.Flow {
			own := func(id string) *bullmq.JobOptions { return &bullmq.JobOptions{JobID: id} }
			return bullmq.Flow{Name: "root", QueueName: queue.Name(), Options: own("root"), Children: []bullmq.Flow{
				{Name: "left", QueueName: queue.Name(), Options: own("left"), Children: []bullmq.Flow{{Name: "leaf", QueueName: queue.Name(), Options: own(leaf)}}},
				{Name: "right", QueueName: queue.Name(), Options: own("right")},
			}}
		}
		_, err := flows.Add(ctx, flow("leaf"))
		Expect(err).NotTo(HaveOccurred())
		Expect(added).To(Equal([]string{"root", "left", "leaf", "right"}))
		_, err = flows.Add(ctx, flow("another"))
		Expect(err).NotTo(HaveOccurred())
		Expect(added).To(Equal([]string{"", "", "another", ""}))
		_, err = flows.Add(ctx, flow("77"))
		Expect(err).To(HaveOccurred())
		Expect(added).To(Equal([]string{"", "", "", ""}))
	})

	It("returns nil for the template of a scheduler", func() {
		_, err := queue.UpsertScheduler(ctx, "often", bullmq.Repeat{Every: time.Hour}, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(added).To(Equal([]string{""}))
	})
})
