package dashboard

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// jobActions act on jobs that are selected by their ids, or by a search.
var jobActions = []action{
	eachJob{
		name: "retry", title: "Retry", past: "retried", states: []bullmq.State{bullmq.StateFailed, bullmq.StateCompleted},
		fields: []field{{Name: "clear", Label: "Clear the attempts made", Kind: "check", Hint: "Otherwise a failed job has one more attempt."}},
		says: func(s *subject) string {
			if s.checked("clear") {
				return "The attempts made are cleared."
			}
			return "A failed job has one more attempt, unless the attempts made are cleared."
		},
		prepare: func(s *subject) (func(context.Context, *bullmq.Job) error, error) {
			options := &bullmq.RetryOptions{ResetAttemptsMade: s.checked("clear"), ResetAttemptsStarted: s.checked("clear")}
			return func(ctx context.Context, job *bullmq.Job) error {
				err := job.Retry(ctx, bullmq.StateFailed, options)
				if !errors.Is(err, bullmq.ErrNotInState) || s.form.Get("state") == string(bullmq.StateFailed) {
					return err
				}
				return job.Retry(ctx, bullmq.StateCompleted, options)
			}, nil
		},
	}.action(),
	eachJob{
		name: "promote", title: "Promote", past: "promoted", states: []bullmq.State{bullmq.StateDelayed},
		note: "Promoted jobs are ready at once.",
		prepare: func(*subject) (func(context.Context, *bullmq.Job) error, error) {
			return func(ctx context.Context, job *bullmq.Job) error { return job.Promote(ctx) }, nil
		},
	}.action(),
	eachJob{
		name: "delay", title: "Change delay", verb: "Change the delay of", past: "delayed", states: []bullmq.State{bullmq.StateDelayed},
		fields: []field{{Name: "delay", Label: "Run after", Kind: "text", Hint: "From now on, such as 90s, 5m, 1h30m or 2d; 0 for at once.", Required: true}},
		says: func(s *subject) string {
			switch delay, err := s.duration("delay", "the delay"); {
			case err != nil || s.form.Get("delay") == "":
				return ""
			case delay == 0:
				return "The new delay is 0: ready at once."
			default:
				return fmt.Sprintf("The new delay is %s, from now on.", formatAge(delay))
			}
		},
		prepare: func(s *subject) (func(context.Context, *bullmq.Job) error, error) {
			if s.form.Get("delay") == "" {
				return nil, badRequest{errors.New("write after which time the job runs")}
			}
			delay, err := s.duration("delay", "the delay")
			return func(ctx context.Context, job *bullmq.Job) error { return job.ChangeDelay(ctx, delay) }, err
		},
	}.action(),
	eachJob{
		name: "priority", title: "Change priority", verb: "Change the priority of", past: "changed", states: []bullmq.State{bullmq.StateWaiting, bullmq.StatePrioritized, bullmq.StateDelayed, bullmq.StateWaitingChildren},
		fields: []field{
			{Name: "priority", Label: "Priority", Kind: "number", Value: "0", Hint: "Lower numbers run first, and 0, no priority, before all others.", Required: true},
			{Name: "lifo", Label: "Before the other jobs of this priority", Kind: "check"},
		},
		says: func(s *subject) string {
			text := fmt.Sprintf("The new priority is %s", cmp.Or(s.form.Get("priority"), "0"))
			if s.checked("lifo") {
				text += ", before the other jobs of this priority"
			}
			return text + "."
		},
		prepare: func(s *subject) (func(context.Context, *bullmq.Job) error, error) {
			priority, err := s.whole("priority", "the priority")
			options := &bullmq.ChangePriorityOptions{LIFO: s.checked("lifo")}
			return func(ctx context.Context, job *bullmq.Job) error { return job.ChangePriority(ctx, priority, options) }, err
		},
	}.action(),
	editAction,
	eachJob{
		name: "duplicate", title: "Duplicate", past: "duplicated",
		fields: []field{{Name: "delay", Label: "Keep the delay", Kind: "check", Hint: "Otherwise the new job is ready at once."}},
		note:   "The new job has the name, the data and the options of the other one, and an id of its own. It has no parent, no deduplication id and no scheduler.",
		says: func(s *subject) string {
			if s.checked("delay") {
				return "It keeps the delay."
			}
			return "It is ready at once."
		},
		prepare: func(s *subject) (func(context.Context, *bullmq.Job) error, error) {
			return func(ctx context.Context, job *bullmq.Job) error { return s.duplicate(ctx, job) }, nil
		},
	}.action(),
	moveJobs,
	eachJob{
		name: "cancel", title: "Cancel", past: "cancelled",
		states: []bullmq.State{bullmq.StateActive, bullmq.StateWaiting, bullmq.StatePrioritized, bullmq.StateDelayed, bullmq.StateWaitingChildren},
		fields: []field{{Name: "reason", Label: "Reason", Kind: "text", Hint: "It becomes part of the job's error."}},
		note:   "A job that does not run fails when a worker fetches it. A worker of this SDK stops the handler of a job that runs; one of BullMQ stops it only if its code looks for cancellations.",
		says: func(s *subject) string {
			if reason := s.form.Get("reason"); reason != "" {
				return fmt.Sprintf("The reason is “%s”.", cut(reason, 200))
			}
			return ""
		},
		prepare: func(s *subject) (func(context.Context, *bullmq.Job) error, error) {
			reason := s.form.Get("reason")
			if len(reason) > 1000 {
				return nil, badRequest{errors.New("the reason is longer than 1,000 bytes")}
			}
			return func(ctx context.Context, job *bullmq.Job) error {
				outcome, err := s.queue.Cancel(ctx, job.ID, reason)
				switch {
				case err != nil:
				case outcome == bullmq.CancelFinished:
					err = conflict{errors.New("the job has finished")}
				case outcome == bullmq.CancelRunning:
					s.requested++
				}
				return err
			}, nil
		},
	}.action(),
	eachJob{
		name: "remove", title: "Remove", past: "removed", warn: "Removed jobs can’t be brought back.",
		fields: []field{{Name: "keep", Label: "Keep the children", Kind: "check", Hint: "Otherwise the children in a flow are removed too, in all queues."}},
		says: func(s *subject) string {
			if s.checked("keep") {
				return "Their children in a flow stay."
			}
			return "Their children in a flow are removed too, in all queues."
		},
		prepare: func(s *subject) (func(context.Context, *bullmq.Job) error, error) {
			options := &bullmq.RemoveOptions{KeepChildren: s.checked("keep")}
			return func(ctx context.Context, job *bullmq.Job) error {
				if !options.KeepChildren {
					if err := s.mayRemoveChildren(ctx, job); err != nil {
						return err
					}
				}
				return s.queue.Remove(ctx, job.ID, options)
			}, nil
		},
	}.action(),
}

// eachJob is an action that does the same with each of the selected jobs.
type eachJob struct {
	name, title, past string
	verb              string // what the plan begins with; "" for the title
	states            []bullmq.State
	fields            []field
	note, warn        string // note is a part of the plan
	// says tells for the plan what the fields mean, such as the new priority. It may be nil.
	says func(s *subject) string
	// prepare reads the fields, and returns what to do with a job.
	prepare func(s *subject) (func(ctx context.Context, job *bullmq.Job) error, error)
}

func (e eachJob) action() action {
	return action{name: e.name, title: e.title, on: onJobs, states: e.states, fields: e.fields, warn: e.warn, plan: e.plan, do: e.do}
}

func (e eachJob) plan(ctx context.Context, s *subject) (string, error) {
	if s.checked("sent") {
		if _, err := e.prepare(s); err != nil {
			return "", err
		}
	}
	plan, err := s.selected(ctx)
	if err != nil {
		return "", err
	}
	plan = cmp.Or(e.verb, e.title) + " " + plan
	if e.says != nil {
		if says := e.says(s); says != "" {
			plan += " " + says
		}
	}
	if e.note != "" {
		plan += " " + e.note
	}
	return plan, nil
}

// selected tells which jobs are selected, with a full stop.
func (s *subject) selected(ctx context.Context) (string, error) {
	if ids := s.ids(); len(ids) == 1 {
		job, state, err := s.queue.JobAndState(ctx, ids[0])
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("the job %s of %s. Its name is %s, its state %s.", cut(ids[0], 80), s.name, cut(job.Name, 80), state), nil
	} else if len(ids) > 1 {
		return fmt.Sprintf("%s of %s.", number(len(ids), "job"), s.name), nil
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
	return fmt.Sprintf("%s%s of %s.", least, number(found.Matched, "job"), s.name), nil
}

func (e eachJob) do(ctx context.Context, s *subject) (string, error) {
	do, err := e.prepare(s)
	if err != nil {
		return "", err
	}
	return s.each(ctx, e.past, do)
}

// maxFailures bounds how many refusals a page lists.
const maxFailures = 100

// each does something with each of the selected jobs, as long as there is time. past is what
// was done, such as "retried".
func (s *subject) each(ctx context.Context, past string, do func(ctx context.Context, job *bullmq.Job) error) (string, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	var result *bullmq.MatchResult
	var err error
	ids := s.ids()
	if len(ids) > 0 {
		result = s.eachNamed(ctx, ids, do)
	} else {
		var search bullmq.JobSearch
		if search, err = s.search(); err != nil {
			return "", err
		}
		result, err = s.queue.EachMatch(ctx, search, do)
	}
	if result == nil {
		return "", err
	}
	if len(ids) == 1 && result.Failed[ids[0]] != nil {
		return "", plain(result.Failed[ids[0]], s.name, ids[0])
	}
	if err != nil && (!isLate(ctx, err) || result.Done == 0 && len(result.Failed) == 0) {
		return "", fmt.Errorf("%s %s: %w", number(result.Done, "job"), past, err)
	}
	text := fmt.Sprintf("%s %s.", number(result.Done-s.requested, "job"), past)
	if s.requested > 0 {
		requested := number(s.requested, "cancellation") + " requested: a worker of BullMQ stops only if its code looks for cancellations."
		if result.Done == s.requested {
			text = requested
		} else {
			text += " " + requested
		}
	}
	if n := len(result.Failed); n > 0 {
		text += fmt.Sprintf(" %s not %s.", number(n, "job"), past)
		for _, id := range slices.Sorted(maps.Keys(result.Failed)) {
			if len(s.Failed) < maxFailures {
				s.Failed = append(s.Failed, failure{id, cut(plain(result.Failed[id], s.name, id).Error(), 400)})
			}
		}
	}
	if result.Gone > 0 {
		text += fmt.Sprintf(" %s no longer matched.", number(result.Gone, "job"))
	}
	left := result.Matched - result.Done - len(result.Failed) - result.Gone
	switch {
	case left > 0:
		text += fmt.Sprintf(" There was no time for %s: repeat the action.", number(left, "other job"))
		s.More, s.After = true, s.form.Get("after")
	case result.Next != "":
		text += " There may be more: repeat the action."
		s.More, s.After = true, result.Next
	}
	return text, nil
}

// isLate reports whether there was no time for a call.
func isLate(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded)
}

// eachNamed does something with each of the named jobs.
func (s *subject) eachNamed(ctx context.Context, ids []string, do func(ctx context.Context, job *bullmq.Job) error) *bullmq.MatchResult {
	result := &bullmq.MatchResult{Matched: len(ids), Failed: map[string]error{}}
	for _, id := range ids {
		if ctx.Err() != nil {
			break
		}
		job, err := s.queue.Job(ctx, id)
		if err == nil {
			err = do(ctx, job)
		}
		if err != nil && isLate(ctx, err) && len(ids) > 1 {
			break
		}
		if err != nil {
			result.Failed[id] = err
			continue
		}
		result.Done++
	}
	return result
}

// maxActed bounds how many jobs one action looks at.
const maxActed = 100_000

// search returns the search that selects jobs.
func (s *subject) search() (bullmq.JobSearch, error) {
	state := bullmq.State(s.form.Get("state"))
	if !s.checked("all") || !slices.Contains(shownStates, state) {
		return bullmq.JobSearch{}, badRequest{errors.New("select jobs, or all jobs of a state")}
	}
	if err := s.dashboard.maySearch(s.form.Get("data"), s.form.Get("error")); err != nil {
		return bullmq.JobSearch{}, err
	}
	search := bullmq.JobSearch{
		States: []bullmq.State{state}, Name: s.form.Get("name"), Data: s.form.Get("data"), Error: s.form.Get("error"), After: s.form.Get("after"),
		MaxRead: maxActed, MaxTime: s.dashboard.o.Timeout * 4 / 10,
	}
	err := s.dashboard.setAge(&search, s.form.Get("older"), s.form.Get("newer"))
	return search, err
}

// duplicate adds a job that is like another one.
func (s *subject) duplicate(ctx context.Context, job *bullmq.Job) error {
	options := job.Options
	options.JobID, options.Timestamp, options.Deduplication, options.Parent, options.OnFailure, options.Telemetry = "", time.Time{}, nil, nil, bullmq.KeepParentWaiting, nil
	if !s.checked("delay") {
		options.Delay = 0
	}
	if len(options.Extra) > 0 {
		options.Extra = cloneWithout(options.Extra, "repeat", "repeatJobKey", "prevMillis", "jobId", "parent", "fpof", "cpof", "idof", "rdof", "de", "debounce")
	}
	added, err := s.queue.Add(ctx, job.Name, job.Data, &options)
	if err == nil && len(s.Links) < 20 {
		s.link("job "+cut(added.ID, 80), "queues", s.name, "jobs", added.ID)
	}
	return err
}

func cloneWithout(m map[string]json.RawMessage, names ...string) map[string]json.RawMessage {
	clone := map[string]json.RawMessage{}
	for name, value := range m {
		if !slices.Contains(names, name) {
			clone[name] = value
		}
	}
	return clone
}

// one returns the only selected job.
func (s *subject) one(ctx context.Context) (*bullmq.Job, error) {
	ids := s.ids()
	if len(ids) != 1 {
		return nil, badRequest{errors.New("select one job")}
	}
	return s.queue.Job(ctx, ids[0])
}
