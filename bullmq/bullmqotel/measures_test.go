package bullmqotel_test

import (
	"context"
	"errors"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/rueidis"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmq/bullmqotel"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

var _ = Describe("A Telemetry that only measures", func() {
	It("leaves no trace in jobs, however they are added, tried again or scheduled", func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		DeferCleanup(cancel)
		const name = "paints"
		server, err := redisserver.Start(redisserver.Options{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(server.Close)
		connection, err := bullmq.Connect(ctx, server.URL())
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(connection.Close)
		telemetry := bullmqotel.New(&bullmqotel.Options{
			MeterProvider: metric.NewMeterProvider(), Propagator: propagation.NewCompositeTextMapPropagator(),
		})
		queue, err := bullmq.NewQueue(ctx, name, &bullmq.QueueOptions{Connection: connection, Telemetry: telemetry})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(queue.Close)
		flows, err := bullmq.NewFlowProducer(ctx, &bullmq.FlowProducerOptions{Connection: connection, Telemetry: telemetry})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(flows.Close)

		added, err := queue.Add(ctx, "paint", nil, &bullmq.JobOptions{Attempts: 2, Backoff: bullmq.FixedBackoff(time.Hour)})
		Expect(err).NotTo(HaveOccurred())
		bulk, err := queue.AddBulk(ctx, []bullmq.BulkJob{{Name: "paint", Options: &bullmq.JobOptions{Telemetry: &bullmq.JobTelemetry{OmitContext: true}}}})
		Expect(err).NotTo(HaveOccurred())
		flow, err := flows.Add(ctx, bullmq.Flow{Name: "wall", QueueName: name, Options: &bullmq.JobOptions{JobID: "wall"}})
		Expect(err).NotTo(HaveOccurred())
		run, err := queue.UpsertScheduler(ctx, "tick", bullmq.Repeat{Every: time.Hour}, &bullmq.JobTemplate{Name: "paint"})
		Expect(err).NotTo(HaveOccurred())

		worker, err := bullmq.NewWorker(ctx, name, func(context.Context, *bullmq.Job) (any, error) {
			return nil, errors.New("no paint")
		}, &bullmq.WorkerOptions{Connection: connection, Telemetry: telemetry})
		Expect(err).NotTo(HaveOccurred())
		ended := make(chan error, 1)
		go func() { ended <- worker.Run(ctx) }()
		DeferCleanup(func() {
			Expect(worker.Close()).To(Succeed())
			Expect(<-ended).To(Succeed())
		})
		state := func(id string) func() (bullmq.State, error) {
			return func() (bullmq.State, error) { return queue.JobState(ctx, id) }
		}
		Eventually(state(run.ID), "5s").Should(Equal(bullmq.StateFailed))
		Eventually(state(added.ID), "5s").Should(Equal(bullmq.StateDelayed))
		client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true, ForceSingleClient: true})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(client.Close)
		jobs, err := queue.Jobs(ctx, bullmq.AllEntries())
		Expect(err).NotTo(HaveOccurred())
		Expect(jobs).To(HaveLen(5), "with the scheduler's next one")
		for _, job := range jobs {
			Expect(client.Do(ctx, client.B().Hexists().Key(job.Key()).Field("tm").Build()).AsInt64()).To(BeZero(), job.ID)
			Expect(string(job.RawOptions)).NotTo(ContainSubstring(`"tm"`), job.ID)
		}
		Expect(bulk[0].RawOptions).To(MatchJSON(`{"attempts":0,"omc":true}`))
		Expect(flow.Job.RawOptions).To(MatchJSON(`{"attempts":0,"jobId":"wall"}`))
	})
})
