package backendtest

import (
	"time"

	"github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

func (s *suite) watchingQueues() {
	ginkgo.It("returns the last events of queues in the order of the call", func() {
		queues := s.members(3)
		s.fill(queues[1], &backend.Add{Name: "a"})
		last, err := s.Queues.LastEvents(s.ctx, keysOf(queues))
		Expect(err).NotTo(HaveOccurred())
		Expect(last).To(HaveLen(3))
		Expect(last[0]).To(Equal(backend.LastEvent{ID: "0-0"}))
		Expect(last[2]).To(Equal(backend.LastEvent{ID: "0-0"}))
		position, err := queues[1].LastEvent(s.ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(last[1].ID).To(Equal(position.ID))
		Expect(s.Queues.LastEvents(s.ctx, nil)).To(BeEmpty())
	})

	ginkgo.Describe("A wait for events of many queues", func() {
		var (
			waiter backend.EventsWaiter
			queues []member
			after  []backend.EventsAfter
		)
		ginkgo.BeforeEach(func() {
			s.requires(Waiters)
			waiter = s.EventsWaiter()
			ginkgo.DeferCleanup(waiter.Close)
			queues, after = s.members(3), nil
			for _, queue := range queues {
				after = append(after, backend.EventsAfter{Queue: queue.key, ID: "0-0"})
			}
		})
		type result struct {
			changed []int
			err     error
		}
		wait := func(atMost time.Duration) <-chan result {
			ended := make(chan result, 1)
			waiter.Begin()
			go func() {
				changed, err := waiter.Wait(atMost, after)
				waiter.End()
				ended <- result{changed, err}
			}()
			return ended
		}

		ginkgo.It("returns all queues that have events after their positions", func() {
			s.fill(queues[0], &backend.Add{Name: "a"}, &backend.Add{Name: "a"})
			s.fill(queues[2], &backend.Add{Name: "a"})
			Eventually(wait(time.Minute), block).Should(Receive(Equal(result{changed: []int{0, 2}})))
			Expect(waiter.Poll(s.ctx, after)).To(Equal([]int{0, 2}))
			last, err := s.Queues.LastEvents(s.ctx, keysOf(queues))
			Expect(err).NotTo(HaveOccurred())
			after[0].ID, after[2].ID = last[0].ID, last[2].ID
			Expect(waiter.Poll(s.ctx, after)).To(BeEmpty())
			by := wait(time.Minute)
			Consistently(by, "50ms").ShouldNot(Receive())
			s.fill(queues[1], &backend.Add{Name: "a"})
			Eventually(by, block).Should(Receive(Equal(result{changed: []int{1}})))
		})

		ginkgo.It("ends without events when its time is over", func() {
			Eventually(wait(20*time.Millisecond), block).Should(Receive(Equal(result{})))
		})

		ginkgo.It("ends when it is interrupted, even at its very beginning", func() {
			for range 20 {
				by := wait(time.Minute)
				waiter.Interrupt()
				Eventually(by, block).Should(Receive(Equal(result{})))
			}
		})
	})
}
