package chaos

import (
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("Redis that is away", func() {
	// The locks outlast the outage, so nothing may run twice.
	DescribeTable("and comes back with its data loses nothing", func(away time.Duration, nodeWorkers int, short bool) {
		inShortFormIf(short)
		// Node's connections may take another 10 s to come back after a long outage.
		l := on(nodeWorkers, light(away+max(2*time.Second, away/2)))
		server := startServer()
		t := begin(fmt.Sprintf("Redis is stopped for %v", away), at(server), l)
		watched := t.watch()
		server.Stop()
		time.Sleep(away)
		watched.expectCalm()
		Expect(server.Start()).To(Succeed())
		t.over()
		t.settle(terms{nodeErrs: true})
		watched.expectTold()
	},
		Entry("for 1 s", time.Second, 2, true),
		Entry("for 1 s, with Go alone", time.Second, 0, false),
		Entry("for 10 s", 10*time.Second, 2, false),
		Entry("for 30 s", 30*time.Second, 2, false),
	)

	It("for longer than the locks has jobs run again, and none lost", func() {
		onlyInFull()
		server := startServer()
		t := begin("Redis is stopped for 4 s, the locks last 1 s", at(server), light(time.Second))
		server.Stop()
		time.Sleep(4 * time.Second)
		Expect(server.Start()).To(Succeed())
		t.over()
		t.settle(terms{reruns: true})
	})

	It("again and again, killed rather than stopped, loses nothing", func() {
		onlyInFull()
		server := startServer()
		t := begin("Redis is killed and started 10 times", at(server), light(8*time.Second))
		for range 10 {
			server.Kill()
			time.Sleep(200 * time.Millisecond)
			Expect(server.Start()).To(Succeed())
			time.Sleep(400 * time.Millisecond)
		}
		t.over()
		t.settle(terms{nodeErrs: true})
	})

	It("and hangs, its connections open, loses nothing", func() {
		onlyInFull()
		server := startServer()
		t := begin("Redis hangs for 5 s", at(server), light(10*time.Second))
		Expect(server.Freeze()).To(Succeed())
		time.Sleep(5 * time.Second)
		Expect(server.Thaw()).To(Succeed())
		t.over()
		t.settle(terms{})
	})
})
