package dashboard

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// queuePage is what the page of a queue shows.
type queuePage struct {
	queueRow
	State  bullmq.State
	Search bullmq.JobSearch
	Jobs   []jobRow
	Read   int
	Next   string // address of the next page
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

const jobsPerPage = 50

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
	if !slices.Contains(shownStates, page.State) {
		return nil, badRequest{errors.New("there is no state " + cut(string(page.State), 80))}
	}
	page.Search = bullmq.JobSearch{
		States: []bullmq.State{page.State}, Name: r.FormValue("name"), Data: r.FormValue("data"), Error: r.FormValue("error"),
		Limit: jobsPerPage, After: r.FormValue("after"), MaxTime: d.o.Timeout / 4,
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
		page.Jobs = append(page.Jobs, jobRow{job, found.States[i], cut(string(job.Data), 160)})
	}
	if found.Next != "" {
		query := url.Values{"state": {string(page.State)}, "after": {found.Next}}
		for name, value := range map[string]string{"name": page.Search.Name, "data": page.Search.Data, "error": page.Search.Error} {
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
