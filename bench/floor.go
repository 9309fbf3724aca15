package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"strconv"
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

// floor is the CPU of Redis for each job, in µs, when all that is done is what
// an added and a processed job leave behind.
type floor struct{ add, process float64 }

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
		times = append(times, floor{many.add / few.add, many.process / few.process})
		fmt.Fprintf(os.Stderr, "floor: add %.1f µs, process %.1f µs of Redis; among a million jobs %.1f and %.1f\n", few.add, few.process, many.add, many.process)
	}
	return floor{
		add:     medianOf(times, func(f floor) float64 { return f.add }),
		process: medianOf(times, func(f floor) float64 { return f.process }),
	}, nil
}

// floor is what is measured once.
func (r *redis) floor() (floor, error) {
	add, err := r.cost(func() (int, error) { return floorJobs, r.floorAdd(floorJobs) })
	if err != nil {
		return floor{}, err
	}
	process, err := r.cost(func() (int, error) { return floorJobs, r.floorProcess(floorJobs) })
	return floor{add: add.redisCPU, process: process.redisCPU}, err
}

var floorBase = []string{"bull:" + contender.Queue + ":"}

func (r *redis) floorAdd(jobs int) error {
	add := rueidis.NewLuaScript(floorAddText)
	for range jobs / floorCall {
		now := strconv.FormatInt(time.Now().UnixMilli(), 10)
		arguments := []string{strconv.Itoa(floorCall), contender.JobName, contender.JobData, `{"attempts":0}`, now}
		if err := add.Exec(context.Background(), r.client, floorBase, arguments).Error(); err != nil {
			return err
		}
	}
	return nil
}

// floorProcess starts jobs, and then ends them and starts the next, until none
// are left.
func (r *redis) floorProcess(jobs int) error {
	process := rueidis.NewLuaScript(floorProcessText)
	var running []string
	for ended := 0; ; {
		now := strconv.FormatInt(time.Now().UnixMilli(), 10)
		arguments := append([]string{strconv.Itoa(floorCall), now, "floor:1", "30000"}, running...)
		answer, err := process.Exec(context.Background(), r.client, floorBase, arguments).ToArray()
		if err != nil {
			return err
		}
		ended += len(running)
		running = running[:0]
		for at := 0; at < len(answer); at += floorTexts {
			id, err := answer[at].ToString()
			if err != nil {
				return err
			}
			running = append(running, id)
		}
		if len(running) == 0 {
			if ended != jobs {
				return errors.New("the floor has lost jobs")
			}
			return nil
		}
	}
}
