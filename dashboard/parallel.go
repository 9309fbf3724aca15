package dashboard

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// atOnce bounds the calls that a page makes at the same time.
const atOnce = 16

// each calls do for each index, several at a time, and returns the errors together.
func each(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	errs := make([]error, n)
	slots := make(chan struct{}, atOnce)
	var running sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			if errs[i] = ctx.Err(); errs[i] == nil {
				errs[i] = do(ctx, i)
			}
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// summaries summarizes the queues that the reader of a page may see. Requests that update pages
// share a read of all queues.
func (d *Dashboard) summaries(r *http.Request) ([]bullmq.QueueSummary, error) {
	names, err := d.queueNames(r)
	if err != nil {
		return nil, err
	}
	return d.summariesOf(r, names)
}

// summariesOf summarizes queues, like summaries.
func (d *Dashboard) summariesOf(r *http.Request, names []string) ([]bullmq.QueueSummary, error) {
	if r.Header.Get(liveHeader) == "" {
		return bullmq.SummarizeQueues(r.Context(), d.connection, d.o.Prefix, names...)
	}
	fleet, err := sharedRead(d, r, allQueues, "fleet", d.readFleet)
	if err != nil {
		return nil, err
	}
	var found []bullmq.QueueSummary
	for _, name := range names {
		if row, known := fleet[name]; known { // otherwise it was found after the read
			found = append(found, row.QueueSummary)
		}
	}
	return found, nil
}
