package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// queueLine is a queue in JSON.
type queueLine struct {
	Name           string         `json:"name"`
	Error          string         `json:"error,omitempty"`
	Counts         map[string]int `json:"counts,omitempty"`
	OldestSeconds  float64        `json:"oldestSeconds,omitempty"`
	Paused         bool           `json:"paused,omitempty"`
	Concurrency    int            `json:"concurrency,omitempty"`
	LimitedSeconds float64        `json:"limitedSeconds,omitempty"`
	summary        bullmq.QueueSummary
}

func newQueues(c *client) *cobra.Command {
	return &cobra.Command{
		Use:   "queues [TEXT]",
		Short: "List the queues, or those whose names contain TEXT",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			ctx, connection, end, err := c.connect(command)
			if err != nil {
				return err
			}
			defer end()
			var names []string
			for name, err := range bullmq.ListQueues(ctx, connection, c.prefix) {
				if err != nil {
					return err
				}
				if len(args) == 0 || strings.Contains(strings.ToLower(name), strings.ToLower(args[0])) {
					names = append(names, name)
				}
			}
			slices.Sort(names)
			summaries, err := bullmq.SummarizeQueues(ctx, connection, c.prefix, names...)
			if err != nil {
				return err
			}
			lines := make([]queueLine, len(summaries))
			for i, summary := range summaries {
				lines[i] = lineOf(summary)
			}
			return list(c, command, lines, []string{"QUEUE", "ACTIVE", "WAITING", "PRIORITIZED", "DELAYED", "CHILDREN", "FAILED", "COMPLETED", "OLDEST", ""}, queueLine.row)
		},
	}
}

func lineOf(summary bullmq.QueueSummary) queueLine {
	line := queueLine{
		Name: summary.Name, Paused: summary.Paused, Concurrency: summary.Concurrency, LimitedSeconds: summary.LimitedFor.Seconds(),
		OldestSeconds: max(summary.Ages[bullmq.StateWaiting], summary.Ages[bullmq.StatePrioritized]).Seconds(), summary: summary,
	}
	if summary.Err != nil {
		line.Error = summary.Err.Error()
		return line
	}
	line.Counts = map[string]int{}
	for state, n := range summary.Counts {
		line.Counts[string(state)] = n
	}
	return line
}

func (l queueLine) row() []string {
	if l.Error != "" {
		return []string{l.Name, "can't be read:", l.Error}
	}
	cells := []string{l.Name}
	for _, state := range []bullmq.State{
		bullmq.StateActive, bullmq.StateWaiting, bullmq.StatePrioritized, bullmq.StateDelayed, bullmq.StateWaitingChildren, bullmq.StateFailed, bullmq.StateCompleted,
	} {
		cells = append(cells, fmt.Sprint(l.summary.Counts[state]))
	}
	oldest := ""
	if l.OldestSeconds > 0 {
		oldest = short(max(l.summary.Ages[bullmq.StateWaiting], l.summary.Ages[bullmq.StatePrioritized]))
	}
	var remarks []string
	if l.Paused {
		remarks = append(remarks, "paused")
	}
	if l.LimitedSeconds > 0 {
		remarks = append(remarks, "limited for "+short(l.summary.LimitedFor))
	}
	return append(cells, oldest, strings.Join(remarks, ", "))
}

// pauseLine is a queue that was paused or resumed, in JSON.
type pauseLine struct {
	Queue   string `json:"queue"`
	Paused  bool   `json:"paused"`
	Waiting int    `json:"waiting"` // with those that have a priority
	Active  int    `json:"active"`
	DryRun  bool   `json:"dryRun,omitempty"`
}

func newPause(c *client) *cobra.Command {
	return newPausing(c, "pause", "Pause queues: no worker fetches jobs until they are resumed", true, (*bullmq.Queue).Pause)
}

func newResume(c *client) *cobra.Command {
	return newPausing(c, "resume", "Resume paused queues", false, (*bullmq.Queue).Resume)
}

// newPausing returns a command that pauses or resumes queues. It shows how many jobs wait then.
func newPausing(c *client, verb, short string, paused bool, call func(*bullmq.Queue, context.Context) error) *cobra.Command {
	var dry bool
	command := &cobra.Command{
		Use:   verb + " QUEUE...",
		Short: short,
		Long:  short + ". Running jobs go on.",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			var failed error
			var lines []pauseLine
			for _, name := range args {
				failed = errors.Join(failed, c.withQueue(command, name, func(ctx context.Context, queue *bullmq.Queue) error {
					line := pauseLine{Queue: name, Paused: paused, DryRun: dry}
					if !dry {
						if err := call(queue, ctx); err != nil {
							return err
						}
					}
					counts, err := queue.Counts(ctx, bullmq.StateWaiting, bullmq.StatePrioritized, bullmq.StateActive)
					if err != nil {
						return err
					}
					line.Waiting = counts[bullmq.StateWaiting] + counts[bullmq.StatePaused] + counts[bullmq.StatePrioritized]
					line.Active = counts[bullmq.StateActive]
					lines = append(lines, line)
					return nil
				}))
			}
			return errors.Join(list(c, command, lines, []string{"QUEUE", "PAUSED", "WAITING", "ACTIVE", ""}, func(l pauseLine) []string {
				remark := ""
				if l.DryRun {
					remark = "nothing was changed"
				}
				return []string{l.Queue, map[bool]string{true: "yes", false: "no"}[l.Paused], fmt.Sprint(l.Waiting), fmt.Sprint(l.Active), remark}
			}), failed)
		},
	}
	command.Flags().BoolVar(&dry, "dry-run", false, "count the jobs that wait, and change nothing")
	return command
}
