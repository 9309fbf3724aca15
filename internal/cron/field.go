package cron

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// field is one of the six fields of a pattern.
type field struct {
	place    int
	name     string
	min, max int
	named    bool // has three-letter names
	last     bool // has L
	week     bool // cyclic: 7 is 0
}

var (
	seconds  = &field{place: 0, name: "second", min: 0, max: 59}
	minutes  = &field{place: 1, name: "minute", min: 0, max: 59}
	hours    = &field{place: 2, name: "hour", min: 0, max: 23}
	days     = &field{place: 3, name: "day of the month", min: 1, max: 31, last: true}
	months   = &field{place: 4, name: "month", min: 1, max: 12, named: true}
	weekdays = &field{place: 5, name: "day of the week", min: 0, max: 7, named: true, last: true, week: true}

	// drawOrder is the order in which the reference draws random values for H.
	drawOrder = []*field{seconds, minutes, hours, months, days, weekdays}
)

// item is one value that a field allows: a number, or the text of a value that ends in L.
type item struct {
	number int
	last   string
}

// maxItems limits the number of values in a field.
const maxItems = 256

// names maps month and weekday names to numbers. Like the reference, both fields accept both: "mon" is
// January in the month field, and "jan" is Monday in the weekday field.
var names = map[string]int{
	"jan": 1, "feb": 2, "mar": 3, "apr": 4, "may": 5, "jun": 6,
	"jul": 7, "aug": 8, "sep": 9, "oct": 10, "nov": 11, "dec": 12,
	"sun": 0, "mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6,
}

var (
	threeLetters = regexp.MustCompile(`[A-Za-z]{3}`)
	// If one of these occurs, the reference does not restrict the characters of the field.
	allowsAll = regexp.MustCompile(`H\([0-9]+-[0-9]+\)|H/[0-9]+`)
	lastItem  = regexp.MustCompile(`^[0-9]{0,2}L$`)
)

// list parses a field. Like the reference it replaces text: first names, then wildcards, then H. The order is
// observable: "1*" in the seconds becomes "10-59".
func (f *field) list(text string, luck float64) ([]item, *flaw) {
	text, wrong := f.replaceNames(text)
	if wrong != nil {
		return nil, wrong
	}
	allowed := "0123456789,-/*?H"
	if f.last {
		allowed += "L"
	}
	if (text == "" || strings.Trim(text, allowed) != "") && !allowsAll.MatchString(text) {
		return nil, flawf(f.remedy(), "unexpected characters")
	}
	all := fmt.Sprintf("%d-%d", f.min, f.max)
	text = strings.NewReplacer("*", all, "?", all).Replace(text)
	if text, wrong = f.replaceHashes(text, luck); wrong != nil {
		return nil, wrong
	}
	var items []item
	for part := range strings.SplitSeq(text, ",") {
		if len(items) > maxItems {
			return nil, flawf("list each value once", "more than %d values", maxItems)
		}
		more, wrong := f.part(part)
		if wrong != nil {
			return nil, wrong
		}
		items = append(items, more...)
	}
	return items, nil
}

// remedy describes the values that the field accepts.
func (f *field) remedy() string {
	may := fmt.Sprintf("use numbers from %d to %d", f.min, f.max)
	if f.named {
		may += " or three-letter names"
	}
	may += ", with , - / * ? H"
	if f.last {
		may += " L"
	}
	if f.week {
		may += " #"
	}
	return may
}

func (f *field) replaceNames(text string) (string, *flaw) {
	if !f.named || text == "*" {
		return text, nil
	}
	var unknown string
	text = threeLetters.ReplaceAllStringFunc(text, func(name string) string {
		n, ok := names[strings.ToLower(name)]
		if !ok && unknown == "" {
			unknown = name
		}
		return strconv.Itoa(n)
	})
	if unknown != "" {
		return "", flawf(`use the first three letters of the English name, such as "jan" or "mon"`, "no name %q", unknown)
	}
	return text, nil
}

// part parses one element of a list.
func (f *field) part(text string) ([]item, *flaw) {
	if text == "" {
		return nil, flawf("put a value on each side of a comma", "a value is missing")
	}
	values, every, stepped := strings.Cut(text, "/")
	step := 1.0
	if stepped {
		if strings.Contains(every, "/") {
			return nil, flawf("use one step for each range", "%q has two steps", text)
		}
		if !strings.Contains(values, "-") {
			values += fmt.Sprintf("-%d", f.max)
		}
		var ok bool
		if step, ok = leadingNumber(every); !ok || step <= 0 {
			return nil, flawf("use a number from 1 after the slash", "%q is not a step", every)
		}
	}
	if ends := strings.Split(values, "-"); len(ends) > 1 {
		return f.span(ends[0], ends[1], step)
	}
	one, wrong := f.value(values)
	return []item{one}, wrong
}

// span parses a range. Like the reference it ignores what follows a number at either end: "1L-5" is "1-5".
func (f *field) span(from, to string, step float64) ([]item, *flaw) {
	first, ok1 := leadingNumber(from)
	last, ok2 := leadingNumber(to)
	switch {
	case !ok1 || !ok2:
		return nil, flawf("put a number on each side of the dash", "%q to %q is not a range", from, to)
	case first < float64(f.min) || last > float64(f.max):
		return nil, flawf(f.remedy(), "the range %s-%s exceeds %d-%d", from, to, f.min, f.max)
	case first > last:
		return nil, flawf("put the smaller number first", "the range %s-%s runs backward", from, to)
	}
	var items []item
	for n := first; n <= last; n += step {
		items = append(items, item{number: f.round(n)})
	}
	if f.week && first == 0 && len(items) > 1 && items[len(items)-1].number == 0 {
		items = items[1:] // 0 and 7 are the same day
	}
	return items, nil
}

// value parses a number, or a value that ends in L.
func (f *field) value(text string) (item, *flaw) {
	n, ok := number(text)
	if !ok && f.last && strings.Contains(text, "L") {
		if !lastItem.MatchString(text) || f.week && text == "L" {
			return item{}, flawf(f.remedy(), "%q is not a last day", text)
		}
		return item{last: text}, nil
	}
	if f.week && !ok {
		n, ok = leadingNumber(text)
	}
	if f.week && n >= 1e21 {
		// JavaScript formats it as 1e+21, and the reference parses the digits before the e.
		n, ok = leadingNumber(strconv.FormatFloat(n, 'e', -1, 64))
	}
	switch {
	case !ok || n != math.Trunc(n):
		return item{}, flawf(f.remedy(), "%q is not a whole number", text)
	case n < float64(f.min) || n > float64(f.max):
		return item{}, flawf(f.remedy(), "%s is not in %d-%d", text, f.min, f.max)
	}
	return item{number: f.round(n)}, nil
}

// round returns the number that a value has in a cyclic field.
func (f *field) round(n float64) int {
	if f.week {
		return int(n) % 7
	}
	return int(n)
}

func (f *field) checkRepeats(items []item) *flaw {
	for i, each := range items {
		if slices.Contains(items[:i], each) {
			value := each.last
			if value == "" {
				value = strconv.Itoa(each.number)
			}
			return flawf("list each value once", "%s is listed twice", value)
		}
	}
	return nil
}

// numbersOf returns the numbers in items.
func numbersOf(items []item) set {
	var s set
	for _, each := range items {
		if each.last == "" {
			s.add(each.number)
		}
	}
	return s
}

// weekdaysOf returns the weekdays in items, and those of which only the last in a month counts. If any value
// has an L, all of them are of the second kind. The first digit before an L is the weekday.
func weekdaysOf(items []item, last bool) (every, ofLast set) {
	every = numbersOf(items)
	if last {
		ofLast = every
		for _, each := range items {
			if each.last != "" {
				ofLast.add(int(each.last[0]-'0') % 7)
			}
		}
	}
	return every, ofLast
}
