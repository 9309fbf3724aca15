package chaos

import (
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("Redis that is unavailable", func() {
	// The locks outlast the outage, so nothing may run twice.
	DescribeTable("and returns with its data loses no job", func(away time.Duration, nodeWorkers int, short bool) {
		inShortFormIf(short)
		// Node's connections may need another 10 s to recover after a long outage.
		l := on(nodeWorkers, lightLoad(away+max(5*time.Second, away/2)))
		server := startServer()
		t := begin(fmt.Sprintf("Redis is stopped for %v", away), at(server), l)
		watched := t.watch()
		server.Stop()
		time.Sleep(away)
		watched.expectCalm()
		Expect(server.Start()).To(Succeed())
		t.faultEnded()
		watched.waitForReports()
		t.settle(tolerance{nodeErrs: true})
		watched.expectReported()
	},
		Entry("for 1 s", time.Second, 2, true),
		Entry("for 1 s, with Go only", time.Second, 0, false),
		Entry("for 10 s", 10*time.Second, 2, false),
		Entry("for 30 s", 30*time.Second, 2, false),
	)

	It("for longer than the locks last makes jobs run again and loses none", func() {
		onlyInFull()
		server := startServer()
		t := begin("Redis is stopped for 4 s, with locks of 1 s", at(server), lightLoad(time.Second))
		server.Stop()
		time.Sleep(4 * time.Second)
		Expect(server.Start()).To(Succeed())
		t.faultEnded()
		t.settle(tolerance{reruns: true})
	})

	It("repeatedly, by being killed, loses no job", func() {
		onlyInFull()
		server := startServer()
		t := begin("Redis is killed and restarted 10 times", at(server), lightLoad(8*time.Second))
		for range 10 {
			server.Kill()
			time.Sleep(200 * time.Millisecond)
			Expect(server.Start()).To(Succeed())
			time.Sleep(400 * time.Millisecond)
		}
		t.faultEnded()
		t.settle(tolerance{nodeErrs: true})
	})

	It("because it hangs with open connections loses no job", func() {
		onlyInFull()
		server := startServer()
		t := begin("Redis hangs for 5 s", at(server), lightLoad(10*time.Second))
		Expect(server.Freeze()).To(Succeed())
		time.Sleep(5 * time.Second)
		Expect(server.Thaw()).To(Succeed())
		t.faultEnded()
		t.settle(tolerance{})
	})
})
