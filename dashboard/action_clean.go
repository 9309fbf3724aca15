package dashboard

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// cleanAction removes the jobs of a state that are older than an age.
var cleanAction = action{
	name: "clean", title: "Clean", on: onQueue, warn: "Removed jobs can’t be brought back.",
	fields: []field{
		{Name: "state", Label: "State", Kind: "choice", Value: string(bullmq.StateCompleted), Choices: cleanable},
		{Name: "age", Label: "Older than", Kind: "text", Hint: "Since they finished, otherwise since they were added. Such as 5m, 1h or 7d; empty for any age."},
		{Name: "limit", Label: "At most", Kind: "number", Value: "0", Hint: "Jobs to remove, the oldest first; 0 for all."},
	},
	plan: planClean, do: clean,
}

// cleanable are the states of the jobs that can be cleaned.
var cleanable = func() (states []string) {
	for _, state := range slices.Backward(shownStates) {
		states = append(states, string(state))
	}
	return states
}()

func (s *subject) cleanOptions() (*bullmq.CleanOptions, error) {
	o := &bullmq.CleanOptions{State: bullmq.State(s.form.Get("state"))}
	if !s.checked("sent") { // the default of the form
		o.State = cmp.Or(o.State, bullmq.StateCompleted)
	}
	var err error
	if !slices.Contains(cleanable, string(o.State)) {
		return nil, badRequest{fmt.Errorf("select one of the states %s", strings.Join(cleanable, ", "))}
	}
	if o.Grace, err = s.duration("age", "the age"); err != nil {
		return nil, err
	}
	o.Limit, err = s.whole("limit", "the number of jobs")
	return o, err
}

func planClean(ctx context.Context, s *subject) (string, error) {
	o, err := s.cleanOptions()
	if err != nil {
		return "", err
	}
	counts, err := s.counts(ctx)
	if err != nil {
		return "", err
	}
	if o.State == bullmq.StateWaiting { // in BullMQ 5, those of a paused queue are in another list
		paused, err := s.queue.Counts(ctx, bullmq.StatePaused)
		if err != nil {
			return "", err
		}
		counts[o.State] += paused[bullmq.StatePaused]
	}
	n, more := counts[o.State], false
	if o.Grace > 0 {
		if n, more, err = s.countOlder(ctx, o.State, o.Grace); err != nil {
			return "", err
		}
	}
	if o.Limit > 0 && n >= o.Limit {
		n, more = o.Limit, false
	}
	plan := fmt.Sprintf("Remove %s of %s", number(n, string(o.State)+" job"), s.name)
	if more {
		plan = fmt.Sprintf("Remove at least %s of %s", number(n, string(o.State)+" job"), s.name)
	}
	if o.Grace > 0 {
		plan += fmt.Sprintf(", older than %s.", formatAge(o.Grace))
	} else {
		plan += ", of any age."
	}
	if o.Limit > 0 {
		plan += fmt.Sprintf(" It removes at most %s, the oldest first.", formatCount(o.Limit))
	}
	switch o.State {
	case bullmq.StateActive:
		plan += " Those that a worker holds stay."
	case bullmq.StateDelayed, bullmq.StateWaiting, bullmq.StatePrioritized:
		plan += " The next job of each scheduler stays."
	}
	var parts []string
	for _, state := range cleanable {
		if n := counts[bullmq.State(state)]; n > 0 {
			parts = append(parts, formatCount(n)+" "+state)
		}
	}
	return plan + fmt.Sprintf(" Now the queue has %s.", anyOf(parts, "no jobs")), nil
}

// countOlder counts the jobs of a state that are older than an age. more means that there may be
// others.
func (s *subject) countOlder(ctx context.Context, state bullmq.State, age time.Duration) (n int, more bool, err error) {
	before := time.Now().Add(-age).Add(time.Millisecond)
	if state == bullmq.StateCompleted || state == bullmq.StateFailed {
		n, err = s.queue.CountFinishedBefore(ctx, state, before)
		return n, false, err
	}
	found, err := s.queue.EachMatch(ctx, bullmq.JobSearch{States: cleanedStates(state), AddedBefore: before, MaxRead: maxActed, MaxTime: s.dashboard.o.Timeout * 4 / 10}, nil)
	if err != nil {
		return 0, false, err
	}
	return found.Matched, found.Next != "", nil
}

// cleanedStates returns the states in which the jobs of a state are. In BullMQ 5, those that wait in
// a paused queue are in the state paused.
func cleanedStates(state bullmq.State) []bullmq.State {
	if state == bullmq.StateWaiting {
		return []bullmq.State{state, bullmq.StatePaused}
	}
	return []bullmq.State{state}
}

// cleanPage is how many jobs one call removes.
const cleanPage = 5000

func clean(ctx context.Context, s *subject) (string, error) {
	o, err := s.cleanOptions()
	if err != nil {
		return "", err
	}
	bounded, cancel := s.bounded(ctx)
	defer cancel()
	removed, limit, kind := 0, o.Limit, string(o.State)+" job"
	states := cleanedStates(o.State)
	for {
		o.State, o.Limit = states[0], cleanPage
		if limit > 0 {
			o.Limit = min(cleanPage, limit-removed)
		}
		ids, err := s.queue.Clean(bounded, o)
		removed += len(ids)
		if len(ids) < o.Limit {
			states = states[1:]
		}
		if err != nil || len(states) == 0 || limit > 0 && removed == limit {
			return s.partly(bounded, fmt.Sprintf("%s removed.", number(removed, kind)), err)
		}
	}
}
