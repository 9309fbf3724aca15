package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/creack/pty"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/nodeprocess"
)

var ctx = context.Background()

// fail runs the jobs of a queue, which all fail.
func (s *site) fail(queue *bullmq.Queue, jobs int) {
	GinkgoHelper()
	worker, err := bullmq.NewWorker(ctx, queue.Name(), func(_ context.Context, job *bullmq.Job) (any, error) {
		if job.Name == "sand" {
			return nil, errors.New("no sand")
		}
		return nil, errors.New("the bucket is empty")
	}, &bullmq.WorkerOptions{Connection: s.connection, Name: "painter"})
	Expect(err).NotTo(HaveOccurred())
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(running) }()
	Eventually(func() (map[bullmq.State]int, error) { return queue.Counts(ctx, bullmq.StateFailed) }).Should(HaveKeyWithValue(bullmq.StateFailed, jobs))
	stop()
	Expect(<-ended).To(Succeed())
}

// onTerminal runs the program on a terminal, types, and returns what the terminal shows.
func onTerminal(command *exec.Cmd, typed string) string {
	GinkgoHelper()
	terminal, err := pty.StartWithSize(command, &pty.Winsize{Rows: 40, Cols: 200})
	Expect(err).NotTo(HaveOccurred())
	defer terminal.Close()
	_, err = terminal.WriteString(typed)
	Expect(err).NotTo(HaveOccurred())
	shown, _ := io.ReadAll(terminal) // ends with EIO when the program has ended
	_ = command.Wait()
	return strings.ReplaceAll(string(shown), "\r\n", "\n")
}

var _ = Describe("The command", func() {
	It("lists queues and jobs as JSON, or as tables on a terminal", func() {
		s := open()
		orders := s.queue("orders")
		s.add(orders, 3, "paint", map[string]string{"color": "a\tb <&>"}, nil)
		s.add(orders, 1, "sand", nil, &bullmq.JobOptions{Delay: time.Hour})
		Expect(s.queue("mails").Pause(ctx)).To(Succeed())

		output, _ := s.run(0, "queues")
		queues := lines(output)
		Expect(queues).To(HaveLen(2))
		Expect(queues[0]).To(And(HaveKeyWithValue("name", "mails"), HaveKeyWithValue("paused", true)))
		Expect(queues[1]["counts"]).To(And(HaveKeyWithValue("waiting", 3.0), HaveKeyWithValue("delayed", 1.0)))
		output, _ = s.run(0, "queues", "ORD")
		Expect(lines(output)).To(HaveLen(1))

		output, errors := s.run(0, "jobs", "orders", "--name", "paint", "--limit", "2")
		jobs := lines(output)
		Expect(jobs).To(HaveLen(2))
		Expect(jobs[0]).To(And(HaveKeyWithValue("id", "3"), HaveKeyWithValue("state", "waiting")))
		Expect(output).To(ContainSubstring("<&>"))
		after := regexp.MustCompile(`--after (\S+)`).FindStringSubmatch(errors)
		Expect(after).To(HaveLen(2), errors)
		output, _ = s.run(0, "jobs", "orders", "--name", "paint", "--limit", "2", "--after", after[1])
		Expect(lines(output)).To(HaveLen(1))

		Expect(onTerminal(s.command("queues"), "")).To(MatchRegexp(`(?m)^QUEUE +ACTIVE.*\nmails +0 .*paused\s*\norders +0 +3 +0 +1 `))
		Expect(onTerminal(s.command("jobs", "orders", "--state", "delayed"), "")).To(MatchRegexp(`(?m)^JOB +STATE.*\n4 +delayed +sand `))
		Expect(onTerminal(s.command("jobs", "orders", "--json"), "")).To(ContainSubstring(`{"state":"`))
	})

	It("selects finished jobs by the time of their end, and retries them with their attempts cleared", func() {
		s := open()
		orders := s.queue("orders")
		s.add(orders, 3, "paint", nil, &bullmq.JobOptions{Attempts: 1})
		s.fail(orders, 3)
		count := func(arguments ...string) int {
			output, _ := s.run(0, append([]string{"jobs", "orders"}, arguments...)...)
			return len(lines(output))
		}
		Expect(count("--ended-within", "1d")).To(Equal(3))
		Expect(count("--ended-within", "1ms")).To(BeZero())
		Expect(count("--ended-before", "1d12h")).To(BeZero())
		Expect(count("--ended-before", "1ms")).To(Equal(3))
		Expect(onTerminal(s.command("job", "orders", "1"), "")).To(And(MatchRegexp(`\nended +20.*, after \d+`), ContainSubstring("\nattempts     1 of 1\n"), ContainSubstring("\nerror\n  the bucket is empty\n")))
		s.run(0, "retry", "orders", "1")
		s.run(0, "retry", "orders", "--ended-within", "7d", "--yes", "--reset-attempts")
		made := map[string]int{}
		for _, id := range []string{"1", "2", "3"} {
			job, err := orders.Job(ctx, id)
			Expect(err).NotTo(HaveOccurred())
			made[id] = job.AttemptsMade
		}
		Expect(made).To(Equal(map[string]int{"1": 1, "2": 0, "3": 0}))
	})

	It("tells that tail waits for a queue that does not exist", func() {
		s := open()
		tail := s.command("tail", "nowhere")
		session, err := gexec.Start(tail, GinkgoWriter, GinkgoWriter)
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() string { return string(session.Err.Contents()) }).Should(ContainSubstring("There is no queue nowhere with the prefix bull yet"))
		s.add(s.queue("nowhere"), 1, "paint", nil, nil)
		Eventually(func() string { return string(session.Out.Contents()) }).Should(ContainSubstring(`"event":"added"`))
		session.Interrupt()
		Eventually(session).Should(gexec.Exit(0))
	})

	It("adds a job, and shows it with its logs", func() {
		s := open()
		output, _ := s.run(0, "add", "orders", "paint", `{"color":"blue"}`, "--id", "wall-1", "--attempts", "3", "--delay", "1h")
		Expect(lines(output)).To(HaveExactElements(HaveKeyWithValue("id", "wall-1")))
		job, err := s.queue("orders").Job(ctx, "wall-1")
		Expect(err).NotTo(HaveOccurred())
		Expect(job.Options.Attempts).To(Equal(3))
		_, err = job.Log(ctx, "opens the bucket")
		Expect(err).NotTo(HaveOccurred())
		output, _ = s.run(0, "job", "orders", "wall-1")
		Expect(lines(output)).To(HaveExactElements(And(
			HaveKeyWithValue("state", "delayed"), HaveKeyWithValue("logs", ConsistOf("opens the bucket")), HaveKeyWithValue("name", "paint"))))
		Expect(onTerminal(s.command("job", "orders", "wall-1"), "")).To(And(
			MatchRegexp(`^job +wall-1 of orders\nname +paint\nstate +delayed\nadded +20\d\d-.*, .* ago\ndelay +1h0m0s\nattempts +0 of 3\n`),
			ContainSubstring("\ndata\n  {\n    \"color\": \"blue\"\n  }\n"), HaveSuffix("\nlog\n  opens the bucket\n")))
		_, errors := s.run(2, "add", "orders", "paint", "{blue}")
		Expect(errors).To(ContainSubstring("DATA is not JSON: {blue}"))
	})

	It("retries the failed jobs that match, once it has counted them and asked", func() {
		s := open()
		orders := s.queue("orders")
		s.add(orders, 5, "paint", nil, nil)
		s.add(orders, 2, "sand", nil, nil)
		s.fail(orders, 7)
		failed := func() int {
			GinkgoHelper()
			counts, err := orders.Counts(ctx, bullmq.StateFailed)
			Expect(err).NotTo(HaveOccurred())
			return counts[bullmq.StateFailed]
		}
		output, _ := s.run(0, "retry", "orders", "--error", "NO SAND", "--dry-run")
		Expect(lines(output)).To(HaveExactElements(And(HaveKeyWithValue("matched", 2.0), HaveKeyWithValue("dryRun", true))))
		_, errors := s.run(2, "retry", "orders", "--error", "no sand")
		Expect(errors).To(ContainSubstring("--yes"))
		_, errors = s.run(2, "retry", "orders")
		Expect(errors).To(ContainSubstring("--all"))
		Expect(onTerminal(s.command("retry", "orders", "--error", "no sand"), "n\n")).To(And(ContainSubstring("retry 2 jobs of orders? [y/N]"), ContainSubstring("nothing was changed")))
		Expect(failed()).To(Equal(7))
		Expect(onTerminal(s.command("retry", "orders", "--error", "no sand"), "y\n")).To(ContainSubstring("2 of 2 jobs retried"))
		Expect(failed()).To(Equal(5))
		output, _ = s.run(0, "retry", "orders", "--all", "--yes")
		Expect(lines(output)).To(HaveExactElements(And(HaveKeyWithValue("matched", 5.0), HaveKeyWithValue("done", 5.0))))
		Expect(failed()).To(BeZero())
	})

	It("acts on jobs by their ids, and names those that it can't", func() {
		s := open()
		orders := s.queue("orders")
		s.add(orders, 2, "paint", nil, nil)
		s.add(orders, 1, "paint", nil, &bullmq.JobOptions{Delay: time.Hour})
		s.run(0, "promote", "orders", "3")
		Expect(orders.JobState(ctx, "3")).To(Equal(bullmq.StateWaiting))
		output, errors := s.run(1, "promote", "orders", "3", "1")
		Expect(lines(output)).To(HaveExactElements(HaveKeyWithValue("matched", 2.0)))
		Expect(errors).To(ContainSubstring("not promoted:\n  1: the job is waiting, not delayed"))
		before := s.dump()
		output, _ = s.run(1, "promote", "orders", "1", "--dry-run")
		Expect(lines(output)).To(HaveExactElements(And(HaveKeyWithValue("matched", 1.0), HaveKeyWithValue("failed", HaveKey("1")))))
		Expect(s.dump()).To(Equal(before))
		output, _ = s.run(0, "remove", "orders", "1", "2", "--dry-run")
		Expect(lines(output)).To(HaveExactElements(And(HaveKeyWithValue("matched", 2.0), HaveKeyWithValue("done", 0.0))))
		s.run(0, "remove", "orders", "1", "2")
		Expect(orders.Counts(ctx, bullmq.StateWaiting)).To(HaveKeyWithValue(bullmq.StateWaiting, 1))
		s.run(0, "cancel", "orders", "3", "--reason", "no paint")
		job, err := orders.Job(ctx, "3")
		Expect(err).NotTo(HaveOccurred())
		Expect(job.DeferredFailure).To(Equal("cancelled: no paint"))
		_, errors = s.run(3, "remove", "orders", "17")
		Expect(errors).To(ContainSubstring("17"))
		s.run(3, "job", "orders", "17")
	})

	It("tells that the cancellation of a running job is a request", func() {
		s := open()
		orders := s.queue("orders")
		s.add(orders, 2, "paint", nil, nil)
		client := s.client()
		move := client.B().Lmove().Source("bull:orders:wait").Destination("bull:orders:active").Right().Left().Build()
		Expect(client.Do(ctx, move).Error()).To(Succeed())
		Expect(onTerminal(s.command("cancel", "orders", "1"), "")).To(And(ContainSubstring("0 of 1 job cancelled"), ContainSubstring("1 cancellation requested: a worker of BullMQ stops only if its code looks for cancellations")))
		output, _ := s.run(0, "cancel", "orders", "1", "2")
		Expect(lines(output)).To(HaveExactElements(And(HaveKeyWithValue("done", 2.0), HaveKeyWithValue("requested", 1.0))))
		_, errors := s.run(1, "cancel", "orders", "2", "--reason", strings.Repeat("x", 1001))
		Expect(errors).To(ContainSubstring("--reason is longer than 1000 bytes"))
	})

	It("pauses and resumes queues, and lists workers", func() {
		s := open()
		orders := s.queue("orders")
		s.run(0, "pause", "orders")
		Expect(orders.IsPaused(ctx)).To(BeTrue())
		s.run(0, "resume", "orders")
		Expect(orders.IsPaused(ctx)).To(BeFalse())
		_, errors := s.run(1, "pause", "none")
		Expect(errors).To(ContainSubstring("there is no queue none with the prefix bull in this database"))

		worker, err := bullmq.NewWorker(ctx, "orders", func(context.Context, *bullmq.Job) (any, error) { return nil, nil }, &bullmq.WorkerOptions{Connection: s.connection, Name: "painter"})
		Expect(err).NotTo(HaveOccurred())
		running, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- worker.Run(running) }()
		DeferCleanup(func() { stop(); Expect(<-ended).To(Succeed()) })
		Eventually(func() string { output, _ := s.run(0, "workers", "orders"); return output }).Should(And(ContainSubstring(`"name":"painter"`), ContainSubstring(`"queues":["orders"]`), ContainSubstring(`"pid":`)))
		Expect(onTerminal(s.command("workers"), "")).To(MatchRegexp(`(?m)^painter +orders `))
	})

	DescribeTable("works on the queues of Node", func(version string) {
		s := openAt(server.URL(), "bull"+version)
		start := func(script string, arguments ...string) *nodeprocess.Process {
			GinkgoHelper()
			process, err := nodeprocess.Start(script, append([]string{"-redis", server.Addr(), "-prefix", s.prefix, "-queue", "orders", "-bullmq", version}, arguments...)...)
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(process.Stop)
			return process
		}
		producer := start("producer.mjs", "-generate", "40")
		Eventually(producer.Lines(), "30s").Should(BeClosed())
		worker := start("worker.mjs", "-name", "noddy", "-fail-every", "2")
		Eventually(func() string { output, _ := s.run(0, "jobs", "orders", "--state", "failed"); return output }, "30s").Should(ContainSubstring("of this worker fails"))
		Eventually(func() string { output, _ := s.run(0, "workers"); return output }).Should(ContainSubstring("noddy"))
		output, _ := s.run(0, "workers")
		Expect(lines(output)).To(ContainElement(And(HaveKeyWithValue("name", "noddy"), HaveKeyWithValue("running", BeNil()), HaveKeyWithValue("concurrency", BeNil()), HaveKeyWithValue("address", HavePrefix("127.0.0.1:")), HaveKey("started"))))
		worker.Stop()
		output, _ = s.run(0, "retry", "orders", "--all", "--yes")
		Expect(lines(output)[0]["done"]).To(BeNumerically(">", 0))
		output, _ = s.run(0, "jobs", "orders", "--state", "failed")
		Expect(output).To(BeEmpty())
	},
		Entry("bullmq 6", "6"),
		Entry("bullmq 5", "5"),
	)

	It("lists schedulers, and follows events until it is interrupted", func() {
		s := open()
		orders := s.queue("orders")
		_, err := orders.UpsertScheduler(ctx, "nightly", bullmq.Repeat{Pattern: "0 3 * * *", TimeZone: "Europe/Paris"}, &bullmq.JobTemplate{Name: "report"})
		Expect(err).NotTo(HaveOccurred())
		_, err = orders.UpsertScheduler(ctx, "beat", bullmq.Repeat{Every: time.Hour}, &bullmq.JobTemplate{Name: "beat"})
		Expect(err).NotTo(HaveOccurred())
		output, _ := s.run(0, "schedulers", "orders")
		Expect(lines(output)).To(ConsistOf(
			And(HaveKeyWithValue("id", "nightly"), HaveKeyWithValue("pattern", "0 3 * * *"), HaveKeyWithValue("tz", "Europe/Paris"), HaveKey("next")),
			And(HaveKeyWithValue("id", "beat"), HaveKeyWithValue("everyMs", 3600000.0))))
		Expect(onTerminal(s.command("schedulers", "orders"), "")).To(MatchRegexp(`(?m)^beat +beat +every 1h0m0s +(in|due)`))

		session, err := gexec.Start(s.command("tail", "orders", "--after", "0-0"), GinkgoWriter, GinkgoWriter)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { session.Kill().Wait("10s") })
		s.add(orders, 1, "paint", nil, nil)
		Eventually(session.Out, "20s").Should(gbytes.Say(`"event":"added","job":"\d+","fields":{"name":"paint"}`))
		session.Signal(syscall.SIGTERM)
		Eventually(session, "20s").Should(gexec.Exit(0))
		Expect(string(session.Err.Contents())).To(MatchRegexp(`Continue with --after \d+-\d+`))
	})

	It("finds stranded jobs, and makes them ready again", func() {
		s := open()
		orders := s.queue("orders")
		s.add(orders, 3, "paint", nil, nil)
		client := s.client()
		Expect(client.Do(ctx, client.B().Lrem().Key("bull:orders:wait").Count(0).Element("2").Build()).Error()).To(Succeed())
		output, _ := s.run(0, "stranded", "orders")
		Expect(lines(output)).To(HaveExactElements(HaveKeyWithValue("id", "2")))
		output, _ = s.run(0, "repair", "orders", "--dry-run")
		Expect(lines(output)).To(HaveLen(1))
		_, errors := s.run(2, "repair", "orders")
		Expect(errors).To(ContainSubstring("--yes"))
		Expect(onTerminal(s.command("repair", "orders"), "n\n")).To(ContainSubstring("repair orders, which has 1 stranded job?"))
		output, _ = s.run(0, "repair", "orders", "--yes")
		Expect(lines(output)).To(HaveExactElements(And(HaveKeyWithValue("id", "2"), HaveKeyWithValue("repaired", true))))
		Expect(orders.Counts(ctx, bullmq.StateWaiting)).To(HaveKeyWithValue(bullmq.StateWaiting, 3))
		output, _ = s.run(0, "stranded", "orders")
		Expect(output).To(BeEmpty())
	})

	It("serves the dashboard until it is interrupted", func() {
		s := open()
		s.queue("orders")
		session, err := gexec.Start(s.command("dashboard", "--listen", "127.0.0.1:0"), GinkgoWriter, GinkgoWriter)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { session.Kill().Wait("10s") })
		Eventually(session.Err, "20s").Should(gbytes.Say(`at http://\S+/`))
		address := regexp.MustCompile(`http://\S+/`).FindString(string(session.Err.Contents()))
		response, err := http.Get(address)
		Expect(err).NotTo(HaveOccurred())
		text, err := io.ReadAll(response.Body)
		Expect(err).NotTo(HaveOccurred())
		Expect(response.Body.Close()).To(Succeed())
		Expect(string(text)).To(ContainSubstring(`<a href="/queues/orders">orders</a>`))
		session.Signal(syscall.SIGTERM)
		Eventually(session, "20s").Should(gexec.Exit(0))
	})

	It("never lets a job control the terminal", func() {
		s := open()
		orders := s.queue("orders")
		s.add(orders, 1, "red \x1b[31m\x07 \u202e", "\x1b]0;title\x07", nil)
		for _, arguments := range [][]string{{"queues"}, {"jobs", "orders"}, {"job", "orders", "1"}} {
			shown := onTerminal(s.command(arguments...), "")
			Expect(shown).NotTo(ContainSubstring("\x1b"), strings.Join(arguments, " "))
			Expect(shown).NotTo(ContainSubstring("\x07"), strings.Join(arguments, " "))
		}
	})
})
