package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// schedulerLine is a scheduler in JSON.
type schedulerLine struct {
	ID         string          `json:"id"`
	Name       string          `json:"name"`
	Pattern    string          `json:"pattern,omitempty"`
	TimeZone   string          `json:"tz,omitempty"`
	EveryMS    int64           `json:"everyMs,omitempty"`
	Next       time.Time       `json:"next,omitzero"`
	Iterations int             `json:"iterations"`
	Data       json.RawMessage `json:"data,omitempty"`
}

func newSchedulers(c *client) *cobra.Command {
	return &cobra.Command{
		Use:   "schedulers QUEUE",
		Short: "List the schedulers of a queue, the next one first",
		Args:  cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			return c.withQueue(command, args[0], func(ctx context.Context, queue *bullmq.Queue) error {
				schedulers, err := queue.Schedulers(ctx, bullmq.AllEntries())
				if err != nil {
					return err
				}
				lines := make([]schedulerLine, len(schedulers))
				for i, s := range schedulers {
					lines[i] = schedulerLine{s.ID, s.Name, s.Repeat.Pattern, s.Repeat.TimeZone, s.Repeat.Every.Milliseconds(), s.Next, s.Iterations, s.Data}
				}
				return list(c, command, lines, []string{"SCHEDULER", "NAME", "SCHEDULE", "NEXT", "JOBS"}, func(l schedulerLine) []string {
					schedule := l.Pattern + " " + l.TimeZone
					if l.EveryMS > 0 {
						schedule = "every " + short(time.Duration(l.EveryMS)*time.Millisecond)
					}
					next := ""
					if !l.Next.IsZero() {
						next = "in " + short(time.Until(l.Next))
					}
					return []string{l.ID, l.Name, schedule, next, fmt.Sprint(l.Iterations)}
				})
			})
		},
	}
}
