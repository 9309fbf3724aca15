package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// logLine is a row of a job's log in JSON.
type logLine struct {
	Row  int    `json:"row"` // from 1
	Text string `json:"text"`
}

// longestRow is how many characters of a row a terminal shows. JSON has the whole.
const longestRow = 4000

func newLogs(c *client) *cobra.Command {
	var last int
	var follow bool
	command := &cobra.Command{
		Use:   "logs QUEUE ID",
		Short: "Show the log of a job, and follow it while the job runs",
		Long:  "Show the log of a job.\n\nWith --follow it shows new rows until the job has ended, or until it is interrupted.",
		Args:  cobra.ExactArgs(2),
		RunE: func(command *cobra.Command, args []string) error {
			if err := notNegative("last", last); err != nil {
				return err
			}
			if follow {
				c.timeout = 1 << 62 // as long as the job lasts
			}
			return c.withQueue(command, args[0], func(ctx context.Context, queue *bullmq.Queue) error {
				if _, err := queue.JobState(ctx, args[1]); err != nil {
					return err
				}
				l := &logReader{c: c, command: command, queue: queue, id: args[1]}
				if last > 0 {
					_, count, err := queue.JobLogs(ctx, l.id, bullmq.Page{Limit: 1})
					if err != nil {
						return err
					}
					l.next = max(count-last, 0)
					l.number = l.next
				}
				err := l.more(ctx)
				if err != nil || !follow {
					return err
				}
				return l.follow(ctx)
			})
		},
	}
	command.Flags().IntVar(&last, "last", 0, "show only this number of rows at the end (default all)")
	command.Flags().BoolVarP(&follow, "follow", "f", false, "show new rows until the job has ended")
	return command
}

// logReader writes the log of a job.
type logReader struct {
	c       *client
	command *cobra.Command
	queue   *bullmq.Queue
	id      string
	next    int      // the position of the next row in the log
	number  int      // the number of the last row that was written
	lost    bool     // none of the rows that were written is in the log
	shown   []string // the rows before next, the last overlap of those that were written
}

const (
	logPage = 1000
	// overlap is how many rows are read again, to notice that old ones were removed: see
	// JobOptions.KeepLogs. The log has no numbers.
	overlap = 100
	// farthest is how far back such rows are looked for.
	farthest = 10_000
)

// more writes the rows that have come.
func (l *logReader) more(ctx context.Context) error {
	for {
		from := l.next - len(l.shown)
		rows, _, err := l.queue.JobLogs(ctx, l.id, bullmq.Page{Offset: from, Limit: len(l.shown) + logPage, Ascending: true})
		if err != nil {
			return err
		}
		if !hasPrefix(rows, l.shown) {
			if from, rows, err = l.moved(ctx, from); err != nil {
				return err
			}
		}
		rows = rows[len(l.shown):]
		if l.lost && len(rows) > 0 {
			_, _ = fmt.Fprintln(l.command.ErrOrStderr(), "Rows may be missing here: the log was cleared, or keeps only the last ones.")
			l.lost = false
		}
		l.next = from + len(l.shown)
		for _, row := range rows {
			l.number++
			if err := l.write(logLine{l.number, row}); err != nil {
				return err
			}
		}
		l.next += len(rows)
		l.shown = append(l.shown, rows...)
		l.shown = slices.Clone(l.shown[max(0, len(l.shown)-overlap):])
		if len(rows) == 0 {
			return nil
		}
	}
}

// moved finds the rows that were shown, which were at a position of the log before older ones were
// removed. It returns where they are now, with the rows from there on. It leaves out of shown what
// is no longer in the log.
func (l *logReader) moved(ctx context.Context, at int) (from int, rows []string, err error) {
	first := max(0, at-farthest)
	rows, _, err = l.queue.JobLogs(ctx, l.id, bullmq.Page{Offset: first, Limit: at - first + len(l.shown) + logPage, Ascending: true})
	if err != nil {
		return 0, nil, err
	}
	// The nearest position comes first, so that as few rows as possible are taken for new ones.
	for i := min(at-first, len(rows)); i >= 0; i-- {
		if hasPrefix(rows[i:], l.shown) {
			return first + i, rows[i:], nil
		}
	}
	for len(l.shown) > 0 && !hasPrefix(rows, l.shown) {
		l.shown = l.shown[1:]
	}
	l.lost = len(l.shown) == 0
	return first, rows, nil
}

// hasPrefix reports whether rows begin with others.
func hasPrefix(rows, others []string) bool {
	return len(rows) >= len(others) && slices.Equal(rows[:len(others)], others)
}

func (l *logReader) write(row logLine) error {
	if !l.c.asTable(l.command) {
		return writeJSON(l.command.OutOrStdout(), row)
	}
	_, err := fmt.Fprintln(l.command.OutOrStdout(), printable(row.Text, longestRow))
	return err
}

func (l *logReader) follow(ctx context.Context) error {
	for {
		state, err := l.queue.JobState(ctx, l.id)
		ended := err == nil && (state == bullmq.StateCompleted || state == bullmq.StateFailed)
		if errors.Is(err, bullmq.ErrJobNotFound) {
			_, _ = fmt.Fprintln(l.command.ErrOrStderr(), "The job was removed.")
			return nil
		}
		if err == nil {
			err = l.more(ctx) // after the state, since a row may come before the end
		}
		switch {
		case ctx.Err() != nil:
			return nil // interrupted
		case err != nil:
			return err
		case ended:
			_, _ = fmt.Fprintf(l.command.ErrOrStderr(), "The job has %s.\n", state)
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
}
