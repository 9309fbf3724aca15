package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bench/contender"
)

//go:embed baselineAdd.lua
var baselineAddText string

//go:embed baselineAddEach.lua
var baselineAddEachText string

//go:embed baselineProcess.lua
var baselineProcessText string

const (
	baselineName  = "baseline"
	baselineJobs  = 40_000
	baselineTexts = 5  // of each job in a reply
	baselineCall  = 50 // jobs per call: two calls in flight cover 100 running jobs
)

// baseline is the cost per job of bare commands that leave behind the same data as an added and a processed
// job. checked is the cost of a processed job including the checks that every client must make.
type baseline struct{ add, process, checked cost }

// baselineGrowth measures the cost of the baseline with many waiting jobs relative to few, in the same way as
// the growth of the contenders.
func baselineGrowth(backgrounds [2]int, steps int) (baseline, error) {
	var servers [2]*redis
	for i, background := range backgrounds {
		server, err := startRedis()
		if err != nil {
			return baseline{}, err
		}
		defer server.close()
		if err := server.addJobs(contender.Queue, background); err != nil {
			return baseline{}, err
		}
		servers[i] = server
	}
	var costsOf [2][]baseline
	for step := range warmSteps + steps {
		for i := range servers {
			at := (step + i) % len(servers)
			f, err := servers[at].baseline(stepJobs, func() error { return servers[at].eval(trimText, "0") })
			if err != nil {
				return baseline{}, err
			}
			if step >= warmSteps {
				costsOf[at] = append(costsOf[at], f)
			}
		}
	}
	ratio := func(of func(baseline) cost) cost {
		return compare([2][]cost{costs(costsOf[0], of), costs(costsOf[1], of)}).ratio
	}
	f := baseline{ratio(addOf), ratio(processOf), ratio(checkedOf)}
	fmt.Fprintf(os.Stderr, "baseline: add %.2f × the time, %.2f × Redis' CPU; process %.2f ×, %.2f ×; with checks %.2f ×, %.2f ×\n",
		f.add.micros, f.add.redisCPU, f.process.micros, f.process.redisCPU, f.checked.micros, f.checked.redisCPU)
	return f, nil
}

func costs(baselines []baseline, of func(baseline) cost) []cost {
	all := make([]cost, len(baselines))
	for i, f := range baselines {
		all[i] = of(f)
	}
	return all
}

func addOf(f baseline) cost     { return f.add }
func processOf(f baseline) cost { return f.process }
func checkedOf(f baseline) cost { return f.checked }

// baseline measures the baseline once. clear empties Redis before each part.
func (r *redis) baseline(jobs int, clear func() error) (f baseline, err error) {
	for _, process := range []struct {
		cost   *cost
		checks string
	}{{&f.process, "0"}, {&f.checked, "1"}} {
		if err = clear(); err != nil {
			return baseline{}, err
		}
		if f.add, err = r.cost(func() (int, error) { return jobs, r.baselineAdd(jobs) }); err != nil {
			return baseline{}, err
		}
		*process.cost, err = r.cost(func() (int, error) { return jobs, r.baselineProcess(jobs, process.checks) })
		if err != nil {
			return baseline{}, err
		}
	}
	return f, nil
}

var baselineKeys = []string{"bull:" + contender.Queue + ":"}

// twice does the work in two goroutines, so that a second call is always in flight when Redis finishes the
// first.
func twice(work func() error) error {
	var group sync.WaitGroup
	var errs [2]error
	for i := range errs {
		group.Go(func() { errs[i] = work() })
	}
	group.Wait()
	return errors.Join(errs[:]...)
}

func (r *redis) baselineAdd(jobs int) error {
	add := rueidis.NewLuaScript(baselineAddText)
	return twice(func() error {
		for range jobs / baselineCall / 2 {
			now := strconv.FormatInt(time.Now().UnixMilli(), 10)
			arguments := []string{strconv.Itoa(baselineCall), contender.JobName, contender.JobData, `{"attempts":0}`, now}
			if err := add.Exec(context.Background(), r.client, baselineKeys, arguments).Error(); err != nil {
				return err
			}
		}
		return nil
	})
}

// baselineAddTo adds jobs to one queue after the other, to a single queue in the same way as baselineAdd. No worker
// serves the queues.
func (r *redis) baselineAddTo(queues, jobs int) error {
	if queues == 1 {
		return r.baselineAdd(jobs)
	}
	add := rueidis.NewLuaScript(baselineAddEachText)
	var calls atomic.Int64
	return twice(func() error {
		for range jobs / baselineCall / 2 {
			first := int(calls.Add(1)-1) * baselineCall
			keys := make([]string, baselineCall)
			for i := range keys {
				keys[i] = fmt.Sprintf("bull:baseline-%d:", (first+i)%queues)
			}
			now := strconv.FormatInt(time.Now().UnixMilli(), 10)
			arguments := []string{contender.JobName, contender.JobData, `{"attempts":0}`, now}
			if err := add.Exec(context.Background(), r.client, keys, arguments).Error(); err != nil {
				return err
			}
		}
		return nil
	})
}

// baselineProcess starts jobs, and then repeatedly finishes them and starts the next, until jobs have
// finished.
func (r *redis) baselineProcess(jobs int, checks string) error {
	process := rueidis.NewLuaScript(baselineProcessText)
	var ended atomic.Int64
	err := twice(func() error {
		var running []string
		for left := jobs / 2; left > 0 || len(running) > 0; {
			start := min(left, baselineCall)
			now := strconv.FormatInt(time.Now().UnixMilli(), 10)
			arguments := append([]string{strconv.Itoa(start), now, "baseline:1", "30000", checks}, running...)
			reply, err := process.Exec(context.Background(), r.client, baselineKeys, arguments).ToArray()
			if err != nil {
				return err
			}
			ended.Add(int64(len(running)))
			running, left = running[:0], left-start
			for at := 0; at < len(reply); at += baselineTexts {
				id, err := reply[at].ToString()
				if err != nil {
					return err
				}
				running = append(running, id)
			}
		}
		return nil
	})
	if err == nil && ended.Load() != int64(jobs) {
		err = fmt.Errorf("the baseline finished %d of %d jobs", ended.Load(), jobs)
	}
	return err
}
