package bullmqpush_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmqpush"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

// startReceiver runs a receiver of docs/push.md with the keys, and returns its address.
func startReceiver(language, file string, command []string, keys ...string) string {
	GinkgoHelper()
	program, err := exec.LookPath(command[0])
	if err != nil {
		Skip(command[0] + " is not installed")
	}
	page, err := os.ReadFile("../docs/push.md")
	Expect(err).NotTo(HaveOccurred())
	block := regexp.MustCompile("(?ms)^```" + language + "\n(.*?)^```$").FindSubmatch(page)
	Expect(block).NotTo(BeNil(), "docs/push.md has no receiver in %s", language)
	Expect(strings.Count(string(block[1]), "\n")).To(BeNumerically("<=", 15), "lines of the receiver")
	path := filepath.Join(GinkgoT().TempDir(), file)
	Expect(os.WriteFile(path, block[1], 0o600)).To(Succeed())
	return startProgram(append([]string{program}, append(command[1:], path)...), "PUSH_KEYS="+strings.Join(keys, " "))
}

// startProgram runs a program that listens on the port in the variable PORT, and returns its
// address.
func startProgram(command []string, environment ...string) string {
	GinkgoHelper()
	port, err := redisserver.FreePort()
	Expect(err).NotTo(HaveOccurred())
	ctx, stop := context.WithCancel(context.Background())
	process := exec.CommandContext(ctx, command[0], command[1:]...)
	process.Env = append(append(os.Environ(), fmt.Sprintf("PORT=%d", port)), environment...)
	process.Stdout, process.Stderr = GinkgoWriter, GinkgoWriter
	Expect(process.Start()).To(Succeed())
	DeferCleanup(func() {
		stop()
		_ = process.Wait()
	})
	address := fmt.Sprintf("127.0.0.1:%d", port)
	Eventually(func() error {
		connection, err := net.Dial("tcp", address)
		if err == nil {
			err = connection.Close()
		}
		return err
	}).Should(Succeed())
	return "http://" + address
}

// post sends a request to a receiver and returns the status of the response.
func post(url, body string, header http.Header) int {
	GinkgoHelper()
	request, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	Expect(err).NotTo(HaveOccurred())
	request.Header = header
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	Expect(err).NotTo(HaveOccurred())
	Expect(response.Body.Close()).To(Succeed())
	return response.StatusCode
}

var _ = DescribeTable("The receiver in docs/push.md runs jobs, accepts both keys, and refuses requests that are forged or old, in", func(language, file string, command ...string) {
	key, next, forged := bullmqpush.NewKey(), bullmqpush.NewKey(), bullmqpush.NewKey()
	url := startReceiver(language, file, command, key, next)
	for _, keys := range [][]string{{key}, {next}, {forged, next}} {
		queue := work(url, local(bullmqpush.Options{Keys: keys}))
		job, err := queue.Add(specContext(), "double", map[string]any{"n": 21, "text": "é€😀"}, &bullmq.JobOptions{JobID: "a.b"})
		Expect(err).NotTo(HaveOccurred())
		Expect(string(inState(queue, job.ID, bullmq.StateCompleted).ReturnValue)).To(MatchJSON(`{"doubled":42}`))
	}

	const body = `{"n":1}`
	Expect(post(url, body, signed("q/1", time.Now(), body, key))).To(Equal(200))
	Expect(post(url, body, signed("q/1", time.Now(), body, forged))).To(Equal(401))
	Expect(post(url, `{"n":2}`, signed("q/1", time.Now(), body, key))).To(Equal(401))
	Expect(post(url, body, signed("q/1", time.Now().Add(-6*time.Minute), body, key))).To(Equal(401))
	Expect(post(url, body, signed("q/1", time.Now().Add(6*time.Minute), body, key))).To(Equal(401))
	Expect(post(url, body, http.Header{})).To(Equal(401))
	broken, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	Expect(err).NotTo(HaveOccurred())
	_, err = broken.Write([]byte("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{"))
	Expect(err).NotTo(HaveOccurred())
	Expect(broken.(*net.TCPConn).SetLinger(0)).To(Succeed())
	Expect(broken.Close()).To(Succeed())
	odd := signed("q/1", time.Now(), body, key)
	odd.Set(bullmqpush.HeaderSignature, "v1,é")
	Expect(post(url, body, odd)).To(Equal(401))
	odd.Set(bullmqpush.HeaderTimestamp, "soon")
	Expect(post(url, body, odd)).To(Equal(401))
	Expect(post(url, body, signed("q/1", time.Now(), body, key))).To(Equal(200))
},
	Entry("Node", "js", "receiver.mjs", "node"),
	Entry("Python", "python", "receiver.py", "python3"),
)

var _ = It("docs/push.md lists each code of callbacks with its status", func() {
	page, err := os.ReadFile("../docs/push.md")
	Expect(err).NotTo(HaveOccurred())
	source, err := os.ReadFile("problem.go")
	Expect(err).NotTo(HaveOccurred())
	codes := regexp.MustCompile(`(?m)^\tCode\w+ += "(\w+)" +// (\d{3})`).FindAllStringSubmatch(string(source), -1)
	Expect(codes).To(HaveLen(12))
	for _, code := range codes {
		Expect(string(page)).To(MatchRegexp("(?m)^\\| " + code[2] + " \\|.*`" + code[1] + "`.*\\|"))
	}
})
