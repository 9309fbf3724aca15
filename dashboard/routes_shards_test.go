package dashboard_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/dashboard"
	"github.com/17a2ac88/bullmq-go/internal/testkit/nodeprocess"
)

var _ = Describe("The pages of routes and shards", func() {
	ctx := context.Background()

	It("show the routes of a queue with the workers of Go and Node, and mark those without", func() {
		s := open(nil)
		orders := s.queue("orders")
		for _, target := range []bullmq.Target{{Capabilities: []string{"gpu"}, Region: "us-east"}, {Capabilities: []string{"tpu", "cpu"}, Mode: bullmq.MatchAny}, {Stack: "node"}, {Server: "w-7"}} {
			_, err := orders.Add(ctx, "resize", nil, &bullmq.JobOptions{Target: &target})
			Expect(err).NotTo(HaveOccurred())
		}
		worker, err := bullmq.NewRoutedWorker(ctx, "orders", func(context.Context, *bullmq.Job) (any, error) { return nil, nil }, &bullmq.RoutedWorkerOptions{
			Server: "w-7", Worker: bullmq.WorkerOptions{Connection: s.connection, Name: "router", Registration: &bullmq.RegistrationOptions{Region: "us-east", Capabilities: []string{"gpu"}}},
		})
		Expect(err).NotTo(HaveOccurred())
		running, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- worker.Run(running) }()
		DeferCleanup(func() { stop(); Expect(<-ended).To(Succeed()) })
		node, err := nodeprocess.Start("worker.mjs", "-redis", s.redis.Addr(), "-queue", "orders@stack=node", "-name", "noddy", "-sleep", "60000")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(node.Kill)
		Eventually(func() string { return s.page("/queues/orders/routes") }).Should(And(
			MatchRegexp(`(?s)orders@gpu&#43;region=us-east</a></th>\s*<td><span class="badge">gpu</span> <span class="badge">region us-east</span>.*router</td>`),
			MatchRegexp(`(?s)orders@server=w-7</a></th>`), MatchRegexp(`(?s)orders@stack=node</a></th>.*noddy</td>`),
			MatchRegexp(`orders@cpu\|tpu</a> <span class="badge bad">no worker</span>`), ContainSubstring("any of ")))
		Expect(s.page("/routes")).To(MatchRegexp(`(?s)<a href="/queues/orders/routes">orders</a>.*<td class="number">4</td>`))
		Eventually(func() string { return s.page("/routes") }).Should(ContainSubstring("1 route without workers"))
	})

	It("do not take other names with an at sign for routes", func() {
		s := open(nil)
		for _, name := range []string{"me@Example.com", "a@", "orders@GPU", "orders@b+a", "{orders-x}", "orders-0"} {
			s.queue(name)
		}
		page := s.page("/routes")
		Expect(page).To(And(ContainSubstring("No routed queue."), ContainSubstring("No sharded queue.")))
		Expect(page).NotTo(ContainSubstring("orders"))
	})

	It("show how the jobs of a sharded queue are spread over the shards of each generation", func() {
		s := open(&dashboard.Options{Access: func(_ *http.Request, use dashboard.Use) error {
			if use.Queue == "{secret-0}" {
				return errors.New("no")
			}
			return nil
		}})
		s.queue("{secret-0}")
		sharded, err := bullmq.NewShardedQueue(ctx, "events", 3, &bullmq.ShardedQueueOptions{Connections: []*bullmq.Connection{s.connection}})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(sharded.Close)
		add := func(n int) {
			for i := range n {
				_, err := sharded.Add(ctx, "log", nil, &bullmq.JobOptions{JobID: fmt.Sprintf("%d-%d", n, i)})
				Expect(err).NotTo(HaveOccurred())
			}
		}
		add(30)
		Expect(sharded.Resize(ctx, 5)).To(Succeed())
		add(20)
		page := s.page("/routes")
		Expect(page).NotTo(ContainSubstring("secret"))
		Expect(page).To(MatchRegexp(`(?s)events</h3>.*Generation 1 <span class="badge good">current</span>: 5 shards.*<a href="/queues/%7Bevents.1-4%7D">.*all</th><td></td><td class="number">20</td>.*Generation 0: 3 shards.*all</th><td></td><td class="number">30</td>`))
		Expect(regexp.MustCompile(`<rect width="100.0"`).FindAllString(page, -1)).NotTo(BeEmpty())
	})

	It("read 500 shards with at most 50 commands", func() {
		s := open(nil)
		for i := range 500 {
			s.redisText("HSET", fmt.Sprintf("bull:{events-%d}:meta", i), "version", "bullmq:6.7.0")
		}
		s.page("/")
		before := s.commands()
		Expect(s.page("/routes")).To(ContainSubstring("500 shards"))
		Expect(s.commands() - before).To(BeNumerically("<=", 50))
	})
})
