package dashboard

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// jobActions act on jobs that are selected by their ids, or by a search.
var jobActions = []action{
	onEachJob("retry", "Retry", "retried", []bullmq.State{bullmq.StateFailed, bullmq.StateCompleted}, func(ctx context.Context, s *subject, job *bullmq.Job) error {
		if err := job.Retry(ctx, bullmq.StateFailed, nil); err == nil || s.form.Get("state") == string(bullmq.StateFailed) {
			return err
		}
		return job.Retry(ctx, bullmq.StateCompleted, nil)
	}),
	onEachJob("promote", "Promote", "promoted", []bullmq.State{bullmq.StateDelayed}, func(ctx context.Context, _ *subject, job *bullmq.Job) error { return job.Promote(ctx) }),
	onEachJob("cancel", "Cancel", "cancelled", []bullmq.State{bullmq.StateActive, bullmq.StateWaiting, bullmq.StatePrioritized, bullmq.StateDelayed, bullmq.StateWaitingChildren}, func(ctx context.Context, s *subject, job *bullmq.Job) error {
		outcome, err := s.queue.Cancel(ctx, job.ID, "")
		if err == nil && outcome == bullmq.CancelFinished {
			err = errors.New("the job has finished")
		}
		return err
	}),
	onEachJob("remove", "Remove", "removed", nil, func(ctx context.Context, _ *subject, job *bullmq.Job) error { return job.Remove(ctx) }),
}

// onEachJob returns an action that does something with each of the selected jobs.
func onEachJob(name, title, past string, states []bullmq.State, do func(ctx context.Context, s *subject, job *bullmq.Job) error) action {
	a := action{name: name, title: title, on: onJobs, states: states}
	a.plan = func(ctx context.Context, s *subject) (string, error) {
		if ids := s.form["job"]; len(ids) > 0 {
			return fmt.Sprintf("%s %s.", title, s.named(ids)), nil
		}
		search, err := s.search()
		if err != nil {
			return "", err
		}
		found, err := s.queue.EachMatch(ctx, search, nil)
		if err != nil {
			return "", err
		}
		least := ""
		if found.Next != "" {
			least = "at least "
		}
		return fmt.Sprintf("%s %s%s of %s.", title, least, number(found.Matched, "job"), s.queue.Name()), nil
	}
	a.do = func(ctx context.Context, s *subject) (string, error) {
		if ids := s.form["job"]; len(ids) > 0 {
			var failed error
			done := 0
			for _, id := range ids {
				job, err := s.queue.Job(ctx, id)
				if err == nil {
					err = do(ctx, s, job)
				}
				if err != nil {
					failed = errors.Join(failed, fmt.Errorf("%s: %w", cut(id, 80), err))
					continue
				}
				done++
			}
			if failed != nil {
				return "", fmt.Errorf("%d of %s %s: %w", done, number(len(ids), "job"), past, failed)
			}
			return fmt.Sprintf("%s %s.", number(done, "job"), past), nil
		}
		search, err := s.search()
		if err != nil {
			return "", err
		}
		result, err := s.queue.EachMatch(ctx, search, func(ctx context.Context, job *bullmq.Job) error { return do(ctx, s, job) })
		if err != nil {
			return "", err
		}
		text := fmt.Sprintf("%s %s.", number(result.Done, "job"), past)
		if n := len(result.Failed); n > 0 {
			text += fmt.Sprintf(" %s not %s.", number(n, "job"), past)
			for id, err := range result.Failed {
				text += fmt.Sprintf(" %s: %s.", cut(id, 80), cut(err.Error(), 200))
				break
			}
		}
		if result.Next != "" {
			text += " There may be more: repeat the action."
		}
		return text, nil
	}
	return a
}

// named tells which jobs are selected by their ids.
func (s *subject) named(ids []string) string {
	if len(ids) == 1 {
		return fmt.Sprintf("the job %s of %s", cut(ids[0], 80), s.queue.Name())
	}
	return fmt.Sprintf("%s of %s", number(len(ids), "job"), s.queue.Name())
}

// maxActed bounds how many jobs one action looks at.
const maxActed = 100_000

// search returns the search that selects jobs.
func (s *subject) search() (bullmq.JobSearch, error) {
	state := bullmq.State(s.form.Get("state"))
	if s.form.Get("all") == "" || !slices.Contains(shownStates, state) {
		return bullmq.JobSearch{}, badRequest{errors.New("select jobs, or all jobs of a state")}
	}
	return bullmq.JobSearch{
		States: []bullmq.State{state}, Name: s.form.Get("name"), Data: s.form.Get("data"), Error: s.form.Get("error"),
		MaxRead: maxActed, MaxTime: s.dashboard.o.Timeout * 8 / 10,
	}, nil
}
