package bullmqprom

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// The values of the label outcome.
const (
	OutcomeCompleted   = "completed"
	OutcomeFailed      = "failed"       // the job failed and does not run again
	OutcomeRetried     = "retried"      // the attempt failed; the job runs again
	OutcomeSnoozed     = "snoozed"      // [bullmq.Snooze]
	OutcomeRateLimited = "rate_limited" // [bullmq.RateLimit]
	OutcomeMoved       = "moved"        // the handler has moved the job, for example to wait for children
	OutcomeHandedOver  = "handed_over"  // [bullmq.ErrHandedOver]; another program finishes the attempt
	OutcomeReturned    = "returned"     // the worker stopped and returned the job to the queue
	OutcomeLost        = "lost"         // the outcome was not written; the job runs again
)

// Telemetry returns a Telemetry for the options of workers or of a [bullmq.Server]. It passes
// all calls on to next, for instance a Telemetry of package bullmqotel. If next is nil, it
// creates no spans and stores nothing with jobs.
func (m *Metrics) Telemetry(next bullmq.Telemetry) bullmq.Telemetry {
	return &telemetry{m: m, next: next}
}

// Middleware measures handlers. It is a [bullmq.Middleware] for ServerOptions.Middleware,
// [bullmq.Mux.Use] or [bullmq.Wrap]. Make it the outermost one. It requires
// [Metrics.Telemetry].
func (m *Metrics) Middleware(next bullmq.Handler) bullmq.Handler {
	return func(ctx context.Context, job *bullmq.Job) (value any, err error) {
		a, _ := ctx.Value(attemptKey{}).(*attempt)
		if a == nil {
			return next(ctx, job)
		}
		a.begin(job)
		defer func() { a.finish(err) }() // also after a panic
		return next(ctx, job)
	}
}

type telemetry struct {
	m    *Metrics
	next bullmq.Telemetry
}

func (t *telemetry) StartSpan(ctx context.Context, name string, kind bullmq.SpanKind) (context.Context, bullmq.Span) {
	var span bullmq.Span = noSpan{}
	if t.next != nil {
		ctx, span = t.next.StartSpan(ctx, name, kind)
	}
	if queue, ok := strings.CutPrefix(name, "process "); ok && kind == bullmq.SpanConsumer {
		a := &attempt{Span: span, m: t.m, queue: queue}
		ctx = context.WithValue(ctx, attemptKey{}, a)
		a.ctx = ctx
		t.m.start(queue)
		t.m.inFlight.WithLabelValues(queue).Inc()
		return ctx, a
	}
	if queue, ok := strings.CutPrefix(name, "moveStalledJobsToWait "); ok {
		t.m.start(queue)
		return ctx, &stalledCheck{Span: span, m: t.m, queue: queue}
	}
	return ctx, span
}

func (t *telemetry) Inject(ctx context.Context) string {
	if t.next == nil {
		return ""
	}
	return t.next.Inject(ctx)
}

func (t *telemetry) Extract(ctx context.Context, metadata string) context.Context {
	if t.next == nil {
		return ctx
	}
	return t.next.Extract(ctx, metadata)
}

func (t *telemetry) Record(ctx context.Context, metric bullmq.Instrument, value float64, attributes ...bullmq.Attribute) {
	if a, _ := ctx.Value(attemptKey{}).(*attempt); a != nil {
		a.record(metric.Name)
	}
	if t.next != nil {
		t.next.Record(ctx, metric, value, attributes...)
	}
}

type attemptKey struct{}

// attempt is the span of one attempt of a job. It derives the outcome from the handler's error,
// and from the counters that the worker records after it has written the outcome.
type attempt struct {
	bullmq.Span
	m     *Metrics
	ctx   context.Context
	queue string

	mu       sync.Mutex
	name     string
	began    time.Time // when the handler was called; zero if it was not
	duration time.Duration
	returned bool
	err      error
	state    string // the new state of the job; "" while it is unknown
	failed   bool
}

// SetAttributes implements [bullmq.Span].
func (a *attempt) SetAttributes(attributes ...bullmq.Attribute) {
	for _, attribute := range attributes {
		if name, ok := attribute.Value.(string); ok && attribute.Key == "bullmq.job.name" {
			a.mu.Lock()
			a.name = name
			a.mu.Unlock()
		}
	}
	a.Span.SetAttributes(attributes...)
}

// begin records that the handler is called.
func (a *attempt) begin(job *bullmq.Job) {
	a.mu.Lock()
	a.began = time.Now()
	a.mu.Unlock()
	// For a job that has run before, Redis does not store since when it is ready.
	if job.AttemptsStarted > 1 || job.ProcessedOn.IsZero() || job.Timestamp.IsZero() {
		return
	}
	wait := job.ProcessedOn.Sub(job.Timestamp.Add(job.Options.Delay))
	a.m.wait.WithLabelValues(a.queue, a.m.names.label(job.Name)).Observe(max(0, wait.Seconds()))
}

// finish records that the handler has returned.
func (a *attempt) finish(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.duration, a.returned, a.err = time.Since(a.began), true, err
}

// record notes a counter of the worker. Counters that are recorded while the handler runs come
// from calls of the handler, so it ignores them.
func (a *attempt) record(counter string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.began.IsZero() && !a.returned {
		return
	}
	if counter == "bullmq.jobs.attempts.failed" {
		a.failed = true
	} else if state, ok := strings.CutPrefix(counter, "bullmq.jobs."); ok {
		a.state = state
	}
}

// End implements [bullmq.Span].
func (a *attempt) End() {
	a.mu.Lock()
	outcome, name := a.outcome(), a.m.names.label(a.name)
	a.m.jobs.WithLabelValues(a.queue, name, outcome).Inc()
	if a.returned {
		a.m.duration.WithLabelValues(a.queue, name, outcome).Observe(a.duration.Seconds())
	}
	a.mu.Unlock()
	a.m.inFlight.WithLabelValues(a.queue).Dec()
	if errors.Is(context.Cause(a.ctx), bullmq.ErrLockLost) {
		a.m.lost.WithLabelValues(a.queue).Inc()
	}
	a.Span.End()
}

func (a *attempt) outcome() string {
	switch {
	case a.state == "completed":
		return OutcomeCompleted
	case a.state == "failed":
		return OutcomeFailed
	case a.failed:
		return OutcomeRetried
	case a.state == "handed_over":
		return OutcomeHandedOver
	case errors.Is(a.err, bullmq.ErrMovedToDelayed), errors.Is(a.err, bullmq.ErrMovedToWait), errors.Is(a.err, bullmq.ErrMovedToWaitingChildren):
		return OutcomeMoved
	case a.state == "":
		return OutcomeLost
	case errors.Is(a.err, bullmq.ErrRateLimited):
		return OutcomeRateLimited
	case errors.Is(a.err, bullmq.ErrSnoozed):
		return OutcomeSnoozed
	}
	return OutcomeReturned
}

// stalledCheck is the span of a check for stalled jobs.
type stalledCheck struct {
	bullmq.Span
	m     *Metrics
	queue string
}

// AddEvent implements [bullmq.Span].
func (s *stalledCheck) AddEvent(name string, attributes ...bullmq.Attribute) {
	if name == "job stalled" {
		s.m.stalled.WithLabelValues(s.queue).Inc()
	}
	s.Span.AddEvent(name, attributes...)
}

type noSpan struct{}

func (noSpan) SetAttributes(...bullmq.Attribute)    {}
func (noSpan) AddEvent(string, ...bullmq.Attribute) {}
func (noSpan) RecordError(error)                    {}
func (noSpan) End()                                 {}
