package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
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
	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/nodeprocess"
)

// startDev runs bullmq dev. It returns its process, its dashboard and its Redis.
func startDev(arguments ...string) (session *gexec.Session, page string, s *site) {
	GinkgoHelper()
	command := exec.Command(os.Getenv(programVariable), append([]string{"dev"}, arguments...)...)
	session, err := gexec.Start(command, GinkgoWriter, GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { session.Terminate().Wait("20s") })
	Eventually(session.Out, "20s").Should(gbytes.Say("Ctrl-C stops everything"))
	text := string(session.Out.Contents())
	return session, regexp.MustCompile(`http://\S+/`).FindString(text), openAt(regexp.MustCompile(`redis://[0-9.]+:[0-9]+`).FindString(text), bullmq.DefaultPrefix)
}

func get(address string) string {
	GinkgoHelper()
	response, err := http.Get(address)
	Expect(err).NotTo(HaveOccurred())
	text, err := io.ReadAll(response.Body)
	Expect(err).NotTo(HaveOccurred())
	Expect(response.Body.Close()).To(Succeed())
	Expect(response.StatusCode).To(Equal(http.StatusOK))
	return string(text)
}

var _ = Describe("bullmq dev", func() {
	It("runs a Redis, demo jobs, workers and the dashboard, and stops all of them", func() {
		session, page, s := startDev("--listen", "127.0.0.1:0")
		Expect(string(session.Out.Contents())).To(ContainSubstring("for Node clients, add --redis-server"))
		counts := func() map[string]map[bullmq.State]int {
			summaries, err := bullmq.SummarizeQueues(ctx, s.connection, "", "orders", "payments", "mails", "newsletter", "warehouse-sync", "reports", "thumbnails", "dead-letters")
			Expect(err).NotTo(HaveOccurred())
			all := map[string]map[bullmq.State]int{}
			for _, summary := range summaries {
				all[summary.Name] = summary.Counts
			}
			return all
		}
		Eventually(counts, "40s", "200ms").Should(And(
			HaveKeyWithValue("orders", And(HaveKeyWithValue(bullmq.StateCompleted, BeNumerically(">", 0)), HaveKeyWithValue(bullmq.StateWaitingChildren, BeNumerically(">", 0)))),
			HaveKeyWithValue("mails", HaveKeyWithValue(bullmq.StateDelayed, BeNumerically(">", 0))),
			HaveKeyWithValue("newsletter", HaveKeyWithValue(bullmq.StateWaiting, 40)),
			HaveKeyWithValue("warehouse-sync", HaveKeyWithValue(bullmq.StateWaiting, 10)),
			HaveKeyWithValue("dead-letters", HaveKeyWithValue(bullmq.StateWaiting, BeNumerically(">", 0))),
		))
		schedulers, err := s.queue("reports").Schedulers(ctx, bullmq.AllEntries())
		Expect(err).NotTo(HaveOccurred())
		Expect(schedulers).To(HaveLen(2))
		found, err := s.queue("orders").Search(ctx, bullmq.JobSearch{States: []bullmq.State{bullmq.StateCompleted}, Limit: 1})
		Expect(err).NotTo(HaveOccurred())
		Expect(string(found.Jobs[0].Progress)).To(ContainSubstring(`"step":"done"`))
		rows, _, err := s.queue("orders").JobLogs(ctx, found.Jobs[0].ID, bullmq.AllEntries())
		Expect(err).NotTo(HaveOccurred())
		Expect(strings.Join(rows, "\n")).To(ContainSubstring("packing"))
		Expect(get(page)).To(And(ContainSubstring("newsletter"), ContainSubstring("dead-letters")))
		Expect(get(page + "workers")).To(ContainSubstring("payments-worker"))
		output, _ := s.run(0, "workers", "orders")
		Expect(output).To(ContainSubstring("orders-worker"))

		session.Interrupt()
		Eventually(session, "15s").Should(gexec.Exit(0))
		Expect(session.Out).To(gbytes.Say("Stopped."))
		Expect(session.Err.Contents()).To(BeEmpty())
		_, err = net.Dial("tcp", strings.TrimPrefix(s.url, "redis://"))
		Expect(err).To(MatchError(syscall.ECONNREFUSED))
	})

	It("takes the next free port for the dashboard, but not another than --listen", func() {
		if listener, err := net.Listen("tcp", defaultListen); err == nil {
			DeferCleanup(listener.Close)
		}
		_, page, s := startDev("--no-demo")
		Expect(page).To(MatchRegexp(`http://127\.0\.0\.1:30(0[1-9]|1\d)/`))
		get(page)
		output, _ := s.run(0, "queues")
		Expect(output).To(BeEmpty())
		_, errors := openDevFails("--listen", strings.TrimSuffix(strings.TrimPrefix(page, "http://"), "/"))
		Expect(errors).To(ContainSubstring("choose another address with --listen"))
		code, errors := openDevFails("--redis", "redis://127.0.0.1:6379")
		Expect(code).To(Equal(exitUsage))
		Expect(errors).To(ContainSubstring("use bullmq dashboard"))
		code, errors = openDevFails("--listen", ":0")
		Expect(code).To(Equal(exitUsage))
		Expect(errors).To(ContainSubstring("serves only this machine"))
	})

	It("starts a redis-server in which Node takes part", func() {
		session, _, s := startDev("--listen", "127.0.0.1:0", "--redis-server", "--no-demo")
		Expect(string(session.Out.Contents())).To(ContainSubstring("Clients in Go and Node can use it"))
		redis := strings.TrimPrefix(s.url, "redis://")
		worker, err := nodeprocess.Start("worker.mjs", "-redis", redis, "-queue", "orders", "-name", "noddy")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(worker.Stop)
		producer, err := nodeprocess.Start("producer.mjs", "-redis", redis, "-queue", "orders", "-generate", "10")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(producer.Stop)
		Eventually(producer.Lines(), "30s").Should(BeClosed())
		Eventually(func() string { output, _ := s.run(0, "jobs", "orders", "--state", "completed"); return output }, "30s").Should(ContainSubstring(`"state":"completed"`))
		worker.Stop()
		session.Interrupt()
		Eventually(session, "15s").Should(gexec.Exit(0))
		_, err = net.Dial("tcp", redis)
		Expect(err).To(MatchError(syscall.ECONNREFUSED))
	})

	It("stops by Ctrl-C on a terminal, workers before the redis-server", func() {
		command := exec.Command(os.Getenv(programVariable), "dev", "--listen", "127.0.0.1:0", "--redis-server")
		terminal, err := pty.Start(command)
		Expect(err).NotTo(HaveOccurred())
		defer terminal.Close()
		shown := gbytes.BufferReader(terminal)
		Eventually(shown, "20s").Should(gbytes.Say("Ctrl-C stops everything"))
		time.Sleep(time.Second) // jobs run
		_, err = terminal.WriteString("\x03")
		Expect(err).NotTo(HaveOccurred())
		Eventually(shown, "15s").Should(gbytes.Say("Stopped."))
		Expect(command.Wait()).To(Succeed(), func() string { return string(shown.Contents()) })
		Expect(string(shown.Contents())).NotTo(ContainSubstring("error"))
	})
})

var _ = Describe("The Redis of bullmq dev", func() {
	It("makes keys expire, and does not slow down with the number of keys", func() {
		redis, err := startInProcess(0)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(redis.Close)
		s := openAt("redis://"+redis.Addr(), bullmq.DefaultPrefix)
		client := s.client()
		set := func(key string, seconds int64) {
			GinkgoHelper()
			Expect(client.Do(ctx, client.B().Set().Key(key).Value("1").ExSeconds(seconds).Build()).Error()).To(Succeed())
		}
		set("short", 1)
		set("long", 3600)
		Eventually(func() bool { return redis.Exists("short") }, "10s").Should(BeFalse())
		Expect(redis.Exists("long")).To(BeTrue())
		for i := range 50_000 {
			Expect(redis.Set(fmt.Sprint("key-", i), "1")).To(Succeed())
		}
		began := time.Now()
		Expect(client.Do(ctx, client.B().Eval().Script("for i = 1, 1000 do redis.call('GET', 'short') end").Numkeys(0).Build()).Error()).To(Or(Succeed(), Satisfy(rueidis.IsRedisNil)))
		Expect(time.Since(began)).To(BeNumerically("<", 5*time.Second))
	})
})

var _ = Describe("The demo of bullmq dev", func() {
	open := func() (*demoShop, *processRedis, *site) {
		GinkgoHelper()
		redis, err := startInProcess(0)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(redis.Close)
		s := openAt("redis://"+redis.Addr(), bullmq.DefaultPrefix)
		shop, err := openShop(ctx, s.connection, s.prefix)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(shop.close)
		return shop, redis, s
	}

	It("stores a bounded number of jobs and events", func() {
		shop, _, s := open()
		client := s.client()
		for _, name := range append([]string{demoLetters}, shop.names...) {
			Expect(client.Do(ctx, client.B().Hget().Key("bull:"+name+":meta").Field("opts.maxLenEvents").Build()).AsInt64()).To(BeEquivalentTo(demoEvents), name)
		}
		Expect(shop.sellUnlessBusy(ctx)).To(Succeed())
		Expect(s.queue("orders").Count(ctx)).To(Equal(1))
		s.add(s.queue("mails"), demoBacklog, "send-mail", nil, nil)
		Expect(shop.sellUnlessBusy(ctx)).To(Succeed())
		Expect(s.queue("orders").Count(ctx)).To(Equal(1), "while no worker runs the mails")

		letters := s.queue(demoLetters)
		s.add(letters, 2, "charge-card", nil, &bullmq.JobOptions{Timestamp: time.Now().Add(-2 * demoLetterAge)})
		s.add(letters, 3, "charge-card", nil, nil)
		Expect(shop.tidy(ctx)).To(Succeed())
		Expect(letters.Count(ctx)).To(Equal(3))
	})

	It("goes on after jobs could not be added", func() {
		shop, redis, s := open()
		running, cancel := context.WithCancel(ctx)
		warnings, ended := make(chan error, 1000), make(chan struct{})
		redis.SetError("ERR out of order")
		go func() { defer close(ended); shop.trade(running, func(err error) { warnings <- err }) }()
		DeferCleanup(func() { cancel(); Eventually(ended, "20s").Should(BeClosed()) })
		Eventually(warnings, "30s").Should(Receive(MatchError(ContainSubstring("prepare the demo"))))
		Eventually(warnings, "30s").Should(Receive(MatchError(ContainSubstring("add jobs of the demo"))))
		redis.SetError("")
		Eventually(func() (int, error) { return s.queue("orders").Count(ctx) }, "30s").Should(BeNumerically(">", 0))
	})
})

// openDevFails runs bullmq dev, which must end by itself.
func openDevFails(arguments ...string) (code int, errors string) {
	GinkgoHelper()
	session, err := gexec.Start(exec.Command(os.Getenv(programVariable), append([]string{"dev"}, arguments...)...), GinkgoWriter, GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
	Eventually(session, "20s").Should(gexec.Exit(), fmt.Sprint(arguments))
	return session.ExitCode(), string(session.Err.Contents())
}
