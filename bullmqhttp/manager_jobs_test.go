package bullmqhttp_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmqhttp"
)

// clock is a clock that a spec moves.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// set sets the clock to a duration before or after the present time.
func (c *clock) set(ahead time.Duration) { c.ahead.Store(int64(ahead)) }

// idsOf returns the ids of jobs, in their order.
func idsOf(jobs []*bullmqhttp.JobInfo) []string {
	ids := []string{}
	for _, job := range jobs {
		ids = append(ids, job.ID)
	}
	return ids
}

// succeed claims the next job and completes it.
func (m *managed) succeed(worker string) *bullmqhttp.JobInfo {
	GinkgoHelper()
	job, err := m.m.Succeed(context.Background(), m.claim(worker), nil)
	Expect(err).NotTo(HaveOccurred())
	return job
}

// fail claims the next job and ends its attempt.
func (m *managed) fail(worker string, failure bullmqhttp.Failure) *bullmqhttp.JobInfo {
	GinkgoHelper()
	job, err := m.m.Fail(context.Background(), m.claim(worker), failure)
	Expect(err).NotTo(HaveOccurred())
	return job
}

var _ = Describe("A job that is submitted to a manager", func() {
	ctx := context.Background()

	DescribeTable("is refused, and not added, if it", func(name string, data any, o bullmq.JobOptions, reason error, detail string) {
		m := manage(bullmqhttp.ManagerOptions{})
		_, err := m.m.Submit(ctx, name, data, &o)
		Expect(err).To(MatchError(reason))
		Expect(err).To(MatchError(ContainSubstring(detail)))
		Expect(err.Error()).To(HavePrefix("bullmqhttp: 400 Bad Request: "))
		Expect(m.jobs()).To(BeZero())
	},
		Entry("has no name", "", 1, bullmq.JobOptions{}, bullmqhttp.ErrInvalidJob, "no name"),
		Entry("has data that JSON can't hold", "report", math.NaN(), bullmq.JobOptions{}, bullmqhttp.ErrInvalidJob, "NaN"),
		Entry("has less than 0 attempts", "report", 1, bullmq.JobOptions{Attempts: -1}, bullmqhttp.ErrInvalidJob, "Attempts"),
		Entry("has a priority that BullMQ does not know", "report", 1, bullmq.JobOptions{Priority: 1 << 30}, bullmqhttp.ErrInvalidJob, "priority"),
		Entry("has a delay of less than a millisecond", "report", 1, bullmq.JobOptions{Delay: time.Microsecond}, bullmqhttp.ErrInvalidJob, "milliseconds"),
		Entry("has a parent that does not exist", "report", 1,
			bullmq.JobOptions{Parent: &bullmq.ParentRef{ID: "none", QueueKey: "bull:none"}}, bullmqhttp.ErrInvalidJob, "parent"),
		Entry("has a number as id", "report", 1, bullmq.JobOptions{JobID: "7"}, bullmqhttp.ErrInvalidJobID, "whole numbers"),
		Entry("has a colon in its id", "report", 1, bullmq.JobOptions{JobID: "a:b"}, bullmqhttp.ErrInvalidJobID, "colon"),
		Entry("has a control character in its id", "report", 1, bullmq.JobOptions{JobID: "a\nb"}, bullmqhttp.ErrInvalidJobID, "control"),
		Entry("has an id of more than 1,000 bytes", "report", 1, bullmq.JobOptions{JobID: strings.Repeat("x", 1001)}, bullmqhttp.ErrInvalidJobID, "1000 bytes"),
	)

	It("is refused if a job has its id", func() {
		m := manage(bullmqhttp.ManagerOptions{})
		first := m.add(1, &bullmq.JobOptions{JobID: "invoice-7"})
		Expect(first.ID).To(Equal("invoice-7"))
		_, err := m.m.Submit(ctx, "report", 2, &bullmq.JobOptions{JobID: "invoice-7"})
		Expect(err).To(MatchError(bullmqhttp.ErrJobExists))
		var p *bullmqhttp.Problem
		Expect(errors.As(err, &p)).To(BeTrue())
		Expect(p.JobID).To(Equal("invoice-7"))
		Expect(string(m.get("invoice-7").Data)).To(Equal("1"))
		Expect(m.jobs()).To(Equal(1))
	})

	It("is the job that has its deduplication id", func() {
		m := manage(bullmqhttp.ManagerOptions{})
		o := &bullmq.JobOptions{Deduplication: &bullmq.Deduplication{ID: "nightly"}}
		first := m.add(1, o)
		m.claim("anna")
		second := m.add(2, o)
		Expect(second).To(Equal(m.get(first.ID)))
		Expect(second.State).To(Equal(bullmqhttp.Running))
		Expect(m.jobs()).To(Equal(1))
	})

	It("has the errors of its code only", func() {
		m := manage(bullmqhttp.ManagerOptions{})
		_, err := m.m.Get(ctx, "none")
		Expect(err).To(MatchError(bullmqhttp.ErrJobNotFound))
		Expect(errors.Is(err, bullmqhttp.ErrWrongStatus)).To(BeFalse())
		Expect(errors.Is(err, err)).To(BeTrue())
		other := &bullmqhttp.Problem{Status: 404, Code: bullmqhttp.CodeJobNotFound}
		Expect(errors.Is(err, other)).To(BeFalse())
		for _, id := range []string{"", "a\x00b", strings.Repeat("x", 1001)} {
			_, err := m.m.Get(ctx, id)
			for _, err := range []error{err, m.m.Cancel(ctx, id, ""), m.m.Remove(ctx, id)} {
				Expect(err).To(MatchError(bullmqhttp.ErrInvalidJobID))
			}
		}
	})

	It("is not completed before its children, and not after one has failed it", func() {
		m := manage(bullmqhttp.ManagerOptions{})
		parent := m.add("parent", nil)
		claim := m.claim("anna")
		child := m.add("child", &bullmq.JobOptions{
			Parent: &bullmq.ParentRef{ID: parent.ID, QueueKey: "bull:" + m.queue.Name()}, OnFailure: bullmq.FailParent,
		})
		_, err := m.m.Succeed(ctx, claim, nil)
		Expect(err).To(And(MatchError(bullmqhttp.ErrPendingChildren), MatchError(bullmq.ErrPendingChildren)))
		Expect(m.get(parent.ID).State).To(Equal(bullmqhttp.Running))
		Expect(m.fail("berta", bullmqhttp.Failure{Reason: "no", Permanent: true}).ID).To(Equal(child.ID))
		_, err = m.m.Succeed(ctx, claim, nil)
		Expect(err).To(And(MatchError(bullmqhttp.ErrFailedChildren), MatchError(bullmq.ErrFailedChildren)))
		job, err := m.m.Fail(ctx, claim, bullmqhttp.Failure{Reason: "a child has failed", Permanent: true})
		Expect(err).NotTo(HaveOccurred())
		Expect(job.State).To(Equal(bullmqhttp.Failed))
	})
})

var _ = Describe("The scheduled jobs of a manager", func() {
	ctx := context.Background()

	It("are due when their time has come, the earliest first, and can then be started", func() {
		var c clock
		m := manage(bullmqhttp.ManagerOptions{Fetcher: bullmq.FetcherOptions{Now: c.now}})
		late := m.add("late", &bullmq.JobOptions{Delay: 2 * time.Hour})
		early := m.add("early", &bullmq.JobOptions{Delay: time.Hour})
		retried := m.add("retried", &bullmq.JobOptions{Attempts: 2})
		failed := m.fail("anna", bullmqhttp.Failure{Reason: "busy", RetryAfter: 90 * time.Minute})
		Expect(failed.ID).To(Equal(retried.ID))
		m.add("never", &bullmq.JobOptions{Delay: 100 * time.Hour})

		Expect(m.m.Due(ctx, 10)).To(BeEmpty())
		Expect(m.m.StartDue(ctx, 10)).To(BeEmpty())
		c.set(3 * time.Hour)
		due, err := m.m.Due(ctx, 10)
		Expect(err).NotTo(HaveOccurred())
		Expect(idsOf(due)).To(Equal([]string{early.ID, retried.ID, late.ID}))
		Expect([]bullmqhttp.State{due[0].State, due[1].State}).To(Equal([]bullmqhttp.State{bullmqhttp.Scheduled, bullmqhttp.Retrying}))
		Expect(due[0].Due).To(Equal(early.Created.Add(time.Hour)))
		Expect(due[1].Due).To(BeZero())

		Expect(m.m.StartDue(ctx, 2)).To(Equal([]string{early.ID, retried.ID}))
		Expect(m.get(early.ID).State).To(Equal(bullmqhttp.Queued))
		Expect(m.get(retried.ID).State).To(Equal(bullmqhttp.Retrying))
		due, err = m.m.Due(ctx, 10)
		Expect(err).NotTo(HaveOccurred())
		Expect(idsOf(due)).To(Equal([]string{late.ID}))
		for range 3 {
			m.succeed("anna") // the third one without StartDue
		}
		Expect(m.get(late.ID).State).To(Equal(bullmqhttp.Succeeded))
		m.none("anna")
	})

	It("are never due later than the time that a failed attempt returns", func() {
		m := manage(bullmqhttp.ManagerOptions{})
		for range 20 {
			m.add(1, &bullmq.JobOptions{Attempts: 2, Backoff: bullmq.FixedBackoff(time.Hour)})
			job := m.fail("anna", bullmqhttp.Failure{Reason: "busy"})
			Expect(m.queue.CountDelayedBefore(ctx, job.Due.Add(-time.Millisecond))).To(BeZero())
			Expect(m.m.Remove(ctx, job.ID)).To(Succeed())
		}
	})

	It("start early if a strategy says so", func() {
		m := manage(bullmqhttp.ManagerOptions{Schedule: bullmqhttp.DueWithin(150 * time.Minute)})
		var ids []string
		for hour := range 4 {
			ids = append(ids, m.add(hour, &bullmq.JobOptions{Delay: time.Duration(hour+1) * time.Hour}).ID)
		}
		due, err := m.m.Due(ctx, 1)
		Expect(err).NotTo(HaveOccurred())
		Expect(idsOf(due)).To(Equal(ids[:1]))
		Expect(m.m.StartDue(ctx, 10)).To(Equal(ids[:2]))
		Expect(m.m.StartDue(ctx, 10)).To(BeEmpty())
		Expect(m.claim("anna").JobID).To(Equal(ids[0]))
	})

	It("are selected by a strategy of the program", func() {
		var extra *bullmq.Job
		failure := error(nil)
		m := manage(bullmqhttp.ManagerOptions{Schedule: func(ctx context.Context, queue *bullmq.Queue, now time.Time, most int) ([]*bullmq.Job, error) {
			Expect(now).To(BeTemporally("~", time.Now(), 15*time.Second))
			Expect(most).To(Equal(5))
			if failure != nil {
				return nil, failure
			}
			jobs, err := queue.Jobs(ctx, bullmq.AllEntries(), bullmq.StateDelayed)
			var urgent []*bullmq.Job
			for _, job := range append(jobs, extra) {
				if job != nil && strings.Contains(string(job.Data), "urgent") {
					urgent = append(urgent, job)
				}
			}
			return urgent, err
		}})
		m.add("slow", &bullmq.JobOptions{Delay: time.Minute})
		urgent := m.add("urgent", &bullmq.JobOptions{Delay: time.Hour})
		running := m.add("urgent too", nil)
		m.claim("anna")
		extra, _ = m.queue.Job(ctx, running.ID) // a job that is no longer delayed is passed over
		Expect(m.m.StartDue(ctx, 5)).To(Equal([]string{urgent.ID}))
		Expect(m.m.Remove(ctx, urgent.ID)).To(Succeed())
		extra.ID = urgent.ID // and so is one that is removed
		Expect(m.m.StartDue(ctx, 5)).To(BeEmpty())

		failure = errors.New("no calendar")
		_, err := m.m.Due(ctx, 5)
		Expect(err).To(And(MatchError(bullmqhttp.ErrUnavailable), MatchError(failure)))
		failure = &bullmqhttp.Problem{Status: 423, Code: "HOLIDAY"}
		_, err = m.m.StartDue(ctx, 5)
		Expect(err).To(Equal(failure))
		_, err = m.m.Due(ctx, 0)
		Expect(err).To(MatchError(bullmqhttp.ErrInvalidRequest))
	})
})

var _ = Describe("A retry strategy", func() {
	DescribeTable("that is exponential waits", func(base time.Duration, attempt int, wait time.Duration) {
		got, retry := bullmqhttp.ExponentialRetry(base)(attempt, nil, nil)
		Expect(retry).To(BeTrue())
		Expect(got).To(Equal(wait))
	},
		Entry("twice its base after the first attempt", time.Second, 1, 2*time.Second),
		Entry("four times its base after the second one", time.Second, 2, 4*time.Second),
		Entry("eight times its base after the third one", time.Second, 3, 8*time.Second),
		Entry("at most a year", time.Hour, 14, 365*24*time.Hour),
		Entry("at most a year after many attempts", time.Nanosecond, 1000, 365*24*time.Hour),
		Entry("not at all with a base of 0", time.Duration(0), 1000, time.Duration(0)),
	)

	It("that waits for 0 seconds retries a job at once", func() {
		m := manage(bullmqhttp.ManagerOptions{Retry: func(int, *bullmq.Job, error) (time.Duration, bool) { return 0, true }})
		m.add(1, &bullmq.JobOptions{Attempts: 3, Backoff: bullmq.FixedBackoff(time.Hour)})
		job := m.fail("anna", bullmqhttp.Failure{Reason: "busy"})
		Expect(job.State).To(Equal(bullmqhttp.Retrying))
		Expect(job.Due).To(BeZero())
		Expect(m.claim("anna").Job.Attempts).To(Equal(1))
	})

	It("is not asked about the last attempt, or if the worker has decided", func() {
		asked := 0
		m := manage(bullmqhttp.ManagerOptions{Retry: func(int, *bullmq.Job, error) (time.Duration, bool) { asked++; return time.Hour, true }})
		m.add(1, &bullmq.JobOptions{Attempts: 1})
		Expect(m.fail("anna", bullmqhttp.Failure{Reason: "busy"}).State).To(Equal(bullmqhttp.Failed))
		m.add(1, nil)
		Expect(m.fail("anna", bullmqhttp.Failure{Reason: "busy", Permanent: true}).State).To(Equal(bullmqhttp.Failed))
		m.add(1, nil)
		Expect(m.fail("anna", bullmqhttp.Failure{Reason: "busy", RetryAfter: time.Minute}).State).To(Equal(bullmqhttp.Retrying))
		Expect(asked).To(BeZero())
	})

	It("of the fetcher knows a custom backoff, and without one such a job fails", func() {
		o := &bullmq.JobOptions{Attempts: 3, Backoff: bullmq.CustomBackoff("by the moon")}
		m := manage(bullmqhttp.ManagerOptions{})
		m.add(1, o)
		job := m.fail("anna", bullmqhttp.Failure{Reason: "busy"})
		Expect([]any{job.State, job.Error}).To(Equal([]any{bullmqhttp.Failed, "busy"}))
		m = manage(bullmqhttp.ManagerOptions{Fetcher: bullmq.FetcherOptions{BackoffStrategy: func(_ int, kind string, _ error, _ *bullmq.Job) time.Duration {
			Expect(kind).To(Equal("by the moon"))
			return time.Hour
		}}})
		m.add(1, o)
		job = m.fail("anna", bullmqhttp.Failure{Reason: "busy"})
		Expect(job.State).To(Equal(bullmqhttp.Retrying))
		Expect(job.Due).To(BeTemporally("~", time.Now().Add(time.Hour), time.Minute))
	})

	It("gives way to the function of the fetcher if there is none", func() {
		m := manage(bullmqhttp.ManagerOptions{Fetcher: bullmq.FetcherOptions{Classify: func(err error, _ *bullmq.Job) bullmq.Verdict {
			if err.Error() == "hopeless" {
				return bullmq.Permanent()
			}
			return bullmq.Transient()
		}}})
		m.add(1, nil)
		Expect(m.fail("anna", bullmqhttp.Failure{Reason: "hopeless"}).State).To(Equal(bullmqhttp.Failed))
		m.add(1, nil)
		Expect(m.fail("anna", bullmqhttp.Failure{Reason: "busy"}).State).To(Equal(bullmqhttp.Retrying))
	})
})

var _ = Describe("The jobs of a manager", func() {
	ctx := context.Background()

	// fill adds jobs in all states, and returns their ids. No two of them end in the same millisecond.
	fill := func(m *managed, c *clock) map[string]string {
		GinkgoHelper()
		ids := map[string]string{}
		ids["succeeded"] = m.add(1, nil).ID
		m.succeed("anna")
		for _, name := range []string{"failed", "failed later"} {
			ids[name] = m.add(1, nil).ID
			m.fail("anna", bullmqhttp.Failure{Reason: "no", Permanent: true})
			c.ahead.Add(int64(time.Second))
		}
		ids["cancelled"] = m.add(1, nil).ID
		Expect(m.m.Cancel(ctx, ids["cancelled"], "")).To(Succeed())
		m.none("anna")
		ids["running"] = m.add(1, nil).ID
		m.claim("anna")
		ids["retrying"] = m.add(1, nil).ID
		m.fail("anna", bullmqhttp.Failure{Reason: "busy", RetryAfter: time.Hour})
		ids["scheduled"] = m.add(1, &bullmq.JobOptions{Delay: 2 * time.Hour}).ID
		ids["prioritized"] = m.add(1, &bullmq.JobOptions{Priority: 3}).ID
		ids["waiting"] = m.add(1, nil).ID
		ids["waiting later"] = m.add(1, nil).ID
		return ids
	}

	for name, dialect := range map[string]bullmq.Dialect{"BullMQ 6": bullmq.V6, "BullMQ 5": bullmq.V5} {
		It("are counted and listed by their state, also while the queue is paused, in a queue of "+name, func() {
			var c clock
			m := manage(bullmqhttp.ManagerOptions{Fetcher: bullmq.FetcherOptions{Dialect: dialect, Now: c.now}})
			ids := fill(m, &c)
			for _, paused := range []bool{false, true} {
				if paused {
					Expect(m.queue.Pause(ctx)).To(Succeed())
				}
				Expect(m.m.Stats(ctx)).To(Equal(bullmqhttp.Stats{
					Queued: 3, Scheduled: 2, Running: 1, Completed: 1, Failed: 2, Cancelled: 1, Examined: 3,
				}))
				for state, names := range map[bullmqhttp.State][]string{
					bullmqhttp.Queued: {"waiting", "waiting later", "prioritized"}, bullmqhttp.Scheduled: {"retrying", "scheduled"},
					bullmqhttp.Running: {"running"}, bullmqhttp.Succeeded: {"succeeded"}, bullmqhttp.Failed: {"cancelled", "failed later", "failed"},
				} {
					var wanted []string
					for _, name := range names {
						wanted = append(wanted, ids[name])
					}
					for limit := 1; limit <= len(names)+1; limit++ {
						jobs, err := m.m.List(ctx, state, limit)
						Expect(err).NotTo(HaveOccurred())
						Expect(idsOf(jobs)).To(Equal(wanted[:min(limit, len(wanted))]), fmt.Sprint(state, limit))
						for _, job := range jobs {
							Expect(job).To(Equal(m.get(job.ID)))
						}
					}
				}
				Expect(m.get(ids["cancelled"]).State).To(Equal(bullmqhttp.Cancelled))
				Expect(m.get(ids["retrying"]).State).To(Equal(bullmqhttp.Retrying))
			}
		})
	}

	It("that were cancelled are counted among the newest failed ones", func() {
		var c clock
		m := manage(bullmqhttp.ManagerOptions{ExamineFailed: 1, Fetcher: bullmq.FetcherOptions{Now: c.now}})
		fill(m, &c) // the cancelled job is the newest one
		stats, err := m.m.Stats(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect([]int{stats.Failed, stats.Cancelled, stats.Examined}).To(Equal([]int{2, 1, 1}))
		c.ahead.Add(int64(time.Second))
		m.fail("anna", bullmqhttp.Failure{Reason: "no", Permanent: true})
		stats, err = m.m.Stats(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect([]int{stats.Failed, stats.Cancelled, stats.Examined}).To(Equal([]int{4, 0, 1}))
		none := manageAs(m.queue.Name(), bullmqhttp.ManagerOptions{ExamineFailed: -1})
		stats, err = none.m.Stats(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect([]int{stats.Failed, stats.Cancelled, stats.Examined}).To(Equal([]int{4, 0, 0}))
	})

	It("can't be listed by another state, or up to less than one", func() {
		m := manage(bullmqhttp.ManagerOptions{})
		for _, state := range []bullmqhttp.State{"", "delayed", bullmqhttp.Retrying, bullmqhttp.Cancelled} {
			_, err := m.m.List(ctx, state, 1)
			Expect(err).To(MatchError(bullmqhttp.ErrInvalidRequest))
		}
		_, err := m.m.List(ctx, bullmqhttp.Queued, 0)
		Expect(err).To(MatchError(bullmqhttp.ErrInvalidRequest))
		_, err = m.m.StaleClaims(ctx, -1)
		Expect(err).To(MatchError(bullmqhttp.ErrInvalidRequest))
		Expect(m.m.List(ctx, bullmqhttp.Queued, 1)).To(BeEmpty())
	})

	It("are cleaned up by the age since their end", func() {
		var c clock
		c.set(-2 * time.Hour)
		m := manage(bullmqhttp.ManagerOptions{Fetcher: bullmq.FetcherOptions{Now: c.now}})
		var old, recent []string
		for _, ids := range []*[]string{&old, &recent} {
			*ids = append(*ids, m.add(1, nil).ID)
			m.succeed("anna")
			*ids = append(*ids, m.add(1, nil).ID)
			m.fail("anna", bullmqhttp.Failure{Reason: "no", Permanent: true})
			*ids = append(*ids, m.add(1, nil).ID)
			Expect(m.m.Cancel(ctx, (*ids)[2], "")).To(Succeed())
			m.none("anna")
			c.set(0)
		}
		m.add(1, nil)

		Expect(m.m.CleanUp(ctx, bullmqhttp.Succeeded, 3*time.Hour)).To(BeZero())
		Expect(m.m.CleanUp(ctx, bullmqhttp.Succeeded, time.Hour)).To(Equal(1))
		Expect(m.m.CleanUp(ctx, bullmqhttp.Failed, 3*time.Hour)).To(BeZero())
		Expect(m.m.CleanUp(ctx, bullmqhttp.Failed, time.Hour)).To(Equal(2))
		for _, id := range old {
			_, err := m.m.Get(ctx, id)
			Expect(err).To(MatchError(bullmqhttp.ErrJobNotFound))
		}
		for _, id := range recent {
			Expect(m.get(id).State.Ended()).To(BeTrue())
		}
		c.set(time.Second)
		Expect(m.m.CleanUp(ctx, bullmqhttp.Succeeded, 0)).To(Equal(1))
		Expect(m.m.CleanUp(ctx, bullmqhttp.Failed, 0)).To(Equal(2))
		Expect(m.jobs()).To(Equal(1))
		for _, state := range []bullmqhttp.State{"", bullmqhttp.Queued, bullmqhttp.Running, bullmqhttp.Cancelled} {
			_, err := m.m.CleanUp(ctx, state, 0)
			Expect(err).To(MatchError(bullmqhttp.ErrInvalidRequest))
		}
		_, err := m.m.CleanUp(ctx, bullmqhttp.Failed, -time.Second)
		Expect(err).To(MatchError(bullmqhttp.ErrInvalidRequest))
	})

	It("whose data is not JSON are shown with it as text, and fail when they are claimed", func() {
		m := manage(bullmqhttp.ManagerOptions{})
		job := m.add(1, nil)
		command(redis, "EVAL", "redis.call('HSET', KEYS[1], 'data', '{') return 'done'", "1", "bull:"+m.queue.Name()+":"+job.ID)
		Expect(string(m.get(job.ID).Data)).To(Equal(`"{"`))
		next := m.add(2, nil)
		Expect(m.claim("anna").JobID).To(Equal(next.ID))
		Expect(m.get(job.ID).State).To(Equal(bullmqhttp.Failed))
		Expect(m.get(job.ID).Error).To(ContainSubstring("not JSON"))
	})

	It("fail when they have started more often than the fetcher allows", func() {
		m := manage(bullmqhttp.ManagerOptions{Fetcher: bullmq.FetcherOptions{MaxStartedAttempts: 2}})
		job := m.add(1, nil)
		for range 2 {
			Expect(m.m.Release(ctx, m.claim("anna"), 0)).To(Succeed())
		}
		m.none("anna")
		Expect(m.get(job.ID).State).To(Equal(bullmqhttp.Failed))
		Expect(m.get(job.ID).Error).To(Equal("job started more than allowable limit"))
	})
})
