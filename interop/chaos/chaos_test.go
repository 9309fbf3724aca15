package chaos

import (
	"context"
	"flag"
	"os"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// full asks for all faults at full length, as make chaos does; without it a few
// short ones are run.
var full = flag.Bool("full", false, "run all faults, at full length")

// jobs is how many the load has: in the time of make chaos no more is possible,
// 2,000,000 take about five times as long.
var (
	jobs    = flag.Int("jobs", 400_000, "jobs of the load")
	delayed = flag.Int("delayed", 200_000, "delayed jobs that are due in the same second")
)

func TestMain(m *testing.M) {
	MaybeWork()
	os.Exit(m.Run())
}

func TestChaos(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(30 * time.Second)
	SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	RunSpecs(t, "Nothing lost")
}

var report = NewTable(os.Stdout)

// inShortFormIf leaves a spec out of the short form unless it is of it.
func inShortFormIf(short bool) {
	if !*full && !short {
		Skip("part of the full form: make chaos")
	}
}

func onlyInFull() { inShortFormIf(false) }

// within ends with the spec, and after a time at the latest.
func within(limit time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	DeferCleanup(cancel)
	return ctx
}

// soon is the context of calls that take no time.
func soon() context.Context { return within(20 * time.Second) }
