package bullmqprom_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmqprom"
)

var _ = Describe("A collector of queues", func() {
	It("reads the figures of all its queues from Redis", func() {
		_, connection := startRedis()
		now := time.Now()
		orders := newQueue("orders", bullmq.QueueOptions{Connection: connection, Now: func() time.Time { return now }})
		mails := newQueue("mails", bullmq.QueueOptions{Connection: connection})
		ctx := specContext()
		for range 2 {
			_, err := orders.Add(ctx, "pack", nil, nil)
			Expect(err).NotTo(HaveOccurred())
		}
		_, err := orders.Add(ctx, "pack", nil, &bullmq.JobOptions{Priority: 3})
		Expect(err).NotTo(HaveOccurred())
		_, err = mails.UpsertScheduler(ctx, "daily", bullmq.Repeat{Every: 24 * time.Hour}, &bullmq.JobTemplate{Name: "send"})
		Expect(err).NotTo(HaveOccurred())
		Expect(mails.SetGlobalConcurrency(ctx, 4)).To(Succeed())
		Expect(mails.Pause(ctx)).To(Succeed())
		now = now.Add(time.Minute)

		values := gathered(bullmqprom.NewQueues(nil, orders, mails))
		for sample, want := range map[string]float64{
			"bullmq_up{orders}":                                   1,
			"bullmq_up{mails}":                                    1,
			"bullmq_job_count{orders,waiting}":                    2,
			"bullmq_job_count{orders,prioritized}":                1,
			"bullmq_job_count{mails,waiting}":                     1,
			"bullmq_queue_oldest_job_seconds{orders,waiting}":     60,
			"bullmq_queue_oldest_job_seconds{orders,prioritized}": 60,
			"bullmq_queue_oldest_job_seconds{orders,active}":      0,
			"bullmq_queue_oldest_job_seconds{orders,delayed}":     0,
			"bullmq_queue_paused{orders}":                         0,
			"bullmq_queue_paused{mails}":                          1,
			"bullmq_queue_workers{orders}":                        0,
			"bullmq_queue_schedulers{orders}":                     0,
			"bullmq_queue_schedulers{mails}":                      1,
			"bullmq_queue_rate_limited_seconds{mails}":            0,
			"bullmq_queue_concurrency_limit{mails}":               4,
		} {
			Expect(values).To(HaveKeyWithValue(sample, BeNumerically("~", want, 0.01)), sample)
		}
		Expect(values).NotTo(HaveKey("bullmq_queue_concurrency_limit{orders}"))
		Expect(values).NotTo(HaveKey("bullmq_job_completed_total{orders}"), "without MetricsPoints")
		problems, err := testutil.CollectAndLint(bullmqprom.NewQueues(nil, orders, mails))
		Expect(err).NotTo(HaveOccurred())
		Expect(problems).To(HaveLen(1))
		Expect(problems[0].Metric).To(Equal("bullmq_job_count"), "whose name is that of BullMQ")
	})

	It("exports the counters of workers with MetricsPoints and the number of workers", func() {
		_, connection := startRedis()
		queue := newQueue("orders", bullmq.QueueOptions{Connection: connection})
		runWorker(queue.Name(), func(context.Context, *bullmq.Job) (any, error) { return nil, nil }, bullmq.WorkerOptions{Connection: connection, MetricsPoints: 10})
		job, err := queue.Add(specContext(), "pack", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		_, err = queue.WaitForJob(specContext(), job.ID)
		Expect(err).NotTo(HaveOccurred())
		values := func() map[string]float64 { return gathered(bullmqprom.NewQueues(nil, queue)) }
		Eventually(values).Should(HaveKeyWithValue("bullmq_queue_workers{orders}", 1.0))
		Expect(values()).To(HaveKeyWithValue("bullmq_job_completed_total{orders}", 1.0))
		Expect(values()).NotTo(HaveKey("bullmq_job_failed_total{orders}"))
	})

	It("exports the ready jobs of routes that no worker serves", func() {
		_, connection := startRedis()
		queue := newQueue("orders", bullmq.QueueOptions{Connection: connection})
		values := func() map[string]float64 { return gathered(bullmqprom.NewQueues(nil, queue)) }
		Expect(values()).NotTo(HaveKey(HavePrefix("bullmq_route")))
		for _, capability := range []string{"gpu", "gpu", "ocr"} {
			_, err := queue.Add(specContext(), "pack", nil, &bullmq.JobOptions{Target: &bullmq.Target{Capabilities: []string{capability}}})
			Expect(err).NotTo(HaveOccurred())
		}
		Expect(values()).To(And(
			HaveKeyWithValue("bullmq_route_unserved_jobs{orders,orders@gpu}", 2.0), HaveKeyWithValue("bullmq_route_unserved_jobs{orders,orders@ocr}", 1.0)))
		runWorker("orders@gpu", func(context.Context, *bullmq.Job) (any, error) { return nil, nil }, bullmq.WorkerOptions{Connection: connection})
		Eventually(values).ShouldNot(HaveKey("bullmq_route_unserved_jobs{orders,orders@gpu}"))
	})
	It("reads once a second, however often it is scraped", func() {
		_, connection := startRedis()
		queue := newQueue("orders", bullmq.QueueOptions{Connection: connection})
		// On a busy machine the second may be over before the next scrape.
		for jobs := 0.0; ; jobs++ {
			collector, begun := bullmqprom.NewQueues(nil, queue), time.Now()
			Expect(gathered(collector)).To(HaveKeyWithValue("bullmq_job_count{orders,waiting}", jobs))
			_, err := queue.Add(specContext(), "pack", nil, nil)
			Expect(err).NotTo(HaveOccurred())
			soon := gathered(collector)
			if time.Since(begun) > time.Second {
				continue
			}
			Expect(soon).To(HaveKeyWithValue("bullmq_job_count{orders,waiting}", jobs))
			Eventually(func() map[string]float64 { return gathered(collector) }).
				Should(HaveKeyWithValue("bullmq_job_count{orders,waiting}", jobs+1))
			return
		}
	})

	It("exports bullmq_up 0 and no old values while Redis does not reply, within its timeout", func() {
		server, connection := startRedis()
		queue := newQueue("orders", bullmq.QueueOptions{Connection: connection})
		collector := bullmqprom.NewQueues(&bullmqprom.QueuesOptions{Timeout: 500 * time.Millisecond}, queue)
		Expect(gathered(collector)).To(HaveKeyWithValue("bullmq_up{orders}", 1.0))
		Expect(server.Freeze()).To(Succeed())
		quickest := time.Hour // of some: a busy machine may hold one up
		for range 3 {
			time.Sleep(time.Second) // the age of the values
			begun := time.Now()
			Expect(gathered(collector)).To(Equal(map[string]float64{"bullmq_up{orders}": 0}))
			quickest = min(quickest, time.Since(begun))
		}
		Expect(quickest).To(BeNumerically("<", 2*time.Second))
		Expect(server.Thaw()).To(Succeed())
		Eventually(func() map[string]float64 { return gathered(collector) }).Should(HaveKeyWithValue("bullmq_up{orders}", 1.0))
	})

	It("distinguishes queues with the same name by constant labels", func() {
		_, connection := startRedis()
		first := newQueue("orders", bullmq.QueueOptions{Connection: connection})
		second := newQueue("orders", bullmq.QueueOptions{Connection: connection, Prefix: "shop"})
		Expect(func() { bullmqprom.NewQueues(nil, first, second) }).To(PanicWith(ContainSubstring("two queues are named orders")))
		registry := prometheus.NewPedanticRegistry()
		Expect(registry.Register(bullmqprom.NewQueues(&bullmqprom.QueuesOptions{ConstLabels: prometheus.Labels{"prefix": "bull"}}, first))).To(Succeed())
		Expect(registry.Register(bullmqprom.NewQueues(&bullmqprom.QueuesOptions{ConstLabels: prometheus.Labels{"prefix": "shop"}}, second))).To(Succeed())
		_, err := registry.Gather()
		Expect(err).NotTo(HaveOccurred())
	})
})
