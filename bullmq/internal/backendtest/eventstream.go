package backendtest

import (
	"context"
	"fmt"
	"time"

	"github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

// block is the timeout of reads and waits in specs in which they end earlier.
const block = 10 * time.Second

func (s *suite) eventStream() {
	ginkgo.Describe("An event stream", func() {
		var stream backend.EventStream
		ginkgo.BeforeEach(func() {
			s.requires(EventStreams)
			stream = s.EventStream()
			ginkgo.DeferCleanup(stream.Close)
		})

		// publish writes custom events and returns their ids.
		publish := func(names ...string) (ids []string) {
			ginkgo.GinkgoHelper()
			for _, name := range names {
				id, err := s.Store.Publish(s.ctx, 10000, []string{"event", "custom", "name", name})
				Expect(err).NotTo(HaveOccurred())
				ids = append(ids, id)
			}
			return ids
		}
		last := func() backend.EventPosition {
			ginkgo.GinkgoHelper()
			position, err := s.Store.LastEvent(s.ctx)
			Expect(err).NotTo(HaveOccurred())
			return position
		}
		// read reads until count events have come. It returns their names, and how many events were missed.
		read := func(count int) (names []string, missed int) {
			ginkgo.GinkgoHelper()
			for len(names) < count {
				page, err := stream.Read(s.ctx, block)
				Expect(err).NotTo(HaveOccurred())
				missed += page.Missed
				for _, event := range page.Events {
					stream.Advance(event.ID)
					names = append(names, fieldsOf(&event)["name"])
				}
			}
			return names, missed
		}

		ginkgo.It("returns the events after a position, in order, with their fields in order", func() {
			publish("before")
			position := last()
			ids := publish("a", "b")
			stream.StartAt(position)
			stream.Resume()
			page, err := stream.Read(s.ctx, block)
			Expect(err).NotTo(HaveOccurred())
			Expect(page.Events).To(Equal([]backend.Event{
				{ID: ids[0], Fields: []string{"event", "custom", "name", "a"}}, {ID: ids[1], Fields: []string{"event", "custom", "name", "b"}},
			}))
			Expect(page.Missed).To(BeZero())
			Expect(page.MaybeMissed).To(BeFalse())
		})

		ginkgo.It("returns events again until the position is advanced past them", func() {
			position := last()
			ids := publish("a", "b")
			stream.StartAt(position)
			stream.Resume()
			for range 2 {
				page, err := stream.Read(s.ctx, block)
				Expect(err).NotTo(HaveOccurred())
				Expect(page.Events).To(HaveLen(2))
			}
			stream.Advance(ids[0])
			page, err := stream.Read(s.ctx, block)
			Expect(err).NotTo(HaveOccurred())
			Expect(page.Events).To(HaveExactElements(HaveField("ID", ids[1])))
		})

		ginkgo.It("starts after the event with an id, or with the first event", func() {
			ids := publish("a", "b", "c")
			stream.StartAfter(ids[0])
			stream.Resume()
			names, _ := read(2)
			Expect(names).To(Equal([]string{"b", "c"}))
			stream.StartAfter("0-0")
			stream.Resume()
			names, _ = read(3)
			Expect(names).To(Equal([]string{"a", "b", "c"}))
		})

		ginkgo.It("waits for an event that comes later", func() {
			stream.StartAt(last())
			stream.Resume()
			var names []string
			done := make(chan struct{})
			go func() {
				defer close(done)
				defer ginkgo.GinkgoRecover()
				names, _ = read(1)
			}()
			publish("later")
			Eventually(done, block).Should(BeClosed())
			Expect(names).To(Equal([]string{"later"}))
		})

		ginkgo.It("returns no events when the time is over", func() {
			stream.StartAt(last())
			stream.Resume()
			page, err := stream.Read(s.ctx, 20*time.Millisecond)
			Expect(err).NotTo(HaveOccurred())
			Expect(page.Events).To(BeEmpty())
		})

		ginkgo.It("ends a read with its context", func() {
			stream.StartAt(last())
			stream.Resume()
			ctx, cancel := context.WithCancel(s.ctx)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_, _ = stream.Read(ctx, time.Minute)
			}()
			cancel()
			Eventually(ended, block).Should(BeClosed())
		})

		ginkgo.It("returns all of many events, in pages", func() {
			position := last()
			var want []string
			for n := range 2500 {
				want = append(want, fmt.Sprint(n))
			}
			publish(want...)
			stream.StartAt(position)
			stream.Resume()
			names, missed := read(len(want))
			Expect(names).To(Equal(want))
			Expect(missed).To(BeZero())
		})

		ginkgo.It("reports that events were removed before they could be read", func() {
			s.requires(MissedEvents)
			stream.StartAt(last())
			publish("a", "b", "c")
			Expect(s.Store.TrimEvents(s.ctx, 0)).To(Equal(3))
			publish("d")
			stream.Resume()
			page, err := stream.Read(s.ctx, block)
			Expect(err).NotTo(HaveOccurred())
			Expect(page.Events).To(HaveLen(1))
			Expect(page.MaybeMissed).To(BeTrue())
			Expect(page.Missed).To(BeNumerically("<=", 3), "at least so many are known")
		})

		ginkgo.It("continues at the beginning of a stream that was created anew", func() {
			publish("a", "b")
			stream.StartAt(last())
			stream.Resume()
			Expect(s.Store.Pause(s.ctx)).To(Succeed())
			Expect(s.Store.Obliterate(s.ctx, 100, true)).To(BeFalse())
			var seen []backend.Event
			restarted := false
			Eventually(func() []backend.Event {
				page, err := stream.Read(s.ctx, 20*time.Millisecond)
				Expect(err).NotTo(HaveOccurred())
				restarted = restarted || page.Restart != ""
				for _, event := range page.Events {
					stream.Advance(event.ID)
				}
				if seen = append(seen, page.Events...); restarted && len(seen) == 0 {
					publish("first")
				}
				return seen
			}, block).ShouldNot(BeEmpty())
			Expect(fieldsOf(&seen[0])).To(HaveKeyWithValue("name", "first"))
		})
	})
}
