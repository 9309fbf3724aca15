//go:build unix

package bullmq_test

import (
	"context"
	"io"
	"math"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/rueidis"
	"github.com/rs/zerolog"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

// balancer forwards connections to a server. It closes new ones at once while it
// has none.
type balancer struct {
	net.Listener
	without  atomic.Bool
	accepted atomic.Int64
}

func newBalancer(target string) *balancer {
	GinkgoHelper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	b := &balancer{Listener: listener}
	var relays sync.WaitGroup
	relays.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			b.accepted.Add(1)
			if b.without.Load() {
				_ = client.Close()
				continue
			}
			server, err := net.Dial("tcp", target)
			if err != nil {
				_ = client.Close()
				continue
			}
			pass := func(to, from net.Conn) {
				// Plain readers and writers: io.Copy would join two TCP connections by pipes, which stay open for a while.
				_, _ = io.Copy(struct{ io.Writer }{to}, struct{ io.Reader }{from})
				_ = to.Close()
				_ = from.Close()
			}
			relays.Go(func() { pass(server, client) })
			relays.Go(func() { pass(client, server) })
		}
	})
	DeferCleanup(func() { _ = listener.Close(); relays.Wait() })
	return b
}

// processorTime returns the CPU time that this process has used.
func processorTime() time.Duration {
	GinkgoHelper()
	var usage syscall.Rusage
	Expect(syscall.Getrusage(syscall.RUSAGE_SELF, &usage)).To(Succeed())
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

var _ = Describe("A lasting failure", Label("slow"), func() {
	const (
		lasting = 2 * time.Second
		few     = 9 // attempts in that time: several at first, then one a second
	)
	var (
		ctx    context.Context
		server *redisserver.Server
		front  *balancer
		admin  rueidis.Client
		name   string
		queue  *bullmq.Queue
		via    *bullmq.Connection
	)
	command := func(words ...string) {
		GinkgoHelper()
		Expect(admin.Do(ctx, admin.B().Arbitrary(words...).Build()).Error()).To(Succeed(), strings.Join(words, " "))
	}
	setUp := func() {
		GinkgoHelper()
		ctx, name = specContext(), newQueueName()
		server = startRedis(redisserver.Options{})
		front = newBalancer(server.Addr())
		admin = clientOf(server)
		command("ACL", "SETUSER", "user", "on", ">secret", "~*", "+@all")
		queue = newQueue(name, &bullmq.QueueOptions{Connection: bullmq.URL(server.URL())})
		via = bullmq.URL("redis://user:secret@" + front.Addr().String())
	}
	BeforeEach(setUp)
	// cutWaiting closes only the connections on which a worker and a reader wait.
	cutWaiting := func() {
		GinkgoHelper()
		workers, err := queue.ConnectedWorkers(ctx)
		Expect(err).NotTo(HaveOccurred())
		readers, err := queue.ConnectedReaders(ctx)
		Expect(err).NotTo(HaveOccurred())
		for _, client := range append(workers, readers...) {
			command("CLIENT", "KILL", "ID", client.Fields["id"])
		}
	}
	forbid := func(words ...string) func() {
		return func() { command(append([]string{"ACL", "SETUSER", "user"}, words...)...) }
	}
	// rarely expects few events and little CPU time once the failure has lasted for a while.
	rarely := func(counts ...*atomic.Int64) {
		GinkgoHelper()
		before, begun := processorTime(), time.Now()
		accepted := front.accepted.Load()
		time.Sleep(lasting)
		used := processorTime() - before
		lasted := time.Since(begun) // on a busy machine it is longer
		few := int64(math.Ceil(few * lasted.Seconds() / lasting.Seconds()))
		GinkgoWriter.Printf("used %v, accepted %d\n", used, front.accepted.Load()-accepted)
		for _, count := range counts {
			GinkgoWriter.Printf("counted %d\n", count.Load())
			Expect(count.Load()).To(BeNumerically("<=", few))
		}
		Expect(used).To(BeNumerically("<", lasted/10), "also under the race detector, which makes all of it slower")
		Expect(front.accepted.Load() - accepted).To(BeNumerically("<=", 3*few))
	}

	DescribeTable("costs one attempt a second and is over within two seconds of recovery, if", func(fail, mend func()) {
		var workerErrors, readerErrors atomic.Int64
		runWorker(name, doNothing, &bullmq.WorkerOptions{Connection: via, SkipStalledCheck: true, DrainDelay: 500 * time.Millisecond,
			Events: bullmq.WorkerEvents{Error: func(err error) { workerErrors.Add(1) }}})
		reader := newEvents(name, bullmq.QueueEventsOptions{Connection: via, BlockingTimeout: 500 * time.Millisecond})
		completed := make(chan string, 10)
		read := make(chan struct{})
		go func() {
			defer close(read)
			for event, err := range reader.All(ctx) {
				if err != nil {
					readerErrors.Add(1)
				} else if event.Type == bullmq.EventCompleted {
					completed <- event.JobID
				}
			}
		}()
		DeferCleanup(func() { Expect(reader.Close()).To(Succeed()); Eventually(read).Should(BeClosed()) })
		waitUntilIdle(queue)
		Eventually(func() ([]bullmq.ConnectedClient, error) { return queue.ConnectedReaders(ctx) }).Should(HaveLen(1))

		fail()
		Eventually(func() int64 { return workerErrors.Load() + readerErrors.Load() }).ShouldNot(BeZero())
		rarely(&workerErrors, &readerErrors)
		mend()
		var job *bullmq.Job
		Eventually(func() (err error) { job, err = queue.Add(ctx, "a", nil, nil); return err }).Should(Succeed())
		Eventually(completed).Should(Receive(Equal(job.ID)))
	},
		Entry("the server is full and waiting connections cannot be reopened",
			func() { command("CONFIG", "SET", "maxclients", "1"); cutWaiting() },
			func() { command("CONFIG", "SET", "maxclients", "1000") }),
		Entry("a load balancer closes reopened connections at once",
			func() { front.without.Store(true); cutWaiting() },
			func() { front.without.Store(false) }),
		Entry("no connection can be opened",
			func() { front.without.Store(true); command("CLIENT", "KILL", "USER", "user") },
			func() { front.without.Store(false) }),
		Entry("waiting is forbidden", forbid("-bzpopmin", "-xread"), forbid("+bzpopmin", "+xread")),
		Entry("scripts and reading events are forbidden", forbid("-evalsha", "-eval", "-xread"), forbid("+evalsha", "+eval", "+xread")),
		Entry("scripts are unknown and must not be loaded",
			func() { forbid("-eval")(); command("SCRIPT", "FLUSH") }, forbid("+eval")),
		Entry("all commands are forbidden", forbid("-@all"), forbid("+@all")),
		Entry("the marker and the events are keys of another type",
			func() {
				command("SET", keyOf(name, "marker"), "x")
				command("SET", keyOf(name, "events"), "x")
			},
			func() { command("DEL", keyOf(name, "marker"), keyOf(name, "events")) }),
		Entry("a list is a key of another type", func() { command("SET", keyOf(name, "wait"), "x") }, func() { command("DEL", keyOf(name, "wait")) }),
		Entry("Redis is a replica",
			func() { command("REPLICAOF", "127.0.0.1", "1") }, func() { command("REPLICAOF", "NO", "ONE") }),
	)

	It("costs a worker few attempts if no more connections can be opened, however many jobs it runs on those it has", func() {
		steadily(func(g Gomega) { // a client closes a connection over which a reply is late, and cannot reopen it here
			setUp()
			var errors, runs atomic.Int64
			startWorker(name, func(context.Context, *bullmq.Job) (any, error) {
				time.Sleep(time.Duration(runs.Add(1)%50) * time.Millisecond)
				return nil, nil
			}, &bullmq.WorkerOptions{Connection: via, Concurrency: 20, SkipStalledCheck: true, ShutdownTimeout: time.Second,
				Logger: bullmq.Zerolog(zerolog.New(GinkgoWriter)), Events: bullmq.WorkerEvents{Error: func(error) { errors.Add(1) }}})
			waitUntilIdle(queue)
			front.without.Store(true)
			cutWaiting()
			accepted, begun := front.accepted.Load(), time.Now()
			added := 0
			for time.Since(begun) < lasting {
				time.Sleep(5 * time.Millisecond)
				_, err := queue.Add(ctx, "a", nil, nil)
				Expect(err).NotTo(HaveOccurred())
				added++
			}
			g.Eventually(countOf(queue, bullmq.StateCompleted), "10s").Should(Equal(added))
			g.Expect(runs.Load()).To(BeEquivalentTo(added))
			most := 3 * few * time.Since(begun).Seconds() / lasting.Seconds()
			g.Expect(float64(errors.Load())).To(BeNumerically("<=", most))
			g.Expect(float64(front.accepted.Load() - accepted)).To(BeNumerically("<=", most))
		})
	})

	// holding runs a job that does not finish before finish is called.
	holding := func(o bullmq.WorkerOptions) (errors *atomic.Int64, finish func(), id string) {
		GinkgoHelper()
		end := make(chan struct{})
		errors, finish = &atomic.Int64{}, sync.OnceFunc(func() { close(end) })
		job, err := queue.Add(ctx, "a", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		started := make(chan struct{})
		o.Connection = via
		o.Events.Error = func(error) { errors.Add(1) }
		runWorker(name, func(context.Context, *bullmq.Job) (any, error) {
			close(started)
			<-end
			return nil, nil
		}, &o)
		DeferCleanup(finish)
		Eventually(started).Should(BeClosed())
		return errors, finish, job.ID
	}

	It("is reported once a second by lock renewal, even with short locks", func() {
		errors, finish, id := holding(bullmq.WorkerOptions{LockDuration: 8 * time.Second, LockRenewTime: 100 * time.Millisecond, SkipStalledCheck: true})
		forbid("-evalsha", "-eval")()
		Eventually(errors.Load).ShouldNot(BeZero())
		rarely(errors)
		forbid("+evalsha", "+eval")()
		finish()
		Eventually(stateOf(queue, id)).Should(Equal(bullmq.StateCompleted))
	})

	It("costs the stalled check one attempt a second, even with a short interval", func() {
		errors, finish, id := holding(bullmq.WorkerOptions{SkipLockRenewal: true, StalledInterval: 20 * time.Millisecond})
		forbid("-evalsha", "-eval")()
		Eventually(errors.Load).ShouldNot(BeZero())
		rarely(errors)
		forbid("+evalsha", "+eval")()
		finish()
		Eventually(stateOf(queue, id)).Should(Equal(bullmq.StateCompleted))
	})

	It("costs writing an outcome one attempt a second, even if Redis keeps the lock longer than the worker expects", func() {
		const lasts = 2500 * time.Millisecond
		begun := time.Now()
		errors, finish, id := holding(bullmq.WorkerOptions{SkipLockRenewal: true, SkipStalledCheck: true, LockDuration: lasts})
		command("PEXPIRE", keyOf(name, id+":lock"), "3600000")
		command("REPLICAOF", "127.0.0.1", "1")
		finish()
		Eventually(errors.Load).ShouldNot(BeZero())
		time.Sleep(time.Until(begun.Add(lasts)))
		errors.Store(0)
		rarely(errors)
		command("REPLICAOF", "NO", "ONE")
		Eventually(stateOf(queue, id)).Should(Equal(bullmq.StateCompleted))
	})
})
