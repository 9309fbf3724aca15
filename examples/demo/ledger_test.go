package main

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("The demo's ledger", func() {
	// One job completes, one fails after a retry, and one is deduplicated.
	var l *ledger
	held := map[bullmq.State]int{bullmq.StateCompleted: 1, bullmq.StateFailed: 1, bullmq.StateWaiting: 0}

	BeforeEach(func() {
		l = newLedger([]jobSpec{{name: "a"}, {name: "b", retries: 1, fails: true}, {name: "c", dropped: true}})
		for _, id := range []string{"1", "2", "1"} {
			l.produced(id)
		}
		for _, event := range []bullmq.EventType{"added", "active", "completed", "added", "active"} {
			l.happened(event, false)
		}
		l.happened(bullmq.EventActive, true)
		l.worked("completed", true)
		l.worked("failed", false)
		l.worked("failed", true)
	})

	It("finds no fault if all accounts are as expected", func() {
		Expect(l.done()).To(BeFalse())
		l.happened(bullmq.EventFailed, true)
		Expect(l.done()).To(BeTrue())
		Expect(l.faults("q", held)).To(BeEmpty())
	})

	It("names the source of a different count", func() {
		Expect(l.faults("q", held)).To(ConsistOf("q: the events: 0 failed, not 1"))
	})

	It("detects a job that ran twice", func() {
		l.happened(bullmq.EventFailed, true)
		l.happened(bullmq.EventActive, true)
		l.worked("completed", true)
		Expect(l.faults("q", held)).To(ConsistOf("q: the worker: 2 completed, not 1", "q: the events: 2 retried, not 1"))
	})

	It("detects a job that is still in Redis", func() {
		l.happened(bullmq.EventFailed, true)
		Expect(l.faults("q", map[bullmq.State]int{bullmq.StateCompleted: 1, bullmq.StateFailed: 1, bullmq.StateActive: 1})).
			To(ConsistOf("q: Redis: 1 active, not 0"))
	})

	It("reports any other error as a fault", func() {
		l.happened(bullmq.EventFailed, true)
		l.wrong("the Node worker is gone")
		Expect(l.faults("q", held)).To(ConsistOf("q: the Node worker is gone"))
	})
})
