package backendtest

import (
	"slices"
	"time"

	"github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

func (s *suite) fetching() {
	ginkgo.Describe("A fetch", func() {
		ginkgo.It("returns the job as it is stored, with what its start has changed", func() {
			ids := s.add(plain("paint"))
			taken := s.take(now)
			Expect(taken.Job).To(Equal(s.record(ids[0])))
			Expect(taken.Job.Name).To(Equal("paint"))
			Expect(string(taken.Job.Data)).To(Equal(data))
			Expect(taken.Job.Opts).To(Equal(`{"attempts":2}`))
			Expect(taken.Job.Timestamp).To(BeTemporally("==", now))
			Expect(taken.Job.ProcessedOn).To(BeTemporally("==", now))
			Expect(taken.Job.AttemptsStarted).To(Equal(1))
			Expect(taken.Job.ProcessedBy).To(Equal("worker"))
		})

		ginkgo.It("returns a job of any kind as it is stored", func() {
			s.add(delayed("later", time.Second), prioritized("ranked", 3), named("parent"), named("retried"))
			s.add(s.childOf("parent", "child"))
			for _, want := range []string{"parent", "retried", "child", "ranked"} {
				taken := s.take(now)
				Expect(taken.Job).To(Equal(s.record(want)))
				Expect(taken.Job.ID).To(Equal(want))
			}
			Expect(s.Store.RetryJob(s.ctx, backend.Retry{
				JobID: "retried", Token: token, Now: now, Failure: backend.FailedAttempt{Reason: "boom", StackTrace: `["line"]`},
			})).To(Succeed())
			for _, want := range []string{"retried", "later"} {
				taken := s.take(now.Add(time.Second))
				Expect(taken.Job).To(Equal(s.record(want)))
				Expect(taken.Job.ID).To(Equal(want))
			}
			Expect(s.record("retried").AttemptsStarted).To(Equal(2))
			Expect(s.record("ranked").Priority).To(Equal(3))
		})

		ginkgo.It("of several jobs locks each with its own token, in their order", func() {
			s.add(named("a"), named("b"))
			taken, err := s.Store.MoveToActive(s.ctx, now, worker, "t1", "t2", "t3")
			Expect(err).NotTo(HaveOccurred())
			Expect([]string{idOf(taken[0]), idOf(taken[1]), idOf(taken[2])}).To(Equal([]string{"a", "b", ""}))
			Expect(s.Store.ExtendLocks(s.ctx, []backend.Lock{{JobID: "a", Token: "t1"}, {JobID: "b", Token: "t2"}}, lockTime)).To(HaveField("Lost", BeEmpty()))
			Expect(s.Store.ExtendLock(s.ctx, backend.Lock{JobID: "a", Token: "t2"}, lockTime)).To(BeFalse())
			Expect(taken[2].Unknown).To(BeTrue(), "a later job may be ready")
		})

		ginkgo.It("of an empty queue knows that there is none", func() {
			Expect(s.take(now)).To(Equal(backend.Fetched{}))
		})

		ginkgo.It("returns when the first delayed job is due", func() {
			s.add(delayed("later", time.Minute), delayed("sooner", time.Second))
			taken := s.take(now)
			Expect(taken.Job).To(BeNil())
			Expect(taken.NextDue).To(BeTemporally("==", now.Add(time.Second)))
		})

		ginkgo.It("returns for how long a rate limit holds", func() {
			s.add(named("a"), named("b"))
			limited := worker
			limited.Limit = backend.RateLimit{Max: 1, Duration: time.Minute}
			taken, err := s.Store.MoveToActive(s.ctx, now, limited, "t1", "t2")
			Expect(err).NotTo(HaveOccurred())
			Expect(idOf(taken[0])).To(Equal("a"))
			Expect(taken[1].Job).To(BeNil())
			taken, err = s.Store.MoveToActive(s.ctx, now, limited, "t2")
			Expect(err).NotTo(HaveOccurred())
			Expect(taken[0].Job).To(BeNil())
			Expect(taken[0].LimitedFor).To(And(BeNumerically(">", 0), BeNumerically("<=", time.Minute)))
			Expect(s.fetch()).To(Equal("b"), "a worker without a limit")
		})

		ginkgo.It("gives a job without a name of the worker no such name", func() {
			s.add(named("a"))
			taken, err := s.Store.MoveToActive(s.ctx, now, backend.Worker{LockDuration: lockTime}, token)
			Expect(err).NotTo(HaveOccurred())
			Expect(taken[0].Job.ProcessedBy).To(BeEmpty())
			Expect(taken[0].Job).To(Equal(s.record("a")))
		})
	})

	ginkgo.Describe("A call whose reply was lost", func() {
		ginkgo.It("is undone while its job is active under the token", func() {
			s.run("a")
			undone, taken, err := s.Store.ResolveFetch(s.ctx, token, "a")
			Expect(err).NotTo(HaveOccurred())
			Expect(undone).To(BeTrue())
			Expect(taken.Job).To(BeNil())
		})

		ginkgo.It("has fetched the job that is active under the token", func() {
			s.run("a")
			s.add(named("b"))
			end := completion("a", "1")
			end.Fetch = true
			s.end(end)
			for _, jobID := range []string{"a", ""} {
				undone, taken, err := s.Store.ResolveFetch(s.ctx, token, jobID)
				Expect(err).NotTo(HaveOccurred())
				Expect(undone).To(BeFalse())
				Expect(taken.Job).To(Equal(s.record("b")))
			}
		})

		ginkgo.It("has fetched no job if the token holds none, and more may be ready", func() {
			s.run("a")
			undone, taken, err := s.Store.ResolveFetch(s.ctx, "other", "a")
			Expect(err).NotTo(HaveOccurred())
			Expect(undone).To(BeFalse())
			Expect(taken).To(Equal(backend.Fetched{Unknown: true}))
		})
	})
}

func (s *suite) finishing() {
	// finished runs jobs and ends each with a rule for which jobs are kept. It returns the
	// jobs that are left.
	finished := func(state backend.State, keep backend.Keep, ids ...string) []string {
		ginkgo.GinkgoHelper()
		for i, id := range ids {
			s.run(id)
			end := completion(id, "1")
			if state == backend.Failed {
				end = failure(id, "boom")
			}
			end.Keep = keep
			ended, err := s.Store.MoveToFinished(s.ctx, backend.Finish{Now: now.Add(time.Duration(i) * time.Second), Worker: worker, Ends: []*backend.End{end}})()
			Expect(err).NotTo(HaveOccurred())
			Expect(ended[0].Err).NotTo(HaveOccurred())
		}
		left, err := s.Store.JobIDs(s.ctx, allJobs, state)
		Expect(err).NotTo(HaveOccurred())
		return left
	}

	ginkgo.Describe("An end of jobs", func() {
		ginkgo.It("in one call gives each its own result", func() {
			for _, id := range []string{"done", "broken", "lost", "plain"} {
				s.run(id)
			}
			Expect(s.Store.Remove(s.ctx, "done", false)).To(Equal(backend.Locked))
			lost := completion("lost", "2")
			lost.Token = "other"
			ended := s.end(completion("done", "1"), failure("broken", "boom"), lost, completion("plain", "3"))
			Expect(ended[0].Err).NotTo(HaveOccurred())
			Expect(ended[1].Err).NotTo(HaveOccurred())
			Expect(ended[2].Err).To(MatchError(backend.LockMismatch))
			Expect(ended[3].Err).NotTo(HaveOccurred())
			Expect(s.Store.Outcome(s.ctx, "done")).To(Equal(backend.Outcome{State: backend.Completed, Value: "1"}))
			Expect(s.Store.Outcome(s.ctx, "broken")).To(Equal(backend.Outcome{State: backend.Failed, Value: "boom"}))
			Expect(s.Store.Outcome(s.ctx, "plain")).To(Equal(backend.Outcome{State: backend.Completed, Value: "3"}))
			s.expectState("lost", backend.Active)
		})

		ginkgo.It("means the same with the hint of the fetch as without it", func() {
			s.add(named("a"), named("b"))
			first := s.take(now)
			end := completion("a", "1")
			end.Hint, end.Fetch = first.Hint, true
			next := s.end(end)[0].Next
			Expect(next.Job).To(Equal(s.record("b")))
			Expect(s.Store.UpdateProgress(s.ctx, "b", "50")).To(Succeed())
			end = completion("b", "1")
			end.Hint = next.Hint
			s.end(end)
			a, b := s.record("a"), s.record("b")
			Expect(string(b.Progress)).To(Equal("50"))
			a.ID, a.Name, b.ID, b.Name, b.Progress = "", "", "", "", nil
			Expect(a).To(Equal(b))
		})

		ginkgo.It("fetches a next job for each that asks for one", func() {
			s.run("a")
			s.run("b")
			s.run("c")
			s.add(named("next"))
			a, b, c := completion("a", "1"), completion("b", "1"), failure("c", "boom")
			b.Fetch, c.Fetch = true, true
			ended := s.end(a, b, c)
			Expect(ended[0].Next).To(Equal(backend.Fetched{}))
			Expect(ended[1].Next.Job).To(Equal(s.record("next")))
			Expect(ended[2].Next.Job).To(BeNil())
			Expect(ended[2].Next.Unknown).To(BeTrue(), "a later job may be ready")
		})

		ginkgo.It("that finds no next job returns when the first delayed one is due", func() {
			s.run("a")
			s.run("b")
			s.add(delayed("later", time.Minute))
			end := completion("a", "1")
			end.Fetch = true
			taken := s.end(end)[0].Next
			Expect(taken.Job).To(BeNil())
			Expect(taken.Unknown).To(BeFalse())
			Expect(taken.NextDue).To(BeTemporally("==", now.Add(time.Minute)))
			Expect(s.Store.Remove(s.ctx, "later", false)).To(Equal(backend.Removed))
			end = completion("b", "1")
			end.Fetch = true
			Expect(s.end(end)[0].Next).To(Equal(backend.Fetched{}))
		})

		ginkgo.It("stores what a failed attempt leaves", func() {
			s.run("a")
			end := failure("a", "boom")
			end.Failure.StackTrace = `["at line 1"]`
			s.end(end)
			record := s.record("a")
			Expect(record.FailedReason).To(Equal("boom"))
			Expect(record.StackTrace).To(Equal([]string{"at line 1"}))
			Expect(record.AttemptsMade).To(Equal(1))
			Expect(record.FinishedOn).To(BeTemporally("==", now))
		})

		ginkgo.It("counts the jobs for metrics", func() {
			s.run("a")
			ended, err := s.Store.MoveToFinished(s.ctx, backend.Finish{Now: now, MetricsPoints: 5, Worker: worker, Ends: []*backend.End{completion("a", "1")}})()
			Expect(err).NotTo(HaveOccurred())
			Expect(ended[0].Err).NotTo(HaveOccurred())
			metrics, err := s.Store.Metrics(s.ctx, backend.Completed, 0, -1)
			Expect(err).NotTo(HaveOccurred())
			Expect(metrics.Count).To(Equal(1))
		})
	})

	for _, state := range []backend.State{backend.Completed, backend.Failed} {
		ginkgo.DescribeTable("Of "+string(state)+" jobs are kept", func(keep backend.Keep, want ...string) {
			Expect(finished(state, keep, "a", "b", "c", "d")).To(ConsistOf(want))
			for _, id := range []string{"a", "b", "c", "d"} {
				record, err := s.Store.Job(s.ctx, id)
				Expect(err).NotTo(HaveOccurred())
				Expect(record != nil).To(Equal(slices.Contains(want, id)), id)
			}
		},
			ginkgo.Entry("all without a rule", backend.Keep{}, "a", "b", "c", "d"),
			ginkgo.Entry("all by the count -1", keepAll, "a", "b", "c", "d"),
			ginkgo.Entry("none by the count 0", backend.Keep{Count: backend.Int(0)}),
			ginkgo.Entry("the newest by a count", backend.Keep{Count: backend.Int(2)}, "c", "d"),
			ginkgo.Entry("those of an age", backend.Keep{Age: backend.Int(2)}, "c", "d"),
			ginkgo.Entry("those of an age, up to a count", backend.Keep{Age: backend.Int(2), Count: backend.Int(1)}, "d"),
		)
	}
}

func (s *suite) consumer() {
	ginkgo.Describe("A running job", func() {
		ginkgo.It("is active, and knows when and how often it was started", func() {
			s.run("a")
			s.expectState("a", backend.Active)
			record := s.record("a")
			Expect(record.AttemptsStarted).To(Equal(1))
			Expect(record.AttemptsMade).To(BeZero())
			Expect(record.ProcessedOn).NotTo(BeZero())
		})

		ginkgo.It("completes with its return value", func() {
			s.run("a")
			s.complete("a", `{"ok":true}`)
			Expect(s.Store.Outcome(s.ctx, "a")).To(Equal(backend.Outcome{State: backend.Completed, Value: `{"ok":true}`}))
			record := s.record("a")
			Expect(string(record.ReturnValue)).To(Equal(`{"ok":true}`))
			Expect(record.FinishedOn).To(BeTemporally("==", now))
			Expect(record.AttemptsMade).To(Equal(1))
		})

		ginkgo.It("fails with its reason", func() {
			s.run("a")
			s.fail("a", "boom")
			Expect(s.Store.Outcome(s.ctx, "a")).To(Equal(backend.Outcome{State: backend.Failed, Value: "boom"}))
			Expect(s.record("a").FailedReason).To(Equal("boom"))
		})

		ginkgo.It("can't complete while it has pending children", func() {
			s.run("parent")
			s.add(s.childOf("parent", "a"))
			Expect(s.end(completion("parent", "1"))[0].Err).To(MatchError(backend.PendingChildren))
			s.expectState("parent", backend.Active)
		})

		ginkgo.It("becomes ready again by RetryJob, last of those that wait, with what its attempt left", func() {
			s.run("a")
			s.add(named("b"))
			Expect(s.Store.RetryJob(s.ctx, backend.Retry{
				JobID: "a", Token: token, Now: now, Failure: backend.FailedAttempt{Reason: "boom", StackTrace: `["at line 1"]`},
			})).To(Succeed())
			record := s.record("a")
			Expect(record.FailedReason).To(Equal("boom"))
			Expect(record.StackTrace).To(Equal([]string{"at line 1"}))
			Expect(record.AttemptsMade).To(Equal(1))
			Expect(s.order()).To(Equal([]string{"b", "a"}))
		})

		ginkgo.It("is the next one after RetryJob with LIFO", func() {
			s.run("a")
			s.add(named("b"))
			Expect(s.Store.RetryJob(s.ctx, backend.Retry{JobID: "a", Token: token, Now: now, LIFO: true})).To(Succeed())
			Expect(s.order()).To(Equal([]string{"a", "b"}))
		})

		ginkgo.It("runs again after a delay by MoveToDelayed, with what its failed attempt left", func() {
			s.run("a")
			s.add(named("b"))
			taken, err := s.Store.MoveToDelayed(s.ctx, backend.Delay{
				JobID: "a", Token: token, Now: now, Delay: time.Second, Fetch: true, Worker: worker,
				Failure: &backend.FailedAttempt{Reason: "boom", StackTrace: `["at line 1"]`},
			})
			Expect(err).NotTo(HaveOccurred())
			Expect(taken.Job).To(Equal(s.record("b")))
			s.expectState("a", backend.Delayed)
			record := s.record("a")
			Expect(record.Delay).To(Equal(time.Second))
			Expect(record.FailedReason).To(Equal("boom"))
			Expect(record.StackTrace).To(Equal([]string{"at line 1"}))
			Expect(record.AttemptsMade).To(Equal(1))
			Expect(s.fetchAt(now.Add(999 * time.Millisecond))).To(BeEmpty())
			Expect(s.fetchAt(now.Add(time.Second))).To(Equal("a"))
		})

		ginkgo.It("is delayed by MoveToDelayed without a failure, and has made no attempt", func() {
			s.run("a")
			s.add(named("b"))
			taken, err := s.Store.MoveToDelayed(s.ctx, backend.Delay{JobID: "a", Token: token, Now: now, Delay: 1500 * time.Microsecond})
			Expect(err).NotTo(HaveOccurred())
			Expect(taken).To(Equal(backend.Fetched{Unknown: true}))
			record := s.record("a")
			Expect(record.Delay).To(Equal(1500*time.Microsecond), "with its fraction of a millisecond")
			Expect(record.FailedReason).To(BeEmpty())
			Expect(record.AttemptsMade).To(BeZero())
			s.expectState("b", backend.Waiting)
		})

		ginkgo.It("goes back to the front by MoveToWait, and has made no attempt", func() {
			s.run("a")
			s.add(named("b"))
			_, err := s.Store.MoveToWait(s.ctx, "a", token)
			Expect(err).NotTo(HaveOccurred())
			Expect(s.record("a").AttemptsMade).To(BeZero())
			Expect(s.order()).To(Equal([]string{"a", "b"}))
		})

		ginkgo.It("waits for its children by MoveToWaitingChildren, if it has any", func() {
			s.run("parent")
			Expect(s.Store.MoveToWaitingChildren(s.ctx, "parent", token, now, backend.JobRef{})).To(BeFalse())
			s.add(s.childOf("parent", "a"))
			Expect(s.Store.MoveToWaitingChildren(s.ctx, "parent", token, now, backend.JobRef{})).To(BeTrue())
			s.expectState("parent", backend.WaitingChildren)
			Expect(s.fetch()).To(Equal("a"))
			s.complete("a", "1")
			s.expectState("parent", backend.Waiting)
		})

		ginkgo.DescribeTable("is not changed by a call without its lock:", func(call func(id, token string) error) {
			s.run("a")
			Expect(call("a", "other")).To(MatchError(backend.LockMismatch))
			s.expectState("a", backend.Active)
			Expect(call("gone", token)).To(MatchError(backend.JobNotFound))
			s.add(named("b"))
			Expect(call("b", token)).To(MatchError(backend.LockNotFound))
			s.expectState("b", backend.Waiting)
		},
			ginkgo.Entry("MoveToFinished", func(id, token string) error {
				end := completion(id, "1")
				end.Token = token
				return s.end(end)[0].Err
			}),
			ginkgo.Entry("MoveToFinished of a failure", func(id, token string) error {
				end := failure(id, "boom")
				end.Token = token
				return s.end(end)[0].Err
			}),
			ginkgo.Entry("MoveToDelayed", func(id, token string) error {
				_, err := s.Store.MoveToDelayed(s.ctx, backend.Delay{JobID: id, Token: token, Now: now, Delay: time.Second})
				return err
			}),
			ginkgo.Entry("RetryJob", func(id, token string) error {
				return s.Store.RetryJob(s.ctx, backend.Retry{JobID: id, Token: token, Now: now})
			}),
			ginkgo.Entry("MoveToWait", func(id, token string) error {
				_, err := s.Store.MoveToWait(s.ctx, id, token)
				return err
			}),
		)
	})
}
