package dashboard

import (
	"context"
	"errors"
	"fmt"
)

// schedulerActions act on one scheduler.
var schedulerActions = []action{
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
			if _, err := s.queue.Scheduler(ctx, id); err != nil {
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
