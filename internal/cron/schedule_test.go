package cron_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/internal/cron"
)

// never is the expected result if there is no run.
const never = ""

func expectRun(run time.Time, ok bool, zone, want string) {
	GinkgoHelper()
	if want == never {
		Expect(ok).To(BeFalse(), "expected no run, got one at %v", run)
		return
	}
	Expect(ok).To(BeTrue(), "expected a run")
	Expect(run.Format(time.RFC3339Nano)).To(Equal(want))
	Expect(run.Location()).To(Equal(zoneNamed(zone)))
}

func expectNext(pattern, zone, after, want string) {
	GinkgoHelper()
	schedule, err := cron.Parse(pattern)
	Expect(err).NotTo(HaveOccurred())
	run, ok := schedule.Next(instant(after), zoneNamed(zone))
	expectRun(run, ok, zone, want)
}

func expectPrev(pattern, zone, before, want string) {
	GinkgoHelper()
	schedule, err := cron.Parse(pattern)
	Expect(err).NotTo(HaveOccurred())
	run, ok := schedule.Prev(instant(before), zoneNamed(zone))
	expectRun(run, ok, zone, want)
}

// The expected values come from cron-parser 5.10.3.
var _ = Describe("A schedule", func() {
	named := EntryDescription("for %q in %s, from %s: %q")

	DescribeTable("finds the next run", expectNext, named,
		Entry(nil, "0 3 * * *", "UTC", "2024-05-06T02:59:59.999Z", "2024-05-06T03:00:00Z"),
		Entry(nil, "0 3 * * *", "UTC", "2024-05-06T03:00:00Z", "2024-05-07T03:00:00Z"),
		Entry(nil, "*/20 * * * * *", "UTC", "2024-05-06T10:00:05.25Z", "2024-05-06T10:00:20Z"),
		Entry(nil, "* * * * * *", "UTC", "2024-05-06T10:00:05.25Z", "2024-05-06T10:00:06Z"),
		Entry(nil, "30 9 * * mon-fri", "UTC", "2024-05-03T09:30:00Z", "2024-05-06T09:30:00Z"),
		Entry(nil, "5", "UTC", "2024-05-06T00:00:00Z", "2024-05-10T00:00:00Z"),
		Entry(nil, "@weekends", "UTC", "2024-05-06T00:00:00Z", "2024-05-11T00:00:00Z"),
		Entry(nil, "0 0 1 1 *", "Asia/Tokyo", "2024-12-31T14:59:59.999Z", "2025-01-01T00:00:00+09:00"),
	)

	DescribeTable("accepts a day that matches either of two restricted fields", expectNext, named,
		Entry(nil, "0 12 13 * 5", "UTC", "2024-05-06T00:00:00Z", "2024-05-10T12:00:00Z"),
		Entry(nil, "0 12 13 * 1-5", "UTC", "2024-05-11T00:00:00Z", "2024-05-13T12:00:00Z"),
		Entry(nil, "0 12 13 * 0-7", "UTC", "2024-05-06T12:00:00Z", "2024-05-07T12:00:00Z"),
		Entry(nil, "0 12 13 * ?", "UTC", "2024-05-06T12:00:00Z", "2024-05-13T12:00:00Z"),
		Entry(nil, "0 0 1 * 2#2", "UTC", "2024-05-14T12:00:00Z", "2024-06-01T00:00:00Z"),
	)

	DescribeTable("counts days from the end and by their occurrence in a month", expectNext, named,
		Entry(nil, "0 0 L * *", "UTC", "2024-02-10T00:00:00Z", "2024-02-29T00:00:00Z"),
		Entry(nil, "0 0 L 2 *", "UTC", "2025-01-01T00:00:00Z", "2025-02-28T00:00:00Z"),
		Entry(nil, "0 0 15,L * *", "UTC", "2024-02-15T00:00:00Z", "2024-02-29T00:00:00Z"),
		Entry(nil, "0 0 * * 5L", "UTC", "2024-05-06T00:00:00Z", "2024-05-31T00:00:00Z"),
		Entry(nil, "0 0 * * 1,5L", "UTC", "2024-05-25T00:00:00Z", "2024-05-27T00:00:00Z"),
		Entry(nil, "0 0 * * 2#2", "UTC", "2024-05-06T00:00:00Z", "2024-05-14T00:00:00Z"),
		Entry(nil, "0 0 * * 1#5", "UTC", "2024-05-06T00:00:00Z", "2024-07-29T00:00:00Z"),
		Entry(nil, "0 0 31 * *", "UTC", "2024-05-31T00:00:00Z", "2024-07-31T00:00:00Z"),
		Entry(nil, "0 0 29 2 *", "UTC", "2097-01-01T00:00:00Z", "2104-02-29T00:00:00Z"),
	)

	DescribeTable("finds the previous run", expectPrev, named,
		Entry(nil, "0 3 * * *", "UTC", "2024-05-06T03:00:00Z", "2024-05-05T03:00:00Z"),
		Entry(nil, "* * * * * *", "UTC", "2024-05-06T10:00:05.25Z", "2024-05-06T10:00:05Z"),
		Entry(nil, "0 0 29 2 *", "UTC", "2024-02-29T00:00:00Z", "2020-02-29T00:00:00Z"),
		Entry(nil, "0 0 L * *", "UTC", "2024-03-15T00:00:00Z", "2024-02-29T00:00:00Z"),
	)

	DescribeTable("moves runs in a gap to the hour after it", expectNext, named,
		Entry(nil, "0 2 * * *", "Europe/Berlin", "2024-03-31T00:00:00+01:00", "2024-03-31T03:00:00+02:00"),
		Entry(nil, "30 2 * * *", "Europe/Berlin", "2024-03-30T03:00:00+01:00", "2024-03-31T03:30:00+02:00"),
		Entry(nil, "30 2,3 * * *", "Europe/Berlin", "2024-03-31T00:00:00+01:00", "2024-03-31T03:30:00+02:00"),
		Entry(nil, "30 2,3 * * *", "Europe/Berlin", "2024-03-31T03:30:00+02:00", "2024-04-01T02:30:00+02:00"),
		Entry(nil, "*/30 * * * *", "Europe/Berlin", "2024-03-31T01:30:00+01:00", "2024-03-31T03:00:00+02:00"),
		Entry("two hours wide", "30 1 * * *", "Antarctica/Troll", "2024-03-31T00:00:00Z", "2024-03-31T03:30:00+02:00"),
		Entry("two hours wide", "30 2 * * *", "Antarctica/Troll", "2024-03-31T00:00:00Z", "2024-03-31T03:30:00+02:00"),
	)

	DescribeTable("drops runs in a gap at midnight or shorter than an hour", expectNext, named,
		Entry(nil, "0 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00:00-03:00", "2018-11-05T00:00:00-02:00"),
		Entry(nil, "30 0 * * *", "Asia/Beirut", "2024-03-30T12:00:00+02:00", "2024-04-01T00:30:00+03:00"),
		Entry(nil, "15 2 * * *", "Australia/Lord_Howe", "2024-10-06T00:00:00+10:30", "2024-10-07T02:15:00+11:00"),
	)

	DescribeTable("runs once in an hour that occurs twice, unless it runs every hour", expectNext, named,
		Entry(nil, "30 2 * * *", "Europe/Berlin", "2024-10-27T00:00:00+02:00", "2024-10-27T02:30:00+02:00"),
		Entry(nil, "30 2 * * *", "Europe/Berlin", "2024-10-27T02:30:00+02:00", "2024-10-28T02:30:00+01:00"),
		Entry(nil, "30 2 * * *", "Europe/Berlin", "2024-10-27T02:30:00+01:00", "2024-10-28T02:30:00+01:00"),
		Entry(nil, "30 * * * *", "Europe/Berlin", "2024-10-27T02:30:00+02:00", "2024-10-27T02:30:00+01:00"),
		Entry(nil, "15 1-3 * * *", "America/New_York", "2024-11-03T01:15:00-04:00", "2024-11-03T02:15:00-05:00"),
		Entry(nil, "30 23 * * *", "Africa/Cairo", "2024-10-31T12:00:00+03:00", "2024-10-31T23:30:00+03:00"),
	)

	DescribeTable("finds the second of two equal times first when searching backward, and skips a gap", expectPrev, named,
		Entry(nil, "30 2 * * *", "Europe/Berlin", "2024-10-27T12:00:00+01:00", "2024-10-27T02:30:00+01:00"),
		Entry(nil, "30 2 * * *", "Europe/Berlin", "2024-03-31T12:00:00+02:00", "2024-03-30T02:30:00+01:00"),
	)

	DescribeTable("skips days that a zone skipped", expectNext, named,
		Entry(nil, "0 9 * * *", "Pacific/Apia", "2011-12-29T10:00:00-10:00", "2011-12-31T09:00:00+14:00"),
		Entry(nil, "0 9 30 12 *", "Pacific/Apia", "2011-12-29T10:00:00-10:00", "2012-12-30T09:00:00+14:00"),
		Entry(nil, "30 23 * * *", "Pacific/Kwajalein", "1993-08-20T12:00:00-12:00", "1993-08-20T23:30:00-12:00"),
	)

	DescribeTable("has no run where the reference gives up", expectNext, named,
		Entry("days that none of the months has", "0 0 31 2,4 *", "UTC", "2024-05-06T00:00:00Z", never),
		Entry("a fractional occurrence", "0 0 * * 1#1.5", "UTC", "2024-05-06T00:00:00Z", never),
		Entry("half an hour back", "1 6 * * *", "Australia/Lord_Howe", "2024-04-07T00:00:00+11:00", never),
		Entry("half an hour back", "0 12 * * *", "Australia/Lord_Howe", "2024-04-06T13:00:00+11:00", never),
	)

	It("finds a run at JavaScript's last date and none after it", func() {
		schedule, err := cron.Parse("0 0 13 9 *")
		Expect(err).NotTo(HaveOccurred())
		last := time.Date(275760, time.September, 13, 0, 0, 0, 0, time.UTC)
		run, ok := schedule.Next(last.Add(-time.Hour), time.UTC)
		Expect(ok).To(BeTrue())
		Expect(run).To(Equal(last))
		_, ok = schedule.Next(last, time.UTC)
		Expect(ok).To(BeFalse())
	})

	It("never fires without a pattern", func() {
		_, ok := cron.Schedule{}.Next(time.Now(), time.UTC)
		Expect(ok).To(BeFalse())
	})

	It("uses the machine's zone by default", func() {
		schedule, err := cron.Parse("0 3 * * *")
		Expect(err).NotTo(HaveOccurred())
		after := instant("2024-05-06T12:00:00Z")
		run, ok := schedule.Next(after, nil)
		Expect(ok).To(BeTrue())
		want, _ := schedule.Next(after, time.Local)
		Expect(run).To(Equal(want))
		Expect(run.Location()).To(Equal(time.Local))
	})
})
