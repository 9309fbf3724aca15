package dashboard_test

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/nodeprocess"
)

// work runs a worker until the spec ends.
func (s *site) work(queue string, handler bullmq.Handler, o bullmq.WorkerOptions) *bullmq.Worker {
	GinkgoHelper()
	o.Connection = s.connection
	worker, err := bullmq.NewWorker(context.Background(), queue, handler, &o)
	Expect(err).NotTo(HaveOccurred())
	running, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(running) }()
	DeferCleanup(func() { stop(); Expect(<-ended).To(Succeed()) })
	return worker
}

var _ = Describe("The pages of workers", func() {
	ctx := context.Background()

	It("show the workers of Go and Node with the jobs that they run", func() {
		s := open(nil)
		held := make(chan struct{})
		hold := func(ctx context.Context, _ *bullmq.Job) (any, error) {
			select {
			case <-held:
			case <-ctx.Done():
			}
			return nil, nil
		}
		orders, mails := s.queue("orders"), s.queue("mails")
		for range 2 {
			_, err := orders.Add(ctx, "paint", nil, nil)
			Expect(err).NotTo(HaveOccurred())
		}
		s.work("orders", hold, bullmq.WorkerOptions{Name: "painter", Concurrency: 3, Registration: &bullmq.RegistrationOptions{Version: "1.4.2", Region: "us-east", Stack: "shop", Capabilities: []string{"gpu"}}})
		DeferCleanup(func() { close(held) }) // before the worker is stopped
		_, err := mails.Add(ctx, "send", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		node, err := nodeprocess.Start("worker.mjs", "-redis", s.redis.Addr(), "-queue", "mails", "-name", "noddy", "-concurrency", "2", "-sleep", "60000")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(node.Kill)
		Eventually(func() string { return s.page("/workers") }).Should(And(
			MatchRegexp(`(?s)painter.*process \d+.*1\.4\.2.*shop us-east.*gpu`), ContainSubstring("1 registered worker, 1 worker known by its connection only"),
			MatchRegexp(`(?s)Running jobs.*noddy.*href="/queues/mails/jobs/1".*painter <span class="quiet">2 jobs.*href="/queues/orders/jobs/1".*href="/queues/orders/jobs/2"`)))
		one := s.page("/queues/mails/workers")
		Expect(one).To(ContainSubstring("noddy"))
		Expect(one).NotTo(ContainSubstring("painter"))
		Expect(one).NotTo(ContainSubstring("orders"))
		Expect(one).NotTo(ContainSubstring("no worker serves"))
	})

	It("warn of jobs that no worker serves, but not while their queue is paused", func() {
		s := open(nil)
		for _, name := range []string{"orders", "mails"} {
			_, err := s.queue(name).Add(ctx, "paint", nil, nil)
			Expect(err).NotTo(HaveOccurred())
		}
		Expect(s.queue("mails").Pause(ctx)).To(Succeed())
		page := s.page("/workers")
		Expect(page).To(ContainSubstring("Jobs wait in 1 queue that no worker serves: orders."))
		Expect(page).NotTo(ContainSubstring("serves: mails"))
	})

	It("warn of workers with several versions, and mark a worker that is paused", func() {
		s := open(nil)
		s.queue("orders")
		nothing := func(context.Context, *bullmq.Job) (any, error) { return nil, nil }
		for i := range 2 {
			worker := s.work("orders", nothing, bullmq.WorkerOptions{Name: fmt.Sprint("w", i), Registration: &bullmq.RegistrationOptions{Version: fmt.Sprint("1.", i)}})
			if i == 1 {
				short, cancel := context.WithTimeout(ctx, 10*time.Second)
				DeferCleanup(cancel)
				Expect(worker.Pause(short)).To(Succeed())
			}
		}
		Eventually(func() string { return s.page("/workers") }, "30s").Should(And(
			ContainSubstring("Workers of orders have several versions of the program: 1.0, 1.1."), MatchRegexp(`w1 <span class="badge warn">paused`)))
	})

	It("read many running jobs and queues with at most 300 commands", func() {
		s := open(nil)
		for i := range 120 {
			name := fmt.Sprintf("queue-%03d", i)
			s.queue(name)
			for j := range 10 {
				s.redisText("HSET", fmt.Sprintf("bull:%s:%d", name, j), "name", "paint", "data", "{}", "timestamp", "1700000000000", "processedOn", "1700000000000", "pb", "w")
				s.redisText("LPUSH", "bull:"+name+":active", fmt.Sprint(j))
			}
		}
		s.page("/")
		before := s.commands()
		page := s.page("/workers")
		Expect(s.commands() - before).To(BeNumerically("<=", 300))
		Expect(page).To(ContainSubstring("1,000 more jobs not shown"))
	})
})
