package bullmqpush_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmqpush"
)

// signature returns one signature as Standard Webhooks defines it.
func signature(key, id, timestamp, body string) string {
	GinkgoHelper()
	secret, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(key, "whsec_"))
	Expect(err).NotTo(HaveOccurred())
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(id + "." + timestamp + "." + body))
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

var _ = Describe("A job that is sent to an endpoint", func() {
	It("is a POST of its data, byte for byte, with signed headers about the attempt", func() {
		keys := []string{bullmqpush.NewKey(), bullmqpush.NewKey()}
		to := serve(answering(200, ""))
		queue := work(to.URL+"/hook?tenant=7", local(bullmqpush.Options{Keys: keys, Timeout: 20 * time.Second, Header: http.Header{
			"authorization": {"Bearer t"}, "Bullmq-Queue": {"other"},
		}}))
		const data = `{"b":1.0, "a":"é<&>\u00e9", "b":2}`
		begin := time.Now()
		job, err := queue.Add(specContext(), "order", json.RawMessage(data), nil)
		Expect(err).NotTo(HaveOccurred())
		inState(queue, job.ID, bullmq.StateCompleted)

		Expect(to.count()).To(Equal(1))
		request := to.received()[0]
		stored, err := queue.Job(specContext(), job.ID)
		Expect(err).NotTo(HaveOccurred())
		Expect(request.body).To(Equal(string(stored.Data)))
		h := request.header
		Expect(h.Get("Content-Type")).To(Equal("application/json"))
		Expect(h.Get("Authorization")).To(Equal("Bearer t"))
		Expect(h.Values(bullmqpush.HeaderQueue)).To(Equal([]string{queue.Name()}))
		Expect(h.Get(bullmqpush.HeaderName)).To(Equal("order"))
		Expect(h.Get(bullmqpush.HeaderAttempt)).To(Equal("1"))
		Expect(h.Get(bullmqpush.HeaderID)).To(Equal(queue.Name() + "/" + job.ID))
		deadline, err := strconv.ParseInt(h.Get(bullmqpush.HeaderDeadline), 10, 64)
		Expect(err).NotTo(HaveOccurred())
		Expect(time.UnixMilli(deadline)).To(BeTemporally("~", begin.Add(20*time.Second), 5*time.Second))
		at := h.Get(bullmqpush.HeaderTimestamp)
		seconds, err := strconv.ParseInt(at, 10, 64)
		Expect(err).NotTo(HaveOccurred())
		Expect(time.Unix(seconds, 0)).To(BeTemporally("~", begin, 5*time.Second))
		id := h.Get(bullmqpush.HeaderID)
		Expect(h.Get(bullmqpush.HeaderSignature)).To(Equal(signature(keys[0], id, at, request.body) + " " + signature(keys[1], id, at, request.body)))
	})

	It("has headers without line breaks or other letters, whatever its name and id are", func() {
		to := serve(answering(200, ""))
		queue := work(to.URL, local(bullmqpush.Options{}))
		const name, id = "näme\r\nX-Evil: 1 %41", "v1.2/ü\n3"
		job, err := queue.Add(specContext(), name, 1, &bullmq.JobOptions{JobID: id})
		Expect(err).NotTo(HaveOccurred())
		inState(queue, job.ID, bullmq.StateCompleted)
		h := to.received()[0].header
		Expect(h).NotTo(HaveKey("X-Evil"))
		Expect(url.PathUnescape(h.Get(bullmqpush.HeaderName))).To(Equal(name))
		message := h.Get(bullmqpush.HeaderID)
		Expect(message).NotTo(ContainSubstring("."))
		_, sent, _ := strings.Cut(message, "/")
		Expect(url.PathUnescape(sent)).To(Equal(id))
	})

	It("has the trace context that its producer has stored, or that the worker's Telemetry encodes", func() {
		const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		to := serve(answering(200, ""))
		o := &bullmq.JobOptions{Telemetry: &bullmq.JobTelemetry{Metadata: `{"traceparent":"` + parent + `","tracestate":"a=1\r\nb","baggage":"secret=1"}`}}
		queue := work(to.URL, local(bullmqpush.Options{}))
		inState(queue, add(queue, o).ID, bullmq.StateCompleted)
		h := to.received()[0].header
		Expect(h.Get("Traceparent")).To(Equal(parent))
		Expect(h).NotTo(HaveKey("Tracestate")) // it has a line break
		Expect(h).NotTo(HaveKey("Baggage"))

		queue = work(to.URL, local(bullmqpush.Options{Telemetry: tracer{}}))
		inState(queue, add(queue, o).ID, bullmq.StateCompleted)
		h = to.received()[1].header
		Expect(h.Get("Traceparent")).To(Equal("of the attempt"))
		Expect(h.Get("Tracestate")).To(Equal("a=1"))
	})
})

// tracer is a Telemetry that only injects.
type tracer struct{ bullmq.Telemetry }

func (tracer) Inject(context.Context) string {
	return `{"traceparent":"of the attempt","tracestate":"a=1"}`
}

var _ = Describe("The answer of an endpoint", func() {
	DescribeTable("completes the job with status 2xx, with a JSON body as the return value:", func(status int, contentType, body, want string) {
		to := serve(answering(status, body, "Content-Type", contentType))
		queue := work(to.URL, local(bullmqpush.Options{}))
		job := inState(queue, add(queue, nil).ID, bullmq.StateCompleted)
		Expect(string(job.ReturnValue)).To(Equal(want))
		Expect(job.AttemptsMade).To(Equal(1))
	},
		Entry("an object", 200, "application/json; charset=utf-8", `{"a":"<é>","n":1.0}`, `{"a":"<é>","n":1.0}`),
		Entry("a problem type", 201, "application/vnd.api+json", `[1]`, `[1]`),
		Entry("nothing", 204, "application/json", ``, `null`),
		Entry("accepted", 202, "application/json", `"later"`, `"later"`),
		Entry("another type", 200, "text/plain", `17`, `null`),
		Entry("no type", 200, "", `17`, `null`),
		Entry("what is not JSON", 200, "application/json", `OK`, `null`),
		Entry("too many brackets", 200, "application/json", strings.Repeat("[", 20000)+strings.Repeat("]", 20000), `null`),
		Entry("more brackets than other readers can parse", 200, "application/json", strings.Repeat("[", 1001)+strings.Repeat("]", 1001), `null`),
		Entry("a text that is not UTF-8", 200, "application/json", "\"\xff\"", `null`),
	)

	DescribeTable("with Retry-After runs the job again later without using an attempt:", func(status int, retryAfter func() string) {
		var calls atomic.Int32
		to := serve(func(w http.ResponseWriter, r *http.Request) {
			if calls.Add(1) == 1 {
				answering(status, "busy", "Retry-After", retryAfter())(w, r)
			}
		})
		queue := work(to.URL, local(bullmqpush.Options{}))
		job := inState(queue, add(queue, nil).ID, bullmq.StateCompleted)
		Expect(job.AttemptsMade).To(Equal(1))
		Expect(job.AttemptsStarted).To(Equal(2))
		Expect(job.FailedReason).To(BeEmpty())
		requests := to.received()
		Expect(requests).To(HaveLen(2))
		Expect(requests[1].at.Sub(requests[0].at)).To(BeNumerically(">=", 990*time.Millisecond))
		Expect(requests[1].header.Get(bullmqpush.HeaderAttempt)).To(Equal("1"))
		Expect(requests[1].header.Get(bullmqpush.HeaderID)).To(Equal(requests[0].header.Get(bullmqpush.HeaderID)))
	},
		Entry("429 and seconds", 429, func() string { return "1" }),
		Entry("503 and a date", 503, func() string { return time.Now().Add(2 * time.Second).UTC().Format(http.TimeFormat) }),
		Entry("429 and no wait", 429, func() string { return "0" }),
		Entry("429 and a date that has passed", 429, func() string { return "Mon, 02 Jan 2006 15:04:05 GMT" }),
	)

	It("with Retry-After is obeyed for at most MaxRetryAfter", func() {
		to := serve(answering(429, "", "Retry-After", "99999999999999999999"))
		queue := work(to.URL, local(bullmqpush.Options{MaxRetryAfter: time.Minute}))
		job := inState(queue, add(queue, nil).ID, bullmq.StateDelayed)
		Expect(job.Delay).To(BeNumerically("~", time.Minute, 5*time.Second))
	})

	It("with Retry-After holds back the other jobs of the host, then a single one is sent first", func() {
		var calls atomic.Int32
		to := serve(func(w http.ResponseWriter, r *http.Request) {
			switch calls.Add(1) {
			case 1:
				answering(503, "", "Retry-After", "1")(w, r)
			case 2:
				time.Sleep(300 * time.Millisecond)
			}
		})
		queue := work(to.URL, local(bullmqpush.Options{}))
		inState(queue, add(queue, nil).ID, bullmq.StateDelayed) // the answer has arrived
		var ids []string
		for range 5 {
			ids = append(ids, add(queue, nil).ID)
		}
		for _, id := range ids {
			Expect(inState(queue, id, bullmq.StateCompleted).AttemptsMade).To(Equal(1))
		}
		requests := to.received()
		Expect(requests[1].at.Sub(requests[0].at)).To(BeNumerically(">=", 990*time.Millisecond))
		Expect(requests[2].at.Sub(requests[1].at)).To(BeNumerically(">=", 290*time.Millisecond))
	})

	DescribeTable("fails the job without a retry:", func(status int, fail []int) {
		to := serve(answering(status, "no such\n order", "Retry-After", "1"))
		queue := work(to.URL+"/hook?token=secret", local(bullmqpush.Options{FailStatuses: fail}))
		job := inState(queue, add(queue, &bullmq.JobOptions{Attempts: 3}).ID, bullmq.StateFailed)
		Expect(job.AttemptsMade).To(Equal(1))
		Expect(job.FailedReason).To(Equal("bullmqpush: POST " + to.URL + "/hook: the endpoint returned " + strconv.Itoa(status) + " " +
			http.StatusText(status) + ": no such order"))
		Expect(to.count()).To(Equal(1))
	},
		Entry("410", 410, nil),
		Entry("422", 422, nil),
		Entry("a status of FailStatuses", 404, []int{404}),
		Entry("a status of FailStatuses with Retry-After", 503, []int{503}),
	)

	DescribeTable("is a failed attempt with any other status:", func(status int, fail []int, headers ...string) {
		var calls atomic.Int32
		to := serve(func(w http.ResponseWriter, r *http.Request) {
			if calls.Add(1) == 1 {
				answering(status, "", headers...)(w, r)
			}
		})
		queue := work(to.URL, local(bullmqpush.Options{FailStatuses: fail}))
		job := inState(queue, add(queue, &bullmq.JobOptions{Attempts: 2}).ID, bullmq.StateCompleted)
		Expect(job.AttemptsMade).To(Equal(2))
		Expect(to.received()[1].header.Get(bullmqpush.HeaderAttempt)).To(Equal("2"))
	},
		Entry("404", 404, nil),
		Entry("500", 500, nil),
		Entry("429 without Retry-After", 429, nil),
		Entry("503 with a Retry-After that can't be parsed", 503, nil, "Retry-After", "soon"),
		Entry("500 with Retry-After", 500, nil, "Retry-After", "60"),
		Entry("304", 304, nil),
		Entry("422 if FailStatuses is empty", 422, []int{}),
	)

	DescribeTable("is quoted in the error, without what can't be printed:", func(body, want string) {
		to := serve(answering(500, body))
		send := bullmqpush.Handler(to.URL, local(bullmqpush.Options{}))
		_, err := send(specContext(), &bullmq.Job{ID: "1", Name: "order", Data: json.RawMessage("{}")})
		Expect(err).To(MatchError("bullmqpush: POST " + to.URL + ": the endpoint returned 500 Internal Server Error" + want))
	},
		Entry("nothing", "", ""),
		Entry("bytes that are not text", "\xff\xfe", ""),
		Entry("escapes of a terminal", "a\x1b[31m\nb\x00c", ": a [31m b c"),
		Entry("the begin of a long text, which ends between characters", strings.Repeat("a", 199)+"é", ": "+strings.Repeat("a", 199)),
	)

	It("has a status that a rule of retries can examine", func() {
		to := serve(answering(404, "", "Content-Type", "text/plain"))
		handler, err := newClient(local(bullmqpush.Options{})).Handler(to.URL)
		Expect(err).NotTo(HaveOccurred())
		_, err = handler(specContext(), &bullmq.Job{ID: "1", Name: "order", Data: json.RawMessage("{}")})
		var status *bullmqpush.StatusError
		Expect(err).To(MatchError(ContainSubstring("404 Not Found")))
		Expect(errors.As(err, &status)).To(BeTrue())
		Expect(status.Status).To(Equal(404))
	})
})

var _ = Describe("A request without an answer", func() {
	It("is a failed attempt after Timeout, also if the answer has begun", func() {
		release := make(chan struct{})
		to := serve(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/begun") {
				w.WriteHeader(200)
				w.(http.Flusher).Flush()
			}
			<-release
		})
		DeferCleanup(func() { close(release) })
		for _, path := range []string{"/silent", "/begun"} {
			queue := work(to.URL+path, local(bullmqpush.Options{Timeout: 100 * time.Millisecond}))
			job := inState(queue, add(queue, nil).ID, bullmq.StateFailed)
			Expect(job.FailedReason).To(HaveSuffix(path + ": no answer in time: Timeout is 100ms"))
		}
	})

	It("is a failed attempt if there is no connection, or if it ends early", func() {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		Expect(err).NotTo(HaveOccurred())
		closed := "http://" + listener.Addr().String()
		Expect(listener.Close()).To(Succeed())
		queue := work(closed+"/?token=secret", local(bullmqpush.Options{}))
		job := inState(queue, add(queue, nil).ID, bullmq.StateFailed)
		Expect(job.FailedReason).To(And(ContainSubstring("connection refused"), Not(ContainSubstring("secret"))))

		to := serve(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("{"))
		})
		queue = work(to.URL, local(bullmqpush.Options{}))
		job = inState(queue, add(queue, nil).ID, bullmq.StateFailed)
		Expect(job.FailedReason).To(ContainSubstring("read the answer: unexpected EOF"))
	})

	It("ends when its job is cancelled", func() {
		ended := make(chan struct{})
		to := serve(func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			close(ended)
		})
		queue := work(to.URL, local(bullmqpush.Options{}))
		job := add(queue, &bullmq.JobOptions{Attempts: 3})
		Eventually(to.count).Should(Equal(1))
		_, err := queue.Cancel(specContext(), job.ID, "void")
		Expect(err).NotTo(HaveOccurred())
		Eventually(ended).Should(BeClosed())
		Expect(inState(queue, job.ID, bullmq.StateFailed).FailedReason).To(Equal("cancelled: void"))
	})
})
