package dashboard

import (
	"context"
	"errors"
	"net/http"
	"slices"
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

// readable returns the names of the queues that the reader of a page may see.
func (d *Dashboard) readable(r *http.Request) ([]string, error) {
	names, err := d.catalog.list(r.Context())
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return d.mayUse(r, Use{Action: ActionRead, Queue: name}) != nil
	}), nil
}

// summaries summarizes the queues that the reader of a page may see.
func (d *Dashboard) summaries(r *http.Request) ([]bullmq.QueueSummary, error) {
	names, err := d.readable(r)
	if err != nil {
		return nil, err
	}
	return bullmq.SummarizeQueues(r.Context(), d.connection, d.o.Prefix, names...)
}
