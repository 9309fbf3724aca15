package dashboard_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// figures tells whether the goals of docs/dashboard.md are asserted. Otherwise the machine has
// other work, and the bounds are looser.
var figures = os.Getenv("BULLMQ_FIGURES") != ""

// bound returns the goal, or what a machine with other work may need.
func bound[T any](goal, busy T) T {
	if figures {
		return goal
	}
	return busy
}

// cpu returns how long Redis has computed.
func (s *site) cpu() time.Duration {
	GinkgoHelper()
	var total float64
	for _, found := range regexp.MustCompile(`used_cpu_(?:sys|user):([\d.]+)`).FindAllStringSubmatch(s.redisText("INFO", "cpu"), -1) {
		n, err := strconv.ParseFloat(found[1], 64)
		Expect(err).NotTo(HaveOccurred())
		total += n
	}
	return time.Duration(total * float64(time.Second))
}

// share returns which part of one processor Redis uses during a function.
func (s *site) share(during func()) float64 {
	GinkgoHelper()
	begun, before := time.Now(), s.cpu()
	during()
	return float64(s.cpu()-before) / float64(time.Since(begun))
}

// manyQueues makes 500 queues.
func (s *site) manyQueues() {
	for i := range 500 {
		s.redisText("HSET", fmt.Sprintf("bull:team%d-queue-%d:meta", i/25, i), "version", "bullmq:6.7.0")
	}
}

var _ = Describe("The dashboard of 500 queues", Label("slow"), func() {
	ctx := context.Background()

	It("shows them, and a queue of many jobs, in few commands and without delay", func() {
		s := open(nil)
		s.manyQueues()
		s.queue("large")
		for from := 0; from < bound(1_000_000, 100_000); from += 50_000 {
			s.redisText("EVAL", `for i = ARGV[1] + 1, ARGV[1] + 50000 do
				redis.call('HSET', 'bull:large:' .. i, 'name', 'paint', 'data', '{"n":' .. i .. '}', 'opts', '{}', 'timestamp', 1700000000000 + i)
				redis.call('LPUSH', 'bull:large:wait', i)
			end
			redis.call('SET', 'bull:large:id', ARGV[1] + 50000)
			return 'done'`, "0", fmt.Sprint(from))
		}
		s.page("/") // the first one scans the keys
		for _, path := range []string{"/", "/?groups=open", "/queues/large?state=waiting", "/queues/large/metrics"} {
			best, before := time.Hour, s.commands()
			s.page(path)
			Expect(s.commands()-before).To(BeNumerically("<=", 300), path)
			for range 5 {
				begun := time.Now()
				s.page(path)
				best = min(best, time.Since(begun))
			}
			AddReportEntry(path, best)
			Expect(best).To(BeNumerically("<", bound(150*time.Millisecond, 3*time.Second)), path)
		}
	})

	It("costs Redis little while nobody looks, and with 20 viewers", func() {
		s := open(nil)
		s.manyQueues()
		orders := s.queue("orders")
		s.page("/")
		idle := s.share(func() { time.Sleep(2 * time.Second) })
		AddReportEntry("nobody looks", idle)
		Expect(idle).To(BeNumerically("<", bound(0.02, 0.05)))

		work := func() { // 50 jobs a second
			for begun := time.Now(); time.Since(begun) < 5*time.Second; time.Sleep(20 * time.Millisecond) {
				_, err := orders.Add(ctx, "paint", nil, nil)
				Expect(err).NotTo(HaveOccurred())
			}
		}
		alone := s.share(work)
		watching, stop := context.WithCancel(ctx)
		var viewers sync.WaitGroup
		for range 20 {
			changes, closeIt := s.stream("/live")
			viewers.Go(func() {
				defer closeIt()
				for {
					select {
					case <-changes:
						request, _ := http.NewRequestWithContext(watching, http.MethodGet, s.web.URL+"/", nil)
						asUpdate(request)
						if response, err := s.web.Client().Do(request); err == nil {
							_, _ = io.Copy(io.Discard, response.Body)
							_ = response.Body.Close()
						}
					case <-watching.Done():
						return
					}
				}
			})
		}
		time.Sleep(time.Second)
		before := s.calls("client|list")
		viewed := s.share(work)
		reads := s.calls("client|list") - before
		stop()
		viewers.Wait()
		AddReportEntry("20 viewers", fmt.Sprintf("%.4f more than %.4f, %d reads", viewed-alone, alone, reads))
		Expect(reads).To(BeNumerically("~", 5, 3))
		Expect(viewed - alone).To(BeNumerically("<", bound(0.05, 0.20)))
	})
})
