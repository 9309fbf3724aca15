package tests

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("A scheduler created by Go", func() {
	var name string
	var queue *bullmq.Queue
	BeforeEach(func() {
		name = newQueueName()
		queue = newGoQueue(name)
	})
	upsert := func(name string, queue *bullmq.Queue, repeat bullmq.Repeat) (inGo, inNode func()) {
		asNode := object{"every": repeat.Every.Milliseconds()}
		if repeat.Pattern != "" {
			asNode = object{"pattern": repeat.Pattern, "tz": repeat.TimeZone}
		}
		ctx := soon()
		return func() {
				GinkgoHelper()
				_, err := queue.UpsertScheduler(ctx, "tick", repeat, &bullmq.JobTemplate{Data: object{"a": []int{}}})
				Expect(err).NotTo(HaveOccurred())
			}, func() {
				GinkgoHelper()
				node.Do("upsertScheduler", object{"queue": name, "id": "tick", "repeat": asNode, "template": object{"name": "tick", "data": object{"a": []int{}}}}, nil)
			}
	}
	schedulers := func() []string {
		GinkgoHelper()
		ids, err := ask("ZRANGE", "bull:"+name+":repeat", "0", "-1").AsStrSlice()
		Expect(err).NotTo(HaveOccurred())
		return ids
	}
	pending := func() []object {
		GinkgoHelper()
		var jobs []object
		node.Do("jobs", object{"queue": name, "types": []string{"delayed", "waiting", "prioritized"}}, &jobs)
		return jobs
	}

	It("continues under a Node worker with the template's data in every run, and Node reads it as intended", func() {
		_, err := queue.UpsertScheduler(soon(), "tick", bullmq.Repeat{Every: 150 * time.Millisecond, Limit: 5},
			&bullmq.JobTemplate{Name: "tock", Data: object{"a": []int{}}, Options: &bullmq.JobOptions{Attempts: 2}})
		Expect(err).NotTo(HaveOccurred())
		var scheduler object
		node.Do("scheduler", object{"queue": name, "id": "tick"}, &scheduler)
		Expect(scheduler).To(And(HaveKeyWithValue("key", "tick"), HaveKeyWithValue("name", "tock"), HaveKeyWithValue("every", 150.),
			HaveKeyWithValue("limit", 5.), HaveKeyWithValue("template", object{"data": object{"a": []any{}}, "opts": object{"attempts": 2.}})))

		var outcomes []struct{ ID string }
		node.Run(name, 5, object{"return": 1}, object{})(&outcomes)
		Expect(outcomes).To(HaveLen(5))
		for _, run := range outcomes {
			Expect(node.Record(name, run.ID)).To(And(HaveKeyWithValue("name", "tock"), HaveKeyWithValue("data", object{"a": []any{}}),
				HaveKeyWithValue("opts", HaveKeyWithValue("attempts", 2.))))
		}
		Expect(pending()).To(BeEmpty(), "the limit is five runs")
	})

	DescribeTable("has one record and one pending job when many clients of both libraries upsert it concurrently with", func(repeat bullmq.Repeat) {
		var upserts sync.WaitGroup
		for range 10 {
			inGo, _ := upsert(name, newGoQueue(name), repeat)
			_, inNode := upsert(name, queue, repeat)
			for _, instance := range []func(){inGo, inNode} {
				upserts.Go(func() {
					defer GinkgoRecover()
					instance()
				})
			}
		}
		upserts.Wait()
		Expect(schedulers()).To(Equal([]string{"tick"}))
		Expect(pending()).To(HaveLen(1))
		Expect(pending()[0]).To(HaveKeyWithValue("data", object{"a": []any{}}))
	},
		Entry("an interval", bullmq.Repeat{Every: time.Minute}),
		Entry("a pattern", bullmq.Repeat{Pattern: "0 0 1 1 *", TimeZone: "UTC"}),
	)

	It("keeps its interval while clients of both libraries upsert it repeatedly, whichever library runs it", func() {
		const every = 250 * time.Millisecond
		byNode := newQueueName()
		noddy := startNode("worker.mjs", "-queue", byNode)
		var mu sync.Mutex
		runs := map[string][]string{}
		note := func(queue, id string) {
			mu.Lock()
			defer mu.Unlock()
			runs[queue] = append(runs[queue], id)
		}
		runGoWorker(name, func(_ context.Context, job *bullmq.Job) (any, error) { note(name, job.ID); return nil, nil }, bullmq.WorkerOptions{})
		queues := map[string]*bullmq.Queue{name: queue, byNode: newGoQueue(byNode)}
		begun := time.Now()
		for n := 0; time.Since(begun) < 10*every; n++ {
			for name, queue := range queues {
				inGo, inNode := upsert(name, queue, bullmq.Repeat{Every: every})
				if n%2 == 0 {
					inGo()
				} else {
					inNode()
				}
			}
			time.Sleep(75 * time.Millisecond) // time between two deployments
		}
		length := time.Since(begun)
		for done := false; !done; {
			select {
			case line := <-noddy.Lines():
				var message struct{ Event, ID string }
				if Expect(line.Decode(&message)).To(Succeed()); message.Event == "started" {
					note(byNode, message.ID)
				}
			default:
				done = true
			}
		}
		mu.Lock()
		defer mu.Unlock()
		for name := range queues {
			// A busy machine misses some scheduled times. Without an interval there would be a run for each upsert or none.
			Expect(float64(len(runs[name]))).To(And(BeNumerically(">=", 3), BeNumerically("<=", 2+length.Seconds()/every.Seconds())), name)
			before := int64(0)
			for _, id := range runs[name] {
				due, err := strconv.ParseInt(strings.TrimPrefix(id, "repeat:tick:"), 10, 64)
				Expect(err).NotTo(HaveOccurred())
				if before != 0 {
					Expect(due).To(BeNumerically(">", before))
					Expect((due - before) % every.Milliseconds()).To(BeZero())
				}
				before = due
			}
		}
	})
})

var _ = Describe("A flow created by Go", func() {
	var parents, kids *bullmq.Queue
	var flows *bullmq.FlowProducer
	BeforeEach(func() {
		parents, kids = newGoQueue(newQueueName()), newGoQueue(newQueueName())
		var err error
		flows, err = bullmq.NewFlowProducer(context.Background(), &bullmq.FlowProducerOptions{URL: server.URL()})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(flows.Close)
	})
	add := func(child bullmq.JobOptions) (parent, failing string) {
		GinkgoHelper()
		tree, err := flows.Add(soon(), bullmq.Flow{Name: "parent", QueueName: parents.Name(), Children: []bullmq.Flow{
			{Name: "failing", QueueName: kids.Name(), Options: &child}, {Name: "working", QueueName: kids.Name(), Data: object{"n": 2}},
		}})
		Expect(err).NotTo(HaveOccurred())
		return tree.Job.ID, tree.Children[0].Job.Key()
	}
	workInNode := func(queue *bullmq.Queue, count int) {
		GinkgoHelper()
		node.Run(queue.Name(), count, object{"byName": object{
			"failing": object{"throw": "no <way>"}, "working": object{"return": object{"square": 4}}, "parent": object{"children": true},
		}}, object{})(nil)
	}

	It("waits in Node for a failed child and is released when the child is retried and completes in Go", func() {
		parent, child := add(bullmq.JobOptions{})
		workInNode(kids, 2)
		Expect(stateOf(parents, parent)()).To(Equal(bullmq.StateWaitingChildren))
		id := child[strings.LastIndexByte(child, ':')+1:]
		Expect(readJob(kids, id).Retry(soon(), bullmq.StateFailed, nil)).To(Succeed())
		runOnce(kids.Name(), returning("after all"), bullmq.WorkerOptions{})
		workInNode(parents, 1)
		var values map[string]any
		Expect(json.Unmarshal(readJob(parents, parent).ReturnValue, &values)).To(Succeed())
		Expect(values).To(HaveLen(2))
		Expect(values).To(HaveKeyWithValue(child, "after all"))
	})

	It("fails in Node with its child if the child has that option", func() {
		parent, child := add(bullmq.JobOptions{OnFailure: bullmq.FailParent})
		workInNode(kids, 1)
		workInNode(parents, 1)
		Expect(node.Record(parents.Name(), parent)).To(And(HaveKeyWithValue("state", "failed"), HaveKeyWithValue("failedReason", "child "+child+" failed")))
	})

	DescribeTable("continues in Node without its failed child if the child has that option:", func(options bullmq.JobOptions, children int, failures object) {
		parent, child := add(options)
		workInNode(kids, children)
		workInNode(parents, 1)
		Expect(stateOf(parents, parent)()).To(Equal(bullmq.StateCompleted))
		var ignored object
		node.Do("ignoredChildrenFailures", object{"queue": parents.Name(), "id": parent}, &ignored)
		want := object{}
		for _, reason := range failures {
			want[child] = reason
		}
		Expect(ignored).To(Equal(want))
	},
		Entry("at once", bullmq.JobOptions{OnFailure: bullmq.ContinueParent}, 1, object{"it": "no <way>"}),
		Entry("with the failure reason", bullmq.JobOptions{OnFailure: bullmq.IgnoreDependency}, 2, object{"it": "no <way>"}),
		Entry("without recording the failure", bullmq.JobOptions{OnFailure: bullmq.RemoveDependency}, 2, nil),
	)
})
