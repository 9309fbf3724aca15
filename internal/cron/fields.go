package cron

import "strings"

// Fields are the values that a schedule allows, in ascending order, for a description of the
// schedule.
type Fields struct {
	Seconds, Minutes, Hours, Months []int
	// Days are days of the month. LastDay adds the last one.
	Days    []int
	LastDay bool
	// Weekdays are days of the week, with Sunday as 0. With Nth from 1 to 5 only the nth one
	// in a month counts. LastWeekdays are those of which only the last one in a month counts.
	Weekdays, LastWeekdays []int
	Nth                    int
	// AnyDay and AnyWeekday report whether the field is a wildcard. If neither is, a day that
	// matches one of them is enough.
	AnyDay, AnyWeekday bool
}

// Fields returns the values that the schedule allows.
func (s Schedule) Fields() Fields {
	return Fields{
		Seconds: s.seconds.list(), Minutes: s.minutes.list(), Hours: s.hours.list(), Months: s.months.list(),
		Days: s.days.list(), LastDay: s.lastDay,
		Weekdays: s.weekdays.list(), LastWeekdays: s.lastWeekdays.list(), Nth: s.nth,
		AnyDay: s.anyDay, AnyWeekday: s.anyWeekday,
	}
}

func (s set) list() (members []int) {
	for n := range 64 {
		if s.has(n) {
			members = append(members, n)
		}
	}
	return members
}

// Drawn reports which of the six fields of a pattern have H, so that [Parse] draws their
// values: second, minute, hour, day of the month, month, day of the week. It returns none
// for a pattern that can't be parsed.
func Drawn(pattern string) (drawn [6]bool) {
	texts, wrong := split(pattern)
	if wrong != nil {
		return drawn
	}
	for i, text := range texts {
		drawn[i] = strings.Contains(threeLetters.ReplaceAllString(text, ""), "H")
	}
	return drawn
}
