package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// session is the state that the steps of a scenario share: a connection, a Queue per name, and a Fetcher per
// set of options. Each is created when a step first needs it, because creating a Queue writes to Redis.
type session struct {
	address, prefix string
	client          rueidis.Client
	shared          *bullmq.Connection // of client
	queues          map[string]*bullmq.Queue
	fetchers        map[string]*fetcher
	flowProducer    *bullmq.FlowProducer
	stopped         atomic.Int64 // milliseconds; 0 while the clock runs
}

func newSession(address, prefix string) *session {
	s := &session{address: address, prefix: prefix}
	s.reset()
	return s
}

func (s *session) reset() {
	s.close()
	s.stopped.Store(0)
	s.flowProducer = nil
	s.queues, s.fetchers = map[string]*bullmq.Queue{}, map[string]*fetcher{}
}

func (s *session) close() {
	for _, f := range s.fetchers {
		_ = f.Close()
	}
	for _, q := range s.queues {
		_ = q.Close()
	}
}

// now returns the time of a clock that requests can stop.
func (s *session) now() time.Time {
	if ms := s.stopped.Load(); ms != 0 {
		return time.UnixMilli(ms)
	}
	return time.Now()
}

func (s *session) connection() (*bullmq.Connection, error) {
	if s.client == nil {
		client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.address}, DisableCache: true})
		if err != nil {
			return nil, err
		}
		if s.shared, err = bullmq.ConnectClient(context.Background(), client); err != nil {
			client.Close()
			return nil, err
		}
		s.client = client
	}
	return s.shared, nil
}

func (s *session) queue(name string) (*bullmq.Queue, error) {
	if q := s.queues[name]; q != nil {
		return q, nil
	}
	q, err := s.newQueue(name, bullmq.QueueOptions{})
	if err == nil {
		s.queues[name] = q
	}
	return q, err
}

func (s *session) newQueue(name string, options bullmq.QueueOptions) (*bullmq.Queue, error) {
	connection, err := s.connection()
	if err != nil {
		return nil, err
	}
	options.Connection, options.Prefix, options.Dialect, options.Now = connection, s.prefix, dialect, s.now
	options.BatchSize = batchSize
	return bullmq.NewQueue(context.Background(), name, &options)
}

// fetcher is a Fetcher whose next job gets a token that a request gives.
type fetcher struct {
	*bullmq.Fetcher
	token string
}

func (s *session) fetcher(queue string, raw json.RawMessage) (*fetcher, error) {
	o, err := workerOptions(raw)
	if err != nil {
		return nil, err
	}
	key := queue + "\x00" + string(bytes.TrimSpace(raw))
	if f := s.fetchers[key]; f != nil {
		return f, nil
	}
	f, err := s.newFetcher(queue, &bullmq.FetcherOptions{
		Name: o.Name, LockDuration: o.LockDuration, Limiter: o.Limiter, MetricsPoints: o.MetricsPoints,
		MaxStalledCount: o.MaxStalledCount, StalledInterval: o.StalledInterval, MaxStartedAttempts: o.MaxStartedAttempts,
		KeepCompleted: o.KeepCompleted, KeepFailed: o.KeepFailed,
	})
	if err == nil {
		s.fetchers[key] = f
	}
	return f, err
}

func (s *session) newFetcher(queue string, options *bullmq.FetcherOptions) (*fetcher, error) {
	connection, err := s.connection()
	if err != nil {
		return nil, err
	}
	f := &fetcher{}
	options.Connection, options.Prefix, options.Dialect, options.Now = connection, s.prefix, dialect, s.now
	options.BatchSize, options.Token = batchSize, func() string { return f.token }
	f.Fetcher, err = bullmq.NewFetcher(context.Background(), queue, options)
	return f, err
}

func (s *session) newWorker(queue string, handler bullmq.Handler, options *bullmq.WorkerOptions) (*bullmq.Worker, error) {
	connection, err := s.connection()
	if err != nil {
		return nil, err
	}
	options.Connection, options.Prefix, options.Dialect, options.Now = connection, s.prefix, dialect, s.now
	options.BatchSize = batchSize
	options.Registration = &bullmq.RegistrationOptions{Skip: true} // which BullMQ does not have
	return bullmq.NewWorker(context.Background(), queue, handler, options)
}

// openQueue creates a Queue with options that replaces the default one in later steps.
func openQueue(_ context.Context, s *session, raw json.RawMessage) (any, error) {
	var a struct {
		Queue             string
		Streams           struct{ Events struct{ MaxLen *int } }
		SkipMetasUpdate   bool
		DefaultJobOptions *bullmq.JobOptions
	}
	if err := read(raw, &a); err != nil {
		return nil, err
	}
	if q := s.queues[a.Queue]; q != nil {
		if err := q.Close(); err != nil {
			return nil, err
		}
	}
	keep := 0
	if most := a.Streams.Events.MaxLen; most != nil {
		keep = cmp.Or(*most, bullmq.NoEvents)
	}
	q, err := s.newQueue(a.Queue, bullmq.QueueOptions{
		MaxEvents: keep, SkipMetaUpdate: a.SkipMetasUpdate, DefaultJobOptions: a.DefaultJobOptions,
	})
	if err == nil {
		s.queues[a.Queue] = q
	}
	return nil, err
}
