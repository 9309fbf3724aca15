package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

func newStranded(c *client) *cobra.Command {
	return &cobra.Command{
		Use:   "stranded QUEUE",
		Short: "List unfinished jobs that no worker can fetch, because they are in no state",
		Args:  cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			return c.withQueue(command, args[0], func(ctx context.Context, queue *bullmq.Queue) error {
				ids, err := queue.FindStrandedJobs(ctx)
				if err != nil {
					return err
				}
				return c.listIDs(command, ids, "")
			})
		},
	}
}

func newRepair(c *client) *cobra.Command {
	var change change
	command := &cobra.Command{
		Use:   "repair QUEUE",
		Short: "Make stranded jobs ready again, and join the lists that BullMQ 5 and 6 use differently",
		Args:  cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if err := change.check(command, "repair"); err != nil {
				return err
			}
			return c.withQueue(command, args[0], func(ctx context.Context, queue *bullmq.Queue) error {
				if change.dry || !change.yes {
					ids, err := queue.FindStrandedJobs(ctx)
					if err != nil {
						return err
					}
					if change.dry {
						return c.listIDs(command, ids, "")
					}
					if err := change.ask(command, fmt.Sprintf("repair %s, which has %s?", printable(queue.Name(), longestCell), count(len(ids), "stranded job", "stranded jobs"))); err != nil {
						return err
					}
				}
				ids, err := queue.RepairPaused(ctx)
				if err != nil {
					return err
				}
				return c.listIDs(command, ids, "repaired")
			})
		},
	}
	change.add(command, "list the jobs")
	return command
}

// listIDs writes the ids of jobs, and what was done with them, such as removed; done is "" if
// they are only listed.
func (c *client) listIDs(command *cobra.Command, ids []string, done string) error {
	lines := make([]map[string]any, len(ids))
	for i, id := range ids {
		lines[i] = map[string]any{"id": id}
		if done != "" {
			lines[i][done] = true
		}
	}
	if len(ids) > 0 || done == "" {
		if err := list(c, command, lines, []string{"JOB"}, func(line map[string]any) []string { return []string{line["id"].(string)} }); err != nil {
			return err
		}
	}
	if done != "" && c.asTable(command) {
		_, _ = fmt.Fprintf(command.OutOrStdout(), "%s %s\n", jobs(len(ids)), done)
	}
	return nil
}
