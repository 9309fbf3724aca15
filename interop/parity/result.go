package parity

import (
	"fmt"
	"strings"
	"time"
)

// Result is how one scenario went.
type Result struct {
	Scenario           Scenario
	Reference, Subject string // the sides' names
	Elapsed            time.Duration

	// Step is the number of the step, counted from 1, after which the sides weren't alike; 0 when they
	// were alike to the end, or when the scenario couldn't be begun.
	Step        int
	Differences []Difference
	// Err says why the scenario couldn't be run to its end: a driver that ended or hung, a Redis out of
	// reach.
	Err error
	// Notes are worth reading but make no difference: errors that are worded differently.
	Notes []string
}

// Alike reports whether the sides agreed in every step.
func (r Result) Alike() bool { return r.Err == nil && len(r.Differences) == 0 }

// String is one line for a scenario that is alike, else a report of the step, the keys and both sides.
func (r Result) String() string {
	title := fmt.Sprintf("%s: %s", r.Scenario.File, r.Scenario.Name)
	if r.Alike() {
		return title + ": alike"
	}
	var report strings.Builder
	report.WriteString(title)
	if r.Step > 0 {
		fmt.Fprintf(&report, "\nstep %d of %d: %s", r.Step, len(r.Scenario.Steps), shorten(r.Scenario.Steps[r.Step-1].String()))
	}
	if r.Err != nil {
		fmt.Fprintf(&report, "\n%v", r.Err)
	}
	for _, difference := range r.Differences {
		report.WriteString("\n" + difference.format(r.Reference, r.Subject))
	}
	return strings.ReplaceAll(report.String(), "\n", "\n  ")
}

// Summary is the line "N of M scenarios alike".
func Summary(results []Result) string {
	alike := 0
	for _, result := range results {
		if result.Alike() {
			alike++
		}
	}
	return fmt.Sprintf("%d of %d scenarios alike", alike, len(results))
}
