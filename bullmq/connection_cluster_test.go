package bullmq_test

import (
	"errors"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("On a cluster", Label("slow"), func() {
	It("every call uses keys of a single slot", func() {
		link, name, ctx := clustered(), newQueueName(), specContext()
		queue := newQueue(name, &bullmq.QueueOptions{Connection: link, Prefix: "{bull}"})
		fetcher := newFetcher(name, &bullmq.FetcherOptions{Connection: link, Prefix: "{bull}", Limiter: &bullmq.Limiter{Max: 100, Duration: time.Second}})
		flows, err := bullmq.NewFlowProducer(ctx, &bullmq.FlowProducerOptions{Connection: link, Prefix: "{bull}"})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(flows.Close)

		// works checks a call's error and ignores its result.
		works := func(answers ...any) {
			GinkgoHelper()
			if err, failed := answers[len(answers)-1].(error); failed {
				Expect(err).NotTo(HaveOccurred())
			}
		}
		add := func(options *bullmq.JobOptions) *bullmq.Job {
			GinkgoHelper()
			job, err := queue.Add(ctx, "paint", nil, options)
			Expect(err).NotTo(HaveOccurred())
			return job
		}
		take := func() *bullmq.Job {
			GinkgoHelper()
			job, err := fetcher.TryFetch(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(job).NotTo(BeNil())
			return job
		}

		By("adding and running")
		add(nil)
		works(fetcher.Complete(ctx, take(), "done"))
		add(&bullmq.JobOptions{Attempts: 2})
		works(fetcher.Fail(ctx, take(), errors.New("boom")))
		failed := take()
		works(fetcher.Fail(ctx, failed, bullmq.Unrecoverable(errors.New("boom"))))
		works(queue.AddBulk(ctx, []bullmq.BulkJob{{Name: "a"}, {Name: "b"}, {Name: "c", Options: &bullmq.JobOptions{Priority: 3}}, {Name: "d", Options: &bullmq.JobOptions{Delay: time.Hour}}}))
		running := take()
		works(running.ExtendLock(ctx, time.Minute))
		works(fetcher.ExtendLocks(ctx, []*bullmq.Job{running}, time.Minute))
		works(running.UpdateProgress(ctx, 50))
		works(running.UpdateData(ctx, 1))
		works(running.Log(ctx, "row"))
		works(queue.UpdateJobProgress(ctx, running.ID, 60))
		works(queue.AddJobLog(ctx, running.ID, "row", &bullmq.LogOptions{Keep: 5}))
		works(running.State(ctx))
		works(queue.JobLogs(ctx, running.ID, bullmq.Page{Limit: -1, Ascending: true}))
		works(running.ClearLogs(ctx, nil))
		works(running.MoveToWait(ctx))
		works(take().MoveToDelayed(ctx, time.Now().Add(time.Hour)))
		works(fetcher.CheckStalled(ctx))
		add(&bullmq.JobOptions{LIFO: true, KeepCompleted: bullmq.KeepWithin(bullmq.RetentionLimits{Age: time.Hour, Count: 1}), Deduplication: &bullmq.Deduplication{ID: "k", KeepLastIfActive: true}})
		kept := take()
		add(&bullmq.JobOptions{Deduplication: &bullmq.Deduplication{ID: "k", KeepLastIfActive: true}})
		works(fetcher.CompleteAndFetch(ctx, kept, "done"))

		By("looking")
		works(queue.Counts(ctx))
		works(queue.Count(ctx))
		works(queue.CountsPerPriority(ctx, 0, 3))
		works(queue.CountDelayedBefore(ctx, time.Now()))
		works(queue.Ages(ctx))
		works(queue.Jobs(ctx, bullmq.Page{Limit: 1}, bullmq.StateWaiting, bullmq.StatePrioritized, bullmq.StateFailed))
		works(queue.JobIDs(ctx, bullmq.Page{Limit: 1}, bullmq.StateWaiting))
		works(queue.JobState(ctx, failed.ID))
		works(queue.Metrics(ctx, bullmq.StateCompleted, bullmq.Page{Limit: -1}))
		works(queue.RecordCounts(ctx))
		works(queue.Job(ctx, failed.ID))
		works(fetcher.Job(ctx, failed.ID))
		works(queue.PrometheusMetrics(ctx, nil))
		works(queue.Meta(ctx))
		works(queue.ConnectedWorkers(ctx))
		works(queue.ConnectedReaders(ctx))
		works(queue.FindOrphanedJobs(ctx))
		works(queue.FindStrandedJobs(ctx))

		By("administering")
		works(queue.Pause(ctx))
		works(queue.IsPaused(ctx))
		works(queue.RepairPaused(ctx))
		works(queue.Resume(ctx))
		works(queue.SetGlobalConcurrency(ctx, 5))
		works(queue.IsMaxed(ctx))
		works(queue.GlobalConcurrency(ctx))
		works(queue.RemoveGlobalConcurrency(ctx))
		works(queue.SetGlobalRateLimit(ctx, bullmq.Limiter{Max: 5, Duration: time.Second}))
		works(queue.GlobalRateLimit(ctx))
		works(queue.RemoveGlobalRateLimit(ctx))
		works(queue.RateLimit(ctx, time.Minute))
		works(fetcher.RateLimit(ctx, time.Minute))
		works(queue.RateLimitTTL(ctx, 5))
		works(queue.RemoveRateLimitKey(ctx))
		works(failed.Retry(ctx, bullmq.StateFailed, nil))
		works(queue.RetryJobs(ctx, nil))
		works(queue.PromoteJobs(ctx, nil))
		delayed := add(&bullmq.JobOptions{Delay: time.Hour, Deduplication: &bullmq.Deduplication{ID: "d"}})
		works(delayed.ChangeDelay(ctx, time.Minute))
		works(queue.DeduplicationJobID(ctx, "d"))
		works(queue.RemoveDeduplicationKey(ctx, "d"))
		works(delayed.Promote(ctx))
		works(delayed.ChangePriority(ctx, 4, nil))
		works(queue.Remove(ctx, delayed.ID, nil))
		works(add(&bullmq.JobOptions{Deduplication: &bullmq.Deduplication{ID: "e"}}).RemoveDeduplicationKey(ctx))
		works(add(nil).Remove(ctx))
		works(queue.Cancel(ctx, add(&bullmq.JobOptions{Delay: time.Hour}).ID, "void"))
		works(queue.JobAndState(ctx, running.ID))
		add(nil)
		held := take()
		Expect(queue.Cancel(ctx, held.ID, "void")).To(Equal(bullmq.CancelRunning))
		works(fetcher.Fail(ctx, held, bullmq.Unrecoverable(errors.New("void"))))
		for _, err := range queue.WatchJob(ctx, running.ID) {
			works(err)
			break
		}
		works(queue.RemoveDeprecatedPriorityKey(ctx))
		works(queue.Publish(ctx, "dried", nil, "colour", "red"))
		works(queue.TrimEvents(ctx, 10))
		works(queue.Clean(ctx, &bullmq.CleanOptions{State: bullmq.StateCompleted, Limit: 10}))
		works(queue.RemoveOrphanedJobs(ctx, &bullmq.RemoveOrphanedJobsOptions{Count: 100}))
		works(queue.Drain(ctx, &bullmq.DrainOptions{Delayed: true}))

		By("flows and schedulers")
		root, err := flows.Add(ctx, bullmq.Flow{QueueName: name, Name: "wall", Children: []bullmq.Flow{{QueueName: "bricks", Name: "brick"}, {QueueName: name, Name: "brick"}}})
		Expect(err).NotTo(HaveOccurred())
		works(flows.Flow(ctx, bullmq.FlowQuery{QueueName: name, ID: root.Job.ID}))
		works(root.Job.Dependencies(ctx))
		works(root.Job.DependencyCounts(ctx))
		works(queue.PendingChildren(ctx, root.Job.ID, bullmq.Page{Limit: 11}))
		works(queue.ProcessedChildren(ctx, root.Job.ID, bullmq.Page{Limit: 11}))
		works(fetcher.Complete(ctx, take(), "red"))
		works(root.Job.ChildrenValues(ctx))
		works(root.Children[0].Job.RemoveChildDependency(ctx))
		works(root.Job.RemoveUnprocessedChildren(ctx))
		works(root.Job.IgnoredChildrenFailures(ctx))
		works(root.Job.DependencyPage(ctx, bullmq.DependencyQuery{Processed: &bullmq.DependencyCursor{}, Unprocessed: &bullmq.DependencyCursor{}}))
		for _, rule := range []bullmq.JobOptions{{OnFailure: bullmq.FailParent}, {OnFailure: bullmq.ContinueParent}, {OnFailure: bullmq.IgnoreDependency}, {OnFailure: bullmq.RemoveDependency}} {
			rule.Priority = 1
			works(queue.Drain(ctx, &bullmq.DrainOptions{Delayed: true}))
			roots, err := flows.AddBulk(ctx, []bullmq.Flow{{QueueName: "bricks", Name: "wall", Children: []bullmq.Flow{{QueueName: name, Name: "brick", Options: &rule}}}})
			Expect(err).NotTo(HaveOccurred())
			works(fetcher.Fail(ctx, take(), errors.New("boom")))
			Expect(roots[0].Job.State(ctx)).To(Equal(bullmq.StateWaiting))
		}
		add(nil)
		step := take()
		child := add(&bullmq.JobOptions{Parent: &bullmq.ParentRef{ID: step.ID, QueueKey: "{bull}:" + name}, Delay: time.Hour})
		works(step.MoveToWaitingChild(ctx, child.Key()))
		works(child.Promote(ctx))
		works(fetcher.Complete(ctx, take(), "red"))
		works(take().MoveToWaitingChildren(ctx))
		works(queue.UpsertScheduler(ctx, "daily", bullmq.Repeat{Every: time.Hour}, nil))
		works(queue.Scheduler(ctx, "daily"))
		works(queue.Schedulers(ctx, bullmq.Page{Limit: 1}))
		works(queue.CountSchedulers(ctx))
		works(queue.RemoveScheduler(ctx, "daily"))

		works(queue.RemoveRateLimitKey(ctx)) // the worker's rate limit window expires by itself
		for _, emptied := range []string{name, "bricks"} {
			works(newQueue(emptied, &bullmq.QueueOptions{Connection: link, Prefix: "{bull}"}).Obliterate(ctx, &bullmq.ObliterateOptions{Force: true}))
			Expect(onCluster("KEYS", "{bull}:"+emptied+":*").AsStrSlice()).To(BeEmpty())
		}
	})
})
