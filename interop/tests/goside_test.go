package tests

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/rs/zerolog"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

func newGoQueue(name string) *bullmq.Queue {
	GinkgoHelper()
	queue, err := bullmq.NewQueue(context.Background(), name, &bullmq.QueueOptions{URL: server.URL(), BatchSize: batchSize})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(queue.Close)
	return queue
}

// produceFromGo adds the jobs in groups of a hundred, alternating between AddBulk and single adds.
func produceFromGo(l *ledger, jobs []bullmq.BulkJob) {
	GinkgoHelper()
	queue := newGoQueue(l.queue)
	ctx := within(60 * time.Second)
	for from := 0; from < len(jobs); from += 100 {
		batch := jobs[from:min(from+100, len(jobs))]
		if from%200 == 0 {
			made, err := queue.AddBulk(ctx, batch)
			Expect(err).NotTo(HaveOccurred())
			for i, job := range made {
				l.noteAdded(job.ID, batch[i].Name, stringified(batch[i].Data), job.RawOptions)
			}
			continue
		}
		for _, b := range batch {
			job, err := queue.Add(ctx, b.Name, b.Data, b.Options)
			Expect(err).NotTo(HaveOccurred())
			l.noteAdded(job.ID, b.Name, stringified(b.Data), job.RawOptions)
		}
	}
}

// goWorker is a running worker of this SDK.
type goWorker struct {
	*bullmq.Worker
	stop func() // returns when Run has returned
}

// runGoWorker runs a worker until it is stopped or the spec ends.
func runGoWorker(queue string, handler bullmq.Handler, options bullmq.WorkerOptions) *goWorker {
	GinkgoHelper()
	options.URL, options.BatchSize = server.URL(), batchSize
	options.Logger = bullmq.Zerolog(zerolog.New(GinkgoWriter).Level(zerolog.WarnLevel).With().Timestamp().Logger())
	worker, err := bullmq.NewWorker(context.Background(), queue, handler, &options)
	Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			Fail(fmt.Sprintf("the Go worker of %s returned %v", queue, err))
		}
	})
	DeferCleanup(stop)
	return &goWorker{worker, stop}
}

// workInGo runs a worker that behaves like worker.mjs and updates the ledger.
func workInGo(l *ledger, name string, options bullmq.WorkerOptions) *goWorker {
	GinkgoHelper()
	options.Name = name
	if options.Concurrency == 0 {
		options.Concurrency = 20
	}
	end := func(job *bullmq.Job, failed bool, value string) {
		l.noteEnded(job.ID, ended{by: name, failed: failed, value: value})
	}
	options.Events.Completed = func(job *bullmq.Job, _ any) { end(job, false, string(job.ReturnValue)) }
	options.Events.Failed = func(job *bullmq.Job, err error) {
		if job.AttemptsMade >= job.Options.Attempts {
			end(job, true, err.Error())
		}
	}
	options.Events.Error = func(err error) { l.noteFault(err.Error()) }
	return runGoWorker(l.queue, func(_ context.Context, job *bullmq.Job) (any, error) { return l.runAs(name, job) }, options)
}

// runAs runs a job as worker.mjs does.
func (l *ledger) runAs(name string, job *bullmq.Job) (any, error) {
	l.noteStarted(job.ID, started{by: name, attemptsMade: job.AttemptsMade, name: job.Name, data: string(job.Data)})
	var data payload
	if err := job.Decode(&data); err != nil {
		return nil, err
	}
	if attempt := job.AttemptsMade + 1; attempt < data.FailUntilAttempt {
		return nil, fmt.Errorf("attempt %d fails as planned in the job's data", attempt)
	}
	return object{"by": name, "sequence": data.Sequence}, nil
}

// returning returns a handler that always returns value.
func returning(value any) bullmq.Handler {
	return func(context.Context, *bullmq.Job) (any, error) { return value, nil }
}

// failing returns a handler that always fails.
func failing(reason string) bullmq.Handler {
	return func(context.Context, *bullmq.Job) (any, error) { return nil, errorText(reason) }
}

type errorText string

func (e errorText) Error() string { return string(e) }

// readJob reads a job with Go.
func readJob(queue *bullmq.Queue, id string) *bullmq.Job {
	GinkgoHelper()
	job, err := queue.Job(soon(), id)
	Expect(err).NotTo(HaveOccurred())
	return job
}

// stateOf returns a function for Eventually that returns the state of a job.
func stateOf(queue *bullmq.Queue, id string) func() (bullmq.State, error) {
	ctx := soon()
	return func() (bullmq.State, error) { return queue.JobState(ctx, id) }
}

func rawJSON(text string) json.RawMessage { return json.RawMessage(text) }
