package browsertest

import (
	"os"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/internal/testkit/suite"
)

func TestBrowser(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(20 * time.Second)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	suite.RunWhole(t, "dashboard in a browser")
}

var (
	browser *chromium // of the suite
	shop    *world    // of the specs that change nothing
)

var _ = BeforeSuite(func() {
	if os.Getenv("BULLMQ_BROWSER") == "" {
		Skip("make browser runs this")
	}
	browser = startChromium()
	shop = openWorld(nil)
	shop.fill()
})
