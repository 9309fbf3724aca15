package batch

import (
	"testing"
	"testing/synctest"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/internal/testkit/suite"
)

// specs is the test that runs the specs.
var specs *testing.T

func TestBatch(t *testing.T) {
	specs = t
	RegisterFailHandler(Fail)
	suite.RunWhole(t, "batch")
}

// inBubble runs a spec in a bubble of package synctest. settle then waits until all
// goroutines of the spec are blocked, and time passes only when they are.
func inBubble(spec func()) func() {
	return func() {
		synctest.Test(specs, func(*testing.T) {
			defer GinkgoRecover()
			spec()
		})
	}
}

// settle waits until nothing more happens by itself.
func settle() { synctest.Wait() }
