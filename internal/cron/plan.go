package cron

import (
	"errors"
	"fmt"
)

// Plan holds what decides about the runs of a job scheduler with a pattern. Dates are in milliseconds since 1970; zero
// is none, as it is to BullMQ.
type Plan struct {
	Pattern  string
	TimeZone string // tz; see LoadZone
	// HashSeed settles the values for H in the pattern; see ParseSeeded.
	HashSeed           string
	StartDate, EndDate int64
	// Immediately asks for a run right now. BullMQ hands it on to no later run.
	Immediately bool
	// PrevMillis is the run before: the option prevMillis of the job that is starting. A new scheduler has none.
	PrevMillis int64
}

// ErrImmediatelyWithStartDate says that a plan has both.
var ErrImmediatelyWithStartDate = errors.New("cron: Immediately and StartDate exclude each other: leave one out")

// A DateError says that a date is one JavaScript does not have.
type DateError struct {
	Name   string // StartDate or EndDate
	Millis int64
}

func (e *DateError) Error() string {
	return fmt.Sprintf("cron: %s %d is beyond the dates that Node has: use one within %d ms from 1970", e.Name, e.Millis, int64(lastDate))
}

// NextRun returns the next run of a scheduler, in milliseconds since 1970, as BullMQ's upsertJobScheduler works it out
// at the time now before it turns to Redis.
//
// An error that is [ErrNoRun] means that the scheduler is over. BullMQ adds no job then and reports success. Others say
// that BullMQ would refuse the plan: a [*PatternError], a [*ZoneError], a [*DateError] or
// [ErrImmediatelyWithStartDate]. Past EndDate BullMQ doesn't so much as look at pattern and zone.
//
// The run is never before now, nor before PrevMillis, and after StartDate, not at it.
func (p Plan) NextRun(now int64) (int64, error) {
	if p.Immediately && p.StartDate != 0 {
		return 0, ErrImmediatelyWithStartDate
	}
	if p.EndDate != 0 && now > p.EndDate {
		return 0, ErrEnded
	}
	schedule, err := ParseSeeded(p.Pattern, p.HashSeed)
	if err != nil {
		return 0, err
	}
	zone, err := LoadZone(p.TimeZone)
	if err != nil {
		return 0, err
	}
	for _, date := range []*DateError{{"StartDate", p.StartDate}, {"EndDate", p.EndDate}} {
		if date.Millis < -lastDate || date.Millis > lastDate {
			return 0, date
		}
	}
	earliest := max(now, p.PrevMillis)
	if p.Immediately {
		return earliest, nil
	}
	from := earliest
	if p.StartDate != 0 {
		from = max(from, p.StartDate)
	}
	next, err := schedule.search(from, zone, forward, span{p.StartDate, p.EndDate})
	if err != nil {
		return 0, err
	}
	return max(next, earliest), nil
}
