package bullmq_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("A chain", func() {
	step := func(name string, children ...bullmq.Flow) bullmq.Flow {
		return bullmq.Flow{Name: name, QueueName: name + "s", Children: children}
	}

	It("is a flow in which each step is the child of the next", func() {
		Expect(bullmq.Chain(step("fetch"), step("resize"), step("publish"))).To(Equal(step("publish", step("resize", step("fetch")))))
		Expect(bullmq.Chain(step("fetch"))).To(Equal(step("fetch")))
	})

	It("and a fan-out can contain each other", func() {
		Expect(bullmq.Chain(bullmq.FanOut(step("join"), bullmq.Chain(step("a"), step("b")), step("c")), step("d"))).
			To(Equal(step("d", step("join", step("b", step("a")), step("c")))))
		Expect(bullmq.FanOut(step("join"))).To(Equal(step("join")))
	})

	It("does not change the flows that it is made of", func() {
		children := make([]bullmq.Flow, 1, 8)
		children[0] = step("a")
		join := step("join", children...)
		first, second := bullmq.Chain(step("b"), join), bullmq.Chain(step("c"), join)
		Expect(join).To(Equal(step("join", step("a"))))
		Expect(first).To(Equal(step("join", step("a"), step("b"))))
		Expect(second).To(Equal(step("join", step("a"), step("c"))))
	})

	It("without steps is refused by Add", func() {
		producer, err := bullmq.NewFlowProducer(context.Background(), &bullmq.FlowProducerOptions{Connection: connection()})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(producer.Close)
		_, err = producer.Add(specContext(), bullmq.Chain())
		Expect(err).To(MatchError(ContainSubstring("a queue needs a name")))
	})
})

var _ = Describe("The results of a job's children", func() {
	type price struct{ Cents int }
	var (
		ctx               context.Context
		orders, lookups   *bullmq.Queue // the queues of the parent and its children
		producer          *bullmq.FlowProducer
		customer, company = errors.New("no such customer"), errors.New("no such company")
	)
	BeforeEach(func() {
		ctx = specContext()
		orders, lookups = newQueue(newQueueName(), nil), newQueue(newQueueName(), nil)
		var err error
		producer, err = bullmq.NewFlowProducer(ctx, &bullmq.FlowProducerOptions{Connection: connection()})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(producer.Close)
	})
	// order adds a parent with one child for each of the options.
	order := func(children ...bullmq.JobOptions) *bullmq.Job {
		GinkgoHelper()
		flow := bullmq.Flow{Name: "order", QueueName: orders.Name()}
		for i, options := range children {
			options.JobID = string(rune('a' + i))
			flow.Children = append(flow.Children, bullmq.Flow{Name: "lookup " + options.JobID, QueueName: lookups.Name(), Options: &options})
		}
		node, err := producer.Add(ctx, flow)
		Expect(err).NotTo(HaveOccurred())
		return node.Job
	}
	// end fetches the next child and finishes it.
	end := func(value any, reason error) {
		GinkgoHelper()
		fetcher := newFetcher(lookups.Name(), nil)
		job, err := fetcher.TryFetch(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(job).NotTo(BeNil())
		if reason == nil {
			err = fetcher.Complete(ctx, job, value)
		} else {
			err = fetcher.Fail(ctx, job, reason)
		}
		Expect(err).NotTo(HaveOccurred())
	}
	child := func(id string, value price, err error) bullmq.Child[price] {
		return bullmq.Child[price]{Key: keyOf(lookups.Name(), id), QueueName: lookups.Name(), ID: id, Name: "lookup " + id, Value: value, Err: err}
	}
	failure := func(id string, reason error) error {
		return &bullmq.JobFailedError{QueueName: lookups.Name(), JobID: id, Reason: reason.Error()}
	}

	It("are decoded into the caller's type: values, failures and which are pending", func() {
		parent := order(bullmq.JobOptions{}, bullmq.JobOptions{OnFailure: bullmq.IgnoreDependency}, bullmq.JobOptions{},
			bullmq.JobOptions{OnFailure: bullmq.RemoveDependency}, bullmq.JobOptions{OnFailure: bullmq.FailParent}, bullmq.JobOptions{})
		end(price{Cents: 120}, nil)
		end(nil, customer)
		end(nil, errors.New("to be retried by hand, since the option says nothing"))
		end(nil, errors.New("leaves no trace"))
		end(nil, company)
		Expect(bullmq.Children[price](ctx, parent)).To(Equal([]bullmq.Child[price]{
			child("a", price{Cents: 120}, nil),
			child("b", price{}, failure("b", customer)),
			child("c", price{}, bullmq.ErrChildPending),
			child("e", price{}, failure("e", company)),
			child("f", price{}, bullmq.ErrChildPending),
		}))
		Expect(parent.Dependencies(ctx)).To(HaveValue(And(
			HaveField("Processed", map[string]json.RawMessage{keyOf(lookups.Name(), "a"): json.RawMessage(`{"Cents":120}`)}),
			HaveField("Unprocessed", ConsistOf(keyOf(lookups.Name(), "f"), keyOf(lookups.Name(), "c"))),
			HaveField("Ignored", map[string]string{keyOf(lookups.Name(), "b"): customer.Error()}),
			HaveField("Failed", []string{keyOf(lookups.Name(), "e")}),
		)))
	})

	It("are told apart by the names of the children, as long as these exist", func() {
		parent := order(bullmq.JobOptions{}, bullmq.JobOptions{KeepCompleted: bullmq.KeepNone()})
		end(price{Cents: 120}, nil)
		end("free", nil)
		children, err := bullmq.Children[json.RawMessage](ctx, parent)
		Expect(err).NotTo(HaveOccurred())
		Expect(children).To(HaveExactElements(
			And(HaveField("Name", "lookup a"), HaveField("Value", MatchJSON(`{"Cents":120}`))),
			And(HaveField("Name", ""), HaveField("ID", "b"), HaveField("Value", MatchJSON(`"free"`))),
		))
	})

	It("return an error if a value does not fit, unless it is read as raw JSON", func() {
		parent := order(bullmq.JobOptions{})
		end(json.RawMessage(`"twelve"`), nil)
		_, err := bullmq.Children[int](ctx, parent)
		Expect(err).To(MatchError(And(ContainSubstring("job a of queue "+lookups.Name()), ContainSubstring("decoded as int"))))
		Expect(bullmq.ChildValue[json.RawMessage](ctx, parent)).To(MatchJSON(`"twelve"`))
		Expect(bullmq.ChildValue[string](ctx, parent)).To(Equal("twelve"))
	})

	Describe("with a single child", func() {
		It("are its value once it has completed", func() {
			parent := order(bullmq.JobOptions{})
			_, err := bullmq.ChildValue[price](ctx, parent)
			Expect(err).To(MatchError(bullmq.ErrChildPending))
			end(price{Cents: 80}, nil)
			Expect(bullmq.ChildValue[price](ctx, parent)).To(Equal(price{Cents: 80}))
		})

		DescribeTable("are its failure, if", func(options bullmq.JobOptions) {
			parent := order(options)
			end(nil, customer)
			_, err := bullmq.ChildValue[price](ctx, parent)
			Expect(err).To(Equal(failure("a", customer)))
		},
			Entry("the parent fails with it", bullmq.JobOptions{OnFailure: bullmq.FailParent}),
			Entry("it is ignored", bullmq.JobOptions{OnFailure: bullmq.IgnoreDependency}),
			Entry("the parent continues with it", bullmq.JobOptions{OnFailure: bullmq.ContinueParent}),
		)

		DescribeTable("are empty if a failed child left no trace and the parent runs,", func(options bullmq.JobOptions) {
			parent := order(options)
			end(nil, customer)
			Expect(parent.State(ctx)).To(Equal(bullmq.StateWaiting))
			_, err := bullmq.ChildValue[price](ctx, parent)
			Expect(err).To(MatchError(bullmq.ErrNoChild))
			Expect(err).To(MatchError(ContainSubstring("job " + parent.ID)))
		},
			Entry("by RemoveDependency", bullmq.JobOptions{OnFailure: bullmq.RemoveDependency}),
			Entry("by KeepFailed", bullmq.JobOptions{KeepFailed: bullmq.KeepNone()}),
		)

		It("are empty when the child was removed and the parent runs", func() {
			parent := order(bullmq.JobOptions{})
			Expect(lookups.Remove(ctx, "a", nil)).To(Succeed())
			Expect(parent.State(ctx)).To(Equal(bullmq.StateWaiting))
			_, err := bullmq.ChildValue[price](ctx, parent)
			Expect(err).To(MatchError(bullmq.ErrNoChild))
		})
	})

	It("let a parent that failed with a child complete after the child is retried and completes", func() {
		parent := order(bullmq.JobOptions{OnFailure: bullmq.FailParent})
		end(nil, customer)
		runWorker(orders.Name(), func(ctx context.Context, job *bullmq.Job) (any, error) {
			return bullmq.ChildValue[price](ctx, job)
		}, nil)
		_, err := parent.Wait(ctx, orders)
		Expect(err).To(MatchError(ContainSubstring("child " + keyOf(lookups.Name(), "a") + " failed")))
		Expect(lookups.JobRef("a").Retry(ctx, bullmq.StateFailed, nil)).To(Succeed())
		end(price{Cents: 5}, nil)
		Expect(parent.State(ctx)).To(Equal(bullmq.StateFailed), "it doesn't come back by itself")
		Expect(parent.Retry(ctx, bullmq.StateFailed, nil)).To(Succeed())
		Expect(parent.Wait(ctx, orders)).To(MatchJSON(`{"Cents":5}`))
	})

	It("keep a parent that continues at once from completing while others are pending, unless it removes them", func() {
		hasty := order(bullmq.JobOptions{OnFailure: bullmq.ContinueParent}, bullmq.JobOptions{})
		end(nil, customer)
		var remove atomic.Bool
		runWorker(orders.Name(), func(ctx context.Context, job *bullmq.Job) (any, error) {
			if remove.Load() {
				return nil, job.RemoveUnprocessedChildren(ctx)
			}
			return nil, nil
		}, nil)
		_, err := hasty.Wait(ctx, orders)
		Expect(err).To(MatchError(ContainSubstring("pending dependencies")))
		remove.Store(true)
		Expect(hasty.Retry(ctx, bullmq.StateFailed, nil)).To(Succeed())
		Expect(hasty.Wait(ctx, orders)).To(MatchJSON(`null`))
		Expect(lookups.JobState(ctx, "b")).Error().To(MatchError(bullmq.ErrJobNotFound))
	})

	It("are refused as a single result if there are several children", func() {
		parent := order(bullmq.JobOptions{}, bullmq.JobOptions{})
		_, err := bullmq.ChildValue[price](ctx, parent)
		Expect(err).To(MatchError(ContainSubstring("has 2 children, not one")))
	})
})
