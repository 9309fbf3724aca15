package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

const (
	demoOrderEvery = 1500 * time.Millisecond
	demoFirst      = 12 // orders at the start
)

// demoShop adds the jobs of the demo.
type demoShop struct {
	connection *bullmq.Connection
	prefix     string
	queues     map[string]*bullmq.Queue
	names      []string // of the queues that have workers
	flows      *bullmq.FlowProducer
	order      int
}

func openShop(ctx context.Context, connection *bullmq.Connection, prefix string) (*demoShop, error) {
	s := &demoShop{connection: connection, prefix: prefix, queues: map[string]*bullmq.Queue{}, names: sortedKeys(demoWorkers()), order: 1000}
	for _, name := range append([]string{"newsletter", "warehouse-sync", demoLetters}, s.names...) {
		queue, err := bullmq.NewQueue(ctx, name, &bullmq.QueueOptions{Connection: connection, Prefix: prefix, MaxEvents: demoEvents})
		if err != nil {
			s.close()
			return nil, err
		}
		s.queues[name] = queue
	}
	var err error
	if s.flows, err = bullmq.NewFlowProducer(ctx, &bullmq.FlowProducerOptions{Connection: connection, Prefix: prefix}); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *demoShop) close() {
	for _, queue := range s.queues {
		_ = queue.Close()
	}
	if s.flows != nil {
		_ = s.flows.Close()
	}
}

// trade adds jobs until ctx ends. It passes errors to warn, and goes on.
func (s *demoShop) trade(ctx context.Context, warn func(error)) {
	do := func(what string, call func(context.Context) error) {
		if ctx.Err() != nil {
			return
		}
		if err := call(ctx); err != nil && ctx.Err() == nil {
			warn(fmt.Errorf("bullmq: dev: %s: %w", what, err))
		}
	}
	do("prepare the demo", s.furnish)
	for range demoFirst {
		do("add jobs of the demo", s.sell)
	}
	order, tidy := time.NewTicker(demoOrderEvery), time.NewTicker(demoTidyEvery)
	defer order.Stop()
	defer tidy.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-order.C:
			do("add jobs of the demo", s.sellUnlessBusy)
		case <-tidy.C:
			do("remove old dead letters of the demo", s.tidy)
		}
	}
}

// sellUnlessBusy adds the jobs of an order, unless workers are behind.
func (s *demoShop) sellUnlessBusy(ctx context.Context) error {
	summaries, err := bullmq.SummarizeQueues(ctx, s.connection, s.prefix, s.names...)
	if err != nil {
		return err
	}
	for _, summary := range summaries {
		unfinished := 0
		for state, n := range summary.Counts {
			if state != bullmq.StateCompleted && state != bullmq.StateFailed {
				unfinished += n
			}
		}
		if unfinished >= demoBacklog {
			return nil
		}
	}
	return s.sell(ctx)
}

// tidy removes old dead letters, which nobody may replay.
func (s *demoShop) tidy(ctx context.Context) error {
	_, err := s.queues[demoLetters].Clean(ctx, &bullmq.CleanOptions{State: bullmq.StateWaiting, Grace: demoLetterAge})
	return err
}

// furnish makes what does not change: schedulers, a paused queue, and one without workers.
func (s *demoShop) furnish(ctx context.Context) error {
	if _, err := demoReport.Schedule(ctx, s.queues["reports"], "daily-sales", bullmq.Repeat{Pattern: "*/2 * * * *", TimeZone: "UTC"}, demoPeriod{"berlin"}, nil); err != nil {
		return err
	}
	if _, err := demoStock.Schedule(ctx, s.queues["reports"], "stock", bullmq.Repeat{Every: 20 * time.Second}, demoPeriod{"berlin"}, nil); err != nil {
		return err
	}
	for i := range 40 {
		if _, err := demoMail.Add(ctx, s.queues["newsletter"], demoMessage{To: customer(), Template: fmt.Sprintf("spring-sale-%d", i%3+1)}, nil); err != nil {
			return err
		}
		if i%4 == 0 {
			if _, err := s.queues["warehouse-sync"].Add(ctx, "sync-shelf", map[string]int{"shelf": i}, nil); err != nil {
				return err
			}
		}
	}
	if err := s.queues["newsletter"].Pause(ctx); err != nil {
		return err
	}
	// A parent whose child is far in the future stays with its children.
	_, err := s.flows.Add(ctx, demoOrder.Flow("orders", s.purchase(), nil,
		demoReserve.Flow("inventory", s.purchase(), nil),
		demoCharge.Flow("payments", demoPayment{s.order, 89.90, "4242"}, &bullmq.JobOptions{Delay: 30 * time.Minute})))
	return err
}

// sell adds the jobs of an order, and some others.
func (s *demoShop) sell(ctx context.Context) error {
	order := s.purchase()
	_, err := s.flows.Add(ctx, demoOrder.Flow("orders", order, nil,
		demoCharge.Flow("payments", demoPayment{order.Order, order.Total, "4242"}, &bullmq.JobOptions{OnFailure: bullmq.FailParent}),
		demoReserve.Flow("inventory", order, &bullmq.JobOptions{OnFailure: bullmq.FailParent}),
		demoInvoice.Flow("invoices", order, &bullmq.JobOptions{OnFailure: bullmq.IgnoreDependency})))
	if err != nil {
		return err
	}
	if _, err = demoMail.Add(ctx, s.queues["mails"], demoMessage{order.Customer, "order-received", order.Order}, nil); err != nil {
		return err
	}
	if oneIn(3) {
		delay := time.Duration(1+rand.IntN(15)) * time.Minute
		if _, err = demoReminder.Add(ctx, s.queues["mails"], demoMessage{order.Customer, "review", order.Order}, &bullmq.JobOptions{Delay: delay}); err != nil {
			return err
		}
	}
	if oneIn(2) {
		_, err = demoThumbnail.Add(ctx, s.queues["thumbnails"], demoPicture{order.Items[0], []int{64, 320, 1280}}, &bullmq.JobOptions{Priority: 1 + rand.IntN(5)})
	}
	return err
}

// purchase returns the data of the next order.
func (s *demoShop) purchase() demoPurchase {
	s.order++
	items := make([]string, 1+rand.IntN(4))
	for i := range items {
		items[i] = demoProducts[rand.IntN(len(demoProducts))]
	}
	return demoPurchase{s.order, customer(), items, float64(999+rand.IntN(30000)) / 100}
}

func customer() string {
	return strings.ToLower(demoNames[rand.IntN(len(demoNames))]) + "@example.org"
}

var (
	demoNames    = []string{"Ada", "Grace", "Alan", "Edsger", "Barbara", "Donald", "Margaret", "Ken", "Radia", "Dennis"}
	demoProducts = []string{"teapot", "mug", "lamp", "chair", "blanket", "clock", "basket", "kettle", "vase", "poster"}
)
