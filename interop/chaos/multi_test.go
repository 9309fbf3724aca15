package chaos

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// manyQueues returns a light load on ten queues, all of which the Go workers serve. Node uses the first queue only.
func manyQueues(nodeWorkers int, lock time.Duration) load {
	l := on(nodeWorkers, lightLoad(lock))
	l.further = 9
	return l
}

var _ = Describe("Workers of many queues", func() {
	const name = "ten queues: "

	DescribeTable("that are killed during a job leave it to other workers", func(nodeWorkers, kills int, short bool) {
		inShortFormIf(short)
		t := begin(name+"workers are killed (SIGKILL), one after the other", at(startServer()), manyQueues(nodeWorkers, time.Second))
		ctx := within(time.Minute)
		for range kills {
			t.fleet.Remove(t.fleet.Any(Go), func(m *Member) { m.Kill() })
			_, err := t.fleet.Start(ctx, Go)
			Expect(err).NotTo(HaveOccurred())
		}
		t.faultEnded()
		t.settle(tolerance{reruns: true})
	},
		Entry("twice", 0, 2, true),
		Entry("12 times", 0, 12, false),
		Entry("12 times, beside Node", 2, 12, false),
	)

	DescribeTable("lose no job when Redis is stopped and returns with its data", func(away time.Duration, nodeWorkers int, short bool) {
		inShortFormIf(short)
		server := startServer()
		t := begin(name+"Redis is stopped for "+away.String(), at(server), manyQueues(nodeWorkers, away+max(5*time.Second, away/2)))
		watched := t.watch()
		server.Stop()
		time.Sleep(away)
		watched.expectCalm()
		Expect(server.Start()).To(Succeed())
		t.faultEnded()
		watched.waitForReports()
		t.settle(tolerance{nodeErrs: true})
		watched.expectReported()
	},
		Entry("after 1 s", time.Second, 0, false),
		Entry("after 1 s, beside Node", time.Second, 2, false),
		Entry("after 10 s", 10*time.Second, 0, false),
	)

	DescribeTable("lose no job when Redis", func(fault string, cause func(*trial)) {
		onlyInFull()
		for _, nodeWorkers := range []int{2, 0} {
			t := begin(name+fault, at(startServer()), manyQueues(nodeWorkers, 8*time.Second))
			cause(t)
			t.faultEnded()
			t.settle(tolerance{nodeErrs: true})
		}
	},
		Entry("keeps closing all connections", "CLIENT KILL of all connections repeatedly", func(t *trial) {
			t.repeat(150*time.Millisecond, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		}),
		Entry("keeps forgetting its scripts", "SCRIPT FLUSH repeatedly", func(t *trial) {
			t.repeat(time.Millisecond, "SCRIPT", "FLUSH")
		}),
	)

	DescribeTable("lose no job on a cluster when", func(fault string, masters, nodeWorkers int, cause func(*Cluster, context.Context, string) error, short bool) {
		inShortFormIf(short)
		cluster, err := StartCluster(within(30*time.Second), masters)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(cluster.Close)
		t := begin(name+"cluster: "+fault, cluster.Site(), manyQueues(nodeWorkers, 14*time.Second))
		Expect(cause(cluster, within(30*time.Second), t.site.base(t.queue)+"wait")).To(Succeed())
		t.faultEnded()
		t.settle(tolerance{nodeErrs: true, back: 3 * time.Second})
	},
		Entry("their slot moves to another master", "the slot of the queues moves to another master", 2, 0, (*Cluster).MoveSlot, false),
		Entry("their slot moves to another master, beside Node", "the slot of the queues moves to another master", 3, 2, (*Cluster).MoveSlot, false),
		Entry("their master and its replica swap roles twice", "the master of the queues and its replica swap roles twice", 3, 0, (*Cluster).Failover, false),
		Entry("their master is killed and its replica takes over", "the master of the queues is killed and its replica takes over", 3, 0, (*Cluster).KillMaster, false),
	)
})

// repeat sends a command for six seconds.
func (t *trial) repeat(pause time.Duration, words ...string) {
	GinkgoHelper()
	for end := time.Now().Add(6 * time.Second); time.Now().Before(end); time.Sleep(pause) {
		t.on(words...)
	}
}
