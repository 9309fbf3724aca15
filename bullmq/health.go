package bullmq

import (
	"context"
	"fmt"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/safe"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
)

// Health is what a Queue, a Worker, a QueueEvents or a FlowProducer knows of its
// Redis. It is learned from the calls that are made anyway, and costs none while
// all goes well. When a call fails, a small command asks Redis, and again about
// once a second until Redis can serve. A connection that was lost and could be
// opened again at once is no outage.
//
// An idle Queue notices an outage with its next call. An idle Worker or
// QueueEvents notices a broken connection at once and a silent server after 11
// seconds. [Queue.Ping] asks at once.
type Health struct {
	// Reachable reports whether Redis replies and can serve. It is also false while
	// Redis replies that it loads its data, is a replica that takes no writes, is
	// busy with a script, or lacks a part of its cluster. A Redis that has run out
	// of memory is reachable.
	Reachable bool
	// Since is when that began. For an outage, that is when the first call failed;
	// before the first outage, when the connection was opened.
	Since time.Time
	// Err is why Redis is not reachable or, when it is again, why it last was not.
	// It is nil before the first outage. Passwords are taken out of it.
	Err error
}

func (h Health) String() string {
	switch since := h.Since.Format(time.RFC3339); {
	case !h.Reachable:
		return fmt.Sprintf("Redis is out of reach since %s: %v", since, h.Err)
	case h.Err != nil:
		return fmt.Sprintf("Redis is reachable again since %s, after: %v", since, h.Err)
	default:
		return "Redis is reachable since " + since
	}
}

// Health returns whether Redis can be reached. It makes no call.
func (q *Queue) Health() Health { return q.core.health() }

// Ping asks Redis now, by a small command on the queue's connection, and returns
// nil if Redis replies and can serve. It returns when ctx ends at the latest, so
// give ctx a deadline. A process that makes no other calls learns of an outage by
// Ping. Health includes what it finds.
func (q *Queue) Ping(ctx context.Context) error {
	if err := q.core.conn.Ping(ctx); err != nil {
		return fmt.Errorf("bullmq: queue %s: %w", q.Name(), err)
	}
	return nil
}

// Health returns whether Redis can be reached. It makes no call.
func (w *Worker) Health() Health { return w.core.health() }

// Health returns whether Redis can be reached. It makes no call.
func (e *QueueEvents) Health() Health { return e.core.health() }

// Health returns whether Redis can be reached. It makes no call.
func (p *FlowProducer) Health() Health { return p.core.health() }

func (c *core) health() Health { return Health(c.conn.Health().State()) }

// watchHealth logs each change, and calls onHealth with it unless that is nil.
func (c *core) watchHealth(onHealth func(Health)) {
	lost := time.Time{}
	c.conn.Health().OnChange(func(h backend.Health) {
		if h.Reachable {
			c.log.Warn("Redis is reachable again; work continues", logOutage, h.Since.Sub(lost).Milliseconds())
		} else {
			lost = h.Since
			c.log.Error("Redis is unreachable; workers and event readers retry, other calls fail or wait; check the server and the network", logError, h.Err)
		}
		if onHealth == nil {
			return
		}
		if p, stack := safe.Call(func() { onHealth(Health(h)) }); p != nil {
			c.log.Error("OnHealth panicked; nothing else is affected; fix the function", logFunction, "OnHealth", logPanic, fmt.Sprint(p), logStack, stack)
		}
	})
}

// pauseAfter is how long to wait after a failure before a call is made again
// that has to come through. Where only a connection broke and Redis isn't known to
// be out of reach, the first few attempts follow quickly, because the other
// connections of the client may have broken too.
func (w *Worker) pauseAfter(failure error, outage *timing.Backoff) time.Duration {
	wait := outage.Next()
	if classify(failure) == backend.Lost && wait <= timing.LastQuickPause && w.Health().Reachable {
		wait = timing.ShortestPause
	}
	return wait
}
