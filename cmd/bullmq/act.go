package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// action is a command that does something with jobs.
type action struct {
	verb, done, short string
	state             string // of the jobs that are selected by conditions, without --state
	do                func(ctx context.Context, queue *bullmq.Queue, job *bullmq.Job) error
}

var actions = []action{
	{"retry", "retried", "Run failed jobs again", "failed", func(ctx context.Context, _ *bullmq.Queue, job *bullmq.Job) error {
		return job.Retry(ctx, bullmq.StateFailed, nil)
	}},
	{"promote", "promoted", "Run delayed jobs now", "delayed", func(ctx context.Context, _ *bullmq.Queue, job *bullmq.Job) error { return job.Promote(ctx) }},
	{"remove", "removed", "Remove jobs that are not running", "", func(ctx context.Context, _ *bullmq.Queue, job *bullmq.Job) error { return job.Remove(ctx) }},
	{"cancel", "cancelled", "Cancel jobs, also running ones", "", func(ctx context.Context, queue *bullmq.Queue, job *bullmq.Job) error {
		outcome, err := queue.Cancel(ctx, job.ID, "")
		if err == nil && outcome == bullmq.CancelFinished {
			err = errors.New("bullmq: the job has finished")
		}
		return err
	}},
}

// result tells what an action has done, in JSON.
type result struct {
	Matched int               `json:"matched"`
	Done    int               `json:"done"`
	Gone    int               `json:"gone,omitempty"`
	Failed  map[string]string `json:"failed,omitempty"`
	More    bool              `json:"more,omitempty"`
	DryRun  bool              `json:"dryRun,omitempty"`
}

func newAction(c *client, a action) *cobra.Command {
	var o conditions
	var all, dry, yes bool
	command := &cobra.Command{
		Use:   a.verb + " QUEUE [ID...]",
		Short: a.short,
		Long:  a.short + ".\n\nName the jobs by their ids, or select them by conditions. --all selects all jobs of the states.\nBefore it changes jobs that conditions select, the command counts them and asks, unless there is --yes.",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			byID := len(args) > 1
			switch {
			case byID && (all || o.any() || command.Flags().Changed("state")):
				return usageError{errors.New("give either ids or conditions")}
			case !byID && !all && !o.any():
				return usageError{errors.New("give ids, conditions such as --error, or --all")}
			case !byID && !dry && !yes && !isTerminal(command.InOrStdin()):
				return usageError{errors.New("the input is not a terminal that can be asked: count with --dry-run, and " + a.verb + " with --yes")}
			}
			return c.withQueue(command, args[0], func(ctx context.Context, queue *bullmq.Queue) error {
				if byID {
					return a.onIDs(ctx, c, command, queue, args[1:], dry)
				}
				return a.onMatches(ctx, c, command, queue, o.search(c), dry, yes)
			})
		},
	}
	o.add(command.Flags(), a.state)
	command.Flags().BoolVar(&all, "all", false, "all jobs of the states")
	command.Flags().BoolVar(&dry, "dry-run", false, "count the jobs, and change nothing")
	command.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return command
}

func (a action) onIDs(ctx context.Context, c *client, command *cobra.Command, queue *bullmq.Queue, ids []string, dry bool) error {
	r := result{Matched: len(ids), DryRun: dry}
	var missing error
	for _, id := range ids {
		job, err := queue.Job(ctx, id)
		if err == nil && !dry {
			err = a.do(ctx, queue, job)
		}
		switch {
		case err == nil && !dry:
			r.Done++
		case err != nil:
			r.fail(id, err)
			if errors.Is(err, bullmq.ErrJobNotFound) {
				missing = err
			}
		}
	}
	if len(ids) == 1 && missing != nil {
		return missing
	}
	return a.report(c, command, r)
}

func (a action) onMatches(ctx context.Context, c *client, command *cobra.Command, queue *bullmq.Queue, search bullmq.JobSearch, dry, yes bool) error {
	if dry || !yes {
		counted, err := queue.EachMatch(ctx, search, nil)
		if err != nil {
			return err
		}
		if dry {
			return a.report(c, command, result{Matched: counted.Matched, More: counted.Next != "", DryRun: true})
		}
		if counted.Matched > 0 && !confirm(command, fmt.Sprintf("%s %d jobs of %s?", a.verb, counted.Matched, printable(queue.Name(), longestCell))) {
			return errors.New("bullmq: nothing was changed")
		}
	}
	found, err := queue.EachMatch(ctx, search, func(ctx context.Context, job *bullmq.Job) error { return a.do(ctx, queue, job) })
	if found == nil {
		return err
	}
	r := result{Matched: found.Matched, Done: found.Done, Gone: found.Gone, More: found.Next != ""}
	for id, err := range found.Failed {
		r.fail(id, err)
	}
	return errors.Join(a.report(c, command, r), err)
}

func (r *result) fail(id string, err error) {
	if r.Failed == nil {
		r.Failed = map[string]string{}
	}
	r.Failed[id] = err.Error()
}

// report writes what was done. It returns an error if an action has failed.
func (a action) report(c *client, command *cobra.Command, r result) error {
	out := command.OutOrStdout()
	if !c.asTable(command) {
		if err := writeJSON(out, r); err != nil {
			return err
		}
	} else if r.DryRun {
		_, _ = fmt.Fprintf(out, "%d jobs match\n", r.Matched-len(r.Failed))
	} else {
		_, _ = fmt.Fprintf(out, "%d of %d jobs %s\n", r.Done, r.Matched, a.done)
	}
	if r.More {
		_, _ = fmt.Fprintln(command.ErrOrStderr(), "There may be more jobs that match: raise --max-read or --timeout, or repeat the command.")
	}
	if len(r.Failed) == 0 {
		return nil
	}
	var text strings.Builder
	fmt.Fprintf(&text, "bullmq: %d jobs were not %s:", len(r.Failed), a.done)
	for id, reason := range r.Failed {
		fmt.Fprintf(&text, "\n  %s: %s", printable(id, longestCell), printable(reason, 200))
	}
	return errors.New(text.String())
}

// confirm asks a question on the terminal.
func confirm(command *cobra.Command, question string) bool {
	_, _ = fmt.Fprint(command.ErrOrStderr(), question, " [y/N] ")
	answer, _ := bufio.NewReader(command.InOrStdin()).ReadString('\n')
	return strings.EqualFold(strings.TrimSpace(answer), "y") || strings.EqualFold(strings.TrimSpace(answer), "yes")
}

// onQueues returns a command that makes a call for each of some queues.
func onQueues(c *client, verb, short string, call func(*bullmq.Queue, context.Context) error) *cobra.Command {
	return &cobra.Command{
		Use:   verb + " QUEUE...",
		Short: short,
		Args:  cobra.MinimumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			var failed error
			for _, name := range args {
				failed = errors.Join(failed, c.withQueue(command, name, func(ctx context.Context, queue *bullmq.Queue) error { return call(queue, ctx) }))
			}
			return failed
		},
	}
}
