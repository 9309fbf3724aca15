package batch

import (
	"testing"
	"testing/synctest"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// suite is the test that runs the specs.
var suite *testing.T

func TestBatch(t *testing.T) {
	suite = t
	RegisterFailHandler(Fail)
	RunSpecs(t, "batch")
}

// inBubble runs a spec in a bubble of package synctest. settle then waits until all
// goroutines of the spec are blocked, and time passes only when they are.
func inBubble(spec func()) func() {
	return func() {
		synctest.Test(suite, func(*testing.T) {
			defer GinkgoRecover()
			spec()
		})
	}
}

// settle waits until nothing more happens by itself.
func settle() { synctest.Wait() }
