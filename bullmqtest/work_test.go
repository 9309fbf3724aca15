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

func TestWorkReturnsWhatBecameOfACompletedJob(t *testing.T) {
	onEach(t, func(t *testing.T, kit *bullmqtest.Kit) {
		mux := bullmq.NewMux()
		var calls []string
		mux.Use(func(next bullmq.Handler) bullmq.Handler {
			return func(ctx context.Context, job *bullmq.Job) (any, error) {
				calls = append(calls, "middleware")
				return next(ctx, job)
			}
		})
		bullmq.Handle(mux, Welcome, func(ctx context.Context, job *bullmq.Job, email Email) (Receipt, error) {
			calls = append(calls, "handler for "+email.To)
			if bullmq.JobFromContext(ctx) != job || job.Token() == "" {
				return Receipt{}, errors.New("the job has no lock")
			}
			if err := bullmq.UpdateProgress(ctx, 50); err != nil {
				return Receipt{}, err
			}
			bullmq.LoggerFromContext(ctx).Info("half")
			queue, err := bullmq.QueueFromContext(ctx, "reports")
			if err == nil {
				_, err = Report.Add(ctx, queue, email, nil)
			}
			return Receipt{"r1"}, err
		})
		result := bullmqtest.Work(t, kit, mux.ServeJob, Welcome, Email{To: "ada"}, &bullmqtest.WorkOptions{
			Worker: &bullmq.WorkerOptions{JobLog: &bullmq.JobLogOptions{}},
		})
		if result.Err != nil {
			t.Fatal(result.Err)
		}
		equal(t, "state", result.State, bullmq.StateCompleted)
		equal(t, "value", result.Value, Receipt{"r1"})
		equalAll(t, "calls", calls, "middleware", "handler for ada")
		equal(t, "progress", fmt.Sprintf("%s", result.Progress), "[50]")
		equal(t, "log rows", len(result.Logs), 1)
		equal(t, "attempts made", result.Job.AttemptsMade, 1)
		equal(t, "next attempt", result.NextAttempt, time.Time{})
		bullmqtest.RequireAdded(t, kit, "reports", Report, bullmqtest.Match{Data: Email{To: "ada"}})
	})
}

func TestWorkReturnsWhenAFailedJobRunsAgain(t *testing.T) {
	onEach(t, func(t *testing.T, kit *bullmqtest.Kit) {
		busy := errors.New("the server is busy")
		handler := func(context.Context, *bullmq.Job) (any, error) { return nil, fmt.Errorf("send: %w", busy) }
		result := bullmqtest.Work(t, kit, handler, Welcome, Email{To: "ada"}, nil)
		equal(t, "state", result.State, bullmq.StateDelayed)
		equal(t, "wait", result.NextAttempt.Sub(kit.Now()), 30*time.Minute)
		if !errors.Is(result.Err, busy) {
			t.Errorf("the error is %v", result.Err)
		}
		equal(t, "reason", result.Job.FailedReason, "send: the server is busy")
		for range 2 {
			result = bullmqtest.WorkJob(t, kit, handler, Welcome, result.Job, nil)
		}
		equal(t, "state", result.State, bullmq.StateFailed)
		equal(t, "attempts made", result.Job.AttemptsMade, 3)
	})
}

func TestWorkReturnsPanicsSnoozesAndRejectedData(t *testing.T) {
	onEach(t, func(t *testing.T, kit *bullmqtest.Kit) {
		work := func(handler bullmq.Handler) *bullmqtest.Result[Receipt] {
			return bullmqtest.Work(t, kit, handler, Welcome, Email{To: "ada"}, nil)
		}
		panicked := work(func(context.Context, *bullmq.Job) (any, error) { panic("no paper") })
		var p *bullmq.PanicError
		if !errors.As(panicked.Err, &p) || p.Value != "no paper" {
			t.Errorf("the error is %v", panicked.Err)
		}
		snoozed := work(func(context.Context, *bullmq.Job) (any, error) { return nil, bullmq.Snooze(time.Hour) })
		equal(t, "state", snoozed.State, bullmq.StateDelayed)
		equal(t, "wait", snoozed.NextAttempt.Sub(kit.Now()), time.Hour)
		equal(t, "attempts made", snoozed.Job.AttemptsMade, 0)
		again := work(func(context.Context, *bullmq.Job) (any, error) { return nil, bullmq.ErrSnoozed })
		equal(t, "state", again.State, bullmq.StateWaiting)
		equal(t, "next attempt", again.NextAttempt, kit.Now())
		rejected := work(bullmq.NewMux().ServeJob)
		equal(t, "state", rejected.State, bullmq.StateFailed)
		if !errors.Is(rejected.Err, bullmq.ErrNoHandler) {
			t.Errorf("the error is %v", rejected.Err)
		}
	})
}

func TestWorkReturnsTheResultOfAJobThatIsRemoved(t *testing.T) {
	onEach(t, func(t *testing.T, kit *bullmqtest.Kit) {
		result := bullmqtest.Work(t, kit, func(context.Context, *bullmq.Job) (any, error) { return Receipt{"r1"}, nil },
			Welcome, Email{}, &bullmqtest.WorkOptions{Job: &bullmq.JobOptions{KeepCompleted: bullmq.KeepNone()}})
		equal(t, "state", result.State, bullmq.StateCompleted)
		equal(t, "value", result.Value, Receipt{"r1"})
	})
}

func TestWorkJobRunsAJobBeforeOthers(t *testing.T) {
	onEach(t, func(t *testing.T, kit *bullmqtest.Kit) {
		queue := kit.Queue("mail")
		must(Welcome.Add(t.Context(), queue, Email{To: "first"}, nil))
		for _, options := range []*bullmq.JobOptions{nil, {Priority: 5}, {Delay: time.Hour}, {Delay: time.Hour, Priority: 5}} {
			job := must(Welcome.Add(t.Context(), queue, Email{To: "ada"}, options))
			var ran []string
			result := bullmqtest.WorkJob(t, kit, func(_ context.Context, job *bullmq.Job) (any, error) {
				ran = append(ran, job.ID)
				return Receipt{}, nil
			}, Welcome, job, nil)
			equalAll(t, "the jobs that ran", ran, job.ID)
			equal(t, "state", result.State, bullmq.StateCompleted)
			equal(t, "priority", result.Job.Priority, job.Priority)
		}
		equal(t, "jobs left", must(queue.Count(t.Context())), 1)
	})
}

func TestWorkFailsTheTestIfNoWorkerFetchesTheJob(t *testing.T) {
	onEach(t, func(t *testing.T, kit *bullmqtest.Kit) {
		if err := kit.Queue("mail").Pause(t.Context()); err != nil {
			t.Fatal(err)
		}
		expectFailure(t, func(tb testing.TB) {
			bullmqtest.Work(tb, kit, bullmq.NewMux().ServeJob, Welcome, Email{}, &bullmqtest.WorkOptions{Queue: "mail", FetchTimeout: 100 * time.Millisecond})
		}, "job 1 (welcome) of queue mail", "is its queue paused")
	})
}

func TestAHandlerLearnsThatItsLockIsLost(t *testing.T) {
	onEach(t, func(t *testing.T, kit *bullmqtest.Kit) {
		result := bullmqtest.Work(t, kit, func(ctx context.Context, job *bullmq.Job) (any, error) {
			kit.LoseLock(job)
			select {
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			case <-time.After(20 * time.Second):
				return nil, errors.New("the handler was not cancelled")
			}
		}, Welcome, Email{}, &bullmqtest.WorkOptions{Queue: "mail"})
		if !errors.Is(result.Err, bullmq.ErrLockLost) {
			t.Errorf("the error is %v", result.Err)
		}
		equal(t, "state", result.State, bullmq.StateActive)

		// The check for stalled jobs requeues it.
		run := func() int {
			return len(kit.Drain(t.Context(), "mail", func(context.Context, *bullmq.Job) (any, error) { return Receipt{}, nil }, nil))
		}
		ran := run()
		kit.Advance(time.Minute)
		ran += run()
		equal(t, "attempts", ran, 1)
		equal(t, "state", must(result.Job.State(t.Context())), bullmq.StateCompleted)
	})
}

func TestDrainRunsJobsThatAreReadyAndThoseThatTheyAdd(t *testing.T) {
	onEach(t, func(t *testing.T, kit *bullmqtest.Kit) {
		queue := kit.Queue("mail")
		must(Report.Add(t.Context(), queue, Email{To: "ada", Order: 3}, nil))
		must(Report.Add(t.Context(), queue, Email{To: "late"}, &bullmq.JobOptions{Delay: time.Hour}))
		attempts := kit.Drain(t.Context(), "mail", func(ctx context.Context, job *bullmq.Job) (any, error) {
			email := must(Report.Data(job))
			if email.Order--; email.Order > 0 {
				return Report.Add(ctx, queue, email, nil)
			}
			return nil, nil
		}, nil)
		equal(t, "attempts", len(attempts), 3)
		equal(t, "delayed", must(queue.Counts(t.Context(), bullmq.StateDelayed))[bullmq.StateDelayed], 1)
		equal(t, "attempts of an empty queue", len(kit.Drain(t.Context(), "empty", bullmq.NewMux().ServeJob, nil)), 0)
	})
}

func TestJobsThatAreHandedOverStayActive(t *testing.T) {
	onEach(t, func(t *testing.T, kit *bullmqtest.Kit) {
		handOver := func(context.Context, *bullmq.Job) (any, error) { return nil, bullmq.ErrHandedOver }
		result := bullmqtest.Work(t, kit, handOver, Welcome, Email{To: "ada"}, nil)
		equal(t, "state", result.State, bullmq.StateActive)
		equal(t, "attempts made", result.Job.AttemptsMade, 0)
		if !errors.Is(result.Err, bullmq.ErrHandedOver) {
			t.Errorf("the error is %v", result.Err)
		}
		queue := kit.Queue("mail")
		job := must(Report.Add(t.Context(), queue, Email{To: "ada"}, nil))
		equal(t, "attempts", len(kit.Drain(t.Context(), "mail", handOver, nil)), 1)
		equal(t, "state", must(job.State(t.Context())), bullmq.StateActive)
	})
}

func TestDrainFollowsDelaysRetriesSchedulersAndRateLimits(t *testing.T) {
	onEach(t, func(t *testing.T, kit *bullmqtest.Kit) {
		queue, start := kit.Queue("mail"), kit.Now()
		must(Report.Add(t.Context(), queue, Email{To: "delayed"}, &bullmq.JobOptions{Delay: 20 * time.Minute}))
		must(Report.Add(t.Context(), queue, Email{To: "beyond"}, &bullmq.JobOptions{Delay: 25 * time.Hour}))
		must(Welcome.Add(t.Context(), queue, Email{To: "retried"}, nil))
		var at []string
		attempts := kit.Drain(t.Context(), "mail", func(_ context.Context, job *bullmq.Job) (any, error) {
			at = append(at, fmt.Sprintf("%s %v", must(Report.Data(job)).To, kit.Now().Sub(start)))
			if job.Name == Welcome.Name() {
				return nil, errors.New("the server is busy")
			}
			return nil, nil
		}, &bullmqtest.DrainOptions{FollowDelays: 24 * time.Hour})
		equalAll(t, "attempts", at, "retried 0s", "delayed 20m0s", "retried 30m0s", "retried 1h0m0s")
		equal(t, "time", kit.Now().Sub(start), 24*time.Hour)
		equal(t, "the last error", attempts[3].Err.Error(), "the server is busy")
		equal(t, "the time of the last attempt", attempts[3].At.Sub(start), time.Hour)

		template := Report.Template(Email{}, nil)
		must(kit.Queue("hourly").UpsertScheduler(t.Context(), "h", bullmq.Repeat{Every: time.Hour}, &template))
		runs := kit.Drain(t.Context(), "hourly", func(context.Context, *bullmq.Job) (any, error) { return nil, nil },
			&bullmqtest.DrainOptions{FollowDelays: 24 * time.Hour})
		if len(runs) != 24 && len(runs) != 25 {
			t.Errorf("the scheduler ran %d times in 24 hours", len(runs))
		}

		for range 3 {
			must(Report.Add(t.Context(), kit.Queue("limited"), Email{}, nil))
		}
		limited := kit.Drain(t.Context(), "limited", func(context.Context, *bullmq.Job) (any, error) { return nil, nil },
			&bullmqtest.DrainOptions{FollowDelays: 90 * time.Minute, Worker: &bullmq.WorkerOptions{Limiter: &bullmq.Limiter{Max: 1, Duration: time.Hour}}})
		equal(t, "attempts within the rate limit", len(limited), 2)
	})
}

func TestDrainFailsTheTestIfJobsNeverEnd(t *testing.T) {
	onEach(t, func(t *testing.T, _ *bullmqtest.Kit) {
		expectFailure(t, func(tb testing.TB) {
			kit := bullmqtest.New(tb, nil)
			must(Report.Add(t.Context(), kit.Queue("mail"), Email{}, nil))
			kit.Drain(t.Context(), "mail", func(ctx context.Context, _ *bullmq.Job) (any, error) {
				return Report.Add(ctx, kit.Queue("mail"), Email{}, nil)
			}, &bullmqtest.DrainOptions{MaxAttempts: 5})
		}, "drain queue mail", "MaxAttempts is 5")
	})
}

func TestDrainRecordsPanicsAndJobsThatFailWithoutRunning(t *testing.T) {
	onEach(t, func(t *testing.T, kit *bullmqtest.Kit) {
		must(Report.Add(t.Context(), kit.Queue("mail"), Email{}, nil))
		attempts := kit.Drain(t.Context(), "mail", func(context.Context, *bullmq.Job) (any, error) { panic("no paper") }, nil)
		var p *bullmq.PanicError
		if len(attempts) != 1 || !errors.As(attempts[0].Err, &p) {
			t.Errorf("the attempts are %v", attempts)
		}
	})
}

func TestDrainWorksOffConcurrently(t *testing.T) {
	onEach(t, func(t *testing.T, kit *bullmqtest.Kit) {
		for i := range 50 {
			must(Report.Add(t.Context(), kit.Queue("mail"), Email{Order: i}, nil))
		}
		attempts := kit.Drain(t.Context(), "mail", func(context.Context, *bullmq.Job) (any, error) {
			time.Sleep(time.Millisecond)
			return nil, nil
		}, &bullmqtest.DrainOptions{Worker: &bullmq.WorkerOptions{Concurrency: 10}})
		ids := map[string]bool{}
		for _, attempt := range attempts {
			ids[attempt.Job.ID] = true
		}
		equal(t, "jobs", len(ids), 50)
		equal(t, "completed", must(kit.Queue("mail").Counts(t.Context(), bullmq.StateCompleted))[bullmq.StateCompleted], 50)
	})
}

func TestAHandlerMayFailTheTest(t *testing.T) {
	onEach(t, func(t *testing.T, kit *bullmqtest.Kit) {
		inner := &failing{TB: t}
		handler := func(context.Context, *bullmq.Job) (any, error) {
			inner.Fatalf("wrong data")
			return nil, nil
		}
		result := bullmqtest.Work(t, kit, handler, Report, Email{}, nil)
		equal(t, "state", result.State, bullmq.StateFailed)
		equal(t, "message", inner.message, "wrong data")
		must(Report.Add(t.Context(), kit.Queue("mail"), Email{}, nil))
		equal(t, "attempts", len(kit.Drain(t.Context(), "mail", handler, nil)), 1)
	})
}

func TestWaitStateReturnsAJobOnceItIsInAState(t *testing.T) {
	onEach(t, func(t *testing.T, kit *bullmqtest.Kit) {
		kit.StartWorker("mail", func(ctx context.Context, _ *bullmq.Job) (any, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}, nil)
		queue := kit.Queue("mail")
		job := must(Welcome.Add(t.Context(), queue, Email{To: "ada"}, nil))
		equal(t, "name", kit.WaitState("mail", job.ID, bullmq.StateActive).Name, Welcome.Name())
		must(queue.Cancel(t.Context(), job.ID, "by the customer"))
		equal(t, "reason", kit.WaitState("mail", job.ID, bullmq.StateFailed).FailedReason, "cancelled: by the customer")
		expectFailure(t, func(tb testing.TB) {
			bullmqtest.New(tb, nil).WaitState("mail", "404", bullmq.StateActive)
		}, "wait until job 404 of queue mail is active")
	})
}

func TestWaitFinishedReturnsTheEndOfAJobThatAWorkerRuns(t *testing.T) {
	onEach(t, func(t *testing.T, kit *bullmqtest.Kit) {
		kit.StartWorker("mail", func(ctx context.Context, job *bullmq.Job) (any, error) {
			if job.Options.KeepLogs > 0 {
				_, err := job.Log(ctx, "row")
				return nil, errors.Join(err, bullmq.Unrecoverable(errors.New("no address")))
			}
			return Receipt{"r" + job.ID}, nil
		}, nil)
		queue := kit.Queue("mail")
		job := must(Welcome.Add(t.Context(), queue, Email{To: "ada"}, nil))
		result := bullmqtest.WaitFinished(t, kit, "mail", Welcome, job.ID)
		equal(t, "state", result.State, bullmq.StateCompleted)
		equal(t, "value", result.Value.ID, "r"+job.ID)
		equal(t, "error", result.Err, nil)
		equal(t, "attempts made", result.Job.AttemptsMade, 1)

		job = must(Welcome.Add(t.Context(), queue, Email{To: "ada"}, &bullmq.JobOptions{KeepLogs: 1}))
		result = bullmqtest.WaitFinished(t, kit, "mail", Welcome, job.ID)
		var failed *bullmq.JobFailedError
		if !errors.As(result.Err, &failed) || failed.Reason != "no address" || result.State != bullmq.StateFailed {
			t.Errorf("the job is %s: %v", result.State, result.Err)
		}
		equalAll(t, "log rows", result.Logs, "row")

		job = must(Welcome.Add(t.Context(), queue, Email{To: "ada"}, &bullmq.JobOptions{KeepCompleted: bullmq.KeepNone()}))
		result = bullmqtest.WaitFinished(t, kit, "mail", Welcome, job.ID)
		equal(t, "the value of a job that was removed", result.Value.ID, "r"+job.ID)
		expectFailure(t, func(tb testing.TB) { bullmqtest.WaitFinished(tb, kit, "mail", Welcome, "404") }, "job 404 (welcome) of queue mail")
	})
}
