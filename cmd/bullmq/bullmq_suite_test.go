package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
	"github.com/17a2ac88/bullmq-go/internal/testkit/suite"
)

func TestCommand(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(20 * time.Second)
	suite.RunWhole(t, "cmd/bullmq")
}

// program is the compiled command.
var program string

var _ = BeforeSuite(func() {
	program = filepath.Join(GinkgoT().TempDir(), "bullmq")
	output, err := exec.Command("go", "build", "-ldflags=-w", "-o", program, ".").CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(output))
})

// site is a Redis of a spec.
type site struct {
	redis      *redisserver.Server
	connection *bullmq.Connection
}

func open() *site {
	GinkgoHelper()
	redis, err := redisserver.Start(redisserver.Options{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(redis.Close)
	connection, err := bullmq.Connect(context.Background(), redis.URL())
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(connection.Close)
	return &site{redis, connection}
}

func (s *site) queue(name string) *bullmq.Queue {
	GinkgoHelper()
	queue, err := bullmq.NewQueue(context.Background(), name, &bullmq.QueueOptions{Connection: s.connection})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(queue.Close)
	return queue
}

// add adds jobs with a name and data.
func (s *site) add(queue *bullmq.Queue, count int, name string, data any, options *bullmq.JobOptions) {
	GinkgoHelper()
	jobs := make([]bullmq.BulkJob, count)
	for i := range jobs {
		jobs[i] = bullmq.BulkJob{Name: name, Data: data, Options: options}
	}
	_, err := queue.AddBulk(context.Background(), jobs)
	Expect(err).NotTo(HaveOccurred())
}

// command returns the program with arguments.
func (s *site) command(arguments ...string) *exec.Cmd {
	command := exec.Command(program, arguments...)
	command.Env = append(os.Environ(), "REDIS_URL="+s.redis.URL())
	return command
}

// run runs the program until it ends, and returns its output.
func (s *site) run(code int, arguments ...string) (output, errors string) {
	GinkgoHelper()
	session, err := gexec.Start(s.command(arguments...), GinkgoWriter, GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
	Eventually(session, "30s").Should(gexec.Exit(code))
	return string(session.Out.Contents()), string(session.Err.Contents())
}

// lines decodes the output, a value of JSON in each line.
func lines(output string) (all []map[string]any) {
	GinkgoHelper()
	for line := range strings.Lines(output) {
		var value map[string]any
		Expect(json.Unmarshal([]byte(line), &value)).To(Succeed(), line)
		all = append(all, value)
	}
	return all
}
