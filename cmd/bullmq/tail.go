package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// eventLine is an event in JSON.
type eventLine struct {
	ID     string            `json:"id"`
	Time   time.Time         `json:"time"`
	Event  bullmq.EventType  `json:"event"`
	Job    string            `json:"job,omitempty"`
	Missed int               `json:"missed,omitempty"`
	Fields map[string]string `json:"fields"`
}

func newTail(c *client) *cobra.Command {
	var after string
	command := &cobra.Command{
		Use:   "tail QUEUE",
		Short: "Follow the events of a queue until it is interrupted",
		Args:  cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			ctx := command.Context()
			connection, err := c.open(ctx, command)
			if err != nil {
				return err
			}
			defer connection.Close()
			events, err := bullmq.NewQueueEvents(ctx, args[0], &bullmq.QueueEventsOptions{Connection: connection, Prefix: c.prefix, LastEventID: after})
			if err != nil {
				return err
			}
			defer events.Close()
			c.warnAbsent(ctx, command, connection, args[0])
			table := c.asTable(command)
			for event, err := range events.All(ctx) {
				if errors.Is(err, context.Canceled) {
					break
				}
				if err != nil { // Redis is unreachable; the loop continues when it is back
					_, _ = fmt.Fprintln(command.ErrOrStderr(), err)
					continue
				}
				if err := writeEvent(command, lineOfEvent(event), table); err != nil {
					return err
				}
			}
			_, _ = fmt.Fprintf(command.ErrOrStderr(), "Continue with --after %s\n", events.LastEventID())
			return nil
		},
	}
	command.Flags().StringVar(&after, "after", "", "begin after the event with this id; 0-0 is before the oldest one (default only new events)")
	return command
}

// warnAbsent tells the reader if a queue does not exist, because its name may be mistyped.
func (c *client) warnAbsent(ctx context.Context, command *cobra.Command, connection *bullmq.Connection, name string) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	summaries, err := bullmq.SummarizeQueues(ctx, connection, c.prefix, name)
	if err != nil {
		return // the events tell
	}
	if exists, err := c.exists(ctx, connection, summaries[0]); err == nil && !exists {
		_, _ = fmt.Fprintf(command.ErrOrStderr(), "There is no queue %s with the prefix %s yet: waiting for its first event.\n", printable(name, longestCell), printable(c.prefix, longestCell))
	}
}

func lineOfEvent(event bullmq.Event) eventLine {
	line := eventLine{ID: event.ID, Time: event.Time(), Event: event.Type, Job: event.JobID, Missed: event.Missed, Fields: map[string]string{}}
	for i := 0; i+1 < len(event.Fields); i += 2 {
		if name := event.Fields[i]; name != "event" && name != "jobId" {
			line.Fields[name] = event.Fields[i+1]
		}
	}
	return line
}

func writeEvent(command *cobra.Command, line eventLine, table bool) error {
	out := command.OutOrStdout()
	if !table {
		return writeJSON(out, line)
	}
	if line.Missed > 0 {
		_, _ = fmt.Fprintf(command.ErrOrStderr(), "at least %d events were removed before they could be read\n", line.Missed)
	}
	var detail []string
	for _, name := range []string{"name", "prev", "failedReason", "returnvalue", "data", "delay"} {
		if value, ok := line.Fields[name]; ok {
			detail = append(detail, name+"="+printable(value, longestCell))
		}
	}
	_, err := fmt.Fprintf(out, "%s  %-20s %-12s %s\n", line.Time.Format("15:04:05.000"), printable(line.Job, 20), line.Event, strings.Join(detail, " "))
	return err
}
