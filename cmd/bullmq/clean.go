package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// states are the states of jobs, in the order in which jobs pass them.
var states = []bullmq.State{
	bullmq.StateWaiting, bullmq.StatePrioritized, bullmq.StateDelayed, bullmq.StateWaitingChildren, bullmq.StateActive, bullmq.StateFailed, bullmq.StateCompleted,
}

func stateNames() []string {
	names := make([]string, len(states))
	for i, state := range states {
		names[i] = string(state)
	}
	return names
}

// checkState returns an error if a state does not exist.
func checkState(name string) error {
	if slices.Contains(states, bullmq.State(name)) || name == string(bullmq.StatePaused) { // paused only in BullMQ 5
		return nil
	}
	return usageError{fmt.Errorf("there is no state %q; use one of %s", name, strings.Join(stateNames(), ", "))}
}

func newClean(c *client) *cobra.Command {
	var state string
	var olderThan time.Duration
	var limit, maxRead int
	var change change
	command := &cobra.Command{
		Use:   "clean QUEUE",
		Short: "Remove the jobs of one state, the oldest first",
		Long: "Remove the jobs of one state, the oldest first.\n\n" +
			"Active jobs that a worker holds, and the next jobs of schedulers, stay.\nIt counts the jobs and asks first, unless there is --yes.",
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			olderThan = olderThan.Truncate(time.Millisecond)
			if err := cmp.Or(checkState(state), notNegative("limit", limit), notNegative("older-than", int(olderThan)), change.check(command, "clean")); err != nil {
				return err
			}
			return c.withQueue(command, args[0], func(ctx context.Context, queue *bullmq.Queue) error {
				var r result
				if change.dry || !change.yes {
					if err := c.countOld(ctx, queue, bullmq.State(state), olderThan, limit, maxRead, &r); err != nil {
						return err
					}
					atLeast := ""
					if r.More {
						atLeast = "at least "
					}
					question := fmt.Sprintf("remove %s%s of %s that are %s?", atLeast, jobs(r.Matched), printable(queue.Name(), longestCell), state)
					if may, err := c.mayChange(command, change, counted{r, "job", "jobs", "removed", question}); !may {
						return err
					}
				}
				removed, err := cleanAll(ctx, queue, bullmq.CleanOptions{State: bullmq.State(state), Grace: olderThan, Limit: limit})
				if len(removed) == 0 && err != nil {
					return err
				}
				return errors.Join(c.report(command, "removed", result{Matched: max(r.Matched, len(removed)), Done: len(removed)}), err)
			})
		},
	}
	flags := command.Flags()
	flags.StringVar(&state, "state", string(bullmq.StateCompleted), "state of the jobs: "+strings.Join(stateNames(), ", "))
	flags.Var((*age)(&olderThan), "older-than", "only jobs that ended longer ago, or were added longer ago if they have not ended, such as 7d, 24h or 10m")
	flags.IntVar(&limit, "limit", 0, "remove at most this number of jobs (default all)")
	flags.IntVar(&maxRead, "max-read", 1_000_000, "to count jobs by their age, read at most this number of them")
	change.add(command, "count the jobs")
	return command
}

// cleanAll removes jobs. In BullMQ 5, the waiting jobs of a paused queue are in the state paused.
func cleanAll(ctx context.Context, queue *bullmq.Queue, o bullmq.CleanOptions) ([]string, error) {
	removed, err := queue.Clean(ctx, &o)
	if err != nil || o.State != bullmq.StateWaiting || o.Limit > 0 && len(removed) >= o.Limit {
		return removed, err
	}
	if n, err := total(ctx, queue, bullmq.StatePaused); err != nil || n == 0 {
		return removed, err
	}
	o.State = bullmq.StatePaused
	if o.Limit > 0 {
		o.Limit -= len(removed)
	}
	paused, err := queue.Clean(ctx, &o)
	return append(removed, paused...), err
}

// notNegative returns an error if the value of a flag is negative.
func notNegative(flag string, value int) error {
	if value < 0 {
		return usageError{fmt.Errorf("--%s is negative", flag)}
	}
	return nil
}

// countOld counts the jobs that clean would remove. Without an age it reads no jobs.
func (c *client) countOld(ctx context.Context, queue *bullmq.Queue, state bullmq.State, age time.Duration, limit, maxRead int, r *result) error {
	if age == 0 {
		n, err := total(ctx, queue, state) // in BullMQ 5, waiting jobs may be in the state paused
		r.Matched = n
		if limit > 0 {
			r.Matched = min(r.Matched, limit)
		}
		return err
	}
	before := time.Now().Add(-age)
	search := bullmq.JobSearch{States: []bullmq.State{state}, Limit: 1000, MaxTime: c.timeout.Truncate(time.Millisecond)}
	for read := 0; ; {
		search.MaxRead = maxRead - read
		if search.MaxRead <= 0 {
			r.More = true
			return nil
		}
		page, err := queue.Search(ctx, search)
		if err != nil {
			return err
		}
		for i, job := range page.Jobs {
			if !sameState(page.States[i], state) || ageFrom(job, state).After(before) {
				continue
			}
			if r.Matched++; r.Matched == limit {
				return nil
			}
		}
		if page.Next == "" {
			return nil
		}
		read += page.Read
		search.After = page.Next
	}
}

// sameState reports whether clean removes jobs in a state for a wanted one. In BullMQ 5, the waiting
// jobs of a paused queue are in the state paused.
func sameState(state, wanted bullmq.State) bool {
	return state == wanted || wanted == bullmq.StateWaiting && state == bullmq.StatePaused
}

// ageFrom returns the time from which clean counts the age of a job.
func ageFrom(job *bullmq.Job, state bullmq.State) time.Time {
	var times []time.Time
	switch state {
	case bullmq.StateCompleted, bullmq.StateFailed, bullmq.StateWaiting, bullmq.StatePaused, bullmq.StateActive:
		times = []time.Time{job.FinishedOn, job.ProcessedOn}
	case bullmq.StateDelayed:
		times = []time.Time{job.ProcessedOn}
	}
	for _, t := range times {
		if !t.IsZero() {
			return t
		}
	}
	return job.Timestamp
}

func newDrain(c *client) *cobra.Command {
	var delayed bool
	var change change
	command := &cobra.Command{
		Use:   "drain QUEUE",
		Short: "Remove all jobs that wait, also those with a priority",
		Long: "Remove all jobs that wait, also those with a priority.\n\n" +
			"Running jobs and the next jobs of schedulers stay.\nIt counts the jobs and asks first, unless there is --yes.",
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if err := change.check(command, "drain"); err != nil {
				return err
			}
			return c.withQueue(command, args[0], func(ctx context.Context, queue *bullmq.Queue) error {
				drained := []bullmq.State{bullmq.StateWaiting, bullmq.StatePrioritized}
				if delayed {
					drained = append(drained, bullmq.StateDelayed)
				}
				before, err := total(ctx, queue, drained...)
				if err != nil {
					return err
				}
				question := fmt.Sprintf("remove %s of %s?", jobs(before), printable(queue.Name(), longestCell))
				if may, err := c.mayChange(command, change, counted{result{Matched: before}, "job", "jobs", "removed", question}); !may {
					return err
				}
				if err := queue.Drain(ctx, &bullmq.DrainOptions{Delayed: delayed}); err != nil {
					return err
				}
				after, err := total(ctx, queue, drained...)
				if err != nil {
					return err
				}
				return c.report(command, "removed", result{Matched: before, Done: max(before-after, 0)})
			})
		},
	}
	command.Flags().BoolVar(&delayed, "delayed", false, "remove delayed jobs too")
	change.add(command, "count the jobs")
	return command
}

// total returns the number of jobs in some states.
func total(ctx context.Context, queue *bullmq.Queue, states ...bullmq.State) (n int, err error) {
	counts, err := queue.Counts(ctx, states...)
	for _, m := range counts {
		n += m
	}
	return n, err
}

func newObliterate(c *client) *cobra.Command {
	var name string
	var force bool
	var change change
	command := &cobra.Command{
		Use:   "obliterate QUEUE",
		Short: "Remove a queue with all its jobs, schedulers, metrics and settings",
		Long: "Remove a queue with all its jobs, schedulers, metrics and settings.\n\n" +
			"It counts the jobs and asks for the name of the queue first. In a script give --yes and --name QUEUE.",
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			switch {
			case change.yes && name != args[0], name != "" && name != args[0]:
				return usageError{errors.New("repeat the name of the queue with --name, because the queue is removed for good")}
			case !change.dry && !change.yes && !isTerminal(command.InOrStdin()):
				return usageError{errors.New("the input is not a terminal that can be asked: count with --dry-run, and obliterate with --yes --name QUEUE")}
			}
			return c.withQueue(command, args[0], func(ctx context.Context, queue *bullmq.Queue) error {
				counts, err := queue.Counts(ctx)
				if err != nil {
					return err
				}
				all := 0
				for _, n := range counts {
					all += n
				}
				if change.dry {
					return c.report(command, "removed", result{Matched: all, DryRun: true})
				}
				if running := counts[bullmq.StateActive]; running > 0 && !force {
					return fmt.Errorf("bullmq: obliterate %s: %s running: pause the queue and wait for them, or give --force; nothing was changed", printable(queue.Name(), longestCell), count(running, "job is", "jobs are"))
				}
				if !change.yes {
					typed := prompt(command, fmt.Sprintf("This removes %s with %s, its schedulers, metrics and settings.\nType the name of the queue to go on: ", printable(queue.Name(), longestCell), jobs(all)))
					if typed != queue.Name() {
						return errUnchanged
					}
				}
				if err := queue.Obliterate(ctx, &bullmq.ObliterateOptions{Force: force}); err != nil {
					if errors.Is(err, bullmq.ErrActiveJobs) { // one has started since they were counted
						return fmt.Errorf("%w; the queue is paused now", err)
					}
					return err
				}
				return c.report(command, "removed", result{Matched: all, Done: all})
			})
		},
	}
	command.Flags().StringVar(&name, "name", "", "the name of the queue once more, for --yes")
	command.Flags().BoolVar(&force, "force", false, "also while jobs run")
	change.add(command, "count the jobs")
	return command
}
