package tests

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("A registry of queues", func() {
	DescribeTable("has the queues that Node has announced with one command", func(line string) {
		producer := startProbe("-bullmq", line)
		registry, err := bullmq.NewRegistry(soon(), newQueueName(), &bullmq.RegistryOptions{URL: server.URL()})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(registry.Close)
		names := []string{newQueueName(), newQueueName()}
		for _, name := range names {
			producer.Do("announce", object{"queue": name, "registry": registry.Name()}, nil)
			producer.Add(name, "paint", object{}, nil)
		}
		Expect(registry.Queues(soon())).To(ConsistOf(names))
	},
		Entry("with bullmq 6.7.0", "6"),
		Entry("with bullmq 5.81.5", "5"),
	)

	DescribeTable("keeps its queues readable for Node", func(line string) {
		reader := startProbe("-bullmq", line)
		registry, err := bullmq.NewRegistry(soon(), newQueueName(), &bullmq.RegistryOptions{URL: server.URL()})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(registry.Close)
		name := newQueueName()
		queue, err := registry.Queue(soon(), name)
		Expect(err).NotTo(HaveOccurred())
		job, err := queue.Add(soon(), "paint", object{"color": "blue"}, nil)
		Expect(err).NotTo(HaveOccurred())
		record := reader.Record(name, job.ID)
		Expect(record).To(HaveKeyWithValue("state", "waiting"))
		Expect(record).To(HaveKeyWithValue("name", "paint"))
	},
		Entry("with bullmq 6.7.0", "6"),
		Entry("with bullmq 5.81.5", "5"),
	)
})
