package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// queuePage is what the page of a queue shows.
type queuePage struct {
	queueRow
	State  bullmq.State // allStates for all
	Search bullmq.JobSearch
	// Older and Newer bound the age of the jobs, such as 1h.
	Older, Newer string
	Jobs         []jobRow
	Errors       bool // a job has an error
	Read         int
	Next         string // address of the next page
	// HiddenData and HiddenErrors mean that these are redacted, and can't be searched.
	HiddenData, HiddenErrors bool
}

func (p *queuePage) live() livePage { return livePage{Topics: []string{p.Name}} }

// jobRow is a job in a list.
type jobRow struct {
	*bullmq.Job
	State bullmq.State
	Data  string
}

const (
	jobsPerPage = 50
	// allStates is the tab with the jobs of all states.
	allStates bullmq.State = "all"
)

// Finished reports whether the jobs of the page have finished, so that it shows when.
func (p *queuePage) Finished() bool { return isFinal(p.State) }

// All reports whether the page shows the jobs of all states.
func (p *queuePage) All() bool { return p.State == allStates }

// OneState returns the state of all jobs of the page; "" if they have several.
func (p *queuePage) OneState() bullmq.State {
	if p.All() {
		return ""
	}
	return p.State
}

// Total returns the number of jobs in all states.
func (p *queuePage) Total() int { return p.jobs() }

// Filtered reports whether the page shows only jobs that match something.
func (p *queuePage) Filtered() bool {
	return p.Search.Name != "" || p.Search.Data != "" || p.Search.Error != "" || p.Older != "" || p.Newer != ""
}

func isFinal(state bullmq.State) bool {
	return state == bullmq.StateCompleted || state == bullmq.StateFailed
}

// setAge sets the times that bound a search to jobs that are older or newer than some ages. The
// age counts from the end of the jobs, if all of the states of the search have finished, otherwise
// from the add.
func (d *Dashboard) setAge(search *bullmq.JobSearch, older, newer string) error {
	from, to := &search.AddedAfter, &search.AddedBefore
	if len(search.States) > 0 && !slices.ContainsFunc(search.States, func(state bullmq.State) bool { return !isFinal(state) }) {
		from, to = &search.FinishedAfter, &search.FinishedBefore
	}
	for _, bound := range []struct {
		text, label string
		to          *time.Time
	}{{older, "older than", to}, {newer, "newer than", from}} {
		age, err := parseAge(bound.text)
		if err != nil {
			return badRequest{fmt.Errorf("%s: %w", bound.label, err)}
		}
		if strings.TrimSpace(bound.text) != "" {
			*bound.to = d.o.Now().Add(-age)
		}
	}
	return nil
}

// open opens the queue of a request, for reading. The caller closes it.
func (d *Dashboard) open(r *http.Request) (*bullmq.Queue, error) {
	name := r.PathValue("queue")
	if !d.catalog.shows(name) {
		return nil, notFound{"there is no queue " + cut(name, 80)}
	}
	summaries, err := bullmq.SummarizeQueues(r.Context(), d.connection, d.o.Prefix, name)
	if err != nil {
		return nil, err
	}
	if summaries[0].Err == nil && isEmpty(summaries[0]) {
		names, err := d.catalog.list(r.Context())
		if err != nil {
			return nil, err
		}
		if !slices.Contains(names, name) {
			return d.openNew(r.Context(), name)
		}
	}
	return d.openNamed(r.Context(), name)
}

// openNew opens a queue without jobs that was not found by the last scan. It may be new.
func (d *Dashboard) openNew(ctx context.Context, name string) (*bullmq.Queue, error) {
	queue, err := d.openNamed(ctx, name)
	if err != nil {
		return nil, err
	}
	meta, err := queue.Meta(ctx)
	if err == nil && meta == (bullmq.Meta{}) {
		err = notFound{"there is no queue " + cut(name, 80)}
	}
	if err != nil {
		return nil, errors.Join(err, queue.Close())
	}
	return queue, nil
}

func (d *Dashboard) openNamed(ctx context.Context, name string) (*bullmq.Queue, error) {
	return bullmq.NewQueue(ctx, name, &bullmq.QueueOptions{Connection: d.connection, Prefix: d.o.Prefix, SkipMetaUpdate: true})
}

func isEmpty(summary bullmq.QueueSummary) bool {
	for _, n := range summary.Counts {
		if n > 0 {
			return false
		}
	}
	return summary.Added == 0
}

func (d *Dashboard) queue(r *http.Request) (any, error) {
	queue, err := d.open(r)
	if err != nil {
		return nil, err
	}
	defer queue.Close()
	ctx := r.Context()
	summaries, err := bullmq.SummarizeQueues(ctx, d.connection, d.o.Prefix, queue.Name())
	if err != nil {
		return nil, err
	}
	workers, _ := queue.Workers(ctx) // the rest of the page is useful without them
	d.rates.add(summaries)
	page := &queuePage{queueRow: d.rowOf(summaries[0], len(workers)), State: bullmq.State(r.FormValue("state"))}
	if page.State == "" {
		page.State = busiest(summaries[0])
	}
	if !page.All() && !slices.Contains(shownStates, page.State) {
		return nil, badRequest{errors.New("there is no state " + cut(string(page.State), 80))}
	}
	page.Search = bullmq.JobSearch{
		Name: r.FormValue("name"), Data: r.FormValue("data"), Error: r.FormValue("error"),
		Limit: jobsPerPage, After: r.FormValue("after"), MaxTime: d.o.Timeout / 4,
	}
	if page.Search.States = shownStates; !page.All() {
		page.Search.States = []bullmq.State{page.State}
	}
	page.Older, page.Newer = r.FormValue("older"), r.FormValue("newer")
	if err := d.setAge(&page.Search, page.Older, page.Newer); err != nil {
		return nil, err
	}
	page.HiddenData, page.HiddenErrors = d.o.Redact != nil, d.o.RedactText != nil
	if err := d.maySearch(page.Search.Data, page.Search.Error); err != nil {
		return nil, err
	}
	found, err := queue.Search(ctx, page.Search)
	if err != nil {
		if page.Search.After != "" {
			return nil, badRequest{err}
		}
		return nil, err
	}
	page.Read = found.Read
	for i, job := range found.Jobs {
		job = d.shownJob(queue.Name(), job)
		page.Errors = page.Errors || job.FailedReason != ""
		page.Jobs = append(page.Jobs, jobRow{job, found.States[i], cut(string(job.Data), 160)})
	}
	if found.Next != "" {
		query := url.Values{"state": {string(page.State)}, "after": {found.Next}}
		for name, value := range map[string]string{"name": page.Search.Name, "data": page.Search.Data, "error": page.Search.Error, "older": page.Older, "newer": page.Newer} {
			if value != "" {
				query.Set(name, value)
			}
		}
		page.Next = d.link("queues", queue.Name()) + "?" + query.Encode()
	}
	return page, nil
}

// busiest returns the state that a reader most likely wants to see.
func busiest(summary bullmq.QueueSummary) bullmq.State {
	for _, state := range []bullmq.State{bullmq.StateFailed, bullmq.StateActive, bullmq.StateWaiting, bullmq.StatePrioritized, bullmq.StateDelayed, bullmq.StateWaitingChildren} {
		if summary.Counts[state] > 0 {
			return state
		}
	}
	return bullmq.StateCompleted
}
