package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("The commands for one job", func() {
	It("edit and duplicate a job of Node", func() {
		n := openNode("6")
		n.call("add", map[string]any{"queue": "orders", "name": "paint", "data": map[string]any{"wall": "<1>"},
			"opts": map[string]any{"jobId": "first", "attempts": 4, "delay": 3600000, "priority": 7, "deduplication": map[string]any{"id": "once"}}})
		before := n.dump()
		output, _ := n.run(0, "edit", "orders", "first", `{"wall":2}`, "--dry-run")
		Expect(output).To(Equal(`{"id":"first","was":{"wall":"<1>"},"data":{"wall":2},"dryRun":true}` + "\n"))
		output, _ = n.run(0, "duplicate", "orders", "first", "--dry-run")
		Expect(lines(output)).To(HaveExactElements(And(HaveKeyWithValue("like", "first"), HaveKeyWithValue("dryRun", true))))
		Expect(n.dump()).To(Equal(before))

		command := n.command("edit", "orders", "first", "-")
		command.Stdin = strings.NewReader(`{"wall":3}`)
		session, err := gexec.Start(command, GinkgoWriter, GinkgoWriter)
		Expect(err).NotTo(HaveOccurred())
		Eventually(session, "20s").Should(gexec.Exit(0))
		Expect(n.call("job", map[string]any{"queue": "orders", "id": "first"})).To(HaveKeyWithValue("data", HaveKeyWithValue("wall", 3.0)))
		n.run(3, "edit", "orders", "none", "1")

		output, _ = n.run(0, "duplicate", "orders", "first")
		id := lines(output)[0]["id"].(string)
		job, state, err := n.queue("orders").JobAndState(ctx, id)
		Expect(err).NotTo(HaveOccurred())
		Expect(state).To(Equal(bullmq.StatePrioritized))
		Expect(job.Options.Attempts).To(Equal(4))
		Expect(job.DeduplicationID).To(BeEmpty())
		Expect(string(job.Data)).To(Equal(`{"wall":3}`))
		Expect(onTerminal(n.command("duplicate", "orders", "first", "--id", "second", "--delay", "1h", "--data", "5"), "")).To(MatchRegexp(`(?m)^second +first +paint`))
		Expect(n.call("state", map[string]any{"queue": "orders", "id": "second"})).To(Equal("delayed"))
		_, errors := n.run(1, "duplicate", "orders", "first", "--id", "second")
		Expect(errors).To(ContainSubstring("choose another --id"))
		_, errors = n.run(1, "add", "orders", "paint", "--id", "second")
		Expect(errors).To(ContainSubstring("choose another --id"))
		n.run(3, "duplicate", "orders", "none")
	})

	It("show the log of a job, and follow it until the job has ended", func() {
		n := openNode("6")
		n.call("add", map[string]any{"queue": "orders", "name": "paint", "data": 1})
		for i := range 5 {
			n.call("log", map[string]any{"queue": "orders", "id": "1", "row": fmt.Sprint("row ", i, " \x1b[31m")})
		}
		output, _ := n.run(0, "logs", "orders", "1", "--last", "2")
		Expect(lines(output)).To(HaveExactElements(
			And(HaveKeyWithValue("row", 4.0), HaveKeyWithValue("text", "row 3 \x1b[31m")), HaveKeyWithValue("row", 5.0)))
		Expect(onTerminal(n.command("logs", "orders", "1"), "")).To(And(HavePrefix("row 0 \uFFFD[31m\nrow 1 "), Not(ContainSubstring("\x1b"))))
		n.run(3, "logs", "orders", "2")

		session, err := gexec.Start(n.command("logs", "orders", "1", "--follow", "--last", "1"), GinkgoWriter, GinkgoWriter)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { session.Kill().Wait("10s") })
		Eventually(session.Out, "20s").Should(gbytes.Say(`"row":5`))
		n.call("run", map[string]any{"queue": "orders", "count": 1, "handler": map[string]any{"log": "opens the bucket"}})
		Eventually(session, "20s").Should(gexec.Exit(0))
		Expect(session.Out).To(gbytes.Say(`{"row":6,"text":"opens the bucket"}`))
		Expect(session.Err).To(gbytes.Say("The job has completed."))
	})
})

var _ = Describe("bullmq logs --follow", func() {
	DescribeTable("neither repeats nor leaves out rows while older ones are removed", func(keep, each int, same bool) {
		s := open()
		queue := s.queue("orders")
		s.add(queue, 1, "paint", nil, nil)
		row := func(n int) string {
			if same { // rows are often equal
				return fmt.Sprint("row ", n%3)
			}
			return fmt.Sprint("row ", n)
		}
		var wanted []string
		write := func(count int) {
			GinkgoHelper()
			for range count {
				wanted = append(wanted, row(len(wanted)))
				Expect(queue.AddJobLog(ctx, "1", wanted[len(wanted)-1], &bullmq.LogOptions{Keep: keep})).Error().NotTo(HaveOccurred())
			}
		}
		write(keep)
		root := newRoot()
		out, errors := gbytes.NewBuffer(), gbytes.NewBuffer()
		root.SetArgs([]string{"logs", "orders", "1", "--follow", "--redis", s.url})
		root.SetOut(out)
		root.SetErr(errors)
		following, stop := context.WithCancel(ctx)
		ended := make(chan error)
		go func() { ended <- root.ExecuteContext(following) }()
		shown := func() (texts []string) {
			for i, line := range lines(string(out.Contents())) {
				Expect(line).To(HaveKeyWithValue("row", float64(i+1)))
				texts = append(texts, line["text"].(string))
			}
			return texts
		}
		Eventually(shown, "10s").Should(Equal(wanted))
		for range 3 {
			write(each)
			Eventually(shown, "10s").Should(Equal(wanted))
		}
		Consistently(shown, "1500ms", "500ms").Should(Equal(wanted))
		Expect(errors.Contents()).To(BeEmpty())
		stop()
		Eventually(ended, "10s").Should(Receive(BeNil()))
	},
		Entry("one at a time", 5, 1, false),
		Entry("all but one", 5, 4, false),
		Entry("of a longer log", 1500, 30, false),
		Entry("that are like others", 7, 2, true),
	)

	It("tells that rows were lost, and goes on", func() {
		s := open()
		queue := s.queue("orders")
		s.add(queue, 1, "paint", nil, nil)
		write := func(from, to int) {
			for n := from; n < to; n++ {
				Expect(queue.AddJobLog(ctx, "1", fmt.Sprint("row ", n), &bullmq.LogOptions{Keep: 3})).Error().NotTo(HaveOccurred())
			}
		}
		write(0, 3)
		session, err := gexec.Start(s.command("logs", "orders", "1", "-f"), GinkgoWriter, GinkgoWriter)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { session.Kill().Wait("10s") })
		Eventually(session.Out, "20s").Should(gbytes.Say(`row 2"`))
		client := s.client()
		Expect(client.Do(ctx, client.B().Del().Key("bull:orders:1:logs").Build()).Error()).To(Succeed())
		write(10, 13)
		Eventually(session.Out, "20s").Should(gbytes.Say(`{"row":4,"text":"row 10"}\n{"row":5,"text":"row 11"}\n{"row":6,"text":"row 12"}\n`))
		Expect(session.Err).To(gbytes.Say("Rows may be missing here"))
		session.Interrupt()
		Eventually(session, "20s").Should(gexec.Exit(0))
	})
})

var _ = Describe("The commands for schedulers", func() {
	It("list the schedulers of Node with their next times, and remove them", func() {
		n := openNode("6")
		n.call("upsertScheduler", map[string]any{"queue": "reports", "id": "nightly", "repeat": map[string]any{"pattern": "30 3 * * 1-5", "tz": "Europe/Paris"}, "template": map[string]any{"name": "report"}})
		n.call("upsertScheduler", map[string]any{"queue": "reports", "id": "beat", "repeat": map[string]any{"every": 3600000, "limit": 3}, "template": map[string]any{"name": "beat"}})
		output, _ := n.run(0, "schedulers", "reports", "--next", "5")
		schedulers := lines(output)
		Expect(schedulers).To(ConsistOf(
			And(HaveKeyWithValue("id", "beat"), HaveKeyWithValue("words", "every 1h0m0s"), HaveKeyWithValue("nextTimes", HaveLen(3))),
			And(HaveKeyWithValue("id", "nightly"), HaveKeyWithValue("words", ContainSubstring("Monday to Friday")), HaveKeyWithValue("nextTimes", HaveLen(5)))))
		paris, err := time.LoadLocation("Europe/Paris")
		Expect(err).NotTo(HaveOccurred())
		output, _ = n.run(0, "schedulers", "reports", "nightly", "--next", "10")
		times := lines(output)[0]["nextTimes"].([]any)
		Expect(times).To(HaveLen(10))
		Expect(times[0]).To(Equal(lines(output)[0]["next"]))
		for _, text := range times {
			at, err := time.Parse(time.RFC3339, text.(string))
			Expect(err).NotTo(HaveOccurred())
			Expect(at.In(paris).Format("15:04")).To(Equal("03:30"))
			Expect(at.In(paris).Weekday()).To(BeElementOf(time.Monday, time.Tuesday, time.Wednesday, time.Thursday, time.Friday))
		}
		Expect(onTerminal(n.command("schedulers", "reports"), "")).To(MatchRegexp(`(?m)^nightly +report +every day.*Europe/Paris|^nightly +report +.*at 03:30.* Europe/Paris +in `))
		Expect(strings.Count(onTerminal(n.command("schedulers", "reports", "--next", "3"), ""), " in ")).To(Equal(6))
		_, errors := n.run(0, "schedulers", "reports", "--limit", "1")
		Expect(errors).To(ContainSubstring("raise --limit"))
		n.run(3, "schedulers", "reports", "none")

		n.run(0, "scheduler", "pause", "reports", "nightly")
		Expect(n.call("schedulersCount", map[string]any{"queue": "reports"})).To(Equal(1.0))
		Expect(onTerminal(n.command("schedulers", "reports"), "")).To(MatchRegexp(`(?m)^beat .*\nnightly .* paused +\d+$`))
		output, _ = n.run(0, "schedulers", "reports", "nightly")
		Expect(lines(output)).To(HaveExactElements(And(HaveKey("paused"), Not(HaveKey("next")))))
		output, _ = n.run(0, "scheduler", "run", "reports", "nightly", "beat")
		added := lines(output)[0]["jobs"].([]any)
		Expect(added).To(HaveLen(2))
		for _, id := range added {
			Expect(n.call("state", map[string]any{"queue": "reports", "id": id})).To(Equal("waiting"))
		}
		n.run(3, "scheduler", "run", "reports", "none")
		n.run(3, "scheduler", "pause", "reports", "none")
		n.run(3, "scheduler", "resume", "reports", "none")
		Expect(onTerminal(n.command("scheduler", "resume", "reports", "nightly"), "")).To(ContainSubstring("1 of 1 scheduler resumed"))
		Expect(n.call("schedulersCount", map[string]any{"queue": "reports"})).To(Equal(2.0))

		before := n.dump()
		for _, verb := range []string{"pause", "resume", "run"} {
			n.run(0, "scheduler", verb, "reports", "nightly", "--dry-run")
		}
		output, _ = n.run(1, "scheduler", "remove", "reports", "nightly", "none", "--dry-run")
		Expect(lines(output)).To(HaveExactElements(And(HaveKeyWithValue("matched", 2.0), HaveKeyWithValue("failed", HaveKey("none")))))
		Expect(n.dump()).To(Equal(before))
		n.run(3, "scheduler", "remove", "reports", "none")
		Expect(onTerminal(n.command("scheduler", "remove", "reports", "nightly"), "")).To(ContainSubstring("1 of 1 scheduler removed"))
		Expect(n.call("schedulersCount", map[string]any{"queue": "reports"})).To(Equal(1.0))
	})
})

var _ = Describe("The completion of the shell", func() {
	It("completes the names of queues and of states, and soon gives up", func() {
		n := openNode("5")
		for _, queue := range []string{"mails", "orders", "orders-old"} {
			n.call("add", map[string]any{"queue": queue, "name": "paint", "data": 1})
		}
		complete := func(arguments ...string) []string {
			GinkgoHelper()
			output, _ := n.run(0, append([]string{"__complete", "--prefix", n.prefix}, arguments...)...)
			all := strings.Split(strings.TrimSpace(output), "\n")
			return all[:len(all)-1] // without the directive
		}
		Expect(complete("jobs", "ord")).To(Equal([]string{"orders", "orders-old"}))
		Expect(complete("job", "orders", "")).To(BeEmpty())
		Expect(complete("pause", "orders", "")).To(Equal([]string{"mails", "orders-old"}))
		Expect(complete("scheduler", "remove", "m")).To(Equal([]string{"mails"}))
		Expect(complete("dead", "mails", "--from", "m")).To(Equal([]string{"mails"}))
		Expect(complete("jobs", "orders", "--state", "failed,co")).To(Equal([]string{"failed,completed"}))
		Expect(complete("clean", "orders", "--state", "a")).To(Equal([]string{"active"}))
		began := time.Now()
		Expect(complete("--redis", "redis://10.255.255.1:6379", "jobs", "")).To(BeEmpty())
		Expect(time.Since(began)).To(BeNumerically("<", 10*time.Second))
	})
})
