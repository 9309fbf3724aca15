// asynq is hibiken/asynq as a contender of the benchmark, in a separate module so that the SDK does not
// depend on it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/hibiken/asynq"

	"github.com/17a2ac88/bullmq-go/bench/contender"
)

func main() {
	contender.Main(contender.Library{
		Producer: func(redis, queue string) (contender.Producer, error) {
			return producer{asynq.NewClient(asynq.RedisClientOpt{Addr: redis}), asynq.Queue(queue)}, nil
		},
		Consumer: newConsumer,
		ActiveKey: func(queue string) string {
			return "asynq:{" + queue + "}:active"
		},
	}, os.Args[1:])
}

type producer struct {
	client *asynq.Client
	queue  asynq.Option
}

func (p producer) Add(ctx context.Context, delay time.Duration) (string, time.Time, error) {
	options := []asynq.Option{p.queue}
	if delay > 0 {
		options = append(options, asynq.ProcessIn(delay))
	}
	info, err := p.client.EnqueueContext(ctx, asynq.NewTask(contender.JobName, []byte(contender.JobData)), options...)
	if err != nil {
		return "", time.Time{}, err
	}
	return info.ID, info.NextProcessAt, nil
}

func (p producer) AddBulk(context.Context, int) error { return errors.ErrUnsupported }

func (p producer) Close() error { return p.client.Close() }

type consumer struct {
	server  *asynq.Server
	handler asynq.HandlerFunc
}

func newConsumer(redis, queue string, concurrency int, handle func(id string)) (contender.Consumer, error) {
	server := asynq.NewServer(asynq.RedisClientOpt{Addr: redis}, asynq.Config{
		Concurrency: concurrency, Queues: map[string]int{queue: 1}, LogLevel: asynq.FatalLevel,
	})
	return consumer{server, func(ctx context.Context, _ *asynq.Task) error {
		id, ok := asynq.GetTaskID(ctx)
		if !ok {
			return fmt.Errorf("task without an id")
		}
		handle(id)
		return nil
	}}, nil
}

func (c consumer) Start() error { return c.server.Start(c.handler) }

func (c consumer) Stop() error {
	c.server.Shutdown()
	return nil
}
