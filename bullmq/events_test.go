package bullmq_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/faultproxy"
)

var _ = Describe("QueueEvents", func() {
	var (
		name string
		ctx  context.Context
	)
	BeforeEach(func() { name, ctx = newQueueName(), specContext() })

	say := func(fields ...string) string {
		GinkgoHelper()
		id, err := redisDo(append([]string{"XADD", keyOf(name, "events"), "*"}, fields...)...).ToString()
		Expect(err).NotTo(HaveOccurred())
		return id
	}
	// first returns the first n events and fails on an error.
	first := func(n int, all iter.Seq2[bullmq.Event, error]) (events []bullmq.Event) {
		GinkgoHelper()
		for event, err := range all {
			Expect(err).NotTo(HaveOccurred())
			if events = append(events, event); len(events) == n {
				break
			}
		}
		Expect(events).To(HaveLen(n))
		return events
	}
	ids := func(events []bullmq.Event) (ids []string) {
		for _, event := range events {
			ids = append(ids, event.JobID)
		}
		return ids
	}

	DescribeTable("yields a typed event for", func(want bullmq.Event, fields ...string) {
		want.ID, want.Fields = say(fields...), fields
		event := first(1, newEvents(name, bullmq.QueueEventsOptions{LastEventID: "0-0"}).All(ctx))[0]
		Expect(event).To(Equal(want))
		Expect(event.Time()).To(BeTemporally("~", time.Now(), 5*time.Second))
	},
		Entry("added", bullmq.Event{Type: bullmq.EventAdded, JobID: "1", Name: "paint"}, "event", "added", "jobId", "1", "name", "paint"),
		Entry("waiting, of a new job", bullmq.Event{Type: bullmq.EventWaiting, JobID: "1"}, "event", "waiting", "jobId", "1"),
		Entry("waiting, after a delay", bullmq.Event{Type: bullmq.EventWaiting, JobID: "1", Prev: bullmq.StateDelayed}, "event", "waiting", "jobId", "1", "prev", "delayed"),
		Entry("active", bullmq.Event{Type: bullmq.EventActive, JobID: "1", Prev: bullmq.StateWaiting}, "event", "active", "jobId", "1", "prev", "waiting"),
		Entry("progress", bullmq.Event{Type: bullmq.EventProgress, JobID: "1", Progress: rawJSON(`{"a":1}`)}, "event", "progress", "jobId", "1", "data", `{"a":1}`),
		Entry("completed", bullmq.Event{Type: bullmq.EventCompleted, JobID: "1", ReturnValue: rawJSON(`"ok"`), Prev: bullmq.StateActive},
			"event", "completed", "jobId", "1", "returnvalue", `"ok"`, "prev", "active"),
		Entry("failed", bullmq.Event{Type: bullmq.EventFailed, JobID: "1", FailedReason: `{"a":1}`, Prev: bullmq.StateActive},
			"event", "failed", "jobId", "1", "failedReason", `{"a":1}`, "prev", "active"),
		Entry("delayed", bullmq.Event{Type: bullmq.EventDelayed, JobID: "1", DelayedUntil: time.UnixMilli(fixedNow)}, "event", "delayed", "jobId", "1", "delay", "1700000000000"),
		Entry("stalled", bullmq.Event{Type: bullmq.EventStalled, JobID: "1"}, "event", "stalled", "jobId", "1"),
		Entry("removed, whose prev is the name of the list", bullmq.Event{Type: bullmq.EventRemoved, JobID: "1", Prev: bullmq.StateWaiting}, "event", "removed", "jobId", "1", "prev", "wait"),
		Entry("duplicated", bullmq.Event{Type: bullmq.EventDuplicated, JobID: "1"}, "event", "duplicated", "jobId", "1"),
		Entry("deduplicated", bullmq.Event{Type: bullmq.EventDeduplicated, JobID: "1", DeduplicationID: "d", DeduplicatedJobID: "2"},
			"event", "deduplicated", "jobId", "1", "deduplicationId", "d", "deduplicatedJobId", "2"),
		Entry("debounced, as BullMQ 5 writes it", bullmq.Event{Type: bullmq.EventDebounced, JobID: "1", DeduplicationID: "d"}, "event", "debounced", "jobId", "1", "debounceId", "d"),
		Entry("retries-exhausted", bullmq.Event{Type: bullmq.EventRetriesExhausted, JobID: "1", AttemptsMade: 3},
			"event", "retries-exhausted", "jobId", "1", "attemptsMade", "3"),
		Entry("waiting-children", bullmq.Event{Type: bullmq.EventWaitingChildren, JobID: "1", Prev: bullmq.StateActive},
			"event", "waiting-children", "jobId", "1", "prev", "active"),
		Entry("cleaned", bullmq.Event{Type: bullmq.EventCleaned, Count: 7}, "event", "cleaned", "count", "7"),
		Entry("drained", bullmq.Event{Type: bullmq.EventDrained}, "event", "drained"),
		Entry("paused", bullmq.Event{Type: bullmq.EventPaused}, "event", "paused"),
		Entry("resumed", bullmq.Event{Type: bullmq.EventResumed}, "event", "resumed"),
		Entry("progress that is not JSON", bullmq.Event{Type: bullmq.EventProgress, JobID: "1"}, "event", "progress", "jobId", "1", "data", "half"),
		Entry("an unknown event with its own fields, some repeated", bullmq.Event{Type: "coloured", JobID: "1"},
			"event", "coloured", "jobId", "1", "colour", "red", "colour", "blue"),
		Entry("an entry without a type", bullmq.Event{JobID: "1"}, "jobId", "1"),
	)

	It("returns any field of an event by its name", func() {
		say("event", "coloured", "colour", "red")
		event := first(1, newEvents(name, bullmq.QueueEventsOptions{LastEventID: "0-0"}).All(ctx))[0]
		Expect(event.Field("colour")).To(Equal("red"))
		Expect(event.Field("size")).To(BeEmpty())
	})

	Describe("begins", func() {
		It("when the reader is made, even long before the loop", func() {
			say("event", "waiting", "jobId", "old")
			reader := newEvents(name, bullmq.QueueEventsOptions{})
			say("event", "waiting", "jobId", "a")
			say("event", "waiting", "jobId", "b")
			Expect(ids(first(2, reader.All(ctx)))).To(Equal([]string{"a", "b"}))
		})

		It("with the first event of a queue that is still empty", func() {
			reader := newEvents(name, bullmq.QueueEventsOptions{})
			say("event", "waiting", "jobId", "a")
			Expect(ids(first(1, reader.All(ctx)))).To(Equal([]string{"a"}))
		})

		It("with new events if all old ones were removed", func() {
			say("event", "waiting", "jobId", "old")
			redisDo("XTRIM", keyOf(name, "events"), "MAXLEN", "0")
			reader := newEvents(name, bullmq.QueueEventsOptions{LastEventID: "$"})
			say("event", "waiting", "jobId", "a")
			Expect(ids(first(1, reader.All(ctx)))).To(Equal([]string{"a"}))
		})

		It("after a given id, so that another reader can continue where one has ended", func() {
			for _, id := range []string{"a", "b", "c", "d"} {
				say("event", "waiting", "jobId", id)
			}
			former := newEvents(name, bullmq.QueueEventsOptions{LastEventID: "0-0"})
			Expect(ids(first(2, former.All(ctx)))).To(Equal([]string{"a", "b"}))
			Expect(former.Close()).To(Succeed())
			reader := newEvents(name, bullmq.QueueEventsOptions{LastEventID: former.LastEventID()})
			Expect(ids(first(2, reader.All(ctx)))).To(Equal([]string{"c", "d"}))
		})

		It("where the previous loop ended", func() {
			reader := newEvents(name, bullmq.QueueEventsOptions{})
			for _, id := range []string{"a", "b", "c"} {
				say("event", "waiting", "jobId", id)
			}
			Expect(ids(first(1, reader.All(ctx)))).To(Equal([]string{"a"}))
			Expect(ids(first(2, reader.All(ctx)))).To(Equal([]string{"b", "c"}))
		})
	})

	It("yields events in order and completely across several reads", func() {
		reader := newEvents(name, bullmq.QueueEventsOptions{})
		var batch []rueidis.Completed
		for n := range 2500 {
			batch = append(batch, raw.B().Xadd().Key(keyOf(name, "events")).Id("*").FieldValue().FieldValue("event", "waiting").FieldValue("jobId", strconv.Itoa(n)).Build())
		}
		raw.DoMulti(ctx, batch[:1500]...)
		raw.DoMulti(ctx, batch[1500:]...)
		for n, event := range first(2500, reader.All(ctx)) {
			Expect(event.JobID).To(Equal(strconv.Itoa(n)))
		}
	})

	It("wakes a waiting reader at once", func() {
		reader := newEvents(name, bullmq.QueueEventsOptions{})
		got := make(chan struct{})
		go func() {
			for range reader.All(ctx) {
				close(got)
				return
			}
		}()
		Eventually(func() (string, error) { result := redisDo("CLIENT", "LIST"); return result.ToString() }).Should(ContainSubstring("cmd=xread"))
		say("event", "drained")
		Eventually(got, "4s").Should(BeClosed(), "a read blocks for 10 s")
	})

	It("reads on a connection with the name that BullMQ looks for", func() {
		reader := newEvents(name, bullmq.QueueEventsOptions{})
		ending, end := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range reader.All(ending) {
			}
		}()
		want := "name=bull:" + base64.StdEncoding.EncodeToString([]byte(name)) + ":qe "
		Eventually(clientList).Should(ContainSubstring(want))
		end()
		Eventually(done).Should(BeClosed())
	})

	It("yields the same over RESP2 as over RESP3", func() {
		reader := newEvents(name, bullmq.QueueEventsOptions{
			Connection: bullmq.Options(rueidis.ClientOption{InitAddress: []string{redis.Addr()}, AlwaysRESP2: true}), LastEventID: "0-0",
		})
		say("event", "waiting", "jobId", "a", "prev", "active")
		Expect(first(1, reader.All(ctx))[0].Fields).To(Equal([]string{"event", "waiting", "jobId", "a", "prev", "active"}))
	})

	Describe("ends", func() {
		over := func(all iter.Seq2[bullmq.Event, error]) <-chan int {
			done := make(chan int)
			go func() {
				n := 0
				for range all {
					n++
				}
				done <- n
			}()
			return done
		}

		It("without an error when its context is cancelled", func() {
			ending, end := context.WithCancel(ctx)
			done := over(newEvents(name, bullmq.QueueEventsOptions{}).All(ending))
			Consistently(done, 50*time.Millisecond).ShouldNot(Receive())
			end()
			Eventually(done, "4s").Should(Receive(BeZero()))
		})

		It("at the deadline of its context", func() {
			ending, end := context.WithTimeout(ctx, 100*time.Millisecond)
			defer end()
			Eventually(over(newEvents(name, bullmq.QueueEventsOptions{}).All(ending)), "4s").Should(Receive(BeZero()))
		})

		It("without an error when the reader is closed", func() {
			reader := newEvents(name, bullmq.QueueEventsOptions{})
			done := over(reader.All(ctx))
			Consistently(done, 50*time.Millisecond).ShouldNot(Receive())
			Expect(reader.Close()).To(Succeed())
			Eventually(done, "4s").Should(Receive(BeZero()))
			Expect(reader.Close()).To(Succeed())
			Eventually(over(reader.All(ctx))).Should(Receive(BeZero()))
		})

		It("without an error when the reader is closed within the loop", func() {
			reader := newEvents(name, bullmq.QueueEventsOptions{LastEventID: "0-0"})
			say("event", "waiting", "jobId", "a")
			say("event", "waiting", "jobId", "b")
			done := make(chan []string, 1)
			go func() {
				var seen []string
				for event := range reader.All(ctx) {
					seen = append(seen, event.JobID)
					_ = reader.Close()
				}
				done <- seen
			}()
			Eventually(done).Should(Receive(Equal([]string{"a"})))
		})
	})

	Describe("over a bad link", func() {
		It("neither loses nor repeats events when connections are cut", func() {
			proxy, link := proxiedRedis()
			reader := newEvents(name, bullmq.QueueEventsOptions{Connection: link})
			const rounds, each = 5, 60
			written := 0
			// writeRound cuts the connections before and between the events that it writes.
			writeRound := func() {
				for range each {
					if written%(each/2) == 0 {
						proxy.CutAll()
					}
					say("event", "waiting", "jobId", strconv.Itoa(written))
					written++
				}
			}
			writeRound()
			var seen []string
			for event, err := range reader.All(ctx) {
				if err != nil {
					continue
				}
				if seen = append(seen, event.JobID); len(seen) == rounds*each {
					break
				}
				if len(seen) == written {
					writeRound()
				}
			}
			Expect(seen).To(HaveLen(rounds * each))
			for n := range seen {
				Expect(seen[n]).To(Equal(strconv.Itoa(n)))
			}
			Expect(proxy.Accepted()).To(BeNumerically(">", rounds))
		})

		It("reports that events cannot be read, and continues when they can", func() {
			proxy, link := proxiedRedis()
			reader := newEvents(name, bullmq.QueueEventsOptions{Connection: link})
			Expect(proxy.Set(faultproxy.Faults{Refuse: true})).To(Succeed())
			proxy.CutAll()
			said := false
			for event, err := range reader.All(ctx) {
				if err == nil {
					Expect(event.JobID).To(Equal("a"))
					break
				}
				Expect(err).To(MatchError(ContainSubstring("read the events of " + name)))
				if !said {
					said = true
					say("event", "waiting", "jobId", "a")
					Expect(proxy.Set(faultproxy.Faults{})).To(Succeed())
				}
			}
			Expect(said).To(BeTrue())
		})

		It("stops waiting when Redis does not reply", Label("slow"), func() {
			proxy, link := proxiedRedis()
			reader := newEvents(name, bullmq.QueueEventsOptions{Connection: link, BlockingTimeout: 100 * time.Millisecond})
			say("event", "waiting", "jobId", "a")
			Expect(ids(first(1, reader.All(ctx)))).To(Equal([]string{"a"}))
			Expect(proxy.Set(faultproxy.Faults{BlackHole: true})).To(Succeed())
			begun := time.Now()
			for event, err := range reader.All(ctx) {
				if err != nil {
					Expect(err).To(MatchError(ContainSubstring("no reply from Redis in time")))
					Expect(time.Since(begun)).To(BeNumerically("<", 6*time.Second))
					say("event", "waiting", "jobId", "b")
					Expect(proxy.Set(faultproxy.Faults{})).To(Succeed())
					continue
				}
				Expect(event.JobID).To(Equal("b"))
				break
			}
		})
	})

	Describe("with published events", func() {
		It("yields them as they were written", func() {
			queue := newQueue(name, nil)
			reader := newEvents(name, bullmq.QueueEventsOptions{})
			id, err := queue.Publish(ctx, "coloured", nil, "colour", "red", "jobId", "7")
			Expect(err).NotTo(HaveOccurred())
			Expect(streamAt(keyOf(name, "events"))).To(Equal([][]string{{"event", "coloured", "colour", "red", "jobId", "7"}}))
			event := first(1, reader.All(ctx))[0]
			Expect(event).To(And(HaveField("ID", id), HaveField("Type", bullmq.EventType("coloured")), HaveField("JobID", "7")))
		})

		It("keeps about as many in the stream as requested", func() {
			queue := newQueue(name, nil)
			for n := range 400 {
				_, err := queue.Publish(ctx, "coloured", &bullmq.PublishOptions{MaxEvents: 100}, "n", fmt.Sprint(n))
				Expect(err).NotTo(HaveOccurred())
			}
			Expect(len(eventsOf(name))).To(BeNumerically("~", 150, 51))
		})

		DescribeTable("keeps as many of them as the queue keeps events", func(stored string, before, atLeast int) {
			queue := newQueue(name, &bullmq.QueueOptions{SkipMetaUpdate: true})
			if stored != "" {
				redisDo("HSET", keyOf(name, "meta"), "opts.maxLenEvents", stored)
			}
			var batch []rueidis.Completed
			for range before {
				batch = append(batch, raw.B().Xadd().Key(keyOf(name, "events")).Id("*").FieldValue().FieldValue("event", "drained").Build())
			}
			for some := range slices.Chunk(batch, 500) {
				raw.DoMulti(ctx, some...)
			}
			_, err := queue.Publish(ctx, "coloured", nil)
			Expect(err).NotTo(HaveOccurred())
			Expect(len(eventsOf(name))).To(BeNumerically("~", atLeast+50, 51))
		},
			Entry("by its stored limit", "2000", 3000, 2000),
			Entry("by default", "", 1900, 1850),
			Entry("by default if the stored limit is not a number", "many", 1900, 1850),
		)

		It("keeps none of them if the queue keeps none or the call asks for none", func() {
			queue := newQueue(name, nil)
			_, err := queue.Publish(ctx, "coloured", &bullmq.PublishOptions{MaxEvents: bullmq.NoEvents})
			Expect(err).NotTo(HaveOccurred())
			Expect(eventsOf(name)).To(BeEmpty())
			queue = newQueue(name, &bullmq.QueueOptions{MaxEvents: bullmq.NoEvents})
			_, err = queue.Publish(ctx, "coloured", nil)
			Expect(err).NotTo(HaveOccurred())
			Expect(eventsOf(name)).To(BeEmpty())
		})

		It("refuses a negative stream length", func() {
			queue := newQueue(name, nil)
			_, err := queue.Publish(ctx, "coloured", &bullmq.PublishOptions{MaxEvents: -2})
			Expect(err).To(MatchError(And(ContainSubstring("event coloured"), ContainSubstring("-2 events"), ContainSubstring("NoEvents"))))
			_, err = queue.TrimEvents(ctx, -1)
			Expect(err).To(MatchError(And(ContainSubstring("the events of "+name+" were not trimmed"), ContainSubstring("max -1"))))
		})

		It("refuses a field without a value", func() {
			_, err := newQueue(name, nil).Publish(ctx, "coloured", nil, "colour")
			Expect(err).To(MatchError(ContainSubstring("pairs")))
			Expect(eventsOf(name)).To(BeEmpty())
		})
	})

	DescribeTable("refuses a BlockingTimeout that Redis would take as endless", func(wait time.Duration) {
		_, err := bullmq.NewQueueEvents(ctx, name, &bullmq.QueueEventsOptions{Connection: connection(), BlockingTimeout: wait})
		Expect(err).To(MatchError(And(ContainSubstring("BlockingTimeout"), ContainSubstring(wait.String()))))
	},
		Entry("because it is negative", -time.Second), Entry("because it is less than a millisecond", 500*time.Microsecond),
	)

	DescribeTable("refuses a LastEventID that is not the id of an event:", func(id string) {
		_, err := bullmq.NewQueueEvents(ctx, name, &bullmq.QueueEventsOptions{Connection: connection(), LastEventID: id})
		Expect(err).To(MatchError(And(ContainSubstring("LastEventID"), ContainSubstring(strconv.Quote(id)), ContainSubstring("0-0 for all"))))
	},
		Entry("a word", "newest"), Entry("a negative number", "-1"), Entry("half an id", "1-"), Entry("a job id", "bull:1"),
		Entry("more than Redis can count", "18446744073709551616-0"),
	)

	It("runs one loop at a time, and a second loop that waits ends with its context", func() {
		reader := newEvents(name, bullmq.QueueEventsOptions{})
		running, stop := context.WithCancel(ctx)
		loop := func(ctx context.Context) <-chan struct{} {
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				for range reader.All(ctx) {
				}
			}()
			return ended
		}
		first := loop(running)
		DeferCleanup(func() { stop(); Eventually(first).Should(BeClosed()) })
		Eventually(clientList).Should(ContainSubstring("cmd=xread"))
		short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		Eventually(loop(short), "4s").Should(BeClosed())
		Expect(first).NotTo(BeClosed())
	})

	It("accepts a LastEventID without its second number", func() {
		_, err := newQueue(name, nil).Publish(ctx, "coloured", nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(first(1, newEvents(name, bullmq.QueueEventsOptions{LastEventID: "0"}).All(ctx))[0].Type).To(BeEquivalentTo("coloured"))
	})
})
