package bullmq

import (
	"context"
	"errors"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("The retry policy", func() {
	boom := errors.New("boom")

	job := func(made, attempts int, backoff *Backoff) *Job {
		return &Job{ID: "7", AttemptsMade: made, AttemptsStarted: made + 1, Options: JobOptions{Attempts: attempts, Backoff: backoff}}
	}
	decide := func(p retryPolicy, j *Job, err error) decision {
		GinkgoHelper()
		d, policyErr := p.decide(j, err)
		Expect(policyErr).NotTo(HaveOccurred())
		return d
	}

	It("completes a job without an error, whatever attempts are left", func() {
		Expect(decide(retryPolicy{}, job(5, 1, nil), nil)).To(Equal(decision{action: complete}))
	})

	DescribeTable("counts attempts:", func(made, attempts int, want action) {
		Expect(decide(retryPolicy{}, job(made, attempts, nil), boom)).To(Equal(decision{action: want}))
	},
		Entry("no number of attempts means one", 0, 0, fail),
		Entry("one attempt means one", 0, 1, fail),
		Entry("the first of two is retried at once", 0, 2, retryNow),
		Entry("the second of two is the last", 1, 2, fail),
		Entry("the second of three is retried", 1, 3, retryNow),
		Entry("an attempt beyond the limit is the last", 9, 3, fail),
	)

	It("delays a job by its backoff, which counts the attempt that just failed", func() {
		Expect(decide(retryPolicy{}, job(0, 5, FixedBackoff(time.Second)), boom)).To(Equal(decision{action: retryLater, wait: time.Second}))
		Expect(decide(retryPolicy{}, job(2, 5, ExponentialBackoff(time.Second)), boom)).To(Equal(decision{action: retryLater, wait: 4 * time.Second}))
	})

	It("retries a job at once with a backoff of zero", func() {
		Expect(decide(retryPolicy{}, job(0, 5, FixedBackoff(0)), boom)).To(Equal(decision{action: retryNow}))
	})

	It("uses its own random value for jitter", func() {
		jittered := FixedBackoff(time.Second)
		jittered.Jitter = 0.5
		Expect(decide(retryPolicy{chance: 0.5}, job(0, 5, jittered), boom)).To(Equal(decision{action: retryLater, wait: 750 * time.Millisecond}))
	})

	It("fails a job permanently on an unrecoverable error, however deeply it is wrapped", func() {
		for _, err := range []error{
			Unrecoverable(fmt.Errorf("closed: %w", Snooze(time.Hour))), errors.Join(RateLimit(time.Minute), Unrecoverable(boom)),
			ErrUnrecoverable, Unrecoverable(boom), fmt.Errorf("while painting: %w", Unrecoverable(boom)), errors.Join(boom, Unrecoverable(nil))} {
			Expect(decide(retryPolicy{}, job(0, 5, FixedBackoff(time.Second)), err)).To(Equal(decision{action: fail}), err.Error())
		}
	})

	It("does not fail a job that requests a rate limit, even at its last attempt", func() {
		for _, err := range []error{ErrRateLimited, RateLimit(time.Second), fmt.Errorf("api: %w", RateLimit(0))} {
			Expect(decide(retryPolicy{}, job(0, 1, nil), err)).To(Equal(decision{action: limited}), err.Error())
		}
	})

	It("leaves a job where its handler has moved it", func() {
		for _, err := range []error{ErrMovedToDelayed, ErrMovedToWait, ErrMovedToWaitingChildren, fmt.Errorf("step 2: %w", ErrMovedToDelayed)} {
			Expect(decide(retryPolicy{}, job(0, 1, nil), err)).To(Equal(decision{action: alreadyGone}), err.Error())
		}
	})

	It("leaves a job that its handler has handed over", func() {
		for _, err := range []error{ErrHandedOver, fmt.Errorf("step 2: %w", ErrHandedOver), errors.Join(ErrHandedOver, Unrecoverable(boom))} {
			Expect(decide(retryPolicy{}, job(0, 1, nil), err)).To(Equal(decision{action: handedOver}), err.Error())
		}
	})

	It("moves a job to its children on ErrWaitForChildren, even at its last attempt", func() {
		for _, err := range []error{ErrWaitForChildren, fmt.Errorf("step 2: %w", ErrWaitForChildren)} {
			Expect(decide(retryPolicy{}, job(0, 1, nil), err)).To(Equal(decision{action: waitForChildren}), err.Error())
		}
		Expect(decide(retryPolicy{}, job(0, 5, nil), errors.Join(ErrWaitForChildren, Unrecoverable(boom)))).To(Equal(decision{action: fail}))
	})

	It("fails a job that was started as often as MaxStartedAttempts allows", func() {
		j := job(0, 10, nil)
		j.AttemptsStarted = 3
		Expect(decide(retryPolicy{maxStarted: 3}, j, boom)).To(Equal(decision{action: fail}))
		Expect(decide(retryPolicy{maxStarted: 4}, j, boom)).To(Equal(decision{action: retryNow}))
	})

	Describe("for a custom backoff", func() {
		It("passes attempts, type, error and job to BackoffStrategy", func() {
			j := job(2, 5, CustomBackoff("tide"))
			policy := retryPolicy{strategy: func(attemptsMade int, kind string, err error, asked *Job) time.Duration {
				Expect(attemptsMade).To(Equal(3))
				Expect(kind).To(Equal("tide"))
				Expect(err).To(BeIdenticalTo(boom))
				Expect(asked).To(BeIdenticalTo(j))
				return time.Minute
			}}
			Expect(decide(policy, j, boom)).To(Equal(decision{action: retryLater, wait: time.Minute}))
		})

		It("rounds the delay of BackoffStrategy down to whole milliseconds", func() {
			returning := func(wait time.Duration) retryPolicy {
				return retryPolicy{strategy: func(int, string, error, *Job) time.Duration { return wait }}
			}
			custom := job(0, 5, CustomBackoff("tide"))
			Expect(decide(returning(1500*time.Microsecond), custom, boom)).To(Equal(decision{action: retryLater, wait: time.Millisecond}))
			Expect(decide(returning(30), custom, boom)).To(Equal(decision{action: retryNow}))
			Expect(decide(returning(-30), custom, boom)).To(Equal(decision{action: fail}))
		})

		It("fails the job permanently if BackoffStrategy returns a negative delay", func() {
			policy := retryPolicy{strategy: func(int, string, error, *Job) time.Duration { return -1 }}
			Expect(decide(policy, job(0, 5, CustomBackoff("tide")), boom)).To(Equal(decision{action: fail}))
		})

		It("fails the job permanently and names the type if there is no BackoffStrategy", func() {
			d, err := retryPolicy{}.decide(job(0, 5, CustomBackoff("tide")), boom)
			Expect(d).To(Equal(decision{action: fail}))
			Expect(err).To(MatchError(ContainSubstring("tide")))
		})
	})

	Describe("with Classify", func() {
		judge := func(v Verdict) retryPolicy {
			return retryPolicy{classify: func(error, *Job) Verdict { return v }}
		}

		It("follows the job's options on Transient", func() {
			Expect(decide(judge(Transient()), job(0, 2, FixedBackoff(time.Second)), boom)).To(Equal(decision{action: retryLater, wait: time.Second}))
			Expect(decide(judge(Transient()), job(1, 2, FixedBackoff(time.Second)), boom)).To(Equal(decision{action: fail}))
		})

		It("fails the job permanently on Permanent", func() {
			Expect(decide(judge(Permanent()), job(0, 9, nil), boom)).To(Equal(decision{action: fail}))
		})

		It("rounds the time of RetryAfter down to whole milliseconds, as the delay is stored", func() {
			Expect(decide(judge(RetryAfter(1500*time.Microsecond)), job(0, 9, nil), boom)).To(Equal(decision{action: retryLater, wait: time.Millisecond}))
			Expect(decide(judge(RetryAfter(30)), job(0, 9, FixedBackoff(time.Second)), boom)).To(Equal(decision{action: retryNow}))
		})

		It("ignores the backoff on RetryAfter but keeps the number of attempts", func() {
			Expect(decide(judge(RetryAfter(time.Hour)), job(0, 9, FixedBackoff(time.Second)), boom)).To(Equal(decision{action: retryLater, wait: time.Hour}))
			Expect(decide(judge(RetryAfter(0)), job(0, 9, FixedBackoff(time.Second)), boom)).To(Equal(decision{action: retryNow}))
			Expect(decide(judge(RetryAfter(time.Hour)), job(0, 1, nil), boom)).To(Equal(decision{action: fail}))
		})

		It("does not call it for errors that already determine the outcome", func() {
			asked := retryPolicy{classify: func(error, *Job) Verdict { Fail("it was asked"); return Verdict{} }}
			for _, err := range []error{nil, ErrRateLimited, ErrMovedToDelayed, Unrecoverable(boom)} {
				decide(asked, job(0, 9, nil), err)
			}
		})
	})
})

var _ = Describe("An unrecoverable error", func() {
	It("has the text and the identity of its cause", func() {
		err := Unrecoverable(context.DeadlineExceeded)
		Expect(err).To(MatchError(context.DeadlineExceeded.Error()))
		Expect(err).To(MatchError(context.DeadlineExceeded))
		Expect(err).To(MatchError(ErrUnrecoverable))
		Expect(Unrecoverable(nil)).To(MatchError(ErrUnrecoverable))
	})
})
