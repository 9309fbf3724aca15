// Tail follows what happens on a queue, whichever language does it: BullMQ's QueueEvents as a loop.
//
//	go run ./examples/tail orders        # from now on
//	go run ./examples/tail orders 0-0    # all that the stream still holds, then on
//
// Ctrl-C ends it and prints the id from which a later run can go on without missing anything.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

func main() {
	arguments := append(os.Args[1:], "", "")
	queue, from := arguments[0], arguments[1]
	if queue == "" {
		log.Fatal("usage: tail QUEUE [ID]")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	events, err := bullmq.NewQueueEvents(ctx, queue, &bullmq.EventsOptions{
		Connection:  bullmq.URL(os.Getenv("REDIS_URL")), // redis://127.0.0.1:6379 when that is empty
		LastEventID: from,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer events.Close()

	for event, err := range events.All(ctx) {
		if err != nil {
			log.Print(err) // Redis is out of reach; the loop goes on from the last event when it is back
			continue
		}
		fmt.Printf("%s  job %-6s %s%s\n", event.Time().Format("15:04:05.000"), event.JobID, event.Type, detail(event))
	}
	fmt.Println("go on after", events.LastEventID())
}

// detail is what an event carries beside its job; each type fills fields of its own.
func detail(event bullmq.Event) string {
	switch event.Type {
	case bullmq.EventCompleted:
		return fmt.Sprintf(" with %s", event.ReturnValue) // JSON
	case bullmq.EventFailed:
		return fmt.Sprintf(": %s", event.FailedReason) // plain text
	case bullmq.EventProgress:
		return fmt.Sprintf(" %s", event.Progress) // JSON
	case bullmq.EventDelayed:
		return fmt.Sprintf(" until %s", event.DelayedUntil.Format("15:04:05.000"))
	case bullmq.EventWaiting, bullmq.EventActive:
		if event.Prev != "" {
			return fmt.Sprintf(", before %s", event.Prev)
		}
	}
	return ""
}
