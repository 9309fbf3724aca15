package wire

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("The id of an event", func() {
	It("is milliseconds, and a number that may be left out", func() {
		for _, id := range []string{"0-0", "1700000000000-12", "1700000000000"} {
			Expect(IsEventID(id)).To(BeTrue(), id)
		}
		for _, id := range []string{"", "$", "a", "1-", "-1", "1-a", "1-2-3", "18446744073709551616-0"} {
			Expect(IsEventID(id)).To(BeFalse(), id)
		}
	})

	It("orders events by milliseconds first, then by number, and not as text", func() {
		Expect(EventComesAfter("10-0", "9-5")).To(BeTrue())
		Expect(EventComesAfter("9-10", "9-5")).To(BeTrue())
		Expect(EventComesAfter("9-5", "9-5")).To(BeFalse())
		Expect(EventComesAfter("9-5", "10-0")).To(BeFalse())
	})
})
