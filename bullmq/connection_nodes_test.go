package bullmq_test

import (
	"context"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

var _ = Describe("The nodes of a connection", func() {
	connect := func(url string) *bullmq.Connection {
		GinkgoHelper()
		link, err := bullmq.Connect(specContext(), url)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(link.Close)
		return link
	}
	nodes := func(link *bullmq.Connection) []bullmq.RedisNode {
		GinkgoHelper()
		nodes, err := link.Nodes(specContext())
		Expect(err).NotTo(HaveOccurred())
		return nodes
	}

	It("have the server's version, memory, clients, keys and policy, its latency and its clock", func() {
		server := startRedis(redisserver.Options{Config: []string{"maxmemory 300mb", "maxmemory-policy allkeys-lru", "maxclients 321"}})
		client := clientOf(server)
		for _, key := range []string{"a", "b", "c"} {
			Expect(client.Do(specContext(), client.B().Set().Key(key).Value("1").Build()).Error()).To(Succeed())
		}
		found := nodes(connect(server.URL()))
		Expect(found).To(HaveLen(1))
		node := found[0]
		Expect(node.Err).NotTo(HaveOccurred())
		Expect(node.InfoErr).NotTo(HaveOccurred())
		Expect(node.ClockErr).NotTo(HaveOccurred())
		Expect(node.Address).To(ContainSubstring(strconv.Itoa(server.Port())))
		Expect(node.Latency).To(And(BeNumerically(">", 0), BeNumerically("<", 10*time.Second)))
		Expect(node.ClockOffset).To(BeNumerically("~", 0, 10*time.Second))
		Expect(node.Product).To(BeElementOf("Redis", "Valkey"))
		Expect(node.Version).To(MatchRegexp(`^\d+\.\d+`))
		Expect(node.Cluster).To(BeFalse())
		Expect(node.Replica).To(BeFalse())
		Expect(node.Uptime).To(And(BeNumerically(">=", 0), BeNumerically("<", time.Hour)))
		Expect(node.Clients).To(BeNumerically(">=", 2))
		Expect(node.MaxClients).To(Or(Equal(321), Equal(-1)))
		Expect(node.UsedMemory).To(BeNumerically(">", 100_000))
		Expect(node.PeakMemory).To(BeNumerically(">=", node.UsedMemory/2))
		Expect(node.MaxMemory).To(Equal(int64(300 << 20)))
		Expect(node.EvictionPolicy).To(Equal("allkeys-lru"))
		Expect(node.EvictedKeys).To(BeZero())
		Expect(node.CommandsPerSecond).To(BeNumerically(">=", 0))
		Expect(node.Keys).To(Equal(int64(3)))
		Expect(node.Replicas).To(BeZero())
		Expect(node.ReplicaLag).To(BeNumerically("<", 0))
	})

	It("leave out what the user may not know", func() {
		rules := []string{"ACL", "SETUSER", "blind", "on", ">secret", "~bull:*", "+@all", "-info", "-time", "-dbsize", "-ping"}
		Expect(redisDo(rules...).Error()).To(Succeed())
		DeferCleanup(func() { redisDo("ACL", "DELUSER", "blind") })
		node := nodes(connect("redis://blind:secret@" + redis.Addr()))[0]
		Expect(node.Err).NotTo(HaveOccurred())
		Expect(node.Latency).To(BeNumerically(">", 0))
		Expect(isDenied(node.InfoErr)).To(BeTrue())
		Expect(isDenied(node.ClockErr)).To(BeTrue())
		Expect(node.Version).To(BeEmpty())
		Expect(node.UsedMemory).To(Equal(int64(-1)))
		Expect(node.Keys).To(Equal(int64(-1)))
		Expect(node.Clients).To(Equal(-1))
	})

	It("tell how far replicas are behind", func() {
		master := startRedis(redisserver.Options{})
		replica := startRedis(redisserver.Options{Config: []string{"replicaof 127.0.0.1 " + strconv.Itoa(master.Port())}})
		link := connect(master.URL())
		Eventually(func() bullmq.RedisNode { return nodes(link)[0] }, "30s", "50ms").Should(And(
			HaveField("Replicas", 1), HaveField("ReplicaLag", BeNumerically("~", 0, 10*time.Second)),
			HaveField("ReplicaLagBytes", BeNumerically(">=", 0)), HaveField("ReplicationError", "")))
		behind := connect(replica.URL())
		Eventually(func() bullmq.RedisNode { return nodes(behind)[0] }, "30s", "50ms").Should(And(
			HaveField("Replica", true), HaveField("ReplicaLag", BeNumerically(">=", 0)), HaveField("ReplicationError", "")))
		master.Kill()
		Eventually(func() string { return nodes(behind)[0].ReplicationError }, "30s", "50ms").Should(Equal("the link to the master is down"))
	})

	It("are those of a cluster, also if one of them is down", Label("slow"), func() {
		servers, _ := startCluster(3)
		link, err := bullmq.ConnectOption(context.Background(), rueidis.ClientOption{InitAddress: []string{servers[0].Addr()}})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(link.Close)
		found := nodes(link)
		Expect(found).To(HaveLen(3))
		for i, node := range found {
			Expect(node.Err).NotTo(HaveOccurred())
			Expect(node.Cluster).To(BeTrue())
			if i > 0 {
				Expect(node.Address > found[i-1].Address).To(BeTrue())
			}
		}
		servers[1].Kill()
		ctx, cancel := context.WithTimeout(specContext(), 5*time.Second)
		defer cancel()
		found, err = link.Nodes(ctx)
		Expect(err).NotTo(HaveOccurred())
		for _, node := range found {
			Expect(node.Err != nil).To(Equal(node.Address == servers[1].Addr()), node.Address)
		}
	})

	It("are an error if none can be reached", func() {
		server := startRedis(redisserver.Options{})
		link := connect(server.URL())
		server.Kill()
		ctx, cancel := context.WithTimeout(specContext(), 5*time.Second)
		defer cancel()
		_, err := link.Nodes(ctx)
		Expect(err).To(MatchError(ContainSubstring("bullmq: ask Redis at")))
		Expect(link.Close()).To(Succeed())
		_, err = link.Nodes(ctx)
		Expect(err).To(MatchError(bullmq.ErrClosed))
		var none *bullmq.Connection
		_, err = none.Nodes(ctx)
		Expect(err).To(MatchError(ContainSubstring("there is no Connection")))
	})
})
