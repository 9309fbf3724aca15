package bullmq_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("Reading a queue", func() {
	var (
		name    string
		queue   *bullmq.Queue
		fetcher *bullmq.Fetcher
		ctx     context.Context
	)
	BeforeEach(func() {
		name, ctx = newQueueName(), specContext()
		queue, fetcher = newQueue(name, nil), newFetcher(name, nil)
	})
	add := func(jobName string, options *bullmq.JobOptions) {
		GinkgoHelper()
		_, err := queue.Add(ctx, jobName, nil, options)
		Expect(err).NotTo(HaveOccurred())
	}
	names := func(page bullmq.Page, states ...bullmq.State) []string {
		GinkgoHelper()
		jobs, err := queue.Jobs(ctx, page, states...)
		Expect(err).NotTo(HaveOccurred())
		all := make([]string, len(jobs))
		for i, job := range jobs {
			all[i] = job.Name
		}
		return all
	}
	// oneOfEach adds a job in every state, named after the state.
	oneOfEach := func() {
		GinkgoHelper()
		add("completed", nil)
		err := fetcher.Complete(ctx, takeJob(fetcher), nil)
		Expect(err).NotTo(HaveOccurred())
		add("failed", nil)
		err = fetcher.Fail(ctx, takeJob(fetcher), nil)
		Expect(err).NotTo(HaveOccurred())
		add("waiting-children", nil)
		parent := takeJob(fetcher)
		add("waiting", &bullmq.JobOptions{Parent: &bullmq.ParentRef{ID: parent.ID, QueueKey: "bull:" + name}, JobID: "child"})
		Expect(parent.MoveToWaitingChildren(ctx)).To(BeTrue())
		add("active", &bullmq.JobOptions{LIFO: true})
		takeJob(fetcher)
		add("delayed", &bullmq.JobOptions{Delay: time.Hour})
		add("prioritized", &bullmq.JobOptions{Priority: 3})
	}

	It("returns a job by its id, from queue and worker alike", func() {
		add("paint", nil)
		for _, find := range []func(context.Context, string) (*bullmq.Job, error){queue.Job, fetcher.Job} {
			job, err := find(ctx, "1")
			Expect(err).NotTo(HaveOccurred())
			Expect(job.Name).To(Equal("paint"))
			Expect(job.QueueName()).To(Equal(name))
			Expect(job.Key()).To(Equal(keyOf(name, "1")))
			_, err = find(ctx, "2")
			Expect(err).To(MatchError(bullmq.ErrJobNotFound))
			Expect(err).To(MatchError(ContainSubstring("job 2")))
		}
	})

	It("returns the state of each job", func() {
		oneOfEach()
		jobs, err := queue.Jobs(ctx, bullmq.AllEntries())
		Expect(err).NotTo(HaveOccurred())
		Expect(jobs).To(HaveLen(7))
		for _, job := range jobs {
			Expect(job.State(ctx)).To(BeEquivalentTo(job.Name))
			Expect(queue.JobState(ctx, job.ID)).To(BeEquivalentTo(job.Name))
		}
		Expect(queue.JobState(ctx, "gone")).Error().To(MatchError(bullmq.ErrJobNotFound))
	})

	It("returns a job together with its state", func() {
		oneOfEach()
		for _, state := range []bullmq.State{bullmq.StateCompleted, bullmq.StateFailed, bullmq.StateDelayed, bullmq.StatePrioritized, bullmq.StateWaiting, bullmq.StateWaitingChildren} {
			jobs, err := queue.Jobs(ctx, bullmq.Page{}, state)
			Expect(err).NotTo(HaveOccurred())
			Expect(jobs).NotTo(BeEmpty(), state)
			job, found, err := queue.JobAndState(ctx, jobs[0].ID)
			Expect(err).NotTo(HaveOccurred())
			Expect(found).To(Equal(state))
			Expect(job.Name).To(Equal(jobs[0].Name))
			Expect(job.Decode(new(any))).To(Succeed())
		}
		_, _, err := queue.JobAndState(ctx, "unknown")
		Expect(err).To(MatchError(bullmq.ErrJobNotFound))
	})

	It("returns the number of jobs in each state, in the given states and still to run", func() {
		oneOfEach()
		add("waiting", nil)
		Expect(queue.Counts(ctx)).To(Equal(map[bullmq.State]int{
			bullmq.StateActive: 1, bullmq.StateCompleted: 1, bullmq.StateDelayed: 1, bullmq.StateFailed: 1, bullmq.StatePrioritized: 1, bullmq.StateWaiting: 2, bullmq.StateWaitingChildren: 1,
		}))
		Expect(queue.Counts(ctx, bullmq.StateWaiting, bullmq.StatePaused)).To(Equal(map[bullmq.State]int{bullmq.StateWaiting: 2, bullmq.StatePaused: 0}))
		Expect(queue.Count(ctx)).To(BeEquivalentTo(5))
	})

	It("returns the number of waiting jobs by priority", func() {
		add("a", nil)
		for _, priority := range []int{1, 3, 3, 2097151} {
			add("p", &bullmq.JobOptions{Priority: priority})
		}
		Expect(queue.CountsPerPriority(ctx, 0, 1, 2, 3, 2097151)).To(Equal(map[int]int{0: 1, 1: 1, 2: 0, 3: 2, 2097151: 1}))
		Expect(queue.CountsPerPriority(ctx)).To(BeEmpty())
	})

	Describe("in pages", func() {
		DescribeTable("returns waiting jobs from either end, with inclusive bounds:", func(page bullmq.Page, want ...string) {
			for n := range 5 {
				add(fmt.Sprint(n), nil)
			}
			Expect(names(page, bullmq.StateWaiting)).To(Equal(append([]string{}, want...)))
		},
			Entry("all, oldest first", bullmq.AllEntries(), "0", "1", "2", "3", "4"),
			Entry("all, newest first", bullmq.Page{Limit: -1}, "4", "3", "2", "1", "0"),
			Entry("the first, oldest first", bullmq.Page{Limit: 1, Ascending: true}, "0"),
			Entry("the first, newest first", bullmq.Page{Limit: 1}, "4"),
			Entry("the middle, oldest first", bullmq.Page{Offset: 1, Limit: 3, Ascending: true}, "1", "2", "3"),
			Entry("the middle, newest first", bullmq.Page{Offset: 1, Limit: 3}, "3", "2", "1"),
			Entry("beyond the end", bullmq.Page{Offset: 3, Limit: 8, Ascending: true}, "3", "4"),
			Entry("after the end", bullmq.Page{Offset: 5, Limit: 6, Ascending: true}),
			Entry("from the second to the last", bullmq.Page{Offset: 1, Limit: -1, Ascending: true}, "1", "2", "3", "4"),
		)

		DescribeTable("returns sorted states by score from either end:", func(page bullmq.Page, want ...string) {
			for n := range 4 {
				add(fmt.Sprint(n), &bullmq.JobOptions{Priority: n + 1})
			}
			Expect(names(page, bullmq.StatePrioritized)).To(Equal(want))
		},
			Entry("lowest first", bullmq.Page{Limit: 2, Ascending: true}, "0", "1"),
			Entry("highest first", bullmq.Page{Limit: 2}, "3", "2"),
		)

		It("returns one state after the other, each job once", func() {
			add("a", nil)
			add("p", &bullmq.JobOptions{Priority: 1})
			add("b", nil)
			Expect(names(bullmq.AllEntries(), bullmq.StatePrioritized, bullmq.StateWaiting, bullmq.StateWaiting, "wait")).To(Equal([]string{"p", "a", "b"}))
			Expect(names(bullmq.Page{Limit: 1, Ascending: true}, bullmq.StateWaiting, bullmq.StatePrioritized)).To(Equal([]string{"a", "p"}), "a page of each")
		})

		It("skips ids without a hash and fills the page", func() {
			for n := range 6 {
				add(fmt.Sprint(n), nil)
			}
			redisDo("DEL", keyOf(name, "2"), keyOf(name, "3"))
			Expect(names(bullmq.Page{Limit: 3, Ascending: true}, bullmq.StateWaiting)).To(Equal([]string{"0", "3", "4"}))
			Expect(names(bullmq.AllEntries(), bullmq.StateWaiting)).To(Equal([]string{"0", "3", "4", "5"}))
		})

		It("returns ids only, including those without a hash", func() {
			for range 4 {
				add("a", nil)
			}
			add("p", &bullmq.JobOptions{Priority: 1})
			redisDo("DEL", keyOf(name, "2"))
			Expect(queue.JobIDs(ctx, bullmq.AllEntries(), bullmq.StateWaiting)).To(Equal([]string{"1", "2", "3", "4"}))
			Expect(queue.JobIDs(ctx, bullmq.Page{Offset: 1, Limit: 2}, bullmq.StateWaiting)).To(Equal([]string{"3", "2"}))
			Expect(queue.JobIDs(ctx, bullmq.Page{Limit: 1, Ascending: true}, bullmq.StatePrioritized, "wait", bullmq.StateWaiting)).To(Equal([]string{"5", "1"}), "each state once")
			Expect(queue.JobIDs(ctx, bullmq.AllEntries())).To(ConsistOf("1", "2", "3", "4", "5"))
		})

		It("returns nothing for an empty queue", func() {
			Expect(names(bullmq.AllEntries())).To(BeEmpty())
			Expect(queue.JobIDs(ctx, bullmq.AllEntries())).To(BeEmpty())
		})
	})

	Describe("of older versions", func() {
		It("includes jobs that were paused by BullMQ 5", func() {
			for id := range 21 {
				redisDo("LPUSH", keyOf(name, "paused"), fmt.Sprint("p", id))
				redisDo("HSET", keyOf(name, fmt.Sprint("p", id)), "name", fmt.Sprint(id))
			}
			Expect(queue.Counts(ctx, bullmq.StatePaused, bullmq.StateWaiting)).To(Equal(map[bullmq.State]int{bullmq.StatePaused: 21, bullmq.StateWaiting: 0}))
			Expect(names(bullmq.Page{Limit: 2, Ascending: true}, bullmq.StatePaused)).To(Equal([]string{"0", "1"}))
			Expect(queue.JobState(ctx, "p3")).To(Equal(bullmq.StateWaiting))
		})

		It("does not count BullMQ 4's marker", func() {
			redisDo("RPUSH", keyOf(name, "wait"), "0:1700000000000")
			Expect(queue.Counts(ctx, bullmq.StateWaiting)).To(Equal(map[bullmq.State]int{bullmq.StateWaiting: 0}))
			Expect(names(bullmq.AllEntries(), bullmq.StateWaiting)).To(BeEmpty())
			add("a", nil)
			Expect(queue.Counts(ctx, bullmq.StateWaiting)).To(Equal(map[bullmq.State]int{bullmq.StateWaiting: 1}))
			Expect(names(bullmq.AllEntries(), bullmq.StateWaiting)).To(Equal([]string{"a"}))
		})
	})
})

var _ = Describe("A call that reads many jobs", func() {
	DescribeTable("refuses a state or a priority that does not exist:", func(call func(ctx context.Context, queue *bullmq.Queue) error, hints ...string) {
		name := newQueueName()
		err := call(specContext(), newQueue(name, nil))
		for _, hint := range append(hints, "bullmq: ", name) {
			Expect(err).To(MatchError(ContainSubstring(hint)))
		}
	},
		Entry("Jobs", func(ctx context.Context, queue *bullmq.Queue) error {
			_, err := queue.Jobs(ctx, bullmq.Page{}, bullmq.StateActive, "complete")
			return err
		}, `no state "complete"`, "StateWaiting"),
		Entry("JobIDs", func(ctx context.Context, queue *bullmq.Queue) error {
			_, err := queue.JobIDs(ctx, bullmq.Page{}, "")
			return err
		}, `no state ""`),
		Entry("Counts of a key of another type", func(ctx context.Context, queue *bullmq.Queue) error {
			_, err := queue.Counts(ctx, "meta")
			return err
		}, `no state "meta"`),
		Entry("RecordCounts", func(ctx context.Context, queue *bullmq.Queue) error {
			_, err := queue.RecordCounts(ctx, "unknown")
			return err
		}, `no state "unknown"`),
		Entry("Metrics", func(ctx context.Context, queue *bullmq.Queue) error {
			_, err := queue.Metrics(ctx, bullmq.StateWaiting, bullmq.Page{})
			return err
		}, `"waiting"`, "use StateCompleted or StateFailed"),
		Entry("CountsPerPriority below 0", func(ctx context.Context, queue *bullmq.Queue) error {
			_, err := queue.CountsPerPriority(ctx, 0, -5)
			return err
		}, "priority -5"),
		Entry("CountsPerPriority above the highest", func(ctx context.Context, queue *bullmq.Queue) error {
			_, err := queue.CountsPerPriority(ctx, 2097152)
			return err
		}, "2097151"),
	)

	It("accepts every state, and wait as the name that BullMQ uses for waiting", func() {
		queue := newQueue(newQueueName(), nil)
		Expect(queue.Counts(specContext(), "wait", bullmq.StateWaiting, bullmq.StatePaused, bullmq.StateActive, bullmq.StateDelayed,
			bullmq.StatePrioritized, bullmq.StateWaitingChildren, bullmq.StateCompleted, bullmq.StateFailed)).To(HaveLen(9))
	})

	It("returns all jobs of a page with a limit that Redis could not read, and refuses such an offset", func() {
		queue, ctx := newQueue(newQueueName(), nil), specContext()
		_, err := queue.AddBulk(ctx, make([]bullmq.BulkJob, 150))
		Expect(err).NotTo(HaveOccurred())
		for _, limit := range []int{math.MaxInt, 1 << 53, 1<<53 - 1} {
			Expect(queue.Jobs(ctx, bullmq.Page{Limit: limit}, bullmq.StateWaiting)).To(HaveLen(150))
			Expect(queue.JobIDs(ctx, bullmq.Page{Offset: 50, Limit: limit, Ascending: true}, bullmq.StateWaiting)).To(HaveLen(100))
		}
		_, err = queue.Jobs(ctx, bullmq.Page{Offset: math.MaxInt}, bullmq.StateWaiting)
		Expect(err).To(MatchError(ContainSubstring("Page.Offset 9223372036854775807 is too large")))
	})
})

var _ = Describe("Metrics", func() {
	var (
		name  string
		queue *bullmq.Queue
		ctx   context.Context
		clock time.Time
	)
	BeforeEach(func() {
		name, ctx = newQueueName(), specContext()
		queue, clock = newQueue(name, nil), time.UnixMilli(fixedNow).Truncate(time.Minute)
	})
	newCountingWorker := func(points int) *bullmq.Fetcher {
		GinkgoHelper()
		return newFetcher(name, &bullmq.FetcherOptions{MetricsPoints: points, Now: func() time.Time { return clock }})
	}
	run := func(fetcher *bullmq.Fetcher, reason error) {
		GinkgoHelper()
		_, err := queue.Add(ctx, "paint", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		endJob(fetcher, takeJob(fetcher), nil, reason)
	}
	metrics := func(state bullmq.State, page bullmq.Page) bullmq.JobMetrics {
		GinkgoHelper()
		m, err := queue.Metrics(ctx, state, page)
		Expect(err).NotTo(HaveOccurred())
		return m
	}

	It("count jobs by the minute, newest first, with zeros for idle minutes", func() {
		fetcher := newCountingWorker(100)
		run(fetcher, nil)
		run(fetcher, nil)
		begun := clock
		clock = clock.Add(3 * time.Minute)
		run(fetcher, nil)
		Expect(metrics(bullmq.StateCompleted, bullmq.Page{})).To(Equal(bullmq.JobMetrics{
			Count: 3, PrevTime: time.UnixMilli(begun.Add(3 * time.Minute).UnixMilli()), PrevCount: 2, Points: []int{0, 0, 2}, Total: 3,
		}))
		Expect(listAt(keyOf(name, "metrics:completed:data"))).To(Equal([]string{"0", "0", "2"}))
		Expect(hashAt(keyOf(name, "metrics:completed"))).To(HaveKeyWithValue("count", "3"))
	})

	It("are returned in pages", func() {
		fetcher := newCountingWorker(100)
		for range 4 {
			run(fetcher, nil)
			clock = clock.Add(time.Minute)
		}
		run(fetcher, nil)
		Expect(metrics(bullmq.StateCompleted, bullmq.Page{Offset: 1, Limit: 2})).To(And(HaveField("Points", []int{1, 1}), HaveField("Total", 4)))
	})

	It("count failed jobs separately", func() {
		fetcher := newCountingWorker(100)
		run(fetcher, errors.New("boom"))
		run(fetcher, nil)
		Expect(metrics(bullmq.StateFailed, bullmq.Page{}).Count).To(BeEquivalentTo(1))
		Expect(metrics(bullmq.StateCompleted, bullmq.Page{}).Count).To(BeEquivalentTo(1))
	})

	It("keep as many minutes as the worker's options say", func() {
		fetcher := newCountingWorker(2)
		for range 5 {
			run(fetcher, nil)
			clock = clock.Add(time.Minute)
		}
		Expect(metrics(bullmq.StateCompleted, bullmq.Page{})).To(And(HaveField("Count", 5), HaveField("Total", 2)))
	})

	It("survive a pause of more minutes than are kept", func() {
		fetcher := newCountingWorker(3)
		run(fetcher, nil)
		clock = clock.Add(time.Hour)
		run(fetcher, nil)
		Expect(metrics(bullmq.StateCompleted, bullmq.Page{}).Points).To(HaveLen(3))
	})

	It("are not collected by default", func() {
		run(newCountingWorker(0), nil)
		Expect(keysOf(name)).NotTo(ContainElement(ContainSubstring("metrics")))
		Expect(metrics(bullmq.StateCompleted, bullmq.Page{})).To(Equal(bullmq.JobMetrics{Points: []int{}}))
	})
})
