package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

func newOrphans(c *client) *cobra.Command {
	var remove, yes bool
	command := &cobra.Command{
		Use:   "orphans QUEUE",
		Short: "List what is left of jobs that are in no state, and remove it",
		Long: "List what is left of jobs that are in no state, and remove it.\n\n" +
			"The stranded jobs are among them, which bullmq repair makes ready again: repair first.",
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if remove && !yes && !isTerminal(command.InOrStdin()) {
				return usageError{errors.New("the input is not a terminal that can be asked: list without --remove, and remove with --remove --yes")}
			}
			return c.withQueue(command, args[0], func(ctx context.Context, queue *bullmq.Queue) error {
				if !remove || !yes {
					ids, err := queue.FindOrphanedJobs(ctx)
					if err != nil {
						return err
					}
					if !remove {
						return c.listIDs(command, ids)
					}
					if len(ids) > 0 && !confirm(command, fmt.Sprintf("remove what is left of %d jobs of %s?", len(ids), printable(queue.Name(), longestCell))) {
						return errors.New("bullmq: nothing was changed")
					}
				}
				ids, err := queue.RemoveOrphanedJobs(ctx, nil)
				return errors.Join(c.listIDs(command, ids), err)
			})
		},
	}
	command.Flags().BoolVar(&remove, "remove", false, "remove the keys of the jobs, after a question")
	command.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return command
}
