package backendtest

import (
	"context"
	"time"

	"github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

func (s *suite) waiting() {
	ginkgo.Describe("A wait for work", func() {
		var waiter backend.Waiter
		ginkgo.BeforeEach(func() {
			s.requires(Waiters)
			waiter = s.Waiter()
			ginkgo.DeferCleanup(waiter.Close)
		})

		// result is how a wait has ended.
		type result struct {
			wake    backend.Wake
			fetched backend.Fetched
			err     error
		}
		// wait waits in the background.
		wait := func(waiter backend.Waiter, atMost time.Duration) <-chan result {
			ended := make(chan result, 1)
			waiter.Begin()
			go func() {
				var r result
				r.wake, r.fetched, r.err = waiter.WaitAndFetch(atMost, time.Now(), worker, token)
				waiter.End()
				ended <- r
			}()
			return ended
		}
		ended := func(by <-chan result) (r result) {
			ginkgo.GinkgoHelper()
			Eventually(by, block).Should(Receive(&r))
			Expect(r.wake.Err).NotTo(HaveOccurred())
			Expect(r.err).NotTo(HaveOccurred())
			return r
		}
		// jobOf returns the id of the job that followed a wait.
		jobOf := func(r result) string {
			ginkgo.GinkgoHelper()
			if r.fetched.Unknown {
				return s.fetch()
			}
			return idOf(r.fetched)
		}
		// expectNoWakeUp expects that no wake-up is left.
		expectNoWakeUp := func() {
			ginkgo.GinkgoHelper()
			r := ended(wait(waiter, 20*time.Millisecond))
			Expect(r.wake.Woken).To(BeFalse())
		}

		ginkgo.It("ends at once if a job is ready", func() {
			s.add(named("a"))
			r := ended(wait(waiter, time.Minute))
			Expect(r.wake.Woken).To(BeTrue())
			Expect(r.wake.NextDue).To(BeZero())
			Expect(jobOf(r)).To(Equal("a"))
		})

		ginkgo.It("ends when a job is added", func() {
			by := wait(waiter, time.Minute)
			s.add(named("a"))
			r := ended(by)
			Expect(r.wake.Woken).To(BeTrue())
			Expect(jobOf(r)).To(Equal("a"))
		})

		ginkgo.It("ends with the time of a delayed job that is added", func() {
			s.add(delayed("a", time.Hour))
			r := ended(wait(waiter, time.Minute))
			Expect(r.wake.Woken).To(BeTrue())
			Expect(r.wake.NextDue).To(BeTemporally("~", now.Add(time.Hour), time.Second))
		})

		ginkgo.It("ends when a job becomes ready again, and when a queue resumes", func() {
			s.run("a")
			ended(wait(waiter, time.Millisecond)) // takes what the add has left
			by := wait(waiter, time.Minute)
			Expect(s.Store.RetryJob(s.ctx, backend.Retry{JobID: "a", Token: token, Now: now})).To(Succeed())
			Expect(ended(by).wake.Woken).To(BeTrue())

			Expect(s.Store.Pause(s.ctx)).To(Succeed())
			s.add(named("b"))
			ended(wait(waiter, time.Millisecond))
			by = wait(waiter, time.Minute)
			Expect(s.Store.Resume(s.ctx)).To(Succeed())
			Expect(ended(by).wake.Woken).To(BeTrue())
		})

		ginkgo.It("ends without a wake-up when its time is over", func() {
			r := ended(wait(waiter, 20*time.Millisecond))
			Expect(r.wake.Woken).To(BeFalse())
			Expect(jobOf(r)).To(BeEmpty())
		})

		ginkgo.It("ends when it is interrupted, even at its very beginning", func() {
			for range 20 {
				Expect(waiter.Waiting()).To(BeFalse())
				by := wait(waiter, time.Minute)
				waiter.Interrupt()
				Expect(ended(by).wake.Woken).To(BeFalse())
			}
		})

		ginkgo.It("is not ended by an interrupt before it", func() {
			waiter.Interrupt()
			by := wait(waiter, time.Minute)
			Consistently(by, "50ms").ShouldNot(Receive())
			waiter.Interrupt()
			ended(by)
		})

		ginkgo.It("wakes one of several workers for each job", func() {
			other := s.Waiter()
			ginkgo.DeferCleanup(other.Close)
			first, second := wait(waiter, time.Minute), wait(other, time.Minute)
			s.add(named("a"))
			var r result
			Eventually(func() bool {
				select {
				case r = <-first:
					first = nil
				case r = <-second:
					second = nil
				default:
					return false
				}
				return true
			}, block).Should(BeTrue())
			Expect(r.wake.Woken).To(BeTrue())
			waiter.Interrupt()
			other.Interrupt()
			if first == nil {
				first = second
			}
			ended(first)
		})

		ginkgo.It("can return a wake-up, so that it ends the wait of another worker", func() {
			s.add(named("a"))
			r := ended(wait(waiter, time.Minute))
			Expect(waiter.Return(r.wake)).To(Succeed())
			other := s.Waiter()
			ginkgo.DeferCleanup(other.Close)
			Expect(ended(wait(other, time.Minute)).wake.Woken).To(BeTrue())

			s.add(delayed("d", time.Hour))
			due := ended(wait(waiter, time.Minute)).wake
			Expect(waiter.Return(due)).To(Succeed())
			Expect(ended(wait(other, time.Minute)).wake.NextDue).To(BeTemporally("==", due.NextDue))
		})

		ginkgo.It("returns nothing without a wake-up", func() {
			Expect(waiter.Return(backend.Wake{})).To(Succeed())
			expectNoWakeUp()
		})

		ginkgo.Describe("within a time", func() {
			ginkgo.It("ends when a job is added", func() {
				ended := make(chan error, 1)
				go func() { ended <- waiter.WaitWithin(s.ctx, time.Minute) }()
				s.add(named("a"))
				Eventually(ended, block).Should(Receive(BeNil()))
			})

			ginkgo.It("ends when the time is over", func() {
				Expect(waiter.WaitWithin(s.ctx, 20*time.Millisecond)).To(Succeed())
			})

			ginkgo.It("ends with the cause of its context", func() {
				ctx, cancel := context.WithCancelCause(s.ctx)
				ended := make(chan error, 1)
				go func() { ended <- waiter.WaitWithin(ctx, time.Minute) }()
				cancel(context.DeadlineExceeded)
				Eventually(ended, block).Should(Receive(MatchError(context.DeadlineExceeded)))
			})
		})
	})
}
