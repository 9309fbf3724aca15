package main

import (
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

func newPause(c *client) *cobra.Command {
	return onQueues(c, "pause", "Pause queues: no worker fetches jobs until they are resumed", (*bullmq.Queue).Pause)
}

func newResume(c *client) *cobra.Command {
	return onQueues(c, "resume", "Resume paused queues", (*bullmq.Queue).Resume)
}
