// Tail prints the events of a queue, whichever library caused them: BullMQ's QueueEvents as a loop.
//
//	go run ./examples/tail orders        # new events
//	go run ./examples/tail orders 0-0    # all events in the stream, then new ones
//
// Ctrl-C ends it and prints the id after which a later run can continue without missing anything.
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
	events, err := bullmq.NewQueueEvents(ctx, queue, &bullmq.QueueEventsOptions{
		URL:         os.Getenv("REDIS_URL"), // defaults to redis://127.0.0.1:6379
		LastEventID: from,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer events.Close()

	for event, err := range events.All(ctx) {
		if err != nil {
			log.Print(err) // Redis is unreachable; the loop continues after the last event when it is back
			continue
		}
		fmt.Printf("%s  job %-6s %s%s\n", event.Time().Format("15:04:05.000"), event.JobID, event.Type, detail(event))
	}
	fmt.Println("continue after", events.LastEventID())
}

// detail returns the content of an event other than its job. Each type sets different fields.
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
