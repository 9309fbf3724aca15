package bullmq_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/rueidis"
	"github.com/rs/zerolog"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/faultproxy"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

var _ = Describe("Queue.WaitForJob during an outage", Label("slow"), func() {
	type outcome struct {
		value string
		err   error
	}
	var (
		name string
		ctx  context.Context
	)
	BeforeEach(func() { name, ctx = newQueueName(), specContext() })
	waitFor := func(ctx context.Context, queue *bullmq.Queue, id string) <-chan outcome {
		done := make(chan outcome, 1)
		go func() {
			value, err := queue.WaitForJob(ctx, id)
			done <- outcome{string(value), err}
		}()
		return done
	}
	finish := func(value string) {
		GinkgoHelper()
		fetcher := newFetcher(name, nil)
		endJob(fetcher, takeJob(fetcher), value, nil)
	}
	set := func(proxy *faultproxy.Proxy, faults faultproxy.Faults) {
		GinkgoHelper()
		Expect(proxy.Set(faults)).To(Succeed())
	}

	It("logs little, and continues when Redis is back", func() {
		proxy, link := proxiedRedis()
		var lines logLines
		queue := newQueue(name, &bullmq.QueueOptions{Connection: link, Logger: bullmq.Zerolog(zerolog.New(&lines))})
		job, err := queue.Add(ctx, "a", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		done := waitFor(ctx, queue, job.ID)
		Eventually(clientList).Should(ContainSubstring("cmd=xread"))
		set(proxy, faultproxy.Faults{Refuse: true})
		proxy.CutAll()
		Eventually(func() int { return lines.with("waiting for results failed") }).Should(Equal(1))
		time.Sleep(2500 * time.Millisecond)
		Expect(lines.with("waiting for results failed")).To(Equal(1))
		set(proxy, faultproxy.Faults{})
		Eventually(queue.Health).Should(HaveField("Reachable", true))
		finish("late")
		Eventually(done).Should(Receive(Equal(outcome{value: `"late"`})))
	})

	DescribeTable("continues and returns the job's value when", func(away func(proxy *faultproxy.Proxy), begunBefore, endsMeanwhile bool) {
		proxy, link := proxiedRedis()
		queue := newQueue(name, &bullmq.QueueOptions{Connection: link})
		queue.PollResultsEvery(50 * time.Millisecond) // so that reads occur during the outage
		job, err := queue.Add(ctx, "a", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		var done <-chan outcome
		if begunBefore {
			done = waitFor(ctx, queue, job.ID)
			Eventually(clientList).Should(ContainSubstring("cmd=xread"))
		}
		away(proxy)
		if !begunBefore {
			done = waitFor(ctx, queue, job.ID)
		}
		Consistently(done, "300ms").ShouldNot(Receive())
		if endsMeanwhile {
			finish("late")
			set(proxy, faultproxy.Faults{})
		} else {
			set(proxy, faultproxy.Faults{})
			Eventually(queue.Health).Should(HaveField("Reachable", true))
			finish("late")
		}
		Eventually(done).Should(Receive(Equal(outcome{`"late"`, nil})))
	},
		Entry("connections are refused and the job completes meanwhile", refused, true, true),
		Entry("connections are refused and the job completes afterwards", refused, true, false),
		Entry("connections were refused before the call", refused, false, true),
		Entry("Redis stops replying", silenced, true, true),
		Entry("Redis stopped replying before the call", silenced, false, true),
		Entry("replies are lost and connections are cut", func(proxy *faultproxy.Proxy) {
			set(proxy, faultproxy.Faults{SwallowReplies: true})
			proxy.CutAll()
		}, true, true),
	)

	It("continues while connections are cut repeatedly", func() {
		proxy, link := proxiedRedis()
		queue := newQueue(name, &bullmq.QueueOptions{Connection: link})
		queue.PollResultsEvery(5 * time.Millisecond)
		job, err := queue.Add(ctx, "a", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		waits := make([]<-chan outcome, 50)
		for i := range waits {
			waits[i] = waitFor(ctx, queue, job.ID)
		}
		for range 20 {
			time.Sleep(20 * time.Millisecond)
			proxy.CutAll()
		}
		finish("whole")
		for _, done := range waits {
			Eventually(done).Should(Receive(Equal(outcome{`"whole"`, nil})))
		}
	})

	type sender func(words ...string) rueidis.RedisResult
	DescribeTable("continues while Redis returns the temporary error", func(refuse func(do, other sender), serve func(do sender)) {
		server, err := redisserver.Start(redisserver.Options{Config: []string{"lua-time-limit 10", "replica-serve-stale-data no"}})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(server.Close)
		direct := func() sender {
			client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true, ForceSingleClient: true})
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(client.Close)
			return func(words ...string) rueidis.RedisResult {
				return client.Do(ctx, client.B().Arbitrary(words...).Build())
			}
		}
		send := direct()
		queue := newQueue(name, &bullmq.QueueOptions{Connection: bullmq.URL(server.URL())})
		queue.PollResultsEvery(50 * time.Millisecond)
		job, err := queue.Add(ctx, "a", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		fetcher := newFetcher(name, &bullmq.FetcherOptions{Connection: bullmq.URL(server.URL())})
		taken := takeJob(fetcher)
		before := waitFor(ctx, queue, job.ID)
		refuse(send, direct())
		meanwhile := waitFor(ctx, queue, job.ID)
		Consistently(before, "300ms").ShouldNot(Receive())
		Expect(meanwhile).NotTo(Receive())
		serve(send)
		Eventually(func() error {
			err := fetcher.Complete(ctx, taken, "late")
			return err
		}).Should(Succeed())
		Eventually(before).Should(Receive(Equal(outcome{`"late"`, nil})))
		Eventually(meanwhile).Should(Receive(Equal(outcome{`"late"`, nil})))
	},
		Entry("MASTERDOWN", func(do, _ sender) {
			Expect(do("REPLICAOF", "127.0.0.1", "1").Error()).To(Succeed())
		}, func(do sender) {
			Expect(do("REPLICAOF", "NO", "ONE").Error()).To(Succeed())
		}),
		Entry("BUSY", func(do, other sender) {
			go other("EVAL", "while true do end", "0")
			Eventually(func() error { return do("GET", "a").Error() }).Should(MatchError(ContainSubstring("BUSY")))
		}, func(do sender) {
			Expect(do("SCRIPT", "KILL").Error()).To(Succeed())
		}),
		Entry("max number of clients reached", func(do, _ sender) {
			Expect(do("CONFIG", "SET", "maxclients", "1").Error()).To(Succeed())
			Expect(do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Error()).To(Succeed())
		}, func(do sender) {
			Expect(do("CONFIG", "SET", "maxclients", "1000").Error()).To(Succeed())
		}),
	)

	DescribeTable("fails at once if Redis returns the permanent error", func(rights string, refuse func(), refusal string) {
		queue := newQueue(name, &bullmq.QueueOptions{Connection: restricted(rights)})
		refuse()
		_, err := queue.WaitForJob(ctx, "7")
		Expect(err).To(MatchError(And(ContainSubstring("waiting for job 7"), ContainSubstring(refusal))))
		Expect(ctx.Err()).NotTo(HaveOccurred())
	},
		Entry("NOPERM", "~bull:* +@all -xrevrange -xinfo", func() {}, "NOPERM"),
		Entry("WRONGTYPE", "~bull:* +@all", func() {
			Expect(redisDo("DEL", keyOf(name, "events")).Error()).To(Succeed())
			Expect(redisDo("SET", keyOf(name, "events"), "text").Error()).To(Succeed())
		}, "WRONGTYPE"),
	)

	DescribeTable("returns at the end of its context with the reason of the outage after", func(limit time.Duration, away func(proxy *faultproxy.Proxy), why func(error) bool) {
		proxy, link := proxiedRedis()
		queue := newQueue(name, &bullmq.QueueOptions{Connection: link})
		away(proxy)
		reason := errors.New("the user went away")
		leaving, leave := context.WithCancelCause(ctx)
		far, cancel := context.WithTimeout(leaving, time.Minute) // a deadline that must not hide the cancellation
		defer cancel()
		done := waitFor(far, queue, "7")
		begun := time.Now()
		time.AfterFunc(limit, func() { leave(reason) })
		var last outcome
		Eventually(done, "20s").Should(Receive(&last))
		Expect(time.Since(begun)).To(BeNumerically("<", limit+3*time.Second))
		Expect(last.err).To(MatchError(reason))
		Expect(last.err).To(MatchError(ContainSubstring("waiting for job 7")))
		Expect(last.err).To(Satisfy(why))
	},
		Entry("refused connections", 1500*time.Millisecond, refused, func(err error) bool {
			var network *net.OpError
			return errors.As(err, &network) && errors.Is(err, syscall.ECONNREFUSED)
		}),
		Entry("missing replies", 3*time.Second, silenced, func(err error) bool {
			return strings.Contains(err.Error(), "no reply from Redis in time")
		}),
	)

	It("logs nothing when the queue is closed", func() {
		for range 20 {
			lines := &logLines{}
			// Without CLIENT the read of the events can't be interrupted.
			queue := newQueue(name, &bullmq.QueueOptions{Connection: restricted("~bull:* +@all -client"), Logger: bullmq.Zerolog(zerolog.New(lines))})
			job, err := queue.Add(ctx, "a", nil, nil)
			Expect(err).NotTo(HaveOccurred())
			done := waitFor(ctx, queue, job.ID)
			time.Sleep(5 * time.Millisecond) // the reader waits for events
			Expect(queue.Close()).To(Succeed())
			Eventually(done).Should(Receive())
			Expect(lines.all()).To(BeEmpty())
		}
	})

	It("returns when the queue is closed", func() {
		proxy, link := proxiedRedis()
		queue := newQueue(name, &bullmq.QueueOptions{Connection: link})
		silenced(proxy)
		done := waitFor(ctx, queue, "7")
		Consistently(done, "50ms").ShouldNot(Receive())
		Expect(queue.Close()).To(Succeed())
		Eventually(done).Should(Receive(Equal(outcome{"", bullmq.ErrClosed})))
	})

	It("does not check on behalf of each of many waiters whether Redis is back", func() {
		server, err := redisserver.Start(redisserver.Options{Config: []string{"replica-serve-stale-data no"}})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(server.Close)
		client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true, ForceSingleClient: true})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(client.Close)
		queue := newQueue(name, &bullmq.QueueOptions{Connection: bullmq.URL(server.URL())})
		queue.PollResultsEvery(100 * time.Millisecond)
		job, err := queue.Add(ctx, "a", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		const waits = 300
		var all sync.WaitGroup
		leaving, leave := context.WithCancel(ctx)
		DeferCleanup(all.Wait)
		DeferCleanup(leave)
		for range waits {
			all.Go(func() { _, _ = queue.WaitForJob(leaving, job.ID) })
		}
		refusals := func() int {
			text, err := client.Do(ctx, client.B().Info().Section("errorstats").Build()).ToString()
			Expect(err).NotTo(HaveOccurred())
			_, after, _ := strings.Cut(text, "errorstat_MASTERDOWN:count=")
			n, _ := strconv.Atoi(strings.TrimSpace(strings.SplitN(after, "\n", 2)[0]))
			return n
		}
		Expect(client.Do(ctx, client.B().Arbitrary("REPLICAOF", "127.0.0.1", "1").Build()).Error()).To(Succeed())
		Eventually(refusals).Should(BeNumerically(">", 0))
		// Each wait may notice the outage once, and on a busy machine some notice it late.
		Eventually(func() float64 {
			before, begun := refusals(), time.Now()
			time.Sleep(time.Second)
			return float64(refusals()-before) / time.Since(begun).Seconds()
		}, "15s").Should(BeNumerically("<", 20), fmt.Sprint("a second for ", waits, " waits"))
	})
})

func refused(proxy *faultproxy.Proxy) {
	GinkgoHelper()
	Expect(proxy.Set(faultproxy.Faults{Refuse: true})).To(Succeed())
	proxy.CutAll()
}
