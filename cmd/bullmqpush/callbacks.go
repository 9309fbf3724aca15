package main

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmqpush"
)

// callbacks returns a handler for the callbacks of all queues, and a function that closes what it
// uses.
func (c *config) callbacks(ctx context.Context, conn *bullmq.Connection) (http.Handler, func(), error) {
	var fetchers []*bullmq.Fetcher
	closeAll := func() {
		for _, fetcher := range fetchers {
			_ = fetcher.Close()
		}
	}
	for _, e := range c.endpoints {
		fetcher, err := bullmq.NewFetcher(ctx, e.queue, &bullmq.FetcherOptions{Connection: conn, Prefix: c.prefix})
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		fetchers = append(fetchers, fetcher)
	}
	handler, err := bullmqpush.NewCallbacks(&bullmqpush.CallbacksOptions{
		Keys: c.push.CallbackKeys, Wait: c.push.CallbackWait, Logger: slog.Default(),
	}, fetchers...)
	if err != nil {
		closeAll()
		return nil, nil, err
	}
	return handler, closeAll, nil
}
