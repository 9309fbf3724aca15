package contender

import (
	"time"
)

// Measured is what a program says of the work that was measured.
type Measured struct {
	Seconds    float64 `json:"seconds"`
	CPUSeconds float64 `json:"cpuSeconds"` // of this process, user and system
}

// measure does the work when the benchmark says so, tells what it took, and
// waits for the end of the input, so that the benchmark can look at the
// process before it ends.
func measure(work func() error) error {
	l := openLines()
	l.ready()
	var start struct{}
	if more, err := l.next(&start); !more {
		return err
	}
	cpu, begun := cpuSeconds(), time.Now()
	if err := work(); err != nil {
		return err
	}
	l.say(Measured{Seconds: time.Since(begun).Seconds(), CPUSeconds: cpuSeconds() - cpu})
	_, err := l.next(&start)
	return err
}
