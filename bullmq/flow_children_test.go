package bullmq_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("A job's children", func() {
	var (
		name, parts string
		queue       *bullmq.Queue
		fetcher     *bullmq.Fetcher
		parent      *bullmq.Job
		ctx         context.Context
	)
	BeforeEach(func() {
		name, parts, ctx = newQueueName(), newQueueName(), specContext()
		queue, fetcher = newQueue(name, nil), newFetcher(parts, nil)
	})
	// family adds a parent with children that are named after their ids.
	family := func(children ...bullmq.JobOptions) {
		GinkgoHelper()
		producer, err := bullmq.NewFlowProducer(ctx, &bullmq.FlowProducerOptions{Connection: connection()})
		Expect(err).NotTo(HaveOccurred())
		defer producer.Close()
		flow := bullmq.Flow{Name: "parent", QueueName: name, Options: &bullmq.JobOptions{JobID: "parent"}}
		for _, options := range children {
			flow.Children = append(flow.Children, bullmq.Flow{Name: options.JobID, QueueName: parts, Options: &options})
		}
		_, err = producer.Add(ctx, flow)
		Expect(err).NotTo(HaveOccurred())
		parent = queue.JobRef("parent")
	}
	// finish fetches the next child and completes it with a value or fails it.
	finish := func(value any) {
		GinkgoHelper()
		job, err := fetcher.TryFetch(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(job).NotTo(BeNil())
		if reason, failed := value.(error); failed {
			err = fetcher.Fail(ctx, job, reason)
		} else {
			err = fetcher.Complete(ctx, job, value)
		}
		Expect(err).NotTo(HaveOccurred())
	}
	many := func(count int) {
		GinkgoHelper()
		children := make([]bullmq.JobOptions, count)
		for n := range children {
			children[n].JobID = fmt.Sprint("c", n)
		}
		family(children...)
	}

	Describe("of every kind", func() {
		BeforeEach(func() {
			family(bullmq.JobOptions{JobID: "good"}, bullmq.JobOptions{JobID: "bad", OnFailure: bullmq.FailParent},
				bullmq.JobOptions{JobID: "lost", OnFailure: bullmq.IgnoreDependency}, bullmq.JobOptions{JobID: "open"})
			finish(map[string]int{"n": 1})
			finish(errors.New("broken"))
			finish(errors.New("no matter"))
		})

		It("are distinguished by their state", func() {
			Expect(parent.Dependencies(ctx)).To(Equal(&bullmq.Dependencies{
				Processed:   map[string]json.RawMessage{keyOf(parts, "good"): json.RawMessage(`{"n":1}`)},
				Unprocessed: []string{keyOf(parts, "open")},
				Ignored:     map[string]string{keyOf(parts, "lost"): "no matter"},
				Failed:      []string{keyOf(parts, "bad")},
			}))
			Expect(parent.DependencyCounts(ctx)).To(Equal(bullmq.DependencyCounts{Processed: 1, Unprocessed: 1, Ignored: 1, Failed: 1}))
			Expect(parent.ChildrenValues(ctx)).To(HaveKeyWithValue(keyOf(parts, "good"), json.RawMessage(`{"n":1}`)))
			Expect(parent.IgnoredChildrenFailures(ctx)).To(Equal(map[string]string{keyOf(parts, "lost"): "no matter"}))
		})

		It("are read by kind, only the requested ones", func() {
			page, err := parent.DependencyPage(ctx, bullmq.DependencyQuery{Processed: &bullmq.DependencyCursor{}, Failed: &bullmq.DependencyCursor{}})
			Expect(err).NotTo(HaveOccurred())
			Expect(page.Processed).To(HaveLen(1))
			Expect(page.Failed).To(Equal([]string{keyOf(parts, "bad")}))
			Expect(page.Unprocessed).To(BeEmpty())
			Expect(page.Ignored).To(BeEmpty())
			Expect(page.Next).To(Equal(bullmq.DependencyQuery{}), "nothing is left")
			page, err = parent.DependencyPage(ctx, bullmq.DependencyQuery{Unprocessed: &bullmq.DependencyCursor{}, Ignored: &bullmq.DependencyCursor{}})
			Expect(err).NotTo(HaveOccurred())
			Expect(page.Unprocessed).To(Equal([]string{keyOf(parts, "open")}))
			Expect(page.Ignored).To(Equal(map[string]string{keyOf(parts, "lost"): "no matter"}))
		})

		It("are returned with their records", func() {
			children, total, err := queue.ProcessedChildren(ctx, "parent", bullmq.Page{Limit: -1})
			Expect(err).NotTo(HaveOccurred())
			Expect(total).To(Equal(1))
			Expect(children).To(HaveLen(1))
			Expect(children[0].Key).To(Equal(keyOf(parts, "good")))
			Expect(children[0].ReturnValue).To(MatchJSON(`{"n":1}`))
			Expect(children[0].Job.ID).To(Equal("good"))
			Expect(children[0].Job.QueueName()).To(Equal(parts))
			Expect(children[0].Job.State(ctx)).To(Equal(bullmq.StateCompleted))

			redisDo("DEL", keyOf(parts, "open"))
			children, total, err = queue.PendingChildren(ctx, "parent", bullmq.Page{Limit: 11})
			Expect(err).NotTo(HaveOccurred())
			Expect(total).To(Equal(1))
			Expect(children).To(Equal([]bullmq.ChildJob{{Key: keyOf(parts, "open")}}), "without a record where that is gone")
		})
	})

	It("are read in parts, each once, until nothing is left", func() {
		many(300)
		redisDo("ZADD", keyOf(name, "parent:unsuccessful"), "1", "x", "2", "y", "3", "z")
		var pending, failed []string
		pages := 0
		page := &bullmq.DependencyPage{}
		start := bullmq.DependencyQuery{Unprocessed: &bullmq.DependencyCursor{Count: 50}, Failed: &bullmq.DependencyCursor{Count: 2}}
		for query := start; query != (bullmq.DependencyQuery{}); query = page.Next {
			var err error
			page, err = parent.DependencyPage(ctx, query)
			Expect(err).NotTo(HaveOccurred())
			pending, failed, pages = append(pending, page.Unprocessed...), append(failed, page.Failed...), pages+1
		}
		slices.Sort(pending)
		Expect(slices.Compact(pending)).To(HaveLen(300))
		Expect(failed).To(Equal([]string{"x", "y", "z"}))
		Expect(pages).To(BeNumerically(">=", 3))
	})

	It("are returned in pages that make up the whole", func() {
		many(250)
		var keys []string
		for from := 0; from < 250; from += 100 {
			children, total, err := queue.PendingChildren(ctx, "parent", bullmq.Page{Offset: from})
			Expect(err).NotTo(HaveOccurred())
			Expect(total).To(Equal(250))
			Expect(children).To(HaveLen(min(100, 250-from)))
			for _, child := range children {
				Expect(child.Job.Key()).To(Equal(child.Key))
				keys = append(keys, child.Key)
			}
		}
		slices.Sort(keys)
		Expect(keys).To(Equal(setAt(keyOf(name, "parent:dependencies"))))
		children, total, err := queue.PendingChildren(ctx, "parent", bullmq.Page{Offset: 250, Limit: 51})
		Expect(err).NotTo(HaveOccurred())
		Expect(children).To(BeEmpty())
		Expect(total).To(Equal(250))
	})

	It("cannot be added by a closed flow producer", func() {
		producer, err := bullmq.NewFlowProducer(ctx, &bullmq.FlowProducerOptions{Connection: connection()})
		Expect(err).NotTo(HaveOccurred())
		Expect(producer.Close()).To(Succeed())
		Expect(producer.Close()).To(Succeed())
		_, err = producer.Add(ctx, bullmq.Flow{Name: "a", QueueName: name})
		Expect(err).To(MatchError(bullmq.ErrClosed))
		Expect(keysOf(name)).NotTo(ContainElement(HaveSuffix("wait")))
	})

	It("are empty for a job that has none or does not exist", func() {
		children, total, err := queue.ProcessedChildren(ctx, "nobody", bullmq.Page{Limit: -1})
		Expect(err).NotTo(HaveOccurred())
		Expect(children).To(BeEmpty())
		Expect(total).To(BeZero())
		Expect(queue.JobRef("nobody").DependencyPage(ctx, bullmq.DependencyQuery{})).To(HaveField("Next", bullmq.DependencyQuery{}))
	})

	It("make a running job wait only while the named child is pending", func() {
		family()
		running, err := newFetcher(name, nil).TryFetch(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(running.AsParent()).To(Equal(&bullmq.ParentRef{ID: "parent", QueueKey: "bull:" + name}))
		child, err := newQueue(parts, nil).Add(ctx, "child", nil, &bullmq.JobOptions{Parent: running.AsParent()})
		Expect(err).NotTo(HaveOccurred())
		Expect(running.MoveToWaitingChild(ctx, keyOf(parts, "other"))).To(BeFalse())
		Expect(queue.JobState(ctx, "parent")).To(Equal(bullmq.StateActive))
		Expect(running.MoveToWaitingChild(ctx, child.Key())).To(BeTrue())
		Expect(queue.JobState(ctx, "parent")).To(Equal(bullmq.StateWaitingChildren))
		finish(nil)
		Expect(queue.JobState(ctx, "parent")).To(Equal(bullmq.StateWaiting))
	})

	Describe("are detached by RemoveChildDependency", func() {
		// child adds a family and returns its first child.
		child := func() *bullmq.Job {
			GinkgoHelper()
			family(bullmq.JobOptions{JobID: "c"}, bullmq.JobOptions{JobID: "other"})
			job, err := newQueue(parts, nil).Job(ctx, "c")
			Expect(err).NotTo(HaveOccurred())
			return job
		}

		It("once, and a second call does nothing, through any Job of the child", func() {
			job := child()
			stale := *job
			Expect(job.RemoveChildDependency(ctx)).To(BeTrue())
			Expect(hashAt(job.Key())).To(And(Not(HaveKey("parentKey")), Not(HaveKey("parent"))))
			before := snapshot(parts)
			for _, again := range []*bullmq.Job{job, &stale, newQueue(parts, nil).JobRef("c")} {
				Expect(again.RemoveChildDependency(ctx)).To(BeFalse())
			}
			Expect(snapshot(parts)).To(Equal(before))
		})

		It("without an effect on a job that never had a parent", func() {
			job, err := newQueue(parts, nil).Add(ctx, "alone", nil, nil)
			Expect(err).NotTo(HaveOccurred())
			Expect(job.RemoveChildDependency(ctx)).To(BeFalse())
		})

		It("but not once they have finished", func() {
			job := child()
			finish("done")
			finish("done")
			Expect(job.RemoveChildDependency(ctx)).To(BeFalse())
			Expect(hashAt(job.Key())).To(HaveKey("parentKey"))
		})

		It("with ErrParentNotFound if the parent is gone", func() {
			job := child()
			Expect(redisDo("DEL", keyOf(name, "parent")).Error()).To(Succeed())
			_, err := job.RemoveChildDependency(ctx)
			Expect(err).To(MatchError(bullmq.ErrParentNotFound))
			_, err = newQueue(parts, nil).JobRef("c").RemoveChildDependency(ctx)
			Expect(err).To(MatchError(bullmq.ErrParentNotFound))
		})
	})
})

var _ = Describe("Removing a parent", func() {
	// calls returns how often the server has run a command.
	calls := func(command string) int {
		GinkgoHelper()
		count := 0
		for line := range strings.Lines(redisText("INFO", "commandstats")) {
			_, _ = fmt.Sscanf(line, "cmdstat_"+command+":calls=%d", &count)
		}
		return count
	}

	DescribeTable("removes its children in every state and keeps the order of other jobs,", func(size, most int) {
		name, parts, ctx := newQueueName(), newQueueName(), specContext()
		queue, other := newQueue(name, nil), newQueue(parts, nil)
		fetcher := newFetcher(name, nil)
		producer, err := bullmq.NewFlowProducer(ctx, &bullmq.FlowProducerOptions{Connection: connection()})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(producer.Close)
		add := func(id string, options bullmq.JobOptions) {
			GinkgoHelper()
			options.JobID = id
			_, err := queue.Add(ctx, id, nil, &options)
			Expect(err).NotTo(HaveOccurred())
		}

		add("first", bullmq.JobOptions{})
		flow := bullmq.Flow{Name: "parent", QueueName: name, Options: &bullmq.JobOptions{JobID: "parent"}}
		prev := map[string]string{"parent": "wait", "child-0": "completed"}
		for n := range size {
			child := bullmq.Flow{Name: "child", QueueName: name, Options: &bullmq.JobOptions{JobID: fmt.Sprint("child-", n)}}
			from := "wait"
			switch n % 4 {
			case 1:
				child.Options.Delay, from = time.Hour, "delayed"
			case 2:
				child.Options.Priority, from = 3, "prioritized"
			case 3: // a family whose parent moves to wait when its child is removed
				grandchild := fmt.Sprint("grandchild-", n)
				child.Children = []bullmq.Flow{{Name: "grandchild", QueueName: parts, Options: &bullmq.JobOptions{JobID: grandchild}}}
				prev[grandchild] = "wait"
			}
			if n > 0 {
				prev[child.Options.JobID] = from
			}
			flow.Children = append(flow.Children, child)
		}
		endJob(fetcher, takeJob(fetcher), nil, nil) // the first job, so that a child is next
		_, err = producer.Add(ctx, flow)
		Expect(err).NotTo(HaveOccurred())
		endJob(fetcher, takeJob(fetcher), nil, nil)
		add("last", bullmq.JobOptions{})
		add("next", bullmq.JobOptions{LIFO: true})
		before := calls("lrem")

		Expect(queue.Remove(ctx, "parent", nil)).To(Succeed())
		Expect(calls("lrem")-before).To(BeNumerically("<=", most), "each searches a list from its beginning")
		Expect(listAt(keyOf(name, "wait"))).To(Equal([]string{"last", "next"}))
		Expect(zsetAt(keyOf(name, "completed"))).To(Equal([]string{"first"}))
		for _, state := range []string{"delayed", "prioritized", "waiting-children", "child-0", "child-1", "parent", "parent:dependencies", "parent:processed"} {
			Expect(redisDo("EXISTS", keyOf(name, state)).AsInt64()).To(BeZero(), state)
		}
		Expect(other.Counts(ctx)).To(HaveEach(BeZero()))
		removed := map[string]string{}
		for _, event := range append(eventsOf(name), eventsOf(parts)...) {
			var id, from string
			if n, _ := fmt.Sscanf(event, "removed jobId=%s prev=%s", &id, &from); n == 2 {
				Expect(removed).NotTo(HaveKey(id))
				removed[id] = from
			}
		}
		Expect(removed).To(Equal(prev))
	},
		Entry("with few children", 40, 120),
		Entry("with many children, in linear time", 600, 320),
	)
})
