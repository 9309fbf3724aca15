package cronwords

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/17a2ac88/bullmq-go/internal/cron"
)

var (
	monthNames   = []string{"", "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"}
	weekdayNames = []string{"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"}
	nthNames     = []string{"", "first", "second", "third", "fourth", "fifth"}
)

// daysOf describes days; it returns "" for every day.
func daysOf(f cron.Fields, drawn [6]bool) string {
	months := monthsOf(f.Months, drawn[4])
	var parts []string
	if !f.AnyDay {
		parts = append(parts, dates(f, drawn, months))
	}
	if !f.AnyWeekday {
		parts = append(parts, weekdays(f, drawn, months))
	}
	parts = slices.DeleteFunc(parts, func(part string) bool { return part == "" })
	switch len(parts) {
	case 0:
		if months == "" {
			return ""
		}
		return "every day in " + months
	case 1:
		return parts[0]
	}
	return parts[0] + " and " + parts[1]
}

// dates describes days of the month.
func dates(f cron.Fields, drawn [6]bool, months string) string {
	of := "every month"
	if months != "" {
		of = months
	}
	var what string
	switch {
	case drawn[3]:
		return "on a random day of " + of
	case len(f.Days) == 31:
		if months == "" {
			return ""
		}
		return "every day in " + months
	case f.LastDay && len(f.Days) == 0:
		return "on the last day of " + of
	case everySecond(f.Days) > 1:
		return fmt.Sprintf("on every %s day of %s, from the 1st", ordinal(everySecond(f.Days)), monthOr(months))
	case len(f.Days) > 2 && f.Days[len(f.Days)-1]-f.Days[0] == len(f.Days)-1:
		what = ordinal(f.Days[0]) + " to " + ordinal(f.Days[len(f.Days)-1])
	default:
		var days []string
		for _, day := range f.Days {
			days = append(days, ordinal(day))
		}
		what = and(days)
	}
	if f.LastDay {
		what += " and the last day"
	}
	return "on the " + what + " of " + of
}

func monthOr(months string) string {
	if months == "" {
		return "the month"
	}
	return months
}

// everySecond returns the step of days that begin with the 1st, such as */2; 0 for others.
func everySecond(days []int) int {
	if len(days) < 4 || days[0] != 1 {
		return 0
	}
	step := days[1] - days[0]
	for i, day := range days {
		if day != 1+i*step {
			return 0
		}
	}
	if step > 1 && days[len(days)-1]+step > 31 {
		return step
	}
	return 0
}

// weekdays describes days of the week.
func weekdays(f cron.Fields, drawn [6]bool, months string) string {
	in, of := "", " of every month"
	if months != "" {
		in, of = " in "+months, " of "+months
	}
	last := slices.DeleteFunc(slices.Clone(f.LastWeekdays), func(day int) bool { return slices.Contains(f.Weekdays, day) })
	var parts []string
	switch {
	case drawn[5]:
		return "on a random day of the week" + in
	case f.Nth < 0:
		return "on no day"
	case f.Nth > 0:
		return "on the " + nthNames[f.Nth] + " " + and(names(f.Weekdays, "")) + of
	case len(f.Weekdays) == 7:
		if in == "" {
			return ""
		}
		return "every day" + in
	case len(f.Weekdays) > 2 && f.Weekdays[len(f.Weekdays)-1]-f.Weekdays[0] == len(f.Weekdays)-1:
		parts = append(parts, weekdayNames[f.Weekdays[0]]+" to "+weekdayNames[f.Weekdays[len(f.Weekdays)-1]]+in)
	case len(f.Weekdays) > 0:
		days := slices.Clone(f.Weekdays)
		if days[0] == 0 { // a week begins on Monday for a reader
			days = append(days[1:], 0)
		}
		parts = append(parts, "on "+and(names(days, "s"))+in)
	}
	if len(last) > 0 {
		parts = append(parts, "on the last "+and(names(last, ""))+of)
	}
	return and(parts)
}

func names(days []int, ending string) (names []string) {
	for _, day := range days {
		names = append(names, weekdayNames[day%7]+ending)
	}
	return names
}

// monthsOf describes months; it returns "" for all.
func monthsOf(months []int, drawn bool) string {
	switch {
	case drawn && len(months) == 1:
		return "a random month"
	case len(months) == 12:
		return ""
	case len(months) > 2 && months[len(months)-1]-months[0] == len(months)-1:
		return monthNames[months[0]] + " to " + monthNames[months[len(months)-1]]
	}
	var names []string
	for _, month := range months {
		names = append(names, monthNames[month])
	}
	return and(names)
}

// and joins texts, such as a, b and c.
func and(texts []string) string {
	if len(texts) < 2 {
		return strings.Join(texts, "")
	}
	return strings.Join(texts[:len(texts)-1], ", ") + " and " + texts[len(texts)-1]
}

func numbers(list []int) (texts []string) {
	for _, n := range list {
		texts = append(texts, strconv.Itoa(n))
	}
	return texts
}

// ordinal returns an ordinal number, such as 1st.
func ordinal(n int) string {
	ending := "th"
	if n%100 < 11 || n%100 > 13 {
		switch n % 10 {
		case 1:
			ending = "st"
		case 2:
			ending = "nd"
		case 3:
			ending = "rd"
		}
	}
	return strconv.Itoa(n) + ending
}
