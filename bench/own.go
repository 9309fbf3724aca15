package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/17a2ac88/bullmq-go/bench/contender"
	"github.com/17a2ac88/bullmq-go/bullmq"
)

// own is this SDK as a contender.
var own = contender.Library{
	Producer: func(redis, queue string) (contender.Producer, error) {
		q, err := bullmq.NewQueue(context.Background(), queue, &bullmq.QueueOptions{URL: "redis://" + redis})
		return ownProducer{q}, err
	},
	Consumer: func(redis, queue string, concurrency int, handle func(string)) (contender.Consumer, error) {
		handler := func(_ context.Context, job *bullmq.Job) (any, error) {
			handle(job.ID)
			return nil, nil
		}
		w, err := bullmq.NewWorker(context.Background(), queue, handler, &bullmq.WorkerOptions{URL: "redis://" + redis, Concurrency: concurrency})
		return &ownConsumer{worker: w}, err
	},
	Tail: func(redis, queue string) (contender.Tail, error) {
		events, err := bullmq.NewQueueEvents(context.Background(), queue, &bullmq.QueueEventsOptions{URL: "redis://" + redis, LastEventID: "0-0"})
		return ownTail{events}, err
	},
	ActiveKey: func(queue string) string { return "bull:" + queue + ":active" },
}

type ownProducer struct{ queue *bullmq.Queue }

func (p ownProducer) Add(ctx context.Context, delay time.Duration) (string, time.Time, error) {
	var options *bullmq.JobOptions
	if delay > 0 {
		options = &bullmq.JobOptions{Delay: delay}
	}
	job, err := p.queue.Add(ctx, contender.JobName, json.RawMessage(contender.JobData), options)
	if err != nil {
		return "", time.Time{}, err
	}
	return job.ID, job.Timestamp.Add(delay), nil
}

func (p ownProducer) AddBulk(ctx context.Context, jobs int) error {
	bulk := make([]bullmq.BulkJob, jobs)
	for i := range bulk {
		bulk[i] = bullmq.BulkJob{Name: contender.JobName, Data: json.RawMessage(contender.JobData)}
	}
	_, err := p.queue.AddBulk(ctx, bulk)
	return err
}

func (p ownProducer) Close() error { return p.queue.Close() }

type ownConsumer struct {
	worker *bullmq.Worker
	ended  chan error
}

func (c *ownConsumer) Start() error {
	c.ended = make(chan error, 1)
	go func() { c.ended <- c.worker.Run(context.Background()) }()
	return nil
}

func (c *ownConsumer) Stop() error {
	_ = c.worker.Close()
	return <-c.ended
}

type ownTail struct{ events *bullmq.QueueEvents }

func (t ownTail) Read(ctx context.Context, events int) error {
	for event, err := range t.events.All(ctx) {
		if err != nil {
			return err
		}
		if event.JobID == "" {
			return fmt.Errorf("event %s has no job", event.ID)
		}
		if events--; events == 0 {
			break
		}
	}
	return nil
}

func (t ownTail) Close() error { return t.events.Close() }
