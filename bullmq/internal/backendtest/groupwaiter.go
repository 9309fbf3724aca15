package backendtest

import (
	"slices"
	"time"

	"github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

func (s *suite) waitingForMany() {
	ginkgo.Describe("A wait for work in many queues", func() {
		var (
			waiter  backend.GroupWaiter
			queues  []backend.Store
			markers []string
		)
		ginkgo.BeforeEach(func() {
			s.requires(Waiters)
			waiter = s.GroupWaiter()
			ginkgo.DeferCleanup(waiter.Close)
			queues, markers = []backend.Store{s.Store}, []string{s.Marker(s.Name)}
			for _, name := range []string{s.Name + "-second", s.Name + "-third"} {
				queues, markers = append(queues, s.Another(name)), append(markers, s.Marker(name))
			}
		})

		// wait waits in the background.
		wait := func(waiter backend.GroupWaiter, atMost time.Duration, markers ...string) <-chan backend.GroupWake {
			ended := make(chan backend.GroupWake, 1)
			waiter.Begin()
			go func() {
				wake := waiter.Wait(atMost, markers)
				waiter.End()
				ended <- wake
			}()
			return ended
		}
		ended := func(by <-chan backend.GroupWake) (wake backend.GroupWake) {
			ginkgo.GinkgoHelper()
			Eventually(by, block).Should(Receive(&wake))
			Expect(wake.Err).NotTo(HaveOccurred())
			Expect(wake.Woken).To(Equal(wake.Marker != ""))
			return wake
		}
		add := func(q backend.Store, jobs ...*backend.Add) {
			ginkgo.GinkgoHelper()
			for _, result := range q.AddBatch(s.ctx, jobs) {
				Expect(result.Err).NotTo(HaveOccurred())
			}
		}

		ginkgo.It("returns the queue that has a job", func() {
			add(queues[1], named("a"))
			wake := ended(wait(waiter, time.Minute, markers...))
			Expect(wake.Marker).To(Equal(markers[1]))
			Expect(wake.NextDue).To(BeZero())
		})

		ginkgo.It("returns the queue that a job is added to", func() {
			for i := range queues {
				by := wait(waiter, time.Minute, markers...)
				add(queues[i], named("a"))
				Expect(ended(by).Marker).To(Equal(markers[i]))
			}
		})

		ginkgo.It("returns the time of a delayed job that is added", func() {
			by := wait(waiter, time.Minute, markers...)
			add(queues[2], delayed("a", time.Hour))
			wake := ended(by)
			Expect(wake.Marker).To(Equal(markers[2]))
			Expect(wake.NextDue).To(BeTemporally("~", now.Add(time.Hour), time.Second))
		})

		ginkgo.It("takes the first queue that has a job, and leaves the others", func() {
			for _, q := range queues {
				add(q, named("a"))
			}
			slices.Reverse(markers)
			for _, marker := range markers {
				Expect(ended(wait(waiter, time.Minute, markers...)).Marker).To(Equal(marker))
			}
			Expect(ended(wait(waiter, 20*time.Millisecond, markers...)).Woken).To(BeFalse())
		})

		ginkgo.It("is not ended by a job of another queue", func() {
			by := wait(waiter, time.Minute, markers[:2]...)
			add(queues[2], named("a"))
			Consistently(by, "50ms").ShouldNot(Receive())
			waiter.Interrupt()
			Expect(ended(by).Woken).To(BeFalse())
		})

		ginkgo.It("ends without a wake-up when its time is over", func() {
			Expect(ended(wait(waiter, 20*time.Millisecond, markers...)).Woken).To(BeFalse())
		})

		ginkgo.It("ends when it is interrupted, even at its very beginning", func() {
			for range 20 {
				Expect(waiter.Waiting()).To(BeFalse())
				by := wait(waiter, time.Minute, markers...)
				waiter.Interrupt()
				Expect(ended(by).Woken).To(BeFalse())
			}
		})

		ginkgo.It("is not ended by an interrupt before it", func() {
			waiter.Interrupt()
			by := wait(waiter, time.Minute, markers...)
			Consistently(by, "50ms").ShouldNot(Receive())
			waiter.Interrupt()
			ended(by)
		})

		ginkgo.It("and one for a single queue are not both woken for a job", func() {
			single := s.Waiter()
			ginkgo.DeferCleanup(single.Close)
			woken := make(chan bool, 1)
			single.Begin()
			go func() {
				wake, _, _ := single.WaitAndFetch(time.Minute, time.Now(), worker, token)
				single.End()
				woken <- wake.Woken
			}()
			many := wait(waiter, time.Minute, markers...)
			add(s.Store, named("a"))
			var wake backend.GroupWake
			Eventually(func() bool {
				select {
				case wake = <-many:
					single.Interrupt()
					return true
				case first := <-woken:
					waiter.Interrupt()
					woken <- first
					return true
				default:
					return false
				}
			}, block).Should(BeTrue())
			var one bool
			Eventually(woken, block).Should(Receive(&one))
			if !wake.Woken {
				wake = ended(many)
			}
			Expect(wake.Woken).NotTo(Equal(one))
		})

		ginkgo.It("can return wake-ups, so that they end the waits of others", func() {
			add(queues[0], named("a"))
			add(queues[1], delayed("b", time.Hour))
			first, second := ended(wait(waiter, time.Minute, markers...)), ended(wait(waiter, time.Minute, markers...))
			Expect(waiter.Return(first, backend.GroupWake{}, second)).To(Succeed())

			other := s.GroupWaiter()
			ginkgo.DeferCleanup(other.Close)
			Expect(ended(wait(other, time.Minute, markers...))).To(Equal(first))
			Expect(ended(wait(other, time.Minute, markers...))).To(Equal(second))
		})

		ginkgo.It("returns nothing without a wake-up", func() {
			Expect(waiter.Return()).To(Succeed())
			Expect(waiter.Return(backend.GroupWake{})).To(Succeed())
			Expect(ended(wait(waiter, 20*time.Millisecond, markers...)).Woken).To(BeFalse())
		})
	})
}
