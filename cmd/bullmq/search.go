package main

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// budget returns the time that a search may take, as a part of the time that is left.
func budget(ctx context.Context, part float64) time.Duration {
	deadline, _ := ctx.Deadline()
	return max(time.Duration(float64(time.Until(deadline))*part).Truncate(time.Millisecond), time.Millisecond)
}

// Parts of the time that a search may take.
const (
	mostOfTheTime = 0.9
	halfTheTime   = 0.5 // the other half is for what is done with the jobs
)

// foundLine is a job of one of several queues in JSON.
type foundLine struct {
	queue string
	jobLine
}

func (l foundLine) MarshalJSON() ([]byte, error) {
	job, err := l.jobLine.MarshalJSON()
	if err != nil {
		return nil, err
	}
	return slices.Concat([]byte(`{"queue":`), quoted(l.queue), []byte(","), job[1:]), nil
}

func newSearch(c *client) *cobra.Command {
	var o conditions
	var id, after string
	var limit int
	command := &cobra.Command{
		Use:   "search [QUEUE...]",
		Short: "Find jobs in some queues, or in all",
		Long: "Find jobs in some queues, or in all, by their id or by conditions.\n\n" +
			"A search by --id is quick. Otherwise the jobs of the states are read, up to --max-read. If there are more, the command\nprints the --after that continues.",
		Example: "  bullmq search --id 4711\n  bullmq search --state failed --error timeout orders mails",
		Args:    cobra.ArbitraryArgs,
		RunE: func(command *cobra.Command, args []string) error {
			switch {
			case id == "" && !o.any():
				return usageError{errors.New("give --id, or a condition such as --name or --error; bullmq jobs QUEUE lists all jobs")}
			case id != "" && (o.any() || after != "" || command.Flags().Changed("state")):
				return usageError{errors.New("give either --id or conditions")}
			}
			escaped, position, resumes := strings.Cut(after, "@")
			startQueue, wrong := url.QueryUnescape(escaped)
			if wrong != nil || after != "" && !resumes {
				return usageError{errors.New("--after is not one that a search has printed")}
			}
			if err := cmp.Or(o.check(), notNegative("limit", limit), checkAfter(position)); err != nil {
				return err
			}
			ctx, connection, end, err := c.connect(command)
			if err != nil {
				return err
			}
			defer end()
			s := &searching{c: c, connection: connection}
			if err := s.choose(ctx, args); err != nil {
				return err
			}
			if id != "" {
				err = s.byID(ctx, id)
			} else {
				err = s.byConditions(ctx, o, limit, position, startQueue)
			}
			if len(s.found) > 0 || err == nil {
				err = errors.Join(list(c, command, s.found, slices.Concat([]string{"QUEUE"}, jobHead), func(l foundLine) []string {
					return append([]string{l.queue}, l.row()...)
				}), err)
			}
			if s.next != "" {
				_, _ = fmt.Fprintf(command.ErrOrStderr(), "There may be more: --after '%s'\n", printable(s.next, 1000))
			}
			return err
		},
	}
	o.add(command.Flags(), "")
	command.Flags().StringVar(&id, "id", "", "id of the job")
	command.Flags().IntVar(&limit, "limit", 100, "list at most this number of jobs")
	command.Flags().StringVar(&after, "after", "", "continue after an earlier search")
	return command
}

// checkAfter returns an error if a position is not one that a command has printed.
func checkAfter(position string) error {
	if text, err := base64.RawURLEncoding.DecodeString(position); position != "" && (err != nil || !json.Valid(text)) {
		return usageError{errors.New("--after is not one that a command has printed; leave it out to begin anew")}
	}
	return nil
}

// searching is a search in several queues.
type searching struct {
	c          *client
	connection *bullmq.Connection
	queues     []bullmq.QueueSummary // in the order of their names
	found      []foundLine
	next       string
}

// choose chooses the named queues, or all.
func (s *searching) choose(ctx context.Context, names []string) error {
	named := len(names) > 0
	if !named {
		for name, err := range bullmq.ListQueues(ctx, s.connection, s.c.prefix) {
			if err != nil {
				return err
			}
			names = append(names, name)
		}
	}
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	var err error
	if s.queues, err = bullmq.SummarizeQueues(ctx, s.connection, s.c.prefix, names...); err != nil || !named {
		return err
	}
	for _, summary := range s.queues {
		if err := s.c.mustExist(ctx, s.connection, summary); err != nil {
			return err
		}
	}
	return nil
}

func (s *searching) open(ctx context.Context, name string) (*bullmq.Queue, error) {
	return bullmq.NewQueue(ctx, name, &bullmq.QueueOptions{Connection: s.connection, Prefix: s.c.prefix, SkipMetaUpdate: true})
}

// byID looks for the job in many queues at once.
func (s *searching) byID(ctx context.Context, id string) error {
	found := make([]foundLine, len(s.queues))
	failed := make([]error, len(s.queues))
	free := make(chan struct{}, 16)
	var all sync.WaitGroup
	for i, summary := range s.queues {
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			queue, err := s.open(ctx, summary.Name)
			if err != nil {
				failed[i] = err
				return
			}
			defer queue.Close()
			job, state, err := queue.JobAndState(ctx, id)
			if !errors.Is(err, bullmq.ErrJobNotFound) {
				failed[i] = err
			}
			if err == nil {
				found[i] = foundLine{summary.Name, jobLine{state, job}}
			}
		})
	}
	all.Wait()
	for _, line := range found {
		if line.Job != nil {
			s.found = append(s.found, line)
		}
	}
	err := errors.Join(failed...)
	if err == nil && len(s.found) == 0 {
		return fmt.Errorf("bullmq: find job %s in %s: %w", printable(id, longestCell), count(len(s.queues), "queue", "queues"), bullmq.ErrJobNotFound)
	}
	return err
}

// byConditions searches one queue after the other.
func (s *searching) byConditions(ctx context.Context, o conditions, limit int, position, startQueue string) error {
	var failed error
	read := 0
	for _, summary := range s.queues {
		if summary.Name < startQueue || !o.mayMatch(summary) {
			continue
		}
		search := o.search(budget(ctx, mostOfTheTime))
		if summary.Name == startQueue {
			search.After = position
		}
		search.Limit, search.MaxRead = limit-len(s.found), o.maxRead-read
		if search.Limit <= 0 || search.MaxRead <= 0 || search.MaxTime <= time.Millisecond {
			s.next = positionIn(summary.Name, search.After)
			return failed
		}
		page, err := s.searchQueue(ctx, summary.Name, search)
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		for i, job := range page.Jobs {
			s.found = append(s.found, foundLine{summary.Name, jobLine{page.States[i], job}})
		}
		if read += page.Read; page.Next != "" {
			s.next = positionIn(summary.Name, page.Next)
			return failed
		}
	}
	return failed
}

// positionIn returns the --after that continues in a queue, after a position of its search. Names
// of queues and ids of jobs may have an at sign.
func positionIn(queue, position string) string { return url.QueryEscape(queue) + "@" + position }

func (s *searching) searchQueue(ctx context.Context, name string, search bullmq.JobSearch) (*bullmq.JobPage, error) {
	queue, err := s.open(ctx, name)
	if err != nil {
		return nil, err
	}
	defer queue.Close()
	return queue.Search(ctx, search)
}

// mayMatch reports whether the queue has jobs in the states.
func (o *conditions) mayMatch(summary bullmq.QueueSummary) bool {
	if summary.Err != nil {
		return true // the search tells why it can't be read
	}
	for state, n := range summary.Counts {
		if n > 0 && (len(o.states) == 0 || slices.Contains(o.states, string(state)) || state == bullmq.StateWaiting && slices.Contains(o.states, string(bullmq.StatePaused))) {
			return true
		}
	}
	return false
}
