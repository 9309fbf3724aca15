package dashboard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// queueActions act on a whole queue.
var queueActions = slices.Concat([]action{addAction}, pauseActions, limitActions, allActions)

// pauseActions pause and resume a queue.
var pauseActions = []action{
	{
		name: "pause", title: "Pause", on: onQueue,
		plan: func(ctx context.Context, s *subject) (string, error) {
			counts, err := s.counts(ctx)
			return fmt.Sprintf("Workers of %s start no more jobs. %s wait. The %s that run end.", s.name, number(ready(counts), "job"), formatCount(counts[bullmq.StateActive])), err
		},
		do: func(ctx context.Context, s *subject) (string, error) {
			return s.name + " is paused.", s.queue.Pause(ctx)
		},
	},
	{
		name: "resume", title: "Resume", on: onQueue,
		plan: func(ctx context.Context, s *subject) (string, error) {
			counts, err := s.counts(ctx)
			return fmt.Sprintf("Workers of %s start jobs again. %s wait.", s.name, number(ready(counts), "job")), err
		},
		do: func(ctx context.Context, s *subject) (string, error) {
			return s.name + " is no longer paused.", s.queue.Resume(ctx)
		},
	},
}

// allActions act on many jobs of a queue.
var allActions = []action{
	{
		name: "retryall", title: "Retry all", on: onQueue,
		fields: []field{
			{Name: "state", Label: "State", Kind: "choice", Value: string(bullmq.StateFailed), Choices: []string{string(bullmq.StateFailed), string(bullmq.StateCompleted)}},
			{Name: "clear", Label: "Clear the attempts made", Kind: "check", Hint: "Otherwise a failed job has one more attempt."},
		},
		plan: planRetryAll, do: retryAll,
	},
	{
		name: "promoteall", title: "Promote all", on: onQueue,
		plan: func(ctx context.Context, s *subject) (string, error) {
			counts, err := s.counts(ctx)
			schedulers, err2 := s.queue.CountSchedulers(ctx)
			plan := fmt.Sprintf("Make all %s of %s ready now.", number(counts[bullmq.StateDelayed], "delayed job"), s.name)
			if schedulers > 0 {
				plan += fmt.Sprintf(" The next jobs of %s are among them.", number(schedulers, "scheduler"))
			}
			return plan, errors.Join(err, err2)
		},
		do: func(ctx context.Context, s *subject) (string, error) {
			return s.until(ctx, "promoted", []bullmq.State{bullmq.StateDelayed}, func(ctx context.Context) error { return s.queue.PromoteJobs(ctx, nil) })
		},
	},
	{
		name: "drain", title: "Drain", on: onQueue, warn: "Removed jobs can’t be brought back.",
		fields: []field{{Name: "delayed", Label: "Remove delayed jobs too", Kind: "check"}},
		plan: func(ctx context.Context, s *subject) (string, error) {
			counts, err := s.counts(ctx)
			plan := fmt.Sprintf("Remove the %s that wait in %s, prioritized ones too.", number(ready(counts), "job"), s.name)
			delayed := number(counts[bullmq.StateDelayed], "delayed job")
			if s.checked("delayed") {
				plan += fmt.Sprintf(" Remove the %s too.", delayed)
			} else {
				plan += fmt.Sprintf(" %s stay, unless you remove them too.", delayed)
			}
			return plan + " Running jobs and the next job of each scheduler stay.", err
		},
		do: func(ctx context.Context, s *subject) (string, error) {
			states := []bullmq.State{bullmq.StateWaiting, bullmq.StatePrioritized}
			if s.checked("delayed") {
				states = append(states, bullmq.StateDelayed)
			}
			return s.until(ctx, "removed", states, func(ctx context.Context) error {
				return s.queue.Drain(ctx, &bullmq.DrainOptions{Delayed: s.checked("delayed")})
			})
		},
	},
	cleanAction,
	{
		name: "orphans", title: "Remove orphaned jobs", on: onQueue, warn: "Removed jobs can’t be brought back.",
		plan: func(ctx context.Context, s *subject) (string, error) {
			ctx, cancel := s.bounded(ctx)
			defer cancel()
			ids, err := s.queue.FindOrphanedJobs(ctx)
			if err != nil {
				return "", err
			}
			stranded, err := s.queue.FindStrandedJobs(ctx)
			plan := fmt.Sprintf("Remove %s of %s%s. Orphaned jobs are in no state. To find them, all keys of the server are scanned.", number(len(ids), "orphaned job"), s.name, someOf(ids))
			if len(stranded) > 0 {
				plan += fmt.Sprintf(" Among them: %s, which can be repaired instead.", number(len(stranded), "unfinished job"))
			}
			return plan, err
		},
		do: func(ctx context.Context, s *subject) (string, error) {
			bounded, cancel := s.bounded(ctx)
			defer cancel()
			ids, err := s.queue.RemoveOrphanedJobs(bounded, nil)
			return s.partly(bounded, fmt.Sprintf("%s removed.", number(len(ids), "job")), err)
		},
	},
	{
		name: "repair", title: "Repair stranded jobs", on: onQueue,
		plan: func(ctx context.Context, s *subject) (string, error) {
			ctx, cancel := s.bounded(ctx)
			defer cancel()
			ids, err := s.queue.FindStrandedJobs(ctx)
			return fmt.Sprintf("Make %s of %s ready%s. Stranded jobs have not finished, and are in no state. To find them, all keys of the server are scanned. First make sure that no client of BullMQ 5 pauses or resumes the queue, or jobs will be lost again.", number(len(ids), "stranded job"), s.name, someOf(ids)), err
		},
		do: func(ctx context.Context, s *subject) (string, error) {
			bounded, cancel := s.bounded(ctx)
			defer cancel()
			ids, err := s.queue.RepairPaused(bounded)
			return s.partly(bounded, fmt.Sprintf("%s repaired.", number(len(ids), "job")), err)
		},
	},
	{
		name: "obliterate", title: "Obliterate", on: onQueue, typed: true, warn: "All jobs, schedulers and settings of the queue are removed, and can’t be brought back. A program that uses the queue creates it anew.",
		fields: []field{{Name: "force", Label: "Even while jobs run", Kind: "check", Hint: "Their workers then fail to finish them."}},
		plan:   planObliterate, do: obliterate,
	},
}

// counts returns the numbers of jobs of each state.
func (s *subject) counts(ctx context.Context) (map[bullmq.State]int, error) {
	return s.queue.Counts(ctx, shownStates...)
}

func ready(counts map[bullmq.State]int) int {
	return counts[bullmq.StateWaiting] + counts[bullmq.StatePrioritized]
}

func anyOf(parts []string, none string) string {
	if len(parts) == 0 {
		return none
	}
	return strings.Join(parts, ", ") + " jobs"
}

// someOf returns some of many ids in parentheses.
func someOf(ids []string) string {
	var some []string
	for _, id := range ids[:min(len(ids), 10)] {
		some = append(some, cut(id, 60))
	}
	switch {
	case len(ids) == 0:
		return ""
	case len(ids) > len(some):
		some = append(some, "…")
	}
	return " (" + strings.Join(some, ", ") + ")"
}

// until makes a call that changes all jobs of some states. It tells how many the call has changed,
// and how many are left if there was no time for all.
func (s *subject) until(ctx context.Context, past string, states []bullmq.State, call func(ctx context.Context) error) (string, error) {
	before, err := s.queue.Counts(ctx, states...)
	if err != nil {
		return "", err
	}
	bounded, cancel := s.bounded(ctx)
	defer cancel()
	failed := call(bounded)
	if failed != nil && !isLate(bounded, failed) {
		return "", failed
	}
	after, err := s.queue.Counts(ctx, states...)
	if err != nil {
		return "", errors.Join(failed, err)
	}
	left := 0
	for _, n := range after {
		left += n
	}
	was := 0
	for _, n := range before {
		was += n
	}
	text := fmt.Sprintf("%s %s.", number(max(0, was-left), "job"), past)
	if failed != nil {
		s.More = true
		return text + fmt.Sprintf(" There was no time for %s: repeat the action.", number(left, "other job")), nil
	}
	if left > 0 {
		text += fmt.Sprintf(" %s left.", number(left, "job"))
	}
	return text, nil
}

// partly returns what was done, also if there was no time for all.
func (s *subject) partly(bounded context.Context, text string, err error) (string, error) {
	if err != nil && isLate(bounded, err) {
		s.More = true
		return text + " There was no time for all: repeat the action.", nil
	}
	return text, err
}

// retriedState returns the state of the jobs that are to be retried.
func (s *subject) retriedState() (bullmq.State, error) {
	state := cmp.Or(bullmq.State(s.form.Get("state")), bullmq.StateFailed)
	if state != bullmq.StateFailed && state != bullmq.StateCompleted {
		return "", badRequest{fmt.Errorf("jobs are retried from failed or completed, not from %q", cut(string(state), 40))}
	}
	return state, nil
}

func planRetryAll(ctx context.Context, s *subject) (string, error) {
	state, err := s.retriedState()
	if err != nil {
		return "", err
	}
	counts, err := s.counts(ctx)
	if err != nil {
		return "", err
	}
	plan := fmt.Sprintf("Move all %s of %s back to waiting. They run again, without regard to their priority.", number(counts[state], string(state)+" job"), s.name)
	switch {
	case s.checked("clear"):
		plan += " Their attempts made are cleared."
	case state == bullmq.StateFailed:
		plan += " Each has one more attempt, unless its attempts made are cleared."
	}
	return plan, nil
}

func retryAll(ctx context.Context, s *subject) (string, error) {
	state, err := s.retriedState()
	if err != nil {
		return "", err
	}
	options := &bullmq.RetryJobsOptions{State: state, ResetAttemptsMade: s.checked("clear"), ResetAttemptsStarted: s.checked("clear")}
	return s.until(ctx, "retried", []bullmq.State{state}, func(ctx context.Context) error { return s.queue.RetryJobs(ctx, options) })
}

func planObliterate(ctx context.Context, s *subject) (string, error) {
	counts, err := s.counts(ctx)
	if err != nil {
		return "", err
	}
	total := 0
	for _, n := range counts {
		total += n
	}
	schedulers, err := s.queue.CountSchedulers(ctx)
	if err != nil {
		return "", err
	}
	plan := fmt.Sprintf("Remove the queue %s with its %s and %s.", s.name, number(total, "job"), number(schedulers, "scheduler"))
	if n := counts[bullmq.StateActive]; n > 0 {
		plan += fmt.Sprintf(" It is refused unless you remove %s too.", number(n, "active job"))
	}
	if workers, err := s.queue.Workers(ctx); err == nil && len(workers) > 0 {
		plan += fmt.Sprintf(" It has %s.", number(len(workers), "worker"))
	}
	return plan, nil
}

func obliterate(ctx context.Context, s *subject) (string, error) {
	if counts, err := s.queue.Counts(ctx, bullmq.StateActive); err != nil {
		return "", err
	} else if n := counts[bullmq.StateActive]; n > 0 && !s.checked("force") {
		return "", conflict{fmt.Errorf("nothing was removed, as the queue has %s: %w", number(n, "active job"), bullmq.ErrActiveJobs)}
	}
	bounded, cancel := s.bounded(ctx)
	defer cancel()
	began := time.Now()
	err := s.queue.Obliterate(bounded, &bullmq.ObliterateOptions{Force: s.checked("force")})
	if errors.Is(err, bullmq.ErrActiveJobs) {
		// Obliterate has paused the queue.
		return "", fmt.Errorf("the queue is paused now, and was not removed: %w", err)
	}
	text := s.name + " is removed."
	if err != nil && isLate(bounded, err) {
		s.More = true
		return fmt.Sprintf("%s is paused, and partly removed after %s: repeat the action.", s.name, formatAge(time.Since(began))), nil
	}
	s.dashboard.catalog.forget(s.name)
	return text, err
}
