package bullmq_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("Clearing a queue", func() {
	var (
		name    string
		queue   *bullmq.Queue
		fetcher *bullmq.Fetcher
		ctx     context.Context
		clock   time.Time
	)
	BeforeEach(func() {
		name, ctx, clock = newQueueName(), specContext(), time.UnixMilli(fixedNow)
		ticking := func() time.Time { return clock }
		queue = newQueue(name, &bullmq.QueueOptions{Now: ticking})
		fetcher = newFetcher(name, &bullmq.FetcherOptions{Now: ticking, MetricsPoints: 10})
	})
	add := func(id string, options bullmq.JobOptions) *bullmq.Job {
		GinkgoHelper()
		options.JobID = id
		job, err := queue.Add(ctx, "paint", nil, &options)
		Expect(err).NotTo(HaveOccurred())
		return job
	}
	complete := func(id string) {
		GinkgoHelper()
		add(id, bullmq.JobOptions{LIFO: true})
		endJob(fetcher, takeJob(fetcher), nil, nil)
	}
	fail := func(id string) {
		GinkgoHelper()
		add(id, bullmq.JobOptions{LIFO: true})
		endJob(fetcher, takeJob(fetcher), nil, errors.New("boom"))
	}
	lastEvent := func() string {
		GinkgoHelper()
		all := eventsOf(name)
		return all[len(all)-1]
	}

	Describe("by Clean", func() {
		for _, state := range []bullmq.State{bullmq.StateWaiting, "wait"} {
			It(fmt.Sprintf("removes waiting jobs, named %q, that are old enough, oldest first up to the limit", state), func() {
				for n := range 5 {
					add(fmt.Sprint("job-", n), bullmq.JobOptions{})
				}
				Expect(queue.Clean(ctx, &bullmq.CleanOptions{State: state, Grace: time.Minute})).To(BeEmpty())
				Expect(queue.Clean(ctx, &bullmq.CleanOptions{State: state, Limit: 2})).To(ConsistOf("job-0", "job-1"))
				Expect(lastEvent()).To(Equal("cleaned count=2"))
				Expect(queue.Clean(ctx, &bullmq.CleanOptions{State: state})).To(ConsistOf("job-2", "job-3", "job-4"))
				Expect(keysOf(name)).To(ConsistOf(keyOf(name, "meta"), keyOf(name, "id"), keyOf(name, "events"), keyOf(name, "marker")))
			})
		}

		It("removes finished jobs by the time when they finished", func() {
			complete("old")
			fail("old-failure")
			clock = clock.Add(time.Hour)
			complete("new")
			Expect(queue.Clean(ctx, &bullmq.CleanOptions{State: bullmq.StateCompleted, Grace: time.Minute})).To(Equal([]string{"old"}))
			Expect(queue.Clean(ctx, &bullmq.CleanOptions{State: bullmq.StateFailed, Grace: time.Minute})).To(Equal([]string{"old-failure"}))
			Expect(zsetAt(keyOf(name, "completed"))).To(Equal([]string{"new"}))
		})

		It("removes delayed and prioritized jobs by the time when they were added", func() {
			add("later", bullmq.JobOptions{Delay: 24 * time.Hour})
			add("ranked", bullmq.JobOptions{Priority: 1})
			clock = clock.Add(time.Hour)
			add("young", bullmq.JobOptions{Delay: time.Minute})
			Expect(queue.Clean(ctx, &bullmq.CleanOptions{State: bullmq.StateDelayed, Grace: time.Minute})).To(Equal([]string{"later"}))
			Expect(queue.Clean(ctx, &bullmq.CleanOptions{State: bullmq.StatePrioritized, Grace: time.Minute})).To(Equal([]string{"ranked"}))
		})

		It("leaves active jobs that a worker holds", func() {
			add("held", bullmq.JobOptions{})
			add("lost", bullmq.JobOptions{})
			takeJob(fetcher)
			takeJob(fetcher)
			redisDo("DEL", keyOf(name, "lost:lock"))
			Expect(queue.Clean(ctx, &bullmq.CleanOptions{State: bullmq.StateActive})).To(Equal([]string{"lost"}))
			Expect(listAt(keyOf(name, "active"))).To(Equal([]string{"held"}))
		})

		It("removes no more jobs than a limit that takes several calls", func() {
			redisDo("EVAL", `for from = 1, 20000, 1000 do
				local ids = {}
				for id = from, from + 999 do ids[#ids + 1] = id end
				redis.call('RPUSH', KEYS[1], unpack(ids))
			end`, "1", keyOf(name, "wait"))
			removed, err := queue.Clean(ctx, &bullmq.CleanOptions{State: bullmq.StateWaiting, Limit: 15000})
			Expect(err).NotTo(HaveOccurred())
			Expect(removed).To(HaveLen(15000))
			Expect(redisDo("LLEN", keyOf(name, "wait")).AsInt64()).To(BeEquivalentTo(5000))
		})

		It("refuses unknown states", func() {
			_, err := queue.Clean(ctx, &bullmq.CleanOptions{State: "done"})
			Expect(err).To(MatchError(And(ContainSubstring(`"done"`), ContainSubstring("completed"))))
		})
	})

	Describe("by Drain", func() {
		It("removes waiting jobs, delayed jobs on request, and leaves active and finished ones", func() {
			complete("done")
			add("running", bullmq.JobOptions{})
			takeJob(fetcher)
			add("waiting", bullmq.JobOptions{})
			add("ranked", bullmq.JobOptions{Priority: 1})
			add("later", bullmq.JobOptions{Delay: time.Hour})
			Expect(queue.Drain(ctx, nil)).To(Succeed())
			Expect(queue.Counts(ctx)).To(And(HaveKeyWithValue(bullmq.StateWaiting, BeZero()), HaveKeyWithValue(bullmq.StatePrioritized, BeZero()),
				HaveKeyWithValue(bullmq.StateDelayed, BeEquivalentTo(1)), HaveKeyWithValue(bullmq.StateActive, BeEquivalentTo(1)), HaveKeyWithValue(bullmq.StateCompleted, BeEquivalentTo(1))))
			Expect(keysOf(name)).NotTo(ContainElement(BeElementOf(keyOf(name, "waiting"), keyOf(name, "ranked"))))
			Expect(queue.Drain(ctx, &bullmq.DrainOptions{Delayed: true})).To(Succeed())
			Expect(keysOf(name)).NotTo(Or(ContainElement(keyOf(name, "delayed")), ContainElement(keyOf(name, "later"))))
		})
	})

	Describe("by Obliterate", func() {
		It("leaves no key behind: no scheduler, flow, metrics, lock or deduplication id", func() {
			complete("done")
			fail("broken")
			add("running", bullmq.JobOptions{})
			takeJob(fetcher)
			add("waiting", bullmq.JobOptions{Deduplication: &bullmq.Deduplication{ID: "d"}})
			add("ranked", bullmq.JobOptions{Priority: 1})
			add("later", bullmq.JobOptions{Delay: time.Hour})
			_, err := queue.AddJobLog(ctx, "waiting", "row", nil)
			Expect(err).NotTo(HaveOccurred())
			_, err = queue.UpsertScheduler(ctx, "daily", bullmq.Repeat{Every: time.Hour}, nil)
			Expect(err).NotTo(HaveOccurred())
			flows, err := bullmq.NewFlowProducer(ctx, &bullmq.FlowProducerOptions{Connection: connection()})
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(flows.Close)
			_, err = flows.Add(ctx, bullmq.Flow{Name: "wall", QueueName: name, Children: []bullmq.Flow{{Name: "brick", QueueName: name}}})
			Expect(err).NotTo(HaveOccurred())
			Expect(len(keysOf(name))).To(BeNumerically(">", 20))

			Expect(queue.Obliterate(ctx, nil)).To(MatchError(bullmq.ErrActiveJobs))
			Expect(queue.IsPaused(ctx)).To(BeTrue())
			Expect(keysOf(name)).To(ContainElement(keyOf(name, "waiting")))
			Expect(queue.Obliterate(ctx, &bullmq.ObliterateOptions{Force: true, Count: 2})).To(Succeed())
			Expect(keysOf(name)).To(BeEmpty())
		})
	})

	Describe("by removing a job", func() {
		It("reports once that it was removed, and from which state", func() {
			add("a", bullmq.JobOptions{})
			add("b", bullmq.JobOptions{Delay: time.Hour})
			Expect(queue.Remove(ctx, "a", nil)).To(Succeed())
			Expect(lastEvent()).To(Equal("removed jobId=a prev=wait"))
			Expect(queue.JobRef("b").Remove(ctx)).To(Succeed())
			Expect(lastEvent()).To(Equal("removed jobId=b prev=delayed"))
			Expect(keysOf(name)).NotTo(ContainElement(BeElementOf(keyOf(name, "a"), keyOf(name, "b"), keyOf(name, "wait"), keyOf(name, "delayed"))))
			count := len(eventsOf(name))
			Expect(queue.Remove(ctx, "a", nil)).To(MatchError(bullmq.ErrJobNotFound))
			Expect(queue.JobRef("b").Remove(ctx)).To(And(MatchError(bullmq.ErrJobNotFound), MatchError(ContainSubstring("remove job b of "+name))))
			Expect(eventsOf(name)).To(HaveLen(count))
		})

		It("leaves a job that a worker holds as it is", func() {
			add("a", bullmq.JobOptions{})
			job := takeJob(fetcher)
			before := snapshot(name)
			Expect(queue.Remove(ctx, "a", nil)).To(MatchError(bullmq.ErrJobLocked))
			Expect(job.Remove(ctx)).To(MatchError(bullmq.ErrJobLocked))
			Expect(snapshot(name)).To(Equal(before))
		})

		It("leaves the next job of a scheduler, and returns the remedy", func() {
			job, err := queue.UpsertScheduler(ctx, "daily", bullmq.Repeat{Every: time.Hour}, nil)
			Expect(err).NotTo(HaveOccurred())
			before := snapshot(name)
			err = queue.Remove(ctx, job.ID, nil)
			Expect(err).To(MatchError(bullmq.ErrSchedulerJob))
			Expect(err).To(MatchError(ContainSubstring("remove the scheduler instead")))
			Expect(snapshot(name)).To(Equal(before))
		})

		It("releases its deduplication id", func() {
			add("a", bullmq.JobOptions{Deduplication: &bullmq.Deduplication{ID: "d"}})
			Expect(queue.Remove(ctx, "a", nil)).To(Succeed())
			Expect(queue.DeduplicationJobID(ctx, "d")).Error().To(MatchError(bullmq.ErrDeduplicationNotFound))
		})
	})

	Describe("by moving a whole state to wait", func() {
		It("retries jobs that failed until a given time, in order of failure, page by page", func() {
			for n := range 5 {
				fail(fmt.Sprint("job-", n))
				clock = clock.Add(time.Second)
			}
			until := clock
			clock = clock.Add(time.Minute)
			fail("late")
			Expect(queue.RetryJobs(ctx, &bullmq.RetryJobsOptions{Until: until, Count: 2})).To(Succeed())
			Expect(zsetAt(keyOf(name, "failed"))).To(Equal([]string{"late"}))
			Expect(listAt(keyOf(name, "wait"))).To(Equal([]string{"job-4", "job-3", "job-2", "job-1", "job-0"}))
			Expect(hashAt(keyOf(name, "job-0"))).To(And(Not(HaveKey("failedReason")), Not(HaveKey("finishedOn"))))
			Expect(scoresAt(keyOf(name, "marker"))).To(HaveKey("0"))
			Expect(eventsOf(name)).To(ContainElement("waiting jobId=job-4 prev=failed"))
		})

		It("runs every retried job after a pause", func() {
			for n := range 3 {
				fail(fmt.Sprint("job-", n))
			}
			Expect(queue.Pause(ctx)).To(Succeed())
			Expect(queue.RetryJobs(ctx, nil)).To(Succeed())
			Expect(takeJob(fetcher)).To(BeNil())
			Expect(queue.Resume(ctx)).To(Succeed())
			for n := range 3 {
				Expect(takeJob(fetcher).ID).To(Equal(fmt.Sprint("job-", n)))
			}
		})

		It("runs completed jobs again", func() {
			complete("a")
			Expect(queue.RetryJobs(ctx, &bullmq.RetryJobsOptions{State: bullmq.StateCompleted})).To(Succeed())
			Expect(listAt(keyOf(name, "wait"))).To(Equal([]string{"a"}))
			Expect(hashAt(keyOf(name, "a"))).NotTo(HaveKey("returnvalue"))
		})

		It("keeps the attempts made, so that a job whose attempts are used up runs once more", func() {
			add("a", bullmq.JobOptions{Attempts: 2})
			for job := takeJob(fetcher); job != nil; job = takeJob(fetcher) {
				endJob(fetcher, job, nil, errors.New("boom"))
			}
			Expect(queue.RetryJobs(ctx, nil)).To(Succeed())
			Expect(hashAt(keyOf(name, "a"))).To(And(HaveKeyWithValue("atm", "2"), HaveKeyWithValue("ats", "2")))
			endJob(fetcher, takeJob(fetcher), nil, errors.New("boom"))
			Expect(queue.JobState(ctx, "a")).To(Equal(bullmq.StateFailed))
		})

		for version, dialect := range map[int]bullmq.Dialect{6: bullmq.V6, 5: bullmq.V5} {
			for _, reset := range []bullmq.RetryOptions{
				{}, {ResetAttemptsMade: true}, {ResetAttemptsStarted: true}, {ResetAttemptsMade: true, ResetAttemptsStarted: true},
			} {
				It(fmt.Sprintf("leaves each job as Job.Retry does with %+v, page by page, in the dialect of BullMQ %d", reset, version), func() {
					queue = newQueue(name, &bullmq.QueueOptions{Now: func() time.Time { return clock }, Dialect: dialect})
					jobs := func() (all []map[string]string) {
						GinkgoHelper()
						for n := range 5 {
							all = append(all, hashAt(keyOf(name, fmt.Sprint("job-", n))))
						}
						return all
					}
					for n := range 5 {
						fail(fmt.Sprint("job-", n))
					}
					Expect(queue.RetryJobs(ctx, &bullmq.RetryJobsOptions{
						Count: 2, ResetAttemptsMade: reset.ResetAttemptsMade, ResetAttemptsStarted: reset.ResetAttemptsStarted,
					})).To(Succeed())
					together := jobs()
					Expect(queue.Obliterate(ctx, &bullmq.ObliterateOptions{Force: true})).To(Succeed())
					Expect(queue.Resume(ctx)).To(Succeed())
					for n := range 5 {
						fail(fmt.Sprint("job-", n))
						Expect(queue.JobRef(fmt.Sprint("job-", n)).Retry(ctx, bullmq.StateFailed, &reset)).To(Succeed())
					}
					Expect(together).To(Equal(jobs()))
				})
			}
		}

		It("resets all attempts, of completed jobs too", func() {
			add("a", bullmq.JobOptions{Attempts: 2, LIFO: true})
			for job := takeJob(fetcher); job != nil; job = takeJob(fetcher) {
				endJob(fetcher, job, nil, errors.New("boom"))
			}
			Expect(queue.RetryJobs(ctx, &bullmq.RetryJobsOptions{ResetAttemptsMade: true})).To(Succeed())
			runs := 0
			for job := takeJob(fetcher); job != nil; job = takeJob(fetcher) {
				runs++
				endJob(fetcher, job, nil, errors.New("boom"))
			}
			Expect(runs).To(Equal(2))
			complete("b")
			Expect(queue.RetryJobs(ctx, &bullmq.RetryJobsOptions{State: bullmq.StateCompleted, ResetAttemptsMade: true, ResetAttemptsStarted: true})).To(Succeed())
			Expect(hashAt(keyOf(name, "b"))).To(And(Not(HaveKey("atm")), Not(HaveKey("ats"))))
		})

		It("promotes all delayed jobs", func() {
			for n := range 5 {
				add(fmt.Sprint("job-", n), bullmq.JobOptions{Delay: time.Duration(n+1) * time.Hour})
			}
			Expect(queue.PromoteJobs(ctx, &bullmq.PromoteJobsOptions{Count: 2})).To(Succeed())
			Expect(listAt(keyOf(name, "wait"))).To(HaveLen(5))
			Expect(zsetAt(keyOf(name, "delayed"))).To(BeEmpty())
		})

		It("refuses other states", func() {
			Expect(queue.RetryJobs(ctx, &bullmq.RetryJobsOptions{State: bullmq.StateWaiting})).To(MatchError(ContainSubstring(`"waiting"`)))
		})
	})

	Describe("of orphaned jobs", func() {
		It("finds their remains and removes them, and nothing else", func() {
			complete("done")
			add("waiting", bullmq.JobOptions{})
			add("later", bullmq.JobOptions{Delay: time.Hour})
			_, err := queue.UpsertScheduler(ctx, "daily", bullmq.Repeat{Every: time.Hour}, nil)
			Expect(err).NotTo(HaveOccurred())
			before := snapshot(name)
			redisDo("HSET", keyOf(name, "orphan"), "name", "paint")
			redisDo("RPUSH", keyOf(name, "logs-only:logs"), "row")
			Expect(queue.FindOrphanedJobs(ctx)).To(ConsistOf("orphan", "logs-only"))
			Expect(queue.RemoveOrphanedJobs(ctx, nil)).To(ConsistOf("orphan", "logs-only"))
			Expect(snapshot(name)).To(Equal(before))
		})

		It("removes as many as the limit, wherever they are among other jobs", func() {
			_, err := queue.AddBulk(ctx, make([]bullmq.BulkJob, 200))
			Expect(err).NotTo(HaveOccurred())
			orphans := []string{"one", "two", "three"}
			for _, orphan := range orphans {
				redisDo("HSET", keyOf(name, orphan), "name", "paint")
			}
			first, err := queue.RemoveOrphanedJobs(ctx, &bullmq.RemoveOrphanedJobsOptions{Limit: 1})
			Expect(err).NotTo(HaveOccurred())
			Expect(first).To(ConsistOf(BeElementOf(orphans)))
			rest, err := queue.RemoveOrphanedJobs(ctx, &bullmq.RemoveOrphanedJobsOptions{Limit: 5, Count: 10})
			Expect(err).NotTo(HaveOccurred())
			Expect(append(first, rest...)).To(ConsistOf(orphans))
			Expect(queue.Counts(ctx)).To(HaveKeyWithValue(bullmq.StateWaiting, 200))
		})
	})
})

var _ = Describe("RepairPaused", func() {
	var (
		name  string
		queue *bullmq.Queue
		ctx   context.Context
	)
	BeforeEach(func() {
		name, ctx = newQueueName(), specContext()
		queue = newQueue(name, nil)
	})
	add := func(options *bullmq.JobOptions) string {
		GinkgoHelper()
		job, err := queue.Add(ctx, "a", nil, options)
		Expect(err).NotTo(HaveOccurred())
		return job.ID
	}

	It("returns stranded jobs to the front, oldest first, publishes an event for each, and wakes a worker", func() {
		for range 3 {
			add(nil)
		}
		ranked := add(&bullmq.JobOptions{Priority: 4})
		redisDo("DEL", keyOf(name, "wait"), keyOf(name, "prioritized"), keyOf(name, "marker"))
		last := add(nil)
		done := add(nil)
		redisDo("HSET", keyOf(name, done), "finishedOn", "5")
		redisDo("LREM", keyOf(name, "wait"), "1", done)
		redisDo("HSET", keyOf(name, "remains"), "progress", "5")
		redisDo("DEL", keyOf(name, "marker"))

		Expect(queue.FindStrandedJobs(ctx)).To(Equal([]string{"1", "2", "3", ranked}))
		Expect(listAt(keyOf(name, "wait"))).To(Equal([]string{last}))
		Expect(queue.RepairPaused(ctx)).To(Equal([]string{"1", "2", "3", ranked}))
		Expect(listAt(keyOf(name, "wait"))).To(Equal([]string{last, "3", "2", "1"}))
		Expect(zsetAt(keyOf(name, "prioritized"))).To(Equal([]string{ranked}))
		Expect(zsetAt(keyOf(name, "marker"))).To(Equal([]string{"0"}))
		Expect(eventsOf(name)[len(eventsOf(name))-4:]).To(HaveEach(HavePrefix("waiting jobId=")))
		Expect(queue.RepairPaused(ctx)).To(BeEmpty())
	})

	It("moves jobs out of paused first if the queue is not paused, and leaves a paused queue alone", func() {
		add(nil)
		add(nil)
		redisDo("RENAME", keyOf(name, "wait"), keyOf(name, "paused"))
		add(nil)
		redisDo("HSET", keyOf(name, "meta"), "paused", "1")
		Expect(queue.RepairPaused(ctx)).To(BeEmpty())
		Expect(listAt(keyOf(name, "paused"))).To(Equal([]string{"2", "1"}))
		redisDo("HDEL", keyOf(name, "meta"), "paused")
		Expect(queue.RepairPaused(ctx)).To(BeEmpty())
		Expect(listAt(keyOf(name, "wait"))).To(Equal([]string{"3", "2", "1"}))
		Expect(redisDo("EXISTS", keyOf(name, "paused")).AsInt64()).To(BeZero())
	})

	It("saves jobs that BullMQ 5 would overwrite when it resumes", func() {
		add(nil)
		redisDo("HSET", keyOf(name, "meta"), "paused", "1")
		redisDo("LPUSH", keyOf(name, "paused"), "old")
		redisDo("HSET", keyOf(name, "old"), "name", "a", "data", "{}", "opts", "{}", "timestamp", "1")
		five := newQueue(name, &bullmq.QueueOptions{Dialect: bullmq.V5})
		Expect(five.RepairPaused(ctx)).To(BeEmpty())
		Expect(listAt(keyOf(name, "paused"))).To(Equal([]string{"1", "old"}))
		Expect(listAt(keyOf(name, "wait"))).To(BeEmpty())
	})

	It("wakes a worker for waiting jobs that no worker was woken for", func() {
		Expect(redisDo("LPUSH", keyOf(name, "wait"), "1").Error()).To(Succeed())
		Expect(newQueue(name, &bullmq.QueueOptions{Dialect: bullmq.V5}).RepairPaused(ctx)).To(BeEmpty())
		Expect(scoresAt(keyOf(name, "marker"))).To(HaveKey("0"))
	})

	It("joins long lists in order, as a pause and a resume do", func() {
		five := newQueue(name, &bullmq.QueueOptions{Dialect: bullmq.V5})
		var pushed []string
		push := func(suffix string, from, count int) {
			words := []string{"LPUSH", keyOf(name, suffix)}
			for n := range count {
				words = append(words, fmt.Sprint(from+n))
			}
			pushed = append(pushed, words[2:]...)
			Expect(redisDo(words...).Error()).To(Succeed())
		}
		// oldestFirst returns a list of jobs from the end at which workers fetch.
		oldestFirst := func(suffix string) []string {
			jobs := listAt(keyOf(name, suffix))
			slices.Reverse(jobs)
			return jobs
		}
		push("paused", 0, 15000)
		push("wait", 15000, 15000)
		Expect(five.Pause(ctx)).To(Succeed())
		Expect(oldestFirst("paused")).To(Equal(pushed))
		push("wait", 30000, 10)
		Expect(five.Resume(ctx)).To(Succeed())
		Expect(oldestFirst("wait")).To(Equal(pushed))
	})
})
