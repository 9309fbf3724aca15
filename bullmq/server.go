package bullmq

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"
)

// ServerOptions configures a [Server]. A nil pointer and the zero value select the
// defaults.
type ServerOptions struct {
	// Middleware wraps the handlers of all queues. The first one is the outermost.
	Middleware []Middleware
	// Signals are the signals that stop [Server.Run]. The first one stops it as the end of
	// its context does. The second one cancels the handlers' contexts, which then have a
	// second to return.
	// Defaults to SIGINT and SIGTERM. A non-nil empty slice handles none.
	Signals []os.Signal
	// OnFailed is called after an attempt of any job has failed. Final reports whether the
	// job failed for good.
	OnFailed func(ctx context.Context, failure Failure)
	// Prefix, Dialect, ShutdownTimeout, JobLog, QueueOptions, OnHealth, Telemetry, Logger
	// and Now are the options of all workers that do not set them. See [WorkerOptions].
	Prefix          string
	Dialect         Dialect
	ShutdownTimeout time.Duration
	JobLog          *JobLogOptions
	QueueOptions    *QueueOptions
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

// Server runs the jobs of several queues in one process, over one connection. It is safe
// for concurrent use.
type Server struct {
	conn *Connection
	o    ServerOptions

	mu      sync.Mutex
	queues  []served
	workers []*Worker // once Run has opened them
	state   serverState
	ended   chan struct{} // closed when Run has returned
	stop    context.CancelFunc
	err     error // of Run
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
	if options != nil {
		s.o = *options
	}
	if s.o.Signals == nil {
		s.o.Signals = []os.Signal{os.Interrupt, syscall.SIGTERM}
	}
	return s
}

// Handle registers the handler of a queue's jobs, such as [Mux.ServeJob]. options may be
// nil. Their URL must not be set, and their Connection may be that of the Server. Handle
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

// Run opens a worker for each queue and runs them until ctx ends or the process receives
// one of the Signals. It then fetches no more jobs and waits for the running ones, as
// [Worker.Run] does. If a queue can't be opened, Run closes those that are open and
// returns the error.
//
// Run returns nil if all jobs finished, and an error that wraps the [*UnfinishedError] of
// each queue where some did not. A Server can be run once.
func (s *Server) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if err := s.begin(stop); err != nil {
		return err
	}
	defer close(s.ended)
	signals := make(chan os.Signal, 2)
	if len(s.o.Signals) > 0 {
		signal.Notify(signals, s.o.Signals...)
		defer signal.Stop(signals)
	}
	workers, err := s.open(ctx)
	if err != nil {
		return s.end(err)
	}
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		hard := false
		for {
			select {
			case <-signals:
			case <-ended:
				return
			}
			if stop(); hard {
				s.cancelHandlers(workers)
			}
			hard = true
		}
	}()
	var running sync.WaitGroup
	errs := make([]error, len(workers))
	for i, worker := range workers {
		running.Go(func() {
			errs[i] = worker.Run(ctx)
			stop() // the other workers stop too
		})
	}
	context.AfterFunc(ctx, func() { s.setState(serverStopping) })
	running.Wait()
	return s.end(errors.Join(errs...))
}

// begin marks the Server as started.
func (s *Server) begin(stop context.CancelFunc) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.state != serverNew:
		return errors.New("bullmq: a server can be run once, and this one has been run or shut down")
	case len(s.queues) == 0:
		return errors.New("bullmq: the server has no queue: register one with Server.Handle")
	}
	s.state, s.stop = serverStarting, stop
	return nil
}

// open opens the workers. It closes those that it opened if it returns an error.
func (s *Server) open(ctx context.Context) ([]*Worker, error) {
	var workers []*Worker
	for _, q := range s.queues {
		o, err := s.options(q)
		if err == nil {
			var worker *Worker
			if worker, err = NewWorker(ctx, q.queue, q.handler, &o); err == nil {
				worker.failed = s.o.OnFailed
				workers = append(workers, worker)
				continue
			}
		}
		for _, worker := range workers {
			_ = worker.Close()
		}
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.workers, s.state = workers, max(s.state, serverRunning)
	return workers, nil
}

// options returns the options of a queue's worker.
func (s *Server) options(q served) (WorkerOptions, error) {
	o := q.options
	if o.Connection != nil && o.Connection != s.conn || o.URL != "" {
		return o, fmt.Errorf("bullmq: serve queue %s: its options have another Connection or a URL; all queues use the connection of the server", q.queue)
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

func (s *Server) end(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state, s.err = serverStopping, err
	return err
}

// cancelHandlers cancels the contexts of all running handlers.
func (s *Server) cancelHandlers(workers []*Worker) {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	for _, worker := range workers {
		go func() { _ = worker.Shutdown(now) }()
	}
}

// Shutdown stops the Server and waits until [Server.Run] has returned. When ctx ends, the
// contexts of the running handlers are cancelled, as by [Worker.Shutdown]. Shutdown
// returns the error of Run, or nil if the Server was not run.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	started, stop, workers := s.state != serverNew, s.stop, s.workers
	s.state = serverStopping
	s.mu.Unlock()
	if !started {
		return nil
	}
	stop()
	select {
	case <-s.ended:
	case <-ctx.Done():
		s.cancelHandlers(workers)
		<-s.ended
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Health returns whether Redis can be reached. Redis is unreachable if any user of the
// connection can't reach it. Health makes no call.
func (s *Server) Health() Health { return s.conn.Health() }

// ServerStatus is the status that the handlers of [Server.Live] and [Server.Ready] write,
// as JSON.
type ServerStatus struct {
	// Status is "starting", "running", "stopping" or "unreachable".
	Status string `json:"status"`
	// Queues are the queues of the server.
	Queues []string `json:"queues"`
	// Error is why Redis can't be reached.
	Error string `json:"error,omitempty"`
}

// Live returns a handler for liveness probes. It replies 200 unless Run has returned: a
// process that waits for Redis need not be restarted.
func (s *Server) Live() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		live := true
		select {
		case <-s.ended:
			live = false
		default:
		}
		s.reply(w, live)
	})
}

// Ready returns a handler for readiness probes. It replies 200 while the Server runs and
// Redis can be reached, and 503 otherwise.
func (s *Server) Ready() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s.reply(w, s.status().Status == "running")
	})
}

func (s *Server) reply(w http.ResponseWriter, ok bool) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if !ok {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(s.status())
}

func (s *Server) status() ServerStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	status := ServerStatus{Status: "running", Queues: []string{}}
	for _, q := range s.queues {
		status.Queues = append(status.Queues, q.queue)
	}
	switch health := s.conn.Health(); {
	case s.state < serverRunning:
		status.Status = "starting"
	case s.state > serverRunning:
		status.Status = "stopping"
	case !health.Reachable:
		status.Status = "unreachable"
		if health.Err != nil {
			status.Error = health.Err.Error()
		}
	}
	return status
}
