package bullmq

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

// agedStates are the states that Ages reads if none is given.
var agedStates = []State{StateWaiting, StatePrioritized, StateDelayed, StateActive}

// Ages returns the age of the oldest job in each given state. Without states it reads
// StateWaiting, StatePrioritized, StateDelayed and StateActive. The age is 0 for a state
// without jobs. The age of a job is how long it has been
//
//   - ready to run, in StateWaiting and StatePrioritized
//   - overdue, in StateDelayed
//   - running, in StateActive
//
// Other states are errors. On a queue of BullMQ 5, StateWaiting includes the jobs of
// StatePaused. Ages also works for queues that only Node clients use. It makes one call.
//
// A job counts as ready from the time at which it was added, plus its delay. A job that
// has run before counts as ready from its last start. A parent job counts as ready from
// the time at which it was added. Redis stores no later time for these jobs. A delayed job
// that was promoted early has age 0 until its delay has passed. Ages reads only both ends
// of a list, so it may not find the oldest job if the list has LIFO jobs.
func (q *Queue) Ages(ctx context.Context, states ...State) (map[State]time.Duration, error) {
	if len(states) == 0 {
		states = agedStates
	}
	for _, state := range states {
		if state != StatePaused && !slices.Contains(agedStates, State(backendState(state))) {
			return nil, fmt.Errorf("bullmq: read the ages of queue %s: the state %q has no age: use waiting, prioritized, delayed or active", q.Name(), state)
		}
	}
	read := distinct(q.core.statesOf(states))
	oldest, err := q.core.store.Oldest(ctx, read...)
	if err != nil {
		return nil, err
	}
	now, ages := q.core.now(), make(map[State]time.Duration, len(states))
	age := func(state backend.State) time.Duration {
		if i := slices.Index(read, state); i >= 0 && !oldest[i].IsZero() {
			return max(0, now.Sub(oldest[i]))
		}
		return 0
	}
	for _, state := range states {
		ages[state] = age(backendState(state))
		if backendState(state) == backend.Waiting {
			ages[state] = max(ages[state], age(backend.Paused))
		}
	}
	return ages, nil
}
