package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/nodeprocess"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
	"github.com/17a2ac88/bullmq-go/internal/testkit/suite"
)

// programVariable has the path of the compiled command, for the processes of the suite.
const programVariable = "BULLMQ_TEST_PROGRAM"

func TestCommand(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(20 * time.Second)
	if os.Getenv(programVariable) == "" {
		program := filepath.Join(t.TempDir(), "bullmq")
		if output, err := exec.Command("go", "build", "-ldflags=-w", "-o", program, ".").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
		t.Setenv(programVariable, program)
	}
	suite.Run(t, "cmd/bullmq")
}

var _ = BeforeEach(suite.Select)

// server is the Redis of all specs of a process. Each has a database.
var (
	server    *redisserver.Server
	databases int
)

var _ = BeforeSuite(func() {
	var err error
	server, err = redisserver.Start(redisserver.Options{Config: []string{"databases 256"}})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(server.Close)
})

// site is a Redis of a spec.
type site struct {
	url        string
	prefix     string
	connection *bullmq.Connection
}

// open returns an empty database.
func open() *site {
	GinkgoHelper()
	databases++
	return openAt(fmt.Sprint(server.URL(), "/", databases), bullmq.DefaultPrefix)
}

func openAt(url, prefix string) *site {
	GinkgoHelper()
	connection, err := bullmq.Connect(context.Background(), url)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(connection.Close)
	return &site{url, prefix, connection}
}

func (s *site) queue(name string) *bullmq.Queue {
	GinkgoHelper()
	queue, err := bullmq.NewQueue(context.Background(), name, &bullmq.QueueOptions{Connection: s.connection, Prefix: s.prefix})
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
	if arguments[0] != "__complete" { // whose last argument is the one to complete
		arguments = append(arguments, "--prefix", s.prefix)
	}
	command := exec.Command(os.Getenv(programVariable), arguments...)
	command.Env = append(os.Environ(), "REDIS_URL="+s.url)
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

// client returns a connection to the database.
func (s *site) client() rueidis.Client {
	GinkgoHelper()
	option, err := rueidis.ParseURL(s.url)
	Expect(err).NotTo(HaveOccurred())
	option.DisableCache = true
	client, err := rueidis.NewClient(option)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(client.Close)
	return client
}

// dump returns all keys with their values.
func (s *site) dump() map[string]string {
	GinkgoHelper()
	client := s.client()
	keys, err := client.Do(ctx, client.B().Keys().Pattern("*").Build()).AsStrSlice()
	Expect(err).NotTo(HaveOccurred())
	values := map[string]string{}
	for _, key := range keys {
		values[key], err = client.Do(ctx, client.B().Dump().Key(key).Build()).ToString()
		Expect(err).NotTo(HaveOccurred())
	}
	return values
}

// driver is a program of Node that makes the calls of BullMQ. The specs of a process share it.
type driver struct {
	process *nodeprocess.Process
	calls   int
}

var drivers = map[string]*driver{} // by the version of BullMQ

// nodePrefix is the prefix of the queues of Node, in the first database.
const nodePrefix = "node"

// node is a site that only Node has used.
type node struct {
	*site
	driver *driver
}

// openNode returns an empty database, and the program for a version of BullMQ.
func openNode(version string) *node {
	GinkgoHelper()
	n := &node{openAt(server.URL(), nodePrefix), drivers[version]}
	client := n.client()
	if n.driver == nil {
		process, err := nodeprocess.Start("driver.mjs", "-redis", server.Addr(), "-prefix", nodePrefix, "-bullmq", version)
		Expect(err).NotTo(HaveOccurred())
		n.driver = &driver{process: process}
		drivers[version] = n.driver
	}
	n.call("reset", nil)
	Expect(client.Do(ctx, client.B().Flushdb().Build()).Error()).To(Succeed())
	return n
}

var _ = AfterSuite(func() {
	for _, driver := range drivers {
		driver.process.Stop()
	}
})

// call makes a call and returns its result.
func (n *node) call(operation string, arguments map[string]any) any {
	GinkgoHelper()
	d := n.driver
	d.calls++
	Expect(d.process.Send(map[string]any{"id": d.calls, "op": operation, "args": arguments})).To(Succeed())
	waiting, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	line, err := d.process.WaitFor(waiting, func(nodeprocess.Line) bool { return true })
	Expect(err).NotTo(HaveOccurred())
	var response struct {
		Result any
		Error  any
	}
	Expect(line.Decode(&response)).To(Succeed())
	Expect(response.Error).To(BeNil())
	return response.Result
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
