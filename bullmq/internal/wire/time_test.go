package wire

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("Time on the wire", func() {
	DescribeTable("is read from what any client may have written", func(text string, want time.Time) {
		Expect(ParseTime(text)).To(BeTemporally("==", want))
	},
		Entry("whole milliseconds", "1700000000000", time.UnixMilli(1700000000000)),
		Entry("with a fraction, which is cut off", "1700000000000.5", time.UnixMilli(1700000000000)),
		Entry("with white space", " 1700000000000 ", time.UnixMilli(1700000000000)),
		Entry("nothing", "", time.Time{}),
		Entry("zero", "0", time.Time{}),
		Entry("words", "soon", time.Time{}),
		Entry("more digits than there is time", "99999999999999999999", time.Time{}),
	)

	DescribeTable("a duration is read with its fraction", func(text string, want time.Duration) {
		Expect(ParseMillis(text)).To(Equal(want))
	},
		Entry("whole", "1000", time.Second),
		Entry("fractional", "1000.7", 1000700*time.Microsecond),
		Entry("negative", "-5", -5*time.Millisecond),
		Entry("nothing", "", time.Duration(0)),
		Entry("words", "later", time.Duration(0)),
		Entry("NaN", "NaN", time.Duration(0)),
		Entry("infinity", "Infinity", time.Duration(0)),
		Entry("more than a Duration holds", "1e300", time.Duration(0)),
	)

	It("is written in milliseconds, with a fraction only where there is one", func() {
		Expect(FormatMillis(90 * time.Second)).To(Equal("90000"))
		Expect(FormatMillis(1500 * time.Microsecond)).To(Equal("1.5"))
		Expect(FormatMillis(-time.Millisecond)).To(Equal("-1"))
		Expect(FormatTime(time.UnixMilli(1700000000123))).To(Equal("1700000000123"))
		Expect(FormatTime(time.UnixMicro(1700000000000500))).To(Equal("1700000000000.5"))
	})
})
