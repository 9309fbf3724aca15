package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/17a2ac88/bullmq-go/bench/contender"
	"github.com/17a2ac88/bullmq-go/bullmq"
)

// A sharded queue over one to ten servers, with 100 adds in flight and 100 running jobs for each. The Redis CPU per job is
// measured without limits. The jobs per second are measured with a small share of a core for each server, so that
// the servers are the bottleneck even if they share few cores.
const (
	shardJobs        = 6_000 // for each shard
	limitedShardJobs = 3_000
	// The share of a core of a limited server is quota / period.
	limitPeriod = 20 * time.Millisecond
	limitQuota  = 1200 * time.Microsecond
)

var shardCounts = []int{1, 2, 5, 10}

// shardRow has the figures of a number of shards: medians over the rounds.
type shardRow struct {
	shards       int
	add, process cost // Redis CPU per job, of all servers together
	limited      bool // the machine allows limits
	adds, runs   float64
}

// measureShards measures each number of shards, several times in turns.
func measureShards(counts []int, jobs, limitedJobs, rounds int) ([]shardRow, error) {
	free, slow := make([][]shardRow, len(counts)), make([][]shardRow, len(counts))
	limits := true
	for range rounds {
		for i, shards := range counts {
			row, err := measureShardCount(shards, jobs, false)
			if err != nil {
				return nil, fmt.Errorf("shards, %d: %w", shards, err)
			}
			free[i] = append(free[i], row)
			if !limits {
				continue
			}
			row, err = measureShardCount(shards, limitedJobs, true)
			if errors.Is(err, errNoLimits) {
				fmt.Fprintln(os.Stderr, "shards: jobs per second are left out:", err)
				limits = false
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("shards, %d: %w", shards, err)
			}
			slow[i] = append(slow[i], row)
			fmt.Fprintf(os.Stderr, "shards: %d, limited: %.0f adds/s, %.0f jobs/s\n", shards, row.adds, row.runs)
		}
	}
	rows := make([]shardRow, len(counts))
	for i, shards := range counts {
		rows[i] = shardRow{
			shards: shards, limited: limits,
			add:     cost{redisCPU: medianOf(free[i], func(r shardRow) float64 { return r.add.redisCPU })},
			process: cost{redisCPU: medianOf(free[i], func(r shardRow) float64 { return r.process.redisCPU })},
		}
		if limits {
			rows[i].adds = medianOf(slow[i], func(r shardRow) float64 { return r.adds })
			rows[i].runs = medianOf(slow[i], func(r shardRow) float64 { return r.runs })
		}
	}
	return rows, nil
}

// shardFleet is a sharded queue with its servers and a worker that is paused between steps.
type shardFleet struct {
	servers []*redis
	limits  []*cpuLimit
	links   []*bullmq.Connection
	queue   *bullmq.ShardedQueue
	worker  *bullmq.ShardedWorker
	ended   chan error
	done    atomic.Int64
	target  atomic.Int64
	all     chan struct{}
}

func measureShardCount(shards, jobsPerShard int, limited bool) (row shardRow, err error) {
	f := &shardFleet{}
	defer f.close()
	if err := f.open(shards); err != nil {
		return row, err
	}
	// The first jobs load the scripts and open the connections.
	if _, _, err := f.step(200 * shards); err != nil {
		return row, err
	}
	if limited {
		for i, server := range f.servers {
			limit, err := limitCPU(fmt.Sprintf("bullmq-go-bench-%d-%d", os.Getpid(), i), server)
			if err != nil {
				return row, err
			}
			f.limits = append(f.limits, limit)
		}
	}
	row.shards = shards
	jobs := jobsPerShard * shards
	if row.add, row.process, err = f.step(jobs); err != nil {
		return row, err
	}
	row.adds, row.runs = 1e6/row.add.micros, 1e6/row.process.micros
	return row, nil
}

func (f *shardFleet) open(shards int) error {
	ctx := context.Background()
	for range shards {
		server, err := startRedis()
		if err != nil {
			return err
		}
		f.servers = append(f.servers, server)
		link, err := bullmq.Connect(ctx, server.URL())
		if err != nil {
			return err
		}
		f.links = append(f.links, link)
	}
	var err error
	if f.queue, err = bullmq.NewShardedQueue(ctx, contender.Queue, shards, &bullmq.ShardedQueueOptions{Connections: f.links}); err != nil {
		return err
	}
	handler := func(context.Context, *bullmq.Job) (any, error) { return nil, nil }
	f.worker, err = bullmq.NewShardedWorker(ctx, f.queue, handler, &bullmq.WorkerOptions{
		Concurrency: inFlight * shards,
		Events: bullmq.WorkerEvents{Completed: func(*bullmq.Job, any) {
			if f.done.Add(1) == f.target.Load() {
				close(f.all)
			}
		}},
	})
	if err != nil {
		return err
	}
	f.ended = make(chan error, 1)
	if err := f.pause(); err != nil {
		return err
	}
	go func() { f.ended <- f.worker.Run(ctx) }()
	return nil
}

func (f *shardFleet) pause() error {
	for _, worker := range f.worker.Workers() {
		if err := worker.Pause(context.Background()); err != nil {
			return err
		}
	}
	return nil
}

func (f *shardFleet) close() {
	if f.worker != nil {
		_ = f.worker.Close()
	}
	if f.queue != nil {
		_ = f.queue.Close()
	}
	for _, link := range f.links {
		_ = link.Close()
	}
	for _, server := range f.servers {
		server.close()
	}
	for _, limit := range f.limits {
		limit.remove()
	}
}

// step measures an add and the run of a job.
func (f *shardFleet) step(jobs int) (add, run cost, err error) {
	if add, err = f.cost(jobs, func() error {
		return contender.AddEach(shardedProducer{f.queue}, jobs, inFlight*len(f.servers))
	}); err != nil {
		return add, run, err
	}
	f.done.Store(0)
	f.all = make(chan struct{})
	f.target.Store(int64(jobs))
	run, err = f.cost(jobs, func() error {
		for _, worker := range f.worker.Workers() {
			worker.Resume()
		}
		select {
		case <-f.all:
			return nil
		case <-time.After(outputTimeout):
			return fmt.Errorf("%d of %d jobs finished within %v", f.done.Load(), jobs, outputTimeout)
		}
	})
	if err != nil {
		return add, run, err
	}
	return add, run, f.pause()
}

// cost returns the cost of work per job: its time, and the CPU time of all servers.
func (f *shardFleet) cost(jobs int, work func() error) (cost, error) {
	before, err := f.cpuSeconds()
	if err != nil {
		return cost{}, err
	}
	begun := time.Now()
	if err := work(); err != nil {
		return cost{}, err
	}
	took := time.Since(begun)
	after, err := f.cpuSeconds()
	perJob := 1e6 / float64(jobs)
	return cost{took.Seconds() * perJob, (after - before) * perJob}, err
}

func (f *shardFleet) cpuSeconds() (sum float64, err error) {
	for _, server := range f.servers {
		used, err := server.cpuSeconds()
		if err != nil {
			return 0, err
		}
		sum += used
	}
	return sum, nil
}

// shardedProducer adds jobs to a sharded queue.
type shardedProducer struct{ queue *bullmq.ShardedQueue }

func (p shardedProducer) Add(ctx context.Context, _ time.Duration) (string, time.Time, error) {
	job, err := p.queue.Add(ctx, contender.JobName, json.RawMessage(contender.JobData), nil)
	if err != nil {
		return "", time.Time{}, err
	}
	return job.ID, job.Timestamp, nil
}

func (p shardedProducer) AddBulk(context.Context, int) error { return errors.ErrUnsupported }
func (p shardedProducer) Close() error                       { return p.queue.Close() }

// errNoLimits means that this machine does not let the benchmark limit the CPU time of a process.
var errNoLimits = errors.New("no control group can be made here")

// cpuLimit is a control group of Linux with one process.
type cpuLimit struct{ directory string }

// limitCPU limits the CPU time of a server.
func limitCPU(name string, server *redis) (*cpuLimit, error) {
	info, err := server.info("server")
	if err != nil {
		return nil, err
	}
	quota, period := strconv.FormatInt(limitQuota.Microseconds(), 10), strconv.FormatInt(limitPeriod.Microseconds(), 10)
	for _, version := range []struct {
		root  string
		files [][2]string
	}{
		{"/sys/fs/cgroup/cpu", [][2]string{{"cpu.cfs_period_us", period}, {"cpu.cfs_quota_us", quota}}},
		{"/sys/fs/cgroup", [][2]string{{"cpu.max", quota + " " + period}}},
	} {
		limit := &cpuLimit{filepath.Join(version.root, name)}
		if err = limit.set(append(version.files, [2]string{"cgroup.procs", info["process_id"]})); err == nil {
			return limit, nil
		}
		limit.remove()
	}
	return nil, fmt.Errorf("%w: %w", errNoLimits, err)
}

func (l *cpuLimit) set(files [][2]string) error {
	if err := os.Mkdir(l.directory, 0o755); err != nil {
		return err
	}
	for _, file := range files {
		if err := os.WriteFile(filepath.Join(l.directory, file[0]), []byte(file[1]), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// remove removes the group, whose process has ended.
func (l *cpuLimit) remove() { _ = os.Remove(l.directory) }

// shardsTable returns the rows in Markdown.
func shardsTable(rows []shardRow) string {
	var b strings.Builder
	if rows[0].limited {
		share := float64(limitQuota) / float64(limitPeriod) * 100
		fmt.Fprintf(&b, "| shards | add: Redis CPU per job | process: Redis CPU per job | added per second at %.0f %% of a core | ratio | processed per second at %.0f %% of a core | ratio |\n", share, share)
		b.WriteString("|--:|--:|--:|--:|--:|--:|--:|\n")
	} else {
		b.WriteString("| shards | add: Redis CPU per job | process: Redis CPU per job |\n|--:|--:|--:|\n")
	}
	for _, r := range rows {
		fmt.Fprintf(&b, "| %d | %s µs | %s µs |", r.shards, number(r.add.redisCPU), number(r.process.redisCPU))
		if r.limited {
			fmt.Fprintf(&b, " %s /s | %s | %s /s | %s |", number(r.adds), ratioText(r.adds/rows[0].adds), number(r.runs), ratioText(r.runs/rows[0].runs))
		}
		b.WriteString("\n")
	}
	return b.String()
}
