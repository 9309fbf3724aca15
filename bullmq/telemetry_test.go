package bullmq_test

import (
	"context"
	"errors"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmq/bullmqotel"
)

var _ = Describe("A Telemetry that only measures", func() {
	It("leaves no trace in jobs, however they are added, tried again or scheduled", func() {
		ctx, name := specContext(), newQueueName()
		telemetry := bullmqotel.New(&bullmqotel.Options{
			MeterProvider: metric.NewMeterProvider(), Propagator: propagation.NewCompositeTextMapPropagator(),
		})
		queue := newQueue(name, &bullmq.QueueOptions{Telemetry: telemetry})
		flows, err := bullmq.NewFlowProducer(ctx, &bullmq.FlowOptions{Connection: connection(), Telemetry: telemetry})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(flows.Close)

		added, err := queue.Add(ctx, "paint", nil, &bullmq.JobOptions{Attempts: 2, Backoff: bullmq.Fixed(time.Hour)})
		Expect(err).NotTo(HaveOccurred())
		bulk, err := queue.AddBulk(ctx, []bullmq.BulkJob{{Name: "paint", Options: &bullmq.JobOptions{Telemetry: &bullmq.JobTelemetry{OmitContext: true}}}})
		Expect(err).NotTo(HaveOccurred())
		flow, err := flows.Add(ctx, bullmq.Flow{Name: "wall", Queue: name, Options: &bullmq.JobOptions{JobID: "wall"}})
		Expect(err).NotTo(HaveOccurred())
		run, err := queue.UpsertScheduler(ctx, "tick", bullmq.Repeat{Every: time.Hour}, &bullmq.Template{Name: "paint"})
		Expect(err).NotTo(HaveOccurred())

		runWorker(name, func(context.Context, *bullmq.Job) (any, error) {
			return nil, errors.New("no paint")
		}, &bullmq.WorkerOptions{Telemetry: telemetry})
		Eventually(stateOf(queue, run.ID)).Should(Equal(bullmq.Failed))
		Eventually(stateOf(queue, added.ID)).Should(Equal(bullmq.Delayed))
		jobs, err := queue.Jobs(ctx, bullmq.All())
		Expect(err).NotTo(HaveOccurred())
		Expect(jobs).To(HaveLen(5), "with the scheduler's next one")
		for _, job := range jobs {
			Expect(hashAt(job.Key())).NotTo(HaveKey("tm"), job.ID)
			Expect(string(job.RawOpts)).NotTo(ContainSubstring(`"tm"`), job.ID)
		}
		Expect(bulk[0].RawOpts).To(MatchJSON(`{"attempts":0,"omc":true}`))
		Expect(flow.Job.RawOpts).To(MatchJSON(`{"attempts":0,"jobId":"wall"}`))
	})
})
