package bullmqtest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmqtest"
)

func TestKitRunsDelayedJobsAndRetriesWhenTimeAdvances(t *testing.T) {
	onEach(t, func(t *testing.T, kit *bullmqtest.Kit) {
		ran := make(chan time.Time, 10)
		kit.StartWorker("mail", func(_ context.Context, job *bullmq.Job) (any, error) {
			ran <- kit.Now()
			if job.AttemptsMade == 0 {
				return nil, errors.New("the server is busy")
			}
			return Receipt{"r1"}, nil
		}, nil)
		job := must(Welcome.Add(t.Context(), kit.Queue("mail"), Email{To: "ada"}, &bullmq.JobOptions{Delay: time.Hour}))
		expectIdle(t, ran)
		start := kit.Now()
		kit.Advance(time.Hour)
		equal(t, "the first attempt", (<-ran).Sub(start), time.Hour)
		waitForState(t, kit, job, bullmq.StateDelayed)
		kit.Advance(29 * time.Minute)
		expectIdle(t, ran)
		kit.Advance(time.Minute)
		equal(t, "the second attempt", (<-ran).Sub(start), 90*time.Minute)
		equal(t, "the result", must(Welcome.Wait(t.Context(), kit.Queue("mail"), job.ID)).ID, "r1")
	})
}

func expectIdle(t *testing.T, ran <-chan time.Time) {
	t.Helper()
	select {
	case <-ran:
		t.Fatal("the job ran too early")
	case <-time.After(150 * time.Millisecond):
	}
}

func waitForState(t *testing.T, kit *bullmqtest.Kit, job *bullmq.Job, state bullmq.State) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for must(job.State(t.Context())) != state {
		if time.Now().After(deadline) {
			t.Fatalf("job %s is %s, want %s", job.ID, must(job.State(t.Context())), state)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestKitWakesAnIdleWorkerAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, kit *bullmqtest.Kit) {
		ran := make(chan time.Time, 1)
		kit.StartWorker("mail", func(context.Context, *bullmq.Job) (any, error) {
			ran <- time.Now()
			return nil, nil
		}, &bullmq.WorkerOptions{DrainDelay: time.Minute})
		must(Report.Add(t.Context(), kit.Queue("mail"), Email{}, &bullmq.JobOptions{Delay: time.Hour}))
		expectIdle(t, ran)
		begun := time.Now()
		kit.Advance(time.Hour)
		if took := (<-ran).Sub(begun); took > 5*time.Second { // without a wake-up it waits for ten
			t.Errorf("the worker ran the job after %v", took)
		}
	})
}

func TestKitEndsRateLimitsAndDeduplicationWhenTimeAdvances(t *testing.T) {
	onEach(t, func(t *testing.T, kit *bullmqtest.Kit) {
		ran := make(chan time.Time, 10)
		kit.StartWorker("mail", func(context.Context, *bullmq.Job) (any, error) {
			ran <- kit.Now()
			return nil, nil
		}, &bullmq.WorkerOptions{Limiter: &bullmq.Limiter{Max: 1, Duration: time.Hour}})
		queue := kit.Queue("mail")
		once := &bullmq.JobOptions{Deduplication: &bullmq.Deduplication{ID: "ada", TTL: time.Hour}}
		add := func() bullmq.AddOutcome { return must(Report.Add(t.Context(), queue, Email{}, once)).AddOutcome() }
		equal(t, "the first add", add(), bullmq.Added)
		<-ran
		equal(t, "the second add", add(), bullmq.Deduplicated)
		kit.Advance(59 * time.Minute)
		must(Report.Add(t.Context(), queue, Email{}, nil))
		expectIdle(t, ran)
		kit.Advance(time.Minute)
		<-ran
		equal(t, "the third add", add(), bullmq.Added)
	})
}

func TestKitsShareNothing(t *testing.T) {
	t.Setenv(bullmqtest.RedisURLVariable, server.URL())
	one, other := bullmqtest.New(t, nil), bullmqtest.New(t, nil)
	must(Report.Add(t.Context(), one.Queue("mail"), Email{}, nil))
	bullmqtest.RequireAdded(t, one, "mail", Report, bullmqtest.Match{})
	bullmqtest.RequireNotAdded(t, other, "mail", Report, bullmqtest.Match{})
}

func TestKitRemovesItsKeysFromARealRedis(t *testing.T) {
	client := must(rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true}))
	defer client.Close()
	prefix := ""
	t.Run("use", func(t *testing.T) {
		kit := bullmqtest.New(t, &bullmqtest.Options{RedisURL: server.URL()})
		prefix = kit.Prefix()
		must(Report.Add(t.Context(), kit.Queue("mail"), Email{}, nil))
	})
	keys := must(client.Do(t.Context(), client.B().Keys().Pattern(prefix+"*").Build()).AsStrSlice())
	equalAll(t, "the keys left", keys)
}

func TestKitTakesRedisDownAndUp(t *testing.T) {
	onEach(t, func(t *testing.T, kit *bullmqtest.Kit) {
		ran := make(chan time.Time, 10)
		kit.StartWorker("mail", func(context.Context, *bullmq.Job) (any, error) {
			ran <- kit.Now()
			return nil, nil
		}, nil)
		queue := kit.Queue("mail")
		must(Report.Add(t.Context(), queue, Email{}, nil))
		<-ran
		kit.Redis().Down()
		if _, err := Report.Add(t.Context(), queue, Email{}, nil); err == nil {
			t.Error("a job was added")
		}
		kit.Redis().Up()
		must(Report.Add(t.Context(), queue, Email{}, nil))
		<-ran
	})
}

func TestKitLetsTimePassWithARunningClock(t *testing.T) {
	start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	kit := bullmqtest.New(t, &bullmqtest.Options{Start: start, RunningClock: true})
	ran := make(chan time.Time, 1)
	kit.StartWorker("mail", func(context.Context, *bullmq.Job) (any, error) {
		ran <- kit.Now()
		return nil, nil
	}, nil)
	must(Report.Add(t.Context(), kit.Queue("mail"), Email{}, &bullmq.JobOptions{Delay: 50 * time.Millisecond}))
	if at := (<-ran).Sub(start); at < 50*time.Millisecond || at > 10*time.Second {
		t.Errorf("the job ran after %v", at)
	}
	must(Report.Add(t.Context(), kit.Queue("mail"), Email{}, &bullmq.JobOptions{Delay: time.Hour}))
	kit.Advance(time.Hour)
	<-ran
}

func TestKitStandsStillAtItsStart(t *testing.T) {
	start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	kit := bullmqtest.New(t, &bullmqtest.Options{Start: start})
	job := must(Report.Add(t.Context(), kit.Queue("mail"), Email{}, nil))
	equal(t, "the time", kit.Now(), start)
	equal(t, "the job's time", job.Timestamp.UTC(), start)
}

func TestKitLeavesTheLocksOfRunningJobsWhenTimeAdvances(t *testing.T) {
	onEach(t, func(t *testing.T, kit *bullmqtest.Kit) {
		result := bullmqtest.Work(t, kit, func(ctx context.Context, _ *bullmq.Job) (any, error) {
			kit.Advance(24 * time.Hour)
			select {
			case <-ctx.Done():
			case <-time.After(200 * time.Millisecond): // the lock is renewed meanwhile
			}
			return Receipt{"r1"}, context.Cause(ctx)
		}, Welcome, Email{}, nil)
		equal(t, "state", result.State, bullmq.StateCompleted)
		equal(t, "error", result.Err, nil)
	})
}

func TestKitWritesTheDataOfBullMQ5(t *testing.T) {
	for _, url := range []string{"", server.URL()} {
		kit := bullmqtest.New(t, &bullmqtest.Options{RedisURL: url, Dialect: bullmq.V5})
		handler := func(context.Context, *bullmq.Job) (any, error) { return Receipt{"r1"}, nil }
		equal(t, "state", bullmqtest.Work(t, kit, handler, Welcome, Email{}, nil).State, bullmq.StateCompleted)
		queue := kit.Queue("mail")
		must(Welcome.Add(t.Context(), queue, Email{}, nil))
		if err := queue.Pause(t.Context()); err != nil {
			t.Fatal(err)
		}
		equal(t, "attempts while the queue is paused", len(kit.Drain(t.Context(), "mail", handler, nil)), 0)
		bullmqtest.RequireAdded(t, kit, "mail", Welcome, bullmqtest.Match{})
		if err := queue.Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		equal(t, "attempts", len(kit.Drain(t.Context(), "mail", handler, nil)), 1)
	}
}

func TestKitRunsAServerUntilTheTestEnds(t *testing.T) {
	onEach(t, func(t *testing.T, kit *bullmqtest.Kit) {
		var server *bullmq.Server
		var queue *bullmq.Queue
		t.Run("within a test", func(t *testing.T) {
			kit := bullmqtest.New(t, nil)
			server = bullmq.NewServer(kit.Conn(), kit.ServerOptions())
			server.Handle("mail", func(_ context.Context, job *bullmq.Job) (any, error) { return Receipt{job.ID}, nil }, nil)
			queue = must(server.Queue(t.Context(), "mail", nil))
			kit.StartServer(server)
			job := must(Welcome.Add(t.Context(), queue, Email{To: "ada"}, nil))
			equal(t, "result", bullmqtest.WaitFinished(t, kit, "mail", Welcome, job.ID).Value.ID, job.ID)
		})
		if err := queue.Ping(t.Context()); !errors.Is(err, bullmq.ErrClosed) {
			t.Errorf("the queue of the server is open: %v", err)
		}
		expectFailure(t, func(tb testing.TB) {
			kit := bullmqtest.New(tb, nil)
			kit.StartServer(bullmq.NewServer(kit.Conn(), kit.ServerOptions()))
		}, "it has ended", "nothing to run")
	})
}

func TestKitRunsAServerOfManyQueues(t *testing.T) {
	onEach(t, func(t *testing.T, _ *bullmqtest.Kit) {
		kit := bullmqtest.New(t, nil)
		server := bullmq.NewServer(kit.Conn(), kit.ServerOptions())
		names := []string{"mail", "sms", "post"}
		var queues []bullmq.ServedQueue
		for _, name := range names {
			queues = append(queues, bullmq.ServedQueue{Name: name})
		}
		server.HandleQueues(func(_ context.Context, job *bullmq.Job) (any, error) { return Receipt{job.QueueName()}, nil },
			&bullmq.MultiWorkerOptions{Queues: queues, Worker: bullmq.WorkerOptions{Concurrency: 2}})
		kit.StartServer(server)
		for _, delay := range []time.Duration{0, time.Hour} {
			ids := map[string]string{}
			for _, name := range names {
				ids[name] = must(Welcome.Add(t.Context(), kit.Queue(name), Email{To: "ada"}, &bullmq.JobOptions{Delay: delay})).ID
			}
			kit.Advance(delay)
			for name, id := range ids {
				equal(t, "result", bullmqtest.WaitFinished(t, kit, name, Welcome, id).Value.ID, name)
			}
		}
	})
}
