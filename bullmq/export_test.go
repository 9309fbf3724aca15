package bullmq

import (
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/scripts"
)

// LookForResultsEvery says how often a wait asks for a job of whose end nothing was heard.
func (q *Queue) LookForResultsEvery(d time.Duration) { q.results.lookAgain = d }

// MissedUncounted is how many events a reader has missed at least, after the event last and before the
// page, in a stream that begins with first, where Redis doesn't count what it adds.
func MissedUncounted(last, first string, page ...string) int {
	events := make([]Event, len(page))
	for i, id := range page {
		events[i].ID = id
	}
	p := eventPosition{id: last, count: -1}
	return p.missed(scripts.Stream{First: first, Last: "9-0", Deleted: "0-0", Length: 1, Added: -1}, events)
}
