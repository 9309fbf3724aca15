package chaos

import (
	"context"
	"strconv"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

var _ = Describe("A Redis", func() {
	// again does something again and again for some seconds, fewer in the short form.
	again := func(pause time.Duration, do func()) {
		GinkgoHelper()
		length := time.Second
		if *full {
			length = 6 * time.Second
		}
		for end := time.Now().Add(length); time.Now().Before(end); time.Sleep(pause) {
			do()
		}
	}

	DescribeTable("that forgets its scripts all the time costs Go nothing", func(nodeWorkers int) {
		onlyInFull()
		l := on(nodeWorkers, light(5*time.Second))
		t := begin("SCRIPT FLUSH all the time", at(startServer()), l)
		again(time.Millisecond, func() { t.on("SCRIPT", "FLUSH") })
		t.over()
		account := t.settle(terms{nodeErrs: true})
		Expect(account.Doubtful).To(BeZero())
		if nodeWorkers == 0 {
			Expect(account.Refused).To(BeZero())
		}
	}, sides)

	DescribeTable("that ends all connections again and again loses nothing", func(nodeWorkers int) {
		inShortFormIf(nodeWorkers == 0)
		l := on(nodeWorkers, light(3*time.Second))
		t := begin("CLIENT KILL of all, again and again", at(startServer()), l)
		again(150*time.Millisecond, func() { t.on("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes") })
		t.over()
		t.settle(terms{nodeErrs: true})
	}, sides)

	DescribeTable("that is started again without its scripts loses nothing", func(nodeWorkers int) {
		onlyInFull()
		l := on(nodeWorkers, light(5*time.Second))
		server := startServer()
		t := begin("Redis is restarted, without its scripts", at(server), l)
		Expect(server.Restart()).To(Succeed())
		t.over()
		t.settle(terms{nodeErrs: true})
	}, sides)

	DescribeTable("that pauses its clients only holds them up", func(nodeWorkers int) {
		onlyInFull()
		l := on(nodeWorkers, light(10*time.Second))
		t := begin("CLIENT PAUSE for 3 s, of ALL and then of WRITE", at(startServer()), l)
		for _, what := range []string{"ALL", "WRITE"} {
			t.on("CLIENT", "PAUSE", "3000", what)
			time.Sleep(3500 * time.Millisecond)
		}
		t.over()
		account := t.settle(terms{})
		Expect(account.Stalls + account.Doubtful).To(BeZero())
	}, sides)

	DescribeTable("that is busy with somebody's script, until that is killed, loses nothing", func(nodeWorkers int) {
		onlyInFull()
		l := on(nodeWorkers, light(10*time.Second))
		server := startServer("lua-time-limit 100")
		t := begin("BUSY for 3 s, then SCRIPT KILL, 3 times", at(server), l)
		other, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true, ForceSingleClient: true, ConnWriteTimeout: time.Minute})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(other.Close)
		for range 3 {
			var script sync.WaitGroup
			script.Go(func() { _ = ask(context.Background(), other, "EVAL", "while true do end", "0") })
			time.Sleep(3 * time.Second)
			Expect(t.queues[0].Health().Reachable).To(BeFalse(), "a Redis that is busy can't serve")
			Eventually(func() error { return ask(within(5*time.Second), t.admin, "SCRIPT", "KILL") }).Should(Succeed())
			script.Wait()
			time.Sleep(500 * time.Millisecond)
		}
		t.over()
		account := t.settle(terms{nodeErrs: true})
		Expect(account.Refused).To(BeNumerically(">", 0), "adds that failed at once")
		Expect(account.Doubtful).To(BeZero(), "a refusal is no lost answer")
	}, sides)

	DescribeTable("that has no memory left refuses what it can't keep, and loses nothing", func(nodeWorkers int) {
		onlyInFull()
		l := on(nodeWorkers, light(10*time.Second))
		t := begin("OOM under noeviction for 4 s", at(startServer("maxmemory-policy noeviction")), l)
		t.on("CONFIG", "SET", "maxmemory", "1")
		time.Sleep(4 * time.Second)
		t.on("CONFIG", "SET", "maxmemory", "0")
		t.over()
		account := t.settle(terms{nodeErrs: true})
		Expect(account.Refused).To(BeNumerically(">", 0), "adds that failed at once")
		Expect(account.Doubtful).To(BeZero(), "a refusal is no lost answer")
	}, sides)

	DescribeTable("that becomes a replica for a while refuses writes, and loses nothing", func(nodeWorkers int) {
		onlyInFull()
		l := on(nodeWorkers, light(10*time.Second))
		t := begin("READONLY for 3 s (REPLICAOF, then NO ONE)", at(startServer()), l)
		nobody, err := redisserver.FreePort() // a master that answers would replace the data by its own
		Expect(err).NotTo(HaveOccurred())
		t.on("REPLICAOF", "127.0.0.1", strconv.Itoa(nobody))
		time.Sleep(3 * time.Second)
		Expect(t.queues[0].Health().Reachable).To(BeFalse(), "a Redis that takes no writes can't serve")
		t.on("REPLICAOF", "NO", "ONE")
		t.over()
		account := t.settle(terms{nodeErrs: true})
		Expect(account.Refused).To(BeNumerically(">", 0), "adds that failed at once")
	}, sides)
})
