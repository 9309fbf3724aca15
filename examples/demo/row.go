package main

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// row is an event as displayed.
type row struct {
	time             string // seconds since the start
	queue            string
	producer, worker string // worker is "" before the job starts
	job, name        string
	event            bullmq.EventType
	detail           string
}

// record adds an event to the ledger and returns its row.
func (s *exchange) record(event bullmq.Event, begun time.Time) row {
	if event.Type == bullmq.EventAdded {
		s.names[event.JobID] = event.Name
	}
	if event.Type == bullmq.EventActive {
		s.starts[event.JobID]++
	}
	starts := s.starts[event.JobID]
	s.ledger.happened(event.Type, starts > 1)
	r := row{
		time: seconds(event.Time(), begun), queue: s.name, producer: s.producer,
		job: event.JobID, name: s.names[event.JobID], event: event.Type,
	}
	if starts > 0 {
		r.worker = s.worker
	}
	if event.JobID == "" {
		r.producer, r.worker = "", ""
	}
	r.detail = s.detail(event, starts, begun)
	return r
}

// detail describes the content of an event for display.
func (s *exchange) detail(event bullmq.Event, starts int, begun time.Time) string {
	switch event.Type {
	case bullmq.EventAdded:
		for _, job := range s.jobs {
			if job.name == event.Name {
				return job.note
			}
		}
	case bullmq.EventWaiting:
		if event.Prev == bullmq.StateDelayed {
			return "its delay is over"
		}
		if starts > 0 {
			return "retry after a failure"
		}
	case bullmq.EventDelayed:
		until := "until " + seconds(event.DelayedUntil, begun)
		if starts > 0 {
			return "failed, " + until
		}
		return until
	case bullmq.EventActive:
		if starts > 1 {
			return fmt.Sprintf("attempt %d", starts)
		}
	case bullmq.EventProgress:
		return string(event.Progress) + " %"
	case bullmq.EventCompleted:
		return "done by " + s.doneBy(event.ReturnValue)
	case bullmq.EventFailed:
		return event.FailedReason
	case bullmq.EventRetriesExhausted:
		return fmt.Sprintf("after %d attempts", event.AttemptsMade)
	case bullmq.EventDeduplicated:
		return "duplicate dropped"
	case bullmq.EventDrained:
		return "no jobs left"
	}
	return ""
}

// doneBy returns the worker's language from the handler's return value.
func (s *exchange) doneBy(value json.RawMessage) string {
	var returned struct{ By string }
	if err := json.Unmarshal(value, &returned); err != nil || returned.By != s.worker {
		s.ledger.wrong(fmt.Sprintf("a job should have run in %s but returned %s", s.worker, value))
	}
	return returned.By
}

func seconds(at, begun time.Time) string { return fmt.Sprintf("%.2f", at.Sub(begun).Seconds()) }
