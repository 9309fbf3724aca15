package contender

import (
	"time"
)

// Measured is a program's report of the measured work.
type Measured struct {
	Seconds    float64 `json:"seconds"`
	CPUSeconds float64 `json:"cpuSeconds"` // of this process, user and system
}

// measure does the work when the benchmark sends a line, reports its cost, and waits for the end of the
// input, so that the benchmark can inspect the process before it exits.
func measure(work func() error) error {
	l := openLines()
	l.ready()
	var start struct{}
	if more, err := l.next(&start); !more {
		return err
	}
	cpu, begun := CPUSeconds(), time.Now()
	if err := work(); err != nil {
		return err
	}
	l.send(Measured{Seconds: time.Since(begun).Seconds(), CPUSeconds: CPUSeconds() - cpu})
	_, err := l.next(&start)
	return err
}
