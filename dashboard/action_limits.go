package dashboard

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// limitActions set and remove the limits of all workers of a queue together.
var limitActions = []action{
	{
		name: "concurrency", title: "Concurrency", on: onQueue,
		fields: []field{{Name: "concurrency", Label: "Jobs at a time", Kind: "number", None: true, Hint: "Of all workers together. Empty for no limit. With 0 no job starts."}},
		values: func(ctx context.Context, s *subject) (map[string]string, error) {
			meta, err := s.queue.Meta(ctx)
			if err != nil || meta.Concurrency == nil {
				return map[string]string{"concurrency": ""}, err
			}
			return map[string]string{"concurrency": strconv.Itoa(*meta.Concurrency)}, nil
		},
		plan: planConcurrency, do: setConcurrency,
	},
	{
		name: "ratelimit", title: "Rate limit", on: onQueue,
		fields: []field{
			{Name: "max", Label: "Jobs", Kind: "number", None: true, Hint: "Empty for no limit."},
			{Name: "duration", Label: "In a period of", Kind: "text", Hint: "Such as 1s, 5m or 1h."},
		},
		values: func(ctx context.Context, s *subject) (map[string]string, error) {
			limit, err := s.queue.GlobalRateLimit(ctx)
			if err != nil || limit == nil {
				return map[string]string{"max": ""}, err
			}
			return map[string]string{"max": strconv.Itoa(limit.Max), "duration": limit.Duration.String()}, nil
		},
		plan: planRateLimit, do: setRateLimit,
	},
}

// limitOf returns a limit of the form; nil if it is empty or none, which removes the limit. The
// form must have the field, so that a request without it removes nothing.
func (s *subject) limitOf(name, label string) (*int, error) {
	if !s.form.Has(name) {
		return nil, badRequest{fmt.Errorf("write %s, or none for no limit", label)}
	}
	if text := s.form.Get(name); text == "" || text == "none" {
		return nil, nil
	}
	n, err := s.whole(name, label)
	return &n, err
}

func planConcurrency(ctx context.Context, s *subject) (string, error) {
	meta, err := s.queue.Meta(ctx)
	if err != nil {
		return "", err
	}
	counts, err := s.counts(ctx)
	if err != nil {
		return "", err
	}
	plan := fmt.Sprintf("Limit how many jobs of %s run at a time, in all workers together.", s.name)
	if s.checked("sent") || s.form.Has("concurrency") {
		limit, err := s.limitOf("concurrency", "the concurrency")
		switch {
		case err != nil:
			return "", err
		case limit == nil:
			plan = fmt.Sprintf("Remove the limit of the jobs of %s that run at a time.", s.name)
		case *limit == 0:
			plan = fmt.Sprintf("Stop %s: no job starts, in all workers together, until the limit is changed or removed. It has %s.", s.name, number(ready(counts), "ready job"))
		default:
			plan = fmt.Sprintf("Let at most %s of %s run at a time, in all workers together.", number(*limit, "job"), s.name)
		}
	}
	switch {
	case meta.Concurrency == nil:
		plan += " Now there is no limit."
	case *meta.Concurrency == 0:
		plan += " Now the limit is 0, so that no job starts."
	default:
		plan += fmt.Sprintf(" Now the limit is %s.", formatCount(*meta.Concurrency))
	}
	return plan + fmt.Sprintf(" It has %s. Running jobs are not stopped.", number(counts[bullmq.StateActive], "active job")), nil
}

func setConcurrency(ctx context.Context, s *subject) (string, error) {
	limit, err := s.limitOf("concurrency", "the concurrency")
	switch {
	case err != nil:
		return "", err
	case limit == nil:
		return s.name + " has no global concurrency.", s.queue.RemoveGlobalConcurrency(ctx)
	case *limit == 0:
		return fmt.Sprintf("No job of %s starts until the concurrency is changed or removed.", s.name), s.queue.SetGlobalConcurrency(ctx, 0)
	}
	return fmt.Sprintf("At most %s of %s run at a time.", number(*limit, "job"), s.name), s.queue.SetGlobalConcurrency(ctx, *limit)
}

// rateLimit returns the rate limit of the form; nil to remove it.
func (s *subject) rateLimit() (*bullmq.Limiter, error) {
	limit, err := s.limitOf("max", "the number of jobs")
	if err != nil || limit == nil {
		return nil, err
	}
	if *limit == 0 {
		return nil, badRequest{errors.New("a rate limit of 0 jobs is not possible: leave the number empty for no limit, or set the concurrency to 0 to stop the queue")}
	}
	duration, err := s.duration("duration", "the period")
	if err == nil && duration == 0 {
		err = badRequest{errors.New("write the period of the limit, such as 1s")}
	}
	return &bullmq.Limiter{Max: *limit, Duration: duration}, err
}

func planRateLimit(ctx context.Context, s *subject) (string, error) {
	stored, err := s.queue.GlobalRateLimit(ctx)
	if err != nil {
		return "", err
	}
	const own = " A worker with a limiter of its own keeps its own period, with this number of jobs."
	plan, after := fmt.Sprintf("Limit how many jobs of %s start in a period, in all workers together.", s.name), own
	if s.checked("sent") || s.form.Has("max") {
		limit, err := s.rateLimit()
		switch {
		case err != nil:
			return "", err
		case limit == nil:
			plan, after = fmt.Sprintf("Remove the limit of the jobs of %s that start in a period.", s.name), " A worker with a limiter of its own keeps it."
		default:
			plan = fmt.Sprintf("Let at most %s of %s start in %s, in all workers together.", number(limit.Max, "job"), s.name, formatAge(limit.Duration))
		}
	}
	if stored == nil {
		return plan + " Now there is no limit." + after, nil
	}
	return plan + fmt.Sprintf(" Now the limit is %s in %s.", number(stored.Max, "job"), formatAge(stored.Duration)) + after, nil
}

func setRateLimit(ctx context.Context, s *subject) (string, error) {
	limit, err := s.rateLimit()
	switch {
	case err != nil:
		return "", err
	case limit == nil:
		return s.name + " has no global rate limit.", s.queue.RemoveGlobalRateLimit(ctx)
	}
	return fmt.Sprintf("At most %s of %s start in %s.", number(limit.Max, "job"), s.name, formatAge(limit.Duration)), s.queue.SetGlobalRateLimit(ctx, *limit)
}
