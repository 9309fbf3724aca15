package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// workerLine is a worker in JSON.
type workerLine struct {
	Name        string    `json:"name,omitempty"`
	Queues      []string  `json:"queues"`
	Host        string    `json:"host,omitempty"`
	PID         int       `json:"pid,omitempty"`
	Version     string    `json:"version,omitempty"`
	Library     string    `json:"library,omitempty"`
	Running     int       `json:"running"`
	Concurrency int       `json:"concurrency,omitempty"`
	Paused      bool      `json:"paused,omitempty"`
	Stopping    bool      `json:"stopping,omitempty"`
	Started     time.Time `json:"started,omitzero"`
	registered  bool
}

func newWorkers(c *client) *cobra.Command {
	return &cobra.Command{
		Use:   "workers [QUEUE...]",
		Short: "List the workers of some queues, or of all",
		Args:  cobra.ArbitraryArgs,
		RunE: func(command *cobra.Command, args []string) error {
			ctx, connection, end, err := c.connect(command)
			if err != nil {
				return err
			}
			defer end()
			workers, err := bullmq.ListWorkers(ctx, connection, c.prefix, args...)
			if err != nil {
				return err
			}
			if err := c.checkNames(ctx, connection, args, workers); err != nil {
				return err
			}
			lines := make([]workerLine, len(workers))
			for i, w := range workers {
				lines[i] = workerLine{w.Name, w.Queues, w.Host, w.PID, w.Version, w.Library, w.Running, w.Concurrency, w.Paused, w.Stopping, w.Started, w.IsRegistered()}
			}
			return list(c, command, lines, []string{"NAME", "QUEUES", "HOST", "PID", "RUNNING", "CONCURRENCY", "STARTED", "LIBRARY"}, func(l workerLine) []string {
				if !l.registered {
					return []string{l.Name, strings.Join(l.Queues, " "), "", "", "", "", "", "known by its connection only"}
				}
				return []string{l.Name, strings.Join(l.Queues, " "), l.Host, fmt.Sprint(l.PID), fmt.Sprint(l.Running), fmt.Sprint(l.Concurrency), ago(l.Started), l.Library}
			})
		},
	}
}

// checkNames returns an error if a named queue neither exists nor has workers.
func (c *client) checkNames(ctx context.Context, connection *bullmq.Connection, names []string, workers []bullmq.WorkerInfo) error {
	var idle []string
	for _, name := range names {
		if !slices.ContainsFunc(workers, func(w bullmq.WorkerInfo) bool { return slices.Contains(w.Queues, name) }) {
			idle = append(idle, name)
		}
	}
	if len(idle) == 0 {
		return nil
	}
	summaries, err := bullmq.SummarizeQueues(ctx, connection, c.prefix, idle...)
	if err != nil {
		return err
	}
	for _, summary := range summaries {
		if err := c.mustExist(ctx, connection, summary); err != nil {
			return err
		}
	}
	return nil
}
