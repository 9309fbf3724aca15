package contender

import (
	"context"
	"time"
)

// The messages of a worker and a producer whose latency is measured. Times are milliseconds since 1970, with
// fractions, by the clock of the sender. The reply to a message with clock is a Reading, sent at once, so that the
// benchmark can determine the difference between the clocks.
type (
	// Instruction is sent by the benchmark. A producer adds a job for each delay (milliseconds, 0 for none)
	// with the given time between them, and reports each.
	Instruction struct {
		Clock *int  `json:"clock,omitempty"`
		Add   []int `json:"add,omitempty"`
		Every int   `json:"every,omitempty"`
	}
	// Reading is the time of the program's clock.
	Reading struct {
		Clock int     `json:"clock"`
		At    float64 `json:"at"`
	}
	// Started is sent by a worker when the handler of the job starts.
	Started struct {
		ID string  `json:"id"`
		At float64 `json:"at"`
	}
	// Added is sent by a producer. It contains the times at which Add was called and returned and at which
	// the job is due.
	Added struct {
		ID       string  `json:"id"`
		Begun    float64 `json:"begun"`
		Returned float64 `json:"returned"`
		Due      float64 `json:"due"`
	}
)

// Millis returns a time in the format of the messages.
func Millis(t time.Time) float64 { return float64(t.UnixNano()) / 1e6 }

func nowMs() float64 { return Millis(time.Now()) }

// serveWorker runs a worker with concurrency 1 that reports when each job starts.
func serveWorker(library Library, p Part) error {
	l := openLines()
	consumer, err := library.Consumer(p.Redis, Queue, 1, func(id string) { l.send(Started{id, nowMs()}) })
	if err != nil {
		return err
	}
	if err := consumer.Start(); err != nil {
		return err
	}
	l.ready()
	if err := l.eachInstruction(func(Instruction) error { return nil }); err != nil {
		return err
	}
	return consumer.Stop()
}

// serveProducer adds jobs as instructed and reports them after the last one.
func serveProducer(library Library, p Part) error {
	l := openLines()
	producer, err := library.Producer(p.Redis, Queue)
	if err != nil {
		return err
	}
	defer producer.Close()
	l.ready()
	return l.eachInstruction(func(in Instruction) error {
		added := make([]Added, 0, len(in.Add))
		for _, ms := range in.Add {
			begun := nowMs()
			id, due, err := producer.Add(context.Background(), time.Duration(ms)*time.Millisecond)
			if err != nil {
				return err
			}
			added = append(added, Added{id, begun, nowMs(), Millis(due)})
			time.Sleep(time.Duration(in.Every) * time.Millisecond)
		}
		for _, line := range added {
			l.send(line)
		}
		return nil
	})
}

func (l *lines) eachInstruction(carryOut func(Instruction) error) error {
	for {
		var in Instruction
		if more, err := l.next(&in); !more {
			return err
		}
		if in.Clock != nil {
			l.send(Reading{*in.Clock, nowMs()})
		} else if err := carryOut(in); err != nil {
			return err
		}
	}
}
