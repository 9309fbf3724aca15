package cron_test

import (
	"errors"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/internal/cron"
)

var _ = Describe("A pattern", func() {
	DescribeTable("is accepted", func(pattern string) {
		_, err := cron.Parse(pattern)
		Expect(err).NotTo(HaveOccurred())
	}, EntryDescription("%q"),
		Entry(nil, "* * * * *"),
		Entry(nil, "* * * * * *"),
		Entry(nil, " \t0 3\u00a0*  * *\n"),
		Entry("month and day of the week only", "3 4"),
		Entry(nil, "@yearly"), Entry(nil, "@annually"), Entry(nil, "@monthly"), Entry(nil, "@weekly"), Entry(nil, "@daily"),
		Entry(nil, "@hourly"), Entry(nil, "@minutely"), Entry(nil, "@secondly"), Entry(nil, "@weekdays"), Entry(nil, "@weekends"),
		Entry(nil, "0 0 * JAN,dec Mon-FRI"),
		Entry("names of the other field", "0 0 * mon jan"),
		Entry(nil, "5/10 */99 ? ? ?"),
		Entry(nil, "0 0 L * *"),
		Entry(nil, "0 0 15L * *"),
		Entry(nil, "0 0 * * 7"),
		Entry(nil, "0 0 * * 7L"),
		Entry(nil, "0 0 * * fri#3"),
		Entry(nil, "H H(0-7) H/10 * *"),
		Entry("a step followed by text that is ignored", "5/1-3 * * * *"),
		Entry("a range followed by text that is ignored", "1-5-7 * * * *"),
		Entry("a wildcard that is replaced as text", "1* * * * * *"),
		Entry("days that are dropped because the month lacks them", "0 0 28-31 2 *"),
		Entry("an impossible date next to a day of the week", "0 0 30 2 1"),
		Entry("impossible dates of several months", "0 0 31 2,4 *"),
		Entry("1,024 characters", "0 0 0 * * 1"+strings.Repeat(" ", 1013)),
	)

	DescribeTable("is rejected with an error that names the field and the remedy", func(pattern, field, problem, remedy string) {
		_, err := cron.Parse(pattern)
		var refused *cron.PatternError
		Expect(errors.As(err, &refused)).To(BeTrue(), "%v", err)
		Expect(refused.Pattern).To(Equal(pattern))
		Expect(refused.Field).To(Equal(field))
		Expect(refused.Problem).To(ContainSubstring(problem))
		Expect(refused.Remedy).To(ContainSubstring(remedy))
		Expect(err.Error()).To(And(ContainSubstring(refused.Field), ContainSubstring(problem), ContainSubstring(remedy)))
	}, EntryDescription("%q"),
		Entry(nil, "", "", "empty", "five or six fields"),
		Entry(nil, " ", "", "empty", "five or six fields"),
		Entry(nil, "0 0 0 1 1 * 2030", "", "7 fields", "five, or six"),
		Entry(nil, "@every", "", "no such shorthand", "@daily"),
		Entry(nil, "@Daily", "", "no such shorthand", "@daily"),
		Entry("too long", "0 0 0 * * 1"+strings.Repeat(" ", 1014), "", "1025 characters", "at most 1024"),
		Entry(nil, "60 * * * *", "minute", "60 is not in 0-59", "0 to 59"),
		Entry(nil, "0 24 * * *", "hour", "24 is not in 0-23", "0 to 23"),
		Entry(nil, "60 0 0 * * *", "second", "60 is not in 0-59", "0 to 59"),
		Entry(nil, "0 0 0 * *", "day of the month", "0 is not in 1-31", "1 to 31"),
		Entry(nil, "0 0 * 13 *", "month", "13 is not in 1-12", "1 to 12"),
		Entry(nil, "0 0 * * 8", "day of the week", "8 is not in 0-7", "0 to 7"),
		Entry(nil, "0 0 30 2 *", "day of the month", "month 2 has no such day", "1 to 29"),
		Entry(nil, "0 0 31 nov ?", "day of the month", "month 11 has no such day", "1 to 30"),
		Entry(nil, "1,1 * * * *", "minute", "1 is listed twice", "once"),
		Entry(nil, "1,0-5 * * * *", "minute", "1 is listed twice", "once"),
		Entry(nil, "0 0 * * 0,7", "day of the week", "0 is listed twice", "once"),
		Entry(nil, "0 0 * * 5L,5L", "day of the week", "5L is listed twice", "once"),
		Entry(nil, "1,,2 * * * *", "minute", "missing", "each side of a comma"),
		Entry(nil, "5-1 * * * *", "minute", "5-1 runs backward", "smaller number first"),
		Entry(nil, "0-60 * * * *", "minute", "0-60 exceeds 0-59", "0 to 59"),
		Entry(nil, "-5 * * * *", "minute", "is not a range", "each side of the dash"),
		Entry(nil, "*/0 * * * *", "minute", `"0" is not a step`, "from 1"),
		Entry(nil, "*/x * * * *", "minute", "characters", "0 to 59"),
		Entry(nil, "*/ * * * *", "minute", `"" is not a step`, "from 1"),
		Entry(nil, "1/2/3 * * * *", "minute", "two steps", "one step"),
		Entry(nil, "0 0 * foo *", "month", `no name "foo"`, "three letters"),
		Entry(nil, "0 0 * * monday", "day of the week", `no name "day"`, "three letters"),
		Entry(nil, "0 0 15W * *", "day of the month", "characters", "L"),
		Entry(nil, "0 0 L-3 * *", "day of the month", "is not a range", "each side of the dash"),
		Entry(nil, "0 0 123L * *", "day of the month", `"123L" is not a last day`, "L"),
		Entry(nil, "0 0 * * L", "day of the week", `"L" is not a last day`, "L"),
		Entry(nil, "L * * * *", "minute", "characters", "0 to 59"),
		Entry(nil, "0 0 * * 1#6", "day of the week", `no occurrence "6"`, "1 to 5"),
		Entry(nil, "0 0 * * 1#", "day of the week", `no occurrence ""`, "1 to 5"),
		Entry(nil, "0 0 * * 1#2#3", "day of the week", `no occurrence "2#3"`, "1 to 5"),
		Entry(nil, "0 0 * * 1,2#3", "day of the week", "cannot be combined", "one day"),
		Entry(nil, "H(5-1) * * * *", "minute", "H(5-1) has no value", "within 0-59"),
		Entry(nil, "H(60-99) * * * *", "minute", "H(60-99) has no value", "within 0-59"),
		Entry(nil, "H/0 * * * *", "minute", `"0" is not a step`, "from 1"),
		Entry("a fraction", "H/30,1.5 * * * *", "minute", `"1.5" is not a whole number`, "0 to 59"),
	)

	It("with H and a seed gives the same values as the reference", func() {
		schedule, err := cron.ParseSeeded("H H H(1-28) * *", "orders")
		Expect(err).NotTo(HaveOccurred())
		run, ok := schedule.Next(instant("2024-01-01T00:00:00Z"), time.UTC)
		Expect(ok).To(BeTrue())
		Expect(run).To(Equal(instant("2024-01-04T01:47:00Z")))
	})

	It("with H and no seed gives different values each time", func() {
		runs := map[time.Time]bool{}
		for range 50 {
			schedule, err := cron.Parse("H H * * *")
			Expect(err).NotTo(HaveOccurred())
			run, ok := schedule.Next(instant("2024-01-01T00:00:00Z"), time.UTC)
			Expect(ok).To(BeTrue())
			runs[run] = true
		}
		Expect(len(runs)).To(BeNumerically(">", 1))
	})
})
