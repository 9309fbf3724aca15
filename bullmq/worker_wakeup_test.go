package bullmq_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/faultproxy"
)

var _ = Describe("An idle worker", Label("slow"), func() {
	var (
		name  string
		queue *bullmq.Queue
		ctx   context.Context
		runs  chan *bullmq.Job
		note  bullmq.Handler
	)
	BeforeEach(func() {
		name, ctx = newQueueName(), specContext()
		queue = newQueue(name, nil)
		runs = make(chan *bullmq.Job, 100)
		note = func(_ context.Context, job *bullmq.Job) (any, error) { runs <- job; return nil, nil }
	})
	add := func(queue *bullmq.Queue, options *bullmq.JobOptions) *bullmq.Job {
		GinkgoHelper()
		job, err := queue.Add(ctx, "a", nil, options)
		Expect(err).NotTo(HaveOccurred())
		return job
	}
	// A worker that is not woken would poll only after ten seconds.
	patient := func() *bullmq.WorkerOptions {
		return &bullmq.WorkerOptions{
			DrainDelay: 10 * time.Second, SkipStalledCheck: true, Registration: &bullmq.RegistrationOptions{Skip: true},
		}
	}

	It("starts a job soon after it is added, a hundred times in a row", func() {
		runWorker(name, note, patient())
		waitUntilIdle(queue)
		late := 0
		for range 100 {
			begun := time.Now()
			job := add(queue, nil)
			Eventually(runs).Should(Receive(HaveField("ID", job.ID)))
			if time.Since(begun) > 500*time.Millisecond {
				late++
			}
		}
		Expect(late).To(BeNumerically("<=", 50), "of a hundred")
	})

	It("fetches a job when it is woken without a further round trip", func() {
		runWorker(name, note, patient())
		add(queue, nil) // the script of such a fetch is sent in full once
		Eventually(runs).Should(Receive())
		waitUntilIdle(queue)
		Expect(redisDo("CONFIG", "RESETSTAT").Error()).To(Succeed())
		add(queue, nil)
		Eventually(runs).Should(Receive())
		waitUntilIdle(queue)
		calls := commandCalls()
		Expect(calls["evalsha"]+calls["eval"]).To(Equal(4), "add, take, complete, and a look since the take has set the marker for others: "+fmt.Sprint(calls))
	})

	It("starts a job at once even after the server has lost its scripts", func() {
		runWorker(name, note, patient())
		for range 3 {
			waitUntilIdle(queue)
			Expect(redisDo("SCRIPT", "FLUSH").Error()).To(Succeed())
			job := add(queue, nil)
			Eventually(runs).Should(Receive(HaveField("ID", job.ID)))
		}
		waitUntilIdle(queue) // after a wait for which the script was sent in full again
		add(queue, nil)
		Eventually(runs).Should(Receive())
		waitUntilIdle(queue)
		Expect(redisDo("CONFIG", "RESETSTAT").Error()).To(Succeed())
		add(queue, nil)
		Eventually(runs).Should(Receive())
		waitUntilIdle(queue)
		calls := commandCalls()
		Expect(calls["evalsha"]+calls["eval"]).To(Equal(4), "as if nothing had been: "+fmt.Sprint(calls))
	})

	It("fetches no job that is added after it was stopped", func() {
		_, stop, ended := startWorker(name, note, patient())
		waitUntilIdle(queue)
		stop()
		Eventually(ended).Should(Receive(BeNil()))
		job := add(queue, nil)
		Expect(job.State(ctx)).To(Equal(bullmq.StateWaiting))
		Expect(zsetAt(keyOf(name, "marker"))).To(Equal([]string{"0"}))
	})

	It("starts delayed jobs within milliseconds of their due time and never early", func() {
		const jobs, nearlyAll = 30, 27
		late := make(chan time.Duration, jobs)
		runWorker(name, func(_ context.Context, job *bullmq.Job) (any, error) {
			late <- time.Since(job.Timestamp.Add(job.Options.Delay))
			return nil, nil
		}, patient())
		// round returns by how much nearly all jobs are late at most, minus the time of a timer and a call on this
		// machine at the same moments. Redis alone may end a blocking wait considerably late.
		round := func() time.Duration {
			GinkgoHelper()
			machine := make(chan time.Duration, jobs)
			for i := range jobs {
				job := add(queue, &bullmq.JobOptions{Delay: time.Duration(230+i*140/jobs) * time.Millisecond})
				due := job.Timestamp.Add(job.Options.Delay)
				time.AfterFunc(time.Until(due), func() {
					redisDo("PING")
					machine <- time.Since(due)
				})
			}
			atMost := func(measured <-chan time.Duration) time.Duration {
				GinkgoHelper()
				all := make([]time.Duration, jobs)
				for i := range all {
					Eventually(measured).Should(Receive(&all[i]))
					Expect(all[i]).To(BeNumerically(">=", 0))
				}
				slices.Sort(all)
				return all[nearlyAll-1]
			}
			return atMost(late) - atMost(machine)
		}
		Eventually(round, "40s").Should(BeNumerically("<=", 5*time.Millisecond))
	})

	It("starts no delayed job early if replies were slow while it compared the clocks", func() {
		proxy, via := proxiedRedis()
		late := make(chan time.Duration, 2)
		for _, delay := range []time.Duration{1000 * time.Millisecond, 1008 * time.Millisecond} { // the first ends the wait
			add(queue, &bullmq.JobOptions{Delay: delay})
		}
		Expect(proxy.Set(faultproxy.Faults{Delay: 15 * time.Millisecond})).To(Succeed())
		o := patient()
		o.Connection = via
		runWorker(name, func(_ context.Context, job *bullmq.Job) (any, error) {
			late <- time.Since(job.Timestamp.Add(job.Options.Delay))
			return nil, nil
		}, o)
		waitUntilIdle(queue)
		Expect(proxy.Set(faultproxy.Faults{})).To(Succeed())
		for range 2 {
			Eventually(late).Should(Receive(BeNumerically(">=", 0)))
		}
	})

	It("starts jobs in order while it runs several at once", func() {
		var ran tally
		o := patient()
		o.Concurrency = 8
		runWorker(name, ran.handle, o)
		// Jobs are added while others end. In either order, no job may be left behind.
		var adders sync.WaitGroup
		for range 4 {
			adders.Go(func() {
				defer GinkgoRecover()
				for range 100 {
					add(queue, nil)
					time.Sleep(time.Millisecond)
				}
			})
		}
		adders.Wait()
		Eventually(countOf(queue, bullmq.StateCompleted), "8s").Should(Equal(400), "a job left behind would wait for ten seconds")
		ran.once(400)
	})

	newFlows := func() *bullmq.FlowProducer {
		GinkgoHelper()
		flows, err := bullmq.NewFlowProducer(ctx, &bullmq.FlowProducerOptions{Connection: connection()})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(flows.Close)
		return flows
	}
	// waitingFor adds a flow of a parent with a priority and one child in another queue.
	waitingFor := func(options *bullmq.JobOptions) (parent, child *bullmq.Job) {
		GinkgoHelper()
		root, err := newFlows().Add(ctx, bullmq.Flow{Name: "wall", QueueName: name, Options: &bullmq.JobOptions{Priority: 2}, Children: []bullmq.Flow{
			{Name: "brick", QueueName: newQueueName(), Options: options},
		}})
		Expect(err).NotTo(HaveOccurred())
		return root.Job, root.Children[0].Job
	}

	DescribeTable("is woken", func(arrange func() (wake func(), id string)) {
		wake, id := arrange()
		runWorker(name, note, patient())
		waitUntilIdle(queue)
		wake()
		Eventually(runs).Should(Receive(HaveField("ID", id)))
	},
		Entry("by a job", func() (func(), string) { return func() { add(queue, nil) }, "1" }),
		Entry("by a job added after a job with a long delay", func() (func(), string) {
			add(queue, &bullmq.JobOptions{Delay: time.Minute})
			return func() { add(queue, nil) }, "2"
		}),
		Entry("by a LIFO job", func() (func(), string) { return func() { add(queue, &bullmq.JobOptions{LIFO: true}) }, "1" }),
		Entry("by a job with a priority", func() (func(), string) { return func() { add(queue, &bullmq.JobOptions{Priority: 3}) }, "1" }),
		Entry("by AddBulk", func() (func(), string) {
			return func() {
				_, err := queue.AddBulk(ctx, []bullmq.BulkJob{{Name: "a"}})
				Expect(err).NotTo(HaveOccurred())
			}, "1"
		}),
		Entry("when a delayed job is due", func() (func(), string) {
			return func() { add(queue, &bullmq.JobOptions{Delay: 50 * time.Millisecond}) }, "1"
		}),
		Entry("when a delayed job with a priority is due", func() (func(), string) {
			return func() { add(queue, &bullmq.JobOptions{Delay: 50 * time.Millisecond, Priority: 2}) }, "1"
		}),
		Entry("when a delayed job is promoted", func() (func(), string) {
			job := add(queue, &bullmq.JobOptions{Delay: time.Minute})
			return func() { Expect(job.Promote(ctx)).To(Succeed()) }, job.ID
		}),
		Entry("when a delayed job with a priority is promoted", func() (func(), string) {
			job := add(queue, &bullmq.JobOptions{Delay: time.Minute, Priority: 2})
			return func() { Expect(job.Promote(ctx)).To(Succeed()) }, job.ID
		}),
		Entry("when all delayed jobs are promoted", func() (func(), string) {
			job := add(queue, &bullmq.JobOptions{Delay: time.Minute})
			return func() { Expect(queue.PromoteJobs(ctx, nil)).To(Succeed()) }, job.ID
		}),
		Entry("when the delay of a delayed job is reduced", func() (func(), string) {
			job := add(queue, &bullmq.JobOptions{Delay: time.Minute})
			return func() { Expect(job.ChangeDelay(ctx, 50*time.Millisecond)).To(Succeed()) }, job.ID
		}),
		Entry("when a failed job is retried", func() (func(), string) {
			job := failedJob(ctx, queue)
			return func() { Expect(job.Retry(ctx, bullmq.StateFailed, nil)).To(Succeed()) }, job.ID
		}),
		Entry("when all failed jobs are retried", func() (func(), string) {
			job := failedJob(ctx, queue)
			return func() { Expect(queue.RetryJobs(ctx, nil)).To(Succeed()) }, job.ID
		}),
		Entry("when the queue is resumed", func() (func(), string) {
			Expect(queue.Pause(ctx)).To(Succeed())
			job := add(queue, nil)
			return func() { Expect(queue.Resume(ctx)).To(Succeed()) }, job.ID
		}),
		Entry("when the queue is resumed and its next job is delayed", func() (func(), string) {
			Expect(queue.Pause(ctx)).To(Succeed())
			job := add(queue, &bullmq.JobOptions{Delay: 400 * time.Millisecond})
			return func() { Expect(queue.Resume(ctx)).To(Succeed()) }, job.ID
		}),
		Entry("when another worker returns a job", func() (func(), string) {
			job := add(queue, nil)
			other := newFetcher(name, nil)
			taken, err := other.TryFetch(ctx)
			Expect(err).NotTo(HaveOccurred())
			return func() { Expect(taken.MoveToWait(ctx)).To(Succeed()) }, job.ID
		}),
		Entry("when another worker fails a job that has attempts left", func() (func(), string) {
			job := add(queue, &bullmq.JobOptions{Attempts: 2})
			other := newFetcher(name, nil)
			taken, err := other.TryFetch(ctx)
			Expect(err).NotTo(HaveOccurred())
			return func() {
				err := other.Fail(ctx, taken, context.Canceled)
				Expect(err).NotTo(HaveOccurred())
			}, job.ID
		}),
		Entry("when a job of another worker is found to have stalled", func() (func(), string) {
			job := add(queue, nil)
			other := newFetcher(name, &bullmq.FetcherOptions{LockDuration: 20 * time.Millisecond, StalledInterval: 20 * time.Millisecond})
			_, err := other.TryFetch(ctx)
			Expect(err).NotTo(HaveOccurred())
			return func() {
				Eventually(func() ([]string, error) { return other.CheckStalled(ctx) }).Should(Equal([]string{job.ID}))
			}, job.ID
		}),
		Entry("when the last child of a parent completes in another queue", func() (func(), string) {
			// The parent is an ordinary job that moves itself to waiting-children.
			parent := add(queue, nil)
			other := newFetcher(name, nil)
			taken, err := other.TryFetch(ctx)
			Expect(err).NotTo(HaveOccurred())
			children := newQueue(newQueueName(), nil)
			child := add(children, &bullmq.JobOptions{Parent: &bullmq.ParentRef{ID: parent.ID, QueueKey: "bull:" + name}})
			Expect(taken.MoveToWaitingChildren(ctx)).To(BeTrue())
			return func() {
				runWorker(children.Name(), doNothing, nil)
				Eventually(stateOf(children, child.ID)).Should(Equal(bullmq.StateCompleted))
			}, parent.ID
		}),
		Entry("when the last child of a parent is removed", func() (func(), string) {
			parent, child := waitingFor(nil)
			return func() { Expect(child.Remove(ctx)).To(Succeed()) }, parent.ID
		}),
		Entry("when the last child of a parent is removed by Clean", func() (func(), string) {
			parent, child := waitingFor(nil)
			return func() {
				Expect(newQueue(child.QueueName(), nil).Clean(ctx, &bullmq.CleanOptions{State: bullmq.StateWaiting})).To(Equal([]string{child.ID}))
			}, parent.ID
		}),
		Entry("when the last child of a parent is detached from it", func() (func(), string) {
			parent, child := waitingFor(nil)
			return func() { Expect(child.RemoveChildDependency(ctx)).To(BeTrue()) }, parent.ID
		}),
		Entry("when the last child of a parent with a priority fails and is ignored", func() (func(), string) {
			parent, child := waitingFor(&bullmq.JobOptions{OnFailure: bullmq.IgnoreDependency})
			return func() {
				other := newFetcher(child.QueueName(), nil)
				endJob(other, takeJob(other), nil, context.Canceled)
			}, parent.ID
		}),
		Entry("by a flow whose children have all ended already", func() (func(), string) {
			children := newQueue(newQueueName(), nil)
			child := add(children, &bullmq.JobOptions{JobID: "brick"})
			other := newFetcher(children.Name(), nil)
			endJob(other, takeJob(other), nil, nil)
			return func() {
				_, err := newFlows().Add(ctx, bullmq.Flow{Name: "wall", QueueName: name, Options: &bullmq.JobOptions{JobID: "wall"}, Children: []bullmq.Flow{
					{Name: "brick", QueueName: children.Name(), Options: &bullmq.JobOptions{JobID: child.ID}},
				}})
				Expect(err).NotTo(HaveOccurred())
			}, "wall"
		}),
		Entry("when another worker ends the owner of a deduplication id that a job waits for", func() (func(), string) {
			d := &bullmq.JobOptions{Deduplication: &bullmq.Deduplication{ID: "d", KeepLastIfActive: true}}
			add(queue, d)
			other := newFetcher(name, nil)
			taken := takeJob(other)
			Expect(add(queue, d).ID).To(Equal(taken.ID))
			return func() { endJob(other, taken, nil, nil) }, "2"
		}),
	)

	It("finds a job whose wake-up is lost within DrainDelay, even with a long delayed job in the queue", func() {
		o := patient()
		o.DrainDelay = 300 * time.Millisecond
		runWorker(name, note, o)
		add(queue, &bullmq.JobOptions{Delay: time.Hour})
		waitUntilIdle(queue)
		// This is what a producer without markers would write.
		Expect(redisDo("HSET", keyOf(name, "lost"), "name", "a", "data", "{}", "opts", "{}", "timestamp", "1", "delay", "0", "priority", "0").Error()).To(Succeed())
		Expect(redisDo("LPUSH", keyOf(name, "wait"), "lost").Error()).To(Succeed())
		Eventually(runs).Should(Receive(HaveField("ID", "lost")))
	})

	It("finds an overdue delayed job whose wake-up is lost within DrainDelay", func() {
		o := patient()
		o.DrainDelay = 300 * time.Millisecond
		runWorker(name, note, o)
		waitUntilIdle(queue)
		due := time.Now().Add(-time.Second).UnixMilli() * 4096
		Expect(redisDo("HSET", keyOf(name, "lost"), "name", "a", "data", "{}", "opts", "{}", "timestamp", "1", "delay", "5", "priority", "0").Error()).To(Succeed())
		Expect(redisDo("ZADD", keyOf(name, "delayed"), strconv.FormatInt(due, 10), "lost").Error()).To(Succeed())
		Eventually(runs).Should(Receive(HaveField("ID", "lost")))
	})

	// Before Redis 7.0.8, a timeout of 1 ms or less blocked forever, as 0 does in every version.
	DescribeTable("waits at least 2 ms and at most 10 s at a time", func(drainDelay time.Duration, options *bullmq.JobOptions, least, most float64) {
		monitor, err := net.Dial("tcp", redis.Addr())
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(monitor.Close)
		Expect(monitor.SetDeadline(time.Now().Add(10 * time.Second))).To(Succeed())
		_, err = monitor.Write([]byte("MONITOR\r\n"))
		Expect(err).NotTo(HaveOccurred())
		lines := bufio.NewScanner(monitor)
		Expect(lines.Scan()).To(BeTrue())
		Expect(lines.Text()).To(Equal("+OK"))
		if options != nil {
			add(queue, options)
		}
		runWorker(name, note, &bullmq.WorkerOptions{DrainDelay: drainDelay, SkipStalledCheck: true})
		wait := regexp.MustCompile(`(?i)"bzpopmin" "` + keyOf(name, "marker") + `" "([^"]*)"`)
		var waits []float64
		for len(waits) == 0 && lines.Scan() {
			if found := wait.FindStringSubmatch(lines.Text()); found != nil {
				seconds, err := strconv.ParseFloat(found[1], 64)
				Expect(err).NotTo(HaveOccurred())
				waits = append(waits, seconds)
			}
		}
		Expect(waits).To(HaveExactElements(And(BeNumerically(">=", least), BeNumerically("<=", most))))
	},
		Entry("with a DrainDelay of 1 ms", time.Millisecond, nil, 0.002, 0.002),
		Entry("with a DrainDelay of an hour", time.Hour, nil, 10.0, 10.0),
		Entry("with the next delayed job due in an hour", time.Hour, &bullmq.JobOptions{Delay: time.Hour}, 10.0, 10.0),
		Entry("with the next delayed job due in 30 ms", 5*time.Second, &bullmq.JobOptions{Delay: 30 * time.Millisecond}, 0.002, 5.0),
	)

	DescribeTable("makes almost no calls to Redis", func(before func()) {
		before()
		o := &bullmq.WorkerOptions{Concurrency: 10, Limiter: &bullmq.Limiter{Max: 100, Duration: time.Second}}
		runWorker(name, note, o)
		waitUntilIdle(queue)
		Expect(redisDo("CONFIG", "RESETSTAT").Error()).To(Succeed())
		time.Sleep(700 * time.Millisecond)
		calls := commandCalls()
		Expect(calls["bzpopmin"]+calls["evalsha"]+calls["eval"]+calls["client|unblock"]).To(BeNumerically("<=", 2), fmt.Sprint(calls))
	},
		Entry("with an empty queue", func() {}),
		Entry("with jobs that have a long delay", func() {
			for i := range 20 {
				add(queue, &bullmq.JobOptions{Delay: time.Minute + time.Duration(i)*time.Second})
			}
		}),
		Entry("while the queue is paused with waiting and due jobs", func() {
			Expect(queue.Pause(ctx)).To(Succeed())
			add(queue, nil)
			add(queue, &bullmq.JobOptions{Delay: time.Millisecond})
		}),
		Entry("while other workers use up the queue's concurrency", func() {
			Expect(queue.SetGlobalConcurrency(ctx, 1)).To(Succeed())
			add(queue, nil)
			other := newFetcher(name, nil)
			_, err := other.TryFetch(ctx)
			Expect(err).NotTo(HaveOccurred())
			add(queue, nil)
		}),
	)

	It("makes one fetch for each job that another worker fetched first", func() {
		for range 3 {
			runWorker(name, note, patient())
		}
		waitUntilIdle(queue)
		Expect(redisDo("CONFIG", "RESETSTAT").Error()).To(Succeed())
		for range 20 {
			add(queue, nil)
			Eventually(runs).Should(Receive())
		}
		waitUntilIdle(queue)
		calls := commandCalls()
		// Each job needs an add, a fetch, an end, and a passed-on wake-up that leads to one more fetch.
		Expect(calls["evalsha"]).To(BeNumerically("<=", 20*8), fmt.Sprint(calls))
		time.Sleep(500 * time.Millisecond)
		Expect(commandCalls()["evalsha"]).To(Equal(calls["evalsha"]), "they must not wake each other for ever")
	})

	It("starts jobs promptly on a cluster and stops at once", func() {
		name, link := "{"+name+"}", clustered()
		queue := newQueue(name, &bullmq.QueueOptions{Connection: link})
		o := patient()
		o.Connection = link
		_, stop, ended := startWorker(name, note, o)
		Eventually(func() ([]bullmq.ConnectedClient, error) { return queue.ConnectedWorkers(ctx) }).ShouldNot(BeEmpty())
		for _, delay := range []time.Duration{0, 150 * time.Millisecond, 170 * time.Millisecond} {
			job, err := queue.Add(ctx, "a", nil, &bullmq.JobOptions{Delay: delay})
			Expect(err).NotTo(HaveOccurred())
			Eventually(runs).Should(Receive(HaveField("ID", job.ID)))
		}
		begun := time.Now()
		stop()
		Eventually(ended).Should(Receive(BeNil()))
		Expect(time.Since(begun)).To(BeNumerically("<", 3*time.Second))
	})

	Describe("on a server that forbids commands", func() {
		DescribeTable("still works", func(rule string) {
			o := patient()
			o.Connection = restricted("~bull:* +@all " + rule)
			var faults atomic.Int64
			o.Events.Error = func(error) { faults.Add(1) }
			_, stop, ended := startWorker(name, note, o)
			time.Sleep(100 * time.Millisecond) // there is no way to see when it is idle
			add(queue, nil)
			Eventually(runs).Should(Receive())
			var late []time.Duration
			for range 3 {
				add(queue, &bullmq.JobOptions{Delay: 150 * time.Millisecond})
				var job *bullmq.Job
				Eventually(runs).Should(Receive(&job))
				late = append(late, time.Since(job.Timestamp.Add(150*time.Millisecond)))
			}
			slices.Sort(late)
			Expect(late[0]).To(BeNumerically("<", time.Second), fmt.Sprint(late))
			Expect(faults.Load()).To(BeZero())
			stop()
			Eventually(ended).Should(Receive(BeNil()))
		},
			Entry("without CLIENT", "-client"),
			Entry("without CLIENT UNBLOCK alone", "-client|unblock"),
			Entry("without INFO and CONFIG", "-info -config"),
		)

		It("reports without BZPOPMIN that it cannot wait, and polls", func() {
			o := patient()
			o.Connection = restricted("~bull:* +@all -bzpopmin")
			var faults atomic.Int64
			o.Events.Error = func(err error) {
				if _, refused := rueidis.IsRedisErr(err); refused {
					faults.Add(1)
				}
			}
			begun := time.Now()
			_, stop, ended := startWorker(name, note, o)
			Eventually(faults.Load).Should(BeNumerically(">=", 2))
			time.Sleep(500 * time.Millisecond)
			Expect(float64(faults.Load())).To(BeNumerically("<=", 12*time.Since(begun).Seconds()+1))
			add(queue, nil)
			Eventually(runs).Should(Receive())
			stop()
			Eventually(ended).Should(Receive(BeNil()))
		})
	})
})
