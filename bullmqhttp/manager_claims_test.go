package bullmqhttp_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmqhttp"
)

var _ = Describe("A manager", func() {
	ctx := context.Background()

	It("submits a job, which a worker claims and ends with a result", func() {
		m := manage(bullmqhttp.ManagerOptions{})
		submitted := m.add(map[string]int{"n": 7}, &bullmq.JobOptions{Attempts: 2, Priority: 5})
		Expect(submitted.ID).To(MatchRegexp(`^job-[\w-]{22}$`))
		Expect(submitted.State).To(Equal(bullmqhttp.Queued))

		claim := m.claim("anna")
		Expect(claim.JobID).To(Equal(submitted.ID))
		Expect(claim.Worker).To(Equal("anna"))
		Expect(claim.Token).To(HaveSuffix(".anna"))
		Expect(claim.Expires).To(BeTemporally("~", time.Now().Add(20*time.Second), 15*time.Second))
		Expect(claim.Job.Data).To(MatchJSON(`{"n":7}`))
		Expect(claim.Job.Priority).To(Equal(5))
		running := m.get(submitted.ID)
		Expect(running.State).To(Equal(bullmqhttp.Running))
		Expect(running.Worker).To(Equal("anna"))
		Expect(running.Started).To(BeTemporally("~", time.Now(), 15*time.Second))
		m.none("berta")

		ended, err := m.m.Succeed(ctx, claim, map[string]string{"url": "/r/7?a&b"})
		Expect(err).NotTo(HaveOccurred())
		Expect(ended.State).To(Equal(bullmqhttp.Succeeded))
		stored := m.get(submitted.ID)
		// The end in the reply is by the clock of the Manager, a moment after the stored one.
		Expect(ended.Ended).To(BeTemporally("~", stored.Ended, 15*time.Second))
		ended.Ended = stored.Ended
		Expect(stored).To(Equal(ended))
		Expect(string(stored.Result)).To(Equal(`{"url":"/r/7?a&b"}`))
		Expect(stored.Name).To(Equal("report"))
		Expect([]int{stored.Attempts, stored.MaxAttempts}).To(Equal([]int{1, 2}))
		Expect(stored.Ended).To(BeTemporally(">=", stored.Started))
		Expect(stored.Started).To(BeTemporally(">=", stored.Created))
	})

	It("gives each job to one worker, however many claim at the same time", func() {
		m := manage(bullmqhttp.ManagerOptions{MaxClaim: 7})
		for i := range 60 {
			m.add(i, nil)
		}
		first, err := m.m.Claim(ctx, "first", 20, 0)
		Expect(err).NotTo(HaveOccurred())
		Expect(first).To(HaveLen(7))
		for i, claim := range first {
			Expect(string(claim.Job.Data)).To(Equal(fmt.Sprint(i)))
		}
		var mu sync.Mutex
		claimed := map[string]int{}
		var group sync.WaitGroup
		for i := range 6 {
			group.Go(func() {
				defer GinkgoRecover()
				for {
					claims, err := m.m.Claim(ctx, fmt.Sprint("worker ", i), 2, 0)
					Expect(err).NotTo(HaveOccurred())
					if len(claims) == 0 {
						return
					}
					mu.Lock()
					for _, claim := range claims {
						claimed[claim.JobID]++
					}
					mu.Unlock()
				}
			})
		}
		group.Wait()
		Expect(claimed).To(HaveLen(53))
		for id, times := range claimed {
			Expect(times).To(Equal(1), id)
		}
	})

	It("lets a claim wait for a job until the wait is over", func() {
		m := manage(bullmqhttp.ManagerOptions{MaxWait: 20 * time.Second})
		begun := time.Now()
		claims, err := m.m.Claim(ctx, "anna", 1, 50*time.Millisecond)
		Expect(err).NotTo(HaveOccurred())
		Expect(claims).To(BeEmpty())
		Expect(time.Since(begun)).To(BeNumerically(">=", 50*time.Millisecond))

		got := make(chan []*bullmqhttp.Claim, 1)
		go func() {
			claims, _ := m.m.Claim(ctx, "anna", 3, time.Hour)
			got <- claims
		}()
		job := m.add(1, &bullmq.JobOptions{Delay: 100 * time.Millisecond})
		Expect(job.State).To(Equal(bullmqhttp.Scheduled))
		Expect(job.Due).To(Equal(job.Created.Add(100 * time.Millisecond)))
		var late []*bullmqhttp.Claim
		Eventually(got, "20s").Should(Receive(&late))
		Expect(late).To(HaveLen(1))
		Expect(late[0].JobID).To(Equal(job.ID))

		stopped, stop := context.WithCancelCause(ctx)
		gone := errors.New("gone")
		time.AfterFunc(50*time.Millisecond, func() { stop(gone) })
		_, err = m.m.Claim(stopped, "anna", 1, time.Hour)
		Expect(err).To(MatchError(gone))
	})

	It("claims nothing from a queue that is paused or at its global concurrency", func() {
		m := manage(bullmqhttp.ManagerOptions{})
		m.add(1, nil)
		m.add(2, nil)
		Expect(m.queue.Pause(ctx)).To(Succeed())
		m.none("anna")
		Expect(m.queue.Resume(ctx)).To(Succeed())
		Expect(m.queue.SetGlobalConcurrency(ctx, 1)).To(Succeed())
		claim := m.claim("anna")
		m.none("anna")
		_, err := m.m.Succeed(ctx, claim, nil)
		Expect(err).NotTo(HaveOccurred())
		m.claim("berta")
	})

	It("refuses calls on a claim by another worker, with another token, or by a worker that is not allowed", func() {
		allowed := true
		m := manage(bullmqhttp.ManagerOptions{CheckWorker: func(_ context.Context, worker string) error {
			if !allowed || worker == "mallory" {
				return errors.New("unknown worker")
			}
			return nil
		}})
		m.add(1, nil)
		claim := m.claim("anna")
		calls := func(c *bullmqhttp.Claim) (errs []error) {
			_, err := m.m.Extend(ctx, c, 0, nil)
			errs = append(errs, err)
			_, err = m.m.Succeed(ctx, c, nil)
			errs = append(errs, err)
			_, err = m.m.Fail(ctx, c, bullmqhttp.Failure{Reason: "x"})
			return append(errs, err, m.m.Release(ctx, c, 0), m.m.Release(ctx, c, time.Minute))
		}
		foreign, forged, bare := *claim, *claim, *claim
		foreign.Worker = "berta"
		forged.Token = "AAAAAAAAAAAAAAAAAAAAAA.anna"
		bare.Token = "b5c2a3a8-0f4e-4f0c-9a41-1a5e5a0f6b11" // as a worker of BullMQ has it
		for _, other := range []bullmqhttp.Claim{foreign, forged, bare} {
			for _, err := range calls(&other) {
				Expect(err).To(MatchError(bullmqhttp.ErrAlreadyAssigned))
				Expect(err).To(MatchError(bullmq.ErrLockMismatch))
				Expect(codeOf(err)).To(Equal(bullmqhttp.CodeAlreadyAssigned))
			}
		}
		_, err := m.m.Claim(ctx, "mallory", 1, 0)
		Expect(err).To(MatchError(bullmqhttp.ErrForbidden))
		allowed = false
		for _, err := range calls(claim) {
			Expect(err).To(MatchError(bullmqhttp.ErrForbidden))
		}
		allowed = true
		none := *claim
		none.Token = ""
		for _, err := range calls(&none) {
			Expect(codeOf(err)).To(Equal(bullmqhttp.CodeInvalidRequest))
		}
		Expect(m.get(claim.JobID).State).To(Equal(bullmqhttp.Running))
		_, err = m.m.Succeed(ctx, claim, nil)
		Expect(err).NotTo(HaveOccurred())
	})

	It("extends a claim, and stores progress", func() {
		m := manage(bullmqhttp.ManagerOptions{Fetcher: bullmq.FetcherOptions{LockDuration: 4 * time.Second}, MaxClaimFor: time.Minute})
		m.add(1, nil)
		claim := m.claim("anna")
		extended, err := m.m.Extend(ctx, claim, 50*time.Second, map[string]int{"percent": 40})
		Expect(err).NotTo(HaveOccurred())
		Expect(extended.Expires).To(BeTemporally(">", claim.Expires.Add(20*time.Second)))
		Expect(extended.Token).To(Equal(claim.Token))
		Expect(m.get(claim.JobID).Progress).To(MatchJSON(`{"percent":40}`))
		_, err = m.m.Extend(ctx, claim, time.Hour, nil)
		Expect(codeOf(err)).To(Equal(bullmqhttp.CodeInvalidRequest))
	})

	It("lists a claim that has expired, refuses it, and gives the job to another worker", func() {
		m := manage(bullmqhttp.ManagerOptions{Fetcher: bullmq.FetcherOptions{LockDuration: time.Second, StalledInterval: 100 * time.Millisecond}})
		m.add(1, nil)
		m.add(2, nil)
		claim, kept := m.claim("anna"), m.claim("berta")
		_, err := m.m.Extend(ctx, kept, time.Minute, nil)
		Expect(err).NotTo(HaveOccurred())
		var stale []*bullmqhttp.JobInfo
		Eventually(func(g Gomega) {
			var err error
			stale, err = m.m.StaleClaims(ctx, 10)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(stale).To(HaveLen(1))
		}, "20s").Should(Succeed())
		Expect(stale[0].ID).To(Equal(claim.JobID))
		Expect(stale[0].Worker).To(Equal("anna"))
		for range 2 {
			_, err := m.m.Succeed(ctx, claim, nil)
			Expect(err).To(MatchError(bullmqhttp.ErrClaimExpired))
			Expect(err).To(MatchError(bullmq.ErrLockNotFound))
			_, err = m.m.Extend(ctx, claim, 0, nil)
			Expect(err).To(MatchError(bullmqhttp.ErrClaimExpired))
			Expect(m.m.Release(ctx, claim, 0)).To(MatchError(bullmqhttp.ErrClaimExpired))
		}

		running, stop := context.WithCancel(ctx)
		ended := make(chan struct{})
		go func() { m.m.Run(running); close(ended) }()
		again := m.claim("carla")
		stop()
		Eventually(ended, "20s").Should(BeClosed())
		Expect(again.JobID).To(Equal(claim.JobID))
		Expect(again.Job.Attempts).To(BeZero())
		_, err = m.m.Succeed(ctx, claim, nil)
		Expect(err).To(Or(MatchError(bullmqhttp.ErrAlreadyAssigned), MatchError(bullmqhttp.ErrClaimExpired))) // expired, on a slow machine
	})

	It("fails the attempts of a job until none is left, with the wait that its options define", func() {
		m := manage(bullmqhttp.ManagerOptions{})
		m.add(1, &bullmq.JobOptions{Attempts: 3, Backoff: bullmq.FixedBackoff(50 * time.Millisecond)})
		for attempt := 1; attempt <= 3; attempt++ {
			claim := m.claim("anna")
			job, err := m.m.Fail(ctx, claim, bullmqhttp.Failure{Reason: fmt.Sprint("failure ", attempt)})
			Expect(err).NotTo(HaveOccurred())
			Expect(job.Attempts).To(Equal(attempt))
			Expect(job.Error).To(Equal(fmt.Sprint("failure ", attempt)))
			if attempt < 3 {
				Expect(job.State).To(Equal(bullmqhttp.Retrying))
				Expect(job.Due).To(BeTemporally("~", time.Now(), 15*time.Second))
			} else {
				Expect(job.State).To(Equal(bullmqhttp.Failed))
				stored := m.get(claim.JobID)
				Expect(job.Ended).To(BeTemporally("~", stored.Ended, 15*time.Second)) // by the clock of the Manager
				job.Ended = stored.Ended
				Expect(stored).To(Equal(job))
			}
		}
	})

	It("asks a function whether and when a failed job is retried", func() {
		type asked struct {
			attempt int
			reason  string
		}
		var calls []asked
		m := manage(bullmqhttp.ManagerOptions{Retry: func(attempt int, job *bullmq.Job, reason error) (time.Duration, bool) {
			var failure *bullmqhttp.Failure
			Expect(errors.As(reason, &failure)).To(BeTrue())
			calls = append(calls, asked{attempt, failure.Reason})
			wait, _ := bullmqhttp.ExponentialRetry(500*time.Hour)(attempt, job, reason)
			return wait, failure.Reason != "hopeless"
		}})
		m.add(1, &bullmq.JobOptions{Attempts: 9})
		job, err := m.m.Fail(ctx, m.claim("anna"), bullmqhttp.Failure{Reason: "busy"})
		Expect(err).NotTo(HaveOccurred())
		Expect(job.State).To(Equal(bullmqhttp.Retrying))
		Expect(job.Due).To(BeTemporally("~", time.Now().Add(1000*time.Hour), time.Minute))
		Expect(m.queue.JobRef(job.ID).Promote(ctx)).To(Succeed())
		job, err = m.m.Fail(ctx, m.claim("anna"), bullmqhttp.Failure{Reason: "hopeless"})
		Expect(err).NotTo(HaveOccurred())
		Expect(job.State).To(Equal(bullmqhttp.Failed))
		Expect(calls).To(Equal([]asked{{1, "busy"}, {2, "hopeless"}}))
	})

	It("lets the worker fail a job for good, or name the wait before the next attempt", func() {
		m := manage(bullmqhttp.ManagerOptions{})
		m.add(1, &bullmq.JobOptions{Attempts: 9})
		job, err := m.m.Fail(ctx, m.claim("anna"), bullmqhttp.Failure{Reason: "later", RetryAfter: time.Hour})
		Expect(err).NotTo(HaveOccurred())
		Expect(job.Due).To(BeTemporally("~", time.Now().Add(time.Hour), time.Minute))
		Expect(m.queue.JobRef(job.ID).Promote(ctx)).To(Succeed())
		job, err = m.m.Fail(ctx, m.claim("anna"), bullmqhttp.Failure{Reason: "never", Permanent: true})
		Expect(err).NotTo(HaveOccurred())
		Expect(job.State).To(Equal(bullmqhttp.Failed))
		Expect(job.Attempts).To(Equal(2))
	})

	It("gives a released job to the next worker, at once or later, without using an attempt", func() {
		m := manage(bullmqhttp.ManagerOptions{})
		first := m.add(1, nil)
		m.add(2, nil)
		Expect(m.m.Release(ctx, m.claim("anna"), 0)).To(Succeed())
		again := m.claim("berta")
		Expect(again.JobID).To(Equal(first.ID))
		Expect(again.Job.Attempts).To(BeZero())
		Expect(m.m.Release(ctx, again, time.Hour)).To(Succeed())
		Expect(m.get(first.ID).State).To(Equal(bullmqhttp.Retrying))
		Expect(m.claim("berta").JobID).NotTo(Equal(first.ID))
	})

	It("cancels a job that waits, and tells the worker of a running one", func() {
		m := manage(bullmqhttp.ManagerOptions{})
		running := m.add(1, &bullmq.JobOptions{Attempts: 5})
		claim := m.claim("anna")
		waiting, delayed := m.add(2, nil), m.add(3, &bullmq.JobOptions{Delay: time.Hour})
		for _, job := range []*bullmqhttp.JobInfo{running, waiting, delayed} {
			Expect(m.m.Cancel(ctx, job.ID, "not needed")).To(Succeed())
		}
		m.none("berta") // ends the two
		for _, job := range []*bullmqhttp.JobInfo{waiting, delayed} {
			Expect(m.get(job.ID).State).To(Equal(bullmqhttp.Cancelled))
			Expect(m.get(job.ID).Error).To(Equal("cancelled: not needed"))
			Expect(m.m.Cancel(ctx, job.ID, "again")).To(Succeed())
		}
		_, err := m.m.Extend(ctx, claim, 0, nil)
		Expect(err).To(MatchError(bullmqhttp.ErrCancelled))
		Expect(err).To(MatchError(bullmq.ErrCancelled))
		job, err := m.m.Fail(ctx, claim, bullmqhttp.Failure{Reason: "stopped"})
		Expect(err).NotTo(HaveOccurred())
		Expect(job.State).To(Equal(bullmqhttp.Cancelled))
		stored := m.get(running.ID)
		Expect(job.Ended).To(BeTemporally("~", stored.Ended, 15*time.Second)) // by the clock of the Manager
		job.Ended = stored.Ended
		Expect(stored).To(Equal(job))
	})

	It("tells why a claim is not valid: no job, another status, or a delay", func() {
		m := manage(bullmqhttp.ManagerOptions{})
		m.add(1, &bullmq.JobOptions{Attempts: 2, Backoff: bullmq.FixedBackoff(time.Hour)})
		claim := m.claim("anna")
		_, err := m.m.Fail(ctx, claim, bullmqhttp.Failure{Reason: "x"})
		Expect(err).NotTo(HaveOccurred())
		_, err = m.m.Succeed(ctx, claim, nil)
		Expect(err).To(MatchError(bullmqhttp.ErrRetryDelay))
		_, err = m.m.Fail(ctx, claim, bullmqhttp.Failure{})
		Expect(err).To(MatchError(bullmqhttp.ErrRetryDelay))

		Expect(m.queue.JobRef(claim.JobID).Promote(ctx)).To(Succeed())
		_, err = m.m.Succeed(ctx, claim, nil)
		Expect(err).To(MatchError(bullmqhttp.ErrWrongStatus))
		claim = m.claim("anna")
		Expect(m.m.Remove(ctx, claim.JobID)).To(MatchError(bullmqhttp.ErrAlreadyAssigned))
		_, err = m.m.Succeed(ctx, claim, nil)
		Expect(err).NotTo(HaveOccurred())
		_, err = m.m.Succeed(ctx, claim, nil)
		Expect(err).To(MatchError(bullmqhttp.ErrWrongStatus))
		Expect(m.m.Cancel(ctx, claim.JobID, "")).To(MatchError(bullmqhttp.ErrWrongStatus))

		Expect(m.m.Remove(ctx, claim.JobID)).To(Succeed())
		_, err = m.m.Get(ctx, claim.JobID)
		for _, err := range []error{err, m.m.Remove(ctx, claim.JobID), m.m.Cancel(ctx, claim.JobID, ""), m.m.Release(ctx, claim, 0)} {
			Expect(err).To(MatchError(bullmqhttp.ErrJobNotFound))
			Expect(err).To(MatchError(bullmq.ErrJobNotFound))
		}
		_, err = m.m.Extend(ctx, claim, 0, nil)
		Expect(err).To(MatchError(bullmqhttp.ErrJobNotFound))
	})

	It("has claims of five minutes, ten jobs and four attempts by default", func() {
		m := manageAs(fmt.Sprint("manager-", queues.Add(1)), bullmqhttp.ManagerOptions{})
		for i := range 11 {
			m.add(i, nil)
		}
		claims, err := m.m.Claim(ctx, "anna", 100, 0)
		Expect(err).NotTo(HaveOccurred())
		Expect(claims).To(HaveLen(10))
		Expect(claims[0].Expires).To(BeTemporally("~", time.Now().Add(5*time.Minute), 20*time.Second))
		Expect(claims[0].Job.MaxAttempts).To(Equal(4))
		job, err := m.m.Fail(ctx, claims[0], bullmqhttp.Failure{Reason: "x"})
		Expect(err).NotTo(HaveOccurred())
		stored, err := m.queue.Job(ctx, job.ID)
		Expect(err).NotTo(HaveOccurred())
		Expect(stored.Delay).To(Equal(4 * time.Second))
	})
})
