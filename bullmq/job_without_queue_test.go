package bullmq_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("A Job that belongs to no queue", func() {
	made := map[string]*bullmq.Job{
		"with data":        {ID: "7", Name: "paint", Data: json.RawMessage(`{"n":1}`), Options: bullmq.JobOptions{Attempts: 3}, DeduplicationID: "d", ParentKey: "bull:q:1"},
		"with broken data": {ID: "7", Name: "paint", Data: json.RawMessage(`{"broken`)},
		"without an ID":    {},
		"that is nil":      nil,
	}
	ofError := reflect.TypeFor[error]()
	// needNoQueue are the methods that work without a queue.
	needNoQueue := []string{"QueueName", "Key", "AddOutcome", "Cancelled", "DeadLetter", "AsParent", "Token", "WithToken", "Decode", "MarshalJSON", "Wait"}

	methods := reflect.TypeFor[*bullmq.Job]()
	for i := range methods.NumMethod() {
		method := methods.Method(i)
		for about, job := range made {
			It("does not panic in "+method.Name+" ("+about+")", func() {
				arguments := []reflect.Value{reflect.ValueOf(job)}
				for n := 1; n < method.Type.NumIn(); n++ {
					argument := reflect.Zero(method.Type.In(n))
					if method.Type.In(n) == reflect.TypeFor[context.Context]() {
						argument = reflect.ValueOf(specContext())
					}
					arguments = append(arguments, argument)
				}
				results := method.Func.Call(arguments)
				for _, name := range needNoQueue {
					if name == method.Name {
						return
					}
				}
				last := results[len(results)-1]
				Expect(last.Type()).To(Equal(ofError))
				err, _ := last.Interface().(error)
				Expect(err).To(MatchError(bullmq.ErrNoQueue))
				Expect(err).To(MatchError(HavePrefix("bullmq: ")))
			})
		}
	}

	It("is refused by calls that take a job", func() {
		ctx, fetcher := specContext(), newFetcher(newQueueName(), nil)
		for _, job := range []*bullmq.Job{{ID: "7"}, nil} {
			err := fetcher.Complete(ctx, job, 1)
			Expect(err).To(MatchError(bullmq.ErrNoQueue))
			err = fetcher.Fail(ctx, job, errors.New("boom"))
			Expect(err).To(MatchError(bullmq.ErrNoQueue))
			_, err = bullmq.Children[any](ctx, job)
			Expect(err).To(MatchError(bullmq.ErrNoQueue))
			_, err = bullmq.ChildValue[any](ctx, job)
			Expect(err).To(MatchError(bullmq.ErrNoQueue))
		}
		_, err := fetcher.ExtendLocks(ctx, []*bullmq.Job{nil}, time.Second)
		Expect(err).To(MatchError(ContainSubstring("job 0 of 1 is nil")))
	})

	It("is refused as a parent by an add that names what is missing", func() {
		queue := newQueue(newQueueName(), nil)
		for missing, job := range map[string]*bullmq.Job{"Parent.QueueKey is empty": {ID: "7"}, "Parent.ID is empty": nil} {
			_, err := queue.Add(specContext(), "part", nil, &bullmq.JobOptions{Parent: job.AsParent()})
			Expect(err).To(MatchError(ContainSubstring(missing)))
		}
	})

	It("is decoded if its data is valid, and otherwise returns an error that names it", func() {
		var data struct{ N int }
		Expect(made["with data"].Decode(&data)).To(Succeed())
		Expect(data.N).To(Equal(1))
		Expect(made["with broken data"].Decode(&data)).To(MatchError(HavePrefix("bullmq: data of job 7 (paint) doesn't fit ")))
	})

	It("is reported even if another argument is invalid too", func() {
		ctx := specContext()
		for _, job := range []*bullmq.Job{{ID: "7"}, nil} {
			_, extended := job.ExtendLock(ctx, -1)
			_, retried := job.DependencyPage(ctx, bullmq.DependencyQuery{Failed: &bullmq.DependencyCursor{Count: -1}})
			for _, err := range []error{
				extended, retried, job.ClearLogs(ctx, &bullmq.ClearLogsOptions{Keep: -1}), job.ChangeDelay(ctx, 1), job.ChangePriority(ctx, -1, nil), job.Retry(ctx, "odd", nil),
				job.UpdateData(ctx, func() {}), job.UpdateProgress(ctx, func() {}),
			} {
				Expect(err).To(MatchError(bullmq.ErrNoQueue))
			}
		}
	})

	It("can be waited for at its queue", func() {
		queue, ctx := newQueue(newQueueName(), nil), specContext()
		job, err := queue.Add(ctx, "paint", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		fetcher := newFetcher(queue.Name(), nil)
		endJob(fetcher, takeJob(fetcher), "done", nil)
		Expect((&bullmq.Job{ID: job.ID}).Wait(ctx, queue)).To(MatchJSON(`"done"`))
		_, err = job.Wait(ctx, newQueue(newQueueName(), nil))
		Expect(err).To(MatchError(ContainSubstring("give it the Queue of the job")))
		_, err = job.Wait(ctx, nil)
		Expect(err).To(MatchError(ContainSubstring("Wait needs the Queue of the job")))
		_, err = job.Wait(ctx, &bullmq.Queue{})
		Expect(err).To(MatchError(ContainSubstring("Wait needs the Queue of the job")))
	})

	It("is printed and marshalled as JSON", func() {
		for about, job := range made {
			for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
				Expect(fmt.Sprintf(format, job)).NotTo(ContainSubstring("PANIC"), about)
			}
		}
		Expect(json.Marshal(made["with data"])).To(ContainSubstring(`"name":"paint"`))
		Expect(json.Marshal(made["that is nil"])).To(MatchJSON(`null`))
	})
})

var _ = Describe("A job of another queue", func() {
	It("is refused by a Fetcher that finishes it, even if id and token are equal", func() {
		ctx, name := specContext(), newQueueName()
		queue, other := newQueue(name, nil), newQueue(newQueueName(), nil)
		_, err := queue.Add(ctx, "paint", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		stranger, err := other.Add(ctx, "paint", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		fetcher := newFetcher(name, nil)
		job := takeJob(fetcher)
		Expect(job.ID).To(Equal(stranger.ID))
		completed := fetcher.Complete(ctx, stranger, 1)
		failed := fetcher.Fail(ctx, stranger, errors.New("boom"))
		_, extended := fetcher.ExtendLocks(ctx, []*bullmq.Job{stranger}, time.Second)
		for _, err := range []error{completed, failed, extended} {
			Expect(err).To(MatchError(And(HavePrefix("bullmq: "), ContainSubstring(other.Name()), ContainSubstring("use a Fetcher of the job's queue"))))
		}
		Expect(queue.JobRef(job.ID).State(ctx)).To(Equal(bullmq.StateActive))
	})
})
