package cron

import (
	"errors"
	"fmt"
)

// Plan holds the inputs for the next run of a job scheduler with a pattern. Dates are in milliseconds since
// 1970. As in BullMQ, zero means that a date is not set.
type Plan struct {
	Pattern  string
	TimeZone string // BullMQ's tz; see [LoadZone]
	// HashSeed determines the values for H in the pattern; see [ParseSeeded].
	HashSeed           string
	StartDate, EndDate int64
	// Immediately requests a run now. BullMQ applies it to the first run only.
	Immediately bool
	// PrevMillis is the previous run: the option prevMillis of the job that is starting. A new scheduler has
	// none.
	PrevMillis int64
}

// ErrImmediatelyWithStartDate is returned for a plan that has both.
var ErrImmediatelyWithStartDate = errors.New("cron: Immediately and StartDate are mutually exclusive: set only one")

// DateError is returned for a date that JavaScript cannot represent.
type DateError struct {
	Name   string // StartDate or EndDate
	Millis int64
}

func (e *DateError) Error() string {
	return fmt.Sprintf("cron: %s %d is outside the range of Node's dates: use a date within %d ms of 1970", e.Name, e.Millis, int64(lastDate))
}

// NextRun returns the next run of a scheduler in milliseconds since 1970. It is the time that BullMQ's
// upsertJobScheduler computes at the time now before it calls Redis.
//
// An error that matches [ErrNoRun] means that the scheduler has no further run. BullMQ then adds no job and
// reports success. The other errors are those for which BullMQ rejects the plan: [*PatternError],
// [*ZoneError], [*DateError] and [ErrImmediatelyWithStartDate]. After EndDate, like BullMQ, NextRun checks
// neither pattern nor zone.
//
// The run is not before now or PrevMillis. It is after StartDate, never at it.
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
