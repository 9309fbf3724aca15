package bullmqtest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmqtest"
)

// In a program, t is the argument of the test.
var t testing.TB = exampleTB{}

// A unit test of a handler needs no Redis.
func ExampleNewJob() {
	greet := func(ctx context.Context, _ *bullmq.Job, email Email) (Receipt, error) {
		bullmq.LoggerFromContext(ctx).Info("sending", "to", email.To)
		return Receipt{ID: "r1"}, bullmq.UpdateProgress(ctx, 100)
	}

	job := bullmqtest.NewJob(t, Welcome, Email{To: "ada"}, nil)
	receipt, err := greet(job.Context(), job.Job, Email{To: "ada"})
	fmt.Println(receipt.ID, err)
	fmt.Printf("%s\n", job.ProgressReports())
	fmt.Println(job.LoggerLines()[0])
	// Output:
	// r1 <nil>
	// [100]
	// level=INFO msg=sending to=ada
}

// Work runs one attempt of a job by a worker.
func ExampleWork() {
	mux := bullmq.NewMux()
	bullmq.Handle(mux, Welcome, func(context.Context, *bullmq.Job, Email) (Receipt, error) {
		return Receipt{}, errors.New("the server is busy")
	})

	kit := bullmqtest.New(t, nil)
	result := bullmqtest.Work(t, kit, mux.ServeJob, Welcome, Email{To: "ada"}, nil)
	fmt.Println(result.State, "because", result.Err)
	fmt.Println("runs again in", result.NextAttempt.Sub(kit.Now()))
	// Output:
	// delayed because the server is busy
	// runs again in 30m0s
}

// Drain runs all jobs of a queue. With FollowDelays it runs retries and delayed jobs, too.
func ExampleKit_Drain() {
	kit := bullmqtest.New(t, nil)
	begin := kit.Now()
	_, _ = Welcome.Add(t.Context(), kit.Queue("mail"), Email{To: "ada"}, nil)
	attempts := kit.Drain(t.Context(), "mail", func(_ context.Context, job *bullmq.Job) (any, error) {
		if job.AttemptsMade < 2 {
			return nil, errors.New("the server is busy")
		}
		return Receipt{ID: "r1"}, nil
	}, &bullmqtest.DrainOptions{FollowDelays: 24 * time.Hour})
	for _, attempt := range attempts {
		fmt.Println(attempt.At.Sub(begin), attempt.Err)
	}
	// Output:
	// 0s the server is busy
	// 30m0s the server is busy
	// 1h0m0s <nil>
}

// Advance makes delayed jobs due for the workers that run.
func ExampleKit_Advance() {
	kit := bullmqtest.New(t, nil)
	done := make(chan string)
	worker := kit.StartWorker("mail", func(_ context.Context, job *bullmq.Job) (any, error) {
		done <- job.Name
		return nil, nil
	}, nil)
	defer worker.Close()
	_, _ = Report.Add(t.Context(), kit.Queue("mail"), Email{}, &bullmq.JobOptions{Delay: time.Hour})
	kit.Advance(time.Hour)
	fmt.Println(<-done)
	// Output: report
}

// LoseLock shows what a handler does when its worker loses the job.
func ExampleKit_LoseLock() {
	kit := bullmqtest.New(t, nil)
	result := bullmqtest.Work(t, kit, func(ctx context.Context, job *bullmq.Job) (any, error) {
		kit.LoseLock(job)
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}, Welcome, Email{To: "ada"}, nil)
	fmt.Println(errors.Is(result.Err, bullmq.ErrLockLost), result.State)
	// Output: true active
}

// RequireAdded checks what a program has added.
func ExampleRequireAdded() {
	kit := bullmqtest.New(t, nil)
	_, _ = Welcome.Add(t.Context(), kit.Queue("mail"), Email{To: "ada"}, &bullmq.JobOptions{Delay: time.Hour})
	job := bullmqtest.RequireAdded(t, kit, "mail", Welcome, bullmqtest.Match{Data: Email{To: "ada"}, Delay: time.Hour})
	fmt.Println(job.ID, job.Payload.To)
	// Output: 1 ada
}

// RequireWire checks the contract with programs in other languages.
func ExampleRequireWire() {
	job := bullmqtest.NewJob(t, Welcome, Email{To: "ada <a@b.org>"}, &bullmq.JobOptions{KeepCompleted: bullmq.KeepNone()})
	bullmqtest.RequireWire(t, job.Job, "testdata/welcome.json")
	// Output:
}

// exampleTB is a testing.TB for examples, which have none.
type exampleTB struct{ testing.TB }

func (exampleTB) Helper()                  {}
func (exampleTB) Cleanup(func())           {}
func (exampleTB) Context() context.Context { return context.Background() }
func (exampleTB) Failed() bool             { return false }
func (exampleTB) Logf(string, ...any)      {}
func (exampleTB) Errorf(format string, args ...any) {
	fmt.Printf(format, args...)
}
func (exampleTB) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf(format, args...))
}
