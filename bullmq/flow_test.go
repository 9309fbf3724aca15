package bullmq_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("A flow", func() {
	var (
		walls, bricks *bullmq.Queue // the queues of the parents and their children
		builder       *bullmq.FlowProducer
		ctx           context.Context
	)
	newProducer := func(o bullmq.FlowProducerOptions) *bullmq.FlowProducer {
		GinkgoHelper()
		if o.Connection == nil && o.URL == "" {
			o.Connection = connection()
		}
		producer, err := bullmq.NewFlowProducer(ctx, &o)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(producer.Close)
		return producer
	}
	BeforeEach(func() {
		ctx = specContext()
		walls, bricks = newQueue(newQueueName(), nil), newQueue(newQueueName(), nil)
		builder = newProducer(bullmq.FlowProducerOptions{})
	})
	// wall returns a flow of a parent and children with the given options.
	wall := func(children ...bullmq.JobOptions) bullmq.Flow {
		flow := bullmq.Flow{Name: "wall", QueueName: walls.Name(), Options: &bullmq.JobOptions{JobID: "par"}}
		for n, options := range children {
			if options.JobID == "" {
				options.JobID = fmt.Sprint("kid-", n+1)
			}
			flow.Children = append(flow.Children, bullmq.Flow{Name: "brick", QueueName: bricks.Name(), Options: &options})
		}
		return flow
	}
	add := func(flow bullmq.Flow) *bullmq.Job {
		GinkgoHelper()
		node, err := builder.Add(ctx, flow)
		Expect(err).NotTo(HaveOccurred())
		return node.Job
	}
	// finish fetches the next job of a queue and finishes it.
	finish := func(queue *bullmq.Queue, value any, reason error) *bullmq.Job {
		GinkgoHelper()
		fetcher := newFetcher(queue.Name(), nil)
		job := takeJob(fetcher)
		endJob(fetcher, job, value, reason)
		return job
	}
	kid := func(n int) string { return keyOf(bricks.Name(), fmt.Sprint("kid-", n)) }
	boom := errors.New("boom")

	It("is stored as waiting parents and as children that name them in their hash and options", func() {
		parent := add(wall(bullmq.JobOptions{OnFailure: bullmq.FailParent}, bullmq.JobOptions{}))
		Expect(parent.State(ctx)).To(Equal(bullmq.StateWaitingChildren))
		Expect(setAt(parent.Key() + ":dependencies")).To(Equal([]string{kid(1), kid(2)}))
		queueKey := "bull:" + walls.Name()
		Expect(hashAt(kid(1))).To(And(
			HaveKeyWithValue("parentKey", queueKey+":par"),
			HaveKeyWithValue("parent", fmt.Sprintf(`{"id":"par","queueKey":%q,"fpof":true}`, queueKey)),
			HaveKeyWithValue("opts", MatchJSON(fmt.Sprintf(`{"attempts":0,"fpof":true,"jobId":"kid-1","parent":{"id":"par","queue":%q}}`, queueKey))),
		))
		Expect(hashAt(kid(2))).To(HaveKeyWithValue("parent", fmt.Sprintf(`{"id":"par","queueKey":%q}`, queueKey)))
	})

	It("runs its parent with the values of all children when the last has completed", func() {
		parent := add(wall(bullmq.JobOptions{}, bullmq.JobOptions{}))
		finish(bricks, "red", nil)
		Expect(parent.State(ctx)).To(Equal(bullmq.StateWaitingChildren))
		finish(bricks, 2, nil)
		Expect(parent.State(ctx)).To(Equal(bullmq.StateWaiting))
		Expect(parent.ChildrenValues(ctx)).To(Equal(map[string]json.RawMessage{kid(1): rawJSON(`"red"`), kid(2): rawJSON(`2`)}))
		Expect(finish(walls, nil, nil).ID).To(Equal("par"))
	})

	Describe("when a child fails for good", func() {
		It("keeps its parent waiting if the child has no failure option", func() {
			parent := add(wall(bullmq.JobOptions{Attempts: 2}))
			finish(bricks, nil, boom)
			finish(bricks, nil, boom)
			Expect(bricks.JobState(ctx, "kid-1")).To(Equal(bullmq.StateFailed))
			Expect(parent.State(ctx)).To(Equal(bullmq.StateWaitingChildren))
			Expect(setAt(parent.Key() + ":dependencies")).To(Equal([]string{kid(1)}))
		})

		It("fails the parent without running it and its parents in turn, with FailParent", func() {
			flow := wall(bullmq.JobOptions{OnFailure: bullmq.FailParent}, bullmq.JobOptions{})
			flow.Options.OnFailure = bullmq.FailParent
			house := add(bullmq.Flow{Name: "house", QueueName: walls.Name(), Options: &bullmq.JobOptions{JobID: "house"}, Children: []bullmq.Flow{flow}})
			finish(bricks, nil, boom)
			Expect(hashAt(keyOf(walls.Name(), "par"))).To(HaveKeyWithValue("defa", "child "+kid(1)+" failed"))
			Expect(walls.JobState(ctx, "par")).To(Equal(bullmq.StateWaiting))
			Expect(zsetAt(keyOf(walls.Name(), "par:unsuccessful"))).To(Equal([]string{kid(1)}))
			runWorker(walls.Name(), func(_ context.Context, job *bullmq.Job) (any, error) {
				defer GinkgoRecover()
				Fail("the handler ran for " + job.ID)
				return nil, nil
			}, nil)
			Eventually(stateOf(walls, "house")).Should(Equal(bullmq.StateFailed))
			Expect(hashAt(keyOf(walls.Name(), "par"))).To(And(HaveKeyWithValue("failedReason", "child "+kid(1)+" failed"), Not(HaveKey("defa"))))
			Expect(hashAt(house.Key())).To(HaveKeyWithValue("failedReason", "child "+keyOf(walls.Name(), "par")+" failed"))
			Expect(bricks.JobState(ctx, "kid-2")).To(Equal(bullmq.StateWaiting), "the others are left alone")
		})

		DescribeTable("lets its parent continue by the child's option", func(options bullmq.JobOptions, atOnce bool, reasons map[string]string) {
			parent := add(wall(options, bullmq.JobOptions{}))
			finish(bricks, nil, boom)
			if atOnce {
				Expect(parent.State(ctx)).To(Equal(bullmq.StateWaiting))
			} else {
				Expect(parent.State(ctx)).To(Equal(bullmq.StateWaitingChildren))
				finish(bricks, "laid", nil)
				Expect(parent.State(ctx)).To(Equal(bullmq.StateWaiting))
				Expect(parent.ChildrenValues(ctx)).To(Equal(map[string]json.RawMessage{kid(2): rawJSON(`"laid"`)}))
			}
			named := map[string]string{}
			for n, reason := range reasons {
				named[keyOf(bricks.Name(), n)] = reason
			}
			Expect(hashAt(parent.Key() + ":failed")).To(Equal(named))
			Expect(parent.IgnoredChildrenFailures(ctx)).To(Equal(named))
			Expect(hashAt(parent.Key())).NotTo(HaveKey("defa"))
		},
			Entry("at once", bullmq.JobOptions{OnFailure: bullmq.ContinueParent}, true, map[string]string{"kid-1": "boom"}),
			Entry("after the others, with the reason", bullmq.JobOptions{OnFailure: bullmq.IgnoreDependency}, false, map[string]string{"kid-1": "boom"}),
			Entry("after the others, without a trace", bullmq.JobOptions{OnFailure: bullmq.RemoveDependency}, false, map[string]string{}),
		)

		DescribeTable("counts that child again when it is retried and completes, if", func(options bullmq.JobOptions, released bool) {
			parent := add(wall(options))
			finish(bricks, nil, boom)
			if released {
				Expect(parent.State(ctx)).To(Equal(bullmq.StateWaiting))
			}
			child, err := bricks.Job(ctx, "kid-1")
			Expect(err).NotTo(HaveOccurred())
			Expect(child.Retry(ctx, bullmq.StateFailed, nil)).To(Succeed())
			Expect(setAt(parent.Key() + ":dependencies")).To(Equal([]string{kid(1)}))
			Expect(parent.Dependencies(ctx)).To(HaveField("Failed", BeEmpty()))
			finish(bricks, "laid after all", nil)
			Expect(parent.State(ctx)).To(Equal(bullmq.StateWaiting))
			Expect(parent.Dependencies(ctx)).To(Equal(&bullmq.Dependencies{
				Processed: map[string]json.RawMessage{kid(1): rawJSON(`"laid after all"`)}, Unprocessed: []string{}, Ignored: map[string]string{}, Failed: []string{},
			}))
		},
			Entry("the parent still waits for it", bullmq.JobOptions{}, false),
			Entry("the parent was to fail", bullmq.JobOptions{OnFailure: bullmq.FailParent}, true),
			Entry("its failure was ignored", bullmq.JobOptions{OnFailure: bullmq.IgnoreDependency}, true),
		)
	})

	Describe("added again with an existing root", func() {
		for _, state := range []bullmq.State{bullmq.StateWaitingChildren, bullmq.StateActive, bullmq.StateCompleted, bullmq.StateFailed} {
			reach := func() *bullmq.Job {
				GinkgoHelper()
				root := add(wall(bullmq.JobOptions{}))
				if state == bullmq.StateWaitingChildren {
					return root
				}
				finish(bricks, "laid", nil)
				fetcher := newFetcher(walls.Name(), nil)
				taken := takeJob(fetcher)
				switch state {
				case bullmq.StateCompleted:
					endJob(fetcher, taken, "built", nil)
				case bullmq.StateFailed:
					endJob(fetcher, taken, nil, boom)
				}
				return root
			}
			stored := func(root *bullmq.Job) []any {
				GinkgoHelper()
				return []any{
					hashAt(root.Key()), setAt(root.Key() + ":dependencies"), hashAt(root.Key() + ":processed"), hashAt(kid(1)), listAt(keyOf(bricks.Name(), "wait")),
				}
			}
			It(fmt.Sprintf("which is %s changes nothing if every job has its JobID", state), func() {
				root := reach()
				before := stored(root)
				again := wall(bullmq.JobOptions{Priority: 5})
				again.Data = "other data"
				node, err := builder.Add(ctx, again)
				Expect(err).NotTo(HaveOccurred())
				Expect(node.Job.ID).To(Equal("par"))
				Expect(node.Job.State(ctx)).To(Equal(state))
				Expect(stored(root)).To(Equal(before))
			})

			It(fmt.Sprintf("which is %s adds another child for each without a JobID", state), func() {
				root := reach()
				pending := len(setAt(root.Key() + ":dependencies"))
				again := wall(bullmq.JobOptions{})
				again.Children[0].Options = nil
				node, err := builder.Add(ctx, again)
				Expect(err).NotTo(HaveOccurred())
				Expect(root.State(ctx)).To(Equal(state))
				Expect(setAt(root.Key() + ":dependencies")).To(And(HaveLen(pending+1), ContainElement(node.Children[0].Job.Key())))
				Expect(node.Children[0].Job.State(ctx)).To(Equal(bullmq.StateWaiting))
			})
		}
	})

	Describe("with an existing child", func() {
		It("uses the value of a completed one, and runs its parent if no other is pending", func() {
			_, err := bricks.Add(ctx, "brick", nil, &bullmq.JobOptions{JobID: "kid-1"})
			Expect(err).NotTo(HaveOccurred())
			finish(bricks, "laid long ago", nil)
			parent := add(wall(bullmq.JobOptions{}))
			Expect(parent.State(ctx)).To(Equal(bullmq.StateWaiting))
			Expect(parent.ChildrenValues(ctx)).To(Equal(map[string]json.RawMessage{kid(1): rawJSON(`"laid long ago"`)}))
		})

		It("waits for one that has not finished", func() {
			_, err := bricks.Add(ctx, "brick", nil, &bullmq.JobOptions{JobID: "kid-1"})
			Expect(err).NotTo(HaveOccurred())
			parent := add(wall(bullmq.JobOptions{}))
			Expect(parent.State(ctx)).To(Equal(bullmq.StateWaitingChildren))
			finish(bricks, nil, nil)
			Expect(parent.State(ctx)).To(Equal(bullmq.StateWaiting))
		})
	})

	It("reports which job belongs to another parent, and adds the rest", func() {
		add(wall(bullmq.JobOptions{}))
		second := wall(bullmq.JobOptions{}, bullmq.JobOptions{JobID: "own"})
		second.Options.JobID = "other"
		node, err := builder.Add(ctx, second)
		Expect(err).NotTo(HaveOccurred())
		Expect(node.Refused).NotTo(HaveOccurred())
		Expect(node.Children[0].Refused).To(MatchError(bullmq.ErrParentNotReplaceable))
		Expect(node.Children[1].Refused).NotTo(HaveOccurred())
		Expect(setAt(keyOf(walls.Name(), "other:dependencies"))).To(Equal([]string{keyOf(bricks.Name(), "own")}))
		Expect(hashAt(keyOf(bricks.Name(), "kid-1"))).To(HaveKeyWithValue("parentKey", keyOf(walls.Name(), "par")))
	})

	Describe("is not added at all", func() {
		refused := func(producer *bullmq.FlowProducer, flow bullmq.Flow, hints ...string) {
			GinkgoHelper()
			before := []map[string]any{snapshot(walls.Name()), snapshot(bricks.Name())}
			_, err := producer.Add(ctx, flow)
			for _, hint := range append(hints, "no job of the flow was added") {
				Expect(err).To(MatchError(ContainSubstring(hint)))
			}
			Expect([]map[string]any{snapshot(walls.Name()), snapshot(bricks.Name())}).To(Equal(before))
		}

		DescribeTable("when one of its jobs has", func(options bullmq.JobOptions, hints ...string) {
			refused(builder, wall(bullmq.JobOptions{}, options), hints...)
		},
			Entry("two rules for its failure", bullmq.JobOptions{OnFailure: bullmq.FailParent, Extra: map[string]json.RawMessage{"ignoreDependencyOnFailure": []byte("true")}},
				"failParentOnFailure and ignoreDependencyOnFailure", "choose one"),
			Entry("an id that a queue generates", bullmq.JobOptions{JobID: "77"}, `"77"`),
			Entry("deduplication, which children cannot have", bullmq.JobOptions{Deduplication: &bullmq.Deduplication{ID: "d"}}, "Deduplication"),
		)

		It("when one of its jobs names no queue", func() {
			refused(builder, bullmq.Chain(), `"" of queue ""`, "a queue needs a name")
		})

		It("below a parent that does not exist", func() {
			flow := wall()
			parent := &bullmq.ParentRef{ID: "nobody", QueueKey: "bull:" + bricks.Name()}
			text, err := json.Marshal(map[string]any{"id": parent.ID, "queue": parent.QueueKey})
			Expect(err).NotTo(HaveOccurred())
			for _, options := range []*bullmq.JobOptions{{JobID: "par", Parent: parent}, {JobID: "par", Extra: map[string]json.RawMessage{"parent": text}}} {
				flow.Options = options
				_, err := builder.Add(ctx, flow)
				Expect(err).To(MatchError(bullmq.ErrParentNotFound))
				Expect(err).To(MatchError(ContainSubstring("bull:" + bricks.Name() + ":nobody")))
			}
			Expect(keysOf(walls.Name())).To(Equal([]string{keyOf(walls.Name(), "meta")}))
		})
	})

	Describe("on a cluster", func() {
		var link *bullmq.Connection
		BeforeEach(func() { link = clustered() })

		DescribeTable("is refused before anything is sent if its jobs would be in different slots:", func(add func(name string) error) {
			name := newQueueName()
			Expect(add(name)).To(MatchError(And(ContainSubstring("bull:{"+name+"}"), ContainSubstring("bull:{"+name+"-b}"), ContainSubstring("one hash tag"), ContainSubstring("{bull}"))))
			Expect(onCluster("KEYS", "*"+name+"*").AsStrSlice()).To(Or(BeEmpty(), ConsistOf("bull:{"+name+"-b}:meta")))
		},
			Entry("a child", func(name string) error {
				_, err := newProducer(bullmq.FlowProducerOptions{Connection: link}).Add(ctx, bullmq.Flow{
					Name: "wall", QueueName: "{" + name + "}", Children: []bullmq.Flow{{Name: "brick", QueueName: "{" + name + "-b}"}},
				})
				return err
			}),
			Entry("two flows of one call", func(name string) error {
				_, err := newProducer(bullmq.FlowProducerOptions{Connection: link}).AddBulk(ctx, []bullmq.Flow{
					{Name: "wall", QueueName: "{" + name + "}"}, {Name: "wall", QueueName: "{" + name + "-b}"},
				})
				return err
			}),
			Entry("a flow and its given parent", func(name string) error {
				_, err := newProducer(bullmq.FlowProducerOptions{Connection: link}).Add(ctx, bullmq.Flow{
					Name: "brick", QueueName: "{" + name + "-b}", Options: &bullmq.JobOptions{Parent: &bullmq.ParentRef{ID: "par", QueueKey: "bull:{" + name + "}"}},
				})
				return err
			}),
			Entry("a single job and its given parent", func(name string) error {
				_, err := newQueue("{"+name+"-b}", &bullmq.QueueOptions{Connection: link}).Add(ctx, "brick", nil,
					&bullmq.JobOptions{Parent: &bullmq.ParentRef{ID: "par", QueueKey: "bull:{" + name + "}"}})
				return err
			}),
		)

		DescribeTable("runs if its jobs share a slot", func(prefix, parents, children string) {
			parents, children = fmt.Sprintf(parents, newQueueName()), fmt.Sprintf(children, newQueueName())
			node, err := newProducer(bullmq.FlowProducerOptions{Connection: link, Prefix: prefix}).Add(ctx, bullmq.Flow{
				Name: "wall", QueueName: parents, Children: []bullmq.Flow{{Name: "brick", QueueName: children}},
			})
			Expect(err).NotTo(HaveOccurred())
			for _, name := range []string{children, parents} {
				runWorker(name, doNothing, &bullmq.WorkerOptions{Connection: link, Prefix: prefix})
			}
			queue := newQueue(parents, &bullmq.QueueOptions{Connection: link, Prefix: prefix})
			Expect(node.Job.Wait(ctx, queue)).To(MatchJSON(`null`))
			Expect(queue.Obliterate(ctx, nil)).To(Succeed())
		},
			Entry("by the prefix", "{bull}", "%s", "%s"), Entry("by the names of their queues", "bull", "{flow}%s", "{flow}%s"),
		)
	})
})
