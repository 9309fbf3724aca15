package bullmq_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/faultproxy"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

// stop is one object to close, with the time that its options allow.
type stop struct {
	name  string
	end   func() // returns when it is closed
	limit time.Duration
}

const (
	stopTimeout = 300 * time.Millisecond // ShutdownTimeout of the workers
	stopMargin  = 3 * time.Second        // shorter than every timeout that a fault could cause
)

// everything opens one busy object of each kind on a connection.
func everything(connection func() *bullmq.Connection, prefix string) (stops []stop) {
	GinkgoHelper()
	background := func(call func()) {
		var done sync.WaitGroup
		done.Go(call)
		DeferCleanup(done.Wait)
	}
	base := newQueueName()
	newOne := func(kind string, handler bullmq.Handler, concurrency int) (*bullmq.Worker, string) {
		GinkgoHelper()
		name := base + "-" + kind
		worker, err := bullmq.NewWorker(context.Background(), name, handler, &bullmq.WorkerOptions{
			Connection: connection(), Prefix: prefix, ShutdownTimeout: stopTimeout, Concurrency: concurrency,
			StalledInterval: 50 * time.Millisecond, LockRenewTime: 50 * time.Millisecond,
		})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(worker.Close)
		return worker, name
	}
	newOneFetcher := func(kind string) *bullmq.Fetcher {
		GinkgoHelper()
		return newFetcher(base+"-"+kind, &bullmq.FetcherOptions{Connection: connection(), Prefix: prefix, StalledInterval: 50 * time.Millisecond})
	}
	newOneQueue := func(name string) *bullmq.Queue {
		GinkgoHelper()
		queue, err := bullmq.NewQueue(context.Background(), name, &bullmq.QueueOptions{Connection: connection(), Prefix: prefix})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(queue.Close)
		return queue
	}
	addTo := func(name string, jobs int) {
		GinkgoHelper()
		queue := newOneQueue(name)
		for range jobs {
			_, err := queue.Add(specContext(), "a", nil, nil)
			Expect(err).NotTo(HaveOccurred())
		}
		Expect(queue.Close()).To(Succeed())
	}

	idle, _ := newOne("idle", doNothing, 1)
	run, end := context.WithCancel(context.Background())
	idleEnded := make(chan struct{})
	go func() { defer close(idleEnded); _ = idle.Run(run) }()
	stops = append(stops, stop{"Run of an idle worker", func() { end(); <-idleEnded }, stopTimeout})

	busy, name := newOne("busy", func(_ context.Context, job *bullmq.Job) (any, error) {
		err := job.UpdateProgress(context.Background(), 1)
		return nil, err
	}, 20)
	addTo(name, 50)
	feeder := newOneQueue(name)
	feeding, starve := context.WithCancel(context.Background())
	for range 4 {
		background(func() {
			for feeding.Err() == nil {
				if _, err := feeder.Add(feeding, "a", nil, nil); err != nil {
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	DeferCleanup(starve)
	background(func() { _ = busy.Run(context.Background()) })
	stops = append(stops,
		stop{"Close of a worker under load", func() { _ = busy.Close() }, stopTimeout},
		stop{"Close of a queue that adds", func() { _ = feeder.Close() }, 0})

	started, free := make(chan struct{}, 10), make(chan struct{})
	DeferCleanup(func() { close(free) })
	deaf, name := newOne("deaf", func(context.Context, *bullmq.Job) (any, error) {
		started <- struct{}{}
		<-free
		return nil, nil
	}, 3)
	addTo(name, 3)
	background(func() { _ = deaf.Run(context.Background()) })
	for range 3 {
		Eventually(started).Should(Receive())
	}
	paused := make(chan struct{})
	background(func() { defer close(paused); _ = deaf.Pause(context.Background()) })
	stops = append(stops,
		stop{"Close of a worker whose handlers ignore their context", func() { _ = deaf.Close() }, stopTimeout},
		stop{"Pause of a worker that is closed", func() { _ = deaf.Close(); <-paused }, stopTimeout})

	byHand := newOneFetcher("by-hand")
	got := make(chan struct{})
	background(func() { defer close(got); _, _ = byHand.Fetch(context.Background()) })
	stops = append(stops, stop{"Fetch of a Fetcher that is closed", func() { _ = byHand.Close(); <-got }, stopTimeout})

	checker := newOneFetcher("checker")
	checked := make(chan struct{})
	background(func() {
		defer close(checked)
		for !errors.Is(func() error { _, err := checker.CheckStalled(context.Background()); return err }(), bullmq.ErrClosed) {
			time.Sleep(time.Millisecond)
		}
	})
	stops = append(stops, stop{"CheckStalled of a Fetcher that is closed", func() { _ = checker.Close(); <-checked }, stopTimeout})

	waited := newOneQueue(base + "-waited")
	job, err := waited.Add(specContext(), "a", nil, nil)
	Expect(err).NotTo(HaveOccurred())
	answered := make(chan struct{})
	background(func() { defer close(answered); _, _ = waited.WaitForJob(context.Background(), job.ID) })
	stops = append(stops, stop{"Close of a queue with a WaitForJob", func() { _ = waited.Close(); <-answered }, 0})

	events, err := bullmq.NewQueueEvents(context.Background(), base+"-events", &bullmq.QueueEventsOptions{Connection: connection(), Prefix: prefix})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(events.Close)
	looped := make(chan struct{})
	background(func() {
		defer close(looped)
		for range events.All(context.Background()) {
		}
	})
	stops = append(stops, stop{"Close of a QueueEvents in its loop", func() { _ = events.Close(); <-looped }, 0})

	flows, err := bullmq.NewFlowProducer(context.Background(), &bullmq.FlowProducerOptions{Connection: connection(), Prefix: prefix})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(flows.Close)
	flowing, dry := context.WithCancel(context.Background())
	background(func() {
		for flowing.Err() == nil {
			if _, err := flows.Add(flowing, bullmq.Flow{Name: "a", QueueName: base + "-flows"}); err != nil {
				time.Sleep(time.Millisecond)
			}
		}
	})
	DeferCleanup(dry)
	stops = append(stops, stop{"Close of a FlowProducer that adds", func() { _ = flows.Close() }, 0})
	return stops
}

// trouble makes Redis or the link to it fail.
type trouble func(server *redisserver.Server, proxy *faultproxy.Proxy)

var _ = Describe("Closing workers, queues, event readers and flow producers", Label("slow"), func() {
	configured := func(settings ...string) trouble {
		return func(server *redisserver.Server, _ *faultproxy.Proxy) {
			client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true, ForceSingleClient: true})
			Expect(err).NotTo(HaveOccurred())
			defer client.Close()
			for i := 0; i < len(settings); i += 2 {
				Expect(client.Do(context.Background(), client.B().ConfigSet().ParameterValue().ParameterValue(settings[i], settings[i+1]).Build()).Error()).To(Succeed())
			}
		}
	}
	faulty := func(faults faultproxy.Faults) trouble {
		return func(_ *redisserver.Server, proxy *faultproxy.Proxy) { Expect(proxy.Set(faults)).To(Succeed()) }
	}
	well := func(*redisserver.Server, *faultproxy.Proxy) {}
	silent := func(server *redisserver.Server, _ *faultproxy.Proxy) {
		Expect(server.Freeze()).To(Succeed())
		DeferCleanup(server.Thaw)
	}
	gone := func(server *redisserver.Server, _ *faultproxy.Proxy) { server.Kill() }
	silentAgain := func(_ *redisserver.Server, proxy *faultproxy.Proxy) {
		Expect(proxy.Set(faultproxy.Faults{BlackHole: true})).To(Succeed())
		proxy.CutAll()
	}
	full := configured("maxmemory", "1")
	crowded := func(server *redisserver.Server, proxy *faultproxy.Proxy) {
		configured("maxclients", "1")(server, proxy)
		proxy.CutAll()
	}

	const (
		byURL  = "a URL"
		caller = "the caller's own client"
		nodes  = "a cluster"
		shared = "a shared Connection"
	)
	comesInTime := func(way string) func(fault trouble) {
		comes := func(g Gomega, fault trouble) {
			server, prefix := cluster, "{bull}"
			if way == nodes {
				clustered()
			} else {
				var err error
				server, err = redisserver.Start(redisserver.Options{})
				Expect(err).NotTo(HaveOccurred())
				DeferCleanup(server.Close)
			}
			proxy := proxied(server.Addr())
			connection := func() *bullmq.Connection { return bullmq.URL("redis://" + proxy.Addr()) }
			switch way {
			case caller:
				client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{proxy.Addr()}, DisableCache: true})
				Expect(err).NotTo(HaveOccurred())
				DeferCleanup(client.Close)
				connection = func() *bullmq.Connection { return bullmq.Client(client) }
			case shared:
				one, err := bullmq.Connect(specContext(), "redis://"+proxy.Addr())
				Expect(err).NotTo(HaveOccurred())
				DeferCleanup(one.Close)
				connection = func() *bullmq.Connection { return one }
			case nodes:
				connection = clustered
			}
			stops := everything(connection, prefix)
			time.Sleep(50 * time.Millisecond) // lets the load build up
			fault(server, proxy)

			var all sync.WaitGroup
			var mu sync.Mutex
			var late []string
			begun := time.Now()
			for _, s := range stops {
				all.Go(func() {
					s.end()
					if took := time.Since(begun); took > s.limit+stopMargin {
						mu.Lock()
						defer mu.Unlock()
						late = append(late, fmt.Sprintf("%s took %v", s.name, took.Round(time.Millisecond)))
					}
				})
			}
			all.Wait()
			_ = server.Thaw() // the suite's cluster serves the next run
			g.Expect(late).To(BeEmpty())
		}
		return func(fault trouble) { steadily(func(g Gomega) { comes(g, fault) }) }
	}
	// The suite has only one cluster, without a proxy.
	ofAll := []TableEntry{
		Entry("is available", trouble(well)),
		Entry("does not reply", trouble(silent)),
	}
	troubles := append([]TableEntry{
		Entry("is down", trouble(gone)),
		Entry("is out of memory", full),
		Entry("refuses new connections", crowded),
		Entry("is slow", faulty(faultproxy.Faults{Delay: 150 * time.Millisecond})),
		Entry("does not reply on new connections either", trouble(silentAgain)),
	}, ofAll...)
	DescribeTable("finishes in time over a URL while Redis", comesInTime(byURL), troubles)
	DescribeTable("finishes in time over the caller's own client while Redis", comesInTime(caller), troubles)
	DescribeTable("finishes in time over a shared Connection while Redis", comesInTime(shared), troubles)
	DescribeTable("finishes in time over a cluster while Redis", comesInTime(nodes), ofAll)
})
