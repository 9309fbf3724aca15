package dashboard_test

import (
	"context"
	"errors"
	"net/http"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/dashboard"
)

var _ = Describe("The page of the server", func() {
	ctx := context.Background()

	It("shows version, memory, policy, latency and clock, and the jobs of each queue that the reader may see", func() {
		s := open(&dashboard.Options{Access: func(_ *http.Request, use dashboard.Use) error {
			if use.Queue == "secret" {
				return errors.New("no")
			}
			return nil
		}})
		s.queue("secret")
		orders := s.queue("orders")
		for range 3 {
			_, err := orders.Add(ctx, "paint", nil, &bullmq.JobOptions{Delay: time.Hour})
			Expect(err).NotTo(HaveOccurred())
		}
		s.node("6").do("add", map[string]any{"queue": "mails", "name": "send"})
		page := s.page("/server")
		Expect(page).To(And(
			MatchRegexp(`(Redis|Valkey) \d+\.\d+`), ContainSubstring("<dt>Policy</dt><dd>noeviction</dd>"), MatchRegexp(`<dt>Latency</dt><dd>\d+\.\d ms</dd>`),
			ContainSubstring("<dt>Clock</dt>"), ContainSubstring("no limit"), MatchRegexp(`(?s)orders</a>.*mails</a>`), MatchRegexp(`all queues</th><td></td><td class="number">4<`)))
		Expect(page).NotTo(ContainSubstring("secret"))
		Expect(page).NotTo(ContainSubstring("notice warn"))
	})

	It("warns of a policy that evicts jobs, and of full memory", func() {
		s := open(nil)
		s.redisText("CONFIG", "SET", "maxmemory", "1000000")
		s.redisText("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
		page := s.page("/server")
		Expect(page).To(ContainSubstring("maxmemory-policy is allkeys-lru."))
		Expect(page).To(MatchRegexp(`\d+ % of maxmemory are used`))
	})
})
