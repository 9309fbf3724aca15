package chaos

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

// trial is one fault under load. Producers and workers in Go and Node share a queue from begin to settle.
type trial struct {
	fault  string
	begun  time.Time
	site   Site
	queue  string
	names  []string // of the queues at the site; the first is queue
	shards []queueKeys
	ledger *Ledger
	fleet  *Fleet
	admin  rueidis.Client // causes faults and reads the account

	inGo   []*Producer
	queues []*bullmq.Queue
	inNode *NodeProducer
	clock  Clock // of the first queue

	mu      sync.Mutex
	changes []bullmq.Health // reported by the first queue
}

var trials atomic.Int64

// load describes the producers and workers that run during a fault.
type load struct {
	Settings
	goWorkers, nodeWorkers int
	pace                   time.Duration // interval between two adds of each producer
	further                int           // number of further queues, which all Go workers and producers use
}

// lightLoad is the load of most trials: a few hundred jobs per second.
func lightLoad(lock time.Duration) load {
	return load{
		Settings:  Settings{Lock: lock, Stalled: 300 * time.Millisecond, Work: 10 * time.Millisecond, Concurrency: 5},
		goWorkers: 2, nodeWorkers: 2, pace: 20 * time.Millisecond,
	}
}

// fleets are the entries of a table of faults. Each fault is applied to a mixed fleet and to Go only, for
// which the checks are stricter.
var fleets = []TableEntry{Entry("with Go and Node", 2), Entry("with Go only", 0)}

// on returns the load with the given number of Node workers.
func on(nodeWorkers int, l load) load {
	l.nodeWorkers = nodeWorkers
	return l
}

// begin starts the load at a site and returns when all participants are active.
func begin(fault string, site Site, l load) *trial {
	GinkgoHelper()
	ctx := within(30 * time.Second)
	if l.nodeWorkers == 0 {
		fault += ", Go alone"
	}
	t := &trial{fault: fault, begun: time.Now(), site: site, queue: fmt.Sprintf("orders-%d", trials.Add(1)), ledger: &Ledger{}}
	t.names = []string{t.queue}
	for i := range l.further {
		t.names = append(t.names, fmt.Sprintf("%s-%d", t.queue, i+1))
	}
	var err error
	t.admin, err = site.open()
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(t.admin.Close)

	var flags []string
	if l.further > 0 {
		flags = []string{"-further", strings.Join(t.names[1:], ",")}
	}
	t.startFleet(ctx, l, flags...)

	// One queue adds single jobs and fails fast. The other adds several at once and waits.
	for i, wait := range []time.Duration{0, 2 * time.Minute} {
		options := &bullmq.QueueOptions{Connection: connect(site), Prefix: site.Prefix, AddWait: wait}
		if i == 0 {
			options.Now = t.clock.Now
			options.OnHealth = func(h bullmq.Health) { t.mu.Lock(); defer t.mu.Unlock(); t.changes = append(t.changes, h) }
		}
		var queues []adder
		for n, name := range t.names {
			queue, err := bullmq.NewQueue(ctx, name, options)
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(queue.Close)
			queues = append(queues, queue)
			if n == 0 {
				t.queues = append(t.queues, queue)
			}
			options.OnHealth = nil
		}
		producer := produceInGo(t.ledger, queues, l.pace, 3*i)
		DeferCleanup(producer.Kill)
		t.inGo = append(t.inGo, producer)
	}
	if l.nodeWorkers > 0 {
		t.inNode, err = produceInNode(ctx, t.ledger, site, t.queue, l.pace)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(t.inNode.Kill)
	}
	t.waitForProgress()
	return t
}

// startFleet starts the workers. goFlags are additional arguments of those in Go.
func (t *trial) startFleet(ctx context.Context, l load, goFlags ...string) {
	GinkgoHelper()
	t.fleet = &Fleet{site: t.site, queue: t.queue, goFlags: goFlags, settings: l.Settings, ledger: t.ledger}
	DeferCleanup(t.fleet.Kill)
	DeferCleanup(func() {
		if CurrentSpecReport().Failed() {
			for _, m := range t.fleet.Ever(Go) {
				GinkgoWriter.Printf("output of %s:\n%s\n", m.Name, m.Stderr())
			}
		}
	})
	Expect(t.fleet.StartAll(ctx, l.goWorkers, l.nodeWorkers)).To(Succeed())
}

// keys returns the keys of all queues.
func (t *trial) keys() []queueKeys {
	all := t.shards
	for _, name := range t.names {
		all = append(all, queueKeys{t.admin, t.site.base(name)})
	}
	return all
}

// waitForProgress waits until the workers have finished some more jobs.
func (t *trial) waitForProgress() {
	GinkgoHelper()
	ended := t.ledger.EndedSoFar()
	Eventually(t.ledger.EndedSoFar).Should(BeNumerically(">=", ended+50), "finished jobs")
}

// on sends a command that causes the fault or ends it.
func (t *trial) on(words ...string) {
	GinkgoHelper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	Expect(ask(ctx, t.admin, words...)).To(Succeed())
}

// faultEnded marks the end of the fault. Recovery is measured from here.
func (t *trial) faultEnded() { t.ledger.Mark() }

// health returns the health changes that the first queue has reported.
func (t *trial) health() []bullmq.Health {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]bullmq.Health(nil), t.changes...)
}

// tolerance lists the deviations that the protocol allows for a fault.
type tolerance struct {
	// reruns allows runs of jobs whose lock expired: their worker was killed or frozen, or Redis was
	// unavailable for longer than the lock lasts.
	reruns bool
	// nodeErrs allows two behaviours of Node. bullmq takes an error of Redis on a finish for an error of the
	// handler. ioredis resends calls whose reply was lost, which leaves jobs to the stalled check. Both are
	// counted but not held against Go.
	nodeErrs bool
	// late is how long jobs may take in addition to the duration of a lock and 30 seconds.
	late time.Duration
	// back limits the time from the end of the fault until Go adds and starts jobs again. Defaults to 2
	// seconds. The short form, which runs beside other tests, allows five more.
	back time.Duration
}

// settle waits until both libraries have recovered and all jobs have finished, and then compares the ledger
// with Redis.
func (t *trial) settle(granted tolerance) Account {
	GinkgoHelper()
	if granted.back == 0 {
		granted.back = 2 * time.Second
	}
	if !*full {
		granted.back += 5 * time.Second
	}
	libraries := []Library{Go}
	if t.inNode != nil {
		libraries = append(libraries, Node)
	}
	for _, library := range libraries {
		Eventually(t.ledger.Recovery).WithArguments(library).Should(BeNumerically(">", 0), func() string {
			return fmt.Sprintf("%v has not added and started a job again; %s", library, t.lastErrors())
		})
	}
	Expect(t.ledger.Recovery(Go)).To(BeNumerically("<", granted.back), "time until Go adds and starts jobs again")
	t.waitForProgress()

	for _, producer := range t.inGo {
		producer.Stop()
	}
	if t.inNode != nil {
		Expect(t.inNode.Stop(within(30 * time.Second))).To(Succeed())
	}
	timeout := within(t.fleet.settings.Lock + 30*time.Second + granted.late)
	Expect(drained(timeout, t.keys()...)).To(Succeed(), t.lastErrors)
	members := t.fleet.Members()
	Expect(t.fleet.Stop(Go)).To(Succeed())
	if granted.nodeErrs {
		t.fleet.Kill() // bullmq may wait forever for a server that is gone
	}
	Expect(t.fleet.Stop()).To(Succeed())
	if !granted.reruns {
		for _, member := range members {
			Expect(member.LocksLost()).To(BeEmpty(), "locks that %s reported as lost", member.Name)
		}
	}

	account, err := t.ledger.Settle(timeout, t.keys()...)
	Expect(err).NotTo(HaveOccurred())
	report.Add(Row{
		Fault: t.fault, Account: account, Took: time.Since(t.begun),
		InGo: t.ledger.Recovery(Go), InNode: t.ledger.Recovery(Node),
	})
	Expect(account.Wrong).To(BeEmpty())
	Expect(account.Left).To(BeZero())
	if t.inNode == nil && !granted.reruns {
		Expect(account.Stalls).To(BeZero(), "stalled jobs: Go resolves its lost fetches itself")
	}
	if !granted.reruns {
		Expect(account.Reruns[Go]).To(BeZero(), "attempts started again after a start in Go: %v", t.ledger.Reruns())
	}
	if !granted.reruns && !granted.nodeErrs {
		Expect(account.Reruns[Node]).To(BeZero(), "attempts started again after a start in Node")
	}
	if !granted.nodeErrs {
		Expect(account.Misfailed).To(BeZero(), "jobs that Node failed by mistake")
	}
	return account
}

func (t *trial) lastErrors() string {
	text := "last errors:"
	for _, member := range t.fleet.Members() {
		text += "\n" + member.LastError()
	}
	return text
}

// startServer starts a Redis that loses nothing when it is killed: every write is on disk before its reply.
func startServer(config ...string) *redisserver.Server {
	GinkgoHelper()
	server, err := redisserver.Start(redisserver.Options{AppendOnly: true, Config: append([]string{"appendfsync always"}, config...)})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() {
		if log := server.Log(); CurrentSpecReport().Failed() {
			GinkgoWriter.Printf("end of the Redis log:\n%s\n", log[max(0, len(log)-10000):])
		}
		server.Close()
	})
	return server
}

func at(server *redisserver.Server) Site { return Site{Address: server.Addr(), Prefix: "bull"} }

// connect connects this SDK to a site until the spec ends.
func connect(site Site) *bullmq.Connection {
	GinkgoHelper()
	connection, err := site.Connect(context.Background())
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(connection.Close)
	return connection
}

// connectClient makes a Connection of a client, until the spec ends.
func connectClient(client rueidis.Client) *bullmq.Connection {
	GinkgoHelper()
	connection, err := bullmq.ConnectClient(context.Background(), client)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(connection.Close)
	return connection
}
