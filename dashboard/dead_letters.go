package dashboard

import (
	"cmp"
	"context"
	"maps"
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

func (*deadQueuesPage) live() livePage { return livePage{Topics: []string{allQueues}} }

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
	HiddenReasons  bool // reasons are redacted, and can't be counted or selected
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

func (p *deadLettersPage) live() livePage { return livePage{Topics: []string{p.Queue}} }

// deadLettersModel is what is read for the page of the dead letters of a queue.
type deadLettersModel struct {
	counts *bullmq.DeadLetterCounts // nil if there are too many jobs
	found  *bullmq.JobPage
}

// readDeadLetters reads dead letters, also those of queues that a viewer may not see.
func (d *Dashboard) readDeadLetters(r *http.Request) (*deadLettersModel, error) {
	queue, err := d.open(r)
	if err != nil {
		return nil, err
	}
	defer queue.Close()
	ctx, m := r.Context(), &deadLettersModel{}
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
		m.counts = &counts
	}
	search := bullmq.JobSearch{States: letterStates, Limit: lettersPerPage, After: r.FormValue("after"), MaxTime: d.o.Timeout / 4}
	if reason := r.FormValue("reason"); len(reason) < reasonBytes {
		search.Error = reason // fewer jobs are returned; the reason of a letter is that of its job
	}
	if m.found, err = queue.Search(ctx, search); err != nil && search.After != "" {
		err = badRequest{err}
	}
	return m, err
}

// deadLetters lists the dead letters of a queue, and counts them by reason and origin.
func (d *Dashboard) deadLetters(r *http.Request) (any, error) {
	if err := d.maySearch("", r.FormValue("reason")); err != nil {
		return nil, err
	}
	m, err := sharedRead(d, r, r.PathValue("queue"), r.URL.EscapedPath()+"?"+r.URL.RawQuery, func(ctx context.Context) (*deadLettersModel, error) { return d.readDeadLetters(r.WithContext(ctx)) })
	if err != nil {
		return nil, err
	}
	page := &deadLettersPage{Queue: r.PathValue("queue"), Reason: r.FormValue("reason"), Origin: r.FormValue("origin"), Read: m.found.Read, HiddenReasons: d.o.RedactText != nil}
	if m.counts != nil {
		origins := maps.Clone(m.counts.Queues)
		maps.DeleteFunc(origins, func(origin string, _ int) bool { return !d.sees(r, origin) })
		page.Counted, page.Total, page.OtherReasons = true, m.counts.Total, m.counts.OtherReasons
		page.Reasons, page.Origins = letterCounts(m.counts.Reasons), letterCounts(origins)
		if page.HiddenReasons {
			page.Reasons, page.OtherReasons = nil, 0
		}
	}
	selection := letterSelection{page.Reason, page.Origin}
	for i, job := range m.found.Jobs {
		if letter, isLetter := d.shownJob(page.Queue, job).DeadLetter(); isLetter && selection.selects(letter) && d.sees(r, letter.QueueName) {
			page.Letters = append(page.Letters, letterRow{letter, m.found.States[i]})
		}
	}
	if m.found.Next != "" {
		page.Next = d.link("queues", page.Queue, "dead-letters") + "?" + page.query("after", m.found.Next)
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
