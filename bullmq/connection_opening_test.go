package bullmq_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/faultproxy"
)

var _ = Describe("A call while a connection to a silent Redis opens", Label("slow"), func() {
	const soon = 3 * time.Second // an attempt to connect takes four
	var (
		proxy *faultproxy.Proxy
		queue *bullmq.Queue
	)
	BeforeEach(func() {
		proxy, _ = proxiedRedis()
		// With AlwaysPipelining the client notices the end of its connection without a call.
		via := bullmq.Options(rueidis.ClientOption{InitAddress: []string{proxy.Addr()}, PipelineMultiplex: -1, AlwaysPipelining: true})
		queue = newQueue(newQueueName(), &bullmq.QueueOptions{Connection: via})
		Expect(proxy.Set(faultproxy.Faults{BlackHole: true})).To(Succeed())
		proxy.CutAll()
		Eventually(proxy.Connections).Should(BeZero())
		time.Sleep(500 * time.Millisecond) // lets the client notice
	})
	// begin makes a call that opens the connection or waits for it.
	begin := func(ctx context.Context) <-chan error {
		ended := make(chan error, 1)
		go func() { _, err := queue.Add(ctx, "a", nil, nil); ended <- err }()
		return ended
	}

	It("returns when its context is cancelled", func() {
		ctx, cancel := context.WithCancel(context.Background())
		ended := begin(ctx)
		Eventually(proxy.Connections).Should(Equal(1))
		Consistently(ended, "100ms").ShouldNot(Receive())
		cancel()
		Eventually(ended, soon).Should(Receive(HaveOccurred()))
	})

	DescribeTable("returns at the end of its context while another call opens the connection:", func(limit func() (context.Context, context.CancelFunc)) {
		opener, cancel := context.WithCancel(context.Background())
		opened := begin(opener)
		DeferCleanup(func() { cancel(); Eventually(opened).Should(Receive()) })
		Eventually(proxy.Connections).Should(Equal(1))
		ctx, end := limit()
		defer end()
		ended := make(chan error, 1)
		go func() { _, err := queue.Counts(ctx); ended <- err }()
		Eventually(ended, soon).Should(Receive(HaveOccurred()))
		Expect(opened).NotTo(Receive())
	},
		Entry("a deadline", func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(context.Background(), 100*time.Millisecond)
		}),
		Entry("a cancellation", func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(context.Background())
			time.AfterFunc(100*time.Millisecond, cancel)
			return ctx, cancel
		}),
	)
})
