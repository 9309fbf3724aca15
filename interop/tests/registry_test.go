package tests

import (
	"context"
	"maps"
	"sync"

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

	DescribeTable("lets a running worker serve the queues that Node announces", func(line string) {
		producer, name := startProbe("-bullmq", line), newQueueName()
		var mu sync.Mutex
		ran := map[string]int{}
		worker, err := bullmq.NewMultiWorker(soon(), func(_ context.Context, job *bullmq.Job) (any, error) {
			mu.Lock()
			defer mu.Unlock()
			ran[job.QueueName()+" "+job.Name]++
			return "done", nil
		}, &bullmq.MultiWorkerOptions{Registry: name, Worker: bullmq.WorkerOptions{URL: server.URL()}})
		Expect(err).NotTo(HaveOccurred())
		go func() { _ = worker.Run(context.Background()) }()
		DeferCleanup(worker.Close)
		want := map[string]int{}
		for range 3 {
			queue := newQueueName()
			producer.Do("announce", object{"queue": queue, "registry": name}, nil)
			id := producer.Add(queue, "first", object{}, nil)
			Eventually(func() any { return producer.Record(queue, id)["state"] }).Should(Equal("completed"))
			want[queue+" first"] = 1
			producer.Add(queue, "second", object{}, nil)
			want[queue+" second"] = 1
		}
		Eventually(func() map[string]int {
			mu.Lock()
			defer mu.Unlock()
			return maps.Clone(ran)
		}).Should(Equal(want))
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
