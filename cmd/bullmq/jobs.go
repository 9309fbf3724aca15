package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
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
	flags.DurationVar(&o.olderThan, "older-than", 0, "only jobs that were added longer ago, such as 24h")
	flags.DurationVar(&o.newerThan, "newer-than", 0, "only jobs that were added later")
	flags.IntVar(&o.maxRead, "max-read", 1_000_000, "read at most this number of jobs")
}

// check returns an error if a flag has a value that is not possible.
func (o *conditions) check() error {
	for _, state := range o.states {
		if err := checkState(state); err != nil {
			return err
		}
	}
	return cmp.Or(notNegative("older-than", int(o.olderThan)), notNegative("newer-than", int(o.newerThan)), notNegative("max-read", o.maxRead))
}

// any reports whether a condition other than the state is set.
func (o *conditions) any() bool {
	return o.name != "" || o.data != "" || o.error != "" || o.olderThan > 0 || o.newerThan > 0
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
	return []string{l.ID, string(l.State), l.Name, ago(l.Timestamp), fmt.Sprint(l.AttemptsMade), string(l.Data), l.FailedReason}
}

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
				err = list(c, command, lines, []string{"JOB", "STATE", "NAME", "ADDED", "ATTEMPTS", "DATA", "ERROR"}, jobLine.row)
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

// shownRows is how many rows of the log are shown with a job.
const shownRows = 100

func newJob(c *client) *cobra.Command {
	return &cobra.Command{
		Use:   "job QUEUE ID",
		Short: "Show a job with the end of its log",
		Args:  cobra.ExactArgs(2),
		RunE: func(command *cobra.Command, args []string) error {
			return c.withQueue(command, args[0], func(ctx context.Context, queue *bullmq.Queue) error {
				job, state, err := queue.JobAndState(ctx, args[1])
				if err != nil {
					return err
				}
				logs, rows, err := queue.JobLogs(ctx, job.ID, bullmq.Page{Limit: shownRows})
				if err != nil {
					return err
				}
				if slices.Reverse(logs); rows > len(logs) {
					_, _ = fmt.Fprintf(command.ErrOrStderr(), "These are the last %d of %d rows of the log: bullmq logs shows all.\n", len(logs), rows)
				}
				text, err := jobLine{state, job}.MarshalJSON()
				if err != nil {
					return err
				}
				var whole bytes.Buffer
				if whole.Write(text[:len(text)-1]); len(logs) > 0 {
					whole.WriteString(`,"logs":`)
					if err := writeJSON(&whole, logs); err != nil {
						return err
					}
				}
				whole.WriteString("}")
				return writeDocument(command.OutOrStdout(), whole.Bytes(), c.asTable(command))
			})
		},
	}
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
	flags.DurationVar(&o.Delay, "delay", 0, "time until the job may run")
	flags.IntVar(&o.Priority, "priority", 0, "priority, from 1, the highest, to 2097151 (default none)")
	flags.IntVar(&o.Attempts, "attempts", 0, "attempts in all (default 1)")
	return command
}
