package main

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bench/contender"
	"github.com/17a2ac88/bullmq-go/bullmq"
)

// How much a job costs with few jobs in the background and with many: two
// servers, one with each, and the same steps on both in turns. A step adds
// 1,000 jobs, 100 in flight, and lets a worker of concurrency 100 run 1,000.
const (
	stepJobs    = 1_000
	growthSteps = 60
	warmSteps   = 3
	inFlight    = 100
)

var fewAndMany = [2]int{1_000, 1_000_000}

const (
	waitingTitle   = "waiting"
	completedTitle = "completed"
	delayedTitle   = "delayed"
)

//go:embed growthComplete.lua
var completeText string

//go:embed growthDelay.lua
var delayText string

//go:embed growthTrim.lua
var trimText string

// grown is one row: what a job takes with few in the background and with many.
type grown struct {
	title        string
	add, process compared
}

// compared are two costs of the same thing, and the second divided by the first:
// medians over the steps, in each of which both are measured.
type compared struct{ few, many, ratio cost }

// cost of one job, in µs.
type cost struct{ micros, redisCPU float64 }

// ground is a server with jobs in the background, and a worker that is paused
// but for the steps.
type ground struct {
	*redis
	background int
	producer   ownProducer
	worker     *bullmq.Worker

	handled, target atomic.Int64
	reached         chan struct{}
}

func measureGrowth(backgrounds [2]int, steps int) ([]grown, error) {
	var grounds [2]*ground
	for i, background := range backgrounds {
		fmt.Fprintf(os.Stderr, "growth: adding %d jobs\n", background)
		g, err := openGround(background)
		if err != nil {
			return nil, err
		}
		defer g.close()
		grounds[i] = g
	}
	var rows []grown
	for _, background := range []struct {
		title string
		keep  bool // of the completed jobs, as many as there are in the background
		move  string
	}{
		{waitingTitle, false, ""},
		{completedTitle, true, completeText},
		{delayedTitle, false, delayText},
	} {
		row := grown{title: background.title}
		var adds, runs [2][]cost
		for _, g := range grounds {
			if err := g.each(background.move); err != nil {
				return nil, fmt.Errorf("growth, %s: %w", background.title, err)
			}
		}
		for step := range warmSteps + steps {
			for i := range grounds {
				at := (step + i) % len(grounds)
				add, run, err := grounds[at].step(background.keep)
				if err != nil {
					return nil, fmt.Errorf("growth, %s: %w", background.title, err)
				}
				if step >= warmSteps {
					adds[at], runs[at] = append(adds[at], add), append(runs[at], run)
				}
			}
		}
		row.add, row.process = compare(adds), compare(runs)
		rows = append(rows, row)
		fmt.Fprintln(os.Stderr, "growth:", row)
	}
	return rows, nil
}

func compare(costs [2][]cost) compared {
	median := func(costs []cost) cost {
		return cost{medianOf(costs, func(c cost) float64 { return c.micros }), medianOf(costs, func(c cost) float64 { return c.redisCPU })}
	}
	ratios := make([]cost, len(costs[0]))
	for i, few := range costs[0] {
		ratios[i] = cost{costs[1][i].micros / few.micros, costs[1][i].redisCPU / few.redisCPU}
	}
	return compared{median(costs[0]), median(costs[1]), median(ratios)}
}

func (g grown) String() string {
	return fmt.Sprintf("%s: add %.2f × the time, %.2f × Redis' CPU; process %.2f ×, %.2f ×",
		g.title, g.add.ratio.micros, g.add.ratio.redisCPU, g.process.ratio.micros, g.process.ratio.redisCPU)
}

func openGround(background int) (*ground, error) {
	server, err := startRedis()
	if err != nil {
		return nil, err
	}
	g := &ground{redis: server, background: background}
	fail := func(err error) (*ground, error) {
		g.close()
		return nil, err
	}
	if err := g.addJobs(contender.Queue, background); err != nil {
		return fail(err)
	}
	if g.producer.queue, err = bullmq.NewQueue(context.Background(), contender.Queue, &bullmq.QueueOptions{Connection: bullmq.URL(g.URL())}); err != nil {
		return fail(err)
	}
	handler := func(context.Context, *bullmq.Job) (any, error) {
		if g.handled.Add(1) == g.target.Load() {
			close(g.reached)
		}
		return nil, nil
	}
	g.worker, err = bullmq.NewWorker(context.Background(), contender.Queue, handler, &bullmq.WorkerOptions{Connection: bullmq.URL(g.URL()), Concurrency: inFlight})
	if err != nil {
		return fail(err)
	}
	if err := g.worker.Pause(context.Background()); err != nil {
		return fail(err)
	}
	go func() { _ = g.worker.Run(context.Background()) }()
	return g, nil
}

func (g *ground) close() {
	if g.worker != nil {
		_ = g.worker.Close()
	}
	if g.producer.queue != nil {
		_ = g.producer.Close()
	}
	g.redis.close()
}

// step answers what an add and the run of a job have cost.
func (g *ground) step(keepCompleted bool) (add, run cost, err error) {
	if add, err = g.cost(func() (int, error) {
		return stepJobs, contender.AddEach(g.producer, stepJobs, inFlight)
	}); err != nil {
		return
	}
	if run, err = g.cost(func() (int, error) {
		before := g.handled.Load()
		g.reached = make(chan struct{})
		g.target.Store(before + stepJobs)
		g.worker.Resume()
		select {
		case <-g.reached:
		case <-time.After(patience):
			return 0, fmt.Errorf("%d of %d jobs were run within %v", g.handled.Load()-before, stepJobs, patience)
		}
		err := g.worker.Pause(context.Background())
		return int(g.handled.Load() - before), err
	}); err != nil {
		return
	}
	// Those that ran when the worker was paused have come to an end as well.
	if err = g.addJobs(contender.Queue, int(g.handled.Load()-g.target.Load())); err != nil {
		return
	}
	kept := 0
	if keepCompleted {
		kept = g.background
	}
	return add, run, g.eval(trimText, strconv.Itoa(kept))
}

// each runs a script that does some of its work at a time, until it answers 0.
func (g *ground) each(script string) error {
	if script == "" {
		return nil
	}
	return g.eval(script)
}

func (r *redis) eval(script string, arguments ...string) error {
	lua := rueidis.NewLuaScript(script)
	base := "bull:" + contender.Queue + ":"
	for {
		left, err := lua.Exec(context.Background(), r.client, []string{base}, arguments).AsInt64()
		if err != nil || left == 0 {
			return err
		}
	}
}
