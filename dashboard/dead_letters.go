package dashboard

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// letterStates are the states from which a dead letter can be replayed.
var letterStates = []bullmq.State{bullmq.StateWaiting, bullmq.StatePrioritized, bullmq.StateDelayed, bullmq.StateFailed, bullmq.StateCompleted}

const (
	countedLetters = 50_000 // jobs whose options a page reads to count letters
	lettersPerPage = 50
	reasonBytes    = 200 // of a reason, as bullmq.DeadLetterCounts has them
)

// deadQueuesPage is what the page of all queues with dead letters shows.
type deadQueuesPage struct{ Queues []deadQueue }

// deadQueue is a queue with dead letters.
type deadQueue struct {
	Name                       string
	Waiting, Completed, Failed int
	Oldest                     time.Duration
}

// deadQueues lists the queues in which dead letters wait.
func (d *Dashboard) deadQueues(r *http.Request) (any, error) {
	summaries, err := d.summaries(r)
	if err != nil {
		return nil, err
	}
	page := &deadQueuesPage{}
	for _, summary := range summaries {
		if summary.DeadLetters {
			page.Queues = append(page.Queues, deadQueue{
				Name: summary.Name, Waiting: summary.Counts[bullmq.StateWaiting] + summary.Counts[bullmq.StatePrioritized] + summary.Counts[bullmq.StateDelayed],
				Completed: summary.Counts[bullmq.StateCompleted], Failed: summary.Counts[bullmq.StateFailed],
				Oldest: max(summary.Ages[bullmq.StateWaiting], summary.Ages[bullmq.StatePrioritized]),
			})
		}
	}
	return page, nil
}

// deadLettersPage is what the page of the dead letters of a queue shows.
type deadLettersPage struct {
	Queue          string
	Counted        bool // Total, Reasons and Origins are known
	Total          int
	Reasons        []letterCount
	OtherReasons   int
	Origins        []letterCount
	Reason, Origin string // of the letters that are listed; "" for all
	Letters        []letterRow
	Read           int
	Next           string // address of the next page
}

// letterCount is the number of letters with a reason, or from a queue.
type letterCount struct {
	What  string
	Count int
}

// letterRow is a dead letter in a list.
type letterRow struct {
	bullmq.DeadLetter
	State bullmq.State
}

// letterSelection selects dead letters.
type letterSelection struct{ reason, origin string }

// selects reports whether a letter has the reason and the origin.
func (s letterSelection) selects(letter bullmq.DeadLetter) bool {
	return (s.reason == "" || shortReason(letter.Reason) == s.reason) && (s.origin == "" || letter.QueueName == s.origin)
}

// shortReason returns the part of a reason by which letters are counted.
func shortReason(reason string) string {
	if len(reason) > reasonBytes {
		reason = strings.ToValidUTF8(reason[:reasonBytes], "")
	}
	return reason
}

// deadLetters lists the dead letters of a queue, and counts them by reason and origin.
func (d *Dashboard) deadLetters(r *http.Request) (any, error) {
	queue, err := d.open(r)
	if err != nil {
		return nil, err
	}
	defer queue.Close()
	ctx := r.Context()
	page := &deadLettersPage{Queue: queue.Name(), Reason: r.FormValue("reason"), Origin: r.FormValue("origin")}
	numbers, err := queue.Counts(ctx, letterStates...)
	if err != nil {
		return nil, err
	}
	jobs := 0
	for _, n := range numbers {
		jobs += n
	}
	if jobs <= countedLetters {
		counts, err := queue.DeadLetterCounts(ctx)
		if err != nil {
			return nil, err
		}
		for origin := range counts.Queues {
			if !d.sees(r, origin) {
				delete(counts.Queues, origin)
			}
		}
		page.Counted, page.Total, page.OtherReasons = true, counts.Total, counts.OtherReasons
		page.Reasons, page.Origins = letterCounts(counts.Reasons), letterCounts(counts.Queues)
	}
	search := bullmq.JobSearch{States: letterStates, Limit: lettersPerPage, After: r.FormValue("after"), MaxTime: d.o.Timeout / 4}
	selection := letterSelection{page.Reason, page.Origin}
	if reason := page.Reason; len(reason) < reasonBytes {
		search.Error = reason // fewer jobs are returned; the reason of a letter is that of its job
	}
	found, err := queue.Search(ctx, search)
	if err != nil {
		if search.After != "" {
			return nil, badRequest{err}
		}
		return nil, err
	}
	page.Read = found.Read
	for i, job := range found.Jobs {
		if letter, isLetter := job.DeadLetter(); isLetter && selection.selects(letter) && d.sees(r, letter.QueueName) {
			page.Letters = append(page.Letters, letterRow{letter, found.States[i]})
		}
	}
	if found.Next != "" {
		page.Next = d.link("queues", queue.Name(), "dead-letters") + "?" + page.query("after", found.Next)
	}
	return page, nil
}

// query returns the query of an address with the selection of the page and more.
func (p *deadLettersPage) query(more ...string) string {
	query := url.Values{}
	for name, value := range map[string]string{"reason": p.Reason, "origin": p.Origin} {
		if value != "" {
			query.Set(name, value)
		}
	}
	for pair := range slices.Chunk(more, 2) {
		query.Set(pair[0], pair[1])
	}
	return query.Encode()
}

// letterCounts returns counts, the largest first.
func letterCounts(counts map[string]int) (sorted []letterCount) {
	for what, n := range counts {
		sorted = append(sorted, letterCount{what, n})
	}
	slices.SortFunc(sorted, func(a, b letterCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.What, b.What))
	})
	return sorted
}
