package chaos

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("A master watched by Sentinels", func() {
	DescribeTable("loses nothing when it", func(fault string, nodeWorkers int, back time.Duration, cause func(*Watched, context.Context) error) {
		onlyInFull()
		group, err := StartWatched(within(30 * time.Second))
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(group.Close)
		DeferCleanup(func() {
			if CurrentSpecReport().Failed() {
				GinkgoWriter.Print(group.Log())
			}
		})
		t := begin("Sentinel: the master "+fault, group.Site(), on(nodeWorkers, light(12*time.Second)))
		Expect(cause(group, within(30*time.Second))).To(Succeed())
		t.over()
		t.settle(terms{nodeErrs: true, back: back})
	},
		watched("is killed, and a replica is promoted", 3*time.Second, (*Watched).KillMaster),
		// The old master lives, with its writes paused: ends that it has been sent are given up once a third of their lock's time is over.
		watched("has to change places with a replica", 5*time.Second, (*Watched).Demote),
	)
})

func watched(fault string, back time.Duration, cause func(*Watched, context.Context) error) []TableEntry {
	return []TableEntry{Entry(fault, fault, 2, back, cause), Entry(fault+", with Go alone", fault, 0, back, cause)}
}
