package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// screen displays the demo: a table on a terminal, plain lines elsewhere.
type screen interface {
	title(text string)
	begin()
	row(r row)
	end()
	summary(exchanges []*exchange)
	fault(text string)
	verdict(text string)
}

// screenOf returns the screen for a file. NO_COLOR (no-color.org) disables colours.
func screenOf(file *os.File) screen {
	info, err := file.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 || os.Getenv("TERM") == "dumb" {
		return plain{file}
	}
	return newTable(file, columnsOf(file), os.Getenv("NO_COLOR") == "")
}

// columnsOf returns the width of the terminal. It runs stty with the terminal as standard input. It returns
// 80 if the width is unknown.
func columnsOf(terminal *os.File) int {
	stty := exec.Command("stty", "size")
	stty.Stdin = terminal
	text, err := stty.Output()
	var rows, columns int
	if err == nil {
		_, err = fmt.Sscan(string(text), &rows, &columns)
	}
	if err != nil || columns <= 0 {
		return 80
	}
	return columns
}

// plain writes one line per event, for logs and other programs.
type plain struct{ to io.Writer }

func (p plain) title(text string)   { fmt.Fprintln(p.to, text) }
func (p plain) begin()              {}
func (p plain) end()                {}
func (p plain) fault(text string)   { fmt.Fprintln(p.to, "wrong:", text) }
func (p plain) verdict(text string) { fmt.Fprintln(p.to, "right:", text) }

func (p plain) row(r row) {
	fields := []string{r.time, r.queue}
	if r.job != "" {
		fields = append(fields, route(r.producer, r.worker), r.job, r.name)
	}
	fields = append(fields, string(r.event), r.detail)
	fmt.Fprintln(p.to, strings.TrimSpace(strings.Join(fields, "  ")))
}

func (p plain) summary(exchanges []*exchange) {
	for _, exchange := range exchanges {
		sums := exchange.ledger.sums()
		fmt.Fprintf(p.to, "%s: %d added by %s; run by %s: %d completed, %d failed, %d retried\n",
			exchange.name, sums.added, exchange.producer, exchange.worker, sums.completed, sums.failed, sums.retried)
	}
}

// route returns producer → worker, or "" for an event without a job.
func route(producer, worker string) string {
	if producer == "" {
		return ""
	}
	return strings.TrimSpace(producer + " → " + worker)
}

// tones are the colours of events, by their meaning for the job.
var tones = map[bullmq.EventType]tone{
	bullmq.EventAdded:            bold,
	bullmq.EventActive:           blue,
	bullmq.EventCompleted:        green,
	bullmq.EventFailed:           red,
	bullmq.EventRetriesExhausted: red,
	bullmq.EventDelayed:          yellow,
	bullmq.EventDeduplicated:     magenta,
	bullmq.EventWaiting:          faint,
	bullmq.EventProgress:         faint,
	bullmq.EventDrained:          faint,
}

// languages are the colours of the languages of producers and workers.
var languages = map[string]tone{"Node": green, "Go": cyan}
