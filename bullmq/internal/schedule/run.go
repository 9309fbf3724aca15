// Package schedule computes the runs of job schedulers.
package schedule

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
	"github.com/17a2ac88/bullmq-go/internal/cron"
)

// ErrNoNextRun is returned if a pattern has no next run although it has not ended.
var ErrNoNextRun = errors.New("no next run is found")

// Run is the next run of a scheduler.
type Run struct {
	// Due is when the run of a pattern is due. It is zero for an interval, whose
	// runs the store computes.
	Due time.Time
	// EveryMillis is the interval, or 0 for a pattern. It is a float64 as in Node,
	// because a fraction of a millisecond shifts all runs.
	EveryMillis float64
	// Opts are the options of the run's job, as JSON, without its id and its delay.
	Opts string
}

// Next returns the next run of a scheduler, one of whose jobs is starting now (BullMQ:
// JobScheduler.upsertJobScheduler with override false). opts are the options of that job, as
// JSON. Next returns nil if the scheduler has ended.
func Next(schedulerID string, opts []byte, now time.Time) (*Run, error) {
	if IsLegacyKey(schedulerID) {
		return nil, errors.New("it is a repeatable job of BullMQ 4 or older, which has no scheduler's record; upsert a scheduler in its place")
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(opts, &fields); err != nil {
		return nil, fmt.Errorf("the job's opts can't be read: %w", err)
	}
	if len(fields["repeat"]) == 0 {
		return nil, errors.New("the job's opts have no option repeat")
	}
	var repeat options
	if err := json.Unmarshal(fields["repeat"], &repeat); err != nil {
		return nil, fmt.Errorf("the job's option repeat can't be read: %w", err)
	}
	count := whole(repeat.Count) + 1
	if repeat.Limit != "" && count > whole(repeat.Limit) || repeat.EndDate != 0 && now.UnixMilli() > int64(repeat.EndDate) {
		return nil, nil
	}
	var run Run
	switch {
	case repeat.Every != "" && repeat.Pattern == "":
		run.EveryMillis, _ = repeat.Every.Float64() // an infinity is rejected when the run is computed
	case repeat.Pattern != "" && repeat.Every == "":
		prev, _ := wire.ParseNumber(string(fields["prevMillis"]))
		due, ended, err := Pattern(cron.Plan{
			Pattern: repeat.Pattern, TimeZone: repeat.TimeZone, HashSeed: repeat.HashSeed,
			StartDate: int64(repeat.StartDate), EndDate: int64(repeat.EndDate), PrevMillis: prev,
		}, now)
		if err != nil || ended {
			return nil, err
		}
		run.Due = due
	default:
		return nil, errors.New("its option repeat needs either a pattern or an interval")
	}
	var err error
	run.Opts, err = nextOptions(schedulerID, fields, repeat, run.Due, count, now)
	return &run, err
}

// Pattern returns the next run of a scheduler with a pattern. ended reports whether the
// pattern has no run before its end date.
func Pattern(plan cron.Plan, now time.Time) (due time.Time, ended bool, err error) {
	ms, err := plan.NextRun(now.UnixMilli())
	switch {
	case errors.Is(err, cron.ErrEnded):
		return time.Time{}, true, nil
	case errors.Is(err, cron.ErrGaveUp):
		return time.Time{}, false, fmt.Errorf("%w for the pattern %q in the time zone %q", ErrNoNextRun, plan.Pattern, plan.TimeZone)
	case err != nil:
		return time.Time{}, false, err
	}
	return time.UnixMilli(ms), false, nil
}
