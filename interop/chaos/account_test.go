package chaos

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

var _ = Describe("An account", func() {
	var (
		admin  rueidis.Client
		ledger *Ledger
	)
	BeforeEach(func() {
		server, err := redisserver.Start(redisserver.Options{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(server.Close)
		admin, err = at(server).open()
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(admin.Close)
		ledger = &Ledger{}
	})
	// store stores a job in the given place after its attempts.
	store := func(id, place string, sequence, made int, more ...string) {
		GinkgoHelper()
		put := []string{"ZADD", "q:" + place, "1", id}
		if place == "wait" || place == "active" {
			put = []string{"LPUSH", "q:" + place, id}
		}
		ctx := soon()
		Expect(ask(ctx, admin, put...)).To(Succeed())
		fields := append([]string{"HSET", "q:" + id, "data", fmt.Sprintf(`{"sequence":%d}`, sequence), "atm", fmt.Sprint(made)}, more...)
		Expect(ask(ctx, admin, fields...)).To(Succeed())
	}
	settle := func() Account {
		GinkgoHelper()
		account, err := ledger.Settle(soon(), queueKeys{admin, "q:"})
		Expect(err).NotTo(HaveOccurred())
		return account
	}
	// ran records a job with one attempt that was added, run and completed.
	ran := func() int {
		sequence := ledger.Offer(Go, 1, 0)
		ledger.Added(sequence)
		ledger.Started(sequence, 0, 1, Go)
		ledger.Ended(sequence, false)
		return sequence
	}

	It("balances if each job has finished as planned exactly once", func() {
		store("1", "completed", ran(), 1)
		failing := ledger.Offer(Node, 2, 2)
		ledger.Added(failing)
		ledger.Started(failing, 0, 1, Node)
		ledger.Started(failing, 1, 1, Go)
		ledger.Ended(failing, true)
		store("2", "failed", failing, 2)
		maybe := ledger.Offer(Go, 1, 0)
		ledger.Doubtful(maybe)
		ledger.Started(maybe, 0, 1, Go)
		ledger.Ended(maybe, false)
		store("3", "completed", maybe, 1)
		ledger.Doubtful(ledger.Offer(Go, 1, 0))
		ledger.Refused(ledger.Offer(Go, 1, 0))
		waits := ledger.Offer(Go, 1, 0)
		ledger.Added(waits)
		store("4", "wait", waits, 0)
		account := settle()
		Expect(account).To(Equal(Account{Added: 3, Doubtful: 2, Arrived: 1, Refused: 1, Completed: 2, Failed: 1, Left: 1}))
		Expect(account.Balanced()).To(BeTrue())
	})

	DescribeTable("does not balance with", func(arrange func(), what string) {
		arrange()
		Expect(settle().Wrong).To(ContainElement(ContainSubstring(what)))
	},
		Entry("a missing job", func() { ran() }, "is lost"),
		Entry("a duplicate job", func() {
			sequence := ran()
			store("1", "completed", sequence, 1)
			store("2", "wait", sequence, 0)
		}, "exists 2 times"),
		Entry("a job whose add was refused", func() {
			sequence := ran()
			ledger.Refused(sequence)
			store("1", "completed", sequence, 1)
		}, "was refused"),
		Entry("a job that nobody added", func() { store("1", "completed", 5, 1) }, "not in the ledger"),
		Entry("a reported end of a job that nobody added", func() { ledger.Ended(5, false) }, "that nobody added"),
		Entry("an additional run without a lost lock", func() {
			sequence := ran()
			ledger.Started(sequence, 0, 1, Go)
			store("1", "completed", sequence, 1)
		}, "lost its lock 0 times"),
		Entry("an end that was reported twice", func() {
			sequence := ran()
			ledger.Ended(sequence, false)
			store("1", "completed", sequence, 1)
		}, "was reported 2 times"),
		Entry("a job that failed unexpectedly", func() { store("1", "failed", ran(), 1) }, "is in failed"),
		Entry("an additional attempt", func() { store("1", "completed", ran(), 2) }, "has made 2 attempts"),
		Entry("a job that finished without a start", func() {
			sequence := ledger.Offer(Go, 1, 0)
			ledger.Added(sequence)
			store("1", "completed", sequence, 1)
		}, "no handler was started"),
	)

	It("separates reruns explained by a lost lock, and by the library of the first start", func() {
		sequence := ran()
		ledger.Started(sequence, 0, 1, Node)
		ledger.Started(sequence, 0, 1, Go)
		store("1", "completed", sequence, 1, "stc", "2")
		account := settle()
		Expect(account.Wrong).To(BeEmpty())
		Expect(account.Reruns).To(Equal([2]int{1, 1}))
		Expect(account.Stalls).To(Equal(2))
		Expect(ledger.Reruns()).To(HaveLen(2))
	})

	It("counts a late start of a job that was fetched again in the meantime for the library that starts late", func() {
		sequence := ledger.Offer(Go, 1, 0)
		ledger.Added(sequence)
		ledger.Started(sequence, 0, 2, Go)
		ledger.Started(sequence, 0, 1, Node)
		ledger.Ended(sequence, false)
		store("1", "completed", sequence, 1, "stc", "1")
		Expect(settle().Reruns).To(Equal([2]int{Go: 0, Node: 1}))
	})

	It("counts the jobs that Node failed by mistake separately", func() {
		store("1", "failed", ran(), 1, "stacktrace", `["ReplyError: NOSCRIPT No matching script."]`)
		account := settle()
		Expect(account.Wrong).To(BeEmpty())
		Expect([]int{account.Misfailed, account.Failed}).To(Equal([]int{1, 1}))
	})
})
