package bullmq

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

// DeadLetterCounts are the numbers of dead letters in a queue.
type DeadLetterCounts struct {
	Total int
	// Queues are the numbers of letters by the queue whose job failed, without its prefix.
	Queues map[string]int
	// Reasons are the numbers of letters by the reason of the failure. Reasons that agree in
	// their first 200 bytes count as one, and only these bytes are returned. At most 200
	// different reasons are listed.
	Reasons map[string]int
	// OtherReasons is the number of letters whose reason is not in Reasons.
	OtherReasons int
}

const (
	countedReasons = 200  // different reasons that DeadLetterCounts tells apart
	reasonLength   = 200  // bytes of a reason
	countPage      = 1000 // letters that one call reads
)

// DeadLetterCounts counts the dead letters of the queue, by the queue whose job failed and by
// the reason of the failure. It counts letters from which a job can be replayed: those that
// are waiting, prioritized, delayed, completed or failed. Jobs that are no dead letters are
// ignored.
//
// DeadLetterCounts reads the options of all jobs in these states, 1,000 in each call. It
// counts approximately if letters come or go in the meantime. If a call fails, the error is
// returned without counts.
func (q *Queue) DeadLetterCounts(ctx context.Context) (DeadLetterCounts, error) {
	store, err := q.core.deadLetters(q.core.keys)
	if err != nil {
		return DeadLetterCounts{}, err
	}
	counts := DeadLetterCounts{Queues: map[string]int{}, Reasons: map[string]int{}}
	states := distinct(q.core.statesOf(replayableStates))
	numbers, err := q.core.store.Counts(ctx, states...)
	if err != nil {
		return DeadLetterCounts{}, err
	}
	for i, state := range states {
		for skip := 0; skip < numbers[i]; skip += countPage {
			page := backend.Page{From: skip, To: min(skip+countPage, numbers[i]) - 1, Ascending: true}
			options, err := store.JobOptions(ctx, page, state)
			if err != nil {
				return DeadLetterCounts{}, err
			}
			for _, text := range options {
				counts.add(text)
			}
		}
	}
	return counts, nil
}

// add counts a job if it is a dead letter. options are those of the job, as stored.
func (c *DeadLetterCounts) add(options string) {
	var extra map[string]json.RawMessage
	if json.Unmarshal([]byte(options), &extra) != nil {
		return
	}
	letter, isLetter := parseDeadLetter(extra[deadLetterOption])
	if !isLetter {
		return
	}
	c.Total++
	_, name := splitQueueKey(letter.Queue)
	c.Queues[name]++
	reason := letter.Reason
	if len(reason) > reasonLength {
		reason = strings.ToValidUTF8(strings.Clone(reason[:reasonLength]), "")
	}
	if _, known := c.Reasons[reason]; !known && len(c.Reasons) >= countedReasons {
		c.OtherReasons++
		return
	}
	c.Reasons[reason]++
}
