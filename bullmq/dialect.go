package bullmq

import (
	"context"
	"strings"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/redisconn"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
	"github.com/17a2ac88/bullmq-go/bullmq/scripts"
)

// Dialect is the major version of BullMQ whose keyspace and events are left
// behind. Each reads what the other has written; they differ in where jobs
// stand while the queue is paused, in some events, and in what a retry keeps.
type Dialect int

// The dialects.
const (
	// Detect asks the queue when a Queue, Worker or FlowProducer meets it: V5
	// when its meta hash names a BullMQ 5, or jobs stand in the list paused, which
	// BullMQ 6 doesn't fill; V6 otherwise.
	Detect Dialect = iota
	// V6 is that of BullMQ 6, as WireVersion.
	V6
	// V5 is that of BullMQ 5, as WireVersion5: paused jobs stand in a list of
	// their own, a dropped duplicate is also told as debounced, a retry by hand
	// forgets the job's priority. Unlike BullMQ 5, no pause or resume of ours
	// overwrites jobs that another client has put where it moves them.
	V5
)

// Versions whose keyspace and events this package leaves, by dialect.
const (
	WireVersion  = "6.7.0"
	WireVersion5 = "5.81.5"
)

func (d Dialect) version() string {
	if d == V5 {
		return "bullmq:" + WireVersion5
	}
	return "bullmq:" + WireVersion
}

// setDialect sets the dialect of the queue, or detects it.
func (c *core) setDialect(ctx context.Context, dialect Dialect) error {
	if dialect == Detect {
		var err error
		if dialect, err = c.detect(ctx); err != nil {
			return err
		}
	}
	c.dialect, c.store.Dialect = dialect, scripts.V6
	if dialect == V5 {
		c.store.Dialect = scripts.V5
	}
	return nil
}

func (c *core) detect(ctx context.Context) (Dialect, error) {
	ctx, cancel := context.WithTimeout(ctx, timing.ConnectTimeout)
	defer cancel()
	version, parked, err := c.store.Signs(ctx)
	if err != nil && !redisconn.Forbidden(err) {
		return V6, err
	}
	if parked || strings.HasPrefix(version, "bullmq:5.") {
		return V5, nil
	}
	return V6, nil
}
