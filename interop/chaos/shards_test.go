package chaos

import (
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

// shards is a queue with two shards on each of three servers.
type shards struct {
	*trial
	servers []*redisserver.Server
	queues  []*shardedQueue // of the producers
}

const (
	numServers = 3
	numShards  = 6
)

// beginShards starts the load on a queue with shards. One producer adds single jobs, to another shard if the shard
// is down. The other adds several at once and waits.
func beginShards(fault string, l load) *shards {
	GinkgoHelper()
	ctx := within(30 * time.Second)
	s := &shards{trial: &trial{fault: "shards: " + fault, begun: time.Now(), queue: fmt.Sprintf("orders-%d", trials.Add(1)), ledger: &Ledger{}}}
	var addresses []string
	for range numServers {
		server := startServer()
		s.servers = append(s.servers, server)
		addresses = append(addresses, server.Addr())
	}
	s.site = Site{Address: strings.Join(addresses, ","), Prefix: "bull"}
	for i := range numShards {
		s.account(fmt.Sprintf("{%s-%d}", s.queue, i), s.servers[i%numServers])
	}
	l.nodeWorkers = 0
	s.startFleet(ctx, l, "-shards", fmt.Sprint(numShards))
	for i, wait := range []time.Duration{0, 2 * time.Minute} {
		options := bullmq.ShardedQueueOptions{Queue: bullmq.QueueOptions{AddWait: wait}}
		if wait == 0 {
			options.OnShardDown = bullmq.ElsewhereWhenDown
		}
		queue, err := s.site.Sharded(ctx, s.queue, numShards, options)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(queue.Close)
		producer := produceInGo(s.ledger, []adder{queue}, l.pace, 3*i)
		DeferCleanup(producer.Kill)
		s.queues, s.inGo = append(s.queues, queue), append(s.inGo, producer)
	}
	s.waitForProgress()
	return s
}

// account adds a shard to those whose jobs are compared with the ledger.
func (s *shards) account(name string, server *redisserver.Server) {
	GinkgoHelper()
	admin, err := at(server).open()
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(admin.Close)
	s.trial.shards = append(s.trial.shards, queueKeys{admin, s.site.base(name)})
}

var _ = Describe("A queue with shards on three servers", func() {
	DescribeTable("loses no job and continues on two servers while the third is stopped", func(away time.Duration, short bool) {
		inShortFormIf(short)
		s := beginShards("a server is stopped for "+away.String(), lightLoad(away+max(6*time.Second, away/2)))
		begun := time.Now()
		s.servers[1].Stop()
		for range 2 {
			s.waitForProgress()
		}
		time.Sleep(time.Until(begun.Add(away)))
		Expect(s.servers[1].Start()).To(Succeed())
		s.faultEnded()
		s.settle(tolerance{nodeErrs: true})
	},
		Entry("for 1 s", time.Second, true),
		Entry("for 10 s", 10*time.Second, false),
	)

	It("loses no job when a server hangs with open connections", func() {
		onlyInFull()
		s := beginShards("a server hangs for 5 s", lightLoad(10*time.Second))
		Expect(s.servers[1].Freeze()).To(Succeed())
		time.Sleep(5 * time.Second)
		Expect(s.servers[1].Thaw()).To(Succeed())
		s.faultEnded()
		s.settle(tolerance{})
	})

	It("loses no job when its servers are killed in turn and return", func() {
		onlyInFull()
		s := beginShards("each server is killed and restarted 3 times", lightLoad(8*time.Second))
		for i := range 3 * numServers {
			server := s.servers[i%numServers]
			server.Kill()
			time.Sleep(200 * time.Millisecond)
			Expect(server.Start()).To(Succeed())
			time.Sleep(300 * time.Millisecond)
		}
		s.faultEnded()
		s.settle(tolerance{nodeErrs: true})
	})

	It("leaves the jobs of workers that are killed to others", func() {
		onlyInFull()
		s := beginShards("workers are killed (SIGKILL), one after the other", lightLoad(time.Second))
		ctx := within(time.Minute)
		for range 12 {
			s.fleet.Remove(s.fleet.Any(Go), func(m *Member) { m.Kill() })
			_, err := s.fleet.Start(ctx, Go)
			Expect(err).NotTo(HaveOccurred())
		}
		s.faultEnded()
		s.settle(tolerance{reruns: true})
	})

	It("loses no job when the number of shards changes under load", func() {
		onlyInFull()
		s := beginShards("the number of shards changes twice", lightLoad(8*time.Second))
		for generation, shards := range map[int]int{1: 4, 2: 9} {
			for i := range shards {
				s.account(fmt.Sprintf("{%s.%d-%d}", s.queue, generation, i), s.servers[i%numServers])
			}
		}
		for _, shards := range []int{4, 9} {
			Expect(s.queues[0].Resize(within(30*time.Second), shards)).To(Succeed())
			Eventually(s.queues[1].NumShards).Should(Equal(shards))
			s.waitForProgress()
		}
		s.faultEnded()
		s.settle(tolerance{})
	})
})
