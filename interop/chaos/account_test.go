package chaos

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

var _ = Describe("The account", func() {
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
	// stands puts a job where it would stand once its attempts are made.
	stands := func(id, place string, sequence, made int, more ...string) {
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
		account, err := ledger.Settle(soon(), admin, "q:")
		Expect(err).NotTo(HaveOccurred())
		return account
	}
	// ran enters a job of one attempt that was added, run and completed.
	ran := func() int {
		sequence := ledger.Offer(Go, 1, 0)
		ledger.Added(sequence)
		ledger.Started(sequence, 0, Go)
		ledger.Ended(sequence, false)
		return sequence
	}

	It("comes out where each job has ended as planned, once", func() {
		stands("1", "completed", ran(), 1)
		failing := ledger.Offer(Node, 2, 2)
		ledger.Added(failing)
		ledger.Started(failing, 0, Node)
		ledger.Started(failing, 1, Go)
		ledger.Ended(failing, true)
		stands("2", "failed", failing, 2)
		maybe := ledger.Offer(Go, 1, 0)
		ledger.Doubtful(maybe)
		ledger.Started(maybe, 0, Go)
		ledger.Ended(maybe, false)
		stands("3", "completed", maybe, 1)
		ledger.Doubtful(ledger.Offer(Go, 1, 0))
		ledger.Refused(ledger.Offer(Go, 1, 0))
		waits := ledger.Offer(Go, 1, 0)
		ledger.Added(waits)
		stands("4", "wait", waits, 0)
		account := settle()
		Expect(account).To(Equal(Account{Added: 3, Doubtful: 2, Arrived: 1, Refused: 1, Completed: 2, Failed: 1, Left: 1}))
		Expect(account.Balanced()).To(BeTrue())
	})

	DescribeTable("does not come out with", func(arrange func(), what string) {
		arrange()
		Expect(settle().Wrong).To(ContainElement(ContainSubstring(what)))
	},
		Entry("a job that is nowhere", func() { ran() }, "is lost"),
		Entry("a job that is there twice", func() {
			sequence := ran()
			stands("1", "completed", sequence, 1)
			stands("2", "wait", sequence, 0)
		}, "is there 2 times"),
		Entry("a job that is there though its add was refused", func() {
			sequence := ran()
			ledger.Refused(sequence)
			stands("1", "completed", sequence, 1)
		}, "was told that it was not added"),
		Entry("a job that nobody has offered", func() { stands("1", "completed", 5, 1) }, "in no ledger"),
		Entry("a line about a job that nobody has offered", func() { ledger.Ended(5, false) }, "nobody has added"),
		Entry("a run too many, and no lock that was lost", func() {
			sequence := ran()
			ledger.Started(sequence, 0, Go)
			stands("1", "completed", sequence, 1)
		}, "had lost its lock 0 times"),
		Entry("an end that was told twice", func() {
			sequence := ran()
			ledger.Ended(sequence, false)
			stands("1", "completed", sequence, 1)
		}, "was told 2 times"),
		Entry("a job that has failed and was not to", func() { stands("1", "failed", ran(), 1) }, "is in failed"),
		Entry("an attempt too many", func() { stands("1", "completed", ran(), 2) }, "has made 2 attempts"),
		Entry("a job that has ended and never begun", func() {
			sequence := ledger.Offer(Go, 1, 0)
			ledger.Added(sequence)
			stands("1", "completed", sequence, 1)
		}, "no handler was started"),
	)

	It("tells runs again that a lost lock explains from others, and on which side they began", func() {
		sequence := ran()
		ledger.Started(sequence, 0, Node)
		ledger.Started(sequence, 0, Go)
		stands("1", "completed", sequence, 1, "stc", "2")
		account := settle()
		Expect(account.Wrong).To(BeEmpty())
		Expect(account.Reruns).To(Equal([2]int{1, 1}))
		Expect(account.Stalls).To(Equal(2))
		Expect(ledger.Reruns()).To(HaveLen(2))
	})

	It("counts jobs apart whose end Node has spoilt", func() {
		stands("1", "failed", ran(), 1, "stacktrace", `["ReplyError: NOSCRIPT No matching script."]`)
		account := settle()
		Expect(account.Wrong).To(BeEmpty())
		Expect([]int{account.Spoilt, account.Failed}).To(Equal([]int{1, 1}))
	})
})
