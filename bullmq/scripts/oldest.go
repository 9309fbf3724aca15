package scripts

import (
	"context"
	"encoding/json"
	"time"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
)

var getOldest = load("getOldest")

// Oldest returns, for each state, since when its oldest job is ready or active, or when its
// first job is due.
func (q *Store) Oldest(ctx context.Context, states ...backend.State) ([]time.Time, error) {
	message, err := q.run(ctx, getOldest, withStates(states, q.base)...)
	if err != nil {
		return nil, err
	}
	lists, err := message.ToArray()
	if err != nil || len(lists) != len(states) {
		return nil, q.unexpected(getOldest, err)
	}
	oldest := make([]time.Time, len(states))
	for i, list := range lists {
		oldest[i] = oldestOf(states[i], list)
	}
	return oldest, nil
}

// oldestOf reads what a script has found of the oldest job of a state. It returns the zero time
// if there is none.
func oldestOf(state backend.State, list rueidis.RedisMessage) (oldest time.Time) {
	found, _ := list.ToArray()
	for _, item := range found {
		since := time.Time{}
		if state == backend.Delayed {
			since = wire.ParseTime(text(item))
		} else if fields := texts(item); len(fields) == 3 {
			since = readySince(fields[0], fields[1], fields[2])
			if state == backend.Active {
				since = wire.ParseTime(fields[1])
			}
		}
		if !since.IsZero() && (oldest.IsZero() || since.Before(oldest)) {
			oldest = since
		}
	}
	return oldest
}

// readySince returns since when a waiting job is ready, as far as its hash tells. That is the
// end of the delay with which the job was added, or its last start.
func readySince(timestamp, processedOn, opts string) time.Time {
	var o struct {
		Delay float64 `json:"delay"`
	}
	ready := wire.ParseTime(timestamp)
	if json.Unmarshal([]byte(opts), &o) == nil && o.Delay > 0 && o.Delay < wire.MaxSafeInteger {
		ready = ready.Add(time.Duration(o.Delay) * time.Millisecond)
	}
	if started := wire.ParseTime(processedOn); started.After(ready) {
		ready = started
	}
	return ready
}
