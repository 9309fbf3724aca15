package main

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// readEvents reads a queue's events from the start with QueueEvents until none arrive for a short time.
func readEvents(ctx context.Context, s *session, raw json.RawMessage) (any, error) {
	var a struct {
		Queue string
		Wait  millis
	}
	if err := read(raw, &a); err != nil {
		return nil, err
	}
	connection, err := s.connection()
	if err != nil {
		return nil, err
	}
	last, err := s.client.Do(ctx, s.client.B().Xrevrange().Key(s.prefix+":"+a.Queue+":events").End("+").Start("-").Count(1).Build()).AsXRange()
	if err != nil {
		return nil, err
	}
	events, err := bullmq.NewQueueEvents(ctx, a.Queue, &bullmq.QueueEventsOptions{Connection: connection, Prefix: s.prefix, LastEventID: "0-0"})
	if err != nil {
		return nil, err
	}
	defer events.Close()
	heard := []any{}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	seen := func(id string) {
		if len(last) == 0 || id == last[0].ID {
			if a.Wait == 0 {
				cancel()
				return
			}
			time.AfterFunc(a.Wait.duration(), cancel)
		}
	}
	if len(last) == 0 {
		seen("")
	}
	for event, err := range events.All(ctx) {
		if err != nil {
			return nil, err
		}
		heard = append(heard, []any{event.Type, viewEvent(event)})
		seen(event.ID)
	}
	return heard, nil
}

// viewEvent returns the payload that a listener in Node receives.
func viewEvent(e bullmq.Event) map[string]any {
	view := map[string]any{}
	if e.Type == bullmq.EventDrained {
		return view
	}
	for i := 0; i+1 < len(e.Fields); i += 2 {
		name, value := e.Fields[i], e.Fields[i+1]
		switch {
		case name == "event":
		case name == "data" && e.Type == bullmq.EventProgress:
			view[name] = orNull(e.Progress)
		case name == "returnvalue" && e.Type == bullmq.EventCompleted:
			view[name] = orNull(e.ReturnValue)
		case name == "delay" && e.Type == bullmq.EventDelayed:
			if ms, err := strconv.ParseFloat(value, 64); err == nil {
				view[name] = ms
			}
		default:
			view[name] = value
		}
	}
	return view
}
