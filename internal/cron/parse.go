package cron

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"unicode/utf16"
)

// maxLength is the maximum length of a pattern in UTF-16 code units.
const maxLength = 1024

// shorthands maps named patterns. As in the reference, the spelling is case-sensitive.
var shorthands = map[string]string{
	"@yearly":   "0 0 0 1 1 *",
	"@annually": "0 0 0 1 1 *",
	"@monthly":  "0 0 0 1 * *",
	"@weekly":   "0 0 0 * * 0",
	"@daily":    "0 0 0 * * *",
	"@hourly":   "0 0 * * * *",
	"@minutely": "0 * * * * *",
	"@secondly": "* * * * * *",
	"@weekdays": "0 0 0 * * 1-5",
	"@weekends": "0 0 0 * * 0,6",
}

// PatternError describes why a pattern is invalid and what to write instead.
type PatternError struct {
	Pattern string // as given
	Field   string // the invalid field, such as "day of the week"; empty if the error concerns the whole pattern
	Value   string // the text of that field
	Problem string // what is wrong
	Remedy  string // what to write instead
}

func (e *PatternError) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("cron pattern %q: %s: %s", e.Pattern, e.Problem, e.Remedy)
	}
	return fmt.Sprintf("cron pattern %q: %s %q: %s: %s", e.Pattern, e.Field, e.Value, e.Problem, e.Remedy)
}

// flaw is a PatternError without its position.
type flaw struct{ problem, remedy string }

func flawf(remedy, problem string, args ...any) *flaw {
	return &flaw{fmt.Sprintf(problem, args...), remedy}
}

// Parse parses a pattern. It accepts exactly the patterns that BullMQ accepts, with the exception below, and
// returns a [*PatternError] for others. Some results may be surprising:
//
//   - The shorthands are @yearly, @annually, @monthly, @weekly, @daily, @hourly, @minutely, @secondly, @weekdays and
//     @weekends, in lower case.
//   - With fewer than five fields, those on the left are filled in: "5" is every minute of every Friday.
//   - A value listed twice is an error: "1,1", "1,0-5", and "0,7", which is Sunday twice.
//   - A date that no year has (30 February) is an error, but only if the pattern has one month and allows any
//     day of the week. Other impossible dates parse and never fire.
//   - Days that a single month lacks are dropped if others remain: "28-31" in February is "28,29".
//   - Each Parse draws new values for H; see [ParseSeeded].
//
// The exception is a number with a fraction next to H/n or H(m-n), as in "H/5,1.5". The reference accepts it
// and then computes wrong runs; Parse returns an error.
func Parse(pattern string) (Schedule, error) {
	return parse(pattern, rand.Float64)
}

// ParseSeeded is like [Parse] but draws the values for H from a seed: the same pattern and seed give the same
// schedule, here and in Node. The seed is cron-parser's option hashSeed, which BullMQ passes through with the
// repeat options. An empty seed counts as none, as in cron-parser.
func ParseSeeded(pattern, seed string) (Schedule, error) {
	if seed == "" {
		return Parse(pattern)
	}
	return parse(pattern, newLottery(seed).draw)
}

// parse parses a pattern. It calls draw once per field for a number in [0, 1).
func parse(pattern string, draw func() float64) (Schedule, error) {
	raw, wrong := split(pattern)
	if wrong != nil {
		return Schedule{}, &PatternError{Pattern: pattern, Problem: wrong.problem, Remedy: wrong.remedy}
	}
	refuse := func(f *field, why *flaw) (Schedule, error) {
		return Schedule{}, &PatternError{pattern, f.name, raw[f.place], why.problem, why.remedy}
	}
	texts := raw
	var nth int
	if texts[weekdays.place], nth, wrong = splitNth(raw[weekdays.place]); wrong != nil {
		return refuse(weekdays, wrong)
	}
	var lists [6][]item
	for _, f := range drawOrder {
		if lists[f.place], wrong = f.list(texts[f.place], draw()); wrong != nil {
			return refuse(f, wrong)
		}
	}
	s := Schedule{
		lastDay:    strings.Contains(raw[days.place], "L"),
		anyDay:     isWildcard(raw[days.place]),
		anyWeekday: isWildcard(raw[weekdays.place]),
		nth:        nth,
	}
	needed := s.anyWeekday && !s.lastDay
	if lists[days.place], wrong = datesOf(lists[days.place], lists[months.place], needed); wrong != nil {
		return refuse(days, wrong)
	}
	for _, f := range drawOrder {
		if wrong = f.checkRepeats(lists[f.place]); wrong != nil {
			return refuse(f, wrong)
		}
	}
	s.seconds = numbersOf(lists[seconds.place])
	s.minutes = numbersOf(lists[minutes.place])
	s.hours = numbersOf(lists[hours.place])
	s.days = numbersOf(lists[days.place])
	s.months = numbersOf(lists[months.place])
	s.weekdays, s.lastWeekdays = weekdaysOf(lists[weekdays.place], strings.Contains(raw[weekdays.place], "L"))
	return s, nil
}

// split splits a pattern into its six fields.
func split(pattern string) (texts [6]string, wrong *flaw) {
	full, ok := shorthands[pattern]
	if !ok {
		full = pattern
	}
	if n := len(utf16.Encode([]rune(full))); n > maxLength {
		return texts, flawf(fmt.Sprintf("use at most %d", maxLength), "%d characters are too many", n)
	}
	given := strings.FieldsFunc(full, isSpace)
	switch {
	case len(given) == 0:
		return texts, flawf(`give five or six fields, such as "0 3 * * *" for every day at three`, "the pattern is empty")
	case len(given) == 1 && strings.HasPrefix(given[0], "@"):
		known := slices.Sorted(maps.Keys(shorthands))
		return texts, flawf("the shorthands are "+strings.Join(known, ", "), "no such shorthand")
	case len(given) > len(texts):
		return texts, flawf("give five, or six with the second first", "%d fields are too many", len(given))
	}
	texts = [6]string{"0", "*", "*", "*", "*", "*"}
	copy(texts[len(texts)-len(given):], given)
	return texts, nil
}

// isSpace reports whether JavaScript counts a character as white space.
func isSpace(r rune) bool {
	switch {
	case '\t' <= r && r <= '\r', r == ' ', r == 0xa0, r == 0x1680, 0x2000 <= r && r <= 0x200a,
		r == 0x2028, r == 0x2029, r == 0x202f, r == 0x205f, r == 0x3000, r == 0xfeff:
		return true
	}
	return false
}

func isWildcard(text string) bool { return text == "*" || text == "?" }

// splitNth splits the occurrence from a weekday: 5#2 is the second Friday of a month.
func splitNth(text string) (weekday string, nth int, wrong *flaw) {
	weekday, count, found := strings.Cut(text, "#")
	if !found {
		return text, 0, nil
	}
	if strings.ContainsAny(text, ",-/") {
		return "", 0, flawf(`write one day, such as "5#2"`, "# cannot be combined with a list, a range or a step")
	}
	n, ok := number(count)
	if !ok || n < 1 || n > 5 {
		return "", 0, flawf(`use 1 to 5 after the #, such as "5#2" for the second Friday`, "no occurrence %q", count)
	}
	if n != float64(int(n)) {
		return weekday, never, nil
	}
	return weekday, int(n), nil
}

// datesOf drops days that a single month lacks. If none remain, it returns an error if they are needed, and
// otherwise the unchanged days, which have no effect.
func datesOf(days, months []item, needed bool) ([]item, *flaw) {
	if len(months) != 1 {
		return days, nil
	}
	const leapYear = 2000
	length := daysIn(leapYear, months[0].number)
	kept := slices.DeleteFunc(slices.Clone(days), func(i item) bool { return i.number > length })
	switch {
	case len(kept) > 0:
		return kept, nil
	case needed:
		return nil, flawf(fmt.Sprintf("use 1 to %d, or L for the last day", length), "month %d has no such day", months[0].number)
	default:
		return days, nil
	}
}
