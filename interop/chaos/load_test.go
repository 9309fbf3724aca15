package chaos

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

var _ = Describe("A load of many jobs", func() {
	It("for workers of both libraries is completed without a loss and in constant memory", func() {
		onlyInFull()
		server, err := redisserver.Start(redisserver.Options{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(server.Close)
		site, ledger, begun := at(server), &Ledger{}, time.Now()
		admin, err := site.open()
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(admin.Close)
		ctx := within(10 * time.Minute)

		fleet := &Fleet{site: site, queue: "load", ledger: ledger, settings: Settings{Lock: 30 * time.Second, Stalled: 10 * time.Second, Concurrency: 50}}
		DeferCleanup(fleet.Kill)
		Expect(fleet.StartAll(ctx, 2, 1, "-usage")).To(Succeed())
		queue, err := bullmq.NewQueue(ctx, "load", &bullmq.QueueOptions{Connection: connect(site)})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(queue.Close)

		inNode, err := produceInNode(ctx, ledger, site, "load", 2*time.Millisecond)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(inNode.Kill)
		// Limit the producers so that at most a tenth of the jobs wait.
		var adding sync.WaitGroup
		var added atomic.Int64
		for range 2 {
			adding.Go(func() {
				defer GinkgoRecover()
				producer := &Producer{queues: []adder{queue}, ledger: ledger, bulk: 500, calls: ctx}
				for added.Add(500) <= int64(*jobs) {
					producer.add()
					for int(added.Load())-ledger.EndedSoFar() > max(*jobs/10, 20000) {
						time.Sleep(50 * time.Millisecond)
					}
				}
			})
		}
		adding.Wait()
		Expect(inNode.Stop(ctx)).To(Succeed())
		Expect(drained(ctx, queueKeys{admin, site.base("load")})).To(Succeed())
		took := time.Since(begun)
		members := fleet.Members(Go)
		Expect(fleet.Stop()).To(Succeed())

		account, err := ledger.Settle(ctx, queueKeys{admin, site.base("load")})
		Expect(err).NotTo(HaveOccurred())
		report.Add(Row{Fault: fmt.Sprintf("load: %d jobs, %.0f a second", account.Added, float64(account.Added)/took.Seconds()), Account: account, Took: took})
		Expect(account.Wrong).To(BeEmpty())
		Expect(account.Added).To(BeNumerically(">=", *jobs/500*500))
		Expect(account.Left + account.Refused + account.Doubtful + account.Stalls + account.Reruns[Go] + account.Reruns[Node]).To(BeZero())
		for _, m := range members {
			expectFlat(m)
		}
	})
})

// expectFlat checks that a worker uses no more memory and goroutines at the end than before.
func expectFlat(m *Member) {
	GinkgoHelper()
	usage := m.usageReports()
	Expect(len(usage)).To(BeNumerically(">", 20))
	quarter := len(usage) / 4
	middle := func(of []message, what func(message) float64) float64 {
		var all []float64
		for _, u := range of {
			all = append(all, what(u))
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	heap := func(u message) float64 { return u.HeapMiB }
	goroutines := func(u message) float64 { return float64(u.Goroutines) }
	early, late := usage[quarter:2*quarter], usage[3*quarter:]
	report.Note("    %s: heap %.1f MiB, later %.1f; goroutines %.0f, later %.0f", m.Name,
		middle(early, heap), middle(late, heap), middle(early, goroutines), middle(late, goroutines))
	Expect(middle(late, heap)).To(BeNumerically("<", 1.3*middle(early, heap)+4), "heap of %s in MiB", m.Name)
	Expect(middle(late, goroutines)).To(BeNumerically("<", middle(early, goroutines)+60), "goroutines of %s", m.Name)
}
