package bullmq_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("A queue", func() {
	It("adds a job", func() {
		name := newQueueName()
		queue := newQueue(name, nil)
		job, err := queue.Add(specContext(), "paint", map[string]int{"n": 1}, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(job.ID).To(Equal("1"))
		Expect(events(name)).To(Equal([]string{"added jobId=1 name=paint", "waiting jobId=1"}))
		Expect(snapshot(name)).NotTo(BeEmpty())
	})
})
