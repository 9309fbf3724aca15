package bullmqpush_test

import (
	"bytes"
	"compress/gzip"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmqpush"
)

// onName returns the URL of an endpoint with another name of this machine.
func onName(address, name string) string {
	GinkgoHelper()
	to, err := url.Parse(address)
	Expect(err).NotTo(HaveOccurred())
	return to.Scheme + "://" + net.JoinHostPort(name, to.Port())
}

var _ = Describe("A request to an address that is not public", func() {
	It("is refused, whether the endpoint has the address, another form of it, or a name", func() {
		to := serve(answering(200, ""))
		for _, name := range []string{"127.0.0.1", "localhost", "::ffff:127.0.0.1", "0.0.0.0"} {
			queue := work(onName(to.URL, name), local(bullmqpush.Options{AllowedNetworks: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}))
			job := inState(queue, add(queue, &bullmq.JobOptions{Attempts: 2}).ID, bullmq.StateFailed)
			Expect(job.FailedReason).To(ContainSubstring("the address is not public"), name)
			Expect(job.AttemptsMade).To(Equal(2))
		}
		Expect(to.count()).To(BeZero())
	})

	It("is refused after a redirect too, although the name is allowed", func() {
		inner := serve(answering(200, ""))
		outer := serve(answering(307, "", "Location", onName(inner.URL, "127.0.0.2")))
		queue := work(outer.URL, local(bullmqpush.Options{
			AllowedNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, AllowedHosts: []string{"127.0.0.1", "127.0.0.2"}, MaxRedirects: 1,
		}))
		job := inState(queue, add(queue, nil).ID, bullmq.StateFailed)
		Expect(job.FailedReason).To(ContainSubstring("the address is not public"))
		Expect(inner.count()).To(BeZero())
	})

	It("is sent if its network is allowed", func() {
		to := serve(answering(200, ""))
		queue := work(onName(to.URL, "localhost"), local(bullmqpush.Options{}))
		inState(queue, add(queue, nil).ID, bullmq.StateCompleted)
	})

	It("is not sent by a proxy of the environment", func() {
		proxy := serve(answering(200, ""))
		GinkgoT().Setenv("HTTP_PROXY", proxy.URL)
		queue := work("http://push.invalid/", local(bullmqpush.Options{Timeout: time.Second}))
		inState(queue, add(queue, nil).ID, bullmq.StateFailed)
		Expect(proxy.count()).To(BeZero())
	})
})

var _ = Describe("A redirect", func() {
	const own = "Bearer t"
	var header = http.Header{"Authorization": {own}}

	DescribeTable("is a failed attempt:", func(status int, o bullmqpush.Options, location string) {
		to := serve(answering(200, ""))
		if location == "" {
			location = to.URL
		}
		from := serve(answering(status, "", "Location", location))
		queue := work(from.URL, local(o))
		job := inState(queue, add(queue, &bullmq.JobOptions{Attempts: 2}).ID, bullmq.StateFailed)
		Expect(job.AttemptsMade).To(Equal(2))
		Expect(job.FailedReason).To(ContainSubstring("the endpoint returned %d", status))
		Expect(to.count()).To(BeZero())
	},
		Entry("by default", 307, bullmqpush.Options{AllowedHosts: []string{"127.0.0.1"}}, ""),
		Entry("if it changes the method", 303, bullmqpush.Options{AllowedHosts: []string{"127.0.0.1"}, MaxRedirects: 5}, ""),
		Entry("with 302", 302, bullmqpush.Options{AllowedHosts: []string{"127.0.0.1"}, MaxRedirects: 5}, ""),
		Entry("to another port, if only the endpoint is allowed", 307, bullmqpush.Options{MaxRedirects: 5}, ""),
		Entry("to a host that is not allowed", 308, bullmqpush.Options{AllowedHosts: []string{"127.0.0.1"}, MaxRedirects: 5}, "http://localhost/"),
		Entry("to another scheme", 307, bullmqpush.Options{AllowedHosts: []string{"127.0.0.1"}, MaxRedirects: 5}, "file:///etc/passwd"),
		Entry("to nowhere", 307, bullmqpush.Options{AllowedHosts: []string{"127.0.0.1"}, MaxRedirects: 5}, "http://%zz"),
	)

	It("from HTTPS to HTTP is a failed attempt", func() {
		plain := serve(answering(200, ""))
		secure := &endpoint{}
		secure.Server = httptest.NewTLSServer(secure.record(answering(307, "", "Location", plain.URL)))
		DeferCleanup(secure.Close)
		authorities := x509.NewCertPool()
		authorities.AddCert(secure.Certificate())
		queue := work(secure.URL, local(bullmqpush.Options{
			AllowedHosts: []string{"127.0.0.1"}, MaxRedirects: 5, TLS: &tls.Config{RootCAs: authorities},
		}))
		job := inState(queue, add(queue, nil).ID, bullmq.StateFailed)
		Expect(job.FailedReason).To(ContainSubstring("from https to http"))
		Expect(plain.count()).To(BeZero())
	})

	It("is followed up to MaxRedirects, with the same body, but with no secret header for another host", func() {
		to := serve(answering(200, `"there"`, "Content-Type", "application/json"))
		var from *endpoint
		from = serve(func(w http.ResponseWriter, r *http.Request) {
			location := from.URL + "/next"
			if r.URL.Path == "/next" {
				location = to.URL
			}
			answering(308, "", "Location", location)(w, r)
		})
		o := bullmqpush.Options{AllowedHosts: []string{"127.0.0.1"}, MaxRedirects: 2, Header: header, HostConcurrency: 1}
		queue := work(from.URL, local(o))
		job := inState(queue, add(queue, nil).ID, bullmq.StateCompleted)
		Expect(string(job.ReturnValue)).To(Equal(`"there"`))
		Expect(from.received()).To(HaveLen(2))
		for _, request := range from.received() {
			Expect(request.header.Get("Authorization")).To(Equal(own))
		}
		Expect(to.received()[0].body).To(Equal(`{"id":17}`))
		Expect(to.received()[0].header).NotTo(HaveKey("Authorization"))
		Expect(to.received()[0].header).To(HaveKey(bullmqpush.HeaderSignature))

		o.MaxRedirects = 1
		queue = work(from.URL, local(o))
		job = inState(queue, add(queue, nil).ID, bullmq.StateFailed)
		Expect(job.FailedReason).To(ContainSubstring("MaxRedirects is 1"))
	})
})

var _ = Describe("An answer", func() {
	It("larger than MaxAnswer fails the job without a retry, even if it is compressed", func() {
		var packed bytes.Buffer
		zip := gzip.NewWriter(&packed)
		_, _ = zip.Write([]byte(strings.Repeat(" ", 1<<20)))
		Expect(zip.Close()).To(Succeed())
		for path, answer := range map[string]http.HandlerFunc{
			"/large":      answering(200, `"`+strings.Repeat("a", 5000)+`"`, "Content-Type", "application/json"),
			"/compressed": answering(200, packed.String(), "Content-Encoding", "gzip", "Content-Type", "application/json"),
		} {
			to := serve(answer)
			queue := work(to.URL+path, local(bullmqpush.Options{MaxAnswer: 4096}))
			id := add(queue, &bullmq.JobOptions{Attempts: 3}).ID
			if path == "/compressed" { // it is small as it was sent, and not decompressed
				Expect(string(inState(queue, id, bullmq.StateCompleted).ReturnValue)).To(Equal("null"))
				continue
			}
			job := inState(queue, id, bullmq.StateFailed)
			Expect(job.AttemptsMade).To(Equal(1))
			Expect(job.FailedReason).To(ContainSubstring("more than MaxAnswer, 4096 bytes"))
		}
	})

	It("that does not end, or has very long headers, does not fill the memory", func() {
		to := serve(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/headers" {
				w.Header().Set("X-Long", strings.Repeat("a", 1<<20))
				return
			}
			w.WriteHeader(500)
			for {
				if _, err := w.Write(make([]byte, 1<<16)); err != nil {
					return
				}
			}
		})
		queue := work(to.URL+"/endless", local(bullmqpush.Options{}))
		Expect(inState(queue, add(queue, nil).ID, bullmq.StateFailed).FailedReason).To(ContainSubstring("500"))
		queue = work(to.URL+"/headers", local(bullmqpush.Options{}))
		Expect(inState(queue, add(queue, nil).ID, bullmq.StateFailed).FailedReason).To(ContainSubstring("headers exceeded"))
	})

	It("that switches protocols is a failed attempt at once", func() {
		release := make(chan struct{})
		to := serve(func(w http.ResponseWriter, _ *http.Request) {
			connection, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				return
			}
			defer connection.Close()
			_, _ = connection.Write([]byte("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"))
			<-release
		})
		queue := work(to.URL, local(bullmqpush.Options{}))
		job := inState(queue, add(queue, nil).ID, bullmq.StateFailed)
		Expect(job.FailedReason).To(ContainSubstring("the endpoint returned 101"))
		close(release)
	})
})

var _ = Describe("A client certificate", func() {
	It("is presented to an endpoint that requires one", func() {
		certificate, parsed := selfSigned()
		clients := x509.NewCertPool()
		clients.AddCert(parsed)
		secure := &endpoint{}
		secure.Server = httptest.NewUnstartedServer(secure.record(answering(200, "")))
		secure.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients}
		secure.StartTLS()
		DeferCleanup(secure.Close)
		authorities := x509.NewCertPool()
		authorities.AddCert(secure.Certificate())

		queue := work(secure.URL, local(bullmqpush.Options{TLS: &tls.Config{RootCAs: authorities, Certificates: []tls.Certificate{certificate}}}))
		inState(queue, add(queue, nil).ID, bullmq.StateCompleted)
		queue = work(secure.URL, local(bullmqpush.Options{TLS: &tls.Config{RootCAs: authorities}}))
		Expect(inState(queue, add(queue, nil).ID, bullmq.StateFailed).FailedReason).To(ContainSubstring("certificate"))
		queue = work(secure.URL, local(bullmqpush.Options{TLS: &tls.Config{Certificates: []tls.Certificate{certificate}}}))
		Expect(inState(queue, add(queue, nil).ID, bullmq.StateFailed).FailedReason).To(ContainSubstring("certificate"))
		Expect(secure.count()).To(Equal(1))
	})
})

func selfSigned() (tls.Certificate, *x509.Certificate) {
	GinkgoHelper()
	return signedUntil(time.Now().Add(time.Hour))
}

// signedUntil returns a certificate for clients and for servers on loopback that is valid up to
// a time.
func signedUntil(end time.Time) (tls.Certificate, *x509.Certificate) {
	GinkgoHelper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "push"}, NotBefore: end.Add(-2 * time.Hour), NotAfter: end,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	Expect(err).NotTo(HaveOccurred())
	parsed, err := x509.ParseCertificate(der)
	Expect(err).NotTo(HaveOccurred())
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}, parsed
}

var _ = Describe("A client", func() {
	DescribeTable("refuses options that are invalid:", func(o *bullmqpush.Options, text string) {
		_, err := bullmqpush.NewClient(o)
		Expect(err).To(MatchError(And(HavePrefix("bullmqpush: make a client: "), ContainSubstring(text))))
		Expect(func() { bullmqpush.Handler("https://example.com", o) }).To(Panic())
	},
		Entry("none", nil, "there is no key in Keys"),
		Entry("no key", &bullmqpush.Options{}, "there is no key in Keys"),
		Entry("a key that is not base64", &bullmqpush.Options{Keys: []string{bullmqpush.NewKey(), "whsec_secret!"}}, "key 2 of 2 is not whsec_ and base64"),
		Entry("a short key", &bullmqpush.Options{Keys: []string{"whsec_c2VjcmV0"}}, "key 1 of 1 has 6 bytes"),
		Entry("a negative timeout", &bullmqpush.Options{Keys: []string{bullmqpush.NewKey()}, Timeout: -1}, "Timeout is less than 0"),
		Entry("a status that completes jobs", &bullmqpush.Options{Keys: []string{bullmqpush.NewKey()}, FailStatuses: []int{200}}, "FailStatuses has 200"),
		Entry("a URL as a host", &bullmqpush.Options{Keys: []string{bullmqpush.NewKey()}, AllowedHosts: []string{"https://example.com"}}, `AllowedHosts has "https://example.com"`),
		Entry("a star within a host", &bullmqpush.Options{Keys: []string{bullmqpush.NewKey()}, AllowedHosts: []string{"api.*.com"}}, `AllowedHosts has "api.*.com"`),
	)

	DescribeTable("checks an endpoint against the allowed hosts:", func(endpoint, problem string, hosts ...string) {
		client := newClient(&bullmqpush.Options{Keys: []string{bullmqpush.NewKey()}, AllowedHosts: hosts})
		_, err := client.Handler(endpoint)
		if problem == "" {
			Expect(err).NotTo(HaveOccurred())
			return
		}
		Expect(err).To(MatchError(ContainSubstring(problem)))
		Expect(err).NotTo(MatchError(ContainSubstring("secret")))
	},
		Entry("without a list", "https://api.example.com/hook", ""),
		Entry("in capitals and with a final dot", "https://API.Example.com.:443/hook", "", "api.example.com:443"),
		Entry("a subdomain", "https://a.b.example.com", "", "*.example.com"),
		Entry("the domain itself", "https://example.com", "the host is not allowed", "*.example.com"),
		Entry("the end of another domain", "https://badexample.com", "the host is not allowed", "*.example.com", "example.com"),
		Entry("the begin of another domain", "https://example.com.evil.org?secret", "the host is not allowed", "example.com"),
		Entry("another port", "https://example.com:8443", "the host is not allowed", "example.com:443"),
		Entry("HTTP", "http://example.com", "it has no TLS", "example.com"),
		Entry("a user", "https://ada:secret@example.com", "it has a user"),
		Entry("no host", "https:///hook", "not an absolute URL"),
		Entry("a path", "/hook", "not an absolute URL"),
		Entry("not a URL", "https://exa mple.com/secret", "the endpoint is not a URL"),
		Entry("letters that look like others", "https://ex\u0430mple.com", "write it as Punycode"),
	)
})
