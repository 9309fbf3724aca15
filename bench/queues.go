package main

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bench/contender"
	"github.com/17a2ac88/bullmq-go/bullmq"
)

// The cost of a job with one queue and with a thousand, in one process with one worker and one shared Redis client. The same
// number of jobs is spread over the queues.
const (
	spreadJobs  = 20_000
	spreadSteps = 3
	queuesTitle = "queues"
	// The title of the row of the baseline, which only adds.
	queuesBaselineTitle = "queues, baseline"
)

var oneAndThousand = [2]int{1, 1_000}

// fleet is a number of queues. A single queue has a Worker. Many have one MultiWorker and share the calls that add jobs. The
// worker is paused between steps.
type fleet struct {
	*redis
	shared     rueidis.Client
	connection *bullmq.Connection // of shared
	jobs       int                // per step
	queues     []ownProducer
	worker     pausable
	done       atomic.Int64
	all        chan struct{}
}

// pausable is a Worker or a MultiWorker.
type pausable interface {
	Run(ctx context.Context) error
	Pause(ctx context.Context) error
	Resume()
	Close() error
}

// measureQueues also returns the costs of adding with bare commands in the same steps.
func measureQueues(sizes [2]int, jobs, steps int) (row, baseline grown, err error) {
	row, baseline = grown{title: queuesTitle}, grown{title: queuesBaselineTitle}
	var fleets [2]*fleet
	for i, size := range sizes {
		f, err := openFleet(size, jobs)
		if err != nil {
			return row, baseline, fmt.Errorf("growth, %d queues: %w", size, err)
		}
		defer f.close()
		fleets[i] = f
	}
	var adds, runs, bare [2][]cost
	for step := range 1 + steps { // the first step opens the workers' connections
		for i := range fleets {
			at := (step + i) % len(fleets)
			f := fleets[at]
			add, run, err := f.step()
			if err != nil {
				return row, baseline, fmt.Errorf("growth, %d queues: %w", len(f.queues), err)
			}
			least, err := f.cost(func() (int, error) { return jobs, f.baselineAddTo(len(f.queues), jobs) })
			if err != nil {
				return row, baseline, fmt.Errorf("growth, %d queues, baseline: %w", len(f.queues), err)
			}
			if step > 0 {
				adds[at], runs[at], bare[at] = append(adds[at], add), append(runs[at], run), append(bare[at], least)
			}
		}
	}
	row.add, row.process, baseline.add = compare(adds), compare(runs), compare(bare)
	fmt.Fprintln(os.Stderr, "growth:", row)
	fmt.Fprintf(os.Stderr, "growth: queues, baseline: add %.2f × the time, %.2f × Redis' CPU\n", baseline.add.ratio.micros, baseline.add.ratio.redisCPU)
	return row, baseline, nil
}

func openFleet(size, jobs int) (*fleet, error) {
	server, err := startRedis()
	if err != nil {
		return nil, err
	}
	f := &fleet{redis: server, jobs: jobs}
	// Each worker blocks on a separate connection, whose default buffers take a megabyte.
	f.shared, err = rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{server.Addr()}, DisableCache: true, BlockingPoolSize: 2,
		ReadBufferEachConn: 32 << 10, WriteBufferEachConn: 32 << 10, RingScaleEachConn: 8,
	})
	if err != nil {
		f.close()
		return nil, err
	}
	if f.connection, err = bullmq.ConnectClient(context.Background(), f.shared); err != nil {
		f.close()
		return nil, err
	}
	if err := f.open(size); err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

// open opens the queues and their worker.
func (f *fleet) open(size int) error {
	var served []bullmq.ServedQueue
	for i := range size {
		name := fmt.Sprintf("bench-%d", i)
		queue, err := bullmq.NewQueue(context.Background(), name, &bullmq.QueueOptions{Connection: f.connection, ShareCalls: size > 1})
		if err != nil {
			return err
		}
		f.queues, served = append(f.queues, ownProducer{queue}), append(served, bullmq.ServedQueue{Name: name})
	}
	options := bullmq.WorkerOptions{
		Connection: f.connection, Concurrency: inFlight,
		Events: bullmq.WorkerEvents{Completed: func(*bullmq.Job, any) {
			if f.done.Add(1) == int64(f.jobs) {
				close(f.all)
			}
		}},
	}
	handler := func(context.Context, *bullmq.Job) (any, error) { return nil, nil }
	if size == 1 {
		worker, err := bullmq.NewWorker(context.Background(), served[0].Name, handler, &options)
		if err != nil {
			return err
		}
		f.worker = worker
	} else {
		worker, err := bullmq.NewMultiWorker(context.Background(), handler, &bullmq.MultiWorkerOptions{Queues: served, Worker: options})
		if err != nil {
			return err
		}
		f.worker = worker
	}
	if err := f.worker.Pause(context.Background()); err != nil {
		return err
	}
	go func() { _ = f.worker.Run(context.Background()) }()
	return nil
}

func (f *fleet) close() {
	if f.worker != nil {
		_ = f.worker.Close()
	}
	for _, q := range f.queues {
		_ = q.Close()
	}
	if f.shared != nil {
		f.shared.Close()
	}
	f.redis.close()
}

// step measures an add and the run of a job.
func (f *fleet) step() (add, run cost, err error) {
	if add, err = f.cost(func() (int, error) {
		return f.jobs, contender.AddEach(&spread{queues: f.queues}, f.jobs, inFlight)
	}); err != nil {
		return
	}
	f.done.Store(0)
	f.all = make(chan struct{})
	run, err = f.cost(func() (int, error) {
		f.worker.Resume()
		select {
		case <-f.all:
			return f.jobs, nil
		case <-time.After(outputTimeout):
			return 0, fmt.Errorf("%d of %d jobs finished within %v", f.done.Load(), f.jobs, outputTimeout)
		}
	})
	if pauseErr := f.worker.Pause(context.Background()); err == nil {
		err = pauseErr
	}
	return add, run, err
}

// spread adds jobs to one queue after the other.
type spread struct {
	contender.Producer
	queues []ownProducer
	added  atomic.Int64
}

func (s *spread) Add(ctx context.Context, delay time.Duration) (string, time.Time, error) {
	return s.queues[int(s.added.Add(1))%len(s.queues)].Add(ctx, delay)
}
