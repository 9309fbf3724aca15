package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"time"

	"github.com/spf13/cobra"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// largestData is how much data the commands read, in bytes.
const largestData = 64 << 20

// readData returns the data of a job from an argument: JSON, or - for the standard input.
func readData(command *cobra.Command, argument string) (json.RawMessage, error) {
	data := []byte(argument)
	if argument == "-" {
		var err error
		if data, err = io.ReadAll(io.LimitReader(command.InOrStdin(), largestData+1)); err != nil {
			return nil, fmt.Errorf("bullmq: read the data: %w", err)
		}
		if len(data) > largestData {
			return nil, usageError{fmt.Errorf("DATA has more than %d bytes", largestData)}
		}
	}
	if !json.Valid(data) {
		return nil, usageError{fmt.Errorf("DATA is not JSON: %s", printable(string(data), longestCell))}
	}
	return data, nil
}

// editLine is a job whose data was changed, in JSON.
type editLine struct {
	ID     string          `json:"id"`
	Was    json.RawMessage `json:"was"`
	Data   json.RawMessage `json:"data"`
	DryRun bool            `json:"dryRun,omitempty"`
}

func newEdit(c *client) *cobra.Command {
	var dry bool
	command := &cobra.Command{
		Use:     "edit QUEUE ID DATA",
		Short:   "Replace the data of a job; DATA is JSON, or - to read it",
		Long:    "Replace the data of a job; DATA is JSON, or - to read it from the standard input.\n\nIt shows the data before and after. A job that runs keeps the data with which it was started.",
		Example: "  bullmq edit orders 17 '{\"wall\":3}'",
		Args:    cobra.ExactArgs(3),
		RunE: func(command *cobra.Command, args []string) error {
			data, err := readData(command, args[2])
			if err != nil {
				return err
			}
			return c.withQueue(command, args[0], func(ctx context.Context, queue *bullmq.Queue) error {
				job, err := queue.Job(ctx, args[1])
				if err != nil {
					return err
				}
				line := editLine{job.ID, job.Data, data, dry}
				if !dry {
					if err := job.UpdateData(ctx, data); err != nil {
						return err
					}
				}
				return list(c, command, []editLine{line}, []string{"JOB", "WAS", "DATA"}, func(l editLine) []string {
					return []string{l.ID, string(l.Was), string(l.Data)}
				})
			})
		},
	}
	command.Flags().BoolVar(&dry, "dry-run", false, "show the data before and after, and change nothing")
	return command
}

// duplicateLine is a job that was added like another one, in JSON.
type duplicateLine struct {
	ID     string `json:"id,omitempty"`
	Like   string `json:"like"`
	Name   string `json:"name"`
	DryRun bool   `json:"dryRun,omitempty"`
}

func newDuplicate(c *client) *cobra.Command {
	var id, text string
	var delay time.Duration
	var dry bool
	command := &cobra.Command{
		Use:   "duplicate QUEUE ID",
		Short: "Add a job that is like another one",
		Long: "Add a job with the name, the data and the options of another one.\n\n" +
			"It has no parent, no scheduler, no deduplication and no delay, unless there is --delay.",
		Args: cobra.ExactArgs(2),
		RunE: func(command *cobra.Command, args []string) error {
			var data json.RawMessage
			if text != "" {
				var err error
				if data, err = readData(command, text); err != nil {
					return err
				}
			}
			if err := notNegative("delay", int(delay)); err != nil {
				return err
			}
			return c.withQueue(command, args[0], func(ctx context.Context, queue *bullmq.Queue) error {
				job, err := queue.Job(ctx, args[1])
				if err != nil {
					return err
				}
				line := duplicateLine{id, job.ID, job.Name, dry}
				if !dry {
					added, err := duplicate(ctx, queue, job, data, id, delay.Truncate(time.Millisecond))
					if err != nil {
						return err
					}
					line.ID = added.ID
				}
				return list(c, command, []duplicateLine{line}, []string{"JOB", "LIKE", "NAME"}, func(l duplicateLine) []string {
					if l.DryRun {
						l.ID = "(nothing was changed)"
					}
					return []string{l.ID, l.Like, l.Name}
				})
			})
		},
	}
	flags := command.Flags()
	flags.StringVar(&id, "id", "", "id of the new job (default the next number)")
	flags.StringVar(&text, "data", "", "other data, JSON or - to read it (default the data of the job)")
	flags.Var((*age)(&delay), "delay", "time until the new job may run")
	flags.BoolVar(&dry, "dry-run", false, "show the job that would be duplicated, and change nothing")
	return command
}

// notDuplicated are the options, by their stored names, that belong to one job only.
var notDuplicated = []string{"repeat", "repeatJobKey", "prevMillis", "jobId", "parent", "fpof", "cpof", "idof", "rdof", "de", "debounce", "deadLetter"}

func duplicate(ctx context.Context, queue *bullmq.Queue, job *bullmq.Job, data json.RawMessage, id string, delay time.Duration) (*bullmq.Job, error) {
	options := job.Options
	options.JobID, options.Delay, options.Timestamp = id, delay, time.Time{}
	options.Deduplication, options.Parent, options.OnFailure, options.Telemetry = nil, nil, bullmq.KeepParentWaiting, nil
	options.Extra = maps.Clone(options.Extra)
	for _, name := range notDuplicated {
		delete(options.Extra, name)
	}
	if data == nil {
		data = job.Data
	}
	added, err := queue.Add(ctx, job.Name, data, &options)
	if err == nil && added.AddOutcome() == bullmq.AlreadyExists {
		return nil, errExists(id)
	}
	return added, err
}

// errExists is the error of an add that has added nothing.
func errExists(id string) error {
	return fmt.Errorf("bullmq: there is a job with the id %s, so none was added; choose another --id", printable(id, longestCell))
}
