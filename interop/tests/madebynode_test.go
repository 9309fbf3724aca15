package tests

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("A scheduler created by Node", func() {
	var name string
	var mu sync.Mutex
	var ran []*bullmq.Job
	note := func(_ context.Context, job *bullmq.Job) (any, error) {
		mu.Lock()
		defer mu.Unlock()
		ran = append(ran, job)
		return nil, nil
	}
	runs := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(ran)
	}
	pending := func() []string {
		GinkgoHelper()
		var jobs []struct{ ID string }
		node.Do("jobs", object{"queue": name, "types": []string{"delayed", "waiting", "prioritized"}}, &jobs)
		var ids []string
		for _, job := range jobs {
			ids = append(ids, job.ID)
		}
		return ids
	}
	dueOf := func(id string) int64 {
		GinkgoHelper()
		ms, found := strings.CutPrefix(id, "repeat:tick:")
		Expect(found).To(BeTrue(), "the id of a scheduler's job: %s", id)
		due, err := strconv.ParseInt(ms, 10, 64)
		Expect(err).NotTo(HaveOccurred())
		return due
	}
	BeforeEach(func() {
		name = newQueueName()
		ran = nil
	})

	It("continues under a Go worker with the template's data, interval by interval, and then under Node again", func() {
		const every = 150
		node.Do("upsertScheduler", object{
			"queue": name, "id": "tick", "repeat": object{"every": every},
			"template": object{"name": "tock", "data": object{"list": []any{}, "text": "<&>"}, "opts": object{"attempts": 2}},
		}, nil)
		worker := runGoWorker(name, note, bullmq.WorkerOptions{Name: "gopher"})
		Eventually(runs).Should(BeNumerically(">=", 5))
		worker.stop()

		for i, job := range ran {
			Expect(job.Name).To(Equal("tock"))
			Expect(string(job.Data)).To(Equal(`{"list":[],"text":"<&>"}`))
			Expect(job.SchedulerID).To(Equal("tick"))
			Expect(job.Options.Attempts).To(Equal(2))
			if i > 0 {
				// Times are skipped only if they had passed when the previous job started.
				due, before, made := dueOf(job.ID), dueOf(ran[i-1].ID), job.Timestamp.UnixMilli()
				Expect((due-before)%every).To(BeZero(), "%s after %s", job.ID, ran[i-1].ID)
				Expect(due == before+every || due-every <= made).To(BeTrue(), "%s after %s, made at %d", job.ID, ran[i-1].ID, made)
			}
		}
		last, waiting := dueOf(ran[len(ran)-1].ID), pending()
		Expect(waiting).To(HaveLen(1))
		next := dueOf(waiting[0])
		Expect(next).To(BeNumerically(">", last))
		var scheduler object
		node.Do("scheduler", object{"queue": name, "id": "tick"}, &scheduler)
		Expect(scheduler).To(And(
			HaveKeyWithValue("iterationCount", float64(len(ran)+1)), HaveKeyWithValue("next", float64(next)),
			HaveKeyWithValue("every", float64(every)), HaveKeyWithValue("template", HaveKeyWithValue("data", object{"list": []any{}, "text": "<&>"})),
		))

		var outcomes []struct{ ID string }
		node.Run(name, 2, object{}, object{})(&outcomes)
		Expect(outcomes).To(HaveLen(2))
		Expect(dueOf(outcomes[0].ID)).To(Equal(next))
		Expect(pending()).To(HaveLen(1))
		var removed bool
		node.Do("removeScheduler", object{"queue": name, "id": "tick"}, &removed)
		Expect(removed).To(BeTrue())
		Expect(pending()).To(BeEmpty())
	})

	It("with a cron pattern continues under a Go worker on whole seconds until its limit", func() {
		node.Do("upsertScheduler", object{
			"queue": name, "id": "tick", "repeat": object{"pattern": "* * * * * *", "tz": "Asia/Kolkata", "limit": 3}, "template": object{"name": "tock"},
		}, nil)
		worker := runGoWorker(name, note, bullmq.WorkerOptions{})
		Eventually(runs).Should(Equal(3))
		worker.stop()
		for i, job := range ran {
			Expect(dueOf(job.ID) % 1000).To(BeZero())
			if i > 0 {
				Expect(dueOf(job.ID)).To(BeNumerically(">", dueOf(ran[i-1].ID)))
			}
		}
		Expect(pending()).To(BeEmpty(), "the limit is three runs")
	})

	DescribeTable("created as a repeatable job of bullmq 5 continues under a Go worker with its data", func(repeat object) {
		producer := startNode("producer.mjs", "-queue", name, "-bullmq", "5")
		Expect(producer.Send(object{"name": "tock", "data": object{"a": []any{}}, "opts": object{"repeat": repeat, "attempts": 2}})).To(Succeed())
		Expect(producer.CloseInput()).To(Succeed())
		_, err := producer.WaitFor(soon(), hasEvent("done"))
		Expect(err).NotTo(HaveOccurred())
		entries, err := ask("ZRANGE", "bull:"+name+":repeat", "0", "-1").AsStrSlice()
		Expect(err).NotTo(HaveOccurred())
		Expect(entries).To(HaveLen(1))

		worker := runGoWorker(name, note, bullmq.WorkerOptions{})
		Eventually(runs).Should(BeNumerically(">=", 4))
		worker.stop()
		for _, job := range ran {
			Expect(string(job.Data)).To(Equal(`{"a":[]}`))
			Expect(job.Options.Attempts).To(Equal(2))
			Expect(job.SchedulerID).To(Equal(entries[0]))
		}
		Expect(pending()).To(HaveLen(1))
		Expect(ask("ZRANGE", "bull:"+name+":repeat", "0", "-1").AsStrSlice()).To(Equal(entries))
	},
		Entry("under a generated id", object{"every": 150}), Entry("under a given key", object{"every": 150, "key": "mine"}),
	)

	It("continues when its job fails in Go", func() {
		node.Do("upsertScheduler", object{
			"queue": name, "id": "tick", "repeat": object{"every": 100}, "template": object{"name": "tock"},
		}, nil)
		worker := runGoWorker(name, func(ctx context.Context, job *bullmq.Job) (any, error) {
			_, _ = note(ctx, job)
			return nil, errorText("no")
		}, bullmq.WorkerOptions{})
		Eventually(runs).Should(BeNumerically(">=", 3))
		worker.stop()
		Expect(pending()).To(HaveLen(1))
	})
})

var _ = Describe("A flow created by Node", func() {
	var parents, kids string
	BeforeEach(func() {
		parents = newQueueName()
		kids = parents + "-kids"
	})
	type tree struct {
		ID       string
		Children []tree
	}
	addFlow := func(childOpts object) (parent string, children []string) {
		GinkgoHelper()
		child := func(n int) object {
			return object{"name": "child", "queueName": kids, "data": object{"n": n}, "opts": childOpts}
		}
		var made tree
		node.Do("addFlow", object{"flow": object{
			"name": "parent", "queueName": parents, "data": object{"p": 1}, "opts": object{}, "children": []any{child(1), child(2)},
		}}, &made)
		for _, child := range made.Children {
			children = append(children, child.ID)
		}
		return made.ID, children
	}
	key := func(id string) string { return "bull:" + kids + ":" + id }

	It("whose children run in Go is released after the last child, and Node reads their return values", func() {
		parent, children := addFlow(object{})
		queue := newGoQueue(parents)
		Expect(stateOf(queue, parent)()).To(Equal(bullmq.StateWaitingChildren))
		work := func(_ context.Context, job *bullmq.Job) (any, error) {
			var data struct{ N int }
			if err := job.Decode(&data); err != nil {
				return nil, err
			}
			return object{"square": data.N * data.N, "text": "<&>"}, nil
		}
		runOnce(kids, work, bullmq.WorkerOptions{})
		Expect(stateOf(queue, parent)()).To(Equal(bullmq.StateWaitingChildren))
		runOnce(kids, work, bullmq.WorkerOptions{})
		Expect(stateOf(queue, parent)()).To(Equal(bullmq.StateWaiting))

		var values object
		node.Do("childrenValues", object{"queue": parents, "id": parent}, &values)
		Expect(values).To(HaveLen(2))
		for _, id := range children {
			Expect(values).To(HaveKeyWithValue(key(id), And(HaveKey("square"), HaveKeyWithValue("text", "<&>"))))
		}
		var outcomes []struct{ Returnvalue object }
		node.Run(parents, 1, object{"children": true}, object{})(&outcomes)
		Expect(outcomes[0].Returnvalue).To(Equal(values))
	})

	It("whose children run in Node has its parent run by Go once they are done and not before", func() {
		parent, _ := addFlow(object{})
		queue := newGoQueue(parents)
		var ranAt time.Time
		worker := runGoWorker(parents, func(_ context.Context, job *bullmq.Job) (any, error) {
			ranAt = time.Now()
			return object{"got": job.Data}, nil
		}, bullmq.WorkerOptions{})
		completeInNode(kids)
		Expect(stateOf(queue, parent)()).To(Equal(bullmq.StateWaitingChildren))
		before := time.Now()
		completeInNode(kids)
		Expect(queue.WaitForJob(soon(), parent)).To(MatchJSON(`{"got":{"p":1}}`))
		worker.stop()
		Expect(ranAt).To(BeTemporally(">", before))
	})

	It("fails with a child that fails in Go if the child has that option, without a call of the parent's handler", func() {
		parent, children := addFlow(object{"failParentOnFailure": true})
		runOnce(kids, failing("no <way>"), bullmq.WorkerOptions{})
		queue := newGoQueue(parents)
		Expect(stateOf(queue, parent)()).To(Equal(bullmq.StateWaiting))
		ran := false
		worker := runGoWorker(parents, func(context.Context, *bullmq.Job) (any, error) { ran = true; return nil, nil }, bullmq.WorkerOptions{})
		Eventually(stateOf(queue, parent)).Should(Equal(bullmq.StateFailed))
		worker.stop()
		Expect(ran).To(BeFalse())
		Expect(node.Record(parents, parent)["failedReason"]).To(BeElementOf("child "+key(children[0])+" failed", "child "+key(children[1])+" failed"))
	})

	It("continues without a child that fails in Go if the child has that option, and Node reads the reason", func() {
		parent, children := addFlow(object{"ignoreDependencyOnFailure": true})
		runOnce(kids, failing(`{"a":"<no>"}`), bullmq.WorkerOptions{})
		runOnce(kids, returning("well"), bullmq.WorkerOptions{})
		Expect(stateOf(newGoQueue(parents), parent)()).To(Equal(bullmq.StateWaiting))
		var failures, values object
		node.Do("ignoredChildrenFailures", object{"queue": parents, "id": parent}, &failures)
		node.Do("childrenValues", object{"queue": parents, "id": parent}, &values)
		Expect(failures).To(HaveLen(1))
		Expect(failures).To(Or(HaveKeyWithValue(key(children[0]), `{"a":"<no>"}`), HaveKeyWithValue(key(children[1]), `{"a":"<no>"}`)))
		Expect(values).To(HaveLen(1))
	})
})

// completeInNode fetches one job in Node and completes it without fetching another.
func completeInNode(queue string) {
	GinkgoHelper()
	var job struct{ ID string }
	node.Do("fetch", object{"queue": queue, "token": "by-hand"}, &job)
	node.Do("complete", object{"queue": queue, "id": job.ID, "token": "by-hand", "returnvalue": 1}, nil)
}
