package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// conditions are the flags that select jobs.
type conditions struct {
	states            []string
	name, data, error string
	olderThan         time.Duration
	newerThan         time.Duration
	endedBefore       time.Duration
	endedWithin       time.Duration
	maxRead           int
}

// add adds the flags. state has the states that are searched without the flag; "" for all.
func (o *conditions) add(flags *pflag.FlagSet, state string) {
	var states []string
	usage := "states of the jobs: " + strings.Join(stateNames(), ", ")
	if state != "" {
		states = strings.Split(state, ",")
	} else {
		usage += " (default all)"
	}
	flags.StringSliceVar(&o.states, "state", states, usage)
	flags.StringVar(&o.name, "name", "", "name of the jobs")
	flags.StringVar(&o.data, "data", "", "a text in their data; case is ignored")
	flags.StringVar(&o.error, "error", "", "a text in their error; case is ignored")
	flags.Var((*age)(&o.olderThan), "older-than", "only jobs that were added longer ago, such as 7d, 24h or 10m")
	flags.Var((*age)(&o.newerThan), "newer-than", "only jobs that were added later")
	flags.Var((*age)(&o.endedBefore), "ended-before", "only jobs that completed or failed longer ago")
	flags.Var((*age)(&o.endedWithin), "ended-within", "only jobs that completed or failed in this last time")
	flags.IntVar(&o.maxRead, "max-read", 1_000_000, "read at most this number of jobs")
}

// check returns an error if a flag has a value that is not possible.
func (o *conditions) check() error {
	for _, state := range o.states {
		if err := checkState(state); err != nil {
			return err
		}
	}
	return notNegative("max-read", o.maxRead)
}

// any reports whether a condition other than the state is set.
func (o *conditions) any() bool {
	return o.name != "" || o.data != "" || o.error != "" || o.olderThan > 0 || o.newerThan > 0 || o.endedBefore > 0 || o.endedWithin > 0
}

// search returns the search for the jobs, which may take some time.
func (o *conditions) search(maxTime time.Duration) bullmq.JobSearch {
	search := bullmq.JobSearch{Name: o.name, Data: o.data, Error: o.error, MaxRead: o.maxRead, MaxTime: maxTime}
	for _, state := range o.states {
		search.States = append(search.States, bullmq.State(state))
	}
	if o.olderThan > 0 {
		search.AddedBefore = time.Now().Add(-o.olderThan)
	}
	if o.newerThan > 0 {
		search.AddedAfter = time.Now().Add(-o.newerThan)
	}
	if o.endedBefore > 0 {
		search.FinishedBefore = time.Now().Add(-o.endedBefore)
	}
	if o.endedWithin > 0 {
		search.FinishedAfter = time.Now().Add(-o.endedWithin)
	}
	return search
}

// jobLine is a job in JSON.
type jobLine struct {
	State bullmq.State `json:"state"`
	*bullmq.Job
}

// MarshalJSON writes the job as BullMQ does, with its state.
func (l jobLine) MarshalJSON() ([]byte, error) {
	job, err := l.Job.MarshalJSON() // json.Marshal would escape <, > and &
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, `{"state":%q,%s`, l.State, job[1:]), nil
}

func (l jobLine) row() []string {
	return []string{l.ID, string(l.State), l.Name, ago(l.Timestamp), ago(l.FinishedOn), fmt.Sprint(l.AttemptsMade), string(l.Data), l.FailedReason}
}

// jobHead is the head of a table of jobs.
var jobHead = []string{"JOB", "STATE", "NAME", "ADDED", "ENDED", "ATTEMPTS", "DATA", "ERROR"}

func newJobs(c *client) *cobra.Command {
	var o conditions
	var limit int
	var after string
	command := &cobra.Command{
		Use:   "jobs QUEUE",
		Short: "List the jobs of a queue, the newest first",
		Args:  cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if err := cmp.Or(o.check(), notNegative("limit", limit), checkAfter(after)); err != nil {
				return err
			}
			return c.withQueue(command, args[0], func(ctx context.Context, queue *bullmq.Queue) error {
				search := o.search(budget(ctx, mostOfTheTime))
				search.Limit, search.After = limit, after
				page, err := queue.Search(ctx, search)
				if err != nil {
					return err
				}
				lines := make([]jobLine, len(page.Jobs))
				for i, job := range page.Jobs {
					lines[i] = jobLine{page.States[i], job}
				}
				err = list(c, command, lines, jobHead, jobLine.row)
				if page.Next != "" {
					_, _ = fmt.Fprintf(command.ErrOrStderr(), "There may be more: --after %s\n", page.Next)
				}
				return err
			})
		},
	}
	o.add(command.Flags(), "")
	command.Flags().IntVar(&limit, "limit", 100, "list at most this number of jobs")
	command.Flags().StringVar(&after, "after", "", "continue after an earlier list")
	return command
}

func newAdd(c *client) *cobra.Command {
	var o bullmq.JobOptions
	command := &cobra.Command{
		Use:   "add QUEUE NAME [DATA]",
		Short: "Add a job; DATA is JSON, or - to read it",
		Args:  cobra.RangeArgs(2, 3),
		RunE: func(command *cobra.Command, args []string) error {
			data, err := readData(command, cmp.Or(append(args, "", "")[2], "{}"))
			if err != nil {
				return err
			}
			ctx, connection, end, err := c.connect(command)
			if err != nil {
				return err
			}
			defer end()
			queue, err := bullmq.NewQueue(ctx, args[0], &bullmq.QueueOptions{Connection: connection, Prefix: c.prefix})
			if err != nil {
				return err
			}
			defer queue.Close()
			job, err := queue.Add(ctx, args[1], data, &o)
			if err != nil {
				return err
			}
			if job.AddOutcome() == bullmq.AlreadyExists {
				return errExists(job.ID)
			}
			return c.listIDs(command, []string{job.ID}, "")
		},
	}
	flags := command.Flags()
	flags.StringVar(&o.JobID, "id", "", "id of the job (default the next number)")
	flags.Var((*age)(&o.Delay), "delay", "time until the job may run")
	flags.IntVar(&o.Priority, "priority", 0, "priority, from 1, the highest, to 2097151 (default none)")
	flags.IntVar(&o.Attempts, "attempts", 0, "attempts in all (default 1)")
	return command
}
