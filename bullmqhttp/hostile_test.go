package bullmqhttp_test

// What a client sends that means harm, or that net/http's client would not send. The bytes are written to a TCP connection.

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmqhttp"
)

// dial opens a connection to the service that is closed with the spec.
func (s *service) dial() net.Conn {
	GinkgoHelper()
	address, err := url.Parse(s.url)
	Expect(err).NotTo(HaveOccurred())
	connection, err := net.Dial("tcp", address.Host)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { _ = connection.Close() })
	Expect(connection.SetDeadline(time.Now().Add(time.Minute))).To(Succeed())
	return connection
}

// raw sends bytes and returns all replies. It ends its side of the connection after the expected number of replies.
func (s *service) raw(text string, expected int) (answers []answer) {
	GinkgoHelper()
	connection := s.dial()
	defer connection.Close()
	_, err := io.WriteString(connection, text)
	Expect(err).NotTo(HaveOccurred())
	from := bufio.NewReader(connection)
	for {
		if len(answers) == expected {
			_ = connection.(*net.TCPConn).CloseWrite()
		}
		reply, err := http.ReadResponse(from, nil)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return answers
		}
		Expect(err).NotTo(HaveOccurred())
		body, err := io.ReadAll(reply.Body)
		Expect(err).NotTo(HaveOccurred())
		answers = append(answers, answer{reply.StatusCode, reply.Header, string(body)})
	}
}

// one sends bytes that are a single request, and returns its reply.
func (s *service) one(text string) answer {
	GinkgoHelper()
	answers := s.raw(text, 1)
	Expect(answers).To(HaveLen(1), "%.200q", text)
	return answers[0]
}

// post returns the bytes of a request. Each header line ends with CR LF.
func post(target, headers, body string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: a\r\n%sContent-Length: %d\r\n\r\n%s", target, headers, len(body), body)
}

// stored returns the stored request of a job that was added.
func (s *service) stored(a answer) *bullmqhttp.Request {
	GinkgoHelper()
	Expect(a.status).To(Equal(http.StatusAccepted), a.body)
	job, err := s.queue.Job(context.Background(), a.job().ID)
	Expect(err).NotTo(HaveOccurred())
	stored, err := bullmqhttp.ReadRequest(job)
	Expect(err).NotTo(HaveOccurred())
	return stored
}

const typeJSON = "Content-Type: application/json\r\n"

var _ = Describe("A malformed message", func() {
	DescribeTable("adds no job:", func(status int, text string) {
		s := start(nil, bullmqhttp.Route{}, nil)
		answers := s.raw(text, 0)
		Expect(answers).To(HaveLen(1))
		Expect(answers[0].status).To(Equal(status))
		Expect(s.jobs()).To(BeZero())
	},
		Entry("two lengths", 400, "POST /reports/7 HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"),
		Entry("a list of lengths", 400, "POST /reports/7 HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 2\r\n\r\nab"),
		Entry("a length with a sign", 400, "POST /reports/7 HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\na"),
		Entry("an unknown transfer encoding", 501, "POST /reports/7 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
		Entry("two transfer encodings", 501, "POST /reports/7 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n"),
		Entry("a malformed chunk", 400, "POST /reports/7 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\na\r\n0\r\n\r\n"),
		Entry("a chunk that is cut off", 400, "POST /reports/7 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"),
		Entry("a body that is cut off", 400, "POST /reports/7 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab"),
		Entry("a space after the name of a header", 400, post("/reports/7", "Idempotency-Key : a\r\n", "")),
		Entry("a carriage return in a header", 400, post("/reports/7", "Accept: a\rX-Request-Id: b\r\n", "")),
		Entry("a NUL in a header", 400, post("/reports/7", "Accept: a\x00\r\n", "")),
		Entry("a space in the path", 400, post("/reports/7 x", "", "")),
		Entry("a line break in the path", 400, post("/reports/7\r\nX: ", "", "")),
		Entry("a malformed escape in the path", 400, post("/reports/%zz", "", "")),
		Entry("no host", 400, "POST /reports/7 HTTP/1.1\r\nContent-Length: 0\r\n\r\n"),
		Entry("headers of more than a megabyte", 431, post("/reports/7", "Idempotency-Key: "+strings.Repeat("a", 1<<20)+"\r\nAccept: "+strings.Repeat("a", 1<<16)+"\r\n", "")),
	)

	It("with a length and chunks has the body of the chunks, and neither header is stored", func() {
		s := start(&bullmqhttp.Options{Headers: []string{"Content-Length", "Transfer-Encoding", "Connection"}}, bullmqhttp.Route{}, nil)
		a := s.one("POST /reports/7 HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n" +
			"Content-Type: text/plain\r\n\r\n5\r\nabcde\r\n0\r\n\r\nPOST /reports/8 HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")
		stored := s.stored(a)
		Expect(string(stored.Body)).To(Equal(`"abcde"`))
		Expect(stored.Headers).To(BeEmpty())
		Expect(s.jobs()).To(Equal(1))
	})
})

var _ = Describe("Headers of a client", func() {
	It("are the same in any case, and each value of a repeated one is stored", func() {
		s := start(nil, bullmqhttp.Route{ContentTypes: []string{"application/json"}}, nil)
		a := s.one(post("/reports/7", "aCCEPT: a\r\naccept: b\r\nACCEPT:\tc\r\n d\r\ncontent-TYPE: application/json\r\nContent-Type: text/html\r\n", `{}`))
		stored := s.stored(a)
		Expect(stored.Headers).To(Equal(bullmqhttp.Header{"Accept": {"a", "b", "c d"}}))
		Expect(stored.ContentType).To(Equal("application/json"))
		a = s.one(post("/reports/7", "IDEMPOTENCY-KEY: a\r\nidempotency-key: b\r\n", ""))
		Expect(a.code()).To(Equal(bullmqhttp.CodeInvalidRequest))
	})

	It("are refused if they are to be stored and are not UTF-8", func() {
		s := start(nil, bullmqhttp.Route{}, nil)
		for _, line := range []string{"Accept: \xff\r\n", "X-Request-Id: caf\xe9\r\n", "Content-Type: \xff\r\n"} {
			a := s.one(post("/reports/7", line, ""))
			Expect(a.status).To(Equal(http.StatusBadRequest))
			Expect(a.code()).To(Equal(bullmqhttp.CodeInvalidRequest))
		}
		Expect(s.jobs()).To(BeZero())
		stored := s.stored(s.one(post("/reports/7", "Accept: é☃\r\nX-Other: \xff\r\n", "")))
		Expect(stored.Headers).To(Equal(bullmqhttp.Header{"Accept": {"é☃"}}))
	})

	DescribeTable("can hold an absurd preference:", func(prefer, applied string) {
		s := start(&bullmqhttp.Options{MaxWait: time.Second}, bullmqhttp.Route{}, nil)
		s.work(func(http.ResponseWriter, *http.Request) {})
		a := s.one(post("/reports/7", "Prefer: "+prefer+"\r\n", ""))
		Expect(a.status).To(BeElementOf(http.StatusAccepted, http.StatusOK))
		Expect(a.header.Get("Preference-Applied")).To(Equal(applied))
		location := a.header.Get("Location")
		if location == "" {
			location = strings.TrimSuffix(a.header.Get("Content-Location"), "/result")
		}
		s.ended(location)
		a = s.one("GET " + location + " HTTP/1.1\r\nHost: a\r\nPrefer: " + prefer + "\r\n\r\n")
		Expect(a.job().State).To(Equal(bullmqhttp.Succeeded))
	},
		Entry("a wait of ages", "wait=99999999999999999999999", "wait=1"),
		Entry("a wait of 136 years", "wait=4294967296", "wait=1"),
		Entry("a negative wait", "wait=-1", ""),
		Entry("a wait with a sign", "wait=+1", ""),
		Entry("a wait with an exponent", "wait=1e9", ""),
		Entry("a hexadecimal wait", "wait=0x10", ""),
		Entry("a wait in other digits", "wait=１", ""),
		Entry("a wait without a value", "wait", ""),
		Entry("a wait that is not UTF-8", "wait=\xff", ""),
		Entry("quotes", `wait="""1"`, "wait=1"),
		Entry("200,000 preferences", strings.Repeat("a,b,", 100_000)+"wait=7", "wait=1"),
	)

	It("can hold a preference many times over without taking much memory", func() {
		s := start(nil, bullmqhttp.Route{}, nil)
		var names strings.Builder
		for n := range 100_000 {
			fmt.Fprintf(&names, "%x,", n)
		}
		request := post("/reports/7", "Prefer: "+names.String()+"\r\n", "")
		s.one(request)
		Expect(allocated(func() { s.stored(s.one(request)) })).To(BeNumerically("<", 8<<20))
	})

	It("can't hold an enormous idempotency key, or one with line breaks", func() {
		s := start(nil, bullmqhttp.Route{}, nil)
		for _, key := range []string{strings.Repeat("a", 500_000), `"` + strings.Repeat(`\"`, 250_000) + `"`, "", `""`, "a\tb", "☃", "\xff"} {
			a := s.one(post("/reports/7", "Idempotency-Key: "+key+"\r\n", ""))
			Expect(a.status).To(Equal(http.StatusBadRequest), "%.20q", key)
			Expect(a.code()).To(Equal(bullmqhttp.CodeInvalidRequest))
		}
		Expect(s.jobs()).To(BeZero())
		for _, key := range []string{"1", "bull:a:1", "../x", `"`, `{"a":1}`, "%00", strings.Repeat("a", 255)} {
			a := s.one(post("/reports/7", "Idempotency-Key: "+key+"\r\n", ""))
			Expect(a.job().ID).To(MatchRegexp(`^ik-[\w-]{22}$`), key)
		}
		Expect(s.jobs()).To(Equal(7))
	})

	It("can't name an event that can't be", func() {
		s := start(nil, bullmqhttp.Route{}, nil)
		location := s.submit().header.Get("Location")
		for _, id := range []string{"99999999999999999999-0", "0-99999999999999999999", "-", "$", "+", "1", "1-1-1", strings.Repeat("1", 100_000)} {
			a := s.get(location, "/events", "Last-Event-ID", id)
			Expect(a.status).To(Equal(http.StatusBadRequest), "%.30s", id)
			Expect(a.code()).To(Equal(bullmqhttp.CodeInvalidRequest))
		}
		others, _ := s.listen(location, "")
		events, _ := s.listen(location, "18446744073709551615-18446744073709551615")
		for _, stream := range []chan sent{others, events} {
			var event sent
			Eventually(stream).Should(Receive(&event))
			Expect(event.job().State).To(Equal(bullmqhttp.Queued))
		}
		s.work(func(http.ResponseWriter, *http.Request) {})
		for _, stream := range []chan sent{others, events} {
			var last sent
			for event := range stream {
				last = event
			}
			Expect(last.name).To(Equal("end"))
		}
	})
})

// allocated returns how many bytes the process allocates while do runs.
func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

var _ = Describe("A body of 100 MB", func() {
	It("in chunks is refused with 413, and little of it is kept in memory", func() {
		s := start(nil, bullmqhttp.Route{}, nil)
		chunk := append([]byte("10000\r\n"), append(bytes.Repeat([]byte("a"), 1<<16), "\r\n"...)...)
		send := func() (status string) {
			connection := s.dial()
			defer connection.Close()
			_, _ = io.WriteString(connection, "POST /reports/7 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
			replied := make(chan string, 1)
			go func() {
				line, _ := bufio.NewReader(connection).ReadString('\n')
				replied <- line
			}()
			for range 100 << 4 {
				if _, err := connection.Write(chunk); err != nil { // the server reads no more
					break
				}
			}
			return <-replied
		}
		send()
		Expect(allocated(func() { Expect(send()).To(HavePrefix("HTTP/1.1 413 ")) })).To(BeNumerically("<", 16<<20))
		Expect(s.jobs()).To(BeZero())
	})

	It("is refused with 413 before a client sends it that asks first", func() {
		s := start(nil, bullmqhttp.Route{}, nil)
		a := s.one("POST /reports/7 HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 104857600\r\n\r\n")
		Expect(a.code()).To(Equal(bullmqhttp.CodeTooLarge))
	})
})

var _ = Describe("A body in JSON", func() {
	nested := func(depth int) string { return strings.Repeat("[", depth) + strings.Repeat("]", depth) }

	DescribeTable("is refused if it is not valid, or too deep:", func(body string) {
		for _, route := range []bullmqhttp.Route{{}, {RawBody: true}} {
			s := start(nil, route, nil)
			a := s.one(post("/reports/7", typeJSON, body))
			Expect(a.status).To(Equal(http.StatusBadRequest))
			Expect(a.code()).To(Equal(bullmqhttp.CodeInvalidRequest))
			Expect(s.jobs()).To(BeZero())
		}
	},
		Entry("two values", `{}{}`), Entry("a comma too much", `[1,]`), Entry("a comment", `{} // a`), Entry("NaN", `NaN`), Entry("white space", " \n"),
		Entry("a byte order mark", "\ufeff{}"), Entry("UTF-16", "{\x00}\x00"), Entry("a NUL", "{\"a\":\"\x00\"}"), Entry("single quotes", `{'a':1}`),
		Entry("bytes that are not UTF-8", "{\"a\":\"\xff\"}"), Entry("an encoded surrogate", "{\"a\":\"\xed\xa0\x80\"}"),
		Entry("a million arrays", strings.Repeat("[", 1_000_000)), Entry("10,000 arrays", nested(10_000)), Entry("1,001 arrays", nested(1001)),
		Entry("1,001 objects", strings.Repeat(`{"a":`, 1001)+"1"+strings.Repeat("}", 1001)),
	)

	DescribeTable("reaches the handler, and its response the client, without a change:", func(body string) {
		s := start(nil, bullmqhttp.Route{}, nil)
		s.work(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.Copy(w, r.Body)
		})
		a := s.one(post("/reports/7", typeJSON+"Prefer: wait=25\r\n", body))
		Expect(a.status).To(Equal(http.StatusOK), a.body)
		Expect(a.body == body).To(BeTrue(), "%.200s", a.body)
	},
		Entry("half of a surrogate pair", `{"a":"\ud800"}`), Entry("an escaped NUL", `{"a":"\u0000"}`), Entry("a repeated name", `{"a":1,"a":2}`),
		Entry("a large number", `1e400000`), Entry("a prototype", `{"__proto__":{"a":1}}`), Entry("line separators", "\"\u2028\u2029<&>\""),
		Entry("the fields of a response", `{"status":500,"headers":{"location":"/"},"body":"a","encoding":"base64"}`),
		Entry("1,000 arrays", nested(1000)), Entry("brackets in a text", `"`+strings.Repeat(`[\"{`, 10_000)+`"`), Entry("null", `null`),
	)

	It("in a response may be deeper", func() {
		s := start(nil, bullmqhttp.Route{}, nil)
		s.work(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, nested(10_000))
		})
		a := s.submit("Prefer", "wait=25")
		Expect(a.status).To(Equal(http.StatusOK), a.body)
		Expect(a.body == nested(10_000)).To(BeTrue())
	})
})

var _ = Describe("A path", func() {
	It("and a query reach the handler as they were sent", func() {
		s := start(nil, bullmqhttp.Route{}, nil)
		seen := make(chan []string, 1)
		s.work(func(_ http.ResponseWriter, r *http.Request) {
			seen <- []string{r.PathValue("id"), r.URL.EscapedPath(), fmt.Sprintf("%q", r.URL.Query())}
		})
		for _, c := range []struct{ target, id, path, query string }{
			{"/reports/é☃", "é☃", "/reports/%C3%A9%E2%98%83", "map[]"},
			{"/reports/%C3%A9", "é", "/reports/%C3%A9", "map[]"},
			{"/reports/..%2f..%2fjobs%2f1", "../../jobs/1", "/reports/..%2f..%2fjobs%2f1", "map[]"},
			{"/reports/%2e%2e", "..", "/reports/%2e%2e", "map[]"},
			{"/reports/a%00%0d%0ab", "a\x00\r\nb", "/reports/a%00%0d%0ab", "map[]"},
			{"/reports/a;b=1,c+d", "a;b=1,c+d", "/reports/a;b=1,c+d", "map[]"},
			{"/reports/{id}", "{id}", "/reports/%7Bid%7D", "map[]"},
			{"http://evil.example/reports/7?q=é", "7", "/reports/7", `map["q":["é"]]`},
			{"/reports/7?q=%00%0d%0a&q=+&=&__proto__=1", "7", "/reports/7", `map["":[""] "__proto__":["1"] "q":["\x00\r\n" " "]]`},
		} {
			Expect(s.one(post(c.target, "", "")).status).To(Equal(http.StatusAccepted), c.target)
			Eventually(seen).Should(Receive(Equal([]string{c.id, c.path, c.query})), c.target)
		}
	})

	It("or a query that is not UTF-8 is refused", func() {
		s := start(nil, bullmqhttp.Route{}, nil)
		for _, target := range []string{"/reports/%ff", "/reports/\xff", "/reports/a%c3", "/reports/7?q=%ff", "/reports/7?q=\xff", "/reports/7?%ff=1"} {
			a := s.one(post(target, "", ""))
			Expect(a.status).To(Equal(http.StatusBadRequest), "%q", target)
			Expect(a.code()).To(Equal(bullmqhttp.CodeInvalidRequest))
		}
		Expect(s.jobs()).To(BeZero())
	})

	It("that is not a path is refused", func() {
		s := start(nil, bullmqhttp.Route{}, nil)
		web := httptest.NewServer(s.server.Async("direct", bullmqhttp.Route{}))
		defer web.Close()
		direct := &service{queue: s.queue, url: web.URL}
		for _, target := range []string{"CONNECT example.org:80", "GET *", "CONNECT a:1"} {
			a := direct.one(target + " HTTP/1.1\r\nHost: a\r\n\r\n")
			Expect(a.status).To(Equal(http.StatusBadRequest), target)
		}
		Expect(s.jobs()).To(BeZero())
	})

	It("with a trick leads to no job", func() {
		s := start(nil, bullmqhttp.Route{}, nil)
		location := s.submit().header.Get("Location")
		id := strings.TrimPrefix(location, "/jobs/")
		for _, target := range []string{
			"/jobs/../reports/7", "/jobs/%2e%2e/reports/7", "/jobs/..%2freports", "/jobs//" + id, "//jobs/" + id, "/jobs/./" + id, "/jobs/x/../" + id,
			location + "%2fresult", location + "%2Fcancel", location + "/%2e%2e/" + id, location + "/result/", location + "//result", location + "/result/x",
			location + "%00", location + "%20", location + ";a", location + ":1", location + ".json", "/jobs/" + strings.ToLower(id), "/JOBS/" + id,
			"/jobs/1", "/jobs/-1", "/jobs/0", "/jobs/bull:" + s.queue.Name() + ":" + id, "/jobs/" + s.queue.Name() + ":1", "/jobs/meta", "/jobs/*", "/jobs/%00",
			"/jobs/" + strings.Repeat("a", 500_000), "/jobs/rq-" + strings.Repeat("/", 10_000), "/jobs/rq-" + strings.Repeat("é", 11), "/jobs/rq-\xff", "/jobs",
		} {
			for _, method := range []string{"GET", "DELETE"} {
				a := s.one(method + " " + target + " HTTP/1.1\r\nHost: a\r\n\r\n")
				Expect(a.status).To(BeElementOf(http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusMovedPermanently, http.StatusTemporaryRedirect),
					"%s %.100s", method, target)
			}
			a := s.one("POST " + target + "/cancel HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")
			if !strings.HasSuffix(target, "/"+id) { // otherwise it is a redirection
				Expect(a.status).NotTo(Equal(http.StatusAccepted), "%.100s", target)
			}
		}
		Expect(s.get(location, "").job().State).To(Equal(bullmqhttp.Queued))
	})

	It("can ask for a wait of ages, which MaxWait limits", func() {
		s := start(&bullmqhttp.Options{MaxWait: time.Second}, bullmqhttp.Route{}, nil)
		location := s.submit().header.Get("Location")
		Expect(s.get(location, "?wait=99999999999999999999").job().State).To(Equal(bullmqhttp.Queued))
		Expect(s.get(location, "/result?wait=4294967296").code()).To(Equal(bullmqhttp.CodeNotFinished))
		for _, wait := range []string{"-1", "1s", "%ff", "１", "0x1", strings.Repeat("a", 100_000)} {
			a := s.get(location, "?wait="+wait)
			Expect(a.code()).To(Equal(bullmqhttp.CodeInvalidRequest), "%.20s", wait)
			Expect(len(a.body)).To(BeNumerically("<", 1000))
		}
	})
})

var _ = Describe("An owner", func() {
	It("that is not UTF-8 is refused, because another one would be equal to it in Redis", func() {
		s := start(&bullmqhttp.Options{Owner: func(r *http.Request) (string, error) { return r.Header.Get("X-User"), nil }}, bullmqhttp.Route{}, nil)
		for _, user := range []string{"\xff", "caf\xe9"} {
			a := s.one(post("/reports/7", "X-User: "+user+"\r\n", ""))
			Expect(a.status).To(Equal(http.StatusForbidden))
			Expect(a.code()).To(Equal(bullmqhttp.CodeForbidden))
		}
		Expect(s.jobs()).To(BeZero())
		Expect(s.stored(s.one(post("/reports/7", "X-User: é\r\n", ""))).Owner).To(Equal("é"))
	})
})

var _ = Describe("A response that a hostile job stores", func() {
	It("has no effect on the client's connection", func() {
		s := start(nil, bullmqhttp.Route{}, nil)
		values := make(chan json.RawMessage, 1)
		s.workWith(func(context.Context, *bullmq.Job) (any, error) { return <-values, nil }, &bullmq.WorkerOptions{})
		for value, status := range map[string]int{
			`{"status":101}`: 500, `{"status":204,"body":"a","encoding":"text"}`: 204, `{"status":304,"body":"a","encoding":"text"}`: 304,
			`{"status":200,"headers":{"content-length":"5","connection":"upgrade"},"body":"a","encoding":"text"}`: 200,
			`{"status":200,"body":"?","encoding":"base64"}`:                                                       500, `{"status":200,"body":1,"encoding":"text"}`: 500, `{"status":1e99}`: 200, `"a"`: 200,
		} {
			values <- json.RawMessage(value)
			answers := s.raw(post("/reports/7", "Prefer: wait=25\r\n", "")+"GET /jobs/x HTTP/1.1\r\nHost: a\r\n\r\n", 2)
			Expect(answers).To(HaveLen(2), value)
			Expect(answers[0].status).To(Equal(status), value)
			Expect(answers[1].status).To(Equal(http.StatusNotFound), value)
		}
	})
})
