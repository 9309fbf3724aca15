package parity

import (
	"fmt"
	"strings"
	"time"
)

// Result is the result of one scenario.
type Result struct {
	Scenario           Scenario
	Reference, Subject string // names of the endpoints
	Elapsed            time.Duration

	// Step is the number of the first step, counted from 1, after which the endpoints differed. It is 0 if
	// they were equal to the end or if the scenario did not start.
	Step        int
	Differences []Difference
	// Err is set if the scenario did not run to its end: a driver exited or hung, or Redis was unreachable.
	Err error
	// Notes lists deviations that do not count as differences, such as error texts.
	Notes []string
}

// Alike reports whether the endpoints were equal after every step.
func (r Result) Alike() bool { return r.Err == nil && len(r.Differences) == 0 }

// String returns one line for a scenario without differences, and otherwise a report of the step and the
// keys.
func (r Result) String() string {
	title := fmt.Sprintf("%s: %s", r.Scenario.File, r.Scenario.Name)
	if r.Alike() {
		return title + ": equal"
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

// Summary returns the line "N of M scenarios equal".
func Summary(results []Result) string {
	equal := 0
	for _, result := range results {
		if result.Alike() {
			equal++
		}
	}
	return fmt.Sprintf("%d of %d scenarios equal", equal, len(results))
}
