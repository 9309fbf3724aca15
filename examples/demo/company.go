package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/nodeprocess"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

// company has all participants: Redis, a producer and a worker in Node, and the same in Go.
type company struct {
	server       *redisserver.Server
	connection   *bullmq.Connection
	nodeProducer *nodeprocess.Process
	nodeWorker   *nodeprocess.Process
	goWorker     *bullmq.Worker
	working      chan error // of goWorker

	orders *exchange // Node → Go
	mails  *exchange // Go → Node

	drained chan struct{} // closed when all output of the Node programs has been read
}

// exchange is one of the two queues, with the languages of its producer and its worker.
type exchange struct {
	name             string
	producer, worker string // languages
	jobs             []jobSpec

	queue  *bullmq.Queue
	events *bullmq.QueueEvents
	ledger *ledger
	names  map[string]string // names of jobs by id
	starts map[string]int    // starts of jobs by id
}

func (c *company) exchanges() []*exchange { return []*exchange{c.orders, c.mails} }

// assemble starts all participants. When it returns, the workers are ready and no event will be missed.
func assemble(ctx context.Context) (_ *company, err error) {
	c := &company{working: make(chan error, 1), drained: make(chan struct{})}
	defer func() {
		if err != nil {
			c.dismiss()
		}
	}()
	if c.server, err = redisserver.Start(redisserver.Options{}); err != nil {
		return nil, err
	}
	if c.connection, err = bullmq.Connect(ctx, c.server.URL()); err != nil {
		return nil, err
	}
	if c.orders, err = newExchange(ctx, "orders", "Node", "Go", nodeJobs, c.connection); err != nil {
		return nil, err
	}
	if c.mails, err = newExchange(ctx, "mails", "Go", "Node", goJobs, c.connection); err != nil {
		return nil, err
	}
	c.nodeProducer, err = nodeprocess.Start("producer.mjs", "-redis", c.server.Addr(), "-queue", c.orders.name)
	if err != nil {
		return nil, err
	}
	c.nodeWorker, err = nodeprocess.Start("worker.mjs", "-redis", c.server.Addr(), "-queue", c.mails.name,
		"-name", "Node", "-concurrency", "2", "-sleep", "250")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for _, program := range []*nodeprocess.Process{c.nodeProducer, c.nodeWorker} {
		if _, err = program.WaitFor(ctx, hasEvent("ready")); err != nil {
			return nil, err
		}
	}
	c.goWorker, err = bullmq.NewWorker(ctx, c.orders.name, brew, &bullmq.WorkerOptions{
		Connection: c.connection, Name: "Go", Concurrency: 2, ShutdownTimeout: 2 * time.Second,
		Logger: bullmq.Zerolog(zerolog.New(os.Stderr).Level(zerolog.ErrorLevel)),
		Events: bullmq.WorkerEvents{
			Completed: func(*bullmq.Job, any) { c.orders.ledger.worked("completed", true) },
			Failed: func(job *bullmq.Job, _ error) {
				c.orders.ledger.worked("failed", job.AttemptsMade >= job.Options.Attempts)
			},
		},
	})
	if err != nil {
		return nil, err
	}
	go func() { c.working <- c.goWorker.Run(context.Background()) }()
	return c, nil
}

func newExchange(ctx context.Context, name, producer, worker string, jobs []jobSpec, connection *bullmq.Connection) (*exchange, error) {
	queue, err := bullmq.NewQueue(ctx, name, &bullmq.QueueOptions{Connection: connection})
	if err != nil {
		return nil, err
	}
	events, err := bullmq.NewQueueEvents(ctx, name, &bullmq.QueueEventsOptions{Connection: connection})
	if err != nil {
		_ = queue.Close()
		return nil, err
	}
	return &exchange{
		name: name, producer: producer, worker: worker, jobs: jobs, queue: queue, events: events,
		ledger: newLedger(jobs), names: map[string]string{}, starts: map[string]int{},
	}, nil
}

// watch forwards the events of the queue until ctx ends.
func (s *exchange) watch(ctx context.Context, happened chan<- happening) {
	for event, err := range s.events.All(ctx) {
		if err != nil {
			s.ledger.wrong(err.Error())
			continue
		}
		happened <- happening{s, event}
	}
}

// produce adds the jobs of both queues in turn and records the output of the Node producer.
func (c *company) produce(ctx context.Context) {
	go c.listen()
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	for i := range max(len(c.orders.jobs), len(c.mails.jobs)) {
		if i < len(c.orders.jobs) {
			job := c.orders.jobs[i]
			// The producer adds each job that it receives, with options in Node's form.
			err := c.nodeProducer.Send(map[string]any{"name": job.name, "data": job.data, "opts": job.nodeOptions})
			c.orders.ledger.note(err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		if i < len(c.mails.jobs) {
			job := c.mails.jobs[i]
			added, err := c.mails.queue.Add(ctx, job.name, job.data, job.goOptions)
			c.mails.ledger.note(err)
			if err == nil {
				c.mails.ledger.produced(added.ID)
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
	c.orders.ledger.note(c.nodeProducer.CloseInput())
}

// listen records the jobs that the Node producer has added and the Node worker has run.
func (c *company) listen() {
	defer close(c.drained)
	var both sync.WaitGroup
	both.Go(func() {
		for line := range c.nodeProducer.Lines() {
			if message := read(line); message.Event == "added" {
				c.orders.ledger.produced(message.ID)
			}
		}
	})
	both.Go(func() {
		var last remark
		for line := range c.nodeWorker.Lines() {
			switch last = read(line); last.Event {
			case "completed":
				c.mails.ledger.worked(last.Event, true)
			case "failed":
				c.mails.ledger.worked(last.Event, last.Final)
			case "error":
				c.mails.ledger.wrong("the Node worker reports: " + last.Message)
			}
		}
		if last.Event != "closed" {
			c.mails.ledger.wrong("the Node worker exited: " + c.nodeWorker.Stderr())
		}
	})
	both.Wait()
}

// endWork stops workers and producers. Afterwards nothing more is recorded in the ledgers.
func (c *company) endWork() {
	c.nodeProducer.Stop()
	c.nodeWorker.Stop()
	<-c.drained
	_ = c.goWorker.Close()
	c.orders.ledger.note(<-c.working)
}

// dismiss stops the remaining participants.
func (c *company) dismiss() {
	if c.goWorker != nil {
		_ = c.goWorker.Close()
	}
	for _, program := range []*nodeprocess.Process{c.nodeProducer, c.nodeWorker} {
		if program != nil {
			program.Kill()
		}
	}
	for _, exchange := range c.exchanges() {
		if exchange != nil {
			_ = exchange.events.Close()
			_ = exchange.queue.Close()
		}
	}
	if c.connection != nil {
		_ = c.connection.Close()
	}
	if c.server != nil {
		c.server.Close()
	}
}

// brew is the Go worker's handler. Like interop/node/worker.mjs it fails a job while the number of its
// attempt is below the number in its data.
func brew(ctx context.Context, job *bullmq.Job) (any, error) {
	var data jobData
	if err := job.Decode(&data); err != nil {
		return nil, err
	}
	for _, percent := range []int{50, 100} {
		select {
		case <-time.After(125 * time.Millisecond):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		attempt := job.AttemptsMade + 1
		if attempt < data.FailUntilAttempt {
			return nil, fmt.Errorf("attempt %d fails as planned in the job's data", attempt)
		}
		if err := job.UpdateProgress(ctx, percent); err != nil {
			return nil, err
		}
	}
	return map[string]string{"by": "Go"}, nil
}

// remark is a line of the Node programs.
type remark struct {
	Event, ID, Message string
	Final              bool
}

func read(line nodeprocess.Line) (message remark) {
	if err := line.Decode(&message); err != nil {
		message = remark{Event: "error", Message: err.Error()}
	}
	return message
}

func hasEvent(event string) func(nodeprocess.Line) bool {
	return func(line nodeprocess.Line) bool { return strings.EqualFold(read(line).Event, event) }
}
