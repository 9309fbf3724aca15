// Package prometheus_test checks the output of PrometheusMetrics with Prometheus' own parser. It is a
// separate module, so that the SDK does not depend on the parser.
package prometheus_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
	"github.com/17a2ac88/bullmq-go/internal/testkit/suite"
)

func TestPrometheus(t *testing.T) {
	RegisterFailHandler(Fail)
	suite.RunWhole(t, "Prometheus")
}

var redis *redisserver.Server

var _ = BeforeSuite(func() {
	var err error
	redis, err = redisserver.Start(redisserver.Options{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(redis.Close)
})

var _ = Describe("PrometheusMetrics", func() {
	var ctx context.Context
	BeforeEach(func() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.Background(), 20*time.Second)
		DeferCleanup(cancel)
	})
	newQueue := func(name string) *bullmq.Queue {
		GinkgoHelper()
		queue, err := bullmq.NewQueue(ctx, name, &bullmq.QueueOptions{URL: redis.URL()})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(queue.Close)
		return queue
	}
	// parsed returns the values by metric name and labels.
	parsed := func(text string) map[string]float64 {
		GinkgoHelper()
		Expect(text).To(HaveSuffix("\n"))
		parser := expfmt.NewTextParser(model.LegacyValidation)
		families, err := parser.TextToMetricFamilies(strings.NewReader(text))
		Expect(err).NotTo(HaveOccurred())
		values := map[string]float64{}
		for name, family := range families {
			for _, metric := range family.GetMetric() {
				labels := model.Metric{model.MetricNameLabel: model.LabelValue(name)}
				for _, label := range metric.GetLabel() {
					labels[model.LabelName(label.GetName())] = model.LabelValue(label.GetValue())
				}
				Expect(values).NotTo(HaveKey(labels.String()))
				values[labels.String()] = metric.GetGauge().GetValue() + metric.GetCounter().GetValue()
			}
		}
		return values
	}

	It("is parsed by Prometheus' own parser for one queue and for several", func() {
		orders, mails := newQueue("orders"), newQueue("mails")
		for n := range 3 {
			_, err := orders.Add(ctx, "paint", n, nil)
			Expect(err).NotTo(HaveOccurred())
		}
		_, err := mails.Add(ctx, "send", nil, &bullmq.JobOptions{Delay: time.Hour})
		Expect(err).NotTo(HaveOccurred())
		fetcher, err := bullmq.NewFetcher(ctx, "orders", &bullmq.FetcherOptions{URL: redis.URL(), MetricsPoints: 10})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(fetcher.Close)
		job, err := fetcher.TryFetch(ctx)
		Expect(err).NotTo(HaveOccurred())
		err = fetcher.Complete(ctx, job, 1)
		Expect(err).NotTo(HaveOccurred())
		job, err = fetcher.TryFetch(ctx)
		Expect(err).NotTo(HaveOccurred())
		err = fetcher.Fail(ctx, job, errors.New("no"))
		Expect(err).NotTo(HaveOccurred())

		text, err := orders.PrometheusMetrics(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		one := parsed(text)
		Expect(one).To(And(
			HaveKeyWithValue(`bullmq_job_count{queue="orders", state="waiting"}`, 1.0),
			HaveKeyWithValue(`bullmq_job_count{queue="orders", state="failed"}`, 1.0),
			HaveKeyWithValue(`bullmq_job_completed_total{queue="orders"}`, 1.0),
			HaveKeyWithValue(`bullmq_job_failed_total{queue="orders"}`, 1.0),
		))

		text, err = bullmq.PrometheusMetrics(ctx, nil, orders, mails)
		Expect(err).NotTo(HaveOccurred())
		several := parsed(text)
		Expect(several).To(HaveLen(2 * len(one)))
		Expect(several).To(And(
			HaveKeyWithValue(`bullmq_job_count{queue="orders", state="waiting"}`, 1.0),
			HaveKeyWithValue(`bullmq_job_count{queue="mails", state="delayed"}`, 1.0),
			HaveKeyWithValue(`bullmq_job_completed_total{queue="mails"}`, 0.0),
		))
	})

	It("keeps queue names and label values unchanged", func() {
		name, zone := "a \"quoted\" \\ name\nof é {queue=\"x\"} 1\r", "x\ny \\n \"z\",\t# TYPE"
		text, err := newQueue(name).PrometheusMetrics(ctx, map[string]string{"zone": zone, "_a1": "\xff!", "le": ""})
		Expect(err).NotTo(HaveOccurred())
		Expect(parsed(text)).To(HaveKey(model.Metric{
			model.MetricNameLabel: "bullmq_job_failed_total", "queue": model.LabelValue(name), "zone": model.LabelValue(zone), "_a1": "\uFFFD!", "le": "",
		}.String()))
	})
})
