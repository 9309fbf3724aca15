package examples_test

import (
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"

	"github.com/17a2ac88/bullmq-go/internal/testkit/leaks"
	"github.com/17a2ac88/bullmq-go/internal/testkit/nodeprocess"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
	"github.com/17a2ac88/bullmq-go/internal/testkit/suite"
)

func TestExamples(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(10 * time.Second)
	suite.RunWhole(t, "Examples")
}

var _ = BeforeEach(leaks.Check)

// programs is the directory of the compiled examples. redis is the server for those that need one.
var (
	programs string
	redis    *redisserver.Server
)

var _ = BeforeSuite(func() {
	programs = GinkgoT().TempDir()
	// telemetry is a separate module, which ./... leaves out.
	for _, build := range [][]string{{"build", "-ldflags=-w", "-o", programs + "/", "./..."}, {"build", "-C", "telemetry", "-ldflags=-w", "-o", programs + "/", "."}} {
		output, err := exec.Command("go", build...).CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), string(output))
	}
	var err error
	redis, err = redisserver.Start(redisserver.Options{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(redis.Close)
})

// run starts an example with the suite's Redis and additional environment variables.
func run(name string, arguments []string, environment ...string) *gexec.Session {
	GinkgoHelper()
	command := exec.Command(filepath.Join(programs, name), arguments...)
	command.Env = append(append(os.Environ(), "REDIS_URL="+redis.URL()), environment...)
	session, err := gexec.Start(command, io.Discard, GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { session.Kill().Wait(10 * time.Second) })
	return session
}

// node starts a Node program on a queue.
func node(script, queue string, arguments ...string) *nodeprocess.Process {
	GinkgoHelper()
	process, err := nodeprocess.Start(script, append([]string{"-redis", redis.Addr(), "-queue", queue}, arguments...)...)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(process.Stop)
	return process
}

// nodeExample starts a Node program of an example, with a version of BullMQ of interop/node.
func nodeExample(example, program, bullmq string) *nodeprocess.Process {
	GinkgoHelper()
	installation, err := nodeprocess.Find()
	Expect(err).NotTo(HaveOccurred())
	directory := GinkgoT().TempDir()
	text, err := os.ReadFile(filepath.Join(example, program))
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(filepath.Join(directory, program), text, 0o600)).To(Succeed())
	Expect(os.Mkdir(filepath.Join(directory, "node_modules"), 0o755)).To(Succeed())
	for name, of := range map[string]string{"bullmq": bullmq, "ioredis": "ioredis"} {
		Expect(os.Symlink(filepath.Join(installation.Directory, "node_modules", of), filepath.Join(directory, "node_modules", name))).To(Succeed())
	}
	_, port, err := net.SplitHostPort(redis.Addr())
	Expect(err).NotTo(HaveOccurred())
	command := exec.Command(installation.Node, filepath.Join(directory, program))
	command.Env = append(os.Environ(), "REDIS_PORT="+port)
	process, err := nodeprocess.Run(program, command)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(process.Stop)
	return process
}

// nodeAdds adds jobs with Node and waits until they are added.
func nodeAdds(ctx SpecContext, queue string, jobs ...map[string]any) {
	GinkgoHelper()
	producer := node("producer.mjs", queue)
	for _, job := range jobs {
		Expect(producer.Send(job)).To(Succeed())
	}
	Expect(producer.CloseInput()).To(Succeed())
	Expect(producer.Wait(ctx)).To(BeZero(), producer.Stderr())
}

const timeout = 40 * time.Second

var _ = Describe("An example", func() {
	It("quickstart runs without Redis and Node and ends by itself", func() {
		session := run("quickstart", nil, "PATH=", "REDIS_URL=")
		Eventually(session, timeout).Should(gexec.Exit(0))
		Expect(session.Out).To(gbytes.Say(`cooks soufflé, attempt 2`))
		Expect(session.Out).To(gbytes.Say(`completed \{"served":"ice cream"\}`))
		Expect(session.Out).To(gbytes.Say(`all four dishes are served`))
	})

	It("consume runs the jobs that Node adds, tail reports them, and both end on a signal", func(ctx SpecContext) {
		tail := run("tail", []string{"orders", "0-0"})
		consume := run("consume", nil)
		nodeAdds(ctx, "orders",
			map[string]any{"name": "paint", "data": map[string]any{"colour": "red", "coats": 2}},
			map[string]any{"name": "sand", "opts": map[string]any{"attempts": 3}})
		Eventually(consume.Out, timeout).Should(gbytes.Say(`2 coats of red`))
		Eventually(tail.Out, timeout).Should(gbytes.Say(`failed: bullmq: no handler for the job's name: "sand"|completed with \{"painted":"red"\}`))
		Eventually(tail.Out, timeout).Should(gbytes.Say(`failed: bullmq: no handler for the job's name: "sand"|completed with \{"painted":"red"\}`))
		Eventually(consume.Interrupt(), timeout).Should(gexec.Exit(0))
		Eventually(tail.Interrupt(), timeout).Should(gexec.Exit(0))
		Expect(tail.Out).To(gbytes.Say(`continue after \d+-\d+`))
	})

	It("produce adds jobs that a Node worker runs", func(ctx SpecContext) {
		worker := node("worker.mjs", "mail", "-concurrency", "10")
		Eventually(run("produce", nil), timeout).Should(gexec.Exit(0))
		for range 506 { // all jobs except the delayed one
			_, err := worker.WaitFor(ctx, func(line nodeprocess.Line) bool {
				var reported struct {
					Event string
					Data  struct{ To string }
				}
				return line.Decode(&reported) == nil && reported.Event == "completed" && reported.Data.To != ""
			})
			Expect(err).NotTo(HaveOccurred())
		}
	}, SpecTimeout(60*time.Second))

	It("results distinguishes a result from a failure", func() {
		session := run("results", nil)
		Eventually(session, timeout).Should(gexec.Exit(0))
		Expect(session.Out).To(gbytes.Say(`84 / 2 = 42`))
		Expect(session.Out).To(gbytes.Say(`1 / 0 fails: panic: runtime error: integer divide by zero`))
	})

	It("retries handles each job according to its error", func() {
		session := run("retries", nil)
		Eventually(session, timeout).Should(gexec.Exit(0))
		output := string(session.Out.Contents())
		Expect(output).To(ContainSubstring(`flaky        ends with "ok"`))
		Expect(output).To(ContainSubstring("hopeless     attempt 1 of 3"))
		Expect(output).To(ContainSubstring("not-found    attempt 1 of 3"))
		Expect(output).NotTo(MatchRegexp("(hopeless|not-found) +attempt 2"))
		Expect(output).To(ContainSubstring(`overloaded   ends with "ok"`))
	})

	It("ratelimit slows the queue down", func() {
		begun := time.Now()
		session := run("ratelimit", nil)
		Eventually(session, timeout).Should(gexec.Exit(0))
		// Three jobs start at once and three after a second. The rest waits two more seconds. How many of the
		// second three start before the first of them sets the rate limit depends on timing.
		Expect(time.Since(begun)).To(BeNumerically(">", 2900*time.Millisecond))
		Expect(session.Out).To(gbytes.Say(`sets a limit`))
	})

	It("flow packs the articles that could be picked", func() {
		session := run("flow", nil)
		Eventually(session, timeout).Should(gexec.Exit(0))
		Expect(session.Out).To(gbytes.Say(`left out: there is no unicorn`))
		Expect(session.Out).To(gbytes.Say(`the parcel weighs 350 g`))
	})

	It("chain passes results from step to step", func() {
		session := run("chain", nil)
		Eventually(session, timeout).Should(gexec.Exit(0))
		output := string(session.Out.Contents())
		Expect(output).To(ContainSubstring("8 words: a rose is"))
		Expect(output).To(ContainSubstring("4 words: an old"))
		Expect(output).To(HaveSuffix("published: 12 words in all\n"))
	})

	It("scheduler creates its jobs at intervals up to its limit", func() {
		session := run("scheduler", nil)
		Eventually(session, timeout).Should(gexec.Exit(0))
		output := string(session.Out.Contents())
		Expect(output).To(MatchRegexp(`the first report is due at \d{4}-`))
		Expect(strings.Count(output, "ran repeat:beat:")).To(Equal(5))
		Expect(output).To(HaveSuffix("removed beat\nremoved report\n"))
	})

	It("shutdown loses no job on a signal", func() {
		session := run("shutdown", nil)
		Eventually(session.Out, timeout).Should(gbytes.Say(`sleeps for 1m0s`))
		Eventually(session.Terminate(), timeout).Should(gexec.Exit(0))
		output := string(session.Out.Contents())
		Expect(output).To(ContainSubstring("job 1 is done"))
		Expect(output).To(ContainSubstring("job 3 stops: bullmq: the worker shuts down"))
		Expect(output).To(ContainSubstring("every job is done or back in the queue"))
	})

	It("controls changes a running worker and returns its jobs at the end", func() {
		session := run("controls", nil)
		Eventually(session, timeout).Should(gexec.Exit(0))
		output := string(session.Out.Contents())
		Expect(output).To(MatchRegexp(`worker .* serves \[renders\] and runs \d of \d jobs`))
		Expect(output).To(ContainSubstring("failed: job 1 bullmq: the job is cancelled: the customer is gone"))
		Expect(output).To(MatchRegexp(`(?s)paused.*resumed.*active: job 4`))
		Expect(output).To(ContainSubstring("3 jobs are cancelled"))
		Expect(output).To(MatchRegexp(`(?s)closing\n.*closed\n$`)) // the worker reports closing beside the program's own lines
		Expect(output).NotTo(MatchRegexp(`failed: job [234]`))
	})

	It("telemetry shows the request, its job and both attempts in one trace", func() {
		session := run("telemetry", nil)
		Eventually(session, timeout).Should(gexec.Exit(0))
		output := string(session.Out.Contents())
		trace := regexp.MustCompile(`the request's trace is (.{8})`).FindStringSubmatch(output)
		Expect(trace).To(HaveLen(2))
		for name, times := range map[string]int{"POST /orders": 1, "add invoices.write": 1, "process invoices": 2, "SELECT orders": 2, "retry invoices": 1, "complete invoices": 1} {
			Expect(strings.Count(output, name+"\n")).To(Equal(times), name)
			Expect(regexp.MustCompile("trace "+trace[1]+"….*: "+name).FindAllString(output, -1)).To(HaveLen(times), name)
		}
	})

	It("manual fetches jobs one by one and ends on a signal", func(ctx SpecContext) {
		nodeAdds(ctx, "orders", map[string]any{"name": "first"}, map[string]any{"name": "second"})
		session := run("manual", nil)
		Eventually(session.Out, timeout).Should(gbytes.Say(`\(first\): part 3 of 3`))
		Eventually(session.Out, timeout).Should(gbytes.Say(`\(second\): part 3 of 3`))
		Eventually(session.Signal(syscall.SIGINT), timeout).Should(gexec.Exit(0))
	})

	DescribeTable("routing gives jobs that need a GPU to Go, and the others to Node, with", func(ctx SpecContext, bullmq string) {
		routing := run("routing", nil)
		Eventually(routing.Out, timeout).Should(gbytes.Say(`waiting`))
		worker := nodeExample("routing", "worker.mjs", bullmq)
		producer := nodeExample("routing", "producer.mjs", bullmq)
		Expect(producer.Wait(ctx)).To(BeZero(), producer.Stderr())
		for _, file := range []string{"cat", "dog", "owl"} {
			Eventually(func() string { return string(routing.Out.Contents()) }, timeout).Should(ContainSubstring("render of images@gpu: rendered " + file))
			var ran struct{ Name, File string }
			_, err := worker.WaitFor(ctx, func(line nodeprocess.Line) bool { return line.Decode(&ran) == nil })
			Expect(err).NotTo(HaveOccurred())
			Expect(ran.Name + " " + ran.File).To(Equal("thumbnail " + file + ".png"))
		}
		Eventually(routing.Interrupt(), timeout).Should(gexec.Exit(0))
		Expect(string(routing.Out.Contents())).NotTo(ContainSubstring("thumbnail"))
	}, Entry("bullmq 6", "bullmq", SpecTimeout(60*time.Second)), Entry("bullmq 5", "bullmq5", SpecTimeout(60*time.Second)))

	DescribeTable("httpjobs replies 202 by one changed line, and has Node run one of its routes, with", func(ctx SpecContext, bullmq string) {
		worker := nodeExample("httpjobs", "worker.mjs", bullmq)
		session := run("httpjobs", nil)
		Eventually(session, timeout).Should(gexec.Exit(0))
		for _, next := range []string{
			`synchronous:\n  POST /reports/7\n    201 after \d{3,} ms: {"report":"7","year":2026,"by":"Go"}\n  POST /charts/7\n    201 after \d{3,} ms: {"chart":"7","year":2026,"by":"Go"}\n`,
			`same handler:\n  POST /reports/7\n    202 after \d+ ms: job rq-\S+ is queued\n`,
			`  GET /report-jobs/rq-\S+\?wait=20\n    200 after \d+ ms: job rq-\S+ has succeeded with status 201\n`,
			`  GET /report-jobs/rq-\S+/result\n    201 after \d+ ms: {"report":"7","year":2026,"by":"Go"}\n`,
			`in Node:\n  POST /charts/7\n    202 after \d+ ms: job rq-\S+ is queued\n`,
			`  GET /chart-jobs/rq-\S+\?wait=20\n    200 after \d+ ms: job rq-\S+ has succeeded with status 201\n`,
			`  GET /chart-jobs/rq-\S+/result\n    201 after \d+ ms: {"chart":"7","year":2026,"by":"Node"}\n`,
		} {
			Expect(session.Out).To(gbytes.Say(next))
		}
		_, err := worker.WaitFor(ctx, func(line nodeprocess.Line) bool { return line.String() == `{"ran":"POST /charts/7"}` })
		Expect(err).NotTo(HaveOccurred())
	}, Entry("bullmq 6", "bullmq", SpecTimeout(60*time.Second)), Entry("bullmq 5", "bullmq5", SpecTimeout(60*time.Second)))

	It("demo prints plain lines without a terminal and ends within 15 s because all accounts agree", func() {
		session := run("demo", nil)
		Eventually(session, 15*time.Second).Should(gexec.Exit(0))
		Expect(string(session.Out.Contents())).NotTo(ContainSubstring("\x1b"))
		Expect(session.Out).To(gbytes.Say(`orders: 7 added by Node; run by Go: 6 completed, 1 failed, 3 retried`))
		Expect(session.Out).To(gbytes.Say(`mails: 8 added by Go; run by Node: 7 completed, 1 failed, 2 retried`))
		Expect(session.Out).To(gbytes.Say(`right: the ledger balances`))
	})

	It("demo names what is missing and fails where it cannot run", func() {
		session := run("demo", nil, redisserver.BinaryVariable+"=no-such-redis-server")
		Eventually(session, timeout).Should(gexec.Exit(1))
		Expect(session.Err).To(gbytes.Say(redisserver.BinaryVariable))
	})
})
