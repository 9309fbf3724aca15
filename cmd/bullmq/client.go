package main

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

const defaultTimeout = time.Minute

// client has the flags of all commands.
type client struct {
	url, prefix string
	profile     string
	tls         tlsFiles
	target      target // what the flags, the profile and the environment have led to
	json, table bool
	timeout     time.Duration
}

// connect connects to Redis, for the time of a command.
func (c *client) connect(command *cobra.Command) (ctx context.Context, connection *bullmq.Connection, end func(), err error) {
	ctx, cancel := context.WithTimeout(command.Context(), c.timeout)
	connection, err = c.open(ctx, command)
	if err != nil {
		cancel()
		return nil, nil, nil, err
	}
	return ctx, connection, func() { connection.Close(); cancel() }, nil
}

// withQueue calls do with a queue that exists.
func (c *client) withQueue(command *cobra.Command, name string, do func(ctx context.Context, queue *bullmq.Queue) error) error {
	ctx, connection, end, err := c.connect(command)
	if err != nil {
		return err
	}
	defer end()
	summaries, err := bullmq.SummarizeQueues(ctx, connection, c.prefix, name)
	if err != nil {
		return err
	}
	if err := c.mustExist(ctx, connection, summaries[0]); err != nil {
		return err
	}
	queue, err := bullmq.NewQueue(ctx, name, &bullmq.QueueOptions{Connection: connection, Prefix: c.prefix, SkipMetaUpdate: true})
	if err != nil {
		return err
	}
	defer queue.Close()
	return do(ctx, queue)
}

// mustExist returns an error if a queue does not exist.
func (c *client) mustExist(ctx context.Context, connection *bullmq.Connection, summary bullmq.QueueSummary) error {
	exists, err := c.exists(ctx, connection, summary)
	if err == nil && !exists {
		return fmt.Errorf("bullmq: there is no queue %s with the prefix %s in this database; bullmq queues lists those that exist", printable(summary.Name, longestCell), printable(c.prefix, longestCell))
	}
	return err
}

// exists reports whether a queue exists. Only an empty queue makes it scan the keys.
func (c *client) exists(ctx context.Context, connection *bullmq.Connection, summary bullmq.QueueSummary) (bool, error) {
	if summary.Err != nil || summary.Added > 0 {
		return true, nil
	}
	for _, n := range summary.Counts {
		if n > 0 {
			return true, nil
		}
	}
	for name, err := range bullmq.ListQueues(ctx, connection, c.prefix) {
		if err != nil || name == summary.Name {
			return err == nil, err
		}
	}
	return false, nil
}

// release is the version of a released program. The linker sets it.
var release string

// version returns the version of the program.
func version() string {
	if release != "" {
		return release
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}
