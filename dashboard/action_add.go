package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// addAction adds a job by a form.
var addAction = action{
	name: "add", title: "Add a job", on: onQueue,
	fields: []field{
		{Name: "name", Label: "Name", Kind: "text", Required: true},
		{Name: "data", Label: "Data", Kind: "json", Value: "{}", Hint: "JSON"},
		{Name: "delay", Label: "Delay", Kind: "text", Hint: "Such as 90s, 5m or 2d; empty for none."},
		{Name: "priority", Label: "Priority", Kind: "number", Hint: "Lower numbers run first, and jobs without one before all others."},
		{Name: "attempts", Label: "Attempts", Kind: "number", Hint: "Empty for one."},
		{Name: "backoff", Label: "Backoff", Kind: "choice", Choices: []string{"", "fixed", "exponential"}, Hint: "How the wait before the next attempt grows."},
		{Name: "backoffdelay", Label: "Backoff delay", Kind: "text", Hint: "The first wait, such as 5s."},
		{Name: "jobid", Label: "Job id", Kind: "text", Hint: "Empty for the next number. If a job has this id, nothing is added."},
		{Name: "dedup", Label: "Deduplication id", Kind: "text", Hint: "If an unfinished job has this id, nothing is added."},
		{Name: "dedupttl", Label: "Deduplication for", Kind: "text", Hint: "Such as 1h; empty until the job finishes."},
		{Name: "lifo", Label: "Run before all others (LIFO)", Kind: "check"},
	},
	values: typeValues,
	plan: func(ctx context.Context, s *subject) (string, error) {
		what := "a job"
		if s.checked("sent") {
			name, data, options, err := s.newJob()
			if err != nil {
				return "", err
			}
			what = fmt.Sprintf("a job “%s” with %s of data", cut(name, 80), number(len(data), "byte"))
			if options.Delay > 0 {
				what += fmt.Sprintf(" and a delay of %s", formatAge(options.Delay))
			}
		}
		counts, err := s.counts(ctx)
		if err != nil {
			return "", err
		}
		plan := fmt.Sprintf("Add %s to %s. %s wait.", what, s.name, number(ready(counts), "job"))
		if workers, err := s.queue.Workers(ctx); err == nil && len(workers) == 0 {
			plan += " No worker is known, so the job waits until one starts."
		}
		return plan, nil
	},
	do: func(ctx context.Context, s *subject) (string, error) {
		name, data, options, err := s.newJob()
		if err != nil {
			return "", err
		}
		job, err := s.queue.Add(ctx, name, data, options)
		if err != nil {
			return "", err
		}
		s.link("job "+cut(job.ID, 80), "queues", s.name, "jobs", job.ID)
		switch job.AddOutcome() {
		case bullmq.AlreadyExists:
			return fmt.Sprintf("Nothing was added: the job %s exists.", cut(job.ID, 80)), nil
		case bullmq.Deduplicated:
			return fmt.Sprintf("Nothing was added: the job %s has the deduplication id.", cut(job.ID, 80)), nil
		}
		return fmt.Sprintf("Job %s was added to %s.", cut(job.ID, 80), s.name), nil
	},
}

// newJob reads the job that is to be added.
func (s *subject) newJob() (name string, data json.RawMessage, options *bullmq.JobOptions, err error) {
	fail := func(err error) (string, json.RawMessage, *bullmq.JobOptions, error) { return "", nil, nil, err }
	if name = s.form.Get("name"); name == "" {
		return fail(badRequest{errors.New("write the name of the job")})
	}
	text := s.form.Get("data")
	if strings.TrimSpace(text) == "" {
		text = "{}"
	}
	if data, err = compactJSON(text); err != nil {
		return fail(fmt.Errorf("data: %w", err))
	}
	if err := s.dashboard.checkType(name, s.name, data); err != nil {
		return fail(err)
	}
	options = &bullmq.JobOptions{JobID: s.form.Get("jobid"), LIFO: s.checked("lifo")}
	if options.Delay, err = s.duration("delay", "the delay"); err != nil {
		return fail(err)
	}
	if options.Priority, err = s.whole("priority", "the priority"); err != nil {
		return fail(err)
	}
	if options.Attempts, err = s.whole("attempts", "the number of attempts"); err != nil {
		return fail(err)
	}
	wait, err := s.duration("backoffdelay", "the backoff delay")
	if err != nil {
		return fail(err)
	}
	switch kind := s.form.Get("backoff"); {
	case kind != "" && kind != "fixed" && kind != "exponential":
		return fail(badRequest{fmt.Errorf("the backoff is fixed or exponential, not %q", cut(kind, 40))})
	case kind != "" && wait == 0:
		return fail(badRequest{errors.New("write the backoff delay, such as 5s")})
	case kind == "" && wait > 0:
		return fail(badRequest{errors.New("select the backoff: fixed or exponential")})
	case kind != "":
		options.Backoff = &bullmq.Backoff{Type: kind, Delay: wait}
	}
	ttl, err := s.duration("dedupttl", "the time of the deduplication")
	if err != nil {
		return fail(err)
	}
	if id := s.form.Get("dedup"); id != "" {
		options.Deduplication = &bullmq.Deduplication{ID: id, TTL: ttl}
	} else if ttl > 0 {
		return fail(badRequest{errors.New("write the deduplication id")})
	}
	if t := s.dashboard.typeNamed(name, s.name); t != nil && t.options != nil {
		options = t.options(options)
	}
	return name, data, options, nil
}
