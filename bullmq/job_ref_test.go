package bullmq_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// bench is a queue with a job named "job" in some state.
type bench struct {
	ctx     context.Context
	name    string
	queue   *bullmq.Queue
	fetcher *bullmq.Fetcher
}

func newBench(dialect bullmq.Dialect) *bench {
	GinkgoHelper()
	b := &bench{ctx: specContext(), name: newQueueName()}
	b.queue = newQueue(b.name, &bullmq.QueueOptions{Now: fixedClock(fixedNow), Dialect: dialect})
	b.fetcher = newFetcher(b.name, &bullmq.FetcherOptions{Now: fixedClock(fixedNow), Dialect: dialect, KeepFailed: bullmq.KeepAll()})
	return b
}

func (b *bench) add(options bullmq.JobOptions) {
	GinkgoHelper()
	options.JobID = "job"
	_, err := b.queue.Add(b.ctx, "paint", map[string]int{"n": 1}, &options)
	Expect(err).NotTo(HaveOccurred())
}

// others are waiting jobs that show the job's position among them.
func (b *bench) others() {
	GinkgoHelper()
	for _, id := range []string{"first", "second"} {
		_, err := b.queue.Add(b.ctx, "other", nil, &bullmq.JobOptions{JobID: id})
		Expect(err).NotTo(HaveOccurred())
	}
}

// childOfJob adds a child of the job and fails it if there is a reason.
func (b *bench) childOfJob(id string, options bullmq.JobOptions, reason error) {
	GinkgoHelper()
	options.JobID, options.Parent = id, b.queue.JobRef("job").AsParent()
	_, err := b.queue.Add(b.ctx, "part", nil, &options)
	Expect(err).NotTo(HaveOccurred())
	if reason != nil {
		endJob(b.fetcher, takeJob(b.fetcher), nil, reason)
	}
}

// benches put the job into its states.
var benches = map[string]func(b *bench){
	"waiting": func(b *bench) { b.add(bullmq.JobOptions{}) },
	"waiting, with a log of three rows": func(b *bench) {
		b.add(bullmq.JobOptions{KeepLogs: 2})
		for _, row := range []string{"a", "b", "c"} {
			_, err := b.queue.AddJobLog(b.ctx, "job", row, nil)
			Expect(err).NotTo(HaveOccurred())
		}
	},
	"waiting, with a deduplication id": func(b *bench) {
		b.add(bullmq.JobOptions{Deduplication: &bullmq.Deduplication{ID: "once"}})
	},
	"waiting, as a child": func(b *bench) {
		producer, err := bullmq.NewFlowProducer(context.Background(), &bullmq.FlowProducerOptions{Connection: connection(), Now: fixedClock(fixedNow)})
		Expect(err).NotTo(HaveOccurred())
		defer producer.Close()
		_, err = producer.Add(b.ctx, bullmq.Flow{
			Name: "house", QueueName: b.name, Options: &bullmq.JobOptions{JobID: "house"},
			Children: []bullmq.Flow{{Name: "paint", QueueName: b.name, Options: &bullmq.JobOptions{JobID: "job"}}},
		})
		Expect(err).NotTo(HaveOccurred())
	},
	"delayed": func(b *bench) { b.add(bullmq.JobOptions{Delay: time.Minute, Priority: 3}) },
	"active":  func(b *bench) { b.add(bullmq.JobOptions{}); takeJob(b.fetcher) },
	"active, with options for its end": func(b *bench) {
		b.add(bullmq.JobOptions{
			Attempts: 3, Backoff: bullmq.FixedBackoff(time.Hour), StackTraceLimit: 1, KeepCompleted: bullmq.KeepNone(),
		})
		takeJob(b.fetcher)
	},
	"active, next to run after a failure": func(b *bench) {
		b.add(bullmq.JobOptions{Attempts: 2, LIFO: true})
		takeJob(b.fetcher)
		b.others()
	},
	"active, with children": func(b *bench) {
		b.add(bullmq.JobOptions{})
		takeJob(b.fetcher)
		b.childOfJob("bad", bullmq.JobOptions{OnFailure: bullmq.IgnoreDependency}, errors.New("broken"))
		b.childOfJob("open", bullmq.JobOptions{}, nil)
	},
	"failed, next to run": func(b *bench) {
		b.add(bullmq.JobOptions{LIFO: true})
		endJob(b.fetcher, takeJob(b.fetcher), nil, errors.New("boom"))
		b.others()
	},
	"completed": func(b *bench) {
		b.add(bullmq.JobOptions{})
		endJob(b.fetcher, takeJob(b.fetcher), "done", nil)
	},
}

// jobCall is a call of a method of the job, or of a function that takes the job.
type jobCall struct {
	method, state string
	call          func(b *bench, job *bullmq.Job) (any, error)
}

var jobCalls = []jobCall{
	{"QueueName", "waiting", func(_ *bench, job *bullmq.Job) (any, error) { return job.QueueName(), nil }},
	{"Key", "waiting", func(_ *bench, job *bullmq.Job) (any, error) { return job.Key(), nil }},
	{"AsParent", "waiting", func(_ *bench, job *bullmq.Job) (any, error) { return job.AsParent(), nil }},
	{"Token", "active", func(_ *bench, job *bullmq.Job) (any, error) { return job.Token(), nil }},
	{"WithToken", "active", func(_ *bench, job *bullmq.Job) (any, error) { return job.WithToken("token").Token(), nil }},
	{"UpdateProgress", "active", func(b *bench, job *bullmq.Job) (any, error) { return nil, job.UpdateProgress(b.ctx, 50) }},
	{"UpdateData", "waiting", func(b *bench, job *bullmq.Job) (any, error) { return nil, job.UpdateData(b.ctx, 5) }},
	{"Log", "waiting, with a log of three rows", func(b *bench, job *bullmq.Job) (any, error) { return job.Log(b.ctx, "d") }},
	{"ClearLogs", "waiting, with a log of three rows", func(b *bench, job *bullmq.Job) (any, error) {
		return nil, job.ClearLogs(b.ctx, &bullmq.ClearLogsOptions{Keep: 1})
	}},
	{"State", "delayed", func(b *bench, job *bullmq.Job) (any, error) { return job.State(b.ctx) }},
	{"ExtendLock", "active", func(b *bench, job *bullmq.Job) (any, error) {
		return job.WithToken("token").ExtendLock(b.ctx, time.Minute)
	}},
	{"MoveToDelayed", "active", func(b *bench, job *bullmq.Job) (any, error) {
		return nil, job.WithToken("token").MoveToDelayed(b.ctx, time.UnixMilli(fixedNow+500))
	}},
	{"MoveToWait", "active", func(b *bench, job *bullmq.Job) (any, error) { return nil, job.WithToken("token").MoveToWait(b.ctx) }},
	{"MoveToWait", "waiting", func(b *bench, job *bullmq.Job) (any, error) { return nil, job.WithToken("token").MoveToWait(b.ctx) }},
	{"MoveToWaitingChildren", "active, with children", func(b *bench, job *bullmq.Job) (any, error) {
		return job.WithToken("token").MoveToWaitingChildren(b.ctx)
	}},
	{"MoveToWaitingChild", "active, with children", func(b *bench, job *bullmq.Job) (any, error) {
		return job.WithToken("token").MoveToWaitingChild(b.ctx, keyOf(b.name, "open"))
	}},
	{"Promote", "delayed", func(b *bench, job *bullmq.Job) (any, error) { return nil, job.Promote(b.ctx) }},
	{"ChangeDelay", "delayed", func(b *bench, job *bullmq.Job) (any, error) { return nil, job.ChangeDelay(b.ctx, time.Hour) }},
	{"ChangePriority", "delayed", func(b *bench, job *bullmq.Job) (any, error) {
		return nil, job.ChangePriority(b.ctx, 9, &bullmq.ChangePriorityOptions{LIFO: true})
	}},
	{"ChangePriority", "waiting", func(b *bench, job *bullmq.Job) (any, error) {
		return nil, job.ChangePriority(b.ctx, 9, &bullmq.ChangePriorityOptions{LIFO: true})
	}},
	{"Retry", "failed, next to run", func(b *bench, job *bullmq.Job) (any, error) {
		return nil, job.Retry(b.ctx, bullmq.StateFailed, &bullmq.RetryOptions{ResetAttemptsMade: true})
	}},
	{"Retry", "completed", func(b *bench, job *bullmq.Job) (any, error) { return nil, job.Retry(b.ctx, bullmq.StateFailed, nil) }},
	{"Wait", "completed", func(b *bench, job *bullmq.Job) (any, error) { return job.Wait(b.ctx, b.queue) }},
	{"Remove", "waiting, with a deduplication id", func(b *bench, job *bullmq.Job) (any, error) { return nil, job.Remove(b.ctx) }},
	{"Remove", "active", func(b *bench, job *bullmq.Job) (any, error) { return nil, job.Remove(b.ctx) }},
	{"RemoveUnprocessedChildren", "active, with children", func(b *bench, job *bullmq.Job) (any, error) {
		return nil, job.RemoveUnprocessedChildren(b.ctx)
	}},
	{"RemoveChildDependency", "waiting, as a child", func(b *bench, job *bullmq.Job) (any, error) { return job.RemoveChildDependency(b.ctx) }},
	{"RemoveChildDependency", "waiting", func(b *bench, job *bullmq.Job) (any, error) { return job.RemoveChildDependency(b.ctx) }},
	{"RemoveDeduplicationKey", "waiting, with a deduplication id", func(b *bench, job *bullmq.Job) (any, error) {
		return job.RemoveDeduplicationKey(b.ctx)
	}},
	{"RemoveDeduplicationKey", "waiting", func(b *bench, job *bullmq.Job) (any, error) { return job.RemoveDeduplicationKey(b.ctx) }},
	{"ChildrenValues", "active, with children", func(b *bench, job *bullmq.Job) (any, error) { return job.ChildrenValues(b.ctx) }},
	{"IgnoredChildrenFailures", "active, with children", func(b *bench, job *bullmq.Job) (any, error) {
		return job.IgnoredChildrenFailures(b.ctx)
	}},
	{"Dependencies", "active, with children", func(b *bench, job *bullmq.Job) (any, error) { return job.Dependencies(b.ctx) }},
	{"DependencyPage", "active, with children", func(b *bench, job *bullmq.Job) (any, error) {
		return job.DependencyPage(b.ctx, bullmq.DependencyQuery{Unprocessed: &bullmq.DependencyCursor{}})
	}},
	{"DependencyCounts", "active, with children", func(b *bench, job *bullmq.Job) (any, error) { return job.DependencyCounts(b.ctx) }},

	{"Children", "active, with children", func(b *bench, job *bullmq.Job) (any, error) { return bullmq.Children[any](b.ctx, job) }},
	{"Worker.Complete", "active, with options for its end", func(b *bench, job *bullmq.Job) (any, error) {
		return nil, b.fetcher.Complete(b.ctx, job.WithToken("token"), "done")
	}},
	{"Worker.Fail", "active, with options for its end", func(b *bench, job *bullmq.Job) (any, error) {
		err := b.fetcher.Fail(b.ctx, job.WithToken("token"), errors.New("boom"))
		return []any{job.AttemptsMade, job.FailedReason, job.StackTrace}, err
	}},
	{"Worker.Fail", "active, next to run after a failure", func(b *bench, job *bullmq.Job) (any, error) {
		return nil, b.fetcher.Fail(b.ctx, job.WithToken("token"), errors.New("boom"))
	}},
}

// unreadable are the methods that need the record, which a handle lacks.
var unreadable = map[string]func(job *bullmq.Job) error{
	"Decode":      func(job *bullmq.Job) error { return job.Decode(new(any)) },
	"MarshalJSON": func(job *bullmq.Job) error { _, err := json.Marshal(job); return err },
}

// gauge is a Telemetry that records measurements and traces nothing.
type gauge struct{ lines []string }

func (g *gauge) Record(_ context.Context, metric bullmq.Instrument, value float64, attributes ...bullmq.Attribute) {
	g.lines = append(g.lines, fmt.Sprint(metric.Name, " ", value, " ", attributes))
}

func (g *gauge) StartSpan(ctx context.Context, _ string, _ bullmq.SpanKind) (context.Context, bullmq.Span) {
	return ctx, noSpan{}
}
func (*gauge) Inject(context.Context) string                         { return "" }
func (*gauge) Extract(ctx context.Context, _ string) context.Context { return ctx }

var _ = Describe("A job handle, which knows the job's id only,", Label("slow"), func() {
	// outcome is what a call returns and what it leaves in Redis, with the queue's
	// name left out.
	outcome := func(dialect bullmq.Dialect, c jobCall, find func(b *bench) (*bullmq.Job, error)) string {
		GinkgoHelper()
		b := newBench(dialect)
		benches[c.state](b)
		job, err := find(b)
		Expect(err).NotTo(HaveOccurred())
		value, err := c.call(b, job)
		text, broken := json.MarshalIndent([]any{value, fmt.Sprint(err), snapshot(b.name)}, "", " ")
		Expect(broken).NotTo(HaveOccurred())
		return strings.ReplaceAll(string(text), b.name, "QUEUE")
	}
	for version, dialect := range map[int]bullmq.Dialect{6: bullmq.V6, 5: bullmq.V5} {
		for _, c := range jobCalls {
			It(fmt.Sprintf("acts like the job itself in %s of a job that is %s, in the dialect of BullMQ %d", c.method, c.state, version), func() {
				want := outcome(dialect, c, func(b *bench) (*bullmq.Job, error) { return b.queue.Job(b.ctx, "job") })
				Expect(outcome(dialect, c, func(b *bench) (*bullmq.Job, error) { return b.queue.JobRef("job"), nil })).To(Equal(want))
				Expect(outcome(dialect, c, func(b *bench) (*bullmq.Job, error) { return b.fetcher.JobRef("job"), nil })).To(Equal(want))
			})
		}
	}

	for method, call := range unreadable {
		It("refuses "+method+" and names the call that reads the record", func() {
			b := newBench(bullmq.V6)
			benches["waiting"](b)
			for _, handle := range []*bullmq.Job{b.queue.JobRef("job"), b.fetcher.JobRef("job")} {
				Expect(call(handle)).To(MatchError(And(ContainSubstring("job job of queue "+b.name), ContainSubstring("Queue.Job"))))
			}
		})
	}

	It("is tested with every method of Job", func() {
		known := map[string]bool{}
		for _, c := range jobCalls {
			known[c.method] = true
		}
		for method := range unreadable {
			known[method] = true
		}
		known["AddOutcome"] = true // only the job that an add returns has one
		known["DeadLetter"] = true // reads the options of a job; a JobRef has none
		known["Cancelled"] = true  // reads the fields of a job; a JobRef has none
		methods := reflect.TypeFor[*bullmq.Job]()
		for i := range methods.NumMethod() {
			Expect(known).To(HaveKey(methods.Method(i).Name))
		}
	})

	It("is counted in metrics under the job's name, like the job itself", func() {
		measured := func(find func(f *bullmq.Fetcher) (*bullmq.Job, error)) []string {
			GinkgoHelper()
			b, gauge := newBench(bullmq.V6), &gauge{}
			benches["active"](b)
			fetcher := newFetcher(b.name, &bullmq.FetcherOptions{Now: fixedClock(fixedNow + 250), Telemetry: gauge})
			job, err := find(fetcher)
			Expect(err).NotTo(HaveOccurred())
			Expect(job.WithToken("token").MoveToWait(b.ctx)).To(Succeed())
			for i, line := range gauge.lines {
				gauge.lines[i] = strings.ReplaceAll(line, b.name, "QUEUE")
			}
			return gauge.lines
		}
		want := measured(func(f *bullmq.Fetcher) (*bullmq.Job, error) { return f.Job(context.Background(), "job") })
		Expect(want).To(ContainElement(And(HavePrefix("bullmq.job.duration 250 "), ContainSubstring("paint"))))
		Expect(measured(func(f *bullmq.Fetcher) (*bullmq.Job, error) { return f.JobRef("job"), nil })).To(Equal(want))
	})

	It("returns data that it has replaced", func() {
		b := newBench(bullmq.V6)
		benches["waiting"](b)
		handle := b.queue.JobRef("job")
		Expect(handle.UpdateData(b.ctx, 5)).To(Succeed())
		var data int
		Expect(handle.Decode(&data)).To(Succeed())
		Expect(data).To(Equal(5))
	})

	It("has the whole record after a worker has finished it", func() {
		b := newBench(bullmq.V6)
		benches["active"](b)
		handle := b.fetcher.JobRef("job").WithToken("token")
		err := b.fetcher.Complete(b.ctx, handle, "done")
		Expect(err).NotTo(HaveOccurred())
		Expect(handle.Name).To(Equal("paint"))
		Expect(handle.ReturnValue).To(MatchJSON(`"done"`))
		Expect(handle.AttemptsMade).To(Equal(1))
		Expect(json.Marshal(handle)).To(ContainSubstring(`"paint"`))
	})

	DescribeTable("of a job that is gone returns ErrJobNotFound and writes nothing in", func(call func(b *bench, job *bullmq.Job) (any, error)) {
		b := newBench(bullmq.V6)
		before := snapshot(b.name)
		_, err := call(b, b.fetcher.JobRef("gone"))
		Expect(err).To(MatchError(bullmq.ErrJobNotFound))
		Expect(err).To(MatchError(ContainSubstring("job gone of " + b.name)))
		Expect(snapshot(b.name)).To(Equal(before))
	},
		Entry("Log", func(b *bench, job *bullmq.Job) (any, error) { return job.Log(b.ctx, "row") }),
		Entry("Retry", func(b *bench, job *bullmq.Job) (any, error) { return nil, job.Retry(b.ctx, bullmq.StateFailed, nil) }),
		Entry("RemoveDeduplicationKey", func(b *bench, job *bullmq.Job) (any, error) { return job.RemoveDeduplicationKey(b.ctx) }),
		Entry("RemoveChildDependency", func(b *bench, job *bullmq.Job) (any, error) { return job.RemoveChildDependency(b.ctx) }),
		Entry("Fetcher.Complete", func(b *bench, job *bullmq.Job) (any, error) {
			return nil, b.fetcher.Complete(b.ctx, job.WithToken("token"), 1)
		}),
		Entry("Fetcher.Fail", func(b *bench, job *bullmq.Job) (any, error) {
			return nil, b.fetcher.Fail(b.ctx, job.WithToken("token"), errors.New("boom"))
		}),
	)
})

var _ = DescribeTable("The handler of a job that was removed meanwhile writes nothing and gets an error from", Label("slow"), func(call func(ctx context.Context, queue *bullmq.Queue, job *bullmq.Job) error, moved error) {
	name, ctx := newQueueName(), specContext()
	queue := newQueue(name, nil)
	told := make(chan error, 1)
	worker := runWorker(name, func(ctx context.Context, job *bullmq.Job) (any, error) {
		if job.Name == "again" {
			return nil, nil
		}
		Expect(redisDo("DEL", keyOf(name, "job:lock")).Error()).To(Succeed())
		if err := job.Remove(ctx); err != nil {
			return nil, err
		}
		told <- call(ctx, queue, job)
		return nil, moved
	}, &bullmq.WorkerOptions{SkipStalledCheck: true})
	options := &bullmq.JobOptions{JobID: "job", Attempts: 3, Deduplication: &bullmq.Deduplication{ID: "once"}}
	_, err := queue.Add(ctx, "removed", nil, options)
	Expect(err).NotTo(HaveOccurred())
	Eventually(told).Should(Receive(MatchError(bullmq.ErrJobNotFound)))
	Expect(worker.Pause(ctx)).To(Succeed(), "once its end has been refused")
	Expect(keysOf(name)).NotTo(ContainElement(HavePrefix(keyOf(name, "job"))))
	for _, list := range []string{"wait", "active", "delayed", "prioritized", "waiting-children", "completed", "failed", "de:once"} {
		Expect(keysOf(name)).NotTo(ContainElement(keyOf(name, list)))
	}

	again, err := queue.Add(ctx, "again", nil, options)
	Expect(err).NotTo(HaveOccurred())
	worker.Resume()
	Expect(again.ID).To(Equal("job"))
	Eventually(stateOf(queue, "job")).Should(Equal(bullmq.StateCompleted))
	Expect(hashAt(again.Key())).To(And(HaveKeyWithValue("name", "again"), HaveKeyWithValue("atm", "1")))
},
	Entry("UpdateProgress", func(ctx context.Context, _ *bullmq.Queue, job *bullmq.Job) error { return job.UpdateProgress(ctx, 50) }, nil),
	Entry("Queue.UpdateJobProgress", func(ctx context.Context, queue *bullmq.Queue, job *bullmq.Job) error {
		return queue.UpdateJobProgress(ctx, job.ID, 50)
	}, nil),
	Entry("UpdateData", func(ctx context.Context, _ *bullmq.Queue, job *bullmq.Job) error { return job.UpdateData(ctx, 50) }, nil),
	Entry("Log", func(ctx context.Context, _ *bullmq.Queue, job *bullmq.Job) error {
		_, err := job.Log(ctx, "row")
		return err
	}, nil),
	Entry("Queue.AddJobLog", func(ctx context.Context, queue *bullmq.Queue, job *bullmq.Job) error {
		_, err := queue.AddJobLog(ctx, job.ID, "row", nil)
		return err
	}, nil),
	Entry("ExtendLock", func(ctx context.Context, _ *bullmq.Queue, job *bullmq.Job) error {
		extended, err := job.ExtendLock(ctx, time.Minute)
		if !extended && err == nil {
			return bullmq.ErrJobNotFound // ExtendLock returns false for a job that is gone
		}
		return err
	}, nil),
	Entry("MoveToDelayed", func(ctx context.Context, _ *bullmq.Queue, job *bullmq.Job) error {
		return job.MoveToDelayed(ctx, time.Now().Add(time.Minute))
	}, bullmq.ErrMovedToDelayed),
	Entry("MoveToWait", func(ctx context.Context, _ *bullmq.Queue, job *bullmq.Job) error {
		return job.MoveToWait(ctx)
	}, bullmq.ErrMovedToWait),
	Entry("MoveToWaitingChildren", func(ctx context.Context, _ *bullmq.Queue, job *bullmq.Job) error {
		_, err := job.MoveToWaitingChildren(ctx)
		return err
	}, bullmq.ErrMovedToWaitingChildren),
	Entry("Promote", func(ctx context.Context, _ *bullmq.Queue, job *bullmq.Job) error {
		err := job.Promote(ctx)
		if errors.Is(err, bullmq.ErrNotInState) {
			return bullmq.ErrJobNotFound // in Node too, a missing job is not delayed
		}
		return err
	}, nil),
	Entry("ChangeDelay", func(ctx context.Context, _ *bullmq.Queue, job *bullmq.Job) error {
		return job.ChangeDelay(ctx, time.Minute)
	}, nil),
	Entry("ChangePriority", func(ctx context.Context, _ *bullmq.Queue, job *bullmq.Job) error {
		return job.ChangePriority(ctx, 5, nil)
	}, nil),
	Entry("Retry", func(ctx context.Context, _ *bullmq.Queue, job *bullmq.Job) error {
		return job.Retry(ctx, bullmq.StateFailed, nil)
	}, nil),
	Entry("Queue.Add of a child", func(ctx context.Context, queue *bullmq.Queue, job *bullmq.Job) error {
		_, err := queue.Add(ctx, "child", nil, &bullmq.JobOptions{Parent: job.AsParent()})
		if errors.Is(err, bullmq.ErrParentNotFound) {
			return bullmq.ErrJobNotFound // of the parent
		}
		return err
	}, nil),
	Entry("its completion", func(context.Context, *bullmq.Queue, *bullmq.Job) error { return bullmq.ErrJobNotFound }, nil),
	Entry("its failure", func(context.Context, *bullmq.Queue, *bullmq.Job) error { return bullmq.ErrJobNotFound }, errors.New("boom")),
)

var _ = Describe("A scheduler's job, as its upsert returns it,", Label("slow"), func() {
	It("has the stored options and follows them", func() {
		b := newBench(bullmq.V6)
		job, err := b.queue.UpsertScheduler(b.ctx, "daily", bullmq.Repeat{Every: time.Hour}, &bullmq.JobTemplate{
			Options: &bullmq.JobOptions{KeepLogs: 2, LIFO: true, Priority: 3, Deduplication: &bullmq.Deduplication{ID: "once"}},
		})
		Expect(err).NotTo(HaveOccurred())
		read, err := b.queue.Job(b.ctx, job.ID)
		Expect(err).NotTo(HaveOccurred())
		Expect(job.Options).To(Equal(read.Options))
		Expect(job.RawOptions).To(MatchJSON(read.RawOptions))
		Expect(job.Priority).To(Equal(read.Priority))
		Expect(job.DeduplicationID).To(Equal("once"))
		for range 3 {
			_, err := job.Log(b.ctx, "row")
			Expect(err).NotTo(HaveOccurred())
		}
		Expect(listAt(job.Key() + ":logs")).To(HaveLen(2))
	})
})
