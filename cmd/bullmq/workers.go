package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
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
	Address     string    `json:"address,omitempty"` // of a connection of a worker of BullMQ
	Running     *int      `json:"running"`           // null for a worker of BullMQ, which does not tell it
	Concurrency *int      `json:"concurrency"`       // the same
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
				lines[i] = describeWorker(w)
			}
			return list(c, command, lines, []string{"NAME", "QUEUES", "HOST", "PID", "RUNNING", "CONCURRENCY", "STARTED", "LIBRARY"}, func(l workerLine) []string {
				if !l.registered {
					return []string{l.Name, strings.Join(l.Queues, " "), l.Address, "", "?", "?", ago(l.Started), "known by its connection only"}
				}
				return []string{l.Name, strings.Join(l.Queues, " "), l.Host, fmt.Sprint(l.PID), fmt.Sprint(*l.Running), fmt.Sprint(*l.Concurrency), ago(l.Started), l.Library}
			})
		},
	}
}

// describeWorker returns what is known of a worker. The connection of a worker that is not registered tells
// its address and its age.
func describeWorker(w bullmq.WorkerInfo) workerLine {
	line := workerLine{Name: w.Name, Queues: w.Queues, Host: w.Host, PID: w.PID, Version: w.Version, Library: w.Library, Paused: w.Paused, Stopping: w.Stopping, Started: w.Started, registered: w.IsRegistered()}
	if line.registered {
		line.Running, line.Concurrency = &w.Running, &w.Concurrency
	} else if len(w.Connections) > 0 {
		fields := w.Connections[0].Fields
		line.Address = fields["addr"]
		if seconds, err := strconv.Atoi(fields["age"]); err == nil {
			line.Started = time.Now().Add(-time.Duration(seconds) * time.Second).Truncate(time.Second)
		}
	}
	return line
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
