package tests

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/nodeprocess"
)

// received is an event in the form that a listener in Node receives, whichever library read it.
type received struct {
	Name     string
	StreamID string
	Payload  object
}

// jobID returns the id of the event's job, or "" for an event of the queue.
func (h received) jobID() string {
	id, _ := h.Payload["jobId"].(string)
	return id
}

// reader collects the events of one queue in order.
type reader struct {
	mu     sync.Mutex
	events []received
	faults []string
	stop   func()
}

func (r *reader) note(h received) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, h)
}

func (r *reader) complain(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = append(r.faults, text)
}

// last returns the id of the last entry that was read.
func (r *reader) last() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.events) == 0 {
		return ""
	}
	return r.events[len(r.events)-1].StreamID
}

// upTo waits until the entry has been read, stops the reader and returns all events.
func (r *reader) upTo(entry string) []received {
	GinkgoHelper()
	Eventually(r.last).Should(Equal(entry))
	r.stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	Expect(r.faults).To(BeEmpty())
	return slices.Clone(r.events)
}

// readInGo reads a queue's new events with this SDK.
func readInGo(queue string) *reader {
	GinkgoHelper()
	events, err := bullmq.NewQueueEvents(context.Background(), queue, &bullmq.QueueEventsOptions{URL: server.URL()})
	Expect(err).NotTo(HaveOccurred())
	r := &reader{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event, err := range events.All(context.Background()) {
			if err != nil {
				r.complain(err.Error())
				continue
			}
			r.note(received{Name: string(event.Type), StreamID: event.ID, Payload: payloadOf(event)})
		}
	}()
	r.stop = sync.OnceFunc(func() {
		_ = events.Close()
		<-done
	})
	DeferCleanup(r.stop)
	return r
}

// payloadOf returns the payload that Node would pass to a listener. It uses the event's typed fields if there
// are any.
func payloadOf(event bullmq.Event) object {
	payload := object{}
	if event.Type == bullmq.EventDrained {
		return payload
	}
	typed := map[string]any{
		"jobId": event.JobID, "name": event.Name, "failedReason": event.FailedReason,
		"attemptsMade": strconv.Itoa(event.AttemptsMade), "count": strconv.Itoa(event.Count),
		"deduplicationId": event.DeduplicationID, "deduplicatedJobId": event.DeduplicatedJobID,
	}
	for i := 0; i+1 < len(event.Fields); i += 2 {
		switch name := event.Fields[i]; {
		case name == "event":
		case name == "prev":
			payload[name] = string(event.Prev)
			if event.Prev == bullmq.StateWaiting {
				payload[name] = event.Fields[i+1] // Node keeps both spellings
			}
		case name == "data" && event.Type == bullmq.EventProgress:
			payload[name] = decoded(event.Progress)
		case name == "returnvalue" && event.Type == bullmq.EventCompleted:
			payload[name] = decoded(event.ReturnValue)
		case name == "delay" && event.Type == bullmq.EventDelayed:
			payload[name] = float64(event.DelayedUntil.UnixMilli())
		case typed[name] != nil:
			payload[name] = typed[name]
		default:
			payload[name] = event.Fields[i+1]
		}
	}
	return payload
}

func decoded(text json.RawMessage) any {
	var value any
	_ = json.Unmarshal(text, &value)
	return value
}

// readInNode reads a queue's new events with Node's QueueEvents. also names a custom event to listen for.
func readInNode(queue string, also string) *reader {
	GinkgoHelper()
	process := startNode("events.mjs", "-queue", queue, "-also", also)
	r := &reader{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for line := range process.Lines() {
			r.noteLine(line)
		}
	}()
	r.stop = sync.OnceFunc(func() {
		if process.Stop() != 0 {
			r.complain(process.Stderr())
		}
		<-done
	})
	return r
}

func (r *reader) noteLine(line nodeprocess.Line) {
	var message struct {
		Event, Name, StreamID string
		Payload               object
	}
	if err := line.Decode(&message); err != nil {
		r.complain(err.Error())
		return
	}
	if message.Event == "queue" {
		r.note(received{Name: message.Name, StreamID: message.StreamID, Payload: message.Payload})
	}
}
