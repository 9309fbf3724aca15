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

var _ = Describe("A Redis server", func() {
	// again repeats a call for some seconds, fewer in the short form.
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

	DescribeTable("that keeps forgetting its scripts causes no failed call in Go", func(nodeWorkers int) {
		onlyInFull()
		l := on(nodeWorkers, lightLoad(5*time.Second))
		t := begin("SCRIPT FLUSH repeatedly", at(startServer()), l)
		again(time.Millisecond, func() { t.on("SCRIPT", "FLUSH") })
		t.faultEnded()
		account := t.settle(tolerance{nodeErrs: true})
		Expect(account.Doubtful).To(BeZero())
		if nodeWorkers == 0 {
			Expect(account.Refused).To(BeZero())
		}
	}, fleets)

	DescribeTable("that keeps closing all connections loses no job", func(nodeWorkers int) {
		inShortFormIf(nodeWorkers == 0)
		l := on(nodeWorkers, lightLoad(6*time.Second))
		t := begin("CLIENT KILL of all connections repeatedly", at(startServer()), l)
		again(150*time.Millisecond, func() { t.on("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes") })
		t.faultEnded()
		t.settle(tolerance{nodeErrs: true})
	}, fleets)

	DescribeTable("that restarts without its scripts loses no job", func(nodeWorkers int) {
		onlyInFull()
		l := on(nodeWorkers, lightLoad(5*time.Second))
		server := startServer()
		t := begin("Redis is restarted without its scripts", at(server), l)
		Expect(server.Restart()).To(Succeed())
		t.faultEnded()
		t.settle(tolerance{nodeErrs: true})
	}, fleets)

	DescribeTable("that pauses its clients only delays them", func(nodeWorkers int) {
		onlyInFull()
		l := on(nodeWorkers, lightLoad(10*time.Second))
		t := begin("CLIENT PAUSE for 3 s, of ALL and then of WRITE", at(startServer()), l)
		for _, what := range []string{"ALL", "WRITE"} {
			t.on("CLIENT", "PAUSE", "3000", what)
			time.Sleep(3500 * time.Millisecond)
		}
		t.faultEnded()
		account := t.settle(tolerance{})
		Expect(account.Stalls + account.Doubtful).To(BeZero())
	}, fleets)

	DescribeTable("that is busy with another client's script until it is killed loses no job", func(nodeWorkers int) {
		onlyInFull()
		l := on(nodeWorkers, lightLoad(10*time.Second))
		server := startServer("lua-time-limit 100")
		t := begin("BUSY for 3 s, then SCRIPT KILL, 3 times", at(server), l)
		other, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true, ForceSingleClient: true, ConnWriteTimeout: time.Minute})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(other.Close)
		for range 3 {
			var script sync.WaitGroup
			script.Go(func() { _ = ask(context.Background(), other, "EVAL", "while true do end", "0") })
			time.Sleep(3 * time.Second)
			Expect(t.queues[0].Health().Reachable).To(BeFalse(), "a busy server counts as unreachable")
			Eventually(func() error { return ask(within(5*time.Second), t.admin, "SCRIPT", "KILL") }).Should(Succeed())
			script.Wait()
			time.Sleep(500 * time.Millisecond)
		}
		t.faultEnded()
		account := t.settle(tolerance{nodeErrs: true})
		Expect(account.Refused).To(BeNumerically(">", 0), "adds that failed at once")
		Expect(account.Doubtful).To(BeZero(), "a refusal is not a lost reply")
	}, fleets)

	DescribeTable("that is out of memory rejects writes and loses no job", func(nodeWorkers int) {
		onlyInFull()
		l := on(nodeWorkers, lightLoad(10*time.Second))
		t := begin("OOM under noeviction for 4 s", at(startServer("maxmemory-policy noeviction")), l)
		t.on("CONFIG", "SET", "maxmemory", "1")
		time.Sleep(4 * time.Second)
		t.on("CONFIG", "SET", "maxmemory", "0")
		t.faultEnded()
		account := t.settle(tolerance{nodeErrs: true})
		Expect(account.Refused).To(BeNumerically(">", 0), "adds that failed at once")
		Expect(account.Doubtful).To(BeZero(), "a refusal is not a lost reply")
	}, fleets)

	DescribeTable("that becomes a replica for a while rejects writes and loses no job", func(nodeWorkers int) {
		onlyInFull()
		l := on(nodeWorkers, lightLoad(10*time.Second))
		t := begin("READONLY for 3 s (REPLICAOF, then NO ONE)", at(startServer()), l)
		nobody, err := redisserver.FreePort() // a reachable master would replace the data with its own
		Expect(err).NotTo(HaveOccurred())
		t.on("REPLICAOF", "127.0.0.1", strconv.Itoa(nobody))
		time.Sleep(3 * time.Second)
		Expect(t.queues[0].Health().Reachable).To(BeFalse(), "a read-only server counts as unreachable")
		t.on("REPLICAOF", "NO", "ONE")
		t.faultEnded()
		account := t.settle(tolerance{nodeErrs: true})
		Expect(account.Refused).To(BeNumerically(">", 0), "adds that failed at once")
	}, fleets)
})
