package chaos

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/internal/testkit/faultproxy"
)

var _ = Describe("The way to Redis", func() {
	// through is a Redis that all reach through a proxy, but for those who look on.
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
	// sprung waits for a trap, but not for ever: nothing may come along.
	sprung := func(trap <-chan struct{}) {
		select {
		case <-trap:
		case <-time.After(time.Second):
		}
	}

	DescribeTable("that is bad loses no job and no lock", func(fault string, l load, cause func(*faultproxy.Proxy)) {
		onlyInFull()
		proxy, site := through()
		t := begin(fault, site, l)
		cause(proxy)
		Expect(proxy.Set(faultproxy.Faults{})).To(Succeed())
		t.over()
		account := t.settle(terms{nodeErrs: true})
		Expect(account.Refused).To(BeZero(), "adds that were not made")
	},
		// Where Go works alone no lock may be lost, nor be believed to be: all that was taken or written
		// without an answer is found again. Node sends again what had no answer, and so leaves jobs to the
		// check for stalled ones.
		bad("is slow: 20 ms each way", func(p *faultproxy.Proxy) {
			Expect(p.Set(faultproxy.Faults{Delay: 20 * time.Millisecond})).To(Succeed())
			time.Sleep(6 * time.Second)
		}),
		bad("trickles: 40 bytes a millisecond", func(p *faultproxy.Proxy) {
			Expect(p.Set(faultproxy.Faults{Trickle: 40})).To(Succeed())
			time.Sleep(6 * time.Second)
		}),
		bad("cuts all connections again and again", func(p *faultproxy.Proxy) {
			for6s(func() { p.CutAll(); time.Sleep(100 * time.Millisecond) })
		}),
		bad("cuts within replies", func(p *faultproxy.Proxy) {
			for6s(func() { sprung(p.CutAfter(700)); time.Sleep(20 * time.Millisecond) })
		}),
		bad("loses replies, and then the connection", func(p *faultproxy.Proxy) {
			for6s(func() { sprung(p.LoseReply("evalsha")); time.Sleep(20 * time.Millisecond) })
		}),
		bad("loses commands, and then the connection", func(p *faultproxy.Proxy) {
			for6s(func() { sprung(p.LoseCommand("evalsha")); time.Sleep(20 * time.Millisecond) })
		}),
		bad("swallows all replies for a while", func(p *faultproxy.Proxy) {
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
	both, alone := light(5*time.Second), light(5*time.Second)
	alone.nodeWorkers = 0
	return []TableEntry{
		Entry("for it "+fault, "the link "+fault, both, cause),
		Entry("for it "+fault+", with Go alone", "the link "+fault, alone, cause),
	}
}
