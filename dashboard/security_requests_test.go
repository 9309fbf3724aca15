package dashboard_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/dashboard"
)

var _ = Describe("An attacker who sends odd requests", func() {
	ctx := context.Background()

	It("can't write headers of a reply by line ends in names", func() {
		s := open(nil)
		s.queue("orders")
		injected := "%0d%0aSet-Cookie:%20owned=1%0d%0aX-Owned:%201%0d%0a%0d%0a<script>"
		for _, path := range []string{"/queues/" + injected, "/queues/orders/jobs/" + injected, "/queues/orders/jobs/1/raw/" + injected, "/queues/orders/actions/" + injected, "/" + injected, "//" + injected + "/..", "/assets/" + injected, "/api/v1/" + injected, "/api/v1/queues/" + injected, "/live?queue=" + injected, "/queues/orders?state=" + injected} {
			response, text := s.send("GET", path, "")
			Expect(response.Header).NotTo(HaveKey("X-Owned"), path)
			Expect(response.Header).NotTo(HaveKey("Set-Cookie"), path)
			Expect(text).NotTo(HavePrefix("<script>"), path)
		}
		response, _ := s.send("POST", "/queues/orders/actions/pause", "once=x%0d%0aX-Owned:1", header("Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", "same-origin"))
		Expect(response.Header).NotTo(HaveKey("X-Owned"))
	})

	It("can't use up memory by huge forms, many fields or deeply nested JSON", func() {
		s := open(nil)
		orders := s.queue("orders")
		form := header("Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", "same-origin")
		asJSON := header("Content-Type", "application/json", "Sec-Fetch-Site", "same-origin")
		nested := strings.Repeat("[", 2_000_000)
		objects := strings.Repeat(`{"a":`, 700_000)
		for body, status := range map[string]int{
			"name=" + strings.Repeat("x", 5<<20):                                   413,
			strings.Repeat("a&", 2<<20):                                            400,
			strings.Repeat("job=1&", 5000):                                         400,
			"name=x&data=" + nested:                                                400,
			"name=x&data=" + url.QueryEscape(objects[:1_000_000]):                  400,
			"name=x&data=" + nested[:500_000] + "1" + strings.Repeat("]", 500_000): 400,
			"name=%zz": 400,
		} {
			begun := time.Now()
			response, _ := s.send("POST", "/queues/orders/actions/add", body, form)
			Expect(response.StatusCode).To(Equal(status), "%.20s", body)
			Expect(time.Since(begun)).To(BeNumerically("<", 5*time.Second))
		}
		for body, status := range map[string]int{
			nested: 400, objects: 400, `{"name":"x","data":` + nested + `}`: 400, strings.Repeat(" ", 5<<20) + "{}": 413,
			`{"name":"x","data":` + nested[:5000] + strings.Repeat("]", 5000) + `}`: 400,
			`{"name":"x","delay":1e999999}`:                                         400, `{"name":"x","priority":99999999999999999999}`: 400, `{"name":` + nested[:100] + strings.Repeat("]", 100) + `}`: 400,
			`{"name":"x","name":"y"} {}`: 400, "null": 400, "[]": 400, `"x"`: 400, "\xff": 400,
		} {
			response, text := s.send("POST", "/api/v1/queues/orders/actions/add", body, asJSON)
			Expect(response.StatusCode).To(Equal(status), "%.40s %s", body, text)
		}
		Expect(orders.Count(ctx)).To(Equal(0))
		response, _ := s.send("POST", "/api/v1/queues/orders/actions/remove", `{"job":[`+strings.Repeat(`"1",`, 2000)+`"1"]}`, asJSON)
		Expect(response.StatusCode).To(Equal(400))
	})

	It("can't keep a connection by a body that never ends, even if the server has no limits", func() {
		s := open(&dashboard.Options{Timeout: time.Second})
		s.queue("orders")
		for path, status := range map[string]int{"/queues/orders/actions/pause": 400, "/api/v1/queues/orders/actions/pause": 400, "/": 405, "/api/v1/queues": 405, "/queues/orders/actions/none": 404} {
			kind := "application/x-www-form-urlencoded"
			if strings.HasPrefix(path, "/api") {
				kind = "application/json"
			}
			connection, err := net.Dial("tcp", s.web.Listener.Addr().String())
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(func() { _ = connection.Close() })
			begun := time.Now()
			fmt.Fprintf(connection, "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: %s\r\nContent-Length: 1000\r\n\r\n", path, kind)
			stop := make(chan struct{})
			go func() {
				for {
					select {
					case <-stop:
						return
					case <-time.After(100 * time.Millisecond):
						_, _ = connection.Write([]byte("a"))
					}
				}
			}()
			_ = connection.SetReadDeadline(time.Now().Add(30 * time.Second))
			response, err := http.ReadResponse(bufio.NewReader(connection), nil)
			close(stop)
			Expect(err).NotTo(HaveOccurred())
			Expect(response.StatusCode).To(Equal(status), path)
			Expect(time.Since(begun)).To(BeNumerically("<", 15*time.Second))
			response.Body.Close()
		}
		Expect(s.queue("orders").IsPaused(ctx)).To(BeFalse())
	})

	It("can't break a page by ids and names of any bytes", func() {
		s := open(nil)
		s.queue("orders")
		const odd = "./\\%:~\x00\xff\r\n a?#{}<>\"'&;"
		random := rand.New(rand.NewPCG(1, 2))
		for range 300 {
			name := make([]byte, 1+random.IntN(12))
			for i := range name {
				name[i] = odd[random.IntN(len(odd))]
			}
			part := url.PathEscape(string(name))
			for _, path := range []string{"/queues/" + part, "/queues/orders/jobs/" + part, "/queues/orders/jobs/" + part + "/raw/data", "/queues/orders/actions/retry?job=" + url.QueryEscape(string(name)), "/queues/orders/schedulers/" + part, "/api/v1/queues/" + part, "/api/v1/queues/orders/jobs/" + part, "/assets/" + part} {
				response, text := s.send("GET", path, "")
				Expect(response.StatusCode).To(BeNumerically("<", 500), "%q: %s", path, text)
				Expect(utf8.ValidString(text)).To(BeTrue(), "%q", path)
			}
			response, _ := s.send("POST", "/queues/orders/actions/remove", url.Values{"id": {part}}.Encode(), header("Content-Type", "application/x-www-form-urlencoded"))
			Expect(response.StatusCode).To(BeNumerically("<", 500), "%q", name)
		}
	})

	It("can't see what another user's action has done by guessing its key", func() {
		s := open(&dashboard.Options{User: func(r *http.Request) string { return r.Header.Get("X-Test-User") }})
		orders := s.queue("orders")
		add := func(user, body string) string {
			GinkgoHelper()
			_, text := s.send("POST", "/api/v1/queues/orders/actions/add", body, header("Content-Type", "application/json", "Idempotency-Key", "1", "X-Test-User", user))
			return text
		}
		first := add("alice", `{"name":"paint"}`)
		Expect(add("alice", `{"name":"paint"}`)).To(Equal(first))
		Expect(add("mallory", `{"name":"paint"}`)).NotTo(Equal(first))
		Expect(add("alice", `{"name":"sand"}`)).NotTo(Equal(first), "it is another request")
		Expect(orders.Count(ctx)).To(Equal(3))
	})
})
