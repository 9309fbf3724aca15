package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// tone is the number of an ANSI colour or style; "" is the terminal's default.
type tone string

const (
	bold    tone = "1"
	faint   tone = "2"
	red     tone = "31"
	green   tone = "32"
	yellow  tone = "33"
	blue    tone = "34"
	magenta tone = "35"
	cyan    tone = "36"
)

// table draws rows in a box that is as wide as the terminal.
type table struct {
	to      io.Writer
	colour  bool
	columns []column
	inner   int // cells inside the borders and margins
}

type column struct {
	title string
	size  int
	right bool
}

const (
	narrowest = 72
	widest    = 120
	gap       = "  "
)

func newTable(to io.Writer, terminal int, colour bool) *table {
	t := &table{to: to, colour: colour, inner: min(max(terminal, narrowest), widest) - 4}
	event := 12
	if t.inner > 95 {
		event = 17 // length of the longest, retries-exhausted
	}
	t.columns = []column{
		{"time", 5, true}, {"queue", 6, false}, {"who", 9, false}, {"job", 3, true}, {"name", 8, false},
		{"event", event, false}, {"detail", 0, false},
	}
	rest := t.inner - len(gap)*(len(t.columns)-1)
	for _, c := range t.columns {
		rest -= c.size
	}
	t.columns[len(t.columns)-1].size = rest
	return t
}

func (t *table) title(text string) { fmt.Fprintln(t.to, t.paint(text, bold)) }

func (t *table) begin() {
	t.rule("╭", "╮", t.inner)
	titles := make([]string, len(t.columns))
	for i, c := range t.columns {
		titles[i] = t.paint(fit(c.title, c.size, c.right), bold)
	}
	t.line(strings.Join(titles, gap))
	t.rule("├", "┤", t.inner)
}

func (t *table) row(r row) {
	who := t.paint(r.producer, languages[r.producer])
	if r.producer != "" {
		who += t.paint(" →", faint)
	}
	if r.worker != "" {
		who += " " + t.paint(r.worker, languages[r.worker])
	}
	texts := []string{r.time, r.queue, "", r.job, r.name, string(r.event), r.detail}
	paints := []tone{faint, "", "", "", "", tones[r.event], ""}
	if tones[r.event] == faint {
		paints[4], paints[6] = faint, faint
	}
	painted := make([]string, len(texts))
	for i, c := range t.columns {
		painted[i] = t.paint(fit(texts[i], c.size, c.right), paints[i])
	}
	painted[2] = who + strings.Repeat(" ", max(t.columns[2].size-width(route(r.producer, r.worker)), 0))
	t.line(strings.Join(painted, gap))
}

// end closes the box. It overwrites the ^C that the terminal shows on an interrupt.
func (t *table) end() {
	fmt.Fprint(t.to, "\r")
	t.rule("╰", "╯", t.inner)
}

// summary shows the sums by producer and worker.
func (t *table) summary(exchanges []*exchange) {
	const label, number = 10, 10
	inner := label + (len(exchanges)+1)*(len(gap)+number)
	line := func(name string, shade tone, cells ...string) {
		text := t.paint(fit(name, label, false), shade)
		for _, cell := range cells {
			text += gap + t.paint(fit(cell, number, true), shade)
		}
		t.line(text)
	}
	t.rule("╭", "╮", inner)
	var heads []string
	for _, exchange := range exchanges {
		heads = append(heads, route(exchange.producer, exchange.worker))
	}
	line("", bold, append(heads, "all")...)
	t.rule("├", "┤", inner)
	for _, sum := range []struct {
		name  string
		of    func(account) int
		shade tone
	}{
		{"added", func(a account) int { return a.added }, ""},
		{"completed", func(a account) int { return a.completed }, green},
		{"failed", func(a account) int { return a.failed }, red},
		{"retried", func(a account) int { return a.retried }, yellow},
	} {
		var cells []string
		all := 0
		for _, exchange := range exchanges {
			n := sum.of(exchange.ledger.sums())
			all += n
			cells = append(cells, strconv.Itoa(n))
		}
		line(sum.name, sum.shade, append(cells, strconv.Itoa(all))...)
	}
	t.rule("╰", "╯", inner)
}

func (t *table) fault(text string)   { fmt.Fprintln(t.to, t.paint("✗ "+text, red)) }
func (t *table) verdict(text string) { fmt.Fprintln(t.to, t.paint("✓ ", green)+text) }

func (t *table) line(text string) {
	exchange := t.paint("│", faint)
	fmt.Fprintf(t.to, "%s %s %s\n", exchange, text, exchange)
}

func (t *table) rule(left, right string, inner int) {
	fmt.Fprintln(t.to, t.paint(left+strings.Repeat("─", inner+2)+right, faint))
}

func (t *table) paint(text string, shade tone) string {
	if !t.colour || shade == "" || text == "" {
		return text
	}
	return "\x1b[" + string(shade) + "m" + text + "\x1b[0m"
}
