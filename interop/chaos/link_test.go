package chaos

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/internal/testkit/faultproxy"
)

var _ = Describe("A connection to Redis", func() {
	// through starts a Redis that producers and workers reach through a proxy. The account is read directly.
	through := func() (*faultproxy.Proxy, Site) {
		GinkgoHelper()
		server := startServer()
		proxy, err := faultproxy.Start(server.Addr())
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(proxy.Close)
		return proxy, Site{Address: proxy.Addr(), Prefix: "bull", Admin: server.Addr()}
	}
	for6s := func(each func()) {
		for end := time.Now().Add(6 * time.Second); time.Now().Before(end); {
			each()
		}
	}
	// waitForTrap waits for a trap, with a time limit because no command may match.
	waitForTrap := func(trap <-chan struct{}) {
		select {
		case <-trap:
		case <-time.After(time.Second):
		}
	}

	DescribeTable("that is faulty loses no job and no lock", func(fault string, l load, cause func(*faultproxy.Proxy)) {
		onlyInFull()
		proxy, site := through()
		t := begin(fault, site, l)
		cause(proxy)
		Expect(proxy.Set(faultproxy.Faults{})).To(Succeed())
		t.faultEnded()
		account := t.settle(tolerance{nodeErrs: true})
		Expect(account.Refused).To(BeZero(), "refused adds")
	},
		// With Go only, no lock may be lost or reported as lost: the SDK resolves fetches and finishes whose
		// reply was lost. Node resends them, which leaves jobs to the stalled check.
		bad("is slow: 20 ms each way", func(p *faultproxy.Proxy) {
			Expect(p.Set(faultproxy.Faults{Delay: 20 * time.Millisecond})).To(Succeed())
			time.Sleep(6 * time.Second)
		}),
		bad("trickles: 40 bytes a millisecond", func(p *faultproxy.Proxy) {
			Expect(p.Set(faultproxy.Faults{Trickle: 40})).To(Succeed())
			time.Sleep(6 * time.Second)
		}),
		bad("is cut repeatedly", func(p *faultproxy.Proxy) {
			for6s(func() { p.CutAll(); time.Sleep(100 * time.Millisecond) })
		}),
		bad("is cut within replies", func(p *faultproxy.Proxy) {
			for6s(func() { waitForTrap(p.CutAfter(700)); time.Sleep(20 * time.Millisecond) })
		}),
		bad("loses a reply and is cut", func(p *faultproxy.Proxy) {
			for6s(func() { waitForTrap(p.LoseReply("evalsha")); time.Sleep(20 * time.Millisecond) })
		}),
		bad("loses a command and is cut", func(p *faultproxy.Proxy) {
			for6s(func() { waitForTrap(p.LoseCommand("evalsha")); time.Sleep(20 * time.Millisecond) })
		}),
		bad("drops all replies for a while", func(p *faultproxy.Proxy) {
			for6s(func() {
				Expect(p.Set(faultproxy.Faults{SwallowReplies: true})).To(Succeed())
				time.Sleep(400 * time.Millisecond)
				Expect(p.Set(faultproxy.Faults{})).To(Succeed())
				time.Sleep(400 * time.Millisecond)
			})
		}),
		bad("is a black hole for 3 s", func(p *faultproxy.Proxy) {
			Expect(p.Set(faultproxy.Faults{BlackHole: true})).To(Succeed())
			time.Sleep(3 * time.Second)
		}),
	)
})

// bad are the entries of a fault of the link: for Go and Node, and for Go alone.
func bad(fault string, cause func(*faultproxy.Proxy)) []TableEntry {
	both, alone := lightLoad(5*time.Second), lightLoad(5*time.Second)
	alone.nodeWorkers = 0
	return []TableEntry{
		Entry("if it "+fault, "the link "+fault, both, cause),
		Entry("if it "+fault+", with Go only", "the link "+fault, alone, cause),
	}
}
