package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

func newOrphans(c *client) *cobra.Command {
	var remove bool
	var change change
	command := &cobra.Command{
		Use:   "orphans QUEUE",
		Short: "List what is left of jobs that are in no state, and remove it",
		Long: "List what is left of jobs that are in no state, and remove it.\n\n" +
			"The stranded jobs are among them, which bullmq repair makes ready again: repair first.",
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if remove {
				if err := change.check(command, "remove"); err != nil {
					return err
				}
			}
			return c.withQueue(command, args[0], func(ctx context.Context, queue *bullmq.Queue) error {
				if !remove || change.dry || !change.yes {
					ids, err := queue.FindOrphanedJobs(ctx)
					if err != nil {
						return err
					}
					switch {
					case change.dry:
						return c.report(command, "removed", result{Matched: len(ids), DryRun: true})
					case !remove:
						return c.listIDs(command, ids, "")
					case len(ids) > 0:
						if err := change.ask(command, fmt.Sprintf("remove what is left of %s of %s?", jobs(len(ids)), printable(queue.Name(), longestCell))); err != nil {
							return err
						}
					}
				}
				ids, err := queue.RemoveOrphanedJobs(ctx, nil)
				return errors.Join(c.listIDs(command, ids, "removed"), err)
			})
		},
	}
	command.Flags().BoolVar(&remove, "remove", false, "remove the keys of the jobs, after a question")
	change.add(command, "count the jobs")
	return command
}
