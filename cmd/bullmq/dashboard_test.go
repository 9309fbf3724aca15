package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// web is a running bullmq dashboard.
type web struct {
	session *gexec.Session
	address string // such as http://127.0.0.1:4711
	port    string
}

// dashboard starts bullmq dashboard, with variables of the environment.
func (s *site) dashboard(variables []string, arguments ...string) *web {
	GinkgoHelper()
	command := s.command(append([]string{"dashboard"}, arguments...)...)
	command.Env = append(command.Env, variables...)
	session, err := gexec.Start(command, GinkgoWriter, GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { session.Kill().Wait("10s") })
	Eventually(session.Err, "20s").Should(gbytes.Say(`at https?://\S+/\n`))
	found := regexp.MustCompile(`The dashboard is at (https?)://\S+:(\d+)/\n`).FindStringSubmatch(string(session.Err.Contents()))
	return &web{session, found[1] + "://127.0.0.1:" + found[2], found[2]}
}

// visit is a request of the dashboard, and its reply.
type visit struct {
	client         *http.Client // nil for a client without cookies
	from           string       // address of the client
	host           string
	user, password string
	head           map[string]string
	form           url.Values // to send; nil for a GET
	path           string
}

func (w *web) visit(v visit) (*http.Response, string) {
	GinkgoHelper()
	client := v.client
	if client == nil {
		client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	if client.Transport == nil {
		from := &net.Dialer{}
		if v.from != "" {
			from.LocalAddr = &net.TCPAddr{IP: net.ParseIP(v.from)}
		}
		client.Transport = &http.Transport{DialContext: from.DialContext, DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	}
	method, body := http.MethodGet, io.Reader(nil)
	if v.form != nil {
		method, body = http.MethodPost, strings.NewReader(v.form.Encode())
	}
	request, err := http.NewRequest(method, w.address+"/"+v.path, body)
	Expect(err).NotTo(HaveOccurred())
	if v.form != nil {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if v.host != "" {
		request.Host = v.host
	}
	if v.password != "" {
		request.SetBasicAuth(v.user, v.password)
	}
	for name, value := range v.head {
		request.Header.Set(name, value)
	}
	response, err := client.Do(request)
	Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	Expect(err).NotTo(HaveOccurred())
	return response, string(text)
}

// status returns the status of the reply.
func (w *web) status(v visit) int {
	GinkgoHelper()
	response, _ := w.visit(v)
	return response.StatusCode
}

// logged returns the lines of JSON in the log.
func (w *web) logged(message string) (found []map[string]any) {
	for line := range strings.Lines(string(w.session.Err.Contents())) {
		var value map[string]any
		if json.Unmarshal([]byte(line), &value) == nil && value["msg"] == message {
			found = append(found, value)
		}
	}
	return found
}

const secret = "correct horse: battery"

// secretFile returns a file with a password.
func secretFile(text string) string {
	GinkgoHelper()
	path := filepath.Join(GinkgoT().TempDir(), "password")
	Expect(os.WriteFile(path, []byte(text), 0o600)).To(Succeed())
	return path
}

var _ = Describe("bullmq dashboard", func() {
	It("refuses to listen for others without authentication, and flags that contradict each other", func() {
		s := open()
		refused := func(variable string, line string) string {
			GinkgoHelper()
			command := s.command(append([]string{"dashboard"}, strings.Fields(line)...)...)
			command.Env = append(command.Env, passwordVariable+"="+variable)
			session, err := gexec.Start(command, GinkgoWriter, GinkgoWriter)
			Expect(err).NotTo(HaveOccurred())
			Eventually(session, "20s").Should(gexec.Exit())
			Expect(session.ExitCode()).To(BeNumerically(">", 0))
			errors := string(session.Err.Contents())
			Expect(errors).NotTo(ContainSubstring("The dashboard is at"))
			if variable != "" {
				Expect(errors).NotTo(ContainSubstring(variable))
			}
			return fmt.Sprint(session.ExitCode(), " ", errors)
		}
		for line, text := range map[string]string{
			"--listen :0":            "2 bullmq: others could reach the dashboard at :0: give a password",
			"--listen 0.0.0.0:0":     "2 bullmq: others could reach",
			"--listen [::]:0":        "2 bullmq: others could reach",
			"--listen 192.0.2.1:0":   "2 bullmq: others could reach",
			"--listen 3000":          "2 bullmq: --listen must look like",
			"--listen nowhere.test.": "2 bullmq: --listen must look like",

			"--host queues.test":                                       "2 bullmq: --host needs a password",
			"--user ann":                                               "2 bullmq: --user needs a password",
			"--no-auth --user ann":                                     "2 bullmq: --user needs a password",
			"--trust-proxy-from 10.0.0.1":                              "2 bullmq: --trust-proxy-from needs",
			"--trust-proxy-auth X-User --no-auth":                      "2 bullmq: give one of",
			"--trust-proxy-auth X:User":                                "2 bullmq: --trust-proxy-auth X:User is not",
			"--trust-proxy-auth X-User --trust-proxy-from me":          "2 bullmq: --trust-proxy-from me is neither",
			"--no-auth --host http://queues.test":                      "2 bullmq: --host http://queues.test must be a name",
			"--https-cert x.pem":                                       "2 bullmq: --https-cert and --https-key belong together",
			"--https-cert none.pem --https-key none.pem":               "1 bullmq: read the certificate of the dashboard: stat none.pem",
			"--password-file none":                                     "1 bullmq: read the password of the dashboard: open none",
			"--password-file " + secretFile("short\n"):                 "has fewer than 8 characters",
			"--password-file " + secretFile("12345678\nmore"):          "has control characters or several lines",
			"--password-file " + secretFile(strings.Repeat("x", 5000)): "has more than 4096 bytes",
		} {
			Expect(refused("", line)).To(ContainSubstring(text), line)
		}
		Expect(refused("short", "")).To(ContainSubstring("in BULLMQ_DASHBOARD_PASSWORD has fewer than 8"))
		Expect(refused(secret, "--no-auth")).To(ContainSubstring("2 bullmq: give one of"))
		Expect(refused(secret, "--password-file "+secretFile(secret))).To(ContainSubstring("give --password-file or BULLMQ_DASHBOARD_PASSWORD, not both"))
		Expect(refused(secret, "--user a:b")).To(ContainSubstring("must not be empty, or contain a colon"))
	})

	It("serves others who give the password, which appears nowhere", func() {
		s := open()
		s.queue("orders")
		w := s.dashboard([]string{passwordVariable + "=" + secret}, "--listen", "0.0.0.0:0", "--user", "ann", "--host", "queues.test")
		Expect(string(w.session.Err.Contents())).To(And(ContainSubstring("sent as plain text"), ContainSubstring("at http://localhost:")))

		response, text := w.visit(visit{})
		Expect(response.StatusCode).To(Equal(http.StatusUnauthorized))
		Expect(response.Header.Get("WWW-Authenticate")).To(HavePrefix("Basic realm="))
		Expect(response.Header.Get("Set-Cookie")).To(BeEmpty())
		Expect(text).NotTo(ContainSubstring("orders"))
		for _, wrong := range []visit{{user: "ann", password: secret + "!"}, {user: "bob", password: secret}, {user: "ann", password: strings.Repeat("x", 9000)}, {head: map[string]string{"Authorization": "Bearer x"}}} {
			Expect(w.status(wrong)).To(Equal(http.StatusUnauthorized))
		}
		response, text = w.visit(visit{path: "api/v1/queues"})
		Expect(response.StatusCode).To(Equal(http.StatusUnauthorized))
		Expect(text).To(MatchJSON(`{"error": {"code": "unauthorized", "message": "give the user and the password of the dashboard"}}`))
		Expect(w.status(visit{path: "live"})).To(Equal(http.StatusUnauthorized))
		Expect(w.status(visit{path: "assets/style.css"})).To(Equal(http.StatusUnauthorized))
		Expect(w.status(visit{path: "queues/orders/actions/pause", form: url.Values{}})).To(Equal(http.StatusUnauthorized))

		response, text = w.visit(visit{user: "ann", password: secret})
		Expect(response.StatusCode).To(Equal(http.StatusOK))
		Expect(text).To(ContainSubstring(">orders</a>"))
		Expect(response.Header.Get("Set-Cookie")).To(And(ContainSubstring("HttpOnly"), ContainSubstring("SameSite=Strict")))

		for _, host := range []string{"queues.test", "QUEUES.test:3000", "localhost:80", "192.0.2.1", "[2001:db8::1]:3000"} {
			Expect(w.status(visit{user: "ann", password: secret, host: host})).To(Equal(http.StatusOK), host)
		}
		for _, host := range []string{"rebound.test", "queues.test.evil.test", "localhost.evil.test:3000", "1.2.3.4.evil.test", ""} {
			v := visit{user: "ann", password: secret, host: host}
			if host == "" {
				v.host = "%"
			}
			Expect(w.status(v)).To(BeElementOf(http.StatusForbidden, http.StatusBadRequest), host)
		}

		Expect(w.logged("wrong user or password")).NotTo(BeEmpty())
		w.session.Terminate()
		Eventually(w.session, "20s").Should(gexec.Exit(0))
		all := string(w.session.Err.Contents()) + string(w.session.Out.Contents())
		Expect(all).NotTo(Or(ContainSubstring("horse"), ContainSubstring("bob")))
	})

	It("reads the password from a file, and uses the user admin", func() {
		s := open()
		path := secretFile(secret + "\n")
		Expect(os.Chmod(path, 0o604)).To(Succeed())
		w := s.dashboard(nil, "--listen", "127.0.0.1:0", "--password-file", path)
		Expect(string(w.session.Err.Contents())).To(And(ContainSubstring("all users of this machine may read"), Not(ContainSubstring("plain text"))))
		Expect(w.status(visit{})).To(Equal(http.StatusUnauthorized))
		Expect(w.status(visit{user: "admin", password: secret})).To(Equal(http.StatusOK))
		command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", w.session.Command.Process.Pid))
		if err == nil {
			Expect(string(command)).NotTo(ContainSubstring("horse"))
		}
		named := s.dashboard([]string{userVariable + "=bob"}, "--listen", "127.0.0.1:0", "--password-file", path)
		Expect(named.status(visit{user: "bob", password: secret})).To(Equal(http.StatusOK))
	})

	It("limits wrong passwords by address, without locking out other addresses or known browsers", func() {
		s := open()
		w := s.dashboard([]string{passwordVariable + "=" + secret}, "--listen", "0.0.0.0:0")
		jar, err := cookiejar.New(nil)
		Expect(err).NotTo(HaveOccurred())
		known := &http.Client{Jar: jar}
		Expect(w.status(visit{client: known, user: "admin", password: secret})).To(Equal(http.StatusOK))

		statuses := map[int]int{}
		for i := range 30 {
			response, _ := w.visit(visit{user: "admin", password: fmt.Sprint("guess", i)})
			statuses[response.StatusCode]++
			if response.StatusCode == http.StatusTooManyRequests {
				Expect(response.Header.Get("Retry-After")).To(MatchRegexp(`^[1-6]?\d$`))
			}
		}
		Expect(statuses).To(Equal(map[int]int{http.StatusUnauthorized: freeTries, http.StatusTooManyRequests: 30 - freeTries}))
		Expect(w.logged("wrong user or password")).To(HaveLen(freeTries))
		Expect(w.status(visit{user: "admin", password: secret})).To(Equal(http.StatusTooManyRequests))
		Expect(w.status(visit{user: "admin", password: secret, head: map[string]string{"Cookie": deviceCookie + "=" + strings.Repeat("A", 64)}})).To(Equal(http.StatusTooManyRequests))
		Expect(w.status(visit{user: "admin", password: secret, head: map[string]string{"X-Forwarded-For": "192.0.2.1"}})).To(Equal(http.StatusTooManyRequests))

		Expect(w.status(visit{user: "admin", password: secret, from: "127.0.0.2"})).To(Equal(http.StatusOK))
		Expect(w.status(visit{client: known, user: "admin", password: secret})).To(Equal(http.StatusOK))
		for range freeTries { // a known browser has a limit of its own
			Expect(w.status(visit{client: known, user: "admin", password: "guessed"})).To(Equal(http.StatusUnauthorized))
		}
		Expect(w.status(visit{client: known, user: "admin", password: secret})).To(Equal(http.StatusTooManyRequests))
	})

	It("trusts a proxy that names the user, and refuses requests that are not from it", func() {
		s := open()
		orders := s.queue("orders")
		w := s.dashboard(nil, "--listen", "0.0.0.0:0", "--trust-proxy-auth", "x-forwarded-user", "--trust-proxy-from", "127.0.0.2,127.0.0.16/28", "--host", "queues.test")
		Expect(string(w.session.Err.Contents())).NotTo(ContainSubstring("Warning"))
		ann := map[string]string{"X-Forwarded-User": "ann\u202e", "X-Forwarded-For": "192.0.2.7"}
		for _, from := range []string{"127.0.0.2", "127.0.0.17"} {
			Expect(w.status(visit{from: from, head: ann, host: "queues.test"})).To(Equal(http.StatusOK))
		}
		Expect(w.status(visit{from: "127.0.0.1", head: ann})).To(Equal(http.StatusForbidden))
		Expect(w.status(visit{from: "127.0.0.2"})).To(Equal(http.StatusForbidden))
		Expect(w.status(visit{from: "127.0.0.2", head: map[string]string{"X-Forwarded-User": " "}})).To(Equal(http.StatusForbidden))
		Expect(w.status(visit{from: "127.0.0.2", head: ann, host: "rebound.test"})).To(Equal(http.StatusForbidden))

		s.add(orders, 1, "paint", map[string]string{"card": "4711"}, nil)
		Expect(w.status(visit{from: "127.0.0.2", head: ann, path: "queues/orders/actions/pause", form: url.Values{}})).To(BeElementOf(http.StatusOK, http.StatusSeeOther))
		Expect(orders.IsPaused(ctx)).To(BeTrue())
		Expect(w.logged("action")).To(HaveExactElements(And(
			HaveKeyWithValue("user", "ann\uFFFD"), HaveKeyWithValue("action", "pause"), HaveKeyWithValue("queue", "orders"),
			HaveKeyWithValue("address", HavePrefix("127.0.0.2:")), HaveKeyWithValue("done", Not(BeEmpty())))))

		open := s.dashboard(nil, "--listen", "0.0.0.0:0", "--trust-proxy-auth", "X-User")
		Expect(string(open.session.Err.Contents())).To(ContainSubstring("can claim to be any user by the header X-User"))
	})

	It("serves everyone with --no-auth, warns of it, and changes nothing with --read-only", func() {
		s := open()
		orders := s.queue("orders")
		w := s.dashboard(nil, "--listen", "0.0.0.0:0", "--no-auth", "--read-only")
		Expect(string(w.session.Err.Contents())).To(ContainSubstring("Warning: --no-auth lets everyone"))
		Expect(w.status(visit{from: "127.0.0.3"})).To(Equal(http.StatusOK))
		Expect(w.status(visit{host: "rebound.test"})).To(Equal(http.StatusForbidden))
		Expect(w.status(visit{path: "queues/orders/actions/pause", form: url.Values{}})).To(Equal(http.StatusForbidden))
		Expect(orders.IsPaused(ctx)).To(BeFalse())
		Expect(w.logged("action refused or failed")).To(HaveExactElements(And(
			HaveKeyWithValue("user", "127.0.0.1"), HaveKeyWithValue("action", "pause"), HaveKeyWithValue("error", ContainSubstring("read-only")))))
	})

	It("logs the user of an action with the ids of the jobs, without what was sent", func() {
		s := open()
		orders := s.queue("orders")
		s.add(orders, 2, "paint", map[string]string{"card": "4711"}, &bullmq.JobOptions{Delay: time.Hour})
		w := s.dashboard([]string{passwordVariable + "=" + secret}, "--listen", "127.0.0.1:0", "--user", "ann")
		Expect(w.status(visit{user: "ann", password: secret, path: "queues/orders/actions/promote", form: url.Values{"job": {"1"}, "note": {"private"}}})).To(BeElementOf(http.StatusOK, http.StatusSeeOther))
		Expect(orders.JobState(ctx, "1")).To(Equal(bullmq.StateWaiting))
		Expect(w.logged("action")).To(HaveExactElements(And(HaveKeyWithValue("user", "ann"), HaveKeyWithValue("action", "promote"), HaveKeyWithValue("jobs", HaveExactElements("1")))))
		Expect(string(w.session.Err.Contents())).NotTo(Or(ContainSubstring("private"), ContainSubstring("4711")))
	})

	It("is served by HTTPS, and uses a certificate that was renewed", func() {
		s := open()
		directory := GinkgoT().TempDir()
		authority(directory)
		cert, key := filepath.Join(directory, "server.pem"), filepath.Join(directory, "server-key.pem")
		w := s.dashboard([]string{passwordVariable + "=" + secret}, "--listen", "0.0.0.0:0", "--https-cert", cert, "--https-key", key)
		Expect(w.address).To(HavePrefix("https://"))
		Expect(string(w.session.Err.Contents())).NotTo(ContainSubstring("Warning"))
		authorities := x509.NewCertPool()
		text, err := os.ReadFile(filepath.Join(directory, "ca.pem"))
		Expect(err).NotTo(HaveOccurred())
		Expect(authorities.AppendCertsFromPEM(text)).To(BeTrue())
		trusting := func() *http.Client {
			return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: authorities, ServerName: "redis.internal"}}}
		}
		response, _ := w.visit(visit{client: trusting(), user: "admin", password: secret})
		Expect(response.StatusCode).To(Equal(http.StatusOK))
		Expect(response.Header.Get("Set-Cookie")).To(ContainSubstring("Secure"))
		serial := response.TLS.PeerCertificates[0].SerialNumber
		_, err = tls.Dial("tcp", "127.0.0.1:"+w.port, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS11})
		Expect(err).To(HaveOccurred())
		_, err = http.Get("http://127.0.0.1:" + w.port)
		Expect(err).NotTo(HaveOccurred()) // with 400, in plain text

		authority(directory)
		later := time.Now().Add(time.Minute)
		Expect(os.Chtimes(cert, later, later)).To(Succeed())
		Eventually(func() any {
			connection, err := tls.Dial("tcp", "127.0.0.1:"+w.port, &tls.Config{InsecureSkipVerify: true})
			if err != nil {
				return err
			}
			defer connection.Close()
			return connection.ConnectionState().PeerCertificates[0].Equal(response.TLS.PeerCertificates[0])
		}, "10s", "100ms").Should(BeFalse(), fmt.Sprint(serial))
		Expect(os.Chmod(key, 0o644)).To(Succeed())
		_, errors := s.run(1, "dashboard", "--listen", "127.0.0.1:0", "--https-cert", cert, "--https-key", key)
		Expect(errors).To(ContainSubstring("has a private key, and other users may read it"))
	})
})

var _ = Describe("The wrong passwords of a dashboard", func() {
	It("are forgotten one by one, and by number", func() {
		t := newTries()
		now := time.Now()
		t.now = func() time.Time { return now }
		wrong, right := func() bool { return false }, func() bool { return true }
		for range freeTries {
			_, wait := t.try("a", wrong)
			Expect(wait).To(BeZero())
		}
		ok, wait := t.try("a", right)
		Expect(ok).To(BeFalse())
		Expect(wait).To(Equal(triesEvery))
		now = now.Add(triesEvery + time.Millisecond)
		Expect(first(t.try("a", right))).To(BeTrue())
		Expect(first(t.try("a", wrong))).To(BeFalse())
		_, wait = t.try("a", right)
		Expect(wait).To(BeNumerically(">", triesEvery-time.Second))

		for i := range 2 * knownTriers {
			t.try(fmt.Sprint(i), wrong)
		}
		Expect(t.byKey).To(HaveLen(knownTriers))
		Expect(t.recent.Len()).To(Equal(knownTriers))
		Expect(first(t.try("a", right))).To(BeTrue())
		for range 2 * knownTriers {
			t.try("b", right) // is not remembered
		}
		Expect(t.byKey).NotTo(HaveKey("b"))
	})

	It("are those of an IPv4 address, or of an IPv6 network", func() {
		Expect(network("192.0.2.1:80")).To(Equal("192.0.2.1"))
		Expect(network("[::ffff:192.0.2.1]:80")).To(Equal("192.0.2.1"))
		Expect(network("[2001:db8:1:2:3:4:5:6]:80")).To(Equal("2001:db8:1:2::/64"))
		Expect(network("[fe80::1%eth0]:80")).To(Equal("fe80::/64"))
	})
})

func first(ok bool, _ time.Duration) bool { return ok }
