package bullmq_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/faultproxy"
)

var _ = Describe("A reader of events", func() {
	var (
		name string
		ctx  context.Context
	)
	BeforeEach(func() { name, ctx = newQueueName(), specContext() })

	// say publishes an event for each job from from to to, inclusive.
	say := func(from, to int) {
		GinkgoHelper()
		for n := from; n <= to; n++ {
			Expect(redisDo("XADD", keyOf(name, "events"), "*", "event", "waiting", "jobId", strconv.Itoa(n)).Error()).To(Succeed())
		}
	}
	keep := func(n int) {
		GinkgoHelper()
		Expect(redisDo("XTRIM", keyOf(name, "events"), "MAXLEN", strconv.Itoa(n)).Error()).To(Succeed())
	}
	// reading reads all events in the background; each line is a job's id, with the number of missed events, if any.
	reading := func(reader *bullmq.QueueEvents) <-chan string {
		lines, done := make(chan string, 100), make(chan struct{})
		loop, stop := context.WithCancel(ctx)
		go func() {
			defer close(done)
			for event, err := range reader.All(loop) {
				switch {
				case err != nil:
				case event.Missed == 0:
					lines <- event.JobID
				default:
					lines <- fmt.Sprintf("%s after %d missed", event.JobID, event.Missed)
				}
			}
		}()
		DeferCleanup(func() { stop(); <-done })
		return lines
	}
	// next reads n events in a new loop.
	next := func(reader *bullmq.QueueEvents, n int) (lines []string) {
		GinkgoHelper()
		for event, err := range reader.All(ctx) {
			Expect(err).NotTo(HaveOccurred())
			line := event.JobID
			if event.Missed > 0 {
				line = fmt.Sprintf("%s after %d missed", event.JobID, event.Missed)
			}
			if lines = append(lines, line); len(lines) == n {
				break
			}
		}
		return lines
	}
	waits := func() { Eventually(clientList).Should(ContainSubstring("cmd=xread")) }

	Describe("reports how many trimmed events it missed", func() {
		It("while its loop handled an event", func() {
			reader := newEvents(name, bullmq.QueueEventsOptions{})
			say(1, 1)
			var lines []string
			for event, err := range reader.All(ctx) {
				Expect(err).NotTo(HaveOccurred())
				lines = append(lines, fmt.Sprint(event.JobID, " ", event.Missed))
				switch event.JobID {
				case "1":
					say(2, 50)
					keep(3)
				case "50":
					say(51, 60)
					keep(1)
				}
				time.Sleep(time.Millisecond) // a reader that is away for less does not ask
				if event.JobID == "60" {
					break
				}
			}
			Expect(lines).To(Equal([]string{"1 0", "48 46", "49 0", "50 0", "60 9"}))
		})

		It("when more arrived at once than the stream keeps, while it waited", func() {
			queue := newQueue(name, &bullmq.QueueOptions{MaxEvents: 100})
			reader := newEvents(name, bullmq.QueueEventsOptions{})
			seen, missed := 0, 0
			done := make(chan struct{})
			go func() {
				defer close(done)
				for event := range reader.All(ctx) {
					seen++
					if missed += event.Missed; seen+missed == 2000 {
						return
					}
				}
			}()
			waits()
			_, err := queue.AddBulk(ctx, make([]bullmq.BulkJob, 1000))
			Expect(err).NotTo(HaveOccurred())
			Eventually(done).Should(BeClosed())
			Expect(seen).To(BeNumerically("<", 400))
		})

		It("after an outage", func() {
			proxy, link := proxiedRedis()
			reader := newEvents(name, bullmq.QueueEventsOptions{Connection: link})
			lines := reading(reader)
			say(1, 1)
			Eventually(lines).Should(Receive(Equal("1")))
			Expect(proxy.Set(faultproxy.Faults{Refuse: true})).To(Succeed())
			proxy.CutAll()
			say(2, 9)
			keep(2)
			Expect(proxy.Set(faultproxy.Faults{})).To(Succeed())
			Eventually(lines).Should(Receive(Equal("8 after 6 missed")))
			Eventually(lines).Should(Receive(Equal("9")))
		})

		It("between two loops", func() {
			reader := newEvents(name, bullmq.QueueEventsOptions{LastEventID: "0-0"})
			say(1, 3)
			Expect(next(reader, 2)).To(Equal([]string{"1", "2"}))
			say(4, 9)
			keep(2)
			Expect(next(reader, 2)).To(Equal([]string{"8 after 5 missed", "9"}))
		})

		It("with the next event, if the stream is empty", func() {
			reader := newEvents(name, bullmq.QueueEventsOptions{})
			say(1, 4)
			keep(0)
			lines := reading(reader)
			waits()
			say(5, 5)
			Eventually(lines).Should(Receive(Equal("5 after 4 missed")))
		})

		It("(at least one) if it starts after an event that is gone", func() {
			say(1, 9)
			first := newEvents(name, bullmq.QueueEventsOptions{LastEventID: "0-0"})
			Expect(next(first, 2)).To(Equal([]string{"1", "2"}))
			keep(2)
			Expect(next(newEvents(name, bullmq.QueueEventsOptions{LastEventID: first.LastEventID()}), 2)).To(Equal([]string{"8 after 1 missed", "9"}))
		})

		It("even if events that it had read were deleted before", func() {
			reader := newEvents(name, bullmq.QueueEventsOptions{})
			say(1, 3)
			Expect(next(reader, 3)).To(Equal([]string{"1", "2", "3"}))
			ids := streamIDs(name)
			Expect(redisDo("XDEL", keyOf(name, "events"), ids[1]).Error()).To(Succeed())
			say(4, 9)
			keep(2)
			Expect(next(reader, 2)).To(Equal([]string{"8 after 4 missed", "9"}))
		})
	})

	Describe("does not report events as missed", func() {
		It("that others deleted", func() {
			reader := newEvents(name, bullmq.QueueEventsOptions{})
			say(1, 6)
			Expect(next(reader, 1)).To(Equal([]string{"1"}))
			ids := streamIDs(name)
			Expect(redisDo("XDEL", keyOf(name, "events"), ids[0], ids[2], ids[1]).Error()).To(Succeed())
			Expect(next(reader, 1)).To(Equal([]string{"4"}))
			Expect(next(reader, 2)).To(Equal([]string{"5", "6"}))
			say(7, 7)
			Expect(next(reader, 1)).To(Equal([]string{"7"}))
		})

		It("that it had read before they were trimmed", func() {
			reader := newEvents(name, bullmq.QueueEventsOptions{})
			say(1, 3)
			Expect(next(reader, 3)).To(Equal([]string{"1", "2", "3"}))
			keep(0)
			say(4, 5)
			Expect(next(reader, 2)).To(Equal([]string{"4", "5"}))
			keep(0)
			lines := reading(reader)
			waits()
			say(6, 6)
			Eventually(lines).Should(Receive(Equal("6")))
		})

		It("that were trimmed before it was made", func() {
			say(1, 9)
			keep(2)
			Expect(next(newEvents(name, bullmq.QueueEventsOptions{LastEventID: "0-0"}), 2)).To(Equal([]string{"8", "9"}))
			reader := newEvents(name, bullmq.QueueEventsOptions{})
			say(10, 10)
			Expect(next(reader, 1)).To(Equal([]string{"10"}))
		})

		It("when its queue is drained or obliterated and used again", func() {
			queue := newQueue(name, nil)
			reader := newEvents(name, bullmq.QueueEventsOptions{})
			_, err := queue.AddBulk(ctx, make([]bullmq.BulkJob, 20))
			Expect(err).NotTo(HaveOccurred())
			Expect(next(reader, 1)).To(Equal([]string{"1"}))
			Expect(queue.Drain(ctx, &bullmq.DrainOptions{Delayed: true})).To(Succeed())
			Expect(queue.Obliterate(ctx, nil)).To(Succeed())
			_, err = queue.AddBulk(ctx, make([]bullmq.BulkJob, 10))
			Expect(err).NotTo(HaveOccurred())
			for _, line := range next(reader, 20) {
				Expect(line).NotTo(ContainSubstring("missed"))
			}
		})

		It("when it may not read the state of the stream", func() {
			reader := newEvents(name, bullmq.QueueEventsOptions{Connection: restricted("~bull:* +xread +xrevrange"), LastEventID: "0-0"})
			say(1, 20)
			Expect(next(reader, 1)).To(Equal([]string{"1"}))
			keep(1)
			Expect(next(reader, 1)).To(Equal([]string{"20"}))
		})
	})

	It("makes no calls besides its reads while it keeps up", func() {
		asked := func() int {
			text, err := redisDo("INFO", "commandstats").ToString()
			Expect(err).NotTo(HaveOccurred())
			_, after, _ := strings.Cut(text, "cmdstat_xinfo|stream:calls=")
			calls, _, _ := strings.Cut(after, ",")
			n, _ := strconv.Atoi(calls)
			return n
		}
		const events = 200
		lines := reading(newEvents(name, bullmq.QueueEventsOptions{}))
		waits()
		before := asked()
		for n := range events {
			say(n, n)
			Eventually(lines).Should(Receive())
		}
		Expect(asked()-before).To(BeNumerically("<", events/4), "a busy machine may stop the reader for a moment")
	})

	Describe("whose stream was deleted continues", func() {
		It("with smaller ids, as after a clock was set back", func() {
			reader := newEvents(name, bullmq.QueueEventsOptions{BlockingTimeout: 50 * time.Millisecond})
			Expect(redisDo("XADD", keyOf(name, "events"), "99999999999999-0", "event", "waiting", "jobId", "old").Error()).To(Succeed())
			lines := reading(reader)
			Eventually(lines).Should(Receive(Equal("old")))
			Expect(redisDo("DEL", keyOf(name, "events")).Error()).To(Succeed())
			say(1, 2)
			Eventually(lines).Should(Receive(Equal("1")))
			Eventually(lines).Should(Receive(Equal("2")))
			say(3, 3)
			Eventually(lines).Should(Receive(Equal("3")))
		})

		It("without repeating events if only the last ones are missing, as after a failover", func() {
			reader := newEvents(name, bullmq.QueueEventsOptions{BlockingTimeout: 50 * time.Millisecond})
			lines := reading(reader)
			add := func(ids ...int) {
				for _, id := range ids {
					Expect(redisDo("XADD", keyOf(name, "events"), fmt.Sprint(id, "-0"), "event", "waiting", "jobId", strconv.Itoa(id)).Error()).To(Succeed())
				}
			}
			add(1, 2, 3, 4)
			for n := 1; n <= 4; n++ {
				Eventually(lines).Should(Receive(Equal(strconv.Itoa(n))))
			}
			Expect(redisDo("DEL", keyOf(name, "events")).Error()).To(Succeed())
			add(1, 2)
			Eventually(reader.LastEventID).Should(Equal("2-0"))
			add(3, 4)
			Eventually(lines).Should(Receive(Equal("3")))
			Eventually(lines).Should(Receive(Equal("4")))
		})
	})
})

// streamIDs returns the ids of the entries in a queue's stream.
func streamIDs(name string) (ids []string) {
	GinkgoHelper()
	entries, err := redisDo("XRANGE", keyOf(name, "events"), "-", "+").AsXRange()
	Expect(err).NotTo(HaveOccurred())
	for _, entry := range entries {
		ids = append(ids, entry.ID)
	}
	return slices.Clip(ids)
}
