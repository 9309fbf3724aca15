package main_test

import (
	"fmt"
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmqpush"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

var _ = It("The command serves callbacks, which end jobs that an endpoint has accepted, also after a restart", func() {
	key, callbackKey := bullmqpush.NewKey(), bullmqpush.NewKey()
	queue := newQueue()
	to := serve(key, answering(202, ""))
	port, err := redisserver.FreePort()
	Expect(err).NotTo(HaveOccurred())
	address := fmt.Sprintf("127.0.0.1:%d", port)
	run := func() *gexec.Session {
		GinkgoHelper()
		session := start([]string{"BULLMQPUSH_KEYS=" + key, "BULLMQPUSH_CALLBACK_KEYS=" + callbackKey},
			"-redis", redis.URL(), "-allow-http", "-allowed-networks", "127.0.0.1", "-queue", queue.Name()+"="+to.URL, "-concurrency", "1",
			"-callback-url", "http://"+address+"/callbacks", "-callback-listen", address, "-callback-wait", "10m")
		listening(session)
		return session
	}
	call := func(n int, name, body string) int {
		GinkgoHelper()
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		response, err := client.Post(to.header(n).Get(bullmqpush.HeaderCallback)+"/"+name, "application/json", strings.NewReader(body))
		Expect(err).NotTo(HaveOccurred())
		Expect(response.Body.Close()).To(Succeed())
		return response.StatusCode
	}
	session := run()
	first, second := add(queue, nil), add(queue, nil)
	Eventually(to.count).Should(Equal(2)) // with a concurrency of 1, so the first one is accepted
	Expect(to.header(0).Get(bullmqpush.HeaderCallback)).To(HavePrefix("http://" + address + "/callbacks/"))
	Expect(call(0, "progress", `{"page":1}`)).To(Equal(204))
	Expect(call(0, "complete", `{"pages":3}`)).To(Equal(204))
	Expect(string(inState(queue, first.ID, bullmq.StateCompleted).ReturnValue)).To(Equal(`{"pages":3}`))
	Expect(call(0, "complete", "")).To(Equal(409))

	Eventually(session.Terminate()).Should(gexec.Exit(0))
	inState(queue, second.ID, bullmq.StateActive)
	session = run()
	Expect(call(1, "fail", `{"reason":"no paper","unrecoverable":true}`)).To(Equal(204))
	Expect(inState(queue, second.ID, bullmq.StateFailed).FailedReason).To(ContainSubstring("no paper"))
	Expect(to.count()).To(Equal(2))
	Eventually(session.Terminate()).Should(gexec.Exit(0))
})
