package tests

import (
	"context"
	"encoding/base64"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("One library lists the other's", func() {
	// listed returns a function for Eventually that returns the names that Node finds in CLIENT LIST.
	listed := func(op, queue string) func() []string {
		return func() []string {
			var names []string
			node.Do(op, object{"queue": queue}, &names)
			return names
		}
	}
	clientName := func(queue, suffix string) string {
		return "bull:" + base64.StdEncoding.EncodeToString([]byte(queue)) + suffix
	}

	It("workers, with and without a name, until they have stopped", func() {
		name := newQueueName() + " é ?????>>>>>" // its base64 contains + and /
		unnamed := runGoWorker(name, returning(nil), bullmq.WorkerOptions{})
		named := runGoWorker(name, returning(nil), bullmq.WorkerOptions{Name: "gopher-1"})
		Eventually(listed("workers", name)).Should(ConsistOf(clientName(name, ""), clientName(name, ":w:gopher-1")))
		unnamed.stop()
		Eventually(listed("workers", name)).Should(ConsistOf(clientName(name, ":w:gopher-1")))
		named.stop()
		Eventually(listed("workers", name)).Should(BeEmpty())
	})

	It("workers together with its own, under names of the same form", func() {
		l := newLedger(newQueueName())
		worker := workInNode(l, "noddy", "6")
		defer worker.stop()
		runGoWorker(l.queue, returning(nil), bullmq.WorkerOptions{Name: "gopher"})
		Eventually(listed("workers", l.queue)).Should(ConsistOf(clientName(l.queue, ":w:noddy"), clientName(l.queue, ":w:gopher")))
		workers, err := newGoQueue(l.queue).ConnectedWorkers(soon())
		Expect(err).NotTo(HaveOccurred())
		Expect(workers).To(ConsistOf(HaveField("Name", "noddy"), HaveField("Name", "gopher")))
	})

	It("event readers without its workers", func() {
		name := newQueueName()
		runGoWorker(name, returning(nil), bullmq.WorkerOptions{Name: "gopher"})
		reader := readInGo(name)
		Eventually(listed("eventReaders", name)).Should(ConsistOf(clientName(name, ":qe")))
		Expect(newGoQueue(name).ConnectedReaders(soon())).To(HaveLen(1))
		Eventually(listed("workers", name)).Should(ConsistOf(clientName(name, ":w:gopher")))
		reader.stop()
		Eventually(listed("eventReaders", name)).Should(BeEmpty())
	})

	It("delayed jobs that are due before a time", func() {
		queue := newGoQueue(newQueueName())
		start := time.UnixMilli(time.Now().UnixMilli())
		for _, delay := range []time.Duration{time.Hour, 2 * time.Hour} {
			_, err := queue.Add(soon(), "late", nil, &bullmq.JobOptions{Timestamp: start, Delay: delay})
			Expect(err).NotTo(HaveOccurred())
		}
		for after, want := range map[time.Duration]int{0: 0, time.Hour: 0, time.Hour + time.Millisecond: 1, 2 * time.Hour: 1, 3 * time.Hour: 2} {
			before := start.Add(after)
			var inNode int
			node.Do("countOf", object{"queue": queue.Name(), "state": "delayed", "before": before.UnixMilli()}, &inNode)
			Expect(inNode).To(Equal(want), "in Node, after %v", after)
			Expect(queue.CountDelayedBefore(soon(), before)).To(Equal(want), "in Go, after %v", after)
		}
	})

	It("jobs in every state, in the same order and number", func() {
		byGo, byNode := newQueueName(), newQueueName()
		makeStatesInGo(byGo)
		makeStatesInNode(byNode)
		want := map[string][]string{
			"completed": {"c1", "c2"}, "failed": {"f1"}, "active": {"a1"}, "waiting": {"w0", "w1", "w2"},
			"prioritized": {"p1", "p2"}, "delayed": {"d1", "d2"}, "waiting-children": {"parent"},
		}
		for _, name := range []string{byGo, byNode} {
			queue := newGoQueue(name)
			for state, ids := range want {
				var seen []struct{ ID string }
				node.Do("jobs", object{"queue": name, "types": []string{state}, "start": 0, "end": -1, "asc": false}, &seen)
				var inNode, inGo []string
				for _, job := range seen {
					inNode = append(inNode, job.ID)
				}
				jobs, err := queue.Jobs(soon(), bullmq.Page{Limit: -1}, bullmq.State(state))
				Expect(err).NotTo(HaveOccurred())
				for _, job := range jobs {
					inGo = append(inGo, job.ID)
					Expect(stateOf(queue, job.ID)()).To(Equal(bullmq.State(state)))
				}
				Expect(inGo).To(Equal(inNode), "%s jobs of %s", state, name)
				Expect(inGo).To(ConsistOf(ids), "%s jobs of %s", state, name)
			}
			var counts map[bullmq.State]int
			node.Do("counts", object{"queue": name}, &counts)
			Expect(queue.Counts(soon())).To(Equal(counts))
			Expect(counts).To(HaveKeyWithValue(bullmq.StateWaiting, 3))
			var waiting int
			node.Do("count", object{"queue": name}, &waiting)
			Expect(queue.Count(soon())).To(Equal(waiting))
			perPriority := map[int]int{}
			node.Do("countsPerPriority", object{"queue": name, "priorities": []int{0, 1, 2}}, &perPriority)
			Expect(queue.CountsPerPriority(soon(), 0, 1, 2)).To(Equal(perPriority))
		}
	})
})

var _ = Describe("Queue.Ages", func() {
	DescribeTable("returns the age of the oldest job of each state in a queue that only Node uses", func(line string, dialect bullmq.Dialect) {
		name := newQueueName()
		node := startProbe("-bullmq", line)
		start := time.Now().Add(-time.Hour)
		add := func(options object) {
			options["timestamp"] = start.UnixMilli()
			node.Do("add", object{"queue": name, "name": "old", "data": object{}, "opts": options}, nil)
		}
		add(object{})
		add(object{"priority": 1})
		add(object{"priority": 5})
		add(object{"delay": 1000 * 60 * 45})
		queue, err := bullmq.NewQueue(soon(), name, &bullmq.QueueOptions{URL: server.URL(), SkipMetaUpdate: true, Dialect: dialect})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(queue.Close)
		ages, err := queue.Ages(soon())
		Expect(err).NotTo(HaveOccurred())
		Expect(ages[bullmq.StateWaiting]).To(BeNumerically("~", time.Hour, time.Minute))
		Expect(ages[bullmq.StatePrioritized]).To(BeNumerically("~", time.Hour, time.Minute))
		Expect(ages[bullmq.StateActive]).To(BeZero())
	},
		Entry("with bullmq 6", "6", bullmq.V6),
		Entry("with bullmq 5", "5", bullmq.V5),
	)
})

var _ = DescribeTable("Queue.Timings returns how long jobs have waited and run in a queue that only Node uses", func(line string, dialect bullmq.Dialect) {
	name := newQueueName()
	node := startProbe("-bullmq", line)
	start := time.Now().Add(-time.Hour)
	for _, id := range []string{"ends", "fails"} {
		options := object{"timestamp": start.UnixMilli(), "delay": 60_000, "jobId": id}
		node.Do("add", object{"queue": name, "name": "old", "data": object{}, "opts": options}, nil)
		var job struct{ ID string }
		Eventually(func() string {
			node.Do("fetch", object{"queue": name, "token": "token"}, &job)
			return job.ID
		}).Should(Equal(id))
		if id == "ends" {
			node.Do("complete", object{"queue": name, "id": id, "token": "token"}, nil)
		} else {
			node.Do("fail", object{"queue": name, "id": id, "token": "token", "message": "no"}, nil)
		}
	}
	queue, err := bullmq.NewQueue(soon(), name, &bullmq.QueueOptions{URL: server.URL(), SkipMetaUpdate: true, Dialect: dialect})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(queue.Close)
	timings, err := queue.Timings(soon(), bullmq.TimingQuery{})
	Expect(err).NotTo(HaveOccurred())
	Expect(timings.Jobs).To(ConsistOf(
		And(HaveField("ID", "ends"), HaveField("State", bullmq.StateCompleted)), And(HaveField("ID", "fails"), HaveField("State", bullmq.StateFailed))))
	for _, job := range timings.Jobs {
		Expect(job.Wait).To(BeNumerically("~", 59*time.Minute, 30*time.Second))
		Expect(job.Run).To(And(BeNumerically(">=", 0), BeNumerically("<", 30*time.Second)))
		Expect(job.AttemptsMade).To(Equal(1))
		Expect(job.Name).To(Equal("old"))
	}
},
	Entry("with bullmq 6", "6", bullmq.V6),
	Entry("with bullmq 5", "5", bullmq.V5),
)

var _ = Describe("A queue that only Node uses", func() {
	DescribeTable("is listed, and its jobs are found and handled", func(line string, dialect bullmq.Dialect) {
		name, ctx := newQueueName(), soon()
		node := startProbe("-bullmq", line)
		for _, color := range []string{"Blau", "grün", "blau"} {
			node.Do("add", object{"queue": name, "name": "paint", "data": object{"color": color}, "opts": object{"delay": 3600_000}}, nil)
		}
		node.Do("add", object{"queue": name, "name": "sand", "data": object{"color": "blau"}, "opts": object{}}, nil)
		link, err := bullmq.Connect(ctx, server.URL())
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(link.Close)
		var names []string
		for found, err := range bullmq.ListQueues(ctx, link, "") {
			Expect(err).NotTo(HaveOccurred())
			names = append(names, found)
		}
		Expect(names).To(ContainElement(name))

		summaries, err := bullmq.SummarizeQueues(ctx, link, "", name)
		Expect(err).NotTo(HaveOccurred())
		Expect(summaries[0].Counts).To(And(HaveKeyWithValue(bullmq.StateWaiting, 1), HaveKeyWithValue(bullmq.StateDelayed, 3)))

		queue, err := bullmq.NewQueue(ctx, name, &bullmq.QueueOptions{Connection: link, SkipMetaUpdate: true, Dialect: dialect})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(queue.Close)
		Expect(queue.EachMatch(ctx, bullmq.JobSearch{Name: "paint", Data: "blau"}, func(ctx context.Context, job *bullmq.Job) error { return job.Promote(ctx) })).
			To(HaveValue(Equal(bullmq.MatchResult{Matched: 2, Done: 2})))
		Expect(queue.Counts(ctx)).To(And(HaveKeyWithValue(bullmq.StateWaiting, 3), HaveKeyWithValue(bullmq.StateDelayed, 1)))
		Expect(queue.Search(ctx, bullmq.JobSearch{Data: "GRÜN"})).To(HaveField("States", Equal([]bullmq.State{bullmq.StateDelayed})))
	},
		Entry("with bullmq 6", "6", bullmq.V6),
		Entry("with bullmq 5", "5", bullmq.V5),
	)
})

// makeStatesInGo creates jobs in every state. The parent's child is in another queue.
func makeStatesInGo(name string) {
	GinkgoHelper()
	queue, kids, ctx := newGoQueue(name), newGoQueue(name+"-kids"), soon()
	fetcher, err := bullmq.NewFetcher(ctx, name, &bullmq.FetcherOptions{URL: server.URL()})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(fetcher.Close)
	add := func(id string, options bullmq.JobOptions) {
		GinkgoHelper()
		options.JobID = id
		_, err := queue.Add(ctx, "a", object{"id": id}, &options)
		Expect(err).NotTo(HaveOccurred())
	}
	take := func(id string) *bullmq.Job {
		GinkgoHelper()
		add(id, bullmq.JobOptions{})
		job, err := fetcher.TryFetch(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(job.ID).To(Equal(id))
		return job
	}
	for _, id := range []string{"c1", "c2"} {
		err := fetcher.Complete(ctx, take(id), nil)
		Expect(err).NotTo(HaveOccurred())
	}
	err = fetcher.Fail(ctx, take("f1"), errorText("no"))
	Expect(err).NotTo(HaveOccurred())
	parent := take("parent")
	_, err = kids.Add(ctx, "child", nil, &bullmq.JobOptions{Parent: &bullmq.ParentRef{ID: "parent", QueueKey: "bull:" + name}})
	Expect(err).NotTo(HaveOccurred())
	Expect(parent.MoveToWaitingChildren(ctx)).To(BeTrue())
	take("a1")
	add("w1", bullmq.JobOptions{})
	add("w2", bullmq.JobOptions{})
	add("w0", bullmq.JobOptions{LIFO: true})
	add("p2", bullmq.JobOptions{Priority: 2})
	add("p1", bullmq.JobOptions{Priority: 1})
	add("d2", bullmq.JobOptions{Delay: 2 * time.Hour})
	add("d1", bullmq.JobOptions{Delay: time.Hour})
}

func makeStatesInNode(name string) {
	GinkgoHelper()
	take := func(id string) {
		GinkgoHelper()
		node.Add(name, "a", object{"id": id}, object{"jobId": id})
		var job struct{ ID string }
		node.Do("fetch", object{"queue": name, "token": "token"}, &job)
		Expect(job.ID).To(Equal(id))
	}
	for _, id := range []string{"c1", "c2"} {
		take(id)
		node.Do("complete", object{"queue": name, "id": id, "token": "token"}, nil)
	}
	take("f1")
	node.Do("fail", object{"queue": name, "id": "f1", "token": "token", "message": "no"}, nil)
	take("parent")
	node.Add(name+"-kids", "child", object{}, object{"parent": object{"id": "parent", "queue": "bull:" + name}})
	node.Do("moveToWaitingChildren", object{"queue": name, "id": "parent", "token": "token"}, nil)
	take("a1")
	for id, opts := range map[string]object{
		"w1": {}, "w2": {}, "w0": {"lifo": true}, "p2": {"priority": 2}, "p1": {"priority": 1},
		"d2": {"delay": 7200000}, "d1": {"delay": 3600000},
	} {
		opts["jobId"] = id
		node.Add(name, "a", object{"id": id}, opts)
	}
}
