package chaos

import (
	"context"
	"flag"
	"os"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/internal/testkit/suite"
)

// full selects all faults at full length, as make chaos does. Without it a few short ones run.
var full = flag.Bool("full", false, "run all faults, at full length")

// jobs and delayed set the load. Larger numbers do not fit into the time of make chaos.
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
	suite.RunWhole(t, "Nothing lost")
}

var report = NewTable(os.Stdout)

// inShortFormIf skips a spec in the short form unless short is set.
func inShortFormIf(short bool) {
	if !*full && !short {
		Skip("part of the full form: make chaos")
	}
}

func onlyInFull() { inShortFormIf(false) }

// within returns a context that ends with the spec or after limit.
func within(limit time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	DeferCleanup(cancel)
	return ctx
}

// soon returns a context for calls that should return at once.
func soon() context.Context { return within(20 * time.Second) }
