// Package cronwords describes cron patterns in plain English.
//
// A description follows from the values that [cron.Parse] finds, not from the text of the pattern. So
// "*/15 * * * *" and "0,15,30,45 * * * *" have the same one.
package cronwords

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/17a2ac88/bullmq-go/internal/cron"
)

// Describe returns when a pattern runs, such as "every day at 09:30". Values that H draws are called random.
// It returns the error of [cron.Parse] for a pattern that can't be parsed.
func Describe(pattern string) (string, error) {
	schedule, err := cron.Parse(pattern)
	if err != nil {
		return "", err
	}
	f, drawn := schedule.Fields(), cron.Drawn(pattern)
	days := daysOf(f, drawn)
	if drawn[0] || drawn[1] || drawn[2] {
		return join(drawnTime(f, drawn), days), nil
	}
	if times := clockTimes(f); len(times) > 0 {
		if days == "" {
			days = "every day"
		}
		return days + " at " + and(times), nil
	}
	return join(repeated(f), days), nil
}

func join(time, days string) string {
	if days == "" {
		return time
	}
	return time + ", " + days
}

// maxTimes is the largest number of times of the day that are listed.
const maxTimes = 4

// clockTimes returns the times of the day, if they are few.
func clockTimes(f cron.Fields) (times []string) {
	if len(f.Seconds) > 1 || len(f.Minutes)*len(f.Hours) > maxTimes {
		return nil
	}
	if len(f.Minutes) > 2 { // such as three minutes of one hour
		return nil
	}
	for _, hour := range f.Hours {
		for _, minute := range f.Minutes {
			times = append(times, clock(hour, minute, f.Seconds[0], f.Seconds[0] != 0))
		}
	}
	return times
}

func clock(hour, minute, second int, withSecond bool) string {
	text := fmt.Sprintf("%02d:%02d", hour, minute)
	if withSecond {
		text += fmt.Sprintf(":%02d", second)
	}
	return text
}

// repeated describes times of the day that are too many to list.
func repeated(f cron.Fields) string {
	seconds, minutes, hours := valuesOf(f.Seconds, 60), valuesOf(f.Minutes, 60), valuesOf(f.Hours, 24)
	if !seconds.single() {
		return repeatedSeconds(seconds, minutes, hours)
	}
	second := seconds.list[0]
	atSecond := ""
	if second != 0 {
		atSecond = fmt.Sprintf(", at second %d", second)
	}
	switch {
	case minutes.single():
		return eachHour(minutes.list[0], second, hours)
	case hours.all():
		return every(minutes, "minute") + ofEach(minutes, "hour") + atSecond
	case hours.run() && minutes.even():
		return fmt.Sprintf("%s from %s to %s%s", every(minutes, "minute"), clock(hours.first(), minutes.first(), 0, false), clock(hours.last(), minutes.last(), 0, false), atSecond)
	}
	return every(minutes, "minute") + hoursWords(hours) + atSecond
}

// eachHour describes one time of several hours.
func eachHour(minute, second int, hours values) string {
	at := ""
	if minute != 0 || second != 0 {
		at = fmt.Sprintf(", at %d minutes past", minute)
		if minute == 1 {
			at = ", at 1 minute past"
		}
		if second != 0 {
			at = fmt.Sprintf(", at %02d:%02d past", minute, second)
		}
	}
	switch {
	case hours.all():
		return "every hour" + at
	case hours.step() > 1:
		return fmt.Sprintf("every %d hours", hours.step()) + at
	case hours.run():
		return fmt.Sprintf("every hour from %s to %s", clock(hours.first(), minute, second, second != 0), clock(hours.last(), minute, second, second != 0))
	}
	var times []string
	for _, hour := range hours.list {
		times = append(times, clock(hour, minute, second, second != 0))
	}
	return "at " + and(times)
}

func repeatedSeconds(seconds, minutes, hours values) string {
	text := every(seconds, "second")
	switch {
	case minutes.all() && hours.all():
		return text + ofEach(seconds, "minute")
	case minutes.all() && hours.run() && seconds.even():
		return fmt.Sprintf("%s from %s to %s", text, clock(hours.first(), 0, seconds.first(), true), clock(hours.last(), 59, seconds.last(), true))
	case minutes.all():
		return text + ofEach(seconds, "minute") + hoursWords(hours)
	}
	text += " of " + named(minutes, "minute")
	if hours.all() {
		return text + " of every hour"
	}
	return text + hoursWords(hours)
}

// hoursWords describes hours behind a description of minutes.
func hoursWords(hours values) string {
	switch {
	case hours.step() > 1:
		return fmt.Sprintf(" of every %s hour", ordinal(hours.step()))
	case hours.run():
		return fmt.Sprintf(" from %02d:00 to %02d:59", hours.first(), hours.last())
	}
	return " of " + named(hours, "hour")
}

// every describes when something happens within a larger unit.
func every(v values, unit string) string {
	switch {
	case v.all():
		return "every " + unit
	case v.step() > 1:
		return fmt.Sprintf("every %d %ss", v.step(), unit)
	case v.run() && !v.single():
		return fmt.Sprintf("every %s from %s %d to %d", unit, unit, v.first(), v.last())
	}
	return "at " + named(v, unit)
}

// ofEach is the end of a description by every, if that needs one.
func ofEach(v values, larger string) string {
	if v.even() {
		return ""
	}
	return " of every " + larger
}

// named names single values, such as minutes 5 and 10.
func named(v values, unit string) string {
	switch {
	case v.all():
		return "every " + unit
	case v.step() > 1:
		return fmt.Sprintf("every %s %s", ordinal(v.step()), unit)
	case v.single():
		return unit + " " + strconv.Itoa(v.first())
	case v.run() && len(v.list) > 2:
		return fmt.Sprintf("%ss %d to %d", unit, v.first(), v.last())
	}
	return unit + "s " + and(numbers(v.list))
}

// drawnTime describes times of which H draws a part.
func drawnTime(f cron.Fields, drawn [6]bool) string {
	seconds, minutes, hours := valuesOf(f.Seconds, 60), valuesOf(f.Minutes, 60), valuesOf(f.Hours, 24)
	part := func(v values, drawn bool, unit string) string {
		switch {
		case drawn && v.single():
			return "a random " + unit
		case drawn && len(v.list) > 1:
			return fmt.Sprintf("every %s %s from a random one", ordinal(v.list[1]-v.list[0]), unit)
		}
		return named(v, unit)
	}
	var parts []string
	if drawn[0] || !seconds.single() || seconds.first() != 0 {
		parts = append(parts, part(seconds, drawn[0], "second"))
	}
	parts = append(parts, part(minutes, drawn[1], "minute"), part(hours, drawn[2], "hour"))
	return "at " + strings.Join(parts, " of ")
}

// values are values of a field of a size.
type values struct {
	list []int
	size int
}

func valuesOf(list []int, size int) values { return values{list, size} }

func (v values) first() int   { return v.list[0] }
func (v values) last() int    { return v.list[len(v.list)-1] }
func (v values) single() bool { return len(v.list) == 1 }
func (v values) all() bool    { return len(v.list) == v.size }

// even reports whether the values are all, or at equal distances around the clock.
func (v values) even() bool { return v.all() || v.step() > 1 }

// run reports whether the values follow each other.
func (v values) run() bool { return v.last()-v.first() == len(v.list)-1 }

// step returns the distance of values that begin with 0 and are at equal distances around the
// clock; 0 for others.
func (v values) step() int {
	if len(v.list) < 2 || v.first() != 0 || v.size%len(v.list) != 0 {
		return 0
	}
	step := v.size / len(v.list)
	for i, n := range v.list {
		if n != i*step {
			return 0
		}
	}
	return step
}
