package dashboard

import (
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// formatCount returns a number with separators, such as 12,345.
func formatCount(n int) string {
	text := strconv.Itoa(n)
	for at := len(text) - 3; at > 0 && text[at-1] != '-'; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// number returns a number with the noun that it counts, such as 1 queue or 2 queues.
func number(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return formatCount(n) + " " + noun + "s"
}

// formatAge returns a duration in its largest units, such as 3 m 20 s.
func formatAge(d time.Duration) string {
	units := []struct {
		name   string
		length time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}}
	for i, unit := range units {
		if d < unit.length {
			continue
		}
		text := fmt.Sprintf("%d %s", d/unit.length, unit.name)
		if rest := d % unit.length; i+1 < len(units) && rest >= units[i+1].length {
			text += fmt.Sprintf(" %d %s", rest/units[i+1].length, units[i+1].name)
		}
		return text
	}
	return fmt.Sprintf("%d ms", d.Milliseconds())
}

// parseAge returns the duration that a text such as 90s, 5m, 1h30m or 2d means; 0 for "".
func parseAge(text string) (time.Duration, error) {
	text = strings.ReplaceAll(text, " ", "")
	if text == "" || text == "0" {
		return 0, nil
	}
	days := time.Duration(0)
	rest := text
	if count, after, ok := strings.Cut(text, "d"); ok {
		n, err := strconv.Atoi(count)
		if err != nil || n < 0 || n > 36500 {
			return 0, fmt.Errorf("%q is not a duration such as 90s, 5m, 1h30m or 2d", cut(text, 40))
		}
		days, rest = time.Duration(n)*24*time.Hour, after
	}
	d := time.Duration(0)
	if rest != "" {
		var err error
		if d, err = time.ParseDuration(rest); err != nil || d < 0 || d > 36500*24*time.Hour {
			return 0, fmt.Errorf("%q is not a duration such as 90s, 5m, 1h30m or 2d", cut(text, 40))
		}
	}
	return (days + d).Round(time.Millisecond), nil
}

// formatShort returns a duration with three digits, such as 1.25 s.
func formatShort(d time.Duration) string {
	for _, unit := range []struct {
		name   string
		length time.Duration
	}{{"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}} {
		if d >= unit.length {
			return strconv.FormatFloat(float64(d)/float64(unit.length), 'g', 3, 64) + " " + unit.name
		}
	}
	return fmt.Sprintf("%d ms", d.Milliseconds())
}

// formatTime returns a time for a reader, and formatClock for a program.
func formatTime(t time.Time) string  { return t.UTC().Format("2006-01-02 15:04:05.000 UTC") }
func formatClock(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// when shows a time, and ago the time that has passed since then. A browser without
// JavaScript shows both in UTC, see assets/time.js.
func when(t time.Time) template.HTML { return timeElement(t, "") }
func ago(t time.Time) template.HTML  { return timeElement(t, ` class="ago"`) }

// next shows the time until a run, which is due when none is left.
func next(t time.Time) template.HTML { return timeElement(t, ` class="ago next"`) }

func timeElement(t time.Time, class string) template.HTML {
	if t.IsZero() {
		return ""
	}
	return template.HTML(fmt.Sprintf(`<time%s datetime="%s">%s</time>`, class, formatClock(t), formatTime(t))) // digits only
}

// tone returns the class of a badge of a state.
func tone(state bullmq.State) string {
	switch state {
	case bullmq.StateFailed:
		return "bad"
	case bullmq.StateCompleted:
		return "good"
	case bullmq.StateActive:
		return "warn"
	}
	return ""
}

// cut returns at most the first bytes of a text. Invalid UTF-8 is replaced.
func cut(text string, bytes int) string {
	if len(text) > bytes {
		for bytes > 0 && !utf8.RuneStart(text[bytes]) {
			bytes--
		}
		text = text[:bytes] + "…"
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// formatRate returns a number of jobs in a minute; a dash if it is less than 0, which is unknown.
func formatRate(n float64) string {
	switch {
	case n < 0:
		return "–"
	case n > 0 && n < 10:
		return strconv.FormatFloat(n, 'f', 1, 64)
	}
	return formatCount(int(n + 0.5))
}

// bars draws the completed and the failed jobs by minute, given newest first, oldest at the
// left.
func bars(completed, failed []int) template.HTML {
	const minutes, height = 60, 20
	at := func(points []int, i int) int {
		if i < len(points) {
			return points[i]
		}
		return 0
	}
	largest, total, bad := 0, 0, 0
	for i := range minutes {
		largest = max(largest, at(completed, i)+at(failed, i))
		total, bad = total+at(completed, i), bad+at(failed, i)
	}
	if largest == 0 {
		return ""
	}
	var done, lost strings.Builder
	bar := func(out *strings.Builder, i int, from, to int) {
		if to > from {
			high := max(float64(to-from)/float64(largest)*height, 1)
			fmt.Fprintf(out, "M%d %.1fv%.1fh1.6v%.1fz", 2*(minutes-1-i), height-float64(from)/float64(largest)*height, -high, high)
		}
	}
	for i := range minutes {
		bar(&done, i, 0, at(completed, i))
		bar(&lost, i, at(completed, i), at(completed, i)+at(failed, i))
	}
	return template.HTML(fmt.Sprintf(`<svg class="bars" viewBox="0 0 %d %d" role="img" aria-label="%s completed and %s failed, at most %s in a minute"><path d="M0 19.5h120v.5H0z"/><path d="%s"/><path class="failed" d="%s"/></svg>`,
		2*minutes, height, formatCount(total), formatCount(bad), formatCount(largest), done.String(), lost.String())) // numbers only
}
