package bullmqpush_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmqpush"
)

var _ = DescribeTable("Each callback is refused with ATTEMPT_ENDED, and changes nothing,", func(end func(a *accepting, job *bullmq.Job) (address string)) {
	a := accept(setup{})
	job := a.add(&bullmq.JobOptions{Attempts: 3})
	address := end(a, job)
	before, events := command(redis, "HGETALL", job.Key()), a.emitted("completed")
	for _, name := range allCalls {
		refused := callBack(address+"/"+name, `{"reason":"late"}`)
		Expect(refused).To(beOver(), name)
		Expect(refused.Detail).To(Equal("the attempt has ended"))
	}
	Expect(command(redis, "HGETALL", job.Key())).To(Equal(before))
	Expect(a.emitted("completed")).To(Equal(events))
	Expect(a.emitted("progress")).To(BeZero())
	Expect(a.emitted("failed")).To(BeZero())
},
	Entry("after the job was completed", func(a *accepting, _ *bullmq.Job) string {
		Expect(a.call(0, "complete", "1")).To(beMade())
		return a.address(0)
	}),
	Entry("after the job was failed and runs again", func(a *accepting, _ *bullmq.Job) string {
		Expect(a.call(0, "fail", "")).To(beMade())
		Eventually(a.count).Should(Equal(2))
		return a.address(0)
	}),
	Entry("after the lock has expired", func(a *accepting, job *bullmq.Job) string {
		expire(job)
		return a.address(0)
	}),
	Entry("after the job was removed", func(a *accepting, job *bullmq.Job) string {
		expire(job)
		Expect(a.queue.Remove(specContext(), job.ID, nil)).To(Succeed())
		return a.address(0)
	}),
	Entry("with the token of another attempt", func(a *accepting, job *bullmq.Job) string {
		return a.callbacks.URL + "/" + bullmqpush.NewTicket(a.key, a.queue.Name(), job.ID, "another")
	}),
	Entry("for a job that does not exist", func(a *accepting, _ *bullmq.Job) string {
		return a.callbacks.URL + "/" + bullmqpush.NewTicket(a.key, a.queue.Name(), "unknown", "token")
	}),
)

var _ = Describe("A callback that is not valid", func() {
	It("is refused, and the job stays active", func() {
		a := accept(setup{callbacks: bullmqpush.CallbacksOptions{MaxBody: 2100}})
		deep := strings.Repeat("[", 1001) + strings.Repeat("]", 1001) // more than other readers can parse
		job := a.add(nil)
		address := a.address(0)
		Expect(address).To(HavePrefix(a.callbacks.URL + "/jobs/"))
		ticket := strings.TrimPrefix(address, a.callbacks.URL+"/jobs/")
		content, signature, _ := strings.Cut(ticket, ".")
		for _, forged := range []string{
			"", ".", content, content + ".", "." + signature, content + "A." + signature, content + "." + signature[1:], "%2e%2e", ticket + "A", ticket + ".",
			bullmqpush.NewTicket(bullmqpush.NewKey(), a.queue.Name(), job.ID, "token"),
		} {
			Expect(callBack(a.callbacks.URL+"/jobs/"+forged+"/complete", "")).To(beRefused(404, bullmqpush.CodeInvalidAddress), forged)
		}
		Expect(callBack(a.callbacks.URL, "")).To(beRefused(404, bullmqpush.CodeInvalidAddress))
		for _, path := range []string{"/", "/retry", "/Complete", "/complete%20"} {
			Expect(callBack(address+path, "")).To(beRefused(404, bullmqpush.CodeUnknownCall), path)
		}
		for _, c := range []struct {
			name, body string
			status     int
			code       string
		}{
			{"complete", "{", 400, bullmqpush.CodeInvalidBody},
			{"complete", "1 2", 400, bullmqpush.CodeInvalidBody},
			{"complete", "\"\xff\"", 400, bullmqpush.CodeInvalidBody},
			{"complete", deep, 400, bullmqpush.CodeInvalidBody},
			{"progress", deep, 400, bullmqpush.CodeInvalidBody},
			{"complete", strings.Repeat(" ", 2101), 413, bullmqpush.CodeTooLarge},
			{"extend", strings.Repeat("1", 2101), 413, bullmqpush.CodeTooLarge},
			{"complete", `"` + strings.Repeat("a", 32<<10) + `"`, 413, bullmqpush.CodeTooLarge},
			{"fail", "17", 400, bullmqpush.CodeInvalidBody},
			{"fail", `{"reason":17}`, 400, bullmqpush.CodeInvalidBody},
			{"fail", `{"unrecoverable":"yes"}`, 400, bullmqpush.CodeInvalidBody},
			{"progress", "", 400, bullmqpush.CodeInvalidBody},
			{"progress", "half", 400, bullmqpush.CodeInvalidBody},
			{"extend", "half", 400, bullmqpush.CodeInvalidBody},
		} {
			Expect(a.call(0, c.name, c.body)).To(beRefused(c.status, c.code), c.name+" "+c.body[:min(len(c.body), 30)])
		}
		for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete} {
			request, err := http.NewRequest(method, address+"/complete", nil)
			Expect(err).NotTo(HaveOccurred())
			response, err := caller.Do(request)
			Expect(err).NotTo(HaveOccurred())
			refused := readReply(response)
			Expect(refused).To(beRefused(405, bullmqpush.CodeMethodNotAllowed), method)
			Expect(refused.Header.Get("Allow")).To(Equal("POST"))
		}
		Expect(a.emitted("progress")).To(BeZero())
		inState(a.queue, job.ID, bullmq.StateActive)
		Expect(a.call(0, "complete", `"`+strings.Repeat("a", 2098)+`"`)).To(beMade()) // MaxBody bytes
	})

	It("is refused at the callbacks of another queue", func() {
		a, other := accept(setup{}), accept(setup{})
		job := a.add(nil)
		ticket := strings.TrimPrefix(a.address(0), a.callbacks.URL)
		foreign := httptest.NewServer(newCallbacks(bullmqpush.CallbacksOptions{Keys: []string{a.key}}, other.queue.Name(), bullmq.FetcherOptions{}, bullmq.Detect))
		DeferCleanup(foreign.Close)
		for _, url := range []string{other.callbacks.URL, foreign.URL} {
			Expect(callBack(url+ticket+"/complete", "")).To(beRefused(404, bullmqpush.CodeInvalidAddress))
		}
		inState(a.queue, job.ID, bullmq.StateActive)
		Expect(a.call(0, "complete", "")).To(beMade())
	})

	It("is refused after CallbacksOptions.Timeout even if its body does not arrive and its address is not valid", func() {
		a := accept(setup{callbacks: bullmqpush.CallbacksOptions{Timeout: 300 * time.Millisecond}})
		connection, err := net.Dial("tcp", strings.TrimPrefix(a.callbacks.URL, "http://"))
		Expect(err).NotTo(HaveOccurred())
		defer connection.Close()
		Expect(connection.SetReadDeadline(time.Now().Add(20 * time.Second))).To(Succeed())
		_, err = io.WriteString(connection, "POST /jobs/x.y/complete HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n")
		Expect(err).NotTo(HaveOccurred())
		response, err := http.ReadResponse(bufio.NewReader(connection), nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(readReply(response)).To(beRefused(404, bullmqpush.CodeInvalidAddress))
	})

	DescribeTable("is refused if its body does not arrive:", func(timeout time.Duration, end func(c *net.TCPConn) error, status int, code string) {
		a := accept(setup{callbacks: bullmqpush.CallbacksOptions{Timeout: timeout}})
		job := a.add(nil)
		connection, err := net.Dial("tcp", strings.TrimPrefix(a.callbacks.URL, "http://"))
		Expect(err).NotTo(HaveOccurred())
		defer connection.Close()
		path := strings.TrimPrefix(a.address(0), a.callbacks.URL)
		_, err = io.WriteString(connection, "POST "+path+"/complete HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{\"pages\":")
		Expect(err).NotTo(HaveOccurred())
		Expect(end(connection.(*net.TCPConn))).To(Succeed())
		response, err := http.ReadResponse(bufio.NewReader(connection), nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(readReply(response)).To(beRefused(status, code))
		inState(a.queue, job.ID, bullmq.StateActive)
	},
		Entry("it is too slow", 300*time.Millisecond, func(*net.TCPConn) error { return nil }, 408, bullmqpush.CodeTooSlow),
		Entry("it ends too early", time.Minute, (*net.TCPConn).CloseWrite, 400, bullmqpush.CodeInvalidBody),
	)
})

var _ = Describe("A callback of a failure whose retry can't be computed", func() {
	It("is refused with 503 and logged, and the job stays as it is until the Fetcher has a BackoffStrategy", func() {
		log := &logLines{}
		a := accept(setup{callbacks: bullmqpush.CallbacksOptions{Logger: log.logger()}})
		job := a.add(&bullmq.JobOptions{Attempts: 2, Backoff: bullmq.CustomBackoff("tide")})
		refused := a.call(0, "fail", `{"reason":"ebb"}`)
		Expect(refused).To(beRefused(503, bullmqpush.CodeUnavailable))
		Expect(log.String()).To(And(ContainSubstring(`unknown backoff type`), ContainSubstring("tide"), ContainSubstring("job="+job.ID)))
		inState(a.queue, job.ID, bullmq.StateActive)

		strategy := func(int, string, error, *bullmq.Job) time.Duration { return time.Hour }
		mended := httptest.NewServer(newCallbacks(bullmqpush.CallbacksOptions{Keys: []string{a.key}}, a.queue.Name(), bullmq.FetcherOptions{BackoffStrategy: strategy}, bullmq.Detect))
		DeferCleanup(mended.Close)
		path := strings.TrimPrefix(a.address(0), a.callbacks.URL)
		Expect(callBack(mended.URL+path+"/fail", `{"reason":"ebb"}`)).To(beMade())
		Expect(inState(a.queue, job.ID, bullmq.StateDelayed).FailedReason).To(Equal("ebb"))
	})
})
