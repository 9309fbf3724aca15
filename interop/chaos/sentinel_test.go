package chaos

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("A master monitored by Sentinels", func() {
	DescribeTable("loses no job when it", func(fault string, nodeWorkers int, back time.Duration, cause func(*SentinelGroup, context.Context) error) {
		onlyInFull()
		group, err := StartSentinelGroup(within(30 * time.Second))
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(group.Close)
		DeferCleanup(func() {
			if CurrentSpecReport().Failed() {
				GinkgoWriter.Print(group.Log())
			}
		})
		t := begin("Sentinel: the master "+fault, group.Site(), on(nodeWorkers, lightLoad(12*time.Second)))
		Expect(cause(group, within(30*time.Second))).To(Succeed())
		t.faultEnded()
		t.settle(tolerance{nodeErrs: true, back: back})
	},
		watched("is killed, and a replica is promoted", 3*time.Second, (*SentinelGroup).KillMaster),
		// The old master runs with its writes paused. Calls that were sent to it are abandoned after a third
		// of their lock's time.
		watched("swaps roles with a replica", 5*time.Second, (*SentinelGroup).Demote),
	)
})

func watched(fault string, back time.Duration, cause func(*SentinelGroup, context.Context) error) []TableEntry {
	return []TableEntry{Entry(fault, fault, 2, back, cause), Entry(fault+", with Go only", fault, 0, back, cause)}
}
