package dashboard

import (
	"context"
	"errors"
	"fmt"
)

// schedulerActions act on one scheduler.
var schedulerActions = []action{
	onOneScheduler("run-scheduler", "Run now", "Add a job of the scheduler %s of %s, which is ready to run at once. The times of the scheduler stay the same.", "A job of the scheduler %s of %s was added.", func(ctx context.Context, s *subject, id string) error {
		job, err := s.queue.RunScheduler(ctx, id)
		if err == nil {
			s.link("job "+cut(job.ID, 80), "queues", s.name, "jobs", job.ID)
		}
		return err
	}),
	onOneScheduler("pause-scheduler", "Pause", "Pause the scheduler %s of %s: its delayed job is removed, and it adds no others until it is resumed. A job that is ready or runs goes on. A program that upserts the scheduler, for instance at the next deploy, ends the pause.", "The scheduler %s of %s is paused.", func(ctx context.Context, s *subject, id string) error {
		return s.queue.PauseScheduler(ctx, id)
	}),
	onOneScheduler("resume-scheduler", "Resume", "Resume the scheduler %s of %s, from its next time on. Runs that were missed are not made up for.", "The scheduler %s of %s adds jobs again.", func(ctx context.Context, s *subject, id string) error {
		return s.queue.ResumeScheduler(ctx, id)
	}),
	onOneScheduler("remove-scheduler", "Remove", "Remove the scheduler %s of %s, with its next job. A job that runs goes on. The scheduler comes back when a program upserts it, for instance at the next deploy.", "The scheduler %s of %s was removed.", func(ctx context.Context, s *subject, id string) error {
		return s.queue.RemoveScheduler(ctx, id)
	}),
}

// onOneScheduler returns an action of one call. The texts have %s for the id of the scheduler and
// for the name of the queue.
func onOneScheduler(name, title, plan, done string, do func(ctx context.Context, s *subject, id string) error) action {
	return action{
		name: name, title: title, on: onScheduler,
		plan: func(ctx context.Context, s *subject) (string, error) {
			id, err := s.scheduler()
			if err != nil {
				return "", err
			}
			if _, err := findScheduler(ctx, s.queue, id); err != nil {
				return "", err
			}
			return fmt.Sprintf(plan, cut(id, 80), s.queue.Name()), nil
		},
		do: func(ctx context.Context, s *subject) (string, error) {
			id, err := s.scheduler()
			if err == nil {
				err = do(ctx, s, id)
			}
			if err != nil {
				return "", err
			}
			return fmt.Sprintf(done, cut(id, 80), s.queue.Name()), nil
		},
	}
}

// scheduler returns the id of the scheduler that the form names.
func (s *subject) scheduler() (string, error) {
	if ids := s.form["scheduler"]; len(ids) == 1 && ids[0] != "" {
		return ids[0], nil
	}
	return "", badRequest{errors.New("name one scheduler")}
}
