// Package cron evaluates the cron patterns of job schedulers, giving the same instants as BullMQ.
//
// Several services, some in Go and some in Node, may serve one scheduler. Whoever starts a job of the scheduler works
// out when the next one is due, and that instant is part of the next job's id. So an answer that is merely sensible is
// not enough: it has to be the one BullMQ 6.7 arrives at with cron-parser 5 and luxon, to the millisecond, also at a
// clock change and for odd patterns. The tests hold this package against those libraries.
//
// # Patterns
//
// A pattern has up to six fields: second, minute, hour, day of the month, month, day of the week. Fields missing on the
// left are filled in: the second with 0, the rest with "*"; the usual five-field form is one case of that. A field is a
// list of numbers, ranges (9-17), steps (*/15, 9-17/2, 10/5) and wildcards ("*" or "?"). Months and days of the week
// have three-letter names; Sunday is 0 or 7. The day of the month may be L (the last day), a day of the week 5L (the
// last Friday) or 5#2 (the second Friday). H stands for a value drawn by lot, H(0-29), H/10 and H(0-29)/10 likewise.
// When both days are given, a day that fits either one will do. "@daily" and its kin are shorthands; see [Parse].
//
// # Clock changes
//
// A run whose hour is skipped when clocks go forward happens in the hour after the gap. A gap shorter than an hour, or
// one at midnight, takes the day's runs in it along. When clocks go back and a run's time of day comes twice, it
// happens once, the first time, unless the pattern allows all 24 hours. So the reference has it. It also has the
// faults that [ErrGaveUp] tells of, and they are kept, since one service that goes on where the others stop would have
// the schedule to itself.
package cron

import "time"

// Schedule is a parsed pattern. It does not change, so any number of goroutines may use it. The zero value never fires;
// get one from [Parse].
type Schedule struct {
	seconds, minutes, hours, months set

	// days holds days of the month; lastDay adds the last one, whichever that is.
	days    set
	lastDay bool
	// weekdays holds days of the week. If nth is set, only the nth of the month counts, or none if nth is never.
	// The last one of the month of each in lastWeekdays is added.
	weekdays, lastWeekdays set
	nth                    int
	// anyDay and anyWeekday tell a bare wildcard from a field that merely lists every value: only if both fields are
	// something else does a day that fits one of them suffice.
	anyDay, anyWeekday bool
}

// never stands in Schedule.nth for an occurrence such as 1.5, which the reference takes and then never finds.
const never = -1

// Next returns the first run after the given instant, by the clock of loc; a nil loc is the machine's own zone. It
// reports false if the search gives up, for which see [ErrGaveUp], or gets beyond JavaScript's dates, which end in the
// year 275760.
//
// Only whole milliseconds count; what is finer is cut off first. A run at exactly that time is not after it.
func (s Schedule) Next(after time.Time, loc *time.Location) (time.Time, bool) {
	return s.adjacent(after, loc, forward)
}

// Prev returns the last run before the given instant. In all else it is like [Schedule.Next]. Where a zone has skipped a
// day, as Pacific/Apia did on 30 December 2011, a search that comes upon it turns round, and what it returns may be later
// than before: BullMQ itself never looks backward, but for the same instants as the reference that has to be so.
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

// onDay reports whether the pattern's days include the day on the clock.
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
