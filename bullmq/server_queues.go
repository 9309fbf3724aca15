package bullmq

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/safe"
)

// Queue opens a queue on the connection of the Server, as [NewQueue] does, before or while
// the Server runs. ctx bounds this call only. The Queue is closed when [Server.Run]
// returns, or by [Server.Shutdown] if the Server is not run.
//
// An option that is not set is taken from ServerOptions.QueueOptions. If it is not set
// there either, Prefix, Dialect, Telemetry, Logger and Now are taken from the
// ServerOptions. ServerOptions.AddMiddleware wraps the Middleware of the options. options
// may be nil. The options must not have a URL, or a Connection other than the Server's.
//
// Each call opens another Queue. Open each queue once, and keep it.
func (s *Server) Queue(ctx context.Context, name string, options *QueueOptions) (*Queue, error) {
	var o QueueOptions
	if options != nil {
		o = *options
	}
	if o.Connection != nil && o.Connection != s.conn || o.URL != "" {
		return nil, fmt.Errorf("bullmq: queue %s: its options have another Connection or a URL; queues of a server use its connection", name)
	}
	if s.o.QueueOptions != nil {
		o.inherit(*s.o.QueueOptions)
	}
	o.inherit(QueueOptions{
		Prefix: s.o.Prefix, Dialect: s.o.Dialect, Telemetry: s.o.Telemetry, Logger: s.o.Logger, Now: s.o.Now,
	})
	o.Connection = s.conn
	o.Middleware = slices.Concat(s.o.AddMiddleware, o.Middleware)
	q, err := NewQueue(ctx, name, &o)
	if err == nil && !s.opened.keep(q, nil) {
		_ = q.Close()
		q, err = nil, fmt.Errorf("bullmq: queue %s: the server has stopped: %w", name, ErrClosed)
	}
	return q, err
}

// FlowProducer opens a FlowProducer on the connection of the Server, as [NewFlowProducer]
// does. ctx bounds this call only. The Server closes the FlowProducer when it closes the
// queues of [Server.Queue].
//
// An option that is not set is taken as by Server.Queue, except DefaultJobOptions.
// ServerOptions.AddMiddleware wraps the Middleware of the options. options may be nil. The
// options must not have a URL, or a Connection other than the Server's.
func (s *Server) FlowProducer(ctx context.Context, options *FlowProducerOptions) (*FlowProducer, error) {
	var o FlowProducerOptions
	if options != nil {
		o = *options
	}
	if o.Connection != nil && o.Connection != s.conn || o.URL != "" {
		return nil, fmt.Errorf("bullmq: flow producer: its options have another Connection or a URL; flow producers of a server use its connection")
	}
	queue := QueueOptions{
		Prefix: o.Prefix, Dialect: o.Dialect, AddWait: o.AddWait, OnHealth: o.OnHealth, Middleware: o.Middleware,
		Telemetry: o.Telemetry, Logger: o.Logger, Now: o.Now,
	}
	if s.o.QueueOptions != nil {
		queue.inherit(*s.o.QueueOptions)
	}
	queue.inherit(QueueOptions{
		Prefix: s.o.Prefix, Dialect: s.o.Dialect, Telemetry: s.o.Telemetry, Logger: s.o.Logger, Now: s.o.Now,
	})
	o.Connection = s.conn
	o.Prefix, o.Dialect, o.AddWait, o.OnHealth = queue.Prefix, queue.Dialect, queue.AddWait, queue.OnHealth
	o.Telemetry, o.Logger, o.Now = queue.Telemetry, queue.Logger, queue.Now
	o.Middleware = slices.Concat(s.o.AddMiddleware, queue.Middleware)
	p, err := NewFlowProducer(ctx, &o)
	if err == nil && !s.opened.keep(nil, p) {
		_ = p.Close()
		p, err = nil, fmt.Errorf("bullmq: flow producer: the server has stopped: %w", ErrClosed)
	}
	return p, err
}

// inherit sets the options that are not set to those of from, except Connection and URL.
func (o *QueueOptions) inherit(from QueueOptions) {
	o.Prefix = cmp.Or(o.Prefix, from.Prefix)
	o.Dialect = cmp.Or(o.Dialect, from.Dialect)
	o.DefaultJobOptions = cmp.Or(o.DefaultJobOptions, from.DefaultJobOptions)
	o.MaxEvents = cmp.Or(o.MaxEvents, from.MaxEvents)
	o.AddWait = cmp.Or(o.AddWait, from.AddWait)
	o.SkipMetaUpdate = o.SkipMetaUpdate || from.SkipMetaUpdate
	o.BatchSize = cmp.Or(o.BatchSize, from.BatchSize)
	o.ShareCalls = o.ShareCalls || from.ShareCalls
	if o.OnHealth == nil {
		o.OnHealth = from.OnHealth
	}
	if o.Middleware == nil {
		o.Middleware = from.Middleware
	}
	if o.Telemetry == nil {
		o.Telemetry = from.Telemetry
	}
	if o.Logger.to == nil {
		o.Logger = from.Logger
	}
	if o.Now == nil {
		o.Now = from.Now
	}
}

// opened holds what was opened through a [Server].
type opened struct {
	mu     sync.Mutex
	queues []*Queue
	flows  []*FlowProducer
	closed bool
}

// keep remembers the queue or the flow producer that is not nil, to close it later. It
// returns false if the Server has already closed what it opened.
func (o *opened) keep(queue *Queue, flows *FlowProducer) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return false
	}
	if queue != nil {
		o.queues = append(o.queues, queue)
	}
	if flows != nil {
		o.flows = append(o.flows, flows)
	}
	return true
}

func (o *opened) isEmpty() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.queues) == 0 && len(o.flows) == 0
}

// endWaits ends waits for results and watches, so that no HTTP request waits for them.
// Other calls go on.
func (o *opened) endWaits() {
	o.mu.Lock()
	queues := slices.Clone(o.queues)
	o.mu.Unlock()
	var calls []func()
	for _, queue := range queues {
		calls = append(calls, queue.results.close)
	}
	safe.Together(calls...)
}

func (o *opened) close() {
	o.mu.Lock()
	o.closed = true
	queues, flows := o.queues, o.flows
	o.mu.Unlock()
	var calls []func()
	for _, queue := range queues {
		calls = append(calls, func() { _ = queue.Close() })
	}
	for _, producer := range flows {
		calls = append(calls, func() { _ = producer.Close() })
	}
	safe.Together(calls...)
}
