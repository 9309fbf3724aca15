package bullmqpush_test

import (
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmqpush"
	"github.com/17a2ac88/bullmq-go/internal/testkit/faultproxy"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

var _ = Describe("A callback while Redis can't be reached", func() {
	It("is refused with 503 and Retry-After, and logged without being sent the error", func() {
		server, err := redisserver.Start(redisserver.Options{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(server.Close)
		key, log := bullmqpush.NewKey(), &logLines{}
		callbacks := newCallbacks(bullmqpush.CallbacksOptions{Keys: []string{key}, Logger: log.logger()}, "orders", bullmq.FetcherOptions{URL: server.URL()}, bullmq.Detect)
		web := httptest.NewServer(callbacks)
		DeferCleanup(web.Close)
		address := web.URL + "/" + bullmqpush.NewTicket(key, "orders", "17", "token")
		Expect(callBack(address+"/extend", "")).To(beOver())
		Expect(callBack(address+"/retry", "")).To(beRefused(404, bullmqpush.CodeUnknownCall))
		Expect(log.String()).To(BeEmpty())
		server.Kill()
		for i, name := range allCalls {
			refused := callBack(address+"/"+name, `{"reason":"late"}`)
			Expect(refused).To(beRefused(503, bullmqpush.CodeUnavailable), name)
			Expect(refused.Header.Get("Retry-After")).To(Equal("5"))
			Expect(refused.Body).NotTo(ContainSubstring("127.0.0.1"))
			lines := strings.Split(strings.TrimSpace(log.String()), "\n")
			Expect(lines).To(HaveLen(i + 1))
			Expect(lines[i]).To(And(
				ContainSubstring("level=ERROR"), ContainSubstring("a callback failed"), ContainSubstring("call="+name), ContainSubstring("queue=orders"),
				ContainSubstring("job=17"), ContainSubstring("error="), Not(ContainSubstring("token")),
			))
		}
		Expect(server.Start()).To(Succeed()) // without its data
		Eventually(func() reply { return callBack(address+"/complete", "") }).Should(beOver())
	})

	const reason, result, page = "no-paper", "printed-17", "page-7"
	bodies := map[string]string{"complete": `"` + result + `"`, "fail": `{"reason":"` + reason + `"}`, "progress": `"` + page + `"`}
	start := func(o bullmqpush.CallbacksOptions) (*accepting, *faultproxy.Proxy, *bullmq.Job) {
		GinkgoHelper()
		proxy, err := faultproxy.Start(redis.Addr())
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(proxy.Close)
		a := accept(setup{fetcher: bullmq.FetcherOptions{URL: "redis://" + proxy.Addr()}, callbacks: o})
		job := a.add(&bullmq.JobOptions{Attempts: 2, Backoff: bullmq.FixedBackoff(time.Hour)})
		return a, proxy, job
	}

	DescribeTable("has been made if only the reply of Redis was lost, and its repetition does nothing twice:",
		func(name, content string, repeated types.GomegaMatcher, check func(a *accepting, job *bullmq.Job)) {
			a, proxy, job := start(bullmqpush.CallbacksOptions{})
			lost := proxy.LoseReply(content)
			Expect(a.call(0, name, bodies[name])).To(beRefused(503, bullmqpush.CodeUnavailable))
			Eventually(lost).Should(BeClosed())
			Eventually(func() reply { return a.call(0, name, bodies[name]) }).Should(repeated)
			check(a, job)
		},
		Entry("complete", "complete", result, beOver(), func(a *accepting, job *bullmq.Job) {
			done := inState(a.queue, job.ID, bullmq.StateCompleted)
			Expect(string(done.ReturnValue)).To(Equal(bodies["complete"]))
			Expect(done.AttemptsMade).To(Equal(1))
			Expect(a.emitted("completed")).To(Equal(1))
		}),
		Entry("fail", "fail", reason, beOver(), func(a *accepting, job *bullmq.Job) {
			delayed := inState(a.queue, job.ID, bullmq.StateDelayed)
			Expect(delayed.FailedReason).To(Equal(reason))
			Expect(delayed.AttemptsMade).To(Equal(1))
			Expect(delayed.StackTrace).To(HaveLen(1))
		}),
		Entry("progress", "progress", page, beMade(), func(a *accepting, job *bullmq.Job) {
			Expect(string(inState(a.queue, job.ID, bullmq.StateActive).Progress)).To(Equal(bodies["progress"]))
		}),
	)

	DescribeTable("has not been made if the command was lost, and is made when it is repeated:",
		func(name, content string, state bullmq.State) {
			a, proxy, job := start(bullmqpush.CallbacksOptions{})
			lost := proxy.LoseCommand(content)
			Expect(a.call(0, name, bodies[name])).To(beRefused(503, bullmqpush.CodeUnavailable))
			Eventually(lost).Should(BeClosed())
			inState(a.queue, job.ID, bullmq.StateActive)
			Eventually(func() reply { return a.call(0, name, bodies[name]) }).Should(beMade())
			Expect(inState(a.queue, job.ID, state).AttemptsStarted).To(Equal(1))
		},
		Entry("complete", "complete", result, bullmq.StateCompleted),
		Entry("fail", "fail", reason, bullmq.StateDelayed),
		Entry("progress", "progress", page, bullmq.StateActive),
	)

	It("is refused with 503 after CallbacksOptions.Timeout if Redis does not reply, and made when it is repeated", func() {
		a, proxy, job := start(bullmqpush.CallbacksOptions{Timeout: 500 * time.Millisecond})
		Expect(proxy.Set(faultproxy.Faults{BlackHole: true})).To(Succeed())
		Expect(a.call(0, "extend", "")).To(beRefused(503, bullmqpush.CodeUnavailable))
		Expect(a.call(0, "fail", bodies["fail"])).To(beRefused(503, bullmqpush.CodeUnavailable))
		Expect(proxy.Set(faultproxy.Faults{})).To(Succeed())
		inState(a.queue, job.ID, bullmq.StateActive)
		Eventually(func() reply { return a.call(0, "complete", bodies["complete"]) }).Should(Or(beMade(), beOver()))
		Expect(string(inState(a.queue, job.ID, bullmq.StateCompleted).ReturnValue)).To(Equal(bodies["complete"]))
	})

	It("is carried out although its caller has gone away", func() {
		a, proxy, job := start(bullmqpush.CallbacksOptions{})
		Expect(proxy.Set(faultproxy.Faults{Delay: 50 * time.Millisecond})).To(Succeed())
		connection, err := net.Dial("tcp", strings.TrimPrefix(a.callbacks.URL, "http://"))
		Expect(err).NotTo(HaveOccurred())
		path := strings.TrimPrefix(a.address(0), a.callbacks.URL)
		_, err = io.WriteString(connection, "POST "+path+"/complete HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n17")
		Expect(err).NotTo(HaveOccurred())
		Expect(connection.Close()).To(Succeed())
		Expect(string(inState(a.queue, job.ID, bullmq.StateCompleted).ReturnValue)).To(Equal("17"))
	})
})
