package chaos

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

// trial is one fault under load: producers and workers in Go and Node at one
// queue from begin to settle.
type trial struct {
	fault  string
	begun  time.Time
	site   Site
	queue  string
	ledger *Ledger
	fleet  *Fleet
	admin  rueidis.Client // to cause faults and to read the account

	inGo   []*Producer
	queues []*bullmq.Queue
	inNode *NodeProducer
	clock  Clock // of the first queue

	mu      sync.Mutex
	changes []bullmq.Health // what the first queue tells
}

var trials atomic.Int64

// load says what works before and during a fault.
type load struct {
	Settings
	goWorkers, nodeWorkers int
	pace                   time.Duration // between two adds of each producer
}

// light is the load of most trials: some hundred jobs a second.
func light(lock time.Duration) load {
	return load{
		Settings:  Settings{Lock: lock, Stalled: 300 * time.Millisecond, Work: 10 * time.Millisecond, Concurrency: 5},
		goWorkers: 2, nodeWorkers: 2, pace: 20 * time.Millisecond,
	}
}

// sides are the entries of a table of faults: each meets a fleet of both sides,
// and of Go alone, of which more can be asked.
var sides = []TableEntry{Entry("with Go and Node", 2), Entry("with Go alone", 0)}

// on is a load with so many workers in Node.
func on(nodeWorkers int, l load) load {
	l.nodeWorkers = nodeWorkers
	return l
}

// begin starts the load at a site and returns when all take part.
func begin(fault string, site Site, l load) *trial {
	GinkgoHelper()
	ctx := within(30 * time.Second)
	if l.nodeWorkers == 0 {
		fault += ", Go alone"
	}
	t := &trial{fault: fault, begun: time.Now(), site: site, queue: fmt.Sprintf("orders-%d", trials.Add(1)), ledger: &Ledger{}}
	var err error
	t.admin, err = site.open()
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(t.admin.Close)

	t.fleet = &Fleet{site: site, queue: t.queue, settings: l.Settings, ledger: t.ledger}
	DeferCleanup(t.fleet.Kill)
	DeferCleanup(func() {
		if CurrentSpecReport().Failed() {
			for _, m := range t.fleet.Ever(Go) {
				GinkgoWriter.Printf("%s said:\n%s\n", m.Name, m.Stderr())
			}
		}
	})
	Expect(t.fleet.StartAll(ctx, l.goWorkers, l.nodeWorkers)).To(Succeed())

	// One adds single jobs and fails fast, one adds several at once and waits.
	for i, wait := range []time.Duration{0, 2 * time.Minute} {
		options := &bullmq.QueueOptions{Connection: site.Connection(), Prefix: site.Prefix, AddWait: wait}
		if i == 0 {
			options.Now = t.clock.Now
			options.OnHealth = func(h bullmq.Health) { t.mu.Lock(); defer t.mu.Unlock(); t.changes = append(t.changes, h) }
		}
		queue, err := bullmq.NewQueue(ctx, t.queue, options)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(queue.Close)
		producer := produceInGo(t.ledger, queue, l.pace, 3*i)
		DeferCleanup(producer.Kill)
		t.queues, t.inGo = append(t.queues, queue), append(t.inGo, producer)
	}
	if l.nodeWorkers > 0 {
		t.inNode, err = produceInNode(ctx, t.ledger, site, t.queue, l.pace)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(t.inNode.Kill)
	}
	t.flows()
	return t
}

// flows waits until each worker that can has ended some more jobs.
func (t *trial) flows() {
	GinkgoHelper()
	ended := t.ledger.EndedSoFar()
	Eventually(t.ledger.EndedSoFar).Should(BeNumerically(">=", ended+50), "jobs that have ended")
}

// on sends a command that is to cause the fault, or to end it.
func (t *trial) on(words ...string) {
	GinkgoHelper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	Expect(ask(ctx, t.admin, words...)).To(Succeed())
}

// over says that the fault has ended: from now on recovery is measured.
func (t *trial) over() { t.ledger.Mark() }

// health is what the first queue has told of Redis so far.
func (t *trial) health() []bullmq.Health {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]bullmq.Health(nil), t.changes...)
}

// terms are what the protocol grants a fault.
type terms struct {
	// reruns may happen, for jobs whose lock has expired: their worker was killed
	// or stopped, or Redis away for longer than the lock.
	reruns bool
	// nodeErrs: bullmq takes a refusal by Redis, when it writes a job's end, for an
	// error of the handler, and ioredis sends again what had no answer, which
	// leaves jobs to the check for stalled ones. Both are counted, and not held
	// against Go.
	nodeErrs bool
	// late is how much longer than the locks last and 30 s jobs may take to be run.
	late time.Duration
	// back is how soon after the fault Go must add and start jobs again; 2 s
	// unless given.
	back time.Duration
}

// settle waits for Go's and Node's return, lets all jobs end, and holds the
// ledger against Redis.
func (t *trial) settle(granted terms) Account {
	GinkgoHelper()
	if granted.back == 0 {
		granted.back = 2 * time.Second
	}
	sides := []Side{Go}
	if t.inNode != nil {
		sides = append(sides, Node)
	}
	for _, side := range sides {
		Eventually(t.ledger.Recovery).WithArguments(side).Should(BeNumerically(">", 0), func() string {
			return fmt.Sprintf("%v doesn't add and start jobs again; %s", side, t.complaints())
		})
	}
	Expect(t.ledger.Recovery(Go)).To(BeNumerically("<", granted.back), "until Go adds and starts jobs again")
	t.flows()

	for _, producer := range t.inGo {
		producer.Stop()
	}
	if t.inNode != nil {
		Expect(t.inNode.Stop(within(30 * time.Second))).To(Succeed())
	}
	patience := within(t.fleet.settings.Lock + 30*time.Second + granted.late)
	Expect(drained(patience, t.admin, t.site.base(t.queue))).To(Succeed(), t.complaints)
	members := t.fleet.Members()
	Expect(t.fleet.Stop(Go)).To(Succeed())
	if granted.nodeErrs {
		t.fleet.Kill() // bullmq may also wait for ever for a server that is gone
	}
	Expect(t.fleet.Stop()).To(Succeed())
	if !granted.reruns {
		for _, member := range members {
			Expect(member.LocksLost()).To(BeEmpty(), "locks that %s believes to have lost", member.Name)
		}
	}

	account, err := t.ledger.Settle(patience, t.admin, t.site.base(t.queue))
	Expect(err).NotTo(HaveOccurred())
	report.Add(Row{
		Fault: t.fault, Account: account, Took: time.Since(t.begun),
		InGo: t.ledger.Recovery(Go), InNode: t.ledger.Recovery(Node),
	})
	Expect(account.Wrong).To(BeEmpty())
	Expect(account.Left).To(BeZero())
	if t.inNode == nil && !granted.reruns {
		Expect(account.Stalls).To(BeZero(), "jobs found without their lock: what Go has taken it finds again by itself")
	}
	if !granted.reruns {
		Expect(account.Reruns[Go]).To(BeZero(), "attempts started again after a start in Go: %v", t.ledger.Reruns())
	}
	if !granted.reruns && !granted.nodeErrs {
		Expect(account.Reruns[Node]).To(BeZero(), "attempts started again after a start in Node")
	}
	if !granted.nodeErrs {
		Expect(account.Spoilt).To(BeZero(), "jobs that Node failed by mistake")
	}
	return account
}

func (t *trial) complaints() string {
	text := "last errors:"
	for _, member := range t.fleet.Members() {
		text += "\n" + member.Complaint()
	}
	return text
}

// startServer starts a Redis that survives its end: every write is on the disk
// before it is answered.
func startServer(config ...string) *redisserver.Server {
	GinkgoHelper()
	server, err := redisserver.Start(redisserver.Options{AppendOnly: true, Config: append([]string{"appendfsync always"}, config...)})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() {
		if log := server.Log(); CurrentSpecReport().Failed() {
			GinkgoWriter.Printf("the log of Redis ends:\n%s\n", log[max(0, len(log)-10000):])
		}
		server.Close()
	})
	return server
}

func at(server *redisserver.Server) Site { return Site{Address: server.Addr(), Prefix: "bull"} }
