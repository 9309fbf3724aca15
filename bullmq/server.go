package bullmq

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// ServerOptions configures a [Server]. A nil pointer and the zero value select the
// defaults.
type ServerOptions struct {
	// QueueNames selects the queues that Run serves. They must be registered with
	// [Server.Handle] or [Server.HandleQueues]. In this way each process of a program can
	// serve only some of its queues. An empty slice that is not nil selects no queue.
	// Defaults to all registered queues.
	QueueNames []string
	// Middleware wraps the handlers of all queues. The first one is the outermost.
	Middleware []Middleware
	// AddMiddleware wraps the adds of the queues and flow producers that [Server.Queue],
	// [Server.FlowProducer] and [QueueFromContext] return. The first one is the outermost.
	// The Middleware of QueueOptions and FlowProducerOptions is within AddMiddleware.
	AddMiddleware []AddMiddleware
	// Signals are the signals that stop [Server.Run]. The first signal stops it as the end
	// of its context does. The second signal cancels the contexts of the handlers and cuts
	// off HTTP requests. The handlers then have a second to return. A non-nil empty slice
	// handles no signals.
	// Defaults to SIGINT and SIGTERM.
	Signals []os.Signal
	// OnFailed is called after an attempt of any job has failed. Failure.Final reports
	// whether the job failed for good. ctx has the job, and the values that middleware has
	// put into the handler's context, so [LoggerFromContext] works with ctx. ctx does not
	// end when the handler's context ends.
	OnFailed func(ctx context.Context, failure Failure)
	// Prefix, Dialect, ShutdownTimeout, JobLog, QueueOptions, Registration, OnHealth,
	// Telemetry, Logger and Now are the options of all workers that do not set them. See
	// [WorkerOptions]. OnHealth is called for each of them, one call at a time.
	// [Server.Queue] and [Server.FlowProducer] describe which of them they use.
	Prefix          string
	Dialect         Dialect
	ShutdownTimeout time.Duration
	JobLog          *JobLogOptions
	QueueOptions    *QueueOptions
	Registration    *RegistrationOptions
	OnHealth        func(Health)
	Telemetry       Telemetry
	Logger          Logger
	Now             func() time.Time
}

// Failure is a failed attempt of a job.
type Failure struct {
	Job   *Job
	Err   error
	Final bool // the job failed for good; otherwise it is retried
}

// Server runs the jobs of several queues in one process, over one connection. It also
// opens queues to add jobs to, and serves HTTP. It is safe for concurrent use.
type Server struct {
	conn  *Connection
	o     ServerOptions
	ended chan struct{}      // closed when Run has returned
	hard  context.Context    // ends when Run no longer waits for requests
	cut   context.CancelFunc // ends hard

	mu      sync.Mutex
	queues  []served
	many    []servedMany
	web     []*http.Server
	opened  opened
	workers []*Worker      // once Run has opened them
	multis  []*MultiWorker // the same
	state   serverState
	stop    context.CancelFunc
	err     error // of Run
}

// runnable is a worker of a [Server].
type runnable interface {
	Run(ctx context.Context) error
	Shutdown(ctx context.Context) error
	Close() error
}

// served is a queue to serve.
type served struct {
	queue   string
	handler Handler
	options WorkerOptions
}

type serverState int

const (
	serverNew serverState = iota
	serverStarting
	serverRunning
	serverStopping
)

// NewServer returns a Server over a connection, which its creator closes after
// [Server.Run] has returned. options may be nil.
func NewServer(conn *Connection, options *ServerOptions) *Server {
	s := &Server{conn: conn, ended: make(chan struct{})}
	s.hard, s.cut = context.WithCancel(context.Background())
	if options != nil {
		s.o = *options
	}
	s.o.OnHealth = oneAtATime(s.o.OnHealth)
	if s.o.Signals == nil {
		s.o.Signals = []os.Signal{os.Interrupt, syscall.SIGTERM}
	}
	return s
}

// Handle registers the handler of a queue's jobs, such as [Mux.ServeJob]. options may be
// nil. The options must not have a URL, or a Connection other than the Server's. Handle
// panics if handler is nil or the Server runs already.
func (s *Server) Handle(queueName string, handler Handler, options *WorkerOptions) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if handler == nil {
		panic("bullmq: serve queue " + queueName + ": the handler is nil")
	}
	if s.state != serverNew {
		panic("bullmq: serve queue " + queueName + ": the server runs already")
	}
	q := served{queue: queueName, handler: Wrap(handler, s.o.Middleware...)}
	if options != nil {
		q.options = *options
	}
	s.queues = append(s.queues, q)
}

// Run opens the workers of the queues and runs them until ctx ends or the process receives
// one of the Signals. It then fetches no more jobs and waits for the running ones, as
// [Worker.Run] does. Afterwards it closes what [Server.Queue] and [Server.FlowProducer]
// have opened. If a worker can't be opened, Run closes the others and returns the error.
//
// A Server without [Server.Handle] suits a process that only adds jobs or serves HTTP. It
// needs an open queue, an open flow producer or an HTTP server. Without any of them Run
// returns an error.
//
// Run returns nil if all jobs finished. If jobs of a queue did not finish, the returned
// error wraps an [*UnfinishedError] for that queue. A Server can be run once.
func (s *Server) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if err := s.begin(stop); err != nil {
		return err
	}
	defer close(s.ended)
	defer s.handleSignals(stop)()
	context.AfterFunc(ctx, func() { s.setState(serverStopping) })
	web, err := s.serveHTTP(stop)
	if err != nil {
		return s.end(err)
	}
	err = s.runWorkers(ctx, stop)
	s.opened.endWaits()
	return s.end(errors.Join(err, web.shutdown(s.hard)))
}

// begin marks the Server as started.
func (s *Server) begin(stop context.CancelFunc) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.state != serverNew:
		return errors.New("bullmq: a server can be run once, and this one has been run or shut down")
	case len(s.queues) == 0 && len(s.many) == 0 && len(s.web) == 0 && s.opened.isEmpty():
		return errors.New("bullmq: the server has nothing to run: register a queue with Server.Handle, open one with Server.Queue, or serve HTTP with Server.HandleHTTP")
	}
	if err := s.selectQueues(); err != nil {
		return err
	}
	s.state, s.stop = serverStarting, stop
	return nil
}

// selectQueues drops the queues that are not in QueueNames.
func (s *Server) selectQueues() error {
	if s.o.QueueNames == nil {
		return nil
	}
	var names []string
	for _, q := range s.queues {
		names = append(names, q.queue)
	}
	for _, q := range s.many {
		names = append(names, q.names()...)
		if q.options.Registry != "" {
			names = append(names, q.options.Registry)
		}
	}
	for _, name := range s.o.QueueNames {
		if !slices.Contains(names, name) {
			return fmt.Errorf("bullmq: QueueNames of the server has %q, which was not registered with Server.Handle; registered are %s", name, strings.Join(names, ", "))
		}
	}
	s.queues = slices.DeleteFunc(s.queues, func(q served) bool { return !slices.Contains(s.o.QueueNames, q.queue) })
	s.selectMany()
	return nil
}

// handleSignals makes the first signal stop the Server, and the second one cancel what
// still runs. The returned function ends the handling of signals.
func (s *Server) handleSignals(stop context.CancelFunc) (end func()) {
	signals, ended := make(chan os.Signal, 2), make(chan struct{})
	if len(s.o.Signals) > 0 {
		signal.Notify(signals, s.o.Signals...)
	}
	go func() {
		for hard := false; ; hard = true {
			select {
			case <-signals:
			case <-ended:
				return
			}
			if stop(); hard {
				s.cancelRunning()
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		close(ended)
	}
}

// runWorkers opens the workers and runs them until ctx ends. stop ends ctx.
func (s *Server) runWorkers(ctx context.Context, stop context.CancelFunc) error {
	workers, err := s.open(ctx)
	if err != nil {
		return err
	}
	var running sync.WaitGroup
	errs := make([]error, len(workers))
	for i, worker := range workers {
		running.Go(func() {
			errs[i] = worker.Run(ctx)
			stop() // the other workers stop too
		})
	}
	<-ctx.Done()
	running.Wait()
	return errors.Join(errs...)
}

// open opens the workers. If it can't open one of them, it closes the workers that it has
// opened and returns the error.
func (s *Server) open(ctx context.Context) ([]runnable, error) {
	var all []runnable
	var workers []*Worker
	var multis []*MultiWorker
	err := func() error {
		for _, q := range s.queues {
			o, err := s.options(q.queue, q.options)
			if err != nil {
				return err
			}
			worker, err := NewWorker(ctx, q.queue, q.handler, &o)
			if err != nil {
				return err
			}
			worker.failed = s.o.OnFailed
			all, workers = append(all, worker), append(workers, worker)
		}
		for _, q := range s.many {
			worker, err := s.openMany(ctx, q)
			if err != nil {
				return err
			}
			all, multis = append(all, worker), append(multis, worker)
		}
		return nil
	}()
	if err != nil {
		for _, worker := range all {
			_ = worker.Close()
		}
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.workers, s.multis, s.state = workers, multis, max(s.state, serverRunning)
	return all, nil
}

// options returns the options of a worker on a queue.
func (s *Server) options(queueName string, o WorkerOptions) (WorkerOptions, error) {
	if o.Connection != nil && o.Connection != s.conn || o.URL != "" {
		return o, fmt.Errorf("bullmq: serve queue %s: its options have another Connection or a URL; all queues use the connection of the server", queueName)
	}
	o.Connection = s.conn
	if o.Prefix == "" {
		o.Prefix = s.o.Prefix
	}
	if o.Dialect == Detect {
		o.Dialect = s.o.Dialect
	}
	if o.ShutdownTimeout == 0 {
		o.ShutdownTimeout = s.o.ShutdownTimeout
	}
	if o.JobLog == nil {
		o.JobLog = s.o.JobLog
	}
	if o.QueueOptions == nil {
		o.QueueOptions = s.o.QueueOptions
	}
	if len(s.o.AddMiddleware) > 0 {
		queue := QueueOptions{SkipMetaUpdate: true} // as without QueueOptions
		if o.QueueOptions != nil {
			queue = *o.QueueOptions
		}
		queue.Middleware = slices.Concat(s.o.AddMiddleware, queue.Middleware)
		o.QueueOptions = &queue
	}
	if o.Registration == nil {
		o.Registration = s.o.Registration
	}
	if o.OnHealth == nil {
		o.OnHealth = s.o.OnHealth
	}
	if o.Telemetry == nil {
		o.Telemetry = s.o.Telemetry
	}
	if o.Logger.to == nil {
		o.Logger = s.o.Logger
	}
	if o.Now == nil {
		o.Now = s.o.Now
	}
	return o, nil
}

// Workers returns the workers of the queues, in the order of Handle, once [Server.Run] has
// opened them.
func (s *Server) Workers() []*Worker {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.workers)
}

func (s *Server) setState(state serverState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = max(s.state, state)
}

// end closes what was opened, and keeps the error of Run.
func (s *Server) end(err error) error {
	s.opened.close()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state, s.err = serverStopping, err
	return err
}

// cancelRunning cancels the contexts of all running handlers, and ends HTTP requests.
func (s *Server) cancelRunning() {
	s.cut()
	now, cancel := context.WithCancel(context.Background())
	cancel()
	for _, worker := range s.Workers() {
		go func() { _ = worker.Shutdown(now) }()
	}
	for _, worker := range s.MultiWorkers() {
		go func() { _ = worker.Shutdown(now) }()
	}
}

// Shutdown stops the Server and waits until [Server.Run] has returned. When ctx ends, the
// contexts of the running handlers are cancelled, as by [Worker.Shutdown]. Shutdown
// returns the error of Run. If the Server was not run, Shutdown closes what was opened
// through it, and returns nil.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	started, stop := s.stop != nil, s.stop
	s.state = serverStopping
	s.mu.Unlock()
	if !started {
		s.opened.close()
		return nil
	}
	stop()
	select {
	case <-s.ended:
	case <-ctx.Done():
		s.cancelRunning()
		<-s.ended
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}
