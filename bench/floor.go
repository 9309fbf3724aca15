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
// processed job leave behind.
type floor struct{ add, process cost }

// floorAmong measures, in each round, the floor on a server of its own and then
// the same with a million jobs on another queue; answered is how many times as
// much it takes then.
func floorAmong(rounds int) (floor, error) {
	server, err := startRedis()
	if err != nil {
		return floor{}, err
	}
	defer server.close()
	var times []floor
	for range rounds {
		if err := server.flush(); err != nil {
			return floor{}, err
		}
		few, err := server.floor()
		if err != nil {
			return floor{}, err
		}
		if err := server.addJobs("background", fewAndMany[1]); err != nil {
			return floor{}, err
		}
		many, err := server.floor()
		if err != nil {
			return floor{}, err
		}
		times = append(times, floor{timesAsMuch(many.add, few.add), timesAsMuch(many.process, few.process)})
		fmt.Fprintf(os.Stderr, "floor: add %.1f µs, process %.1f µs of Redis; among a million jobs %.1f and %.1f\n",
			few.add.redisCPU, few.process.redisCPU, many.add.redisCPU, many.process.redisCPU)
	}
	median := func(of func(floor) float64) float64 { return medianOf(times, of) }
	return floor{
		add:     cost{median(func(f floor) float64 { return f.add.micros }), median(func(f floor) float64 { return f.add.redisCPU })},
		process: cost{median(func(f floor) float64 { return f.process.micros }), median(func(f floor) float64 { return f.process.redisCPU })},
	}, nil
}

func timesAsMuch(many, few cost) cost {
	return cost{many.micros / few.micros, many.redisCPU / few.redisCPU}
}

// floor is what is measured once.
func (r *redis) floor() (floor, error) {
	add, err := r.cost(func() (int, error) { return floorJobs, r.floorAdd(floorJobs) })
	if err != nil {
		return floor{}, err
	}
	process, err := r.cost(func() (int, error) { return floorJobs, r.floorProcess(floorJobs) })
	return floor{add, process}, err
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

// floorProcess starts jobs, and then ends them and starts the next, until none
// are left.
func (r *redis) floorProcess(jobs int) error {
	process := rueidis.NewLuaScript(floorProcessText)
	var ended atomic.Int64
	err := twice(func() error {
		var running []string
		for {
			now := strconv.FormatInt(time.Now().UnixMilli(), 10)
			arguments := append([]string{strconv.Itoa(floorCall), now, "floor:1", "30000"}, running...)
			answer, err := process.Exec(context.Background(), r.client, floorBase, arguments).ToArray()
			if err != nil {
				return err
			}
			ended.Add(int64(len(running)))
			running = running[:0]
			for at := 0; at < len(answer); at += floorTexts {
				id, err := answer[at].ToString()
				if err != nil {
					return err
				}
				running = append(running, id)
			}
			if len(running) == 0 {
				return nil
			}
		}
	})
	if err == nil && ended.Load() != int64(jobs) {
		err = errors.New("the floor has lost jobs")
	}
	return err
}
