// Package cron evaluates the cron patterns of job schedulers, giving the same instants as BullMQ.
//
// Go and Node services may share a scheduler. The service that starts a job of the scheduler computes when
// the next one is due, and that instant is part of the next job's id. A result must therefore equal that of
// BullMQ 6.7 with cron-parser 5 and luxon to the millisecond, at clock changes and for unusual patterns too.
// The tests compare this package with those libraries.
//
// # Patterns
//
// A pattern has up to six fields: second, minute, hour, day of the month, month, day of the week. Missing
// fields on the left default to 0 for the second and "*" for the others, so the usual five-field form is a
// special case. A field is a list of numbers, ranges (9-17), steps (*/15, 9-17/2, 10/5) and wildcards ("*" or
// "?"). Months and days of the week have three-letter names. Sunday is 0 or 7. The day of the month may be L
// (the last day), and a day of the week 5L (the last Friday) or 5#2 (the second Friday). H, H(0-29), H/10 and
// H(0-29)/10 are randomly chosen values. If both days are restricted, a day that matches either one is
// enough. "@daily" and similar names are shorthands; see [Parse].
//
// # Clock changes
//
// A run whose hour is skipped when clocks go forward happens in the hour after the gap. If the gap is shorter
// than an hour or at midnight, the runs in it are dropped. If a run's local time occurs twice when clocks go
// back, the run happens once, the first time, unless the pattern allows all 24 hours. This is how the
// reference behaves. The faults described at [ErrGaveUp] are the reference's as well. They are reproduced
// because a service that continued where others stop would run the schedule alone.
package cron

import "time"

// Schedule is a parsed pattern. It is immutable and safe for concurrent use. The zero value never fires. Use
// [Parse] to create one.
type Schedule struct {
	seconds, minutes, hours, months set

	// days holds days of the month. lastDay adds the last day of the month.
	days    set
	lastDay bool
	// weekdays holds days of the week. If nth is set, only the nth one in a month counts, and none if nth is
	// never. lastWeekdays adds the last one in the month of each.
	weekdays, lastWeekdays set
	nth                    int
	// anyDay and anyWeekday distinguish a bare wildcard from a field that lists every value. A day that
	// matches only one of the two fields is enough if neither is a wildcard.
	anyDay, anyWeekday bool
}

// never is the value of Schedule.nth for an occurrence such as 1.5, which the reference accepts and never
// finds.
const never = -1

// Next returns the first run after the given instant in local time of loc. A nil loc is the machine's zone.
// It reports false if the search gives up (see [ErrGaveUp]) or passes JavaScript's last date in the year
// 275760.
//
// The instant is truncated to milliseconds. A run at exactly that time is not after it.
func (s Schedule) Next(after time.Time, loc *time.Location) (time.Time, bool) {
	return s.adjacent(after, loc, forward)
}

// Prev returns the last run before the given instant. It is otherwise like [Schedule.Next]. Where a zone has
// skipped a day, as Pacific/Apia did on 30 December 2011, the search may turn around and return a run after
// the given instant. BullMQ never searches backward, but the reference library behaves this way.
func (s Schedule) Prev(before time.Time, loc *time.Location) (time.Time, bool) {
	return s.adjacent(before, loc, backward)
}

func (s Schedule) adjacent(to time.Time, loc *time.Location, way direction) (time.Time, bool) {
	if loc == nil {
		loc = time.Local
	}
	millis, err := s.search(to.UnixMilli(), loc, way, span{})
	if err != nil {
		return time.Time{}, false
	}
	return time.UnixMilli(millis).In(loc), true
}

// onDay reports whether the pattern includes the day of the clock.
func (s *Schedule) onDay(c *clock) bool {
	byDate := s.days.has(c.day) || s.lastDay && c.day == daysIn(c.year, c.month)
	byWeekday := s.weekdays.has(c.weekday) && (s.nth == 0 || s.nth == (c.day+6)/7) ||
		s.lastWeekdays.has(c.weekday) && c.day > daysIn(c.year, c.month)-7
	switch {
	case s.anyWeekday:
		return byDate
	case s.anyDay:
		return byWeekday
	default:
		return byDate || byWeekday
	}
}
