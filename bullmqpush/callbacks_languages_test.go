package bullmqpush_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmqpush"
	"github.com/17a2ac88/bullmq-go/internal/testkit/nodeprocess"
)

var _ = DescribeTable("An endpoint without a BullMQ client accepts jobs with 202, and reports their progress and their end by callbacks, in", Label("slow"), func(command ...string) {
	program, err := exec.LookPath(command[0])
	if err != nil {
		Skip(command[0] + " is not installed")
	}
	a := accept(setup{url: startProgram([]string{program, filepath.Join("testdata", command[1])})})
	run := func(n int) *bullmq.Job {
		job, err := a.queue.Add(specContext(), "double", map[string]int{"n": n}, &bullmq.JobOptions{Attempts: 3})
		Expect(err).NotTo(HaveOccurred())
		return job
	}
	good, bad := run(21), run(-1)
	done := inState(a.queue, good.ID, bullmq.StateCompleted)
	Expect(string(done.ReturnValue)).To(MatchJSON(`{"doubled":42}`))
	Expect(string(done.Progress)).To(MatchJSON(`{"doubling":21}`))
	failed := inState(a.queue, bad.ID, bullmq.StateFailed)
	Expect(failed.FailedReason).To(Equal("n is negative"))
	Expect(failed.AttemptsMade).To(Equal(1))
},
	Entry("Node", "node", "accept.mjs"),
	Entry("Python", "python3", "accept.py"),
)

var _ = It("An endpoint in Go finds the address for callbacks in its Delivery", func() {
	receiver := bullmqpush.Receiver{Keys: []string{bullmqpush.NewKey()}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		delivery, err := receiver.Receive(r)
		if err != nil {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.WriteHeader(http.StatusAccepted)
		go func() {
			if response, err := caller.Post(delivery.Callback+"/complete", "application/json", bytes.NewReader(delivery.Data)); err == nil {
				_ = response.Body.Close()
			}
		}()
	}))
	DeferCleanup(server.Close)
	a := accept(setup{url: server.URL, keys: receiver.Keys})
	job := add(a.queue, nil)
	Expect(string(inState(a.queue, job.ID, bullmq.StateCompleted).ReturnValue)).To(Equal(`{"id":17}`))
})

var _ = DescribeTable("A producer in Node sees the end of jobs that callbacks have completed and failed, with", Label("slow"), func(version string, dialect bullmq.Dialect) {
	node, err := nodeprocess.Find()
	if err != nil {
		Skip("cannot run a producer in Node: " + err.Error())
	}
	a := accept(setup{dialect: dialect})
	directory := GinkgoT().TempDir()
	Expect(os.CopyFS(directory, os.DirFS("testdata"))).To(Succeed())
	Expect(os.Mkdir(filepath.Join(directory, "node_modules"), 0o755)).To(Succeed())
	Expect(os.Symlink(filepath.Join(node.Directory, "node_modules", version), filepath.Join(directory, "node_modules", "bullmq"))).To(Succeed())
	command := exec.Command(node.Node, filepath.Join(directory, "producer.mjs"), a.queue.Name())
	command.Env = append(os.Environ(), "REDIS_PORT="+strconv.Itoa(redis.Port()))
	process, err := nodeprocess.Run("producer.mjs", command)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { process.Stop() })

	Eventually(a.count, "60s").Should(Equal(1), process.Stderr)
	Expect(a.call(0, "progress", `{"page":1}`)).To(beMade())
	Expect(a.call(0, "complete", `{"pages":1}`)).To(beMade())
	for attempt := 1; attempt <= 2; attempt++ {
		Eventually(a.count, "60s").Should(Equal(1+attempt), process.Stderr)
		Expect(a.call(attempt, "fail", `{"reason":"no paper","unrecoverable":`+strconv.FormatBool(attempt == 2)+`}`)).To(beMade())
	}
	var line nodeprocess.Line
	Eventually(process.Lines(), "60s").Should(Receive(&line), process.Stderr)
	Expect(line.String()).To(MatchJSON(`{
		"good":{"outcome":{"pages":1},"state":"completed","returnvalue":{"pages":1},"attemptsMade":1,"progress":{"page":1}},
		"bad":{"outcome":"no paper","state":"failed","returnvalue":null,"failedReason":"no paper","attemptsMade":2,"progress":0}
	}`))
},
	Entry("bullmq 6", "bullmq", bullmq.V6),
	Entry("bullmq 5", "bullmq5", bullmq.V5),
)
