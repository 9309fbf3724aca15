// Demo shows the purpose of the SDK in the terminal: Node adds jobs that Go runs, Go adds jobs that Node
// runs, and the events of both queues are shown live. It starts redis-server and the Node programs, ends by
// itself, and fails if producers, workers, events and Redis disagree.
//
//	make demo
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

const (
	// longest limits the time until all jobs have ended.
	longest = 13 * time.Second
	// pace is the time between two adds, so that a reader can follow.
	pace = 320 * time.Millisecond
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	out := screenOf(os.Stdout)
	out.title("starting redis-server and two Node programs …")
	company, err := assemble(ctx)
	if err != nil {
		return err
	}
	defer company.dismiss()

	out.title("Node adds to orders and Go runs them; Go adds to mails and Node runs them:")
	watched, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	begun := time.Now()
	happened := make(chan happening, 1000)
	for _, side := range company.exchanges() {
		go side.watch(watched, happened)
	}
	go company.produce(watched)
	watch(watched, company, out, begun, happened)
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	return settle(company, out)
}

// watch shows events until every job of both queues has ended, and for a short time afterwards.
func watch(ctx context.Context, company *company, out screen, begun time.Time, happened <-chan happening) {
	out.begin()
	defer out.end()
	var quiet <-chan time.Time
	for {
		if quiet == nil && company.orders.ledger.done() && company.mails.ledger.done() {
			quiet = time.After(100 * time.Millisecond)
		}
		select {
		case h := <-happened:
			out.row(h.side.record(h.event, begun))
		case <-quiet:
			return
		case <-ctx.Done():
			return
		}
	}
}

// settle compares the accounts and shows the sums.
func settle(company *company, out screen) error {
	company.endWork()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var faults []string
	for _, side := range company.exchanges() {
		counts, err := side.queue.Counts(ctx)
		if err != nil {
			return err
		}
		faults = append(faults, side.ledger.faults(side.name, counts)...)
	}
	out.summary(company.exchanges())
	for _, fault := range faults {
		out.fault(fault)
	}
	if len(faults) > 0 {
		return errors.New("the ledger does not balance")
	}
	out.verdict("the ledger balances: producers, workers, events and Redis agree")
	return nil
}

// happening is an event of one of the two queues.
type happening struct {
	side  *exchange
	event bullmq.Event
}
