package bullmq_test

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testjob"
)

// notes implements [testjob.Recorder].
type notes struct {
	calls  []string
	logger *slog.Logger
}

func (n *notes) note(call, id, value string) { n.calls = append(n.calls, call+" "+id+" "+value) }

func (n *notes) UpdateProgress(_ context.Context, id, progress string) error {
	n.note("progress", id, progress)
	return nil
}

func (n *notes) UpdateData(_ context.Context, id, data string) error {
	n.note("data", id, data)
	return nil
}

func (n *notes) AddLog(_ context.Context, id, row string, keep int) (int, error) {
	n.note("log", id, fmt.Sprint(row, " keep ", keep))
	return 1, nil
}

func (n *notes) ClearLogs(_ context.Context, id string, keep int) error {
	n.note("clear", id, fmt.Sprint("keep ", keep))
	return nil
}

func (n *notes) Logger() *slog.Logger { return n.logger }

var _ = Describe("A job that records the calls of its handler", func() {
	var recorder *notes
	record := func(o *bullmq.JobOptions) *bullmq.Job {
		GinkgoHelper()
		recorder = &notes{logger: slog.New(slog.DiscardHandler)}
		made, err := testjob.New(testjob.Spec{
			ID: "1", QueueName: "paints", Name: "paint", Data: map[string]int{"n": 1}, Options: o,
			Now: time.UnixMilli(1700000000000), Recorder: recorder,
		})
		Expect(err).NotTo(HaveOccurred())
		return made.(*bullmq.Job)
	}

	It("passes progress, data and log rows to the recorder", func() {
		job := record(&bullmq.JobOptions{KeepLogs: 5})
		ctx := bullmq.ContextWithJob(specContext(), job)
		Expect(bullmq.UpdateProgress(ctx, 40)).To(Succeed())
		Expect(job.UpdateData(ctx, []int{2})).To(Succeed())
		Expect(job.Log(ctx, "mixed")).To(Equal(1))
		Expect(job.ClearLogs(ctx, &bullmq.ClearLogsOptions{Keep: 2})).To(Succeed())
		Expect(recorder.calls).To(Equal([]string{"progress 1 40", "data 1 [2]", "log 1 mixed keep 5", "clear 1 keep 2"}))
		Expect(string(job.Progress)).To(Equal("40"))
		Expect(string(job.Data)).To(Equal("[2]"))
		Expect(bullmq.LoggerFromContext(ctx)).To(BeIdenticalTo(recorder.logger))
	})

	It("has the fields that a worker would have read in its first attempt", func() {
		job := record(&bullmq.JobOptions{JobID: "job-7", Attempts: 3, Priority: 2, Delay: time.Second, Parent: &bullmq.ParentRef{ID: "9", QueueKey: "bull:walls"}})
		Expect(job.ID).To(Equal("job-7"))
		Expect(job.QueueName()).To(Equal("paints"))
		Expect(string(job.Data)).To(Equal(`{"n":1}`))
		Expect(string(job.RawOptions)).To(MatchJSON(`{"jobId":"job-7","attempts":3,"priority":2,"delay":1000}`))
		Expect(job.Options.Attempts).To(Equal(3))
		Expect(job.Priority).To(Equal(2))
		Expect(job.Delay).To(BeZero())
		Expect(job.ParentKey).To(Equal("bull:walls:9"))
		Expect(job.AttemptsMade).To(BeZero())
		Expect(job.AttemptsStarted).To(Equal(1))
		Expect(job.Timestamp.UnixMilli()).To(Equal(int64(1700000000000)))
	})

	It("is refused if an add would be", func() {
		_, err := testjob.New(testjob.Spec{QueueName: "paints", Name: "paint", Options: &bullmq.JobOptions{Attempts: -1}, Recorder: &notes{}})
		Expect(err).To(MatchError(ContainSubstring("Attempts")))
	})

	It("returns ErrNoQueue from methods that need Redis, and panics in none", func() {
		without := []string{"QueueName", "Key", "AddOutcome", "Cancelled", "DeadLetter", "AsParent", "Token", "WithToken", "Decode", "MarshalJSON", "Wait", "UpdateProgress", "UpdateData", "Log", "ClearLogs"}
		methods := reflect.TypeFor[*bullmq.Job]()
		for i := range methods.NumMethod() {
			method := methods.Method(i)
			arguments := []reflect.Value{reflect.ValueOf(record(nil))}
			for n := 1; n < method.Type.NumIn(); n++ {
				argument := reflect.Zero(method.Type.In(n))
				if method.Type.In(n) == reflect.TypeFor[context.Context]() {
					argument = reflect.ValueOf(specContext())
				}
				arguments = append(arguments, argument)
			}
			results := method.Func.Call(arguments)
			if err, _ := results[len(results)-1].Interface().(error); !slices.Contains(without, method.Name) {
				Expect(err).To(MatchError(bullmq.ErrNoQueue), method.Name)
				Expect(err).To(MatchError(ContainSubstring("bullmqtest.Work")), method.Name)
			}
		}
		_, err := bullmq.Children[any](specContext(), record(nil))
		Expect(err).To(MatchError(bullmq.ErrNoQueue))
	})
})
