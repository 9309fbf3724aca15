package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

func newMove(c *client) *cobra.Command {
	var to string
	var create bool
	command := newAction(c, action{
		verb: "move", done: "moved", short: "Move jobs that do not run to another queue", state: "waiting,prioritized,delayed,failed",
		do: func(ctx context.Context, queue *bullmq.Queue, job *bullmq.Job) error {
			_, err := queue.MoveJob(ctx, job.ID, to)
			return err
		},
	})
	command.Long += "\n\nA failed job waits again in the other queue. Jobs of flows and the next jobs of schedulers can't be moved."
	command.Example = "  bullmq move orders --to orders-slow --name invoice"
	command.Flags().StringVar(&to, "to", "", "the other queue, with the same prefix")
	command.Flags().BoolVar(&create, "create", false, "the other queue need not exist")
	run := command.RunE
	command.RunE = func(command *cobra.Command, args []string) error {
		switch {
		case to == "":
			return usageError{errors.New("name the other queue with --to")}
		case to == args[0]:
			return usageError{errors.New("--to is the queue itself; name another one")}
		}
		moving := func(context.Context, *bullmq.Queue) error { return run(command, args) }
		if create {
			return moving(command.Context(), nil)
		}
		return c.withQueue(command, to, moving)
	}
	return command
}
