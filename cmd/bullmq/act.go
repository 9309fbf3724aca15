package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// action is a command that does something with jobs.
type action struct {
	verb, done, short string
	state             string // of the jobs, such as waiting,delayed; "" for any
	do                func(ctx context.Context, queue *bullmq.Queue, job *bullmq.Job) error
	check             func(job *bullmq.Job) error // whether a job can be acted on; may be nil
	asked             *int                        // number of running jobs whose cancellation was requested; may be nil
}

// longestReason is the length of the reason of a cancellation, in bytes.
const longestReason = 1000

// withReason returns the action that cancels jobs, with a flag for the reason.
func (a action) withReason(command *cobra.Command) action {
	reason, asked := command.Flags().String("reason", "", "why the jobs are cancelled, which becomes part of their error"), 0
	a.asked = &asked
	a.do = func(ctx context.Context, queue *bullmq.Queue, job *bullmq.Job) error {
		if len(*reason) > longestReason {
			return usageError{fmt.Errorf("--reason is longer than %d bytes", longestReason)}
		}
		outcome, err := queue.Cancel(ctx, job.ID, *reason)
		switch {
		case err != nil:
		case outcome == bullmq.CancelFinished:
			err = errors.New("bullmq: the job has finished")
		case outcome == bullmq.CancelRunning:
			asked++
		}
		return err
	}
	return a
}

// withReset returns the action that retries jobs, with a flag that clears their attempts.
func (a action) withReset(command *cobra.Command) action {
	reset := command.Flags().Bool("reset-attempts", false, "clear the attempts made; otherwise a job has one more attempt")
	a.do = func(ctx context.Context, _ *bullmq.Queue, job *bullmq.Job) error {
		return job.Retry(ctx, bullmq.StateFailed, &bullmq.RetryOptions{ResetAttemptsMade: *reset, ResetAttemptsStarted: *reset})
	}
	return a
}

// report tells what was done.
func (a action) report(c *client, command *cobra.Command, r result) error {
	if a.asked != nil {
		r.Requested = *a.asked
	}
	return c.report(command, a.done, r)
}

var actions = []action{
	{verb: "retry", done: "retried", short: "Run failed jobs again", state: "failed"}, // see withReset
	{verb: "promote", done: "promoted", short: "Run delayed jobs now", state: "delayed", do: func(ctx context.Context, _ *bullmq.Queue, job *bullmq.Job) error {
		return job.Promote(ctx)
	}},
	{verb: "remove", done: "removed", short: "Remove jobs that are not running", do: func(ctx context.Context, _ *bullmq.Queue, job *bullmq.Job) error {
		return job.Remove(ctx)
	}},
	{verb: "cancel", done: "cancelled", short: "Cancel jobs, also running ones"}, // see withReason
}

func newAction(c *client, a action) *cobra.Command {
	var o conditions
	var all bool
	var change change
	command := &cobra.Command{
		Use:   a.verb + " QUEUE [ID...]",
		Short: a.short,
		Long:  a.short + ".\n\nName the jobs by their ids, or select them by conditions. --all selects all jobs of the states.\nBefore it changes jobs that conditions select, the command counts them and asks, unless there is --yes.",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			byID := len(args) > 1
			if err := cmp.Or(checkSelection(byID, all, o.any() || byID && command.Flags().Changed("state")), o.check()); err != nil {
				return err
			}
			if !byID {
				if err := change.check(command, a.verb); err != nil {
					return err
				}
			}
			return c.withQueue(command, args[0], func(ctx context.Context, queue *bullmq.Queue) error {
				if byID {
					return a.onIDs(ctx, c, command, queue, args[1:], change.dry)
				}
				return a.onMatches(ctx, c, command, queue, o.search(budget(ctx, halfTheTime)), change)
			})
		},
	}
	switch a.verb {
	case "retry":
		a = a.withReset(command)
	case "cancel":
		a = a.withReason(command)
	}
	o.add(command.Flags(), a.state)
	command.Flags().BoolVar(&all, "all", false, "all jobs of the states")
	change.add(command, "count the jobs")
	return command
}

func (a action) onIDs(ctx context.Context, c *client, command *cobra.Command, queue *bullmq.Queue, ids []string, dry bool) error {
	r := result{Matched: len(ids), DryRun: dry}
	var missing error
	for _, id := range ids {
		job, state, err := queue.JobAndState(ctx, id)
		switch {
		case err != nil:
		case a.state != "" && !slices.Contains(strings.Split(a.state, ","), string(state)):
			err = fmt.Errorf("the job is %s, not %s", state, strings.ReplaceAll(a.state, ",", " or "))
		case a.check != nil:
			err = a.check(job)
		}
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

func (a action) onMatches(ctx context.Context, c *client, command *cobra.Command, queue *bullmq.Queue, search bullmq.JobSearch, change change) error {
	if change.dry || !change.yes {
		matches, err := queue.EachMatch(ctx, search, nil)
		if err != nil {
			return err
		}
		r := result{Matched: matches.Matched, More: matches.Next != ""}
		question := fmt.Sprintf("%s %s of %s?", a.verb, jobs(r.Matched), printable(queue.Name(), longestCell))
		if may, err := c.mayChange(command, change, counted{r, "job", "jobs", a.done, question}); !may {
			return err
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
