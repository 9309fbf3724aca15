package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// report holds all results.
type report struct {
	environment string
	names       []string // of the contenders, Node first
	tables      []table
	growth      []grown
	shards      []shardRow
	typed       *typedCost // nil if it was not measured
	http        []httpRound
	baseline    []baselineRow
}

// text returns the report in Markdown.
func (r report) text() string {
	parts := []string{r.environment}
	for _, t := range r.tables {
		if len(t.figures) > 0 {
			parts = append(parts, "### "+t.title, r.comparison(t))
		}
	}
	if len(r.growth) > 0 {
		parts = append(parts, "### Growth", growthTable(r.growth))
	}
	if len(r.shards) > 0 {
		parts = append(parts, "### Shards", shardsTable(r.shards))
	}
	if r.typed != nil {
		parts = append(parts, "### Job types, mux and middleware", r.typed.table())
	}
	if len(r.http) > 0 {
		parts = append(parts, "### HTTP requests as jobs", httpTable(r.http))
	}
	if len(r.baseline) > 0 {
		parts = append(parts, "### Baseline", r.baselineTable())
	}
	if verdict := r.verdict(); verdict != "" {
		parts = append(parts, "### Goals", verdict)
	}
	for i := range parts {
		parts[i] = strings.TrimRight(parts[i], "\n")
	}
	return strings.Join(parts, "\n\n") + "\n"
}

// comparison returns a table of the contenders with ratios to the first one.
func (r report) comparison(t table) string {
	var b strings.Builder
	b.WriteString("| |")
	for i, name := range r.names {
		fmt.Fprintf(&b, " %s |", name)
		if i > 0 {
			b.WriteString(" ratio |")
		}
	}
	b.WriteString("\n|---|" + strings.Repeat("--:|", 2*len(r.names)-1) + "\n")
	for _, f := range t.figures {
		fmt.Fprintf(&b, "| %s |", f.title)
		for i, name := range r.names {
			fmt.Fprintf(&b, " %s |", f.text(name))
			if i > 0 {
				fmt.Fprintf(&b, " %s |", f.ratioText(name))
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

func growthTable(rows []grown) string {
	var b strings.Builder
	b.WriteString("| | add: time | ratio | add: Redis CPU | ratio | process: time | ratio | process: Redis CPU | ratio |\n" +
		"|---|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, g := range rows {
		name := "1,000 → 1,000,000 jobs " + g.title
		if g.title == queuesTitle {
			name = "1 → 1,000 queues"
		}
		if g.title == queuesBaselineTitle {
			name = "1 → 1,000 queues, baseline"
		}
		fmt.Fprintf(&b, "| %s |", name)
		for _, c := range []compared{g.add, g.process} {
			if c == (compared{}) {
				b.WriteString(" | | | |")
				continue
			}
			fmt.Fprintf(&b, " %s → %s µs | %s | %s → %s µs | %s |",
				number(c.few.micros), number(c.many.micros), ratioText(c.ratio.micros),
				number(c.few.redisCPU), number(c.many.redisCPU), ratioText(c.ratio.redisCPU))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// baselineTable compares the baseline with the contenders.
func (r report) baselineTable() string {
	var b strings.Builder
	b.WriteString("| | Node | baseline | ratio | bullmq-go | ratio | baseline, 1,000 → 1,000,000 waiting |\n|---|--:|--:|--:|--:|--:|--:|\n")
	for _, f := range r.baseline {
		fmt.Fprintf(&b, "| %s |", f.title)
		for _, name := range []string{nodeName, baselineName, ownName} {
			fmt.Fprintf(&b, " %s |", f.text(name))
			if name != nodeName {
				fmt.Fprintf(&b, " %s |", f.ratioText(name))
			}
		}
		fmt.Fprintf(&b, " %s |\n", ratioText(f.among))
	}
	return b.String()
}

// number formats a value with about three significant digits and thousands separators.
func number(value float64) string {
	switch magnitude := math.Abs(value); {
	case magnitude >= 1000:
		text := strconv.FormatFloat(math.Round(value), 'f', 0, 64)
		for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
			text = text[:i] + "," + text[i:]
		}
		return text
	case magnitude >= 100:
		return fmt.Sprintf("%.0f", value)
	case magnitude >= 10:
		return fmt.Sprintf("%.1f", value)
	default:
		return fmt.Sprintf("%.2f", value)
	}
}

// text returns a contender's cell, which is empty if it was not measured.
func (f figure) text(name string) string {
	value, known := f.of(name)
	if !known {
		return ""
	}
	return number(value) + " " + f.unit
}

func (f figure) ratioText(name string) string {
	ratio, known := f.ratio(name)
	if !known {
		return ""
	}
	return ratioText(ratio)
}

func ratioText(ratio float64) string { return number(ratio) + "×" }

// write writes the report between the markers in benchmarks.md, the picture next to it, and the table of shards between
// the markers in scaling.md.
func (r report) write(directory string) error {
	picture := "![The rows of the tables as multiples of Node's bullmq](benchmarks.svg)\n\n"
	if err := writeBetween(filepath.Join(directory, "benchmarks.md"), "figures", picture+r.text()); err != nil {
		return err
	}
	if len(r.shards) > 0 {
		if err := writeBetween(filepath.Join(directory, "scaling.md"), "shards", r.environment+"\n\n"+shardsTable(r.shards)); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(directory, "benchmarks.svg"), []byte(r.picture()), 0o644)
}

// writeBetween replaces the text between the two marker lines of a page.
func writeBetween(path, marker, text string) error {
	begin, end := "<!-- "+marker+": begin -->", "<!-- "+marker+": end -->"
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, found := strings.Cut(string(page), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		return fmt.Errorf("%s lacks the marker lines %s and %s", path, begin, end)
	}
	return os.WriteFile(path, []byte(before+begin+"\n"+text+end+after), 0o644)
}
