package main

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// started is what a worker says of a job: when its handler started, in
// milliseconds since 1970.
type started struct {
	ID string  `json:"id"`
	At float64 `json:"at"`
}

// clockReading answers {"clock":n}.
type clockReading struct {
	Clock int     `json:"clock"`
	At    float64 `json:"at"`
}

func nowMs() float64 { return float64(time.Now().UnixNano()) / 1e6 }

// serveWorker is the Go side of the latency figures, the counterpart of
// interop/node/bench-worker.mjs: a program of its own, as Node's is.
func serveWorker(url, queue string) error {
	lines := make(chan any, 4096)
	go func() {
		out := json.NewEncoder(os.Stdout)
		for line := range lines {
			_ = out.Encode(line)
		}
	}()
	worker, err := bullmq.NewWorker(queue, func(_ context.Context, job *bullmq.Job) (any, error) {
		lines <- started{job.ID, nowMs()}
		return nil, nil
	}, &bullmq.WorkerOptions{Connection: bullmq.URL(url)})
	if err != nil {
		return err
	}
	lines <- map[string]string{"event": "ready"}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		in := bufio.NewScanner(os.Stdin)
		for in.Scan() {
			var asked clockReading
			if json.Unmarshal(in.Bytes(), &asked) == nil {
				lines <- clockReading{asked.Clock, nowMs()}
			}
		}
	}()
	return worker.Run(ctx)
}
