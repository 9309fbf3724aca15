package chaos

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("A cluster of three masters with replicas", func() {
	DescribeTable("loses no job when", func(fault string, nodeWorkers int, back time.Duration, cause func(*Cluster, context.Context, string) error) {
		onlyInFull()
		cluster, err := StartCluster(within(30*time.Second), 3)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(cluster.Close)
		l := on(nodeWorkers, lightLoad(14*time.Second))
		t := begin("cluster: "+fault, cluster.Site(), l)
		Expect(cause(cluster, within(30*time.Second), t.site.base(t.queue)+"wait")).To(Succeed())
		t.faultEnded()
		t.settle(tolerance{nodeErrs: true, back: back})
	},
		onCluster("the queue's master and its replica swap roles twice", (*Cluster).Failover),
		onCluster("the queue's master is killed and its replica takes over", (*Cluster).KillMaster),
		onCluster("the queue's slot moves to another master", (*Cluster).MoveSlot),
	)
})

func onCluster(fault string, cause func(*Cluster, context.Context, string) error) []TableEntry {
	return []TableEntry{
		Entry(fault, fault, 2, 3*time.Second, cause),
		Entry(fault+", with Go only", fault, 0, 3*time.Second, cause),
	}
}
