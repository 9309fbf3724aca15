package bullmq_test

import (
	"context"
	"runtime/metrics"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("Worker goroutines", func() {
	It("are reused instead of started for each job", func() {
		const jobs = 500
		name := newQueueName()
		queue := newQueue(name, nil)
		_, err := queue.AddBulk(specContext(), make([]bullmq.BulkJob, jobs))
		Expect(err).NotTo(HaveOccurred())
		made := func() uint64 {
			sample := []metrics.Sample{{Name: "/sched/goroutines-created:goroutines"}}
			metrics.Read(sample)
			return sample[0].Value.Uint64()
		}
		var before, after uint64
		run, done := 0, make(chan struct{})
		runWorker(name, func(context.Context, *bullmq.Job) (any, error) {
			switch run++; run {
			case 1:
				before = made()
			case jobs:
				after = made()
				close(done)
			}
			return nil, nil
		}, nil)
		Eventually(done, "40s").Should(BeClosed())
		Expect(after - before).To(BeNumerically("<", jobs/2))
	})
})
