package bullmq_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("A queue's name", func() {
	DescribeTable("is refused if it would break keys:", func(name, hint string) {
		_, err := bullmq.NewQueue(context.Background(), name, &bullmq.QueueOptions{Connection: connection()})
		Expect(err).To(MatchError(ContainSubstring(hint)))
		_, err = bullmq.NewWorker(context.Background(), name, doNothing, &bullmq.WorkerOptions{Connection: connection()})
		Expect(err).To(MatchError(ContainSubstring(hint)))
		_, err = bullmq.NewQueueEvents(context.Background(), name, &bullmq.QueueEventsOptions{Connection: connection()})
		Expect(err).To(MatchError(ContainSubstring(hint)))
	},
		Entry("a colon", "a:b", `"a:b" must not contain a colon`),
		Entry("an empty name", "", "needs a name"),
	)

	DescribeTable("may contain anything else, and its jobs run:", func(name string) {
		name += newQueueName()
		queue, ctx := newQueue(name, nil), specContext()
		runWorker(name, func(_ context.Context, job *bullmq.Job) (any, error) { return job.QueueName(), nil }, nil)
		job, err := queue.Add(ctx, "paint", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(job.Wait(ctx, queue)).To(MatchJSON(strconv.Quote(name)))
		Expect(hashAt(keyOf(name, "1"))).To(HaveKeyWithValue("name", "paint"))
	},
		Entry("braces", "{x}"),
		Entry("emoji", "é😀"),
		Entry("a space", "a b"),
		Entry("a slash", "a/b"),
	)
})

var _ = Describe("Opening a queue", func() {
	DescribeTable("fails with an error that names the invalid option:", func(options bullmq.QueueOptions, hint string) {
		name := newQueueName()
		options.Connection = connection()
		_, err := bullmq.NewQueue(context.Background(), name, &options)
		Expect(err).To(MatchError(And(ContainSubstring("queue "+name), ContainSubstring(hint))))
		Expect(snapshot(name)).To(BeEmpty())
	},
		Entry("a negative stream length", bullmq.QueueOptions{MaxEvents: -2}, "MaxEvents -2 is less than 0: use NoEvents to keep none"),
		Entry("a negative wait", bullmq.QueueOptions{AddWait: -time.Second}, "AddWait -1s is less than 0"),
		Entry("a negative batch size", bullmq.QueueOptions{BatchSize: -1}, "BatchSize -1"),
	)

	It("stores the stream length and the SDK's version only", func() {
		name := newQueueName()
		newQueue(name, nil)
		Expect(snapshot(name)).To(Equal(map[string]any{
			keyOf(name, "meta"): map[string]string{"opts.maxLenEvents": "10000", "version": "bullmq:6.7.0"},
		}))
	})

	It("overwrites the stream length and keeps an existing version", func() {
		name := newQueueName()
		redisDo("HSET", keyOf(name, "meta"), "version", "bullmq:5.81.5", "opts.maxLenEvents", "77", "paused", "1")
		newQueue(name, &bullmq.QueueOptions{MaxEvents: 500})
		Expect(hashAt(keyOf(name, "meta"))).To(Equal(map[string]string{"version": "bullmq:5.81.5", "opts.maxLenEvents": "500", "paused": "1"}))
	})

	DescribeTable("stores that no events are kept, as Node does, so that none accumulate", func(dialect bullmq.Dialect) {
		name, ctx := newQueueName(), specContext()
		queue := newQueue(name, &bullmq.QueueOptions{MaxEvents: bullmq.NoEvents, Dialect: dialect})
		Expect(hashAt(keyOf(name, "meta"))).To(HaveKeyWithValue("opts.maxLenEvents", "0"))
		Expect(queue.Meta(ctx)).To(HaveField("MaxEvents", bullmq.NoEvents))
		_, err := queue.AddBulk(ctx, make([]bullmq.BulkJob, 300))
		Expect(err).NotTo(HaveOccurred())
		for n := range 50 {
			_, err := queue.Add(ctx, "paint", n, &bullmq.JobOptions{Delay: time.Duration(n%2) * time.Millisecond, Priority: n % 3})
			Expect(err).NotTo(HaveOccurred())
			_, err = queue.Publish(ctx, "mine", nil)
			Expect(err).NotTo(HaveOccurred())
		}
		Expect(eventsOf(name)).To(BeEmpty())
		runWorker(name, doNothing, &bullmq.WorkerOptions{Dialect: dialect, Concurrency: 10})
		Eventually(countOf(queue, bullmq.StateCompleted)).Should(Equal(350))
		Expect(len(eventsOf(name))).To(BeNumerically("<", 100), "what one call has written is removed by the next")
		Expect(hashAt(keyOf(name, "meta"))).To(HaveKeyWithValue("opts.maxLenEvents", "0"))
	},
		Entry("of BullMQ 6", bullmq.V6), Entry("of BullMQ 5", bullmq.V5),
	)

	DescribeTable("reads the number of events to keep from what others have stored:", func(stored string, want int) {
		name := newQueueName()
		redisDo("HSET", keyOf(name, "meta"), "opts.maxLenEvents", stored)
		Expect(newQueue(name, &bullmq.QueueOptions{SkipMetaUpdate: true}).Meta(specContext())).To(HaveField("MaxEvents", want))
	},
		Entry("a number", "77", 77), Entry("zero", "0", bullmq.NoEvents), Entry("a word", "many", 0), Entry("a negative number", "-1", 0), Entry("an empty value", "", 0),
	)

	It("writes nothing with SkipMetaUpdate", func() {
		name := newQueueName()
		newQueue(name, &bullmq.QueueOptions{SkipMetaUpdate: true})
		Expect(keysOf(name)).To(BeEmpty())
	})

	It("uses the given prefix for all its keys", func() {
		name, prefix := newQueueName(), "shop:"+newQueueName()
		queue, ctx := newQueue(name, &bullmq.QueueOptions{Prefix: prefix}), specContext()
		runWorker(name, func(context.Context, *bullmq.Job) (any, error) { return nil, nil }, &bullmq.WorkerOptions{Prefix: prefix})
		job, err := queue.Add(ctx, "paint", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(job.Wait(ctx, queue)).To(MatchJSON(`null`))
		Expect(job.Key()).To(Equal(prefix + ":" + name + ":1"))
		Expect(queue.Name()).To(Equal(name), "without it")
		Expect(redisStrings("KEYS", "*"+name+"*")).To(HaveEach(Or(HavePrefix(prefix+":"+name+":"), HavePrefix(prefix+":"+name+"@x:"))))
	})
})

var _ = Describe("Adding a job", func() {
	var (
		name  string
		queue *bullmq.Queue
		ctx   context.Context
	)
	BeforeEach(func() {
		name, ctx = newQueueName(), specContext()
		queue = newQueue(name, &bullmq.QueueOptions{Now: fixedClock(fixedNow)})
	})

	It("writes exactly the keys that Node writes", func() {
		job, err := queue.Add(ctx, "paint", map[string]string{"colour": "<red>"}, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(job.ID).To(Equal("1"))
		Expect(snapshot(name)).To(Equal(map[string]any{
			keyOf(name, "meta"): map[string]string{"opts.maxLenEvents": "10000", "version": "bullmq:6.7.0"},
			keyOf(name, "id"):   "1",
			keyOf(name, "1"): map[string]string{
				"name": "paint", "data": `{"colour":"<red>"}`, "opts": `{"attempts":0}`, "timestamp": "1700000000000", "delay": "0", "priority": "0",
			},
			keyOf(name, "wait"):   []string{"1"},
			keyOf(name, "marker"): map[string]float64{"0": 0},
			keyOf(name, "events"): [][]string{{"event", "added", "jobId", "1", "name", "paint"}, {"event", "waiting", "jobId", "1"}},
		}))
	})

	It("returns the job as it was stored", func() {
		job, err := queue.Add(ctx, "paint", 7, &bullmq.JobOptions{Delay: time.Minute, Priority: 3, Attempts: 2})
		Expect(err).NotTo(HaveOccurred())
		stored, err := queue.Job(ctx, job.ID)
		Expect(err).NotTo(HaveOccurred())
		Expect(job.Timestamp).To(BeTemporally("==", time.UnixMilli(fixedNow)))
		job.Timestamp, stored.Timestamp = time.Time{}, time.Time{}
		Expect(job.AddOutcome()).To(Equal(bullmq.Added))
		Expect(bullmq.WithoutAddOutcome(job)).To(Equal(stored))
	})

	DescribeTable("keeps data that other languages treat as empty:", func(data any, want string) {
		job, err := queue.Add(ctx, "paint", data, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(hashAt(keyOf(name, job.ID))).To(HaveKeyWithValue("data", want))
	},
		Entry("zero", 0, `0`),
		Entry("false", false, `false`),
		Entry("an empty string", "", `""`),
		Entry("an empty list", []int{}, `[]`),
		Entry("null", rawJSON(`null`), `null`),
		Entry("absent data as an empty object", nil, `{}`),
		Entry("raw JSON unchanged", rawJSON(` {"n":1.0} `), ` {"n":1.0} `),
	)

	DescribeTable("fails for data that JSON cannot represent:", func(data any) {
		before := snapshot(name)
		_, err := queue.Add(ctx, "paint", data, nil)
		Expect(err).To(MatchError(ContainSubstring("its data can't be written as JSON")))
		Expect(snapshot(name)).To(Equal(before))
	},
		Entry("NaN", math.NaN()),
		Entry("infinity", map[string]any{"x": math.Inf(-1)}),
	)

	Describe("with a delay", func() {
		It("stores it in delayed by its time and its order within the millisecond", func() {
			for range 3 {
				_, err := queue.Add(ctx, "later", nil, &bullmq.JobOptions{Delay: time.Minute})
				Expect(err).NotTo(HaveOccurred())
			}
			due := float64(fixedNow + 60000)
			Expect(scoresAt(keyOf(name, "delayed"))).To(Equal(map[string]float64{"1": due * 4096, "2": due*4096 + 1, "3": due*4096 + 2}))
			Expect(scoresAt(keyOf(name, "marker"))).To(Equal(map[string]float64{"1": due}))
			Expect(hashAt(keyOf(name, "1"))).To(HaveKeyWithValue("delay", "60000"))
			Expect(eventsOf(name)).To(ContainElement("delayed jobId=1 delay=1700000060000"))
		})

		It("counts the delay from the job's own timestamp", func() {
			_, err := queue.Add(ctx, "later", nil, &bullmq.JobOptions{Delay: time.Second, Timestamp: time.UnixMilli(fixedNow - 5000)})
			Expect(err).NotTo(HaveOccurred())
			Expect(scoresAt(keyOf(name, "delayed"))).To(HaveKeyWithValue("1", float64(fixedNow-4000)*4096))
			Expect(hashAt(keyOf(name, "1"))).To(HaveKeyWithValue("timestamp", "1699999995000"))
		})

		DescribeTable("that is zero, or that Node treats as zero, makes it ready at once:", func(options bullmq.JobOptions, stored string) {
			job, err := queue.Add(ctx, "now", nil, &options)
			Expect(err).NotTo(HaveOccurred())
			Expect(listAt(keyOf(name, "wait"))).To(Equal([]string{job.ID}))
			Expect(zsetAt(keyOf(name, "delayed"))).To(BeEmpty())
			Expect(hashAt(keyOf(name, job.ID))).To(HaveKeyWithValue("delay", stored))
		},
			Entry("zero", bullmq.JobOptions{Delay: 0}, "0"),
			Entry("negative", bullmq.JobOptions{Delay: -5 * time.Millisecond}, "-5"),
			Entry("a string", bullmq.JobOptions{Extra: map[string]json.RawMessage{"delay": rawJSON(`"1000"`)}}, "1000"),
			Entry("null", bullmq.JobOptions{Extra: map[string]json.RawMessage{"delay": rawJSON(`null`)}}, "0"),
		)

		It("does not hide a ready job, since both wake workers", func() {
			_, err := queue.Add(ctx, "later", nil, &bullmq.JobOptions{Delay: time.Minute})
			Expect(err).NotTo(HaveOccurred())
			_, err = queue.Add(ctx, "now", nil, nil)
			Expect(err).NotTo(HaveOccurred())
			Expect(scoresAt(keyOf(name, "marker"))).To(Equal(map[string]float64{"0": 0, "1": fixedNow + 60000}))
		})
	})

	Describe("with a position", func() {
		order := func() (ids []string) {
			GinkgoHelper()
			fetcher := newFetcher(name, nil)
			for job := takeJob(fetcher); job != nil; job = takeJob(fetcher) {
				ids = append(ids, job.Name)
			}
			return ids
		}
		add := func(jobName string, options *bullmq.JobOptions) {
			GinkgoHelper()
			_, err := queue.Add(ctx, jobName, nil, options)
			Expect(err).NotTo(HaveOccurred())
		}

		It("runs first in, first out, with lifo jobs before all and prioritized jobs after", func() {
			add("a", nil)
			add("p", &bullmq.JobOptions{Priority: 1})
			add("b", nil)
			add("c", &bullmq.JobOptions{LIFO: true})
			Expect(order()).To(Equal([]string{"c", "a", "b", "p"}))
		})

		It("by priority runs the lowest number first, and in order of arrival within one", func() {
			add("five-1", &bullmq.JobOptions{Priority: 5})
			add("one-1", &bullmq.JobOptions{Priority: 1})
			add("five-2", &bullmq.JobOptions{Priority: 5})
			add("last", &bullmq.JobOptions{Priority: 2097151})
			add("one-2", &bullmq.JobOptions{Priority: 1})
			Expect(scoresAt(keyOf(name, "prioritized"))).To(Equal(map[string]float64{
				"1": 5<<32 + 1, "2": 1<<32 + 2, "3": 5<<32 + 3, "4": 2097151<<32 + 4, "5": 1<<32 + 5,
			}))
			Expect(order()).To(Equal([]string{"one-1", "one-2", "five-1", "five-2", "last"}))
		})

		It("and a delay keeps its priority until it is due", func() {
			add("later", &bullmq.JobOptions{Delay: time.Minute, Priority: 2})
			Expect(zsetAt(keyOf(name, "delayed"))).To(Equal([]string{"1"}))
			Expect(zsetAt(keyOf(name, "prioritized"))).To(BeEmpty())
			Expect(hashAt(keyOf(name, "1"))).To(HaveKeyWithValue("priority", "2"))
		})
	})

	Describe("as the child of an existing job", func() {
		It("makes it a pending child there and names the parent in its own hash", func() {
			parentQueue := newQueueName()
			parent, err := newQueue(parentQueue, nil).Add(ctx, "wall", nil, nil)
			Expect(err).NotTo(HaveOccurred())
			child, err := queue.Add(ctx, "brick", nil, &bullmq.JobOptions{
				Parent: &bullmq.ParentRef{ID: parent.ID, QueueKey: "bull:" + parentQueue}, OnFailure: bullmq.FailParent,
			})
			Expect(err).NotTo(HaveOccurred())
			Expect(setAt(parent.Key() + ":dependencies")).To(Equal([]string{child.Key()}))
			Expect(hashAt(child.Key())).To(And(
				HaveKeyWithValue("parentKey", parent.Key()),
				HaveKeyWithValue("parent", MatchJSON(fmt.Sprintf(`{"id":"1","queueKey":"bull:%s","fpof":true}`, parentQueue))),
				HaveKeyWithValue("opts", MatchJSON(fmt.Sprintf(`{"attempts":0,"fpof":true,"parent":{"id":"1","queue":"bull:%s"}}`, parentQueue)))))
		})

		It("fails with the parent's key if the parent does not exist", func() {
			before := snapshot(name)
			_, err := queue.Add(ctx, "brick", nil, &bullmq.JobOptions{Parent: &bullmq.ParentRef{ID: "gone", QueueKey: "bull:walls"}})
			Expect(err).To(MatchError(bullmq.ErrParentNotFound))
			Expect(err).To(MatchError(And(ContainSubstring("bull:walls:gone"), ContainSubstring("add the parent first"))))
			Expect(snapshot(name)).To(Equal(before))
		})
	})

	It("is safe from many goroutines at once", func() {
		errs := make(chan error)
		for range 8 {
			go func() {
				var err error
				for range 25 {
					if _, err = queue.Add(ctx, "paint", nil, nil); err != nil {
						break
					}
				}
				errs <- err
			}()
		}
		for range 8 {
			Expect(<-errs).To(Succeed())
		}
		Expect(listAt(keyOf(name, "wait"))).To(HaveLen(200))
		Expect(stringAt(keyOf(name, "id"))).To(Equal("200"))
	})

	It("returns at the end of its context", func() {
		over, cancel := context.WithCancel(ctx)
		cancel()
		_, err := queue.Add(over, "paint", nil, nil)
		Expect(err).To(MatchError(context.Canceled))
	})
})

var _ = Describe("A closed queue", func() {
	It("returns ErrClosed from every call and may be closed again", func() {
		name, ctx := newQueueName(), specContext()
		queue := newQueue(name, nil)
		Expect(queue.Close()).To(Succeed())
		Expect(queue.Close()).To(Succeed())
		_, err := queue.Add(ctx, "paint", nil, nil)
		Expect(err).To(MatchError(bullmq.ErrClosed))
		_, err = queue.AddBulk(ctx, []bullmq.BulkJob{{Name: "paint"}})
		Expect(err).To(MatchError(bullmq.ErrClosed))
		_, err = queue.Job(ctx, "1")
		Expect(err).To(MatchError(bullmq.ErrClosed))
		_, err = queue.IsPaused(ctx)
		Expect(err).To(MatchError(bullmq.ErrClosed))
		_, err = queue.WaitForJob(ctx, "1")
		Expect(err).To(MatchError(bullmq.ErrClosed))
	})
})
