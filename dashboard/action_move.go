package dashboard

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// moveJobs moves jobs to another queue.
var moveJobs = eachJob{
	name: "move", title: "Move", past: "moved",
	states: []bullmq.State{bullmq.StateWaiting, bullmq.StatePrioritized, bullmq.StateDelayed, bullmq.StateFailed},
	fields: []field{{Name: "to", Label: "To the queue", Kind: "text", Hint: "An existing queue. Failed jobs wait there to run again.", Required: true}},
	note:   "Jobs of flows and of schedulers stay.",
	says: func(s *subject) string {
		if to := s.form.Get("to"); to != "" {
			return fmt.Sprintf("They go to the queue %s.", cut(to, 80))
		}
		return ""
	},
	prepare: func(s *subject) (func(context.Context, *bullmq.Job) error, error) {
		to := s.form.Get("to")
		if to == "" {
			return nil, badRequest{errors.New("write to which queue")}
		}
		if to == s.name {
			return nil, badRequest{errors.New("the jobs are in this queue already")}
		}
		if err := s.mayMoveTo(to); err != nil {
			return nil, err
		}
		return func(ctx context.Context, job *bullmq.Job) error {
			moved, err := s.queue.MoveJob(ctx, job.ID, to)
			if err == nil && len(s.Links) < 20 {
				s.link("job "+cut(moved.ID, 80), "queues", to, "jobs", moved.ID)
			}
			return err
		}, nil
	},
}.action()

// mayMoveTo returns an error if there is no queue of this name, or if the user may not add jobs
// to it. It does not tell these apart if the user may not see the queue.
func (s *subject) mayMoveTo(queue string) error {
	d, ctx := s.dashboard, s.request.Context()
	missing := badRequest{fmt.Errorf("there is no queue %s", cut(queue, 80))}
	if !d.sees(s.request, queue) {
		return missing
	}
	if err := d.mayUse(s.request, Use{Action: "add", Queue: queue}); err != nil {
		return err
	}
	names, err := d.catalog.list(ctx)
	if err != nil || slices.Contains(names, queue) {
		return err
	}
	opened, err := d.openNew(ctx, queue)
	if err != nil {
		var none notFound
		if errors.As(err, &none) {
			return missing
		}
		return err
	}
	return opened.Close()
}
