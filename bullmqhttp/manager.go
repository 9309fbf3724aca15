package bullmqhttp

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// ManagerOptions configures a [Manager]. A nil pointer and the zero value select the defaults.
type ManagerOptions struct {
	// Fetcher has the connection, and how jobs are fetched and finished: prefix, retention, limiter,
	// stalled jobs, telemetry. LockDuration is how long a claim lasts unless it is extended, by
	// default 5 minutes here. Token, Name, RenewLocks and OnCancelled must not be set.
	Fetcher bullmq.FetcherOptions
	// Job has the options of submitted jobs that don't set these options themselves. JobID, Parent
	// and Deduplication must not be set.
	// Defaults to 4 attempts with an exponential backoff of 4, 8 and 16 seconds.
	Job *bullmq.JobOptions

	// CheckWorker is called for each call of a worker, such as Claim or Succeed. If it returns an
	// error, the call is refused with [CodeForbidden], or as the error says if that is a [*Problem].
	// Defaults to nil, which accepts all names.
	CheckWorker func(ctx context.Context, worker string) error
	// Retry decides whether and when a failed job is retried.
	// Defaults to nil: as the options of the job say.
	Retry RetryStrategy
	// Schedule selects the scheduled jobs that are due, for Due and StartDue.
	// Defaults to [DueJobs].
	Schedule SchedulingStrategy
	// MaxClaim is the maximum number of jobs that one call of Claim returns.
	// Defaults to 10.
	MaxClaim int
	// MaxClaimFor is the longest time by which Extend extends a claim.
	// Defaults to an hour.
	MaxClaimFor time.Duration
	// MaxWait is the longest time that Claim waits for a job.
	// Defaults to 25 seconds.
	MaxWait time.Duration
	// PollInterval is how often Claim looks for a job while it waits.
	// Defaults to a second.
	PollInterval time.Duration
	// ExamineFailed is how many of the failed jobs, the newest first, Stats examines to tell cancelled
	// from failed ones. With -1 it examines none.
	// Defaults to 1,000.
	ExamineFailed int

	// Base is the path below which ServeHTTP serves the calls. It must begin with a slash.
	// Defaults to "/manage".
	Base string
	// Authorize is called first for each request. If it returns an error, the request is refused with
	// 403, or as the error says if that is a [*Problem].
	// Defaults to nil, which allows everything.
	Authorize func(r *http.Request, action Action) error
	// Authenticate returns the name of the worker that sends a request, such as the subject of a token
	// or of a client certificate. Errors are handled as those of Authorize.
	// Defaults to nil, which refuses the calls of workers over HTTP.
	Authenticate func(r *http.Request) (worker string, err error)
	// MaxBody is the maximum size of a request's body, in bytes.
	// Defaults to 1 MiB.
	MaxBody int64
	// Timeout limits the requests that read jobs, and those that change one job or extend a claim. If Redis
	// does not reply in time, the reply is 503.
	// Defaults to 5 seconds.
	Timeout time.Duration
	// Logger receives the errors that clients don't see, and the jobs whose claims were stale.
	// Defaults to none.
	Logger *slog.Logger
}

// RetryStrategy decides whether and when a job is retried whose attempt has failed. attempt is the number
// of that attempt, from 1. It is called only if the job has an attempt left. reason wraps the [*Failure].
// A Failure that is Permanent, or has RetryAfter, decides this itself.
type RetryStrategy func(attempt int, job *bullmq.Job, reason error) (wait time.Duration, retry bool)

// maxRetryWait is the longest wait of ExponentialRetry.
const maxRetryWait = 365 * 24 * time.Hour

// ExponentialRetry returns a RetryStrategy that waits twice as long before each further attempt: base
// times 2, 4, 8 and so on, up to a year.
func ExponentialRetry(base time.Duration) RetryStrategy {
	return func(attempt int, _ *bullmq.Job, _ error) (time.Duration, bool) {
		doublings := min(attempt, 62)
		if base > maxRetryWait>>doublings {
			return maxRetryWait, true
		}
		return base << doublings, true
	}
}

// Manager manages the jobs of a queue for workers that have no client of BullMQ, or that hold their jobs
// across calls and processes. A worker is known by its name. It claims jobs, extends its claims, and
// ends them by Succeed, Fail or Release. Each claim belongs to one worker, and only that worker can
// use it.
//
// The jobs are plain jobs of the queue. Other clients of BullMQ add them, and other workers run them,
// beside a Manager. A Manager stores nothing of its own, so a service may have any number of them.
//
// A call that returns [ErrUnavailable] may have taken effect, because the reply of Redis may be lost. Each
// call can be repeated. If the first call of Succeed, Fail or Release has ended the claim, the second one
// is refused, for instance with [ErrWrongStatus]. A job that a call of Claim has claimed without a
// reply is claimed again when the claim has expired.
//
// A refused call returns a [*Problem], whose Code is the reason. Compare it with [ErrAlreadyAssigned] and
// the other variables by errors.Is. It also wraps the error of package bullmq.
//
// A Manager is an http.Handler that serves these calls. It is safe for concurrent use.
type Manager struct {
	o       ManagerOptions
	queue   *bullmq.Queue
	main    *bullmq.Fetcher // finishes jobs
	workers workerFetchers
	owned   *bullmq.Connection // nil if the options have one

	closed context.Context
	close  context.CancelFunc
}

// NewManager connects to a queue and returns a Manager. ctx bounds this call only. options may be nil.
func NewManager(ctx context.Context, queueName string, options *ManagerOptions) (*Manager, error) {
	var o ManagerOptions
	if options != nil {
		o = *options
	}
	if err := o.setDefaults(); err != nil {
		return nil, fmt.Errorf("bullmqhttp: manager of queue %s: %w", queueName, err)
	}
	m := &Manager{o: o}
	if o.Fetcher.Connection == nil {
		var err error
		if m.owned, err = bullmq.Connect(ctx, cmp.Or(o.Fetcher.URL, bullmq.DefaultURL)); err != nil {
			return nil, err
		}
		m.o.Fetcher.Connection, m.o.Fetcher.URL = m.owned, ""
	}
	if err := m.open(ctx, queueName); err != nil {
		_ = m.end()
		return nil, err
	}
	m.closed, m.close = context.WithCancel(context.Background())
	return m, nil
}

func (m *Manager) open(ctx context.Context, queueName string) (err error) {
	f := &m.o.Fetcher
	retry, classify, strategy := m.o.Retry, f.Classify, f.BackoffStrategy
	f.Classify = func(err error, job *bullmq.Job) bullmq.Verdict {
		v := verdict(retry, classify, err, job)
		if v == bullmq.Transient() && strategy == nil && hasCustomBackoff(job) {
			return bullmq.Permanent() // as a worker does it; a Fetcher would refuse to end the attempt
		}
		return v
	}
	m.queue, err = bullmq.NewQueue(ctx, queueName, &bullmq.QueueOptions{
		Connection: f.Connection, Prefix: f.Prefix, Dialect: f.Dialect, DefaultJobOptions: m.o.Job,
		Telemetry: f.Telemetry, Logger: f.Logger, Now: f.Now,
	})
	if err != nil {
		return err
	}
	if m.main, err = bullmq.NewFetcher(ctx, queueName, f); err != nil {
		return err
	}
	each := *f
	each.OnHealth = nil
	m.workers.open = func(ctx context.Context, worker string) (*bullmq.Fetcher, error) {
		each := each
		each.Name, each.Token = worker, func() string { return newToken(worker) }
		return bullmq.NewFetcher(ctx, queueName, &each)
	}
	return nil
}

func (o *ManagerOptions) setDefaults() error {
	f := &o.Fetcher
	switch {
	case f.Token != nil || f.Name != "" || f.RenewLocks || f.OnCancelled != nil:
		return errors.New("the options of Fetcher must not set Token, Name, RenewLocks or OnCancelled")
	case o.Job != nil && (o.Job.JobID != "" || o.Job.Parent != nil || o.Job.Deduplication != nil):
		return errors.New("the options of Job must not set JobID, Parent or Deduplication")
	case o.MaxClaim < 0 || o.MaxClaimFor < 0 || o.MaxWait < 0 || o.PollInterval < 0 || o.ExamineFailed < -1 || o.MaxBody < 0 || o.Timeout < 0:
		return errors.New("MaxClaim, MaxClaimFor, MaxWait, PollInterval, ExamineFailed, MaxBody or Timeout is less than 0")
	}
	f.LockDuration = cmp.Or(f.LockDuration, 5*time.Minute)
	f.StalledInterval = cmp.Or(f.StalledInterval, 30*time.Second)
	if f.Now == nil {
		f.Now = time.Now
	}
	if o.Job == nil {
		o.Job = &bullmq.JobOptions{Attempts: 4, Backoff: bullmq.ExponentialBackoff(4 * time.Second)}
	}
	if o.Schedule == nil {
		o.Schedule = DueJobs
	}
	o.MaxClaim = cmp.Or(o.MaxClaim, 10)
	o.MaxClaimFor = cmp.Or(o.MaxClaimFor, time.Hour)
	o.MaxWait = cmp.Or(o.MaxWait, 25*time.Second)
	o.PollInterval = cmp.Or(o.PollInterval, time.Second)
	o.ExamineFailed = cmp.Or(o.ExamineFailed, 1000)
	o.MaxBody = cmp.Or(o.MaxBody, 1<<20)
	o.Timeout = cmp.Or(o.Timeout, defaultTimeout)
	if o.Base = strings.TrimSuffix(cmp.Or(o.Base, "/manage"), "/"); o.Base != "" && o.Base[0] != '/' {
		return fmt.Errorf("the Base %q does not begin with a slash", o.Base)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}

// Queue returns the queue, for calls that a Manager does not have, such as Pause.
func (m *Manager) Queue() *bullmq.Queue { return m.queue }

// Run makes RecoverStale's check now and then every StalledInterval, until ctx ends or the Manager is
// closed. One process that runs, or one other worker of the queue, is enough.
func (m *Manager) Run(ctx context.Context) {
	for {
		ids, err := m.RecoverStale(ctx)
		switch {
		case ctx.Err() != nil || m.closed.Err() != nil:
			return
		case err != nil:
			m.o.Logger.WarnContext(ctx, "the check for stale claims failed; it is repeated after StalledInterval", "error", err)
		case len(ids) > 0:
			m.o.Logger.WarnContext(ctx, "claims were stale; their jobs are waiting again", "jobs", ids)
		}
		select {
		case <-time.After(m.o.Fetcher.StalledInterval):
		case <-ctx.Done():
			return
		case <-m.closed.Done():
			return
		}
	}
}

// Close ends the Manager. Calls that wait return. Claims stay valid, and another Manager may end them.
// Close always returns nil.
func (m *Manager) Close() error {
	m.close()
	return m.end()
}

func (m *Manager) end() error {
	m.workers.close()
	if m.main != nil {
		_ = m.main.Close()
	}
	if m.queue != nil {
		_ = m.queue.Close()
	}
	if m.owned != nil {
		_ = m.owned.Close()
	}
	return nil
}

// newToken returns the token of a claim: a random text, and the name of the worker.
func newToken(worker string) string {
	random := make([]byte, 17)
	_, _ = rand.Read(random) // never fails
	return base64.RawURLEncoding.EncodeToString(random)[:idLength] + "." + worker
}

// workerOf returns the worker of a token that newToken may have made.
func workerOf(token string) (worker string, ok bool) {
	if len(token) <= idLength || token[idLength] != '.' {
		return "", false
	}
	return token[idLength+1:], true
}
