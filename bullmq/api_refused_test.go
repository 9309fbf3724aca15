package bullmq

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/internal/testkit/fakeredis"
)

var _ = Describe("A call that Redis refuses", func() {
	It("returns an error with Redis' reason and the queue's name, whichever call it is", func() {
		server, q, w, p, closeAll, err := onAnyServer()
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(closeAll)
		var unclear []string
		for _, c := range publicCalls {
			if !c.isPublic || slices.Contains([]string{"Queue.ConnectedWorkers", "Queue.ConnectedReaders", "Queue.Workers", "Queue.Ping"}, c.name) {
				continue // without CLIENT no client is listed, and an error is a valid reply to a ping
			}
			var refused []any
			for range 20 {
				refused = append(refused, fakeredis.Err("NOPERM this user has no permissions"))
			}
			server.Script(fakeredis.Encode(refused...))
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			err := c.call(ctx, q, w, p)
			cancel()
			if err == nil || !strings.Contains(err.Error(), "NOPERM") || !strings.Contains(err.Error(), "bull:fuzzed") {
				unclear = append(unclear, fmt.Sprint(c.name, ": ", err))
			}
		}
		Expect(unclear).To(BeEmpty())
	})
})
