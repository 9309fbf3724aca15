package chaos

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("A master watched by Sentinels", func() {
	DescribeTable("loses nothing when it", func(fault string, nodeWorkers int, cause func(*Watched, context.Context) error) {
		onlyInFull()
		group, err := StartWatched(within(30 * time.Second))
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(group.Close)
		t := begin("Sentinel: the master "+fault, group.Site(), on(nodeWorkers, light(12*time.Second)))
		Expect(cause(group, within(30*time.Second))).To(Succeed())
		t.over()
		t.settle(terms{nodeErrs: true, back: 3 * time.Second})
	},
		watched("is killed, and a replica is promoted", (*Watched).KillMaster),
		watched("has to change places with a replica", (*Watched).Demote),
	)
})

func watched(fault string, cause func(*Watched, context.Context) error) []TableEntry {
	return []TableEntry{Entry(fault, fault, 2, cause), Entry(fault+", with Go alone", fault, 0, cause)}
}
