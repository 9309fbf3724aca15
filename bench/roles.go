package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// The lines that the programs of both sides speak; interop/node/bench.mjs tells
// what they mean. Times are milliseconds since 1970.
type (
	started struct {
		ID string  `json:"id"`
		At float64 `json:"at"`
	}
	added struct {
		ID       string  `json:"id"`
		Begun    float64 `json:"begun"`
		Returned float64 `json:"returned"`
		Due      float64 `json:"due"`
	}
	clockReading struct {
		Clock int     `json:"clock"`
		At    float64 `json:"at"`
	}
	instruction struct {
		Clock *int  `json:"clock,omitempty"`
		Add   []int `json:"add,omitempty"`
		Every int   `json:"every,omitempty"`
	}
)

func nowMs() float64 { return float64(time.Now().UnixNano()) / 1e6 }

// serveRole is the Go side's worker or producer: a program of its own, as
// Node's is.
func serveRole(role, url, queue string) error {
	lines := make(chan any, 4096)
	go func() {
		out := json.NewEncoder(os.Stdout)
		for line := range lines {
			_ = out.Encode(line)
		}
	}()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if role == "producer" {
		return produce(url, queue, lines)
	}
	worker, err := bullmq.NewWorker(queue, func(_ context.Context, job *bullmq.Job) (any, error) {
		lines <- started{job.ID, nowMs()}
		return nil, nil
	}, &bullmq.WorkerOptions{Connection: bullmq.URL(url)})
	if err != nil {
		return err
	}
	go func() {
		defer cancel()
		_ = eachInstruction(lines, func(instruction) error { return nil })
	}()
	lines <- map[string]string{"event": "ready"}
	return worker.Run(ctx)
}

func produce(url, name string, lines chan<- any) error {
	queue, err := bullmq.NewQueue(name, &bullmq.QueueOptions{Connection: bullmq.URL(url)})
	if err != nil {
		return err
	}
	defer queue.Close()
	lines <- map[string]string{"event": "ready"}
	// As in Node, where an add can't be called off. One that can takes a few goroutines more in the client.
	ctx := context.Background()
	return eachInstruction(lines, func(in instruction) error {
		var all []added
		for _, ms := range in.Add {
			delay := time.Duration(ms) * time.Millisecond
			begun := nowMs()
			job, err := queue.Add(ctx, "ping", nil, &bullmq.JobOptions{Delay: delay, RemoveOnComplete: bullmq.RemoveAll()})
			if err != nil {
				return err
			}
			all = append(all, added{job.ID, begun, nowMs(), float64(job.Timestamp.Add(delay).UnixMilli())})
			time.Sleep(time.Duration(in.Every) * time.Millisecond)
		}
		for _, line := range all {
			lines <- line
		}
		return nil
	})
}

func eachInstruction(lines chan<- any, carryOut func(instruction) error) error {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var asked instruction
		if err := json.Unmarshal(in.Bytes(), &asked); err != nil {
			return fmt.Errorf("not an instruction: %s: %w", in.Bytes(), err)
		}
		if asked.Clock != nil {
			lines <- clockReading{*asked.Clock, nowMs()}
		} else if err := carryOut(asked); err != nil {
			return err
		}
	}
	return in.Err()
}
