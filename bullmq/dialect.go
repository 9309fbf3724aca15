package bullmq

import (
	"context"
	"fmt"
	"strings"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
)

// Dialect selects the BullMQ major version whose data layout and events are written.
// Each version reads the data of the other. The versions differ, for example, in where
// jobs are stored while the queue is paused, in some events, and in what a retry keeps.
type Dialect int

// The differences of the dialects are listed in docs/wire-protocol.md, section 20. The
// Lua files of package scripts mark them by --@v5 and --@v6. Go code compares
// core.dialect, or Store.Dialect in package scripts. The following table says where each
// topic of that list is. A name without an ending is a Lua command or part:
//
//	pause                                   pause, moveJobsToWait, parts held and ready
//	resume                                  resume, joinPaused
//	paused as a state, counts               queue_read.go, getCountsPerPriority
//	debounced event                         part deduplication
//	option debounce                         queue.go, job_json.go
//	stale deduplication key                 part deduplication
//	reschedule                              part deduplication
//	replace                                 part deduplication
//	reprocess of a prioritized job          reprocessJob
//	retry many, of children                 moveJobsToWait
//	job with defa                           part codec
//	too many starts                         worker_execute.go
//	getNextJob of a job that can't run      fetcher.go
//	flow with completed children            scripts/flow.go
//	deduplication of a job with children    flow.go
//	re-add of a child whose parent is gone  part admit
//	nrjid in scheduler jobs                 updateJobScheduler
//	scheduler without data                  updateJobScheduler
//	repeatables (repeat without ic)         updateJobScheduler, scheduler.go

// The dialects of BullMQ.
const (
	// Detect reads the dialect from the queue when a Queue, Worker or FlowProducer
	// first uses it. It is V5 if the meta hash contains a version of BullMQ 5, or if
	// the list "paused", which BullMQ 6 does not use, contains jobs. Otherwise it is V6.
	Detect Dialect = iota
	// V6 is the dialect of BullMQ 6, as of WireVersion.
	V6
	// V5 is the dialect of BullMQ 5, as of WireVersion5. Among other differences, paused
	// jobs are in a separate list, a dropped duplicate also emits the event "debounced",
	// and a manual retry removes the job's priority.
	//
	// To pause or resume a queue, BullMQ 5 moves its jobs to another list and overwrites
	// jobs that another client has added to that list. This package never overwrites jobs.
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
	return dialectOf(version, parked), nil
}

// dialectOf returns the dialect of a queue, given its version in the meta hash, and whether
// the list paused has jobs.
func dialectOf(version string, parked bool) Dialect {
	if parked || strings.HasPrefix(version, "bullmq:5.") {
		return V5
	}
	return V6
}
