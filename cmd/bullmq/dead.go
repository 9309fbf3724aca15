package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// letterLine is a dead letter in JSON.
type letterLine struct {
	ID           string          `json:"id"`
	Queue        string          `json:"queue"` // of the job that failed
	Job          string          `json:"job"`
	Name         string          `json:"name"`
	Reason       string          `json:"reason"`
	Cancelled    bool            `json:"cancelled,omitempty"`
	AttemptsMade int             `json:"attemptsMade"`
	FailedAt     time.Time       `json:"failedAt"`
	Data         json.RawMessage `json:"data"`
	State        bullmq.State    `json:"state,omitempty"` // of the letter
	StackTrace   []string        `json:"stackTrace,omitempty"`
}

func lineOfLetter(d bullmq.DeadLetter, state bullmq.State) letterLine {
	return letterLine{
		ID: d.Letter.ID, Queue: d.QueueName, Job: d.JobID, Name: d.Name, Reason: d.Reason, Cancelled: d.Cancelled,
		AttemptsMade: d.AttemptsMade, FailedAt: d.FailedAt, Data: d.Letter.Data, State: state,
	}
}

func (l letterLine) row() []string {
	return []string{l.ID, l.Queue, l.Job, l.Name, ago(l.FailedAt), fmt.Sprint(l.AttemptsMade), string(l.Data), l.Reason}
}

// replayable are the states of letters.
var replayable = []bullmq.State{bullmq.StateWaiting, bullmq.StatePrioritized, bullmq.StateDelayed, bullmq.StateFailed, bullmq.StateCompleted}

// letterConditions are the flags that select dead letters.
type letterConditions struct {
	from, name, data, reason string
	olderThan                time.Duration
	maxRead                  int
}

func (o *letterConditions) add(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&o.from, "from", "", "queue of the jobs that failed")
	flags.StringVar(&o.name, "name", "", "name of the jobs")
	flags.StringVar(&o.data, "data", "", "a text in their data; case is ignored")
	flags.StringVar(&o.reason, "error", "", "a text in the error with which they failed; case is ignored")
	flags.Var((*age)(&o.olderThan), "older-than", "only jobs that failed longer ago, such as 7d, 24h or 10m")
	flags.IntVar(&o.maxRead, "max-read", 1_000_000, "read at most this number of jobs")
}

func (o *letterConditions) check() error {
	return cmp.Or(notNegative("older-than", int(o.olderThan)), notNegative("max-read", o.maxRead))
}

func (o *letterConditions) any() bool {
	return o.from != "" || o.name != "" || o.data != "" || o.reason != "" || o.olderThan > 0
}

// filter returns a function that reports whether a letter is selected.
func (o *letterConditions) filter() func(bullmq.DeadLetter) bool {
	contains := func(text, part string) bool {
		return part == "" || strings.Contains(strings.ToLower(text), strings.ToLower(part))
	}
	before := time.Now().Add(-o.olderThan)
	return func(d bullmq.DeadLetter) bool {
		return (o.from == "" || d.QueueName == o.from) && (o.name == "" || d.Name == o.name) &&
			contains(d.Reason, o.reason) && contains(string(d.Letter.Data), o.data) && (o.olderThan == 0 || d.FailedAt.Before(before))
	}
}

// find passes the letters that are selected to found, until it returns false. It returns the
// position that continues; "" after the last job.
func (o *letterConditions) find(ctx context.Context, queue *bullmq.Queue, after string, found func(bullmq.DeadLetter, bullmq.State) (more bool)) (next string, err error) {
	selected := o.filter()
	search := bullmq.JobSearch{States: replayable, Name: o.name, Data: o.data, MaxTime: budget(ctx, mostOfTheTime), After: after}
	began := time.Now()
	for read := 0; ; {
		search.MaxRead = min(100, o.maxRead-read)
		search.Limit = search.MaxRead
		if search.MaxRead <= 0 || time.Since(began) > search.MaxTime {
			return search.After, nil
		}
		page, err := queue.Search(ctx, search)
		if err != nil {
			return "", err
		}
		for i, job := range page.Jobs {
			if letter, ok := job.DeadLetter(); ok && selected(letter) && !found(letter, page.States[i]) {
				search.Limit = i + 1 // the page that ends here has the position
				page, err := queue.Search(ctx, search)
				if err != nil {
					return "", err
				}
				return page.Next, nil
			}
		}
		if page.Next == "" {
			return "", nil
		}
		read += page.Read
		search.After = page.Next
	}
}

func newDead(c *client) *cobra.Command {
	var o letterConditions
	var counts bool
	var job, after string
	var limit int
	command := &cobra.Command{
		Use:   "dead QUEUE [ID]",
		Short: "List the dead letters in a queue, count them, or show one",
		Long: "List the dead letters in a queue, or count them by queue and reason, or show one by its ID.\n\n" +
			"A dead letter is a job that has failed for good, and was moved to QUEUE. bullmq replay puts it back.",
		Example: "  bullmq dead failures --error timeout\n  bullmq dead failures --counts\n  bullmq dead failures --from orders --job 4711",
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(command *cobra.Command, args []string) error {
			one := len(args) > 1 || job != ""
			switch {
			case job != "" && (o.from == "" || len(args) > 1):
				return usageError{errors.New("--job is the id of a job that failed: give its queue with --from, and no ID")}
			case counts && (one || o.any() || after != ""), len(args) > 1 && o.any():
				return usageError{errors.New("give either an ID, or --counts, or conditions")}
			}
			if err := cmp.Or(o.check(), notNegative("limit", limit), checkAfter(after)); err != nil {
				return err
			}
			return c.withQueue(command, args[0], func(ctx context.Context, queue *bullmq.Queue) error {
				switch {
				case counts:
					return c.countLetters(ctx, command, queue)
				case job != "":
					letter, err := queue.DeadLetter(ctx, o.from, job)
					return cmp.Or(err, c.showLetter(ctx, command, queue, letter))
				case one:
					letter, err := queue.Job(ctx, args[1])
					if err != nil {
						return err
					}
					dead, ok := letter.DeadLetter()
					if !ok {
						return fmt.Errorf("bullmq: read dead letter %s of %s: %w", printable(args[1], longestCell), printable(queue.Name(), longestCell), bullmq.ErrNotDeadLetter)
					}
					return c.showLetter(ctx, command, queue, dead)
				}
				return c.listLetters(ctx, command, queue, o, limit, after)
			})
		},
	}
	o.add(command)
	command.Flags().BoolVar(&counts, "counts", false, "count the letters by queue and reason")
	command.Flags().StringVar(&job, "job", "", "show the letter of the job with this id, which failed in the queue --from")
	command.Flags().IntVar(&limit, "limit", 100, "list at most this number of letters")
	command.Flags().StringVar(&after, "after", "", "continue after an earlier list")
	return command
}

func (c *client) listLetters(ctx context.Context, command *cobra.Command, queue *bullmq.Queue, o letterConditions, limit int, after string) error {
	var lines []letterLine
	next, err := o.find(ctx, queue, after, func(d bullmq.DeadLetter, state bullmq.State) bool {
		lines = append(lines, lineOfLetter(d, state))
		return len(lines) < cmp.Or(limit, 100)
	})
	if err != nil {
		return err
	}
	err = list(c, command, lines, []string{"LETTER", "QUEUE", "JOB", "NAME", "FAILED", "ATTEMPTS", "DATA", "ERROR"}, letterLine.row)
	if next != "" {
		_, _ = fmt.Fprintf(command.ErrOrStderr(), "There may be more: --after %s\n", next)
	}
	return err
}

func (c *client) showLetter(ctx context.Context, command *cobra.Command, queue *bullmq.Queue, letter bullmq.DeadLetter) error {
	state, err := queue.JobState(ctx, letter.Letter.ID)
	if err != nil {
		return err
	}
	line := lineOfLetter(letter, state)
	line.StackTrace = letter.Letter.StackTrace
	var text bytes.Buffer
	if err := writeJSON(&text, line); err != nil {
		return err
	}
	return writeDocument(command.OutOrStdout(), text.Bytes(), c.asTable(command))
}

func (c *client) countLetters(ctx context.Context, command *cobra.Command, queue *bullmq.Queue) error {
	counts, err := queue.DeadLetterCounts(ctx)
	if err != nil {
		return err
	}
	if !c.asTable(command) {
		return writeJSON(command.OutOrStdout(), struct {
			Total        int            `json:"total"`
			Queues       map[string]int `json:"queues"`
			Reasons      map[string]int `json:"reasons"`
			OtherReasons int            `json:"otherReasons,omitempty"`
		}{counts.Total, counts.Queues, counts.Reasons, counts.OtherReasons})
	}
	type row struct {
		name  string
		count int
	}
	table := func(values map[string]int, others int, head string) error {
		var rows []row
		for name, n := range values {
			rows = append(rows, row{name, n})
		}
		slices.SortFunc(rows, func(a, b row) int { return cmp.Or(b.count-a.count, strings.Compare(a.name, b.name)) })
		if others > 0 {
			rows = append(rows, row{"other reasons", others})
		}
		return list(c, command, rows, []string{"LETTERS", head}, func(r row) []string { return []string{fmt.Sprint(r.count), r.name} })
	}
	if err := table(counts.Queues, 0, "QUEUE"); err != nil {
		return err
	}
	_, _ = fmt.Fprintln(command.OutOrStdout())
	return table(counts.Reasons, counts.OtherReasons, "ERROR")
}

func newReplay(c *client) *cobra.Command {
	var o letterConditions
	var all bool
	var limit int
	var change change
	command := &cobra.Command{
		Use:   "replay QUEUE [ID...]",
		Short: "Put dead letters back into their queues, where they run again",
		Long: "Put dead letters of QUEUE back into the queues where they failed, where they run again.\n\n" +
			"Name the letters by their ids, or select them by conditions. --all selects all letters.\nBefore it puts letters back that conditions select, the command counts them and asks, unless there is --yes.",
		Args: cobra.MinimumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			byID := len(args) > 1
			if err := cmp.Or(checkSelection(byID, all, o.any()), o.check(), notNegative("limit", limit)); err != nil {
				return err
			}
			if !byID {
				if err := change.check(command, "replay"); err != nil {
					return err
				}
			}
			return c.withQueue(command, args[0], func(ctx context.Context, queue *bullmq.Queue) error {
				if byID {
					return c.replayIDs(ctx, command, queue, args[1:], change.dry)
				}
				return c.replayMatches(ctx, command, queue, o, limit, change)
			})
		},
	}
	o.add(command)
	command.Flags().BoolVar(&all, "all", false, "all letters of the queue")
	command.Flags().IntVar(&limit, "limit", 0, "put back at most this number of letters (default all)")
	change.add(command, "count the letters")
	return command
}

func (c *client) replayIDs(ctx context.Context, command *cobra.Command, queue *bullmq.Queue, ids []string, dry bool) error {
	letter := action{verb: "replay", done: "replayed", do: func(ctx context.Context, queue *bullmq.Queue, job *bullmq.Job) error {
		_, err := queue.ReplayDeadLetter(ctx, job.ID)
		return err
	}, check: func(job *bullmq.Job) error {
		if _, ok := job.DeadLetter(); !ok {
			return bullmq.ErrNotDeadLetter
		}
		return nil
	}}
	return letter.onIDs(ctx, c, command, queue, ids, dry)
}

func (c *client) replayMatches(ctx context.Context, command *cobra.Command, queue *bullmq.Queue, o letterConditions, limit int, change change) error {
	var r result
	if change.dry || !change.yes {
		next, err := o.find(ctx, queue, "", func(bullmq.DeadLetter, bullmq.State) bool {
			r.Matched++
			return r.Matched != limit
		})
		if err != nil {
			return err
		}
		r.More = next != "" && r.Matched != limit
		question := fmt.Sprintf("replay %s of %s?", count(r.Matched, "letter", "letters"), printable(queue.Name(), longestCell))
		if may, err := c.mayChange(command, change, counted{r, "letter", "letters", "replayed", question}); !may {
			return err
		}
	}
	ids, err := queue.ReplayDeadLetters(ctx, &bullmq.ReplayOptions{Filter: o.filter(), Limit: limit})
	done := result{Matched: max(r.Matched, len(ids)), Done: len(ids)}
	return errors.Join(c.reportOf(command, "letter", "letters", "replayed", done), err)
}
