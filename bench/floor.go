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

//go:embed floorAdd.lua
var floorAddText string

//go:embed floorProcess.lua
var floorProcessText string

const (
	floorName  = "the floor"
	floorJobs  = 40_000
	floorTexts = 5  // of each job in an answer
	floorCall  = 50 // jobs a call: what two calls under way can hold of 100 jobs that run
)

// floor is what a job takes when all that is done is what an added and a
// processed job leave behind; checked is a processed job's with the checks that no
// client can leave out.
type floor struct{ add, process, checked cost }

// floorGrowth is how many times as much the floor takes with many jobs waiting as
// with few, measured as the growth of what a client needs is.
func floorGrowth(backgrounds [2]int, steps int) (floor, error) {
	var servers [2]*redis
	for i, background := range backgrounds {
		server, err := startRedis()
		if err != nil {
			return floor{}, err
		}
		defer server.close()
		if err := server.addJobs(contender.Queue, background); err != nil {
			return floor{}, err
		}
		servers[i] = server
	}
	var taken [2][]floor
	for step := range warmSteps + steps {
		for i := range servers {
			at := (step + i) % len(servers)
			f, err := servers[at].floor(stepJobs, func() error { return servers[at].eval(trimText, "0") })
			if err != nil {
				return floor{}, err
			}
			if step >= warmSteps {
				taken[at] = append(taken[at], f)
			}
		}
	}
	ratio := func(of func(floor) cost) cost {
		return compare([2][]cost{costs(taken[0], of), costs(taken[1], of)}).ratio
	}
	f := floor{ratio(addOf), ratio(processOf), ratio(checkedOf)}
	fmt.Fprintf(os.Stderr, "the floor: add %.2f × the time, %.2f × Redis' CPU; process %.2f ×, %.2f ×; with checks %.2f ×, %.2f ×\n",
		f.add.micros, f.add.redisCPU, f.process.micros, f.process.redisCPU, f.checked.micros, f.checked.redisCPU)
	return f, nil
}

func costs(floors []floor, of func(floor) cost) []cost {
	all := make([]cost, len(floors))
	for i, f := range floors {
		all[i] = of(f)
	}
	return all
}

func addOf(f floor) cost     { return f.add }
func processOf(f floor) cost { return f.process }
func checkedOf(f floor) cost { return f.checked }

// floor is measured once, on a Redis that is cleared before each kind of it.
func (r *redis) floor(jobs int, clear func() error) (f floor, err error) {
	for _, process := range []struct {
		cost   *cost
		checks string
	}{{&f.process, "0"}, {&f.checked, "1"}} {
		if err = clear(); err != nil {
			return floor{}, err
		}
		if f.add, err = r.cost(func() (int, error) { return jobs, r.floorAdd(jobs) }); err != nil {
			return floor{}, err
		}
		*process.cost, err = r.cost(func() (int, error) { return jobs, r.floorProcess(jobs, process.checks) })
		if err != nil {
			return floor{}, err
		}
	}
	return f, nil
}

var floorBase = []string{"bull:" + contender.Queue + ":"}

// twice does the work in two goroutines: two calls are under way at any time, so
// that Redis has the next one when it has done with one.
func twice(work func() error) error {
	var group sync.WaitGroup
	var errs [2]error
	for i := range errs {
		group.Go(func() { errs[i] = work() })
	}
	group.Wait()
	return errors.Join(errs[:]...)
}

func (r *redis) floorAdd(jobs int) error {
	add := rueidis.NewLuaScript(floorAddText)
	return twice(func() error {
		for range jobs / floorCall / 2 {
			now := strconv.FormatInt(time.Now().UnixMilli(), 10)
			arguments := []string{strconv.Itoa(floorCall), contender.JobName, contender.JobData, `{"attempts":0}`, now}
			if err := add.Exec(context.Background(), r.client, floorBase, arguments).Error(); err != nil {
				return err
			}
		}
		return nil
	})
}

// floorProcess starts jobs, and then ends them and starts the next, until so many
// have ended.
func (r *redis) floorProcess(jobs int, checks string) error {
	process := rueidis.NewLuaScript(floorProcessText)
	var ended atomic.Int64
	err := twice(func() error {
		var running []string
		for left := jobs / 2; left > 0 || len(running) > 0; {
			start := min(left, floorCall)
			now := strconv.FormatInt(time.Now().UnixMilli(), 10)
			arguments := append([]string{strconv.Itoa(start), now, "floor:1", "30000", checks}, running...)
			answer, err := process.Exec(context.Background(), r.client, floorBase, arguments).ToArray()
			if err != nil {
				return err
			}
			ended.Add(int64(len(running)))
			running, left = running[:0], left-start
			for at := 0; at < len(answer); at += floorTexts {
				id, err := answer[at].ToString()
				if err != nil {
					return err
				}
				running = append(running, id)
			}
		}
		return nil
	})
	if err == nil && ended.Load() != int64(jobs) {
		err = fmt.Errorf("the floor has ended %d of %d jobs", ended.Load(), jobs)
	}
	return err
}
