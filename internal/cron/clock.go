package cron

import "time"

// lastDate is the distance of JavaScript's last date from 1970 in either direction, in milliseconds.
const lastDate = 8_640_000_000_000_000

// clock is an instant together with its local time in a zone.
//
// Libraries differ in how they find the instant of a local time. This package follows luxon. A local time
// that occurs twice gets the previous offset if that is one of the two. A local time that never occurs is
// moved forward by the length of the gap. [time.Date] guarantees neither.
type clock struct {
	zone   *time.Location
	millis int64 // since 1970
	offset int64 // of the zone from UTC, in milliseconds

	year, month, day, weekday         int
	hour, minute, second, millisecond int
}

func newClock(millis int64, zone *time.Location) clock {
	c := clock{zone: zone}
	c.show(millis)
	return c
}

// show sets the clock to an instant.
func (c *clock) show(millis int64) {
	c.millis, c.offset = millis, offsetAt(millis, c.zone)
	reading := time.UnixMilli(millis + c.offset).UTC()
	year, month, day := reading.Date()
	c.year, c.month, c.day, c.weekday = year, int(month), day, int(reading.Weekday())
	c.hour, c.minute, c.second = reading.Clock()
	c.millisecond = reading.Nanosecond() / int(time.Millisecond)
}

// settle sets the clock to the instant of its local time after some fields have changed. Fields may be out of
// range: day 32 is in the next month.
func (c *clock) settle() {
	reading := time.Date(c.year, time.Month(c.month), c.day, c.hour, c.minute, c.second,
		c.millisecond*int(time.Millisecond), time.UTC).UnixMilli()
	guess := offsetAt(reading-c.offset, c.zone)
	if guess != c.offset {
		// If neither offset fits the guess, the local time is in a gap. The smaller offset leads past its
		// end.
		guess = min(guess, offsetAt(reading-guess, c.zone))
	}
	c.show(reading - guess)
}

// inRange reports whether JavaScript can represent the instant and its local time.
func (c *clock) inRange() bool {
	within := func(millis int64) bool { return -lastDate <= millis && millis <= lastDate }
	return within(c.millis) && within(c.millis+c.offset)
}

func offsetAt(millis int64, zone *time.Location) int64 {
	_, seconds := time.UnixMilli(millis).In(zone).Zone()
	return int64(seconds) * 1000
}

// daysIn returns the number of days of a month.
func daysIn(year, month int) int {
	return time.Date(year, time.Month(month)+1, 0, 0, 0, 0, 0, time.UTC).Day()
}

// unit is a unit of clock or calendar, in order of size.
type unit int

const (
	second unit = iota
	minute
	hour
	day
	month
)

// move moves by one unit, forward (n = 1) or backward (n = -1). Units up to an hour are elapsed time. Days
// and months keep the time of day. Months keep the day, or use the last one if the month is shorter.
func (c *clock) move(u unit, n int) {
	switch u {
	case second:
		c.show(c.millis + int64(n)*1000)
	case minute:
		c.show(c.millis + int64(n)*60*1000)
	case hour:
		c.show(c.millis + int64(n)*60*60*1000)
	case day:
		c.day += n
		c.settle()
	case month:
		c.month += n
		c.day = min(c.day, daysIn(c.year, c.month))
		c.settle()
	}
}

// toStartOf moves to the start of the current unit.
func (c *clock) toStartOf(u unit) {
	c.millisecond = 0
	if u >= minute {
		c.second = 0
	}
	if u >= hour {
		c.minute = 0
	}
	if u >= day {
		c.hour = 0
	}
	if u >= month {
		c.day = 1
	}
	c.settle()
}

// toLastMillisecondOf moves to the end of the current unit, which is the millisecond before the next one.
// After a clock change it may differ from 59.999.
func (c *clock) toLastMillisecondOf(u unit) {
	c.move(u, 1)
	c.toStartOf(u)
	c.show(c.millis - 1)
}

func (c *clock) toLastSecondOf(u unit) {
	c.toLastMillisecondOf(u)
	c.toStartOf(second)
}

func (c *clock) setHour(n int)   { c.hour = n; c.settle() }
func (c *clock) setMinute(n int) { c.minute = n; c.settle() }
func (c *clock) setSecond(n int) { c.second = n; c.settle() }
