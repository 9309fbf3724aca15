package bullmq_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

var _ = Describe("A shared Connection", Label("slow"), func() {
	connect := func(url string) *bullmq.Connection {
		GinkgoHelper()
		connection, err := bullmq.Connect(specContext(), url)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(connection.Close)
		return connection
	}
	connectClient := func(addr string) *bullmq.Connection {
		GinkgoHelper()
		client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(client.Close)
		connection, err := bullmq.ConnectClient(specContext(), client)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(connection.Close)
		return connection
	}
	// follow reads events until the spec ends, and returns a channel that is closed with the loop.
	follow := func(events *bullmq.QueueEvents) <-chan struct{} {
		ended := make(chan struct{})
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			defer close(ended)
			for range events.All(ctx) {
			}
		}()
		DeferCleanup(func() { cancel(); Eventually(ended).Should(BeClosed()) })
		return ended
	}
	echo := func(_ context.Context, job *bullmq.Job) (any, error) { return job.Name, nil }

	DescribeTable("serves any number of queues, workers, event readers and flow producers", func(open func() *bullmq.Connection) {
		ctx, connection := specContext(), open()
		var queues []*bullmq.Queue
		var names []string
		for range 3 {
			name := "{" + newQueueName() + "}"
			names = append(names, name)
			queues = append(queues, newQueue(name, &bullmq.QueueOptions{Connection: connection}))
			runWorker(name, echo, &bullmq.WorkerOptions{Connection: connection})
			follow(newEvents(name, bullmq.QueueEventsOptions{Connection: connection}))
		}
		flows, err := bullmq.NewFlowProducer(ctx, &bullmq.FlowProducerOptions{Connection: connection})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(flows.Close)

		for i, queue := range queues {
			job, err := queue.Add(ctx, "paint", nil, nil)
			Expect(err).NotTo(HaveOccurred())
			Expect(queue.WaitForJob(ctx, job.ID)).To(MatchJSON(`"paint"`))
			root, err := flows.Add(ctx, bullmq.Flow{Name: "root", QueueName: names[i], Children: []bullmq.Flow{{Name: "leaf", QueueName: names[i]}}})
			Expect(err).NotTo(HaveOccurred())
			Expect(queue.WaitForJob(ctx, root.Job.ID)).To(MatchJSON(`"root"`))
		}
		Expect(connection.Ping(ctx)).To(Succeed())
		Expect(connection.Health().Reachable).To(BeTrue())

		Expect(queues[0].Close()).To(Succeed())
		_, err = queues[0].Add(ctx, "paint", nil, nil)
		Expect(err).To(MatchError(bullmq.ErrClosed))
		job, err := queues[1].Add(ctx, "paint", nil, nil)
		Expect(err).NotTo(HaveOccurred(), "the Connection is open for the others")
		Expect(queues[1].WaitForJob(ctx, job.ID)).To(MatchJSON(`"paint"`))
	},
		Entry("if it was made from an address", func() *bullmq.Connection { return connect(redis.URL()) }),
		Entry("if it was made from the caller's client", func() *bullmq.Connection { return connectClient(redis.Addr()) }),
		Entry("if it was made from a cluster's address", func() *bullmq.Connection { clustered(); return connect(cluster.URL()) }),
	)

	DescribeTable("can be closed before its users, whose calls return ErrClosed and who close in time", func(open func() *bullmq.Connection) {
		ctx, connection, name := specContext(), open(), "{"+newQueueName()+"}"
		queue := newQueue(name, &bullmq.QueueOptions{Connection: connection})
		worker := newWorker(name, echo, &bullmq.WorkerOptions{Connection: connection})
		ran := make(chan error, 1)
		go func() { ran <- worker.Run(context.Background()) }()
		events := newEvents(name, bullmq.QueueEventsOptions{Connection: connection})
		read := follow(events)
		job, err := queue.Add(ctx, "paint", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(queue.WaitForJob(ctx, job.ID)).To(MatchJSON(`"paint"`))

		begun := time.Now()
		Expect(connection.Close()).To(Succeed())
		_, err = queue.Add(ctx, "paint", nil, nil)
		Expect(err).To(MatchError(bullmq.ErrClosed))
		_, err = queue.WaitForJob(ctx, job.ID)
		Expect(err).To(MatchError(bullmq.ErrClosed))
		Expect(connection.Ping(ctx)).To(MatchError(bullmq.ErrClosed))
		_, err = bullmq.NewQueue(ctx, name, &bullmq.QueueOptions{Connection: connection})
		Expect(err).To(MatchError(bullmq.ErrClosed))
		Expect(worker.Close()).To(Succeed())
		Expect(events.Close()).To(Succeed())
		Expect(queue.Close()).To(Succeed())
		Eventually(ran).Should(Receive(BeNil()))
		Eventually(read).Should(BeClosed())
		Expect(time.Since(begun)).To(BeNumerically("<", 3*time.Second))
	},
		Entry("if it was made from an address", func() *bullmq.Connection { return connect(redis.URL()) }),
		Entry("if it was made from the caller's client", func() *bullmq.Connection { return connectClient(redis.Addr()) }),
		Entry("if it was made from a cluster's address", func() *bullmq.Connection { clustered(); return connect(cluster.URL()) }),
	)

	DescribeTable("ends each loop over events, after one ErrClosed, when it is closed", func(open func() *bullmq.Connection) {
		ctx, connection, name := specContext(), open(), newQueueName()
		events := newEvents(name, bullmq.QueueEventsOptions{Connection: connection})
		read := make(chan []error, 1)
		loop := func() {
			var errs []error
			for _, err := range events.All(ctx) {
				errs = append(errs, err)
			}
			read <- errs
		}
		go loop()
		queue := newQueue(name, nil)
		Eventually(func() ([]bullmq.ConnectedClient, error) { return queue.ConnectedReaders(ctx) }).Should(HaveLen(1))
		Expect(connection.Close()).To(Succeed())
		Eventually(read).Should(Receive(ConsistOf(MatchError(bullmq.ErrClosed))))
		go loop()
		Eventually(read).Should(Receive(ConsistOf(MatchError(bullmq.ErrClosed))), "a later loop")
	},
		Entry("if it was made from an address", func() *bullmq.Connection { return connect(redis.URL()) }),
		Entry("if it was made from the caller's client", func() *bullmq.Connection { return connectClient(redis.Addr()) }),
	)

	It("reports an outage and its end to each of its users and in its own Health", func() {
		server := startRedis(redisserver.Options{})
		ctx, connection := specContext(), connect(server.URL())
		var changes [2]healthLog
		var queues []*bullmq.Queue
		for i := range changes {
			name := newQueueName()
			queues = append(queues, newQueue(name, &bullmq.QueueOptions{Connection: connection}))
			runWorker(name, echo, &bullmq.WorkerOptions{Connection: connection, OnHealth: changes[i].record})
		}
		server.Stop()
		for i := range changes {
			Eventually(changes[i].reachable).Should(Equal([]bool{false}))
		}
		Expect(connection.Health()).To(And(HaveField("Reachable", false), HaveField("Err", HaveOccurred())))
		Expect(connection.Ping(ctx)).NotTo(Succeed())
		Expect(server.Start()).To(Succeed())
		for i := range changes {
			Eventually(changes[i].reachable).Should(Equal([]bool{false, true}))
		}
		Eventually(connection.Health).Should(HaveField("Reachable", true))
		for _, queue := range queues {
			job, err := queue.Add(ctx, "paint", nil, nil)
			Expect(err).NotTo(HaveOccurred())
			Expect(queue.WaitForJob(ctx, job.ID)).To(MatchJSON(`"paint"`))
		}
	})

	It("opens at most four sockets for commands, two for each user that waits and some to finish jobs", func() {
		server := startRedis(redisserver.Options{})
		admin := clientOf(server)
		sockets := func() int {
			text, err := admin.Do(context.Background(), admin.B().ClientList().Build()).ToString()
			Expect(err).NotTo(HaveOccurred())
			return strings.Count(text, "\n") - 1 // the admin's connection
		}
		ctx, connection := specContext(), connect(server.URL())
		var queues []*bullmq.Queue
		for i := range 20 {
			queues = append(queues, newQueue(fmt.Sprint("shared-", i), &bullmq.QueueOptions{Connection: connection}))
			newWorker(fmt.Sprint("shared-", i), echo, &bullmq.WorkerOptions{Connection: connection})
			newEvents(fmt.Sprint("shared-", i), bullmq.QueueEventsOptions{Connection: connection})
		}
		for _, queue := range queues {
			_, err := queue.Add(ctx, "paint", nil, nil)
			Expect(err).NotTo(HaveOccurred())
		}
		Expect(sockets()).To(BeNumerically("<=", 4), "nobody waits yet")

		const users = 5
		for i := range users {
			worker := runWorker(fmt.Sprint("shared-", i), echo, &bullmq.WorkerOptions{Connection: connection})
			Expect(worker.Health().Reachable).To(BeTrue())
			follow(newEvents(fmt.Sprint("shared-", i), bullmq.QueueEventsOptions{Connection: connection}))
			Eventually(countOf(queues[i], bullmq.StateCompleted)).Should(Equal(1))
		}
		Eventually(sockets).Should(BeNumerically(">=", 1+2*2*users))
		Consistently(sockets, "200ms").Should(BeNumerically("<=", 4+2*2*users+users))
	})

	It("is refused together with a URL, or if it was not made by this package", func() {
		ctx := specContext()
		_, err := bullmq.NewQueue(ctx, "q", &bullmq.QueueOptions{Connection: connect(redis.URL()), URL: redis.URL()})
		Expect(err).To(MatchError(ContainSubstring("both a Connection and a URL")))
		_, err = bullmq.NewQueue(ctx, "q", &bullmq.QueueOptions{Connection: &bullmq.Connection{}})
		Expect(err).To(MatchError(ContainSubstring("make it with Connect")))
	})

	It("returns an error that names the address without the password if it cannot be made", func() {
		_, err := bullmq.Connect(specContext(), "redis://user:s3cret@127.0.0.1:1")
		Expect(err).To(MatchError(And(ContainSubstring("127.0.0.1:1"), Not(ContainSubstring("s3cret")))))
		_, err = bullmq.ConnectOption(specContext(), rueidis.ClientOption{})
		Expect(err).To(MatchError(ContainSubstring("set InitAddress")))
		_, err = bullmq.ConnectClient(specContext(), nil)
		Expect(err).To(MatchError(ContainSubstring("the client is nil")))
		ended, end := context.WithCancel(context.Background())
		end()
		_, err = bullmq.Connect(ended, redis.URL())
		Expect(err).To(MatchError(context.Canceled))
	})

	It("prints its address without the password", func() {
		secured := startRedis(redisserver.Options{Password: "s3cret"})
		connection := connect(secured.URL())
		for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
			Expect(fmt.Sprintf(verb, connection)).To(And(ContainSubstring(secured.Addr()), Not(ContainSubstring("s3cret"))))
		}
	})
})
