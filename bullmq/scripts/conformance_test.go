package scripts

import (
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backendtest"
)

// conforming returns a new queue for the conformance suite.
func conforming(client rueidis.Client, dialect Dialect) backendtest.Queue {
	f := newFixture(client)
	f.Dialect = dialect
	prefix, name, _ := strings.Cut(shown(f.base), ":")
	return backendtest.Queue{Store: f.Store, Prefix: prefix, Name: name, Elapse: time.Sleep}
}

var _ = ginkgo.Describe("The store in Redis", func() {
	ginkgo.Context("in the dialect of BullMQ 6", func() {
		backendtest.Exercise(func() backendtest.Queue { return conforming(client, V6) })
	})

	ginkgo.Context("in the dialect of BullMQ 5", func() {
		backendtest.Exercise(func() backendtest.Queue { return conforming(client, V5) })
	})

	ginkgo.Context("on an in-process Redis", func() {
		backendtest.Exercise(func() backendtest.Queue {
			server := miniredis.RunT(ginkgo.GinkgoT())
			inProcess, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true, ForceSingleClient: true})
			Expect(err).NotTo(HaveOccurred())
			ginkgo.DeferCleanup(inProcess.Close)
			q := conforming(inProcess, V6)
			q.Elapse = server.FastForward
			return q
		})
	})
})
