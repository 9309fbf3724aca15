package bullmq

import (
	"context"
	"fmt"
	"strings"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
)

// Dialect selects the BullMQ major version whose data layout and events are written.
// Each version reads the data of the other. They differ in where jobs are stored
// while the queue is paused, in some events, and in what a retry preserves.
type Dialect int

// The Lua files of package scripts mark differences by --@v5 and --@v6. This package
// compares core.dialect. The differences of V5 are:
//
//	pause and resume          waiting jobs move to the list paused and back      pause, resume, parts held and ready, joinPaused, moveJobsToWait, getCountsPerPriority
//	retry by hand             the job loses its priority                         reprocessJob
//	deduplication             also the event debounced; no reschedule; a key     part deduplication
//	                          of a removed owner stays
//	add with an existing id   a job whose former parent is gone keeps it         part admit
//	adding a flow             children attach at once; a job with children       FlowProducer
//	                          may have a deduplication id
//	schedulers                a job's next id is in its field nrjid; the         updateJobScheduler, Queue.Schedulers
//	                          template uses the data of a legacy scheduler
//	rate limit                a job that fails unrun counts                      part codec
//	too many starts           the job fails at its next start, and a fetch by    worker_execute.go, fetcher.go
//	                          hand skips it
//	reading and options       Waiting includes Paused; debounce is accepted and  queue_read.go, queue.go, job_json.go
//	                          shown in JSON

// The dialects of BullMQ.
const (
	// Detect reads the dialect from the queue when a Queue, Worker or FlowProducer
	// first uses it. It is V5 if the meta hash contains a version of BullMQ 5, or if
	// the list paused, which BullMQ 6 does not use, contains jobs. Otherwise it is V6.
	Detect Dialect = iota
	// V6 is the dialect of BullMQ 6, as of WireVersion.
	V6
	// V5 is the dialect of BullMQ 5, as of WireVersion5. Paused jobs are in a separate
	// list, a dropped duplicate also emits the event debounced, and a manual retry
	// removes the job's priority. Unlike in BullMQ 5, pausing and resuming a queue
	// never overwrites jobs that another client has added to the target list.
	V5
)

// The BullMQ versions whose data layout and events this package writes, by dialect.
const (
	WireVersion  = "6.7.0"
	WireVersion5 = "5.81.5"
)

// check returns an error for a Dialect that does not exist.
func (d Dialect) check() error {
	if d < Detect || d > V5 {
		return fmt.Errorf("Dialect %d is unknown: use Detect, V6 or V5", int(d))
	}
	return nil
}

// major returns the major version of BullMQ.
func (d Dialect) major() int {
	if d == V5 {
		return 5
	}
	return 6
}

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
	c.dialect = dialect
	if store, ok := c.store.(backend.Dialects); ok {
		store.SetDialect(dialect.major())
	}
	return nil
}

func (c *core) detect(ctx context.Context) (Dialect, error) {
	store, ok := c.store.(backend.Dialects)
	if !ok {
		return V6, nil
	}
	ctx, cancel := context.WithTimeout(ctx, timing.ConnectTimeout)
	defer cancel()
	version, parked, err := store.DialectHints(ctx)
	if err != nil && !classify(err).Lasting() {
		return V6, err
	}
	if parked || strings.HasPrefix(version, "bullmq:5.") {
		return V5, nil
	}
	return V6, nil
}
