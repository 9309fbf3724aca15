package bullmq

import (
	"context"
	"strings"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
)

// Dialect is the major version of BullMQ whose keyspace and events are left
// behind. Each reads what the other has written; they differ in where jobs
// stand while the queue is paused, in some events, and in what a retry keeps.
type Dialect int

// What differs in V5 is marked --@v5 and --@v6 in the Lua of package scripts, and
// compared with core.dialect here:
//
//	pause and resume          waiting jobs move to the list paused and back      pause, resume, parts held and ready, joinPaused, moveJobsToWait, getCountsPerPriority
//	retry by hand             the job loses its priority                         reprocessJob
//	deduplication             also the event debounced; no reschedule; a key     part deduplication
//	                          of a removed owner stays
//	add with an existing id   a job whose former parent is gone keeps it         part admit
//	adding a flow             children attach at once; a job with children       FlowProducer
//	                          may have a deduplication id
//	schedulers                a job's next id is in its field nrjid; the         updateJobScheduler, Queue.JobSchedulers
//	                          template takes the data of a legacy scheduler
//	rate limit                a job that fails unrun counts                      part codec
//	too many starts           the job fails at its next start, and a fetch by    worker_execute.go, fetcher.go
//	                          hand passes over it
//	reading and options       Waiting includes Paused; debounce is accepted and  queue_read.go, queue.go, job_json.go
//	                          shown in JSON

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
	c.store.SetDialect(dialect.major())
	return nil
}

func (c *core) detect(ctx context.Context) (Dialect, error) {
	ctx, cancel := context.WithTimeout(ctx, timing.ConnectTimeout)
	defer cancel()
	version, parked, err := c.store.DialectHints(ctx)
	if err != nil && !classify(err).Lasting() {
		return V6, err
	}
	if parked || strings.HasPrefix(version, "bullmq:5.") {
		return V5, nil
	}
	return V6, nil
}
