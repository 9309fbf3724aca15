package bullmq_test

import (
	"context"
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

var _ = Describe("The list of queues", func() {
	// listed returns all queues with a prefix.
	listed := func(ctx context.Context, connection *bullmq.Connection, prefix string) []string {
		GinkgoHelper()
		var names []string
		for name, err := range bullmq.ListQueues(ctx, connection, prefix) {
			Expect(err).NotTo(HaveOccurred())
			names = append(names, name)
		}
		return slices.Sorted(slices.Values(names))
	}

	connect := func(url string) *bullmq.Connection {
		GinkgoHelper()
		link, err := bullmq.Connect(specContext(), url)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(link.Close)
		return link
	}

	It("has each queue of a prefix once, and nothing else", func() {
		ctx, link := specContext(), sharedConnection()
		prefix := "list-" + newQueueName()
		open := func(prefix, name string, jobs ...*bullmq.JobOptions) *bullmq.Queue {
			queue := newQueue(name, &bullmq.QueueOptions{Connection: link, Prefix: prefix})
			for _, options := range jobs {
				_, err := queue.Add(ctx, "paint", nil, options)
				Expect(err).NotTo(HaveOccurred())
			}
			return queue
		}
		open(prefix, "empty")
		open(prefix, "orders", nil, nil, &bullmq.JobOptions{JobID: "edible"}, &bullmq.JobOptions{JobID: "meta-1"})
		open(prefix, "orders@gpu", nil)
		open(prefix, "o*?[x]", nil)
		open(prefix+"-other", "foreign", nil)
		open(prefix+":nested", "deeper", nil)
		newWorkerOf := bullmq.WorkerOptions{Connection: link, Prefix: prefix}
		runWorker("orders", doNothing, &newWorkerOf)
		flows, err := bullmq.NewFlowProducer(ctx, &bullmq.FlowProducerOptions{Connection: link, Prefix: prefix})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(flows.Close)
		_, err = flows.Add(ctx, bullmq.Flow{Name: "root", QueueName: "flow-only", Options: &bullmq.JobOptions{JobID: "own"}})
		Expect(err).NotTo(HaveOccurred())
		Expect(listed(ctx, link, prefix)).To(Equal([]string{"empty", "flow-only", "o*?[x]", "orders", "orders@gpu"}))

		obliterated := open(prefix, "orders@gpu")
		Expect(obliterated.Obliterate(ctx, &bullmq.ObliterateOptions{Force: true})).To(Succeed())
		Expect(listed(ctx, link, prefix)).NotTo(ContainElement("orders@gpu"))
	})

	It("makes no more calls when the caller has seen enough", func() {
		server := startRedis(redisserver.Options{})
		link := connect(server.URL())
		client := clientOf(server)
		ctx := specContext()
		for i := range 5000 {
			Expect(client.Do(ctx, client.B().Hset().Key(fmt.Sprintf("bull:q%d:meta", i)).FieldValue().FieldValue("version", "x").Build()).Error()).To(Succeed())
		}
		for name, err := range bullmq.ListQueues(ctx, link, "") {
			Expect(err).NotTo(HaveOccurred())
			Expect(name).To(HavePrefix("q"))
			break
		}
		info, err := client.Do(ctx, client.B().Info().Section("commandstats").Build()).ToString()
		Expect(err).NotTo(HaveOccurred())
		Expect(info).To(ContainSubstring("cmdstat_scan:calls=1,"))
		Expect(listed(ctx, link, "")).To(HaveLen(5000))
	})

	It("has the queues of all nodes of a cluster", func() {
		clustered()
		ctx, link := specContext(), connect(cluster.URL())
		var names []string
		for range 20 {
			name := "{" + newQueueName() + "}"
			names = append(names, name)
			newQueue(name, &bullmq.QueueOptions{Connection: link, Prefix: "spread"})
		}
		slices.Sort(names)
		Expect(listed(ctx, link, "spread")).To(Equal(names))
	})

	It("ends with an error that names the prefix if Redis can't be reached, and without a Connection", func() {
		server := startRedis(redisserver.Options{})
		link := connect(server.URL())
		newQueue("orders", &bullmq.QueueOptions{Connection: link})
		server.Kill()
		ctx, cancel := context.WithTimeout(specContext(), 0)
		defer cancel()
		for _, err := range bullmq.ListQueues(ctx, link, "shop") {
			Expect(err).To(MatchError(ContainSubstring(`bullmq: list the queues with the prefix "shop"`)))
		}
		for _, err := range bullmq.ListQueues(ctx, nil, "") {
			Expect(err).To(MatchError(ContainSubstring("there is no Connection")))
		}
	})
})
