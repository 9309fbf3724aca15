package main

import (
	"context"
	"errors"
	"fmt"
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
					l.read = max(count-last, 0)
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
	read    int // rows that were written or skipped
}

// more writes the rows that have come.
func (l *logReader) more(ctx context.Context) error {
	for {
		rows, count, err := l.queue.JobLogs(ctx, l.id, bullmq.Page{Offset: l.read, Limit: 1000, Ascending: true})
		if err != nil {
			return err
		}
		for _, row := range rows {
			l.read++
			if err := l.write(logLine{l.read, row}); err != nil {
				return err
			}
		}
		if len(rows) == 0 {
			l.read = min(l.read, count) // rows may have been removed
			return nil
		}
	}
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
