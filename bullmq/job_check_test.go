package bullmq_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("An option", func() {
	const part = 1500 * time.Microsecond

	// refused expects an error that names the option, and nothing in Redis.
	refused := func(name string, err error, hints []string) {
		GinkgoHelper()
		for _, hint := range append(hints, "bullmq: ", name) {
			Expect(err).To(MatchError(ContainSubstring(hint)))
		}
		Expect(keysOf(name)).To(BeEmpty())
	}

	DescribeTable("of a worker is refused if it is invalid:", func(options bullmq.WorkerOptions, hints ...string) {
		name := newQueueName()
		options.Connection = connection()
		_, err := bullmq.NewWorker(context.Background(), name, doNothing, &options)
		refused(name, err, hints)
	},
		Entry("Concurrency", bullmq.WorkerOptions{Concurrency: -1}, "Concurrency -1"),
		Entry("BatchSize", bullmq.WorkerOptions{BatchSize: -1}, "BatchSize -1"),
		Entry("BatchSize that is too large", bullmq.WorkerOptions{BatchSize: 1001}, "BatchSize 1001"),
		Entry("LockDuration", bullmq.WorkerOptions{LockDuration: -time.Second}, "LockDuration -1s"),
		Entry("LockDuration without a unit", bullmq.WorkerOptions{LockDuration: 30000}, "LockDuration 30µs", "500*time.Millisecond"),
		Entry("LockDuration with a fraction of a millisecond", bullmq.WorkerOptions{LockDuration: part}, "LockDuration 1.5ms", "whole number"),
		Entry("LockRenewTime", bullmq.WorkerOptions{LockRenewTime: -1}, "LockRenewTime"),
		Entry("LockRenewTime without a unit", bullmq.WorkerOptions{LockRenewTime: 15000}, "LockRenewTime 15µs", "500*time.Millisecond"),
		Entry("LockRenewTime beyond LockDuration", bullmq.WorkerOptions{LockRenewTime: time.Minute}, "LockRenewTime 1m0s", "LockDuration 30s"),
		Entry("StalledInterval", bullmq.WorkerOptions{StalledInterval: part}, "StalledInterval 1.5ms"),
		Entry("MaxStalledCount", bullmq.WorkerOptions{MaxStalledCount: -2}, "MaxStalledCount -2"),
		Entry("MaxStartedAttempts", bullmq.WorkerOptions{MaxStartedAttempts: -1}, "MaxStartedAttempts -1", "no bound"),
		Entry("DrainDelay", bullmq.WorkerOptions{DrainDelay: 5}, "DrainDelay 5ns", "500*time.Millisecond"),
		Entry("MaximumRateLimitDelay", bullmq.WorkerOptions{MaximumRateLimitDelay: -time.Second}, "MaximumRateLimitDelay -1s"),
		Entry("ShutdownTimeout", bullmq.WorkerOptions{ShutdownTimeout: 30}, "ShutdownTimeout 30ns"),
		Entry("KeepCompleted", bullmq.WorkerOptions{KeepCompleted: bullmq.KeepLast(-1)}, "KeepCompleted", "KeepAll()"),
		Entry("KeepFailed", bullmq.WorkerOptions{KeepFailed: bullmq.KeepFor(-time.Second)}, "KeepFailed", "-1s"),
		Entry("MetricsPoints", bullmq.WorkerOptions{MetricsPoints: -1}, "MetricsPoints -1"),
		Entry("Limiter without a number", bullmq.WorkerOptions{Limiter: &bullmq.Limiter{Duration: time.Second}}, "Limiter", "Max"),
		Entry("Limiter with a fraction of a millisecond", bullmq.WorkerOptions{Limiter: &bullmq.Limiter{Max: 1, Duration: part}}, "Limiter.Duration 1.5ms", "whole number"),
	)

	DescribeTable("of a queue is refused if it is invalid:", func(options bullmq.QueueOptions, hints ...string) {
		name := newQueueName()
		options.Connection = connection()
		_, err := bullmq.NewQueue(context.Background(), name, &options)
		refused(name, err, hints)
	},
		Entry("AddWait", bullmq.QueueOptions{AddWait: -time.Second}, "AddWait -1s", "less than 0"),
		Entry("AddWait without a unit", bullmq.QueueOptions{AddWait: 500}, "AddWait 500ns", "500*time.Millisecond"),
		Entry("MaxEvents", bullmq.QueueOptions{MaxEvents: -2}, "MaxEvents -2", "NoEvents"),
		Entry("BatchSize", bullmq.QueueOptions{BatchSize: 1001}, "BatchSize 1001"),
	)

	DescribeTable("of an event reader is refused if it is invalid:", func(options bullmq.QueueEventsOptions, hints ...string) {
		name := newQueueName()
		options.Connection = connection()
		_, err := bullmq.NewQueueEvents(context.Background(), name, &options)
		refused(name, err, hints)
	},
		Entry("BlockingTimeout", bullmq.QueueEventsOptions{BlockingTimeout: 500}, "BlockingTimeout 500ns", "500*time.Millisecond"),
		Entry("BlockingTimeout with a fraction of a millisecond", bullmq.QueueEventsOptions{BlockingTimeout: part}, "BlockingTimeout 1.5ms", "whole number"),
		Entry("LastEventID", bullmq.QueueEventsOptions{LastEventID: "-1"}, "LastEventID", `"-1"`),
	)

	DescribeTable("of a scheduler is refused if it is invalid:", func(repeat bullmq.Repeat, template bullmq.JobTemplate, hints ...string) {
		name := newQueueName()
		queue := newQueue(name, &bullmq.QueueOptions{SkipMetaUpdate: true})
		_, err := queue.UpsertScheduler(specContext(), "tick", repeat, &template)
		refused(name, err, append(hints, `"tick"`))
	},
		Entry("Every", bullmq.Repeat{Every: 500}, bullmq.JobTemplate{}, "Every", "500ns"),
		Entry("Every with a fraction of a millisecond", bullmq.Repeat{Every: part}, bullmq.JobTemplate{}, "Every 1.5ms", "whole number"),
		Entry("Offset", bullmq.Repeat{Every: time.Second, Offset: 500}, bullmq.JobTemplate{}, "Offset 500ns", "500*time.Millisecond"),
		Entry("Limit", bullmq.Repeat{Every: time.Second, Limit: -1}, bullmq.JobTemplate{}, "Limit -1", "no limit"),
		Entry("an option of its jobs", bullmq.Repeat{Every: time.Second}, bullmq.JobTemplate{Options: &bullmq.JobOptions{Attempts: -1}}, "Attempts -1"),
	)

	DescribeTable("of a call is refused if it is invalid:", func(call func(context.Context, *bullmq.Queue, *bullmq.Job) error, hints ...string) {
		name := newQueueName()
		queue := newQueue(name, nil)
		job, err := queue.Add(specContext(), "paint", nil, &bullmq.JobOptions{Delay: time.Hour})
		Expect(err).NotTo(HaveOccurred())
		before := snapshot(name)
		err = call(specContext(), queue, job)
		for _, hint := range append(hints, "bullmq: ") {
			Expect(err).To(MatchError(ContainSubstring(hint)))
		}
		Expect(snapshot(name)).To(Equal(before))
	},
		Entry("ChangeDelay without a unit", func(ctx context.Context, _ *bullmq.Queue, job *bullmq.Job) error {
			return job.ChangeDelay(ctx, 500)
		}, "job 1", "delay 500ns", "500*time.Millisecond"),
		Entry("ChangePriority below 0", func(ctx context.Context, _ *bullmq.Queue, job *bullmq.Job) error {
			return job.ChangePriority(ctx, -1, nil)
		}, "job 1", "priority -1", "0 means none"),
		Entry("ChangePriority above the highest", func(ctx context.Context, _ *bullmq.Queue, job *bullmq.Job) error {
			return job.ChangePriority(ctx, 2097152, nil)
		}, "job 1", "2097152", "2097151"),
		Entry("ExtendLock with zero", func(ctx context.Context, _ *bullmq.Queue, job *bullmq.Job) error {
			_, err := job.WithToken("token").ExtendLock(ctx, 0)
			return err
		}, "job 1", "duration 0s"),
		Entry("ExtendLock without a unit", func(ctx context.Context, _ *bullmq.Queue, job *bullmq.Job) error {
			_, err := job.WithToken("token").ExtendLock(ctx, 30000)
			return err
		}, "job 1", "duration 30µs", "500*time.Millisecond"),
		Entry("ClearLogs", func(ctx context.Context, _ *bullmq.Queue, job *bullmq.Job) error {
			return job.ClearLogs(ctx, &bullmq.ClearLogsOptions{Keep: -1})
		}, "job 1", "Keep -1"),
		Entry("AddJobLog", func(ctx context.Context, queue *bullmq.Queue, job *bullmq.Job) error {
			_, err := queue.AddJobLog(ctx, job.ID, "row", &bullmq.LogOptions{Keep: -1})
			return err
		}, "job 1", "Keep -1"),
		Entry("Clean of jobs in the future", func(ctx context.Context, queue *bullmq.Queue, _ *bullmq.Job) error {
			_, err := queue.Clean(ctx, &bullmq.CleanOptions{State: bullmq.StateDelayed, Grace: -time.Hour})
			return err
		}, "Grace -1h"),
		Entry("Clean with a negative limit", func(ctx context.Context, queue *bullmq.Queue, _ *bullmq.Job) error {
			_, err := queue.Clean(ctx, &bullmq.CleanOptions{State: bullmq.StateDelayed, Limit: -1})
			return err
		}, "Limit -1", "0 means all"),
		Entry("Obliterate", func(ctx context.Context, queue *bullmq.Queue, _ *bullmq.Job) error {
			return queue.Obliterate(ctx, &bullmq.ObliterateOptions{Count: -1})
		}, "Count -1"),
		Entry("RetryJobs", func(ctx context.Context, queue *bullmq.Queue, _ *bullmq.Job) error {
			return queue.RetryJobs(ctx, &bullmq.RetryJobsOptions{Count: -1})
		}, "Count -1"),
		Entry("PromoteJobs", func(ctx context.Context, queue *bullmq.Queue, _ *bullmq.Job) error {
			return queue.PromoteJobs(ctx, &bullmq.PromoteJobsOptions{Count: -1})
		}, "Count -1"),
		Entry("RemoveOrphanedJobs", func(ctx context.Context, queue *bullmq.Queue, _ *bullmq.Job) error {
			_, err := queue.RemoveOrphanedJobs(ctx, &bullmq.RemoveOrphanedJobsOptions{Limit: -1})
			return err
		}, "Limit -1"),
		Entry("TrimEvents", func(ctx context.Context, queue *bullmq.Queue, _ *bullmq.Job) error {
			_, err := queue.TrimEvents(ctx, -1)
			return err
		}, "max -1"),
		Entry("Publish", func(ctx context.Context, queue *bullmq.Queue, _ *bullmq.Job) error {
			_, err := queue.Publish(ctx, "mine", &bullmq.PublishOptions{MaxEvents: -2})
			return err
		}, "keep -2 events"),
		Entry("RateLimit", func(ctx context.Context, queue *bullmq.Queue, _ *bullmq.Job) error {
			return queue.RateLimit(ctx, -time.Second)
		}, "-1s"),
		Entry("RateLimitTTL", func(ctx context.Context, queue *bullmq.Queue, _ *bullmq.Job) error {
			_, err := queue.RateLimitTTL(ctx, -1)
			return err
		}, "max -1"),
		Entry("SetGlobalConcurrency", func(ctx context.Context, queue *bullmq.Queue, _ *bullmq.Job) error {
			return queue.SetGlobalConcurrency(ctx, -1)
		}, "-1"),
		Entry("SetGlobalRateLimit", func(ctx context.Context, queue *bullmq.Queue, _ *bullmq.Job) error {
			return queue.SetGlobalRateLimit(ctx, bullmq.Limiter{Max: 1, Duration: part})
		}, "Limiter.Duration 1.5ms"),
		Entry("DependencyPage", func(ctx context.Context, _ *bullmq.Queue, job *bullmq.Job) error {
			_, err := job.DependencyPage(ctx, bullmq.DependencyQuery{Failed: &bullmq.DependencyCursor{Count: -1}})
			return err
		}, "Failed.Count -1"),
		Entry("Flow", func(ctx context.Context, queue *bullmq.Queue, job *bullmq.Job) error {
			flows, err := bullmq.NewFlowProducer(ctx, &bullmq.FlowProducerOptions{Connection: connection()})
			Expect(err).NotTo(HaveOccurred())
			defer flows.Close()
			_, err = flows.Flow(ctx, bullmq.FlowQuery{QueueName: queue.Name(), ID: job.ID, MaxChildren: -1})
			return err
		}, "MaxChildren -1"),
	)
})
