package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // the zones of patterns, for machines without a database of zones

	"github.com/spf13/cobra"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/cron"
	"github.com/17a2ac88/bullmq-go/internal/cronwords"
)

// schedulerLine is a scheduler in JSON.
type schedulerLine struct {
	ID         string          `json:"id"`
	Name       string          `json:"name"`
	Pattern    string          `json:"pattern,omitempty"`
	TimeZone   string          `json:"tz,omitempty"`
	EveryMS    int64           `json:"everyMs,omitempty"`
	Words      string          `json:"words,omitempty"` // the schedule in English
	Limit      int             `json:"limit,omitempty"`
	EndDate    time.Time       `json:"endDate,omitzero"`
	Paused     time.Time       `json:"paused,omitzero"` // since when it is paused
	Next       time.Time       `json:"next,omitzero"`
	NextTimes  []time.Time     `json:"nextTimes,omitempty"`
	Iterations int             `json:"iterations"`
	Data       json.RawMessage `json:"data,omitempty"`
}

func lineOfScheduler(s *bullmq.Scheduler, next int) schedulerLine {
	line := schedulerLine{
		ID: s.ID, Name: s.Name, Pattern: s.Repeat.Pattern, TimeZone: s.Repeat.TimeZone, EveryMS: s.Repeat.Every.Milliseconds(),
		Limit: s.Repeat.Limit, EndDate: s.Repeat.EndDate, Paused: s.PausedAt, Next: s.Next, Iterations: s.Iterations, Data: s.Data,
	}
	if !s.PausedAt.IsZero() {
		line.Next = time.Time{} // when the job would have run that the pause has removed
	}
	switch {
	case s.Repeat.Every > 0:
		line.Words = "every " + short(s.Repeat.Every)
	case s.Repeat.Pattern != "":
		line.Words, _ = cronwords.Describe(s.Repeat.Pattern) // "" if it can't be parsed
	}
	if next > 1 && s.PausedAt.IsZero() {
		line.NextTimes = nextTimes(s, next)
	}
	return line
}

// nextTimes returns up to count times at which jobs of a scheduler run, if nobody changes it.
func nextTimes(s *bullmq.Scheduler, count int) (times []time.Time) {
	if s.Next.IsZero() {
		return nil
	}
	if s.Repeat.Limit > 0 {
		count = min(count, max(s.Repeat.Limit-s.Iterations, 0)+1) // its next job has been added
	}
	after := func(t time.Time) (time.Time, bool) { return t.Add(s.Repeat.Every), true }
	if s.Repeat.Every == 0 {
		pattern, failed := cron.Parse(s.Repeat.Pattern)
		zone, unknown := cron.LoadZone(s.Repeat.TimeZone)
		if failed != nil || unknown != nil || cron.Drawn(s.Repeat.Pattern) != [6]bool{} {
			return []time.Time{s.Next} // the others are drawn at random, or unknown
		}
		after = func(t time.Time) (time.Time, bool) { return pattern.Next(t, zone) }
	}
	for at, ok := s.Next, true; ok && len(times) < count && (s.Repeat.EndDate.IsZero() || !at.After(s.Repeat.EndDate)); at, ok = after(at) {
		times = append(times, at.UTC())
	}
	return times
}

func (l schedulerLine) row() []string {
	schedule := cmp.Or(l.Words, l.Pattern)
	if l.Pattern != "" && l.TimeZone != "" {
		schedule += " " + l.TimeZone
	}
	next := ""
	if !l.Next.IsZero() {
		next = "in " + short(time.Until(l.Next))
		if time.Until(l.Next) < 0 {
			next = "due"
		}
	}
	if !l.Paused.IsZero() {
		next = "paused"
	}
	return []string{l.ID, l.Name, schedule, next, fmt.Sprint(l.Iterations)}
}

func newSchedulers(c *client) *cobra.Command {
	var next, limit int
	command := &cobra.Command{
		Use:   "schedulers QUEUE [ID...]",
		Short: "List the schedulers of a queue, the next one first",
		Long: "List the schedulers of a queue, the next one first and paused ones last, or those with the given ids.\n\n" +
			"With --next it lists the times of their next jobs too. bullmq scheduler changes a scheduler.",
		Example: "  bullmq schedulers reports nightly --next 10",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if err := cmp.Or(notNegative("next", next), notNegative("limit", limit)); err != nil {
				return err
			}
			if next > 1000 {
				return usageError{errors.New("--next is at most 1000")}
			}
			return c.withQueue(command, args[0], func(ctx context.Context, queue *bullmq.Queue) error {
				schedulers, err := schedulersOf(ctx, queue, args[1:], limit+1)
				if err != nil {
					return err
				}
				if len(args) == 1 && len(schedulers) > limit {
					schedulers = schedulers[:limit]
					_, _ = fmt.Fprintln(command.ErrOrStderr(), "There are more schedulers: raise --limit.")
				}
				lines := make([]schedulerLine, len(schedulers))
				for i, s := range schedulers {
					lines[i] = lineOfScheduler(s, next)
				}
				if c.asTable(command) && next > 1 {
					return c.writeTimes(command, lines)
				}
				return list(c, command, lines, []string{"SCHEDULER", "NAME", "SCHEDULE", "NEXT", "JOBS"}, schedulerLine.row)
			})
		},
	}
	command.Flags().IntVar(&next, "next", 1, "list this number of next times")
	command.Flags().IntVar(&limit, "limit", 1000, "list at most this number of schedulers")
	return command
}

// schedulersOf returns the schedulers with the ids, or all, with those that are paused.
func schedulersOf(ctx context.Context, queue *bullmq.Queue, ids []string, limit int) (all []*bullmq.Scheduler, err error) {
	paused, err := queue.PausedSchedulers(ctx)
	if err != nil {
		return nil, err
	}
	if len(ids) == 0 {
		all, err := queue.Schedulers(ctx, bullmq.Page{Limit: limit, Ascending: true})
		return append(all, paused...), err
	}
	for _, id := range ids {
		s, err := queue.Scheduler(ctx, id)
		if at := slices.IndexFunc(paused, func(s *bullmq.Scheduler) bool { return s.ID == id }); at >= 0 && errors.Is(err, bullmq.ErrSchedulerNotFound) {
			s, err = paused[at], nil
		}
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// writeTimes writes a line for each next time of each scheduler, in the zone of the terminal.
func (c *client) writeTimes(command *cobra.Command, lines []schedulerLine) error {
	type row struct {
		id, schedule string
		at           time.Time
	}
	var rows []row
	for _, line := range lines {
		id, schedule := line.ID, line.row()[2]
		for _, at := range line.NextTimes {
			rows = append(rows, row{id, schedule, at})
			id, schedule = "", ""
		}
	}
	return list(c, command, rows, []string{"SCHEDULER", "SCHEDULE", "NEXT", ""}, func(r row) []string {
		return []string{r.id, r.schedule, r.at.Local().Format("Mon 2006-01-02 15:04:05 MST"), "in " + short(time.Until(r.at))}
	})
}

// schedulerAction is a command that changes schedulers. do returns the id of a job that it has
// added.
type schedulerAction struct {
	verb, done, short, long string
	do                      func(ctx context.Context, queue *bullmq.Queue, id string) (job string, err error)
}

var schedulerActions = []schedulerAction{
	{"remove", "removed", "Remove schedulers with their next jobs", "", func(ctx context.Context, queue *bullmq.Queue, id string) (string, error) {
		return "", queue.RemoveScheduler(ctx, id)
	}},
	{"pause", "paused", "Pause schedulers, which then add no jobs", "The next job of a scheduler is removed. A service that upserts the scheduler when it starts ends the pause.", func(ctx context.Context, queue *bullmq.Queue, id string) (string, error) {
		return "", queue.PauseScheduler(ctx, id)
	}},
	{"resume", "resumed", "Resume paused schedulers", "Runs that were missed are not made up for.", func(ctx context.Context, queue *bullmq.Queue, id string) (string, error) {
		return "", queue.ResumeScheduler(ctx, id)
	}},
	{"run", "run", "Add a job of each scheduler now", "It does not change when the schedulers add jobs. They may be paused.", func(ctx context.Context, queue *bullmq.Queue, id string) (string, error) {
		job, err := queue.RunScheduler(ctx, id)
		if err != nil {
			return "", err
		}
		return job.ID, nil
	}},
}

func newScheduler(c *client) *cobra.Command {
	var verbs []string
	for _, a := range schedulerActions {
		verbs = append(verbs, a.verb)
	}
	command := &cobra.Command{
		Use:   "scheduler",
		Short: "Change schedulers: " + strings.Join(verbs, ", "),
		Long:  "Change schedulers. bullmq schedulers lists them.",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return usageError{fmt.Errorf("scheduler needs one of: %s", strings.Join(verbs, ", "))}
		},
	}
	for _, a := range schedulerActions {
		command.AddCommand(newSchedulerAction(c, a))
	}
	return command
}

func newSchedulerAction(c *client, a schedulerAction) *cobra.Command {
	var dry bool
	command := &cobra.Command{
		Use:   a.verb + " QUEUE ID...",
		Short: a.short,
		Long:  strings.TrimSpace(a.short + ".\n\n" + a.long),
		Args:  cobra.MinimumNArgs(2),
		RunE: func(command *cobra.Command, args []string) error {
			return c.withQueue(command, args[0], func(ctx context.Context, queue *bullmq.Queue) error {
				ids := slices.Compact(slices.Sorted(slices.Values(args[1:])))
				r := result{Matched: len(ids), DryRun: dry}
				var absent error
				for _, id := range ids {
					var job string
					var err error
					if dry {
						_, err = schedulersOf(ctx, queue, []string{id}, 0)
					} else if job, err = a.do(ctx, queue, id); err == nil {
						r.Done++
					}
					if job != "" {
						r.Jobs = append(r.Jobs, job)
					}
					if err != nil {
						r.fail(id, err)
					}
					if errors.Is(err, bullmq.ErrSchedulerNotFound) {
						absent = err
					}
				}
				if len(ids) == 1 && absent != nil {
					return absent
				}
				return c.reportOf(command, "scheduler", "schedulers", a.done, r)
			})
		},
	}
	command.Flags().BoolVar(&dry, "dry-run", false, "count the schedulers that exist, and change nothing")
	return command
}
