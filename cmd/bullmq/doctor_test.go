package main

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/nodeprocess"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

// clinic is a site with a server of its own.
type clinic struct {
	*site
	redis *redisserver.Server
}

func openServer(config ...string) *clinic {
	GinkgoHelper()
	redis, err := redisserver.Start(redisserver.Options{Config: config})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(redis.Close)
	return &clinic{openAt(redis.URL(), bullmq.DefaultPrefix), redis}
}

// do sends a command to the Redis of a spec, or to one of its databases.
func (s *clinic) do(database int, command ...string) {
	GinkgoHelper()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.redis.Addr()}, DisableCache: true, SelectDB: database})
	Expect(err).NotTo(HaveOccurred())
	defer client.Close()
	Expect(client.Do(ctx, client.B().Arbitrary(command...).Build()).Error()).To(Or(Succeed(), Satisfy(rueidis.IsRedisNil)))
}

// diagnose runs doctor, and returns its findings of a severity, by check.
func (s *clinic) diagnose(code int, arguments ...string) map[string]map[string]any {
	GinkgoHelper()
	output, _ := s.run(code, append([]string{"doctor"}, arguments...)...)
	return byCheck(output)
}

// eventually runs doctor again and again, for a check that depends on how workers register
// themselves.
func (s *clinic) eventually(check string, arguments ...string) AsyncAssertion {
	GinkgoHelper()
	return Eventually(func() map[string]any {
		output, _ := s.command(append([]string{"doctor"}, arguments...)...).Output()
		return byCheck(string(output))[check]
	}, "30s", "200ms")
}

func byCheck(output string) map[string]map[string]any {
	GinkgoHelper()
	found := map[string]map[string]any{}
	for _, line := range lines(output) {
		found[line["check"].(string)] = line
	}
	return found
}

// says matches a finding.
func says(severity, found, remedy string) types.GomegaMatcher {
	return And(HaveKeyWithValue("severity", severity), HaveKeyWithValue("found", ContainSubstring(found)), HaveKeyWithValue("remedy", ContainSubstring(remedy)),
		HaveKeyWithValue("means", Not(BeEmpty())))
}

// work runs a worker until the spec ends.
func (s *site) work(name string, handler bullmq.Handler, options bullmq.WorkerOptions) *bullmq.Worker {
	GinkgoHelper()
	options.Connection, options.Prefix = s.connection, s.prefix
	worker, err := bullmq.NewWorker(ctx, name, handler, &options)
	Expect(err).NotTo(HaveOccurred())
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	DeferCleanup(func() { _ = worker.Close(); <-ended })
	Eventually(func() ([]bullmq.WorkerInfo, error) { return bullmq.ListWorkers(ctx, s.connection, s.prefix, name) }).ShouldNot(BeEmpty())
	return worker
}

func nothing(context.Context, *bullmq.Job) (any, error) { return nil, nil }

// block runs a worker whose jobs run until the spec ends.
func (s *site) block(name string, options bullmq.WorkerOptions) *bullmq.Worker {
	GinkgoHelper()
	end := make(chan struct{})
	worker := s.work(name, func(context.Context, *bullmq.Job) (any, error) { <-end; return nil, nil }, options)
	DeferCleanup(func() { close(end) }) // before the worker is closed
	return worker
}

var _ = Describe("bullmq doctor", func() {
	It("finds nothing wrong with a queue whose worker is idle", func() {
		s := openServer()
		s.work("orders", nothing, bullmq.WorkerOptions{Name: "painter"})
		s.queue("orders")
		found := s.diagnose(0)
		Expect(found).To(HaveLen(2))
		Expect(found["server"]).To(HaveKeyWithValue("found", MatchRegexp(`^(Redis|Valkey) \d\S* at redis://127.*database 0, prefix bull$`)))
		Expect(found["queue"]).To(And(HaveKeyWithValue("queue", "orders"), HaveKeyWithValue("found", MatchRegexp(`1 worker; written by \S+, used in dialect V6`))))
		Expect(s.diagnose(0, "--quiet")).To(BeEmpty())
		Expect(onTerminal(s.command("doctor", "orders"), "")).To(MatchRegexp(`(?s)^Redis\n  info     server: .*\nqueue orders\n  info     queue: 0 active.*\n0 errors, 0 warnings\n$`))
	})

	It("tells why it can't connect, without the password", func() {
		s := openServer()
		found := s.diagnose(4, "--redis", "redis://user:secret@127.0.0.1:1")
		Expect(found).To(HaveLen(1))
		Expect(found["connection"]).To(says("error", "connection refused", "--redis"))
		Expect(fmt.Sprint(found)).NotTo(ContainSubstring("secret"))
	})

	It("finds a server that evicts keys", func() {
		s := openServer("maxmemory-policy allkeys-lru")
		s.queue("orders")
		Expect(s.diagnose(4)["eviction"]).To(says("warning", "allkeys-lru", "redis-cli CONFIG SET maxmemory-policy noeviction"))
		s.do(0, "CONFIG", "SET", "maxmemory-policy", "noeviction")
		Expect(s.diagnose(0)).NotTo(HaveKey("eviction"))
	})

	It("finds a server whose memory is full", func() {
		s := openServer()
		s.queue("orders")
		s.do(0, "CONFIG", "SET", "maxmemory", "600kb")
		Expect(s.diagnose(4)["memory"]).To(says("error", "% of its memory", "CONFIG SET maxmemory "))
	})

	It("finds a replica, and names its master", func() {
		master := openServer()
		s := openServer("replicaof 127.0.0.1 " + strings.Split(master.redis.Addr(), ":")[1])
		Expect(s.diagnose(4)["replica"]).To(says("error", "replica of "+master.redis.Addr(), "bullmq doctor --redis redis://"+master.redis.Addr()))
	})

	It("tells that it may not list clients", func() {
		s := openServer("user default on nopass ~* &* +@all -client|list")
		s.queue("orders")
		Expect(s.diagnose(0)["clients"]).To(HaveKeyWithValue("found", ContainSubstring("CLIENT LIST is not permitted")))
	})

	It("finds a clock that differs from that of Redis", func() {
		redis, err := startInProcess(0)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(redis.Close)
		s := &clinic{site: openAt("redis://"+redis.Addr(), bullmq.DefaultPrefix)}
		s.queue("orders")
		Expect(s.diagnose(0)).NotTo(HaveKey("clock"))
		redis.SetTime(time.Now().Add(-time.Hour))
		Expect(s.diagnose(4)["clock"]).To(says("warning", "the clock of Redis is 1h0m", "timedatectl"))
		redis.SetTime(time.Now().Add(time.Minute))
		Expect(s.diagnose(4)["clock"]).To(says("warning", "ahead of", "timedatectl"))
	})

	It("takes waiting dead letters for no fault", func() {
		s := openServer()
		letters := &bullmq.DeadLetterOptions{QueueName: "letters"}
		s.work("orders", func(context.Context, *bullmq.Job) (any, error) {
			return nil, bullmq.Unrecoverable(fmt.Errorf("no paint"))
		}, bullmq.WorkerOptions{DeadLetters: letters})
		s.add(s.queue("orders"), 1, "paint", nil, nil)
		Eventually(func() (int, error) { return s.queue("letters").Count(ctx) }, "20s").Should(Equal(1))
		Expect(s.diagnose(0, "letters")["workers"]).To(HaveKeyWithValue("severity", "info"))
	})

	It("finds the queue in another database", func() {
		s := openServer()
		s.do(3, "HSET", "bull:orders:meta", "version", "bullmq:6.7.0")
		found := s.diagnose(4, "orders")
		Expect(found["absent"]).To(says("error", "there is no queue orders with the prefix bull in this database", "bullmq queues"))
		Expect(found["database"]).To(says("error", "in database 3; this is database 0", "bullmq doctor --redis "+s.redis.URL()+"/3 orders"))
		Expect(s.diagnose(4)["database"]).To(HaveKeyWithValue("found", "database 3 has queues: orders"))
		s.queue("orders")
		Expect(s.diagnose(4, "orders")["database"]).To(says("warning", "in database 3", "/3 orders"))
	})

	It("finds the queue with another prefix", func() {
		s := openServer()
		s.do(0, "INCR", "shop:eu:orders:id")
		Expect(s.diagnose(4, "orders")["prefix"]).To(says("error", "with the prefix shop:eu", "bullmq doctor --prefix shop:eu orders"))
		Expect(s.diagnose(4)["prefix"]).To(HaveKeyWithValue("remedy", "bullmq doctor --prefix shop:eu"))
		Expect((&clinic{openAt(s.url, "shop:eu"), s.redis}).diagnose(0, "orders")).To(HaveKey("queue"))
	})

	It("tells that the workers of a queue listen with another prefix, and what the queue has there", func() {
		s := openServer()
		s.add(s.queue("export"), 3, "paint", nil, nil)
		there := &clinic{openAt(s.url, "bulls"), s.redis}
		there.queue("export")
		there.work("export", nothing, bullmq.WorkerOptions{})
		found := s.diagnose(4, "export")
		Expect(found["prefix"]).To(says("warning", "with the prefix bulls; it has 1 worker and 0 unfinished jobs", "bullmq doctor --prefix bulls export"))
		Expect(found["workers"]).To(And(says("error", "3 jobs are ready", "bullmq workers --prefix bulls export"), HaveKeyWithValue("means", ContainSubstring("1 worker listens to the queue of this name with the prefix bulls"))))
	})

	It("finds queues whose names differ by braces or case", func() {
		s := openServer()
		s.queue("orders")
		s.queue("{orders}")
		Expect(s.diagnose(4, "orders")["braces"]).To(says("warning", "there is also a queue {orders}", "bullmq doctor '{orders}'"))
		Expect(s.diagnose(4, "Orders")["name"]).To(says("error", "differ by case", "bullmq doctor orders"))
		s.do(0, "HSET", "{bull}:orders:meta", "version", "bullmq:6.7.0")
		Expect(s.diagnose(4, "orders")).To(HaveKey("braces"))
	})

	It("finds jobs that no worker serves, and a paused queue", func() {
		s := openServer()
		orders := s.queue("orders")
		Expect(s.diagnose(0)["workers"]).To(HaveKeyWithValue("severity", "info"))
		s.add(orders, 1, "paint", nil, &bullmq.JobOptions{Delay: time.Hour})
		Expect(s.diagnose(4)["workers"]).To(says("warning", "no workers; 0 jobs are ready", "bullmq workers"))
		s.add(orders, 2, "paint", nil, nil)
		Expect(s.diagnose(4)["workers"]).To(says("error", "2 jobs are ready", "bullmq workers"))
		Expect(orders.Pause(ctx)).To(Succeed())
		Expect(s.diagnose(4)["paused"]).To(says("error", "2 jobs are ready", "bullmq resume orders"))
		Expect(onTerminal(s.command("doctor"), "")).To(ContainSubstring("           → bullmq resume orders\n"))
	})

	It("finds a global concurrency that is reached, and a rate limit", func() {
		s := openServer()
		orders := s.queue("orders")
		Expect(orders.SetGlobalConcurrency(ctx, 1)).To(Succeed())
		Expect(s.diagnose(0)["concurrency"]).To(HaveKeyWithValue("severity", "info"))
		s.block("orders", bullmq.WorkerOptions{Concurrency: 5})
		s.add(orders, 3, "paint", nil, nil)
		s.eventually("concurrency").Should(says("warning", "the global concurrency is 1, 1 job is active, and 2 jobs are ready", "bullmq limit --concurrency 2 orders"))
		Expect(orders.SetGlobalRateLimit(ctx, bullmq.Limiter{Max: 2, Duration: time.Hour})).To(Succeed())
		Expect(s.diagnose(4)["limited"]).To(HaveKeyWithValue("found", ContainSubstring("no job waits for the rate limit; the global rate limit is 2 jobs in 1h")))
		s.do(0, "HSET", "bull:orders:meta", "concurrency", "0")
		Expect(s.diagnose(4)["concurrency"]).To(says("error", "the global concurrency is 0; 2 jobs are ready", "bullmq limit --concurrency none orders"))
	})

	It("takes a rate limit for no fault, unless it lasts long", func() {
		s := openServer()
		orders := s.queue("orders")
		s.work("orders", nothing, bullmq.WorkerOptions{})
		Expect(orders.SetGlobalRateLimit(ctx, bullmq.Limiter{Max: 100, Duration: time.Minute})).To(Succeed())
		Expect(orders.RateLimit(ctx, time.Minute)).To(Succeed())
		s.add(orders, 2, "paint", nil, nil)
		found := s.diagnose(0)["limited"]
		Expect(found).To(And(HaveKeyWithValue("severity", "info"), HaveKeyWithValue("found", ContainSubstring("the rate limit is reached, for "))))
		Expect(found).NotTo(HaveKey("remedy"))
		Expect(orders.RateLimit(ctx, time.Hour)).To(Succeed())
		Expect(s.diagnose(4)["limited"]).To(And(says("warning", "a call has limited the rate, for ", "bullmq limit --end orders"), HaveKeyWithValue("means", ContainSubstring("only if it was set by mistake"))))

		By("the limit of a window, which workers count")
		Expect(orders.SetGlobalRateLimit(ctx, bullmq.Limiter{Max: 1, Duration: time.Hour})).To(Succeed())
		s.do(0, "SET", "bull:orders:limiter", "1", "PX", "3600000")
		found = s.diagnose(4)["limited"]
		Expect(found).To(says("warning", "the global rate limit is 1 job in 1h", "bullmq limit orders"))
		Expect(found["remedy"]).NotTo(ContainSubstring("--end"))
	})

	It("finds parents that wait for a child that has failed, and names the command that retries it", func() {
		s := openServer()
		flows, err := bullmq.NewFlowProducer(ctx, &bullmq.FlowProducerOptions{Connection: s.connection})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(flows.Close)
		flow := func(id string, options bullmq.JobOptions) {
			GinkgoHelper()
			options.JobID = id + "-child"
			_, err := flows.Add(ctx, bullmq.Flow{QueueName: "orders", Name: "fulfil", Options: &bullmq.JobOptions{JobID: id}, Children: []bullmq.Flow{
				{QueueName: "payments", Name: "charge", Options: &options},
			}})
			Expect(err).NotTo(HaveOccurred())
		}
		s.work("orders", nothing, bullmq.WorkerOptions{})
		decline := s.work("payments", func(context.Context, *bullmq.Job) (any, error) { return nil, fmt.Errorf("declined") }, bullmq.WorkerOptions{})
		flow("stuck", bullmq.JobOptions{})
		flow("ignores", bullmq.JobOptions{OnFailure: bullmq.IgnoreDependency})
		flow("fails", bullmq.JobOptions{OnFailure: bullmq.FailParent})
		flow("waits", bullmq.JobOptions{Delay: time.Hour})
		Eventually(func() (map[bullmq.State]int, error) { return s.queue("payments").Counts(ctx, bullmq.StateFailed) }, "30s").Should(HaveKeyWithValue(bullmq.StateFailed, 3))
		found := s.diagnose(4, "orders")["failed-child"]
		Expect(found).To(says("warning", "1 parent waits for a child that has failed: stuck (child bull:payments:stuck-child)", "bullmq retry payments stuck-child"))
		Expect(found["found"]).NotTo(MatchRegexp("(ignores|fails|waits)-child"))
		Expect(decline.Close()).To(Succeed())
		s.run(0, "retry", "payments", "stuck-child")
		Expect(s.diagnose(0, "orders")).NotTo(HaveKey("failed-child"))
	})

	It("raises no alarm about jobs that a busy queue of Node runs and removes meanwhile", func() {
		s := openServer()
		orders := s.queue("orders")
		for range 3 {
			s.add(orders, 1000, "paint", nil, &bullmq.JobOptions{KeepCompleted: bullmq.KeepLast(100)})
		}
		worker, err := nodeprocess.Start("worker.mjs", "-redis", s.redis.Addr(), "-queue", "orders", "-concurrency", "10", "-sleep", "2", "-brief")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(worker.Stop)
		Eventually(func() (int, error) {
			counts, err := orders.Counts(ctx, bullmq.StateActive)
			return counts[bullmq.StateActive], err
		}, "30s").Should(BeNumerically(">", 0))
		for range 20 {
			for check := range s.diagnose(0) {
				Expect(check).NotTo(BeElementOf("stalled", "stranded", "orphaned"))
			}
			counts, err := orders.Counts(ctx, bullmq.StateWaiting)
			Expect(err).NotTo(HaveOccurred())
			if counts[bullmq.StateWaiting] == 0 {
				break
			}
		}
	})

	It("finds workers that are busy, paused or stopping", func() {
		s := openServer()
		orders := s.queue("orders")
		busy := s.block("orders", bullmq.WorkerOptions{Name: "busy"})
		s.add(orders, 2, "paint", nil, nil)
		s.eventually("busy").Should(says("warning", "the only worker runs as many jobs as it may; 1 job is ready", "bullmq workers orders"))
		go func() { _ = busy.Shutdown(ctx) }()
		s.eventually("worker-stopping").Should(says("error", "1 of 1 worker is stopping: busy (process", "--state active"))

		idle := s.work("mails", nothing, bullmq.WorkerOptions{Name: "idle"})
		Expect(idle.Pause(ctx)).To(Succeed())
		s.add(s.queue("mails"), 1, "paint", nil, nil)
		s.eventually("worker-paused", "mails").Should(says("error", "1 of 1 worker is paused: idle (process", "bullmq workers mails"))
	})

	It("finds active jobs that have no lock", func() {
		s := openServer()
		orders := s.queue("orders")
		s.add(orders, 2, "paint", nil, nil)
		fetcher, err := bullmq.NewFetcher(ctx, "orders", &bullmq.FetcherOptions{Connection: s.connection})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(fetcher.Close)
		for range 2 {
			job, err := fetcher.TryFetch(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(job).NotTo(BeNil())
		}
		Expect(s.diagnose(4)).NotTo(HaveKey("stalled"))
		s.do(0, "DEL", "bull:orders:2:lock")
		Expect(s.diagnose(4)["stalled"]).To(says("error", "1 of 2 active jobs have no lock: 2", "bullmq jobs --state active orders"))
	})

	It("finds stranded and orphaned jobs, and names commands that repair and remove them", func() {
		s := openServer()
		orders := s.queue("orders")
		s.add(orders, 2, "paint", nil, nil)
		s.do(0, "LREM", "bull:orders:wait", "0", "2")
		s.do(0, "HSET", "bull:orders:77", "name", "half")
		found := s.diagnose(4)
		Expect(found["stranded"]).To(says("error", "1 unfinished job is in no state: 2", "bullmq repair orders"))
		Expect(found["orphaned"]).To(says("warning", "1 job has keys but is in no state: 77", "bullmq orphans --remove orders"))
		s.run(0, "repair", "orders", "--yes")
		_, errors := s.run(2, "orphans", "orders", "--remove")
		Expect(errors).To(ContainSubstring("--yes"))
		output, _ := s.run(0, "orphans", "orders")
		Expect(lines(output)).To(HaveExactElements(HaveKeyWithValue("id", "77")))
		Expect(onTerminal(s.command("orphans", "--remove", "orders"), "n\n")).To(ContainSubstring("remove what is left of 1 job of orders?"))
		for _, arguments := range [][]string{{"--dry-run"}, {"--remove", "--dry-run"}, {"--remove", "--dry-run", "--yes"}} {
			output, _ = s.run(0, append([]string{"orphans", "orders"}, arguments...)...)
			Expect(lines(output)).To(HaveExactElements(And(HaveKeyWithValue("matched", 1.0), HaveKeyWithValue("dryRun", true))))
		}
		output, _ = s.run(0, "orphans", "orders", "--remove", "--dry-run", "--table")
		Expect(output).To(Equal("1 job would be removed; nothing was changed\n"))
		output, _ = s.run(0, "orphans", "orders", "--remove", "--yes")
		Expect(lines(output)).To(HaveExactElements(And(HaveKeyWithValue("id", "77"), HaveKeyWithValue("removed", true))))
		s.do(0, "HSET", "bull:orders:78", "name", "half")
		output, _ = s.run(0, "orphans", "orders", "--remove", "--yes", "--table")
		Expect(output).To(Equal("JOB\n78\n1 job removed\n"))
		output, _ = s.run(0, "orphans", "orders", "--remove", "--yes", "--table")
		Expect(output).To(Equal("0 jobs removed\n"))
		found = s.diagnose(4)
		Expect(found).NotTo(Or(HaveKey("stranded"), HaveKey("orphaned")))
	})

	It("finds overdue delayed jobs and waiting jobs of which no worker is notified", func() {
		s := openServer()
		orders := s.queue("orders")
		s.work("orders", nothing, bullmq.WorkerOptions{DrainDelay: time.Hour})
		s.add(orders, 1, "paint", nil, &bullmq.JobOptions{Delay: time.Hour})
		s.do(0, "ZADD", "bull:orders:delayed", strconv.FormatInt(time.Now().Add(-time.Minute).UnixMilli()*4096, 10), "1")
		s.do(0, "DEL", "bull:orders:marker")
		Expect(s.diagnose(4)["marker"]).To(says("error", "the delayed job 1 is overdue by 1m", "bullmq promote orders 1"))
		s.run(0, "promote", "orders", "1")
		Eventually(func() error {
			_, state, err := orders.JobAndState(ctx, "1")
			Expect(state).To(Equal(bullmq.StateCompleted))
			return err
		}).Should(Succeed())
		Expect(s.diagnose(0)).NotTo(HaveKey("marker"))

		s.do(0, "HSET", "bull:orders:old", "name", "paint", "data", "{}", "opts", "{}", "timestamp", strconv.FormatInt(time.Now().Add(-time.Minute).UnixMilli(), 10))
		s.do(0, "LPUSH", "bull:orders:wait", "old")
		Expect(s.diagnose(4)["marker"]).To(says("warning", "1 job is ready, the oldest for 1m", "bullmq repair orders"))
		s.run(0, "repair", "orders", "--yes")
		Eventually(func() (bullmq.State, error) { return orders.JobState(ctx, "old") }).Should(Equal(bullmq.StateCompleted))
	})

	It("finds millions of finished jobs", func() {
		s := openServer()
		s.queue("orders")
		for from := 0; from < 1_000_000; from += 50_000 { // one call for all takes longer than a busy machine permits
			s.do(0, "EVAL", "for i = 1, 50000 do redis.call('ZADD', KEYS[1], ARGV[1] + i, ARGV[1] + i) end", "1", "bull:orders:completed", strconv.Itoa(from))
		}
		Expect(s.diagnose(4)["retention"]).To(says("warning", "the queue keeps 1000000 completed jobs", "bullmq clean --state completed --older-than 24h orders"))
	})

	It("finds what other versions of BullMQ have left", func() {
		s := openServer()
		s.add(s.queue("orders"), 1, "paint", nil, nil)
		s.do(0, "RENAME", "bull:orders:wait", "bull:orders:paused")
		Expect(s.diagnose(4)["paused-list"]).To(says("error", "1 job is in the list of paused jobs", "bullmq repair orders"))
		s.run(0, "repair", "orders", "--yes")
		Expect(s.diagnose(4)).NotTo(HaveKey("paused-list"))

		s.do(0, "INCR", "bull:mails:id")
		s.do(0, "SET", "bull:mails:meta-paused", "1")
		s.do(0, "ZADD", "bull:mails:priority", "3", "1")
		s.do(0, "ZADD", "bull:mails:repeat", "1700000000000", "report:nightly::Europe/Paris:0 3 * * *")
		Expect(s.diagnose(4, "mails")["legacy"]).To(says("warning", "priority, meta-paused, repeat with repeatable jobs", "redis-cli ZRANGE bull:mails:repeat 0 -1 WITHSCORES"))
	})

	It("finds a key of another type", func() {
		s := openServer()
		s.queue("orders")
		s.do(0, "SET", "bull:orders:wait", "x")
		Expect(s.diagnose(4)["keys"]).To(says("error", "", "redis-cli --scan --pattern"))
	})

	DescribeTable("finds nothing wrong with a queue of Node", func(version, dialect string) {
		s := openServer()
		worker, err := nodeprocess.Start("worker.mjs", "-redis", s.redis.Addr(), "-queue", "orders", "-bullmq", version, "-name", "noddy")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(worker.Stop)
		Eventually(func() string { output, _ := s.run(0, "workers"); return output }, "30s").Should(ContainSubstring("noddy"))
		producer, err := nodeprocess.Start("producer.mjs", "-redis", s.redis.Addr(), "-queue", "orders", "-bullmq", version, "-generate", "40")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(producer.Stop)
		Eventually(producer.Lines(), "30s").Should(BeClosed())
		Eventually(func() string { output, _ := s.run(0, "jobs", "orders", "--state", "waiting,active"); return output }, "30s").Should(BeEmpty())
		Expect(s.diagnose(0)["queue"]).To(HaveKeyWithValue("found", And(ContainSubstring("1 worker;"), ContainSubstring("written by bullmq:"+version), ContainSubstring("dialect "+dialect))))
	},
		Entry("bullmq 6", "6", "V6"),
		Entry("bullmq 5", "5", "V5"),
	)

	It("lets no name control the terminal or the shell", func() {
		s := openServer()
		names := []string{"a'b", "x;touch pwned", "$(id)", "\x1b[31mred", "-rf", "ö ü", "back\\slash\n"}
		for _, name := range names {
			Expect(s.queue(name).Pause(ctx)).To(Succeed())
			output, _ := s.run(4, "doctor", "--", name)
			for _, f := range lines(output) {
				if f["check"] != "paused" {
					continue
				}
				rest, ok := strings.CutPrefix(f["remedy"].(string), "bullmq resume ")
				Expect(ok).To(BeTrue(), f["remedy"])
				shown, err := exec.Command("bash", "-c", `printf '%s' `+strings.TrimPrefix(rest, "-- ")).Output()
				Expect(err).NotTo(HaveOccurred(), rest)
				Expect(string(shown)).To(Equal(name))
			}
		}
		shown := onTerminal(s.command("doctor"), "")
		Expect(shown).NotTo(ContainSubstring("\x1b"))
		Expect(shown).To(ContainSubstring(`bullmq resume $'\x1b[31mred'`))
	})
})
