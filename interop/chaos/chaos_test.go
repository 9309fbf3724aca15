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

// onlyInFull leaves a spec out of the short form.
func onlyInFull() {
	if !*full {
		Skip("part of the full form: make chaos")
	}
}

// within ends with the spec, and after a time at the latest.
func within(limit time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	DeferCleanup(cancel)
	return ctx
}
