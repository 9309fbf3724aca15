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

// Growth is the cost of a job with many jobs in the background relative to few. Two servers have one
// background each, and the same steps run on both in turn. A step adds 1,000 jobs with 100 in flight and lets
// a worker with concurrency 100 run them.
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

// grown is a row of the table: the cost of a job with a small and a large background.
type grown struct {
	title        string
	add, process compared
}

// compared holds two costs of the same work and their ratio. All three are medians over steps in which both
// costs were measured.
type compared struct{ few, many, ratio cost }

// cost is the cost per job in microseconds.
type cost struct{ micros, redisCPU float64 }

// growthServer is a server with jobs in the background and a worker that is paused between steps.
type growthServer struct {
	*redis
	background int
	producer   ownProducer
	worker     *bullmq.Worker

	handled, target atomic.Int64
	reached         chan struct{}
}

func measureGrowth(backgrounds [2]int, steps int) ([]grown, error) {
	var growthServers [2]*growthServer
	for i, background := range backgrounds {
		fmt.Fprintf(os.Stderr, "growth: adding %d jobs\n", background)
		g, err := openGrowthServer(background)
		if err != nil {
			return nil, err
		}
		defer g.close()
		growthServers[i] = g
	}
	var rows []grown
	for _, background := range []struct {
		title string
		keep  bool // as many completed jobs as there are in the background
		move  string
	}{
		{waitingTitle, false, ""},
		{completedTitle, true, completeText},
		{delayedTitle, false, delayText},
	} {
		row := grown{title: background.title}
		var adds, runs [2][]cost
		for _, g := range growthServers {
			if err := g.each(background.move); err != nil {
				return nil, fmt.Errorf("growth, %s: %w", background.title, err)
			}
		}
		for step := range warmSteps + steps {
			for i := range growthServers {
				at := (step + i) % len(growthServers)
				add, run, err := growthServers[at].step(background.keep)
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

// medianRow returns the medians of rows with the same title.
func medianRow(rows []grown) grown {
	median := func(of func(grown) compared) compared {
		cell := func(cell func(compared) cost) cost {
			return cost{
				medianOf(rows, func(g grown) float64 { return cell(of(g)).micros }),
				medianOf(rows, func(g grown) float64 { return cell(of(g)).redisCPU }),
			}
		}
		return compared{
			cell(func(c compared) cost { return c.few }), cell(func(c compared) cost { return c.many }), cell(func(c compared) cost { return c.ratio }),
		}
	}
	return grown{rows[0].title, median(func(g grown) compared { return g.add }), median(func(g grown) compared { return g.process })}
}

func (g grown) String() string {
	return fmt.Sprintf("%s: add %.2f × the time, %.2f × Redis' CPU; process %.2f ×, %.2f ×",
		g.title, g.add.ratio.micros, g.add.ratio.redisCPU, g.process.ratio.micros, g.process.ratio.redisCPU)
}

func openGrowthServer(background int) (*growthServer, error) {
	server, err := startRedis()
	if err != nil {
		return nil, err
	}
	g := &growthServer{redis: server, background: background}
	fail := func(err error) (*growthServer, error) {
		g.close()
		return nil, err
	}
	if err := g.addJobs(contender.Queue, background); err != nil {
		return fail(err)
	}
	if g.producer.queue, err = bullmq.NewQueue(context.Background(), contender.Queue, &bullmq.QueueOptions{URL: g.URL()}); err != nil {
		return fail(err)
	}
	handler := func(context.Context, *bullmq.Job) (any, error) {
		if g.handled.Add(1) == g.target.Load() {
			close(g.reached)
		}
		return nil, nil
	}
	g.worker, err = bullmq.NewWorker(context.Background(), contender.Queue, handler, &bullmq.WorkerOptions{URL: g.URL(), Concurrency: inFlight})
	if err != nil {
		return fail(err)
	}
	if err := g.worker.Pause(context.Background()); err != nil {
		return fail(err)
	}
	go func() { _ = g.worker.Run(context.Background()) }()
	return g, nil
}

func (g *growthServer) close() {
	if g.worker != nil {
		_ = g.worker.Close()
	}
	if g.producer.queue != nil {
		_ = g.producer.Close()
	}
	g.redis.close()
}

// step measures an add and the run of a job.
func (g *growthServer) step(keepCompleted bool) (add, run cost, err error) {
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
		case <-time.After(outputTimeout):
			return 0, fmt.Errorf("%d of %d jobs finished within %v", g.handled.Load()-before, stepJobs, outputTimeout)
		}
		err := g.worker.Pause(context.Background())
		return int(g.handled.Load() - before), err
	}); err != nil {
		return
	}
	// Jobs that were running when the worker was paused have finished too.
	if err = g.addJobs(contender.Queue, int(g.handled.Load()-g.target.Load())); err != nil {
		return
	}
	kept := 0
	if keepCompleted {
		kept = g.background
	}
	return add, run, g.eval(trimText, strconv.Itoa(kept))
}

// each calls a script that does part of its work per call until it returns 0.
func (g *growthServer) each(script string) error {
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
