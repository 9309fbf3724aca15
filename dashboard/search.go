package dashboard

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// searchPage is what the page of a search in all queues shows.
type searchPage struct {
	Text string // that was looked for
	Rows []foundRow
	// Queues is the number of queues with jobs, and Searched that of those in whose newest jobs
	// the text was looked for. There was no time for the others.
	Queues, Searched int
	Read             int  // jobs that were read
	More             bool // there are more jobs than a page shows
	// HiddenData and HiddenErrors mean that these were not searched, because they are redacted.
	HiddenData, HiddenErrors bool
}

// foundRow is a job that was found.
type foundRow struct {
	Queue, ID, Name string
	State           bullmq.State
	Match           string // what matches: id, name, data or error
	Timestamp       time.Time
	FinishedOn      time.Time
	FailedReason    string
}

// Bounds of a search in all queues.
const (
	searchQueues  = 5000 // in which the id is looked for, by one call for 50
	searchCalls   = 100  // lists of jobs in which the text is looked for
	searchNewest  = 50   // jobs that are read of a list
	searchResults = 100
	longestSearch = 500 // bytes of the text
)

var errLongSearch = errors.New("the text to look for is longer than 500 bytes")

// searchJobs looks for an id, and for a text in the newest jobs, in the queues that the reader may see.
func (d *Dashboard) searchJobs(r *http.Request) (any, error) {
	page := &searchPage{Text: strings.TrimSpace(r.FormValue("q")), HiddenData: d.o.Redact != nil, HiddenErrors: d.o.RedactText != nil}
	if page.Text == "" {
		return page, nil
	}
	if len(page.Text) > longestSearch {
		return nil, badRequest{errLongSearch}
	}
	names, err := d.queueNames(r)
	if err != nil {
		return nil, err
	}
	ctx := r.Context()
	found, err := bullmq.FindJob(ctx, d.connection, d.o.Prefix, page.Text, names[:min(len(names), searchQueues)]...)
	if err != nil {
		return nil, err
	}
	known := map[[2]string]bool{}
	add := func(row foundRow) {
		key := [2]string{row.Queue, row.ID}
		if known[key] || d.mayUse(r, Use{Action: ActionRead, Queue: row.Queue, Job: row.ID}) != nil {
			return
		}
		if known[key] = true; len(page.Rows) == searchResults {
			page.More = true
			return
		}
		page.Rows = append(page.Rows, row)
	}
	for _, job := range found {
		if page.HiddenErrors { // a part of what is to be hidden may be missing
			job.FailedReason = ""
		}
		add(foundRow{job.QueueName, job.ID, job.Name, job.State, "id", job.Timestamp, job.FinishedOn, job.FailedReason})
	}
	fleet, err := sharedRead(d, r, allQueues, "fleet", d.readFleet)
	if err != nil {
		return nil, err
	}
	return page, d.searchNewest(ctx, page, names, fleet, add)
}

// searchNewest looks for the text in the newest jobs of each state of each queue, until the
// budget is used.
func (d *Dashboard) searchNewest(ctx context.Context, page *searchPage, names []string, fleet map[string]queueRow, add func(foundRow)) error {
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return fleet[name].jobs() == 0 })
	page.Queues = len(names)
	began, calls, text := time.Now(), 0, strings.ToLower(page.Text)
	for _, name := range names {
		states := slices.DeleteFunc(slices.Clone(shownStates), func(state bullmq.State) bool { return fleet[name].Counts[state] == 0 })
		left := d.o.Timeout/4 - time.Since(began)
		if calls += len(states); calls > searchCalls || left < time.Millisecond || page.More {
			return nil
		}
		queue, err := d.openNamed(ctx, name)
		if err != nil {
			return err
		}
		err = d.searchQueue(ctx, page, queue, states, left, text, add)
		_ = queue.Close()
		if err != nil {
			return err
		}
		page.Searched++
	}
	return nil
}

// searchQueue looks for the text in the newest jobs of some states of a queue.
func (d *Dashboard) searchQueue(ctx context.Context, page *searchPage, queue *bullmq.Queue, states []bullmq.State, left time.Duration, text string, add func(foundRow)) error {
	for _, state := range states {
		jobs, err := queue.Search(ctx, bullmq.JobSearch{States: []bullmq.State{state}, Limit: searchNewest, MaxRead: searchNewest, MaxTime: left.Round(time.Millisecond)})
		if err != nil {
			return err
		}
		page.Read += jobs.Read
		for _, job := range jobs.Jobs {
			if match := d.matchOf(job, text); match != "" {
				add(foundRow{queue.Name(), job.ID, job.Name, state, match, job.Timestamp, job.FinishedOn, d.shownJob(queue.Name(), job).FailedReason})
			}
		}
	}
	return nil
}

// matchOf returns which part of a job contains a text in lower case; "" for none. What is
// redacted is not searched, see maySearch.
func (d *Dashboard) matchOf(job *bullmq.Job, text string) string {
	switch {
	case strings.Contains(strings.ToLower(job.Name), text):
		return "name"
	case d.o.RedactText == nil && strings.Contains(strings.ToLower(job.FailedReason), text):
		return "error"
	case d.o.Redact == nil && strings.Contains(strings.ToLower(string(job.Data)), text):
		return "data"
	}
	return ""
}

// jobs returns the number of jobs in all states.
func (r queueRow) jobs() (total int) {
	for _, n := range r.Counts {
		total += n
	}
	return total
}

// apiFound is a job that a search in all queues has found.
type apiFound struct {
	ID           string `json:"id"`
	Queue        string `json:"queue"`
	URL          string `json:"url"`
	Name         string `json:"name"`
	State        string `json:"state"`
	Match        string `json:"match"`
	Timestamp    *int64 `json:"timestamp"`
	FinishedOn   *int64 `json:"finishedOn"`
	FailedReason string `json:"failedReason,omitempty"`
}

func (d *Dashboard) apiSearch(r *http.Request) (any, error) {
	content, err := d.searchJobs(r)
	if err != nil {
		return nil, err
	}
	page := content.(*searchPage)
	reply := struct {
		Jobs     []apiFound `json:"jobs"`
		Queues   int        `json:"queues"`
		Searched int        `json:"searched"`
		Read     int        `json:"read"`
		More     bool       `json:"more"`
	}{[]apiFound{}, page.Queues, page.Searched, page.Read, page.More}
	for _, row := range page.Rows {
		reply.Jobs = append(reply.Jobs, apiFound{
			text(row.ID), text(row.Queue), d.link("api", "v1", "queues", row.Queue, "jobs", row.ID), cut(row.Name, 1000), string(row.State), row.Match,
			unixMillis(row.Timestamp), unixMillis(row.FinishedOn), cut(row.FailedReason, 1000),
		})
	}
	return reply, nil
}
