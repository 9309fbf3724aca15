package bullmqpush_test

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmqpush"
)

// serveEverywhere starts an endpoint on all addresses of this machine.
func serveEverywhere(handler http.HandlerFunc) *endpoint {
	GinkgoHelper()
	listener, err := net.Listen("tcp", ":0")
	Expect(err).NotTo(HaveOccurred())
	e := &endpoint{Server: &httptest.Server{Listener: listener, Config: &http.Server{}}}
	e.Config.Handler = e.record(handler)
	e.Start()
	DeferCleanup(e.Close)
	return e
}

// attempt sends a job with a client to a URL, and returns its error.
func attempt(client *bullmqpush.Client, url string) error {
	send, err := client.Handler(url)
	if err == nil {
		_, err = send(specContext(), &bullmq.Job{ID: "1", Name: "order", Data: json.RawMessage("{}")})
	}
	return err
}

// refused matches the error for an address that is not public. Some machines have no IPv6.
func refused() types.GomegaMatcher {
	return Or(MatchError(bullmqpush.ErrAddressRefused), MatchError(ContainSubstring("address family not supported")))
}

// loopbackNames returns the address of the guarded server for every name, as the C library does for
// addresses in unusual forms. Names of metadata services have the address of these.
func loopbackNames(name string, _ int) []string {
	if strings.HasPrefix(name, "metadata.") || strings.HasPrefix(name, "0xa9fea9fe") {
		return []string{"169.254.169.254"}
	}
	return []string{"127.0.0.2", "::1"}
}

var _ = DescribeTable("A guarded address gets no request, however it is written:", func(host string, matcher types.GomegaMatcher) {
	to := serveEverywhere(answering(200, ""))
	client := newClient(local(bullmqpush.Options{AllowedNetworks: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}))
	_, resolver := startDNS(loopbackNames)
	client.ResolveBy(resolver)
	_, port, err := net.SplitHostPort(to.Listener.Addr().String())
	Expect(err).NotTo(HaveOccurred())
	Expect(attempt(client, "http://"+host+":"+port+"/jobs")).To(matcher)
	Expect(to.count()).To(BeZero())
},
	Entry("dotted", "127.0.0.2", refused()),
	Entry("decimal", "2130706434", MatchError(ContainSubstring("no such host"))),
	Entry("octal", "0177.0.0.2", MatchError(ContainSubstring("no such host"))),
	Entry("octal, as one number", "017700000002", MatchError(ContainSubstring("no such host"))),
	Entry("hexadecimal", "0x7f000002", refused()),
	Entry("hexadecimal, dotted", "0x7f.0x0.0x0.0x2", refused()),
	Entry("hexadecimal in capitals", "0X7F000002", refused()),
	Entry("short", "127.2", MatchError(ContainSubstring("no such host"))),
	Entry("short, in mixed bases", "0x7f.2", refused()),
	Entry("more than 32 bits", "4425673730", MatchError(ContainSubstring("no such host"))),
	Entry("zero", "0", MatchError(ContainSubstring("no such host"))),
	Entry("unspecified", "0.0.0.0", refused()),
	Entry("with a final dot", "127.0.0.2.", MatchError(ContainSubstring("no such host"))),
	Entry("by name", "localhost", refused()),
	Entry("by name with a final dot", "localhost.", refused()),
	Entry("by a name with a final dot", "inner.test.", refused()),
	Entry("by a name in capitals", "INNER.Test", refused()),
	Entry("percent-encoded", "%31%32%37.0.0.2", MatchError(ContainSubstring("not a URL"))),
	Entry("in IPv6", "[::ffff:127.0.0.2]", refused()),
	Entry("in IPv6, as groups", "[::ffff:7f00:2]", refused()),
	Entry("in IPv6, in full", "[0:0:0:0:0:ffff:127.0.0.2]", refused()),
	Entry("in the old form of IPv6", "[::127.0.0.2]", refused()),
	Entry("in NAT64", "[64:ff9b::127.0.0.2]", refused()),
	Entry("in NAT64, as groups", "[64:ff9b::7f00:2]", refused()),
	Entry("in local NAT64", "[64:ff9b:1::7f00:2]", refused()),
	Entry("in 6to4", "[2002:7f00:2::1]", refused()),
	Entry("in Teredo", "[2001::80ff:fffd]", refused()),
	Entry("loopback of IPv6", "[::1]", refused()),
	Entry("loopback of IPv6 in full", "[0000:0000:0000:0000:0000:0000:0000:0001]", refused()),
	Entry("loopback of IPv6 with a zone", "[::1%25lo]", refused()),
	Entry("mapped, with a zone", "[::ffff:127.0.0.2%25lo]", Or(refused(), MatchError(ContainSubstring("no such host")))),
	Entry("a local address with a zone", "[fe80::1%25lo]", refused()),
	Entry("unspecified of IPv6", "[::]", refused()),
	Entry("metadata of most clouds", "169.254.169.254", refused()),
	Entry("metadata in hexadecimal", "0xa9fea9fe", refused()),
	Entry("metadata in IPv6", "[::ffff:a9fe:a9fe]", refused()),
	Entry("metadata by its name", "metadata.google.internal", refused()),
	Entry("metadata of AWS in IPv6", "[fd00:ec2::254]", refused()),
	Entry("metadata of AWS's containers", "169.254.170.2", refused()),
	Entry("metadata of Google in IPv6", "[fd20:ce::254]", refused()),
	Entry("metadata of Alibaba", "100.100.100.200", refused()),
	Entry("metadata of Oracle", "192.0.0.192", refused()),
	Entry("the platform of Azure", "168.63.129.16", refused()),
	Entry("after a user", "public.example.com@127.0.0.2", MatchError(ContainSubstring("it has a user"))),
	Entry("after a user and a password", "public.example.com:80@127.0.0.2", MatchError(ContainSubstring("it has a user"))),
	Entry("before a backslash", `127.0.0.2\@public.example.com`, MatchError(ContainSubstring("not a URL"))),
	Entry("before an encoded slash", "127.0.0.2%2f.public.example.com", MatchError(ContainSubstring("not a URL"))),
	Entry("before a NUL", "127.0.0.2%00.public.example.com", MatchError(ContainSubstring("not a URL"))),
	Entry("in wide digits", "\uff11\uff12\uff17.0.0.2", MatchError(ContainSubstring("its host is not ASCII"))),
	Entry("in circled digits", "\u2460\u2461\u2466.0.0.2", MatchError(ContainSubstring("its host is not ASCII"))),
	Entry("with another full stop", "127\u30020\u30020\u30022", MatchError(ContainSubstring("its host is not ASCII"))),
)

var _ = DescribeTable("A redirect to a guarded address is not followed, even if its host is allowed:", func(location string, matcher types.GomegaMatcher) {
	inner := serveEverywhere(answering(200, ""))
	_, port, err := net.SplitHostPort(inner.Listener.Addr().String())
	Expect(err).NotTo(HaveOccurred())
	outer := serve(answering(307, "", "Location", strings.ReplaceAll(location, "PORT", port)))
	client := newClient(local(bullmqpush.Options{
		AllowedNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, MaxRedirects: 5,
		AllowedHosts: []string{
			"127.0.0.1", "127.0.0.2", "169.254.169.254", "0x7f000002", "*.test", "metadata.google.internal", "[::ffff:127.0.0.2]", "[fd00:ec2::254]",
		},
	}))
	_, resolver := startDNS(loopbackNames)
	client.ResolveBy(resolver)
	Expect(attempt(client, outer.URL)).To(matcher)
	Expect(outer.count()).To(Equal(1))
	Expect(inner.count()).To(BeZero())
},
	Entry("an address", "http://127.0.0.2:PORT/", refused()),
	Entry("a name", "http://inner.test:PORT/", refused()),
	Entry("a name without a scheme", "//inner.test:PORT/", refused()),
	Entry("a number", "http://0x7f000002:PORT/", refused()),
	Entry("an address in IPv6", "http://[::ffff:127.0.0.2]:PORT/", refused()),
	Entry("metadata", "http://169.254.169.254/latest/meta-data/iam/security-credentials/", refused()),
	Entry("metadata by name", "http://metadata.google.internal/computeMetadata/v1/", refused()),
	Entry("metadata in IPv6", "http://[fd00:ec2::254]/latest/meta-data/", refused()),
	Entry("an address after a user", "http://127.0.0.1@inner.test:PORT/", MatchError(ContainSubstring("it has a user"))),
	Entry("an address after a backslash", `http://127.0.0.1\@inner.test:PORT/`, MatchError(ContainSubstring("to no valid URL"))),
	Entry("an address after a space", "http://127.0.0.1 @inner.test:PORT/", MatchError(ContainSubstring("to no valid URL"))),
	Entry("another scheme", "gopher://127.0.0.2:PORT/_POST", MatchError(ContainSubstring("it is not an absolute URL with https"))),
	Entry("a host that is not allowed", "http://127.0.0.1.nip.io:PORT/", MatchError(bullmqpush.ErrHostRefused)),
)

var _ = Describe("A name whose addresses change", func() {
	var allowed = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}

	It("is looked up once for each connection, and the address to which it is made is checked", func() {
		var hosts atomic.Value
		to := serveEverywhere(func(w http.ResponseWriter, r *http.Request) {
			hosts.Store(r.Context().Value(http.LocalAddrContextKey).(net.Addr).String())
			w.Header().Set("Connection", "close") // so that the next job needs another connection
		})
		dns, resolver := startDNS(func(_ string, lookups int) []string {
			return [][]string{{"127.0.0.1"}, {"127.0.0.2"}, {"127.0.0.1"}, {"127.0.0.2"}}[lookups%4]
		})
		client := newClient(local(bullmqpush.Options{AllowedNetworks: allowed, BreakerFailures: -1}))
		client.ResolveBy(resolver)
		send, err := client.Handler(onName(to.URL, "rebind.test."))
		Expect(err).NotTo(HaveOccurred())
		queue := workBy(send, bullmq.WorkerOptions{})
		for n := range 4 {
			job := add(queue, nil)
			if n%2 == 0 {
				inState(queue, job.ID, bullmq.StateCompleted)
				Expect(hosts.Load()).To(HavePrefix("127.0.0.1:"))
			} else {
				Expect(inState(queue, job.ID, bullmq.StateFailed).FailedReason).To(ContainSubstring("the address is not public"))
			}
			Expect(to.count()).To(Equal(n/2 + 1))
			Expect(dns.count("rebind.test")).To(Equal(n + 1))
		}
	})

	It("is not looked up again after a redirect to itself if the connection is still open", func() {
		var to *endpoint
		to = serveEverywhere(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/" {
				answering(307, "", "Location", onName(to.URL, "rebind.test.")+"/inner")(w, r)
			}
		})
		dns, resolver := startDNS(func(_ string, lookups int) []string {
			return [][]string{{"127.0.0.1"}, {"127.0.0.2"}}[min(lookups, 1)]
		})
		client := newClient(local(bullmqpush.Options{AllowedNetworks: allowed, MaxRedirects: 1}))
		client.ResolveBy(resolver)
		Expect(attempt(client, onName(to.URL, "rebind.test."))).To(Succeed())
		Expect(to.received()).To(HaveLen(2))
		Expect(dns.count("rebind.test")).To(Equal(1))
	})

	DescribeTable("gets requests at its allowed addresses only:", func(addresses []string, reached bool) {
		hosts := make(chan string, 1)
		to := serveEverywhere(func(_ http.ResponseWriter, r *http.Request) {
			hosts <- r.Context().Value(http.LocalAddrContextKey).(net.Addr).String()
		})
		_, resolver := startDNS(func(string, int) []string { return addresses })
		client := newClient(local(bullmqpush.Options{AllowedNetworks: allowed}))
		client.ResolveBy(resolver)
		err := attempt(client, onName(to.URL, "mixed.test."))
		if !reached {
			Expect(err).To(refused())
			Expect(to.count()).To(BeZero())
			return
		}
		Expect(err).NotTo(HaveOccurred())
		Expect(to.count()).To(Equal(1))
		Expect(hosts).To(Receive(HavePrefix("127.0.0.1:")))
	},
		Entry("the allowed one is last", []string{"127.0.0.2", "127.0.0.3", "127.0.0.1"}, true),
		Entry("the allowed one is first", []string{"127.0.0.1", "127.0.0.2"}, true),
		Entry("the others are of IPv6", []string{"::1", "fd00:ec2::254", "127.0.0.1"}, true),
		Entry("none is allowed", []string{"127.0.0.2", "10.0.0.1", "169.254.169.254", "::1", "fd00:ec2::254"}, false),
	)
})

var _ = It("A proxy of the environment gets no request, whichever variable names it", func() {
	proxy := serve(answering(200, ""))
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"} {
		GinkgoT().Setenv(name, proxy.URL)
	}
	_, resolver := startDNS(func(string, int) []string { return []string{"127.0.0.2"} })
	client := newClient(local(bullmqpush.Options{AllowedNetworks: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}))
	client.ResolveBy(resolver)
	for _, scheme := range []string{"http", "https"} {
		to := url.URL{Scheme: scheme, Host: "push.test"}
		Expect(attempt(client, to.String())).To(refused())
	}
	Expect(proxy.count()).To(BeZero())
})
