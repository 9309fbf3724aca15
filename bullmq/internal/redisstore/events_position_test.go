package redisstore

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/scripts"
)

var _ = Describe("The position in a stream of Redis before 7.0, which doesn't count the entries that it adds", func() {
	DescribeTable("reports a missed event", func(want int, last, first string, page ...string) {
		events := make([]backend.Event, len(page))
		for i, id := range page {
			events[i].ID = id
		}
		p := eventPosition{id: last, count: -1}
		now := scripts.Stream{First: first, Last: "9-0", Deleted: "0-0", Length: 1, Added: -1}
		Expect(p.missed(now, events)).To(Equal(want))
	},
		Entry("if the last entry read is gone too", 1, "1-0", "5-0", "5-0", "6-0"),
		Entry("but not if that entry is there", 0, "1-0", "1-0", "2-0"),
		Entry("but not if older entries are there", 0, "2-0", "1-0", "3-0"),
		Entry("but not if reading starts with all that is there", 0, "0-0", "5-0", "5-0"),
		Entry("but not if nothing has been read yet", 0, "1-0", ""),
		Entry("but not if the page was trimmed after it was read", 0, "1-0", "5-0", "2-0", "3-0"),
	)
})
