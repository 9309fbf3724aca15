package bullmq_test

import (
	"context"
	"strconv"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gstruct"
	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/faultproxy"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

var _ = Describe("An add whose reply is lost", Label("slow"), func() {
	var (
		name  string
		proxy *faultproxy.Proxy
		queue *bullmq.Queue // with AddWait
		ctx   context.Context
	)
	BeforeEach(func() {
		name, ctx = newQueueName(), specContext()
		var via *bullmq.Connection
		proxy, via = proxiedRedis()
		queue = newQueue(name, &bullmq.QueueOptions{Connection: via, AddWait: 10 * time.Second})
		// The server must know the scripts. Otherwise the lost reply would be NOSCRIPT.
		known := newQueue(newQueueName(), nil)
		for _, options := range []*bullmq.JobOptions{nil, {JobID: "a"}} {
			_, err := known.Add(ctx, "a", nil, options)
			Expect(err).NotTo(HaveOccurred())
		}
		_, err := known.AddBulk(ctx, make([]bullmq.BulkJob, 2))
		Expect(err).NotTo(HaveOccurred())
	})
	waiting := func() []string { GinkgoHelper(); return listAt(keyOf(name, "wait")) }

	DescribeTable("returns ErrMaybeAdded and is not resent if the job", func(lose func(match string) <-chan struct{}, options *bullmq.JobOptions, there int) {
		lost := lose("the-one")
		job, err := queue.Add(ctx, "the-one", nil, options)
		Expect(err).To(MatchError(bullmq.ErrMaybeAdded))
		Expect(job).To(BeNil())
		Eventually(lost).Should(BeClosed())
		Expect(waiting()).To(HaveLen(there))
	},
		Entry("was added", func(match string) <-chan struct{} { return proxy.LoseReply(match) }, nil, 1),
		Entry("was not added", func(match string) <-chan struct{} { return proxy.LoseCommand(match) }, nil, 0),
		Entry("is removed when it finishes", func(match string) <-chan struct{} { return proxy.LoseReply(match) },
			&bullmq.JobOptions{JobID: "own", KeepCompleted: bullmq.KeepNone()}, 1),
		Entry("has a deduplication id that ends with the job", func(match string) <-chan struct{} { return proxy.LoseReply(match) },
			&bullmq.JobOptions{Deduplication: &bullmq.Deduplication{ID: "d"}}, 1),
		Entry("has a deduplication id that might expire meanwhile", func(match string) <-chan struct{} { return proxy.LoseReply(match) },
			&bullmq.JobOptions{Deduplication: &bullmq.Deduplication{ID: "d", TTL: time.Second}}, 1),
	)

	DescribeTable("is resent if the job, which cannot be added twice, has", func(options *bullmq.JobOptions) {
		lost := proxy.LoseReply("the-one")
		job, err := queue.Add(ctx, "the-one", nil, options)
		Expect(err).NotTo(HaveOccurred())
		Eventually(lost).Should(BeClosed())
		Expect(waiting()).To(Equal([]string{job.ID}))
		Expect(job.AddOutcome()).To(Equal(bullmq.Added))
	},
		Entry("a custom id", &bullmq.JobOptions{JobID: "own"}),
		Entry("a deduplication id with a ttl", &bullmq.JobOptions{Deduplication: &bullmq.Deduplication{ID: "d", TTL: time.Minute}}),
	)

	DescribeTable("reports when it is resent that the job exists if", func(earlier, options bullmq.JobOptions, outcome bullmq.AddOutcome) {
		known := newQueue(name, nil)
		first, err := known.Add(ctx, "the-one", 1, &earlier)
		Expect(err).NotTo(HaveOccurred())
		lost := proxy.LoseReply("the-one")
		job, err := queue.Add(ctx, "the-one", 2, &options)
		Expect(err).NotTo(HaveOccurred())
		Eventually(lost).Should(BeClosed())
		Expect(job.ID).To(Equal(first.ID))
		Expect(job.AddOutcome()).To(Equal(outcome))
	},
		Entry("another call added it", bullmq.JobOptions{JobID: "own"}, bullmq.JobOptions{JobID: "own"}, bullmq.AlreadyExists),
		Entry("another call's job owns the deduplication id", bullmq.JobOptions{Deduplication: &bullmq.Deduplication{ID: "d", TTL: time.Minute}},
			bullmq.JobOptions{Deduplication: &bullmq.Deduplication{ID: "d", TTL: time.Minute}}, bullmq.Deduplicated),
	)

	It("reports when it is resent that the job exists if its timestamp is the caller's", func() {
		lost := proxy.LoseReply("the-one")
		job, err := queue.Add(ctx, "the-one", nil, &bullmq.JobOptions{JobID: "own", Timestamp: time.UnixMilli(fixedNow)})
		Expect(err).NotTo(HaveOccurred())
		Eventually(lost).Should(BeClosed())
		Expect(job.AddOutcome()).To(Equal(bullmq.AlreadyExists))
	})

	It("returns ErrMaybeAdded if Redis cannot be reached for the rest of AddWait", func() {
		short := newQueue(name, &bullmq.QueueOptions{Connection: connectionThrough(proxy), AddWait: 500 * time.Millisecond})
		lost := proxy.LoseReply("the-one")
		Expect(proxy.Set(faultproxy.Faults{Refuse: true})).To(Succeed())
		_, err := short.Add(ctx, "the-one", nil, &bullmq.JobOptions{JobID: "own"})
		Expect(err).To(MatchError(bullmq.ErrMaybeAdded))
		Eventually(lost).Should(BeClosed())
		Expect(waiting()).To(Equal([]string{"own"}))
	})

	It("returns ErrMaybeAdded in a bulk for the jobs without a custom id only, and adds the others", func() {
		lost := proxy.LoseReply("last-of-all")
		own := &bullmq.JobOptions{JobID: "own"}
		jobs, err := queue.AddBulk(ctx, []bullmq.BulkJob{{Name: "a"}, {Name: "b", Options: own}, {Name: "last-of-all"}})
		Eventually(lost).Should(BeClosed())
		Expect(err).To(MatchError(bullmq.ErrMaybeAdded))
		Expect(err).To(MatchError(ContainSubstring("job 0 of the bulk")))
		Expect(jobs[1].ID).To(Equal("own"))
		Expect(jobs[1].AddOutcome()).To(Equal(bullmq.Added))
		Expect([]string{jobs[0].ID, jobs[2].ID}).To(HaveEach(""))
		Expect(waiting()).To(Equal([]string{"3", "own", "1"}))
	})

	It("returns ErrMaybeAdded for a flow, which is added as a whole or not at all", func() {
		flows := newFlows(bullmq.FlowProducerOptions{Connection: connectionThrough(proxy)})
		tree := bullmq.Flow{QueueName: name, Name: "wall", Children: []bullmq.Flow{{QueueName: name, Name: "brick"}}}
		for i, lose := range []func(string) <-chan struct{}{proxy.LoseCommand, proxy.LoseReply} {
			lost := lose("exec")
			_, err := flows.Add(ctx, tree)
			Expect(err).To(MatchError(bullmq.ErrMaybeAdded))
			Eventually(lost).Should(BeClosed())
			Eventually(waiting).Should(HaveLen(i))
			Expect(zsetAt(keyOf(name, "waiting-children"))).To(HaveLen(i))
		}
	})

	It("is not resent with AddWait if it is a flow, even if each of its jobs has a custom id", func() {
		flows := newFlows(bullmq.FlowProducerOptions{Connection: connectionThrough(proxy), AddWait: 10 * time.Second})
		tree := bullmq.Flow{QueueName: name, Name: "wall", Options: &bullmq.JobOptions{JobID: "wall"}, Children: []bullmq.Flow{
			{QueueName: name, Name: "brick", Options: &bullmq.JobOptions{JobID: "brick"}},
		}}
		for i, lose := range []func(string) <-chan struct{}{proxy.LoseCommand, proxy.LoseReply} {
			lost := lose("exec")
			_, err := flows.Add(ctx, tree)
			Expect(err).To(MatchError(bullmq.ErrMaybeAdded))
			Eventually(lost).Should(BeClosed())
			Eventually(waiting).Should(HaveLen(i))
		}
	})
})

// newFlows returns a flow producer that is closed after the spec.
func newFlows(o bullmq.FlowProducerOptions) *bullmq.FlowProducer {
	GinkgoHelper()
	flows, err := bullmq.NewFlowProducer(specContext(), &o)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(flows.Close)
	return flows
}

var _ = Describe("An add while Redis is unavailable", Label("slow"), func() {
	var (
		name   string
		server *redisserver.Server
		ctx    context.Context
	)
	BeforeEach(func() {
		name, ctx = newQueueName(), specContext()
		server = startRedis(redisserver.Options{AppendOnly: true})
	})
	open := func(wait time.Duration) *bullmq.Queue {
		GinkgoHelper()
		// A single connection, since each notices the end of the server only with its next use.
		link := bullmq.Options(rueidis.ClientOption{InitAddress: []string{server.Addr()}, PipelineMultiplex: -1})
		return newQueue(name, &bullmq.QueueOptions{Connection: link, AddWait: wait})
	}
	// away stops the server and waits until each queue has noticed.
	away := func(queues ...*bullmq.Queue) {
		GinkgoHelper()
		server.Stop()
		for _, queue := range queues {
			Eventually(func() error { _, err := queue.Add(ctx, "a", nil, nil); return err }).Should(MatchError(ContainSubstring("refused")))
		}
	}

	It("fails at once and adds nothing without AddWait", func() {
		queue := open(0)
		away(queue)
		begun := time.Now()
		_, err := queue.Add(ctx, "a", nil, nil)
		Expect(err).To(MatchError(ContainSubstring(server.Addr())))
		_, bulkErr := queue.AddBulk(ctx, make([]bullmq.BulkJob, 3))
		Expect(bulkErr).To(MatchError(ContainSubstring(server.Addr())))
		Expect(time.Since(begun)).To(BeNumerically("<", 4*time.Second))
		Expect(server.Start()).To(Succeed())
		Expect(queue.Counts(ctx, bullmq.StateWaiting)).To(HaveKeyWithValue(bullmq.StateWaiting, BeZero()))
	})

	It("waits for Redis with AddWait and adds the jobs once, for Add and AddBulk", func() {
		queue := open(time.Minute)
		fast := open(0)
		away(fast)
		answers := make(chan error, 20)
		for i := range 20 {
			go func() {
				defer GinkgoRecover()
				// An add with a custom id is never in doubt, even if the connection had not noticed the end.
				if i%2 == 0 {
					_, err := queue.Add(ctx, "a", nil, &bullmq.JobOptions{JobID: "one-" + strconv.Itoa(i)})
					answers <- err
					return
				}
				jobs, err := queue.AddBulk(ctx, []bullmq.BulkJob{
					{Name: "a", Options: &bullmq.JobOptions{JobID: "many-" + strconv.Itoa(i)}}, {Name: "b", Options: &bullmq.JobOptions{JobID: "more-" + strconv.Itoa(i)}},
				})
				Expect(jobs).To(HaveEach(gstruct.PointTo(HaveField("ID", Not(BeEmpty())))))
				answers <- err
			}()
		}
		Consistently(answers, 500*time.Millisecond).ShouldNot(Receive())
		Expect(server.Start()).To(Succeed())
		for range 20 {
			Eventually(answers).Should(Receive(BeNil()))
		}
		Expect(queue.Counts(ctx, bullmq.StateWaiting)).To(HaveKeyWithValue(bullmq.StateWaiting, BeEquivalentTo(30)))
	})

	It("waits for Redis with AddWait and adds a flow once, also into a queue that is new to the producer", func() {
		link, err := bullmq.ConnectOption(ctx, rueidis.ClientOption{InitAddress: []string{server.Addr()}, PipelineMultiplex: -1})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(link.Close)
		var health healthLog
		fast := newFlows(bullmq.FlowProducerOptions{Connection: link})
		patient := newFlows(bullmq.FlowProducerOptions{Connection: link, AddWait: time.Minute, OnHealth: health.record})
		tree := func(queue string) bullmq.Flow {
			return bullmq.Flow{QueueName: queue, Name: "wall", Children: []bullmq.Flow{{QueueName: queue, Name: "brick"}}}
		}
		for _, flows := range []*bullmq.FlowProducer{fast, patient} {
			_, err := flows.Add(ctx, tree(name))
			Expect(err).NotTo(HaveOccurred())
		}
		server.Stop()
		Eventually(func() error { _, err := fast.Add(ctx, tree(name)); return err }).Should(MatchError(ContainSubstring("refused")))
		answers := make(chan error, 2)
		for _, queue := range []string{name, name + "-new"} {
			go func() { _, err := patient.Add(ctx, tree(queue)); answers <- err }()
		}
		Consistently(answers, 500*time.Millisecond).ShouldNot(Receive())
		Eventually(health.reachable, "10s").Should(Equal([]bool{false}))
		_, err = patient.Add(ctx, tree("a:b"))
		Expect(err).To(MatchError(ContainSubstring("colon")), "which is not retried")
		Expect(server.Start()).To(Succeed())
		for range 2 {
			Eventually(answers, "20s").Should(Receive(BeNil()))
		}
		Eventually(health.reachable, "10s").Should(Equal([]bool{false, true}))
		for queue, flows := range map[string]int{name: 3, name + "-new": 1} {
			q := newQueue(queue, &bullmq.QueueOptions{Connection: link})
			Expect(q.Counts(ctx, bullmq.StateWaiting, bullmq.StateWaitingChildren)).To(Equal(map[bullmq.State]int{bullmq.StateWaiting: flows, bullmq.StateWaitingChildren: flows}), queue)
		}
	})

	It("returns an error after AddWait and adds nothing of a flow", func() {
		flows := newFlows(bullmq.FlowProducerOptions{URL: server.URL(), AddWait: 300 * time.Millisecond})
		server.Stop()
		_, err := flows.Add(ctx, bullmq.Flow{QueueName: name, Name: "wall"})
		Expect(err).To(And(MatchError(ContainSubstring("AddWait of 300ms is over")), MatchError(ContainSubstring("no job of the flow was added"))))
		Expect(err).NotTo(MatchError(bullmq.ErrMaybeAdded))
		_, err = bullmq.NewFlowProducer(ctx, &bullmq.FlowProducerOptions{URL: server.URL(), AddWait: -1})
		Expect(err).To(MatchError(ContainSubstring("AddWait")))
	})

	It("returns an error after AddWait or at the end of its context and adds nothing", func() {
		queue := open(300 * time.Millisecond)
		away(queue)
		_, err := queue.Add(ctx, "a", nil, nil)
		Expect(err).To(MatchError(And(ContainSubstring("AddWait of 300ms is over"), ContainSubstring(server.Addr()))))
		Expect(err).NotTo(MatchError(bullmq.ErrMaybeAdded))

		short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		_, err = queue.Add(short, "a", nil, nil)
		Expect(err).To(MatchError(context.DeadlineExceeded))
		Expect(err).NotTo(MatchError(bullmq.ErrMaybeAdded))
		ended, end := context.WithCancel(ctx)
		end()
		_, err = queue.Add(ended, "a", nil, nil)
		Expect(err).To(And(MatchError(context.Canceled), MatchError(ContainSubstring("was not added"))))
		_, err = queue.AddBulk(ended, make([]bullmq.BulkJob, 2))
		Expect(err).To(And(MatchError(context.Canceled), MatchError(ContainSubstring("none of 2 jobs was added"))))
		Expect(queue.Close()).To(Succeed())
		_, err = queue.Add(ctx, "a", nil, nil)
		Expect(err).To(And(MatchError(bullmq.ErrClosed), Not(MatchError(bullmq.ErrMaybeAdded))))
	})

	It("fails at once when its queue is closed", func() {
		queue := open(time.Minute)
		away(open(0))
		added := make(chan error, 1)
		go func() { _, err := queue.Add(ctx, "a", nil, &bullmq.JobOptions{JobID: "a"}); added <- err }()
		Consistently(added, 300*time.Millisecond).ShouldNot(Receive())
		Expect(queue.Close()).To(Succeed())
		Eventually(added).Should(Receive(MatchError(bullmq.ErrClosed)))
	})

	It("waits while Redis refuses writes for a time, and does not return ErrMaybeAdded", func() {
		fast, patient := open(0), open(time.Minute)
		flows := newFlows(bullmq.FlowProducerOptions{URL: server.URL(), AddWait: time.Minute})
		admin := clientOf(server)
		Expect(admin.Do(ctx, admin.B().Arbitrary("CONFIG", "SET", "maxmemory", "1").Build()).Error()).To(Succeed())
		_, err := fast.Add(ctx, "a", nil, nil)
		Expect(err).To(And(MatchError(ContainSubstring("OOM")), Not(MatchError(bullmq.ErrMaybeAdded))))
		Expect(fast.Health().Reachable).To(BeTrue(), "a full Redis is reachable")
		added := make(chan error, 2)
		go func() { _, err := patient.Add(ctx, "a", nil, nil); added <- err }()
		go func() { _, err := flows.Add(ctx, bullmq.Flow{QueueName: name, Name: "a"}); added <- err }()
		Consistently(added, 300*time.Millisecond).ShouldNot(Receive())
		Expect(admin.Do(ctx, admin.B().Arbitrary("CONFIG", "SET", "maxmemory", "0").Build()).Error()).To(Succeed())
		Eventually(added, "10s").Should(Receive(BeNil()))
		Eventually(added, "10s").Should(Receive(BeNil()))
		Expect(fast.Counts(ctx, bullmq.StateWaiting)).To(HaveKeyWithValue(bullmq.StateWaiting, BeEquivalentTo(2)))
	})
})

var _ = Describe("An add while Redis accepts connections and does not reply", Label("slow"), func() {
	const wait, late = time.Second, 3 * time.Second
	silences := map[string]func() (connect func() *bullmq.Connection, silence func()){
		"stopped": func() (func() *bullmq.Connection, func()) {
			server := startRedis(redisserver.Options{})
			return func() *bullmq.Connection { return bullmq.URL(server.URL()) }, func() {
				Expect(server.Freeze()).To(Succeed())
				DeferCleanup(func() { Expect(server.Thaw()).To(Succeed()) })
			}
		},
		"behind a silent link": func() (func() *bullmq.Connection, func()) {
			proxy, _ := proxiedRedis()
			return func() *bullmq.Connection { return bullmq.URL("redis://" + proxy.Addr()) }, func() {
				Expect(proxy.Set(faultproxy.Faults{BlackHole: true})).To(Succeed())
				DeferCleanup(func() { Expect(proxy.Set(faultproxy.Faults{})).To(Succeed()) })
			}
		},
	}
	// timed is a call's error and duration.
	type timed struct {
		err  error
		took time.Duration
	}
	within := func(call func() error) timed {
		begun := time.Now()
		err := call()
		return timed{err, time.Since(begun)}
	}

	It("returns at the end of its context, even for a flow into a new queue", func() {
		proxy, via := proxiedRedis()
		flows, err := bullmq.NewFlowProducer(context.Background(), &bullmq.FlowProducerOptions{Connection: via})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(flows.Close)
		Expect(proxy.Set(faultproxy.Faults{BlackHole: true})).To(Succeed())
		DeferCleanup(func() { Expect(proxy.Set(faultproxy.Faults{})).To(Succeed()) })
		short, cancel := context.WithTimeout(specContext(), 300*time.Millisecond)
		defer cancel()
		t := within(func() error {
			_, err := flows.Add(short, bullmq.Flow{QueueName: newQueueName(), Name: "a"})
			return err
		})
		Expect(t.err).To(And(MatchError(context.DeadlineExceeded), MatchError(ContainSubstring("no job of the flow was added"))))
		Expect(t.took).To(BeNumerically("<", 300*time.Millisecond+late))
	})

	for how, silenced := range silences {
		It("returns ErrMaybeAdded within AddWait if Redis is "+how, func() {
			name, ctx := newQueueName(), specContext()
			connect, silence := silenced()
			queue := newQueue(name, &bullmq.QueueOptions{Connection: connect(), AddWait: wait})
			flows := newFlows(bullmq.FlowProducerOptions{Connection: connect(), AddWait: wait})
			calls := map[string]func() error{
				"a flow":    func() error { _, err := flows.Add(ctx, bullmq.Flow{QueueName: name, Name: "a"}); return err },
				"one":       func() error { _, err := queue.Add(ctx, "a", nil, nil); return err },
				"with id":   func() error { _, err := queue.Add(ctx, "a", nil, &bullmq.JobOptions{JobID: "own"}); return err },
				"a bulk":    func() error { _, err := queue.AddBulk(ctx, make([]bullmq.BulkJob, 3)); return err },
				"a big one": func() error { _, err := queue.AddBulk(ctx, make([]bullmq.BulkJob, 3000)); return err },
			}
			for what, call := range calls {
				Eventually(call).Should(Succeed(), what) // a busy machine may need more than AddWait
			}
			silence()
			t := within(calls["one"])
			Expect(t.err).To(And(MatchError(bullmq.ErrMaybeAdded), MatchError(ContainSubstring("the AddWait of 1s is over"))))
			Expect(t.took).To(And(BeNumerically(">=", wait), BeNumerically("<", wait+late)))
			for range 2 { // the connections are reopened meanwhile
				var all sync.WaitGroup
				ended := make(map[string]*timed, len(calls))
				for what, call := range calls {
					t := &timed{}
					ended[what] = t
					all.Go(func() { *t = within(call) })
				}
				all.Wait()
				for what, t := range ended {
					Expect(t.err).To(HaveOccurred(), what)
					Expect(t.took).To(BeNumerically("<", wait+late), what)
				}
			}
		})

		It("returns within AddWait for each of many goroutines if Redis is "+how, func() {
			name, ctx := newQueueName(), specContext()
			connect, silence := silenced()
			queue := newQueue(name, &bullmq.QueueOptions{Connection: connect(), AddWait: wait})
			_, err := queue.Add(ctx, "a", nil, &bullmq.JobOptions{JobID: "own"})
			Expect(err).NotTo(HaveOccurred())
			silence()
			const many = 1000
			ended := make(chan timed, many)
			for i := range many {
				go func() {
					ended <- within(func() error {
						var options *bullmq.JobOptions
						if i%2 == 0 {
							options = &bullmq.JobOptions{JobID: "own-" + strconv.Itoa(i)}
						}
						_, err := queue.Add(ctx, "a", nil, options)
						return err
					})
				}()
			}
			var longest time.Duration
			for range many {
				var t timed
				Eventually(ended, "15s").Should(Receive(&t))
				Expect(t.err).To(HaveOccurred())
				longest = max(longest, t.took)
			}
			Expect(longest).To(BeNumerically("<", wait+2*late), "a thousand goroutines take longer under the race detector")
		})
	}
})

var _ = Describe("A bulk that takes more than one round trip", Label("slow"), func() {
	It("adds the jobs after a batch of which one job was refused", func() {
		name, ctx := newQueueName(), specContext()
		queue := newQueue(name, nil)
		bulk := make([]bullmq.BulkJob, 2500)
		bulk[7].Options = &bullmq.JobOptions{Parent: &bullmq.ParentRef{ID: "gone", QueueKey: "bull:" + name}}
		jobs, err := queue.AddBulk(ctx, bulk)
		Expect(err).To(MatchError(bullmq.ErrParentNotFound))
		Expect(jobs[7].ID).To(BeEmpty())
		Expect(jobs[2499].ID).To(Equal("2499"))
		Expect(queue.Counts(ctx, bullmq.StateWaiting)).To(HaveKeyWithValue(bullmq.StateWaiting, BeEquivalentTo(2499)))
	})
})
