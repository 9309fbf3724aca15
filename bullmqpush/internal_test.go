package bullmqpush

import (
	"context"
	"net"
	"net/netip"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// ResolveBy makes a client look up names by a resolver.
func (c *Client) ResolveBy(r *net.Resolver) { c.dialer.Resolver = r }

var _ = DescribeTable("The guard of addresses", func(text string, public bool) {
	Expect(addressGuard(nil).allows(netip.MustParseAddr(text))).To(Equal(public))
	Expect(addressGuard(prefixes("0.0.0.0/0", "::/0")).allows(netip.MustParseAddr(text))).To(BeTrue())
},
	Entry("allows a public address", "8.8.8.8", true),
	Entry("allows the one after a private network", "172.32.0.1", true),
	Entry("allows a public address of IPv6", "2606:4700:4700::1111", true),
	Entry("allows a public address in IPv6", "::ffff:8.8.8.8", true),
	Entry("allows NAT64 of a public address", "64:ff9b::8.8.8.8", true),
	Entry("refuses 0.0.0.0", "0.0.0.0", false),
	Entry("refuses 10.0.0.0/8", "10.1.2.3", false),
	Entry("refuses 172.16.0.0/12", "172.31.255.255", false),
	Entry("refuses 192.168.0.0/16", "192.168.0.1", false),
	Entry("refuses addresses of carriers", "100.64.0.1", false),
	Entry("refuses the metadata of clouds", "169.254.169.254", false),
	Entry("refuses the platform of Azure", "168.63.129.16", false),
	Entry("allows the one after it", "168.63.129.17", true),
	Entry("refuses the metadata of clouds in IPv6", "fd00:ec2::254", false),
	Entry("refuses loopback", "127.8.8.8", false),
	Entry("refuses multicast", "224.0.0.1", false),
	Entry("refuses broadcast", "255.255.255.255", false),
	Entry("refuses benchmarks", "198.19.0.1", false),
	Entry("refuses examples", "203.0.113.7", false),
	Entry("refuses loopback of IPv6", "::1", false),
	Entry("refuses no address of IPv6", "::", false),
	Entry("refuses a private address in IPv6", "::ffff:10.0.0.1", false),
	Entry("refuses an old form of a private address", "::10.0.0.1", false),
	Entry("refuses NAT64 of a private address", "64:ff9b::10.0.0.1", false),
	Entry("refuses local NAT64", "64:ff9b:1::10.0.0.1", false),
	Entry("refuses 6to4 of a private address", "2002:a00:1::", false),
	Entry("refuses Teredo", "2001:0:808:808::", false),
	Entry("refuses local addresses with a zone", "fe80::1%eth0", false),
	Entry("refuses unique local addresses", "fc00::1", false),
	Entry("refuses site-local addresses", "fec0::1", false),
	Entry("refuses multicast of IPv6", "ff02::1", false),
	Entry("refuses examples of IPv6", "2001:db8::1", false),
)

var _ = Describe("The memory for hosts", func() {
	It("holds no host that is healthy and unused", func() {
		h := newHosts(2, 3, time.Second)
		v, _, err := h.enter(context.Background(), "a:443")
		Expect(err).NotTo(HaveOccurred())
		Expect(h.byName).To(HaveLen(1))
		v.end(healthy, 0)
		Expect(h.byName).To(BeEmpty())
	})

	It("forgets failing hosts when there are many, except paused ones", func() {
		h := newHosts(0, 2, time.Hour)
		name := func(n int) string { return string(rune('a' + n)) }
		for range 2 {
			v, _, _ := h.enter(context.Background(), "paused:443")
			v.end(failing, 0)
		}
		for n := range 3 * manyHosts {
			v, wait, err := h.enter(context.Background(), name(n))
			Expect(err).NotTo(HaveOccurred())
			Expect(wait).To(BeZero())
			v.end(failing, 0)
			Expect(len(h.byName)).To(BeNumerically("<=", manyHosts))
		}
		_, wait, _ := h.enter(context.Background(), "paused:443")
		Expect(wait).To(BeNumerically(">", 59*time.Minute))
	})

	It("lets an answer to an earlier request not end a pause", func() {
		h := newHosts(0, 2, time.Hour)
		early, _, _ := h.enter(context.Background(), "a:443")
		busy, _, _ := h.enter(context.Background(), "a:443")
		busy.end(overloaded, time.Minute)
		early.end(healthy, 0)
		v, wait, _ := h.enter(context.Background(), "a:443")
		Expect(v).To(BeNil())
		Expect(wait).To(BeNumerically(">", 59*time.Second))
	})

	It("lets another job probe a host if the first probe is cancelled", func() {
		h := newHosts(0, 2, time.Hour)
		v, _, _ := h.enter(context.Background(), "a:443")
		v.end(overloaded, -time.Second)
		h.byName["a:443"] = &host{until: time.Now().Add(-time.Second)}
		probe, _, _ := h.enter(context.Background(), "a:443")
		Expect(probe.probe).To(BeTrue())
		_, wait, _ := h.enter(context.Background(), "a:443")
		Expect(wait).To(BeNumerically("~", otherProbe, otherProbe/5))
		probe.end(unknown, 0)
		probe, _, _ = h.enter(context.Background(), "a:443")
		Expect(probe.probe).To(BeTrue())
	})
})

var _ = DescribeTable("A Retry-After", func(text string, wait time.Duration, ok bool) {
	now := time.Date(2026, 11, 30, 1, 0, 0, 0, time.UTC)
	got, valid := retryAfter(text, now, time.Hour)
	Expect(valid).To(Equal(ok))
	if ok {
		Expect(got).To(Equal(wait))
	}
},
	Entry("has seconds", "120", 2*time.Minute, true),
	Entry("has a date", "Mon, 30 Nov 2026 01:00:30 GMT", 30*time.Second, true),
	Entry("has a date that has passed", "Mon, 30 Nov 2026 00:59:00 GMT", -time.Minute, true),
	Entry("has at most the longest wait", "7200", time.Hour, true),
	Entry("has a number without end", "123456789012345678901234567890", time.Hour, true),
	Entry("has a date far away", "Fri, 31 Dec 9999 23:59:59 GMT", time.Hour, true),
	Entry("is missing", "", time.Duration(0), false),
	Entry("has a sign", "-5", time.Duration(0), false),
	Entry("has a fraction", "1.5", time.Duration(0), false),
	Entry("has words", "soon", time.Duration(0), false),
)
