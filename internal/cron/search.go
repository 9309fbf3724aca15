package cron

import (
	"errors"
	"fmt"
	"time"
)

// stepLimit is the number of steps after which the reference decides that a pattern never fires.
const stepLimit = 10_000

var (
	// ErrNoRun matches every error that reports that a schedule has no further run. BullMQ then adds no job
	// and reports success.
	ErrNoRun = errors.New("no run")
	// ErrEnded is returned if there is no run before the end date.
	ErrEnded = fmt.Errorf("cron: %w before the end date: set a later end date if more runs are needed", ErrNoRun)
	// ErrGaveUp is returned if the search takes so many steps that the reference gives up. Usually the
	// pattern asks for dates that no year has. In some zones the reference loops on a day on which clocks
	// change: in Australia/Lord_Howe when clocks go back, unless the pattern has runs every hour, and, when
	// searching backward, where a day was skipped or clocks change at midnight.
	ErrGaveUp = fmt.Errorf("cron: %w in reach: check the pattern for dates that don't occur", ErrNoRun)
)

type direction int

const (
	forward  direction = 1
	backward direction = -1
)

// span is the time in which runs may fall, both ends included, in milliseconds since 1970. As in the
// reference, zero means that an end is open.
type span struct{ start, end int64 }

func (s span) contains(millis int64) bool {
	return (s.start == 0 || millis >= s.start) && (s.end == 0 || millis <= s.end)
}

// nearest returns the instant itself if the span contains it, and otherwise the nearest end of the span.
func (s span) nearest(millis int64) int64 {
	switch {
	case s.start != 0 && millis < s.start:
		return s.start
	case s.end != 0 && millis > s.end:
		return s.end
	default:
		return millis
	}
}

// search is the search for one run. It finds the largest field that does not match, moves to the nearest
// instant where that field may match, and repeats.
// The result at a clock change depends on the steps of the search. Every step must therefore end where the
// reference's step ends and set the same two marks.
type search struct {
	*Schedule
	clock
	way direction
	// gap is set by a step that skipped hours of the clock: runs due in them are due at its end.
	gap gap
	// repeated is set by a step after which the clock shows the same hour again: its runs have happened. -1
	// means none.
	repeated int
	// examined is the day for which changing reports whether clocks change.
	examined date
	changing bool
}

// gap is the range of hours that clocks skip, from first up to landing, exclusive. The zero value is empty.
type gap struct{ first, landing int }

type date struct{ year, month, day int }

// everyHour has all hours of the day. Schedules with all hours run through clock changes in elapsed time.
const everyHour set = 1<<24 - 1

func (s Schedule) search(from int64, zone *time.Location, way direction, within span) (int64, error) {
	from = within.nearest(from)
	h := search{Schedule: &s, clock: newClock(from, zone), way: way, repeated: -1}
	if h.millisecond > 0 {
		h.millisecond = 0
		h.settle()
		if way == forward {
			h.step(second, forward)
		}
	}
	for range stepLimit - 1 {
		switch {
		case !h.inRange():
			return 0, ErrGaveUp
		case !within.contains(h.millis):
			return 0, ErrEnded
		case !h.months.has(h.month):
			h.step(month, way)
		case !h.onDay(&h.clock):
			h.step(day, way)
		case !h.hourFits():
			h.seekHour()
		case !h.minutes.has(h.minute):
			h.seekMinute()
		case !h.seconds.has(h.second):
			h.seekSecond()
		case h.millis == from:
			h.step(second, way)
		default:
			return h.millis, nil
		}
	}
	return 0, ErrGaveUp
}

// step moves to the start of the next unit, or to the last second of the previous one. Steps of up to an hour
// set the marks.
func (h *search) step(u unit, way direction) {
	hourBefore, offsetBefore := h.hour, h.offset
	h.move(u, int(way))
	switch {
	case u == second:
	case way == forward:
		h.toStartOf(u)
	default:
		h.toLastSecondOf(u)
	}
	if u > hour || h.hours == everyHour {
		return
	}
	switch passed := (h.hour - hourBefore + 24) % 24; {
	case passed >= 2 && way == forward && h.offset > offsetBefore:
		h.gap = gap{first: (hourBefore + 1) % 24, landing: h.hour}
	case passed == 0 && h.minute == 0 && h.second == 0:
		h.repeated = h.hour
	}
}

// hourFits reports whether the schedule has runs in the current hour, including those of hours just skipped.
func (h *search) hourFits() bool {
	return h.catchesUp() || h.hours.has(h.hour) && !h.comesAgain()
}

// catchesUp reports whether the search has just passed a gap that contains hours of the schedule.
func (h *search) catchesUp() bool {
	if h.gap.landing != h.hour {
		return false
	}
	for skipped := h.gap.first; skipped != h.hour; skipped = (skipped + 1) % 24 {
		if h.hours.has(skipped) {
			return true
		}
	}
	return false
}

// comesAgain reports whether the clock shows this hour for the second time. A backward search finds the
// second time first and counts it.
func (h *search) comesAgain() bool { return h.way == forward && h.repeated == h.hour }

func (h *search) seekHour() {
	if h.comesAgain() {
		h.repeated = -1
		h.step(hour, forward)
		return
	}
	h.gap = gap{}
	next, ok := h.nextIn(h.hours, h.hour)
	if !ok {
		h.step(day, h.way)
		return
	}
	if h.clocksChange() {
		// Each hour needs a separate step for the marks. The wanted hour may be skipped.
		for range int(h.way) * (next - h.hour) {
			h.step(hour, h.way)
			if int(h.way)*(h.hour-next) >= 0 {
				break
			}
		}
	} else {
		h.setHour(next)
	}
	h.setMinute(h.firstIn(h.minutes))
	h.setSecond(h.firstIn(h.seconds))
}

func (h *search) seekMinute() {
	if next, ok := h.nextIn(h.minutes, h.minute); ok {
		h.setMinute(next)
	} else {
		h.step(hour, h.way)
		h.setMinute(h.firstIn(h.minutes))
	}
	h.setSecond(h.firstIn(h.seconds))
}

func (h *search) seekSecond() {
	next, ok := h.nextIn(h.seconds, h.second)
	if !ok {
		h.step(minute, h.way)
		next = h.firstIn(h.seconds)
	}
	h.setSecond(next)
}

// nextIn returns the value after n in the direction of the search.
func (h *search) nextIn(values set, n int) (int, bool) {
	if h.way == forward {
		return values.above(n)
	}
	return values.below(n)
}

// firstIn returns the first value in the direction of the search.
func (h *search) firstIn(values set) int {
	if h.way == forward {
		return values.min()
	}
	return values.max()
}

// clocksChange reports whether the offset at the end of the day differs from that at its start. For a date
// that occurs twice the first one counts.
func (h *search) clocksChange() bool {
	today := date{h.year, h.month, h.day}
	if h.examined == today {
		return h.changing
	}
	start, end := h.clock, h.clock
	start.toStartOf(day)
	end.toLastMillisecondOf(day)
	h.examined, h.changing = today, start.offset != end.offset
	return h.changing
}
