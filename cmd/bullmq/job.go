package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

const (
	shownRows    = 100 // rows of the log that JSON has with a job
	terminalRows = 10  // the same on a terminal
)

func newJob(c *client) *cobra.Command {
	return &cobra.Command{
		Use:   "job QUEUE ID",
		Short: "Show a job with the end of its log",
		Args:  cobra.ExactArgs(2),
		RunE: func(command *cobra.Command, args []string) error {
			return c.withQueue(command, args[0], func(ctx context.Context, queue *bullmq.Queue) error {
				job, state, err := queue.JobAndState(ctx, args[1])
				if err != nil {
					return err
				}
				limit, table := shownRows, c.asTable(command)
				if table {
					limit = terminalRows
				}
				logs, rows, err := queue.JobLogs(ctx, job.ID, bullmq.Page{Limit: limit})
				if err != nil {
					return err
				}
				slices.Reverse(logs)
				if table {
					return writeJob(command.OutOrStdout(), queue.Name(), state, job, logs, rows)
				}
				if rows > len(logs) {
					_, _ = fmt.Fprintf(command.ErrOrStderr(), "These are the last %d of %d rows of the log: bullmq logs shows all.\n", len(logs), rows)
				}
				text, err := jobLine{state, job}.MarshalJSON()
				if err != nil {
					return err
				}
				var whole bytes.Buffer
				if whole.Write(text[:len(text)-1]); len(logs) > 0 {
					whole.WriteString(`,"logs":`)
					if err := writeJSON(&whole, logs); err != nil {
						return err
					}
				}
				whole.WriteString("}")
				return writeDocument(command.OutOrStdout(), whole.Bytes(), false)
			})
		},
	}
}

// writeJob writes a job for a reader.
func writeJob(out io.Writer, queue string, state bullmq.State, job *bullmq.Job, logs []string, rows int) error {
	var text strings.Builder
	line := func(name, format string, values ...any) {
		fmt.Fprintf(&text, "%-12s %s\n", name, printable(fmt.Sprintf(format, values...), longestRow))
	}
	block := func(name, content string) {
		if content == "" {
			return
		}
		text.WriteString("\n" + name + "\n")
		for row := range strings.Lines(content) {
			text.WriteString("  " + printable(strings.ReplaceAll(strings.TrimRight(row, "\r\n"), "\t", "    "), longestRow) + "\n")
		}
	}
	line("job", "%s of %s", job.ID, queue)
	line("name", "%s", job.Name)
	line("state", "%s", state)
	line("added", "%s", moment(job.Timestamp))
	if job.Delay > 0 {
		line("delay", "%s", short(job.Delay))
	}
	if !job.ProcessedOn.IsZero() {
		line("started", "%s", moment(job.ProcessedOn))
	}
	if !job.FinishedOn.IsZero() {
		line("ended", "%s, after %s", moment(job.FinishedOn), short(job.FinishedOn.Sub(job.ProcessedOn)))
	}
	line("attempts", "%d of %d", job.AttemptsMade, max(job.Options.Attempts, 1))
	for _, other := range []struct{ name, value string }{
		{"worker", job.ProcessedBy}, {"parent", job.ParentKey}, {"scheduler", job.SchedulerID}, {"deduplicated", job.DeduplicationID}, {"will fail", job.DeferredFailure},
	} {
		if other.value != "" {
			line(other.name, "%s", other.value)
		}
	}
	if job.Priority > 0 {
		line("priority", "%d", job.Priority)
	}
	block("data", indented(job.Data))
	block("options", indented(job.RawOptions))
	block("progress", indented(job.Progress))
	block("result", indented(job.ReturnValue))
	block("error", job.FailedReason)
	if n := len(job.StackTrace); n > 0 {
		block("stack trace", job.StackTrace[n-1])
	}
	title := "log"
	if rows > len(logs) {
		title = fmt.Sprintf("log, the last %d of %d rows: bullmq logs shows all", len(logs), rows)
	}
	block(title, strings.Join(logs, "\n"))
	_, err := io.WriteString(out, text.String())
	return err
}

// moment returns a time with its age.
func moment(t time.Time) string {
	return t.Local().Format("2006-01-02 15:04:05.000 MST") + ", " + ago(t) + " ago"
}

// indented returns JSON in several lines; "" if there is nothing to show.
func indented(value json.RawMessage) string {
	var text bytes.Buffer
	if json.Indent(&text, value, "", "  ") != nil {
		return string(value)
	}
	if shown := text.String(); shown != "{}" && shown != "null" && shown != `""` && utf8.ValidString(shown) {
		return shown
	}
	return ""
}
