package bullmq_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

// addLedger records the outcome of adds whose data is a number.
type addLedger struct {
	mu     sync.Mutex
	added  map[int]bool
	maybe  map[int]bool
	failed map[int]error // certainly not added
}

func newAddLedger() *addLedger {
	return &addLedger{added: map[int]bool{}, maybe: map[int]bool{}, failed: map[int]error{}}
}

func (l *addLedger) record(number int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil:
		l.added[number] = true
	case errors.Is(err, bullmq.ErrMaybeAdded):
		l.maybe[number] = true
	default:
		l.failed[number] = err
	}
}

// failures returns the errors of the adds that certainly added nothing.
func (l *addLedger) failures() []error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []error
	for _, err := range l.failed {
		all = append(all, err)
	}
	return all
}

// matches expects that each job that was added is stored once, and none that was not.
func (l *addLedger) matches(ctx context.Context, sharded *bullmq.ShardedQueue) {
	GinkgoHelper()
	stored := map[int]int{}
	for _, shard := range sharded.Shards() {
		jobs, err := shard.Jobs(ctx, bullmq.AllEntries())
		Expect(err).NotTo(HaveOccurred())
		for _, job := range jobs {
			var number int
			Expect(json.Unmarshal(job.Data, &number)).To(Succeed())
			stored[number]++
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for number := range l.added {
		Expect(stored).To(HaveKeyWithValue(number, 1))
	}
	for number := range l.maybe {
		Expect(stored[number]).To(BeNumerically("<=", 1))
	}
	for number := range l.failed {
		Expect(stored).NotTo(HaveKey(number))
	}
}

var _ = Describe("Adds to shards of which one goes down and comes back", Label("slow"), func() {
	var (
		name string
		ctx  context.Context
	)
	BeforeEach(func() { name, ctx = newQueueName(), specContext() })

	// during adds jobs in many goroutines while the server of the second of three shards goes down and comes back.
	during := func(o bullmq.ShardedQueueOptions, options func(number int) *bullmq.JobOptions) (*bullmq.ShardedQueue, *addLedger) {
		GinkgoHelper()
		servers, connections := shardServers(3)
		o.Connections = connections
		sharded, ledger := newSharded(name, 3, o), newAddLedger()
		stop := make(chan struct{})
		var adding sync.WaitGroup
		for worker := range 4 {
			adding.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					default:
					}
					number := i*4 + worker
					if number%10 == 3 {
						_, err := sharded.AddBulk(ctx, []bullmq.BulkJob{{Name: "a", Data: number, Options: options(number)}, {Name: "a", Data: -number, Options: options(number + 1_000_000)}})
						var failed *bullmq.BulkError
						if errors.As(err, &failed) {
							ledger.record(number, failed.Of(0))
							ledger.record(-number, failed.Of(1))
						} else {
							ledger.record(number, err)
							ledger.record(-number, err)
						}
						continue
					}
					_, err := sharded.Add(ctx, "a", number, options(number))
					ledger.record(number, err)
					time.Sleep(time.Millisecond)
				}
			})
		}
		time.Sleep(200 * time.Millisecond)
		servers[1].Kill()
		time.Sleep(700 * time.Millisecond)
		Expect(servers[1].Start()).To(Succeed())
		Eventually(sharded.Health, "20s").Should(HaveField("Reachable", true))
		time.Sleep(200 * time.Millisecond)
		close(stop)
		adding.Wait()
		ledger.matches(ctx, sharded)
		return sharded, ledger
	}
	plain := func(int) *bullmq.JobOptions { return nil }
	// stopAll stops all servers and waits until that was noticed. A call before that may lose its reply.
	stopAll := func(sharded *bullmq.ShardedQueue, servers []*redisserver.Server) {
		GinkgoHelper()
		for _, server := range servers {
			server.Stop()
		}
		Eventually(func() map[string]bullmq.Health {
			short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
			defer cancel()
			_ = sharded.Ping(short)
			return sharded.ShardHealth()
		}, "20s").Should(HaveEach(HaveField("Reachable", false)))
	}

	It("fail on that shard only, with an error that names it", func() {
		_, ledger := during(bullmq.ShardedQueueOptions{}, plain)
		Expect(ledger.failures()).NotTo(BeEmpty())
		for _, err := range ledger.failures() {
			Expect(err.Error()).To(ContainSubstring("{" + name + "-1}"))
		}
		Expect(len(ledger.added)).To(BeNumerically(">", 100))
	})

	It("go to the other shards if so configured, none lost and none twice", func() {
		sharded, ledger := during(bullmq.ShardedQueueOptions{OnShardDown: bullmq.ElsewhereWhenDown}, plain)
		Expect(ledger.failures()).To(BeEmpty())
		Expect(len(ledger.maybe)).To(BeNumerically("<", 30), "those in flight when the server was killed")
		Expect(waitingIn(sharded)[1]).To(BeNumerically("<", waitingIn(sharded)[0]))
	})

	It("stay on the shard of their key, and wait for it as long as AddWait", func() {
		keyed := func(number int) *bullmq.JobOptions { return &bullmq.JobOptions{JobID: fmt.Sprint("job-", number)} }
		sharded, ledger := during(bullmq.ShardedQueueOptions{
			OnShardDown: bullmq.ElsewhereWhenDown, Queue: bullmq.QueueOptions{AddWait: 30 * time.Second},
		}, keyed)
		Expect(ledger.failures()).To(BeEmpty())
		Expect(ledger.maybe).To(BeEmpty(), "a job with a JobID is added again")
		for number := range ledger.added {
			if number > 0 && number%10 != 3 {
				id := fmt.Sprint("job-", number)
				_, err := sharded.Shards()[bullmq.ShardIndex(id, 3)].Job(ctx, id)
				Expect(err).NotTo(HaveOccurred())
			}
		}
	})

	It("wait for the first shard that comes back if all are down", func() {
		servers, connections := shardServers(2)
		sharded := newSharded(name, 2, bullmq.ShardedQueueOptions{
			Connections: connections, OnShardDown: bullmq.ElsewhereWhenDown, Queue: bullmq.QueueOptions{AddWait: 30 * time.Second},
		})
		stopAll(sharded, servers)
		ended := make(chan error, 2)
		go func() { _, err := sharded.Add(ctx, "a", 1, nil); ended <- err }()
		go func() { _, err := sharded.AddBulk(ctx, []bullmq.BulkJob{{Name: "a", Data: 2}}); ended <- err }()
		Consistently(ended, "300ms").ShouldNot(Receive())
		Expect(servers[1].Start()).To(Succeed())
		for range 2 {
			Eventually(ended, "20s").Should(Receive(BeNil()))
		}
		Expect(sharded.Shards()[1].Counts(ctx, bullmq.StateWaiting)).To(HaveKeyWithValue(bullmq.StateWaiting, 2))
	})

	It("fail with the reason if all are down for longer than AddWait", func() {
		servers, connections := shardServers(2)
		sharded := newSharded(name, 2, bullmq.ShardedQueueOptions{
			Connections: connections, OnShardDown: bullmq.ElsewhereWhenDown, Queue: bullmq.QueueOptions{AddWait: 300 * time.Millisecond},
		})
		stopAll(sharded, servers)
		_, err := sharded.Add(ctx, "a", 1, nil)
		// AddWait may end during a try, of which nobody can tell whether it was sent.
		Expect(err).To(Or(MatchError(ContainSubstring("AddWait of 300ms is over")), MatchError(bullmq.ErrMaybeAdded)))
		Expect(err).To(MatchError(ContainSubstring(name)))
		Expect(failedShards(err)).To(HaveLen(1))
		_, err = sharded.AddBulk(ctx, []bullmq.BulkJob{{Name: "a", Data: 2}})
		Expect(err).To(HaveOccurred())
	})
})
