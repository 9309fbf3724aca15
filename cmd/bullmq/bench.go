package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// Bounds of the benchmark, so that a typing error does not fill the memory of Redis.
const (
	mostBenchJobs        = 1_000_000
	mostBenchBytes       = 1 << 30
	mostBenchConcurrency = 10_000
	benchBulk            = 1000 // jobs in a call that adds
	benchCleanup         = 30 * time.Second
)

const noEviction = "noeviction" // the policy that BullMQ needs

// benchmark is a run of bench.
type benchmark struct {
	jobs, concurrency, size, samples int

	connection *bullmq.Connection
	queue      *bullmq.Queue
	prefix     string
	data       json.RawMessage
}

// benchLine is what a benchmark has measured, in JSON. Latencies are in milliseconds.
type benchLine struct {
	Redis       string             `json:"redis"`
	Policy      string             `json:"policy"`
	Queue       string             `json:"queue"`
	Jobs        int                `json:"jobs"`
	Concurrency int                `json:"concurrency"`
	Bytes       int                `json:"bytes"` // of the data of a job
	AddPerS     float64            `json:"addPerSecond,omitempty"`
	ProcessPerS float64            `json:"processPerSecond,omitempty"`
	AddMS       map[string]float64 `json:"addMs,omitempty"`
	StartMS     map[string]float64 `json:"startMs,omitempty"`
	DryRun      bool               `json:"dryRun,omitempty"`
}

func newBench(c *client) *cobra.Command {
	b := &benchmark{}
	var anyPolicy, dry bool
	command := &cobra.Command{
		Use:   "bench",
		Short: "Measure how fast jobs are added and processed on this Redis",
		Long: "Measure how fast jobs are added and processed on this Redis, and how soon a job starts.\n\n" +
			"It uses a queue of its own, bullmq-bench-…, and removes it afterwards, also after Ctrl-C. It loads Redis: think before\nyou run it on one that others use. --timeout bounds it.",
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := b.check(); err != nil {
				return err
			}
			ctx, connection, end, err := c.connect(command)
			if err != nil {
				return err
			}
			defer end()
			policy, err := memoryPolicy(ctx, connection)
			if err != nil {
				return err
			}
			if policy != noEviction && !anyPolicy {
				return fmt.Errorf("bullmq: bench: the memory policy of this Redis is %s, with which it may remove keys of other programs to make room: choose a Redis with noeviction, or give --any-policy", printable(cmp.Or(policy, "not known"), longestCell))
			}
			b.connection, b.prefix = connection, c.prefix
			line := benchLine{Redis: connection.String(), Policy: policy, Queue: "bullmq-bench-" + strings.ToLower(rand.Text()[:10]), Jobs: b.jobs, Concurrency: b.concurrency, Bytes: b.size, DryRun: dry}
			if !dry {
				if err := b.run(ctx, &line); err != nil {
					return err
				}
			}
			return c.writeBench(command, line)
		},
	}
	flags := command.Flags()
	flags.IntVar(&b.jobs, "jobs", 20_000, "number of jobs")
	flags.IntVar(&b.concurrency, "concurrency", 100, "jobs that the worker runs at the same time")
	flags.IntVar(&b.size, "size", 100, "bytes of the data of a job")
	flags.IntVar(&b.samples, "samples", 500, "jobs whose latency is measured, one after the other")
	flags.BoolVar(&anyPolicy, "any-policy", false, "run also if Redis may remove keys when its memory is full")
	flags.BoolVar(&dry, "dry-run", false, "show what would be run, and change nothing")
	return command
}

func (b *benchmark) check() error {
	switch {
	case b.jobs < 1 || b.jobs > mostBenchJobs:
		return usageError{fmt.Errorf("--jobs is from 1 to %d", mostBenchJobs)}
	case b.concurrency < 1 || b.concurrency > mostBenchConcurrency:
		return usageError{fmt.Errorf("--concurrency is from 1 to %d", mostBenchConcurrency)}
	case b.size < 2 || b.size > mostBenchBytes || b.jobs*b.size > mostBenchBytes:
		return usageError{fmt.Errorf("--size is at least 2, and all jobs have at most %d bytes", mostBenchBytes)}
	case b.samples < 1 || b.samples > mostBenchJobs:
		return usageError{fmt.Errorf("--samples is from 1 to %d", mostBenchJobs)}
	}
	return nil
}

// memoryPolicy returns what Redis does when its memory is full; "" if it does not tell. On a
// cluster it is the first policy other than noeviction.
func memoryPolicy(ctx context.Context, connection *bullmq.Connection) (policy string, err error) {
	nodes, err := connection.Nodes(ctx)
	for _, node := range nodes {
		if node.Err == nil && !node.Replica {
			if policy = node.EvictionPolicy; policy != noEviction {
				break
			}
		}
	}
	return policy, err
}

// run runs the benchmark, and removes its queue.
func (b *benchmark) run(ctx context.Context, line *benchLine) (err error) {
	b.data = fmt.Appendf(nil, "%q", strings.Repeat("x", b.size-2))
	b.queue, err = bullmq.NewQueue(ctx, line.Queue, &bullmq.QueueOptions{
		Connection: b.connection, Prefix: b.prefix, DefaultJobOptions: &bullmq.JobOptions{KeepCompleted: bullmq.KeepNone()},
	})
	if err != nil {
		return err
	}
	defer b.queue.Close()
	defer func() {
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), benchCleanup)
		defer cancel()
		if failed := b.queue.Obliterate(cleanup, &bullmq.ObliterateOptions{Force: true, Count: 10_000}); failed != nil {
			err = errors.Join(err, fmt.Errorf("%w; remove the queue by: bullmq obliterate %s --force --yes --name %[2]s", failed, line.Queue))
		}
	}()
	began := time.Now()
	if err := b.add(ctx); err != nil {
		return err
	}
	line.AddPerS = float64(b.jobs) / time.Since(began).Seconds()
	began = time.Now()
	if err := b.process(ctx); err != nil {
		return err
	}
	line.ProcessPerS = float64(b.jobs) / time.Since(began).Seconds()
	line.AddMS, line.StartMS, err = b.latency(ctx)
	return err
}

func (b *benchmark) add(ctx context.Context) error {
	bulk := make([]bullmq.BulkJob, benchBulk)
	for i := range bulk {
		bulk[i] = bullmq.BulkJob{Name: "bench", Data: b.data}
	}
	for left := b.jobs; left > 0; left -= benchBulk {
		if _, err := b.queue.AddBulk(ctx, bulk[:min(left, benchBulk)]); err != nil {
			return err
		}
	}
	return nil
}

// process runs the jobs, and returns when the ends of all have been written.
func (b *benchmark) process(ctx context.Context) error {
	var run atomic.Int64
	ended := make(chan struct{})
	stop, err := b.work(ctx, func(context.Context, *bullmq.Job) (any, error) {
		if run.Add(1) == int64(b.jobs) {
			close(ended)
		}
		return nil, nil
	})
	if err != nil {
		return err
	}
	select {
	case <-ended:
		return stop()
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("bullmq: bench: the jobs were not processed in time; run fewer --jobs, or raise --timeout: %w", context.Cause(ctx)), stop())
	}
}

// work starts a worker. stop ends it when the jobs that run have ended.
func (b *benchmark) work(ctx context.Context, handler bullmq.Handler) (stop func() error, err error) {
	worker, err := bullmq.NewWorker(ctx, b.queue.Name(), handler, &bullmq.WorkerOptions{Connection: b.connection, Prefix: b.prefix, Concurrency: b.concurrency, Name: "bench"})
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(running) }()
	return func() error {
		cancel()
		return <-ended
	}, nil
}

// latency adds jobs for an idle worker, one after the other. It returns how long an add took,
// and how long after the beginning of the add the job started.
func (b *benchmark) latency(ctx context.Context) (add, start map[string]float64, err error) {
	started := make(chan time.Time, 1)
	stop, err := b.work(ctx, func(context.Context, *bullmq.Job) (any, error) {
		started <- time.Now()
		return nil, nil
	})
	if err != nil {
		return nil, nil, err
	}
	var adds, starts []time.Duration
	for range b.samples {
		began := time.Now()
		if _, err := b.queue.Add(ctx, "bench", b.data, nil); err != nil {
			return nil, nil, errors.Join(err, stop())
		}
		adds = append(adds, time.Since(began))
		select {
		case at := <-started:
			starts = append(starts, at.Sub(began))
		case <-ctx.Done():
			return nil, nil, errors.Join(fmt.Errorf("bullmq: bench: %w", context.Cause(ctx)), stop())
		}
	}
	return percentiles(adds), percentiles(starts), stop()
}

// percentiles returns percentiles in milliseconds.
func percentiles(times []time.Duration) map[string]float64 {
	slices.Sort(times)
	at := func(part float64) float64 {
		return float64(times[min(int(part*float64(len(times))), len(times)-1)].Microseconds()) / 1000
	}
	return map[string]float64{"p50": at(0.5), "p95": at(0.95), "p99": at(0.99), "max": at(1)}
}

func (c *client) writeBench(command *cobra.Command, line benchLine) error {
	out := command.OutOrStdout()
	if !c.asTable(command) {
		return writeJSON(out, line)
	}
	_, _ = fmt.Fprintf(out, "%s with %d bytes each, concurrency %d, at %s\n", jobs(line.Jobs), line.Bytes, line.Concurrency, printable(line.Redis, 200))
	if line.DryRun {
		_, err := fmt.Fprintln(out, "nothing was run")
		return err
	}
	_, err := fmt.Fprintf(out, "\nadd       %8.0f jobs/s, in calls of %d\nprocess   %8.0f jobs/s\n", line.AddPerS, benchBulk, line.ProcessPerS)
	for _, row := range []struct {
		name  string
		times map[string]float64
	}{{"add one", line.AddMS}, {"start one", line.StartMS}} {
		if err == nil {
			_, err = fmt.Fprintf(out, "%-9s %8.2f ms p50, %.2f ms p95, %.2f ms p99, %.2f ms max\n", row.name, row.times["p50"], row.times["p95"], row.times["p99"], row.times["max"])
		}
	}
	return err
}
