package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// screen is where the demo shows itself: a table on a terminal, plain lines elsewhere.
type screen interface {
	title(text string)
	begin()
	row(r row)
	end()
	summary(sides []*side)
	fault(text string)
	verdict(text string)
}

// screenOf chooses by what the file is. NO_COLOR (no-color.org) leaves the colours out.
func screenOf(file *os.File) screen {
	info, err := file.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 || os.Getenv("TERM") == "dumb" {
		return plain{file}
	}
	return newTable(file, columnsOf(file), os.Getenv("NO_COLOR") == "")
}

// columnsOf asks stty how wide the terminal is: it looks at its standard input, which is given the
// terminal that we write to. 80 where it can't tell.
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

// plain writes a line for each event, for logs and other programs.
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

func (p plain) summary(sides []*side) {
	for _, side := range sides {
		sums := side.ledger.sums()
		fmt.Fprintf(p.to, "%s: %d added by %s; run by %s: %d completed, %d failed, %d retried\n",
			side.name, sums.added, side.producer, side.worker, sums.completed, sums.failed, sums.retried)
	}
}

// route is who produced → who ran; "" for an event without a job.
func route(producer, worker string) string {
	if producer == "" {
		return ""
	}
	return strings.TrimSpace(producer + " → " + worker)
}

// tones are the colours of events, by what they mean for the job.
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

// languages are the colours of who produced and who ran.
var languages = map[string]tone{"Node": green, "Go": cyan}
