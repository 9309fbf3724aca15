package cron

import (
	"errors"
	"fmt"
	"time"
)

// stepLimit is how often the reference looks at a moment before it declares that a pattern never fires.
const stepLimit = 10_000

var (
	// ErrNoRun is in every error that says a schedule has no further run. BullMQ adds no job then, without a word.
	ErrNoRun = errors.New("no run")
	// ErrEnded says that there is no run before the end date.
	ErrEnded = fmt.Errorf("cron: %w before the end date: nothing to do, or set a later one", ErrNoRun)
	// ErrGaveUp says that the search went on for so long that the reference gives up. Mostly that is because the
	// pattern asks for dates that no year has. In some zones it is because the reference, on a day when clocks
	// change, comes back to the same moment over and over: in Australia/Lord_Howe whenever clocks go back, unless
	// every hour has runs, and, looking backward, where a day was skipped or clocks change at midnight.
	ErrGaveUp = fmt.Errorf("cron: %w in reach: check the pattern for dates that don't occur", ErrNoRun)
)

type direction int

const (
	forward  direction = 1
	backward direction = -1
)

// span is the time that runs may fall in, both ends included, in milliseconds since 1970. Zero means that an end is
// open, as it does to the reference.
type span struct{ start, end int64 }

func (s span) contains(millis int64) bool {
	return (s.start == 0 || millis >= s.start) && (s.end == 0 || millis <= s.end)
}

// nearest returns the instant itself, or the end of the span that it is beyond.
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

// search is one hunt for a run. It looks at a moment, finds the largest field that does not fit, moves to the nearest
// moment where that field may fit, and looks again.
//
// What happens at a clock change depends on how the search comes there, so no closed form can take its place: every
// move must end where the reference's does and leave the same two marks.
type search struct {
	*Schedule
	clock
	way direction
	// gap marks a move that skipped hours of the clock: runs due in them are due on landing.
	gap gap
	// repeated marks a move after which the clock shows the same hour anew: its runs have been. -1 is none.
	repeated int
	// examined is the day for which changing says whether clocks change.
	examined date
	changing bool
}

// gap is a stretch of hours that clocks skip, from the first up to, and without, the one landed on. In the zero value
// there are none.
type gap struct{ first, landing int }

type date struct{ year, month, day int }

// everyHour has all hours of the day. Schedules with it run through clock changes as time goes by.
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

// step goes to the start of the next unit, or to the last second of the one before; seconds just count. Steps of up to
// an hour leave the marks.
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

// hourFits reports whether the schedule has runs in the hour on the clock, of its own or from hours just skipped.
func (h *search) hourFits() bool {
	return h.catchesUp() || h.hours.has(h.hour) && !h.comesAgain()
}

// catchesUp reports whether the search has just landed after a gap with hours of the schedule in it.
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

// comesAgain reports whether the clock shows this hour for the second time. Looking backward that time is met first,
// so then it counts.
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
		// Hour by hour, for the marks. Clocks that skip an hour may skip the one looked for.
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

// nextIn returns the value that follows n in the direction of the search.
func (h *search) nextIn(values set, n int) (int, bool) {
	if h.way == forward {
		return values.above(n)
	}
	return values.below(n)
}

// firstIn returns the value that the search meets first.
func (h *search) firstIn(values set) int {
	if h.way == forward {
		return values.min()
	}
	return values.max()
}

// clocksChange reports whether the offset at the end of the day is another than at its start. A date that occurs twice
// is examined the first time.
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
