package dashboard

import (
	"context"
	"fmt"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// queueActions act on a whole queue.
var queueActions = []action{
	onWholeQueue("pause", "Pause", "Workers of %s start no more jobs. Running jobs end.", "%s is paused.", func(ctx context.Context, queue *bullmq.Queue) error { return queue.Pause(ctx) }),
	onWholeQueue("resume", "Resume", "Workers of %s start jobs again.", "%s is no longer paused.", func(ctx context.Context, queue *bullmq.Queue) error { return queue.Resume(ctx) }),
}

// onWholeQueue returns an action of one call. The texts have %s for the name of the queue.
func onWholeQueue(name, title, plan, done string, do func(ctx context.Context, queue *bullmq.Queue) error) action {
	return action{
		name: name, title: title, on: onQueue,
		plan: func(_ context.Context, s *subject) (string, error) { return fmt.Sprintf(plan, s.queue.Name()), nil },
		do: func(ctx context.Context, s *subject) (string, error) {
			if err := do(ctx, s.queue); err != nil {
				return "", err
			}
			return fmt.Sprintf(done, s.queue.Name()), nil
		},
	}
}
