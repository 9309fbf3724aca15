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

var _ = Describe("Events of a queue", func() {
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
	// first takes n events; an error ends it.
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

	DescribeTable("are typed", func(want bullmq.Event, fields ...string) {
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
		Entry("removed, by the list's own name", bullmq.Event{Type: bullmq.EventRemoved, JobID: "1", Prev: bullmq.StateWaiting}, "event", "removed", "jobId", "1", "prev", "wait"),
		Entry("duplicated", bullmq.Event{Type: bullmq.EventDuplicated, JobID: "1"}, "event", "duplicated", "jobId", "1"),
		Entry("deduplicated", bullmq.Event{Type: bullmq.EventDeduplicated, JobID: "1", DeduplicationID: "d", DeduplicatedJobID: "2"},
			"event", "deduplicated", "jobId", "1", "deduplicationId", "d", "deduplicatedJobId", "2"),
		Entry("debounced, of BullMQ 5", bullmq.Event{Type: bullmq.EventDebounced, JobID: "1", DeduplicationID: "d"}, "event", "debounced", "jobId", "1", "debounceId", "d"),
		Entry("retries-exhausted", bullmq.Event{Type: bullmq.EventRetriesExhausted, JobID: "1", AttemptsMade: 3},
			"event", "retries-exhausted", "jobId", "1", "attemptsMade", "3"),
		Entry("waiting-children", bullmq.Event{Type: bullmq.EventWaitingChildren, JobID: "1", Prev: bullmq.StateActive},
			"event", "waiting-children", "jobId", "1", "prev", "active"),
		Entry("cleaned", bullmq.Event{Type: bullmq.EventCleaned, Count: 7}, "event", "cleaned", "count", "7"),
		Entry("drained", bullmq.Event{Type: bullmq.EventDrained}, "event", "drained"),
		Entry("paused", bullmq.Event{Type: bullmq.EventPaused}, "event", "paused"),
		Entry("resumed", bullmq.Event{Type: bullmq.EventResumed}, "event", "resumed"),
		Entry("a progress that isn't JSON", bullmq.Event{Type: bullmq.EventProgress, JobID: "1"}, "event", "progress", "jobId", "1", "data", "half"),
		Entry("unknown ones, with fields of their own, some twice", bullmq.Event{Type: "coloured", JobID: "1"},
			"event", "coloured", "jobId", "1", "colour", "red", "colour", "blue"),
		Entry("an entry without a type", bullmq.Event{JobID: "1"}, "jobId", "1"),
	)

	It("hand out any field by its name", func() {
		say("event", "coloured", "colour", "red")
		event := first(1, newEvents(name, bullmq.QueueEventsOptions{LastEventID: "0-0"}).All(ctx))[0]
		Expect(event.Field("colour")).To(Equal("red"))
		Expect(event.Field("size")).To(BeEmpty())
	})

	Describe("begin", func() {
		It("when the reader is made, be it long before the loop", func() {
			say("event", "waiting", "jobId", "old")
			reader := newEvents(name, bullmq.QueueEventsOptions{})
			say("event", "waiting", "jobId", "a")
			say("event", "waiting", "jobId", "b")
			Expect(ids(first(2, reader.All(ctx)))).To(Equal([]string{"a", "b"}))
		})

		It("with the first one of a queue that is still empty", func() {
			reader := newEvents(name, bullmq.QueueEventsOptions{})
			say("event", "waiting", "jobId", "a")
			Expect(ids(first(1, reader.All(ctx)))).To(Equal([]string{"a"}))
		})

		It("at the new ones where all the old have been removed", func() {
			say("event", "waiting", "jobId", "old")
			redisDo("XTRIM", keyOf(name, "events"), "MAXLEN", "0")
			reader := newEvents(name, bullmq.QueueEventsOptions{LastEventID: "$"})
			say("event", "waiting", "jobId", "a")
			Expect(ids(first(1, reader.All(ctx)))).To(Equal([]string{"a"}))
		})

		It("after an id, so that another reader can go on where one has ended", func() {
			for _, id := range []string{"a", "b", "c", "d"} {
				say("event", "waiting", "jobId", id)
			}
			former := newEvents(name, bullmq.QueueEventsOptions{LastEventID: "0-0"})
			Expect(ids(first(2, former.All(ctx)))).To(Equal([]string{"a", "b"}))
			Expect(former.Close()).To(Succeed())
			reader := newEvents(name, bullmq.QueueEventsOptions{LastEventID: former.LastEventID()})
			Expect(ids(first(2, reader.All(ctx)))).To(Equal([]string{"c", "d"}))
		})

		It("anew where the loop before was left", func() {
			reader := newEvents(name, bullmq.QueueEventsOptions{})
			for _, id := range []string{"a", "b", "c"} {
				say("event", "waiting", "jobId", id)
			}
			Expect(ids(first(1, reader.All(ctx)))).To(Equal([]string{"a"}))
			Expect(ids(first(2, reader.All(ctx)))).To(Equal([]string{"b", "c"}))
		})
	})

	It("come in order and in full, more than one read takes", func() {
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

	It("wake a reader that waits, at once", func() {
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

	It("are read on a connection that BullMQ finds by its name", func() {
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

	It("come over RESP2 as over RESP3", func() {
		reader := newEvents(name, bullmq.QueueEventsOptions{
			Connection: bullmq.Options(rueidis.ClientOption{InitAddress: []string{redis.Addr()}, AlwaysRESP2: true}), LastEventID: "0-0",
		})
		say("event", "waiting", "jobId", "a", "prev", "active")
		Expect(first(1, reader.All(ctx))[0].Fields).To(Equal([]string{"event", "waiting", "jobId", "a", "prev", "active"}))
	})

	Describe("end", func() {
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

		It("with the context, without an error", func() {
			ending, end := context.WithCancel(ctx)
			done := over(newEvents(name, bullmq.QueueEventsOptions{}).All(ending))
			Consistently(done, 50*time.Millisecond).ShouldNot(Receive())
			end()
			Eventually(done, "4s").Should(Receive(BeZero()))
		})

		It("with a context that has a deadline", func() {
			ending, end := context.WithTimeout(ctx, 100*time.Millisecond)
			defer end()
			Eventually(over(newEvents(name, bullmq.QueueEventsOptions{}).All(ending)), "4s").Should(Receive(BeZero()))
		})

		It("when the reader is closed, without an error", func() {
			reader := newEvents(name, bullmq.QueueEventsOptions{})
			done := over(reader.All(ctx))
			Consistently(done, 50*time.Millisecond).ShouldNot(Receive())
			Expect(reader.Close()).To(Succeed())
			Eventually(done, "4s").Should(Receive(BeZero()))
			Expect(reader.Close()).To(Succeed())
			Eventually(over(reader.All(ctx))).Should(Receive(BeZero()))
		})

		It("when the reader is closed within the loop", func() {
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
		It("are neither lost nor repeated when connections are cut", func() {
			proxy, link := proxiedRedis()
			reader := newEvents(name, bullmq.QueueEventsOptions{Connection: link})
			const rounds, each = 5, 60
			written := 0
			// writeRound cuts the connections before and amidst the events that it writes.
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

		It("are told to be out of reach, and go on when they can be read again", func() {
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
				Expect(err).To(MatchError(ContainSubstring("reading the events of " + name)))
				if !said {
					said = true
					say("event", "waiting", "jobId", "a")
					Expect(proxy.Set(faultproxy.Faults{})).To(Succeed())
				}
			}
			Expect(said).To(BeTrue())
		})

		It("aren't waited for without end when the link falls silent", func() {
			proxy, link := proxiedRedis()
			reader := newEvents(name, bullmq.QueueEventsOptions{Connection: link, BlockingTimeout: 100 * time.Millisecond})
			say("event", "waiting", "jobId", "a")
			Expect(ids(first(1, reader.All(ctx)))).To(Equal([]string{"a"}))
			Expect(proxy.Set(faultproxy.Faults{BlackHole: true})).To(Succeed())
			begun := time.Now()
			for event, err := range reader.All(ctx) {
				if err != nil {
					Expect(err).To(MatchError(ContainSubstring("no reply from Redis in time")))
					Expect(time.Since(begun)).To(BeNumerically("<", 3*time.Second))
					say("event", "waiting", "jobId", "b")
					Expect(proxy.Set(faultproxy.Faults{})).To(Succeed())
					continue
				}
				Expect(event.JobID).To(Equal("b"))
				break
			}
		})
	})

	Describe("of one's own", func() {
		It("are written as they are given, and read as such", func() {
			queue := newQueue(name, nil)
			reader := newEvents(name, bullmq.QueueEventsOptions{})
			id, err := queue.Publish(ctx, "coloured", 0, "colour", "red", "jobId", "7")
			Expect(err).NotTo(HaveOccurred())
			Expect(streamAt(keyOf(name, "events"))).To(Equal([][]string{{"event", "coloured", "colour", "red", "jobId", "7"}}))
			event := first(1, reader.All(ctx))[0]
			Expect(event).To(And(HaveField("ID", id), HaveField("Type", bullmq.EventType("coloured")), HaveField("JobID", "7")))
		})

		It("keep the stream to about as many as asked for", func() {
			queue := newQueue(name, nil)
			for n := range 400 {
				_, err := queue.Publish(ctx, "coloured", 100, "n", fmt.Sprint(n))
				Expect(err).NotTo(HaveOccurred())
			}
			Expect(len(eventsOf(name))).To(BeNumerically("~", 150, 51))
		})

		DescribeTable("keep as many events of others as the queue does", func(stored string, before, atLeast int) {
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
			_, err := queue.Publish(ctx, "coloured", 0)
			Expect(err).NotTo(HaveOccurred())
			Expect(len(eventsOf(name))).To(BeNumerically("~", atLeast+50, 51))
		},
			Entry("by what is stored", "2000", 3000, 2000),
			Entry("by default", "", 1900, 1850),
			Entry("by default, where what is stored is no number", "many", 1900, 1850),
		)

		It("keep none where the queue keeps none, or where that is asked for", func() {
			queue := newQueue(name, nil)
			_, err := queue.Publish(ctx, "coloured", bullmq.NoEvents)
			Expect(err).NotTo(HaveOccurred())
			Expect(eventsOf(name)).To(BeEmpty())
			queue = newQueue(name, &bullmq.QueueOptions{MaxEvents: bullmq.NoEvents})
			_, err = queue.Publish(ctx, "coloured", 0)
			Expect(err).NotTo(HaveOccurred())
			Expect(eventsOf(name)).To(BeEmpty())
		})

		It("are refused where the stream is to keep less than none", func() {
			queue := newQueue(name, nil)
			_, err := queue.Publish(ctx, "coloured", -2)
			Expect(err).To(MatchError(And(ContainSubstring("event coloured"), ContainSubstring("-2 events"), ContainSubstring("NoEvents"))))
			_, err = queue.TrimEvents(ctx, -1)
			Expect(err).To(MatchError(And(ContainSubstring("the events of "+name+" were not trimmed"), ContainSubstring("max -1"))))
		})

		It("are refused where a field has no value", func() {
			_, err := newQueue(name, nil).Publish(ctx, "coloured", 0, "colour")
			Expect(err).To(MatchError(ContainSubstring("pairs")))
			Expect(eventsOf(name)).To(BeEmpty())
		})
	})

	DescribeTable("can't be read with a wait that Redis would take for endless", func(wait time.Duration) {
		_, err := bullmq.NewQueueEvents(ctx, name, &bullmq.QueueEventsOptions{Connection: connection(), BlockingTimeout: wait})
		Expect(err).To(MatchError(And(ContainSubstring("BlockingTimeout"), ContainSubstring(wait.String()))))
	},
		Entry("negative", -time.Second), Entry("less than a millisecond", 500*time.Microsecond),
	)

	DescribeTable("can't be read from what is no id of an event", func(id string) {
		_, err := bullmq.NewQueueEvents(ctx, name, &bullmq.QueueEventsOptions{Connection: connection(), LastEventID: id})
		Expect(err).To(MatchError(And(ContainSubstring("LastEventID"), ContainSubstring(strconv.Quote(id)), ContainSubstring("0-0 for all"))))
	},
		Entry("a word", "newest"), Entry("below zero", "-1"), Entry("half an id", "1-"), Entry("a job's id", "bull:1"),
		Entry("more than Redis counts to", "18446744073709551616-0"),
	)

	It("are read by one loop at a time, and one that waits for another ends with its context", func() {
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

	It("can be read from an id without its second number", func() {
		_, err := newQueue(name, nil).Publish(ctx, "coloured", 0)
		Expect(err).NotTo(HaveOccurred())
		Expect(first(1, newEvents(name, bullmq.QueueEventsOptions{LastEventID: "0"}).All(ctx))[0].Type).To(BeEquivalentTo("coloured"))
	})
})
