package schedule

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("The next run of a scheduler", func() {
	now := time.UnixMilli(1700000000000) // 2023-11-14 22:13:20 UTC

	It("is at the next match of its pattern, with the options of the job before", func() {
		run, err := Next("nightly", []byte(`{"repeat":{"pattern":"30 9 * * *","tz":"UTC","count":1},"attempts":3,"backoff":500,"priority":7}`), now)
		Expect(err).NotTo(HaveOccurred())
		Expect(run.Due.UTC()).To(Equal(time.Date(2023, 11, 15, 9, 30, 0, 0, time.UTC)))
		Expect(run.EveryMillis).To(BeZero())
		Expect(run.Opts).To(MatchJSON(`{
			"repeat": {"pattern":"30 9 * * *","tz":"UTC","count":2}, "repeatJobKey": "nightly",
			"timestamp": 1700000000000, "prevMillis": 1700040600000,
			"attempts": 3, "backoff": {"type":"fixed","delay":500}, "priority": 7
		}`))
	})

	It("is never before the run that prevMillis names", func() {
		run, err := Next("s", []byte(`{"repeat":{"pattern":"30 9 * * *","tz":"UTC"},"prevMillis":1700040600000}`), now)
		Expect(err).NotTo(HaveOccurred())
		Expect(run.Due.UTC()).To(Equal(time.Date(2023, 11, 16, 9, 30, 0, 0, time.UTC)))
	})

	It("leaves the time of an interval to the store, and keeps a fraction of a millisecond and the offset", func() {
		run, err := Next("s", []byte(`{"repeat":{"every":333.3333333333333,"offset":5,"count":4,"immediately":true},"prevMillis":1}`), now)
		Expect(err).NotTo(HaveOccurred())
		Expect(run.Due).To(BeZero())
		Expect(run.EveryMillis).To(Equal(333.3333333333333))
		Expect(run.Opts).To(MatchJSON(`{
			"repeat": {"every":333.3333333333333,"offset":5,"count":5}, "repeatJobKey": "s", "timestamp": 1700000000000, "attempts": 0
		}`))
	})

	It("reads dates that a client has written as text", func() {
		run, err := Next("s", []byte(`{"repeat":{"pattern":"0 0 * * *","tz":"UTC","startDate":"2024-01-01T00:00:00Z"}}`), now)
		Expect(err).NotTo(HaveOccurred())
		Expect(run.Due.UTC()).To(Equal(time.Date(2024, 1, 2, 0, 0, 0, 0, time.UTC)))
		Expect(run.Opts).To(ContainSubstring(`"startDate":1704067200000`))
	})

	DescribeTable("does not exist once the scheduler has ended by", func(repeat string) {
		Expect(Next("s", []byte(`{"repeat":`+repeat+`}`), now)).To(BeNil())
	},
		Entry("its limit", `{"every":1000,"count":3,"limit":3}`),
		Entry("the end date of an interval", `{"every":1000,"endDate":1699999999999}`),
		Entry("the end date of a pattern", `{"pattern":"0 0 1 1 *","tz":"UTC","endDate":1700000000001}`),
	)

	DescribeTable("is refused for", func(id, opts, reason string) {
		_, err := Next(id, []byte(opts), now)
		Expect(err).To(MatchError(ContainSubstring(reason)))
	},
		Entry("a repeatable job of BullMQ 4", "paint::::0 0 * * *", `{"repeat":{"pattern":"0 0 * * *"}}`, "BullMQ 4 or older"),
		Entry("options that are no JSON", "s", `{`, "opts can't be read"),
		Entry("options without repeat", "s", `{}`, "no option repeat"),
		Entry("an option repeat that is no object", "s", `{"repeat":5}`, "option repeat can't be read"),
		Entry("neither a pattern nor an interval", "s", `{"repeat":{}}`, "either a pattern or an interval"),
		Entry("both", "s", `{"repeat":{"pattern":"* * * * *","every":5}}`, "either a pattern or an interval"),
		Entry("a pattern that can't be read", "s", `{"repeat":{"pattern":"61 * * * *"}}`, "61"),
	)

	It("is ErrNoNextRun for a pattern that the reference finds no run for", func() {
		backward := time.Date(2024, 4, 6, 2, 0, 0, 0, time.UTC) // clocks go back by half an hour that night
		_, err := Next("s", []byte(`{"repeat":{"pattern":"0 12 * * *","tz":"Australia/Lord_Howe"}}`), backward)
		Expect(err).To(MatchError(ErrNoNextRun))
		Expect(err).To(MatchError(And(ContainSubstring(`"0 12 * * *"`), ContainSubstring(`"Australia/Lord_Howe"`))))
	})
})

var _ = Describe("The key of a repeatable job of BullMQ 4", func() {
	DescribeTable("is told from a scheduler's id", func(key string, legacy bool) {
		Expect(IsLegacyKey(key)).To(Equal(legacy))
	},
		Entry("by a pattern", "paint:wall:::0 0 * * *", true),
		Entry("by an interval", "paint::1800000000000:Europe/Berlin:60000", true),
		Entry("since its end date consists of digits", "a:b:c:d:60000", false),
		Entry("since it has a suffix", "a:b:1:UTC:", false),
		Entry("since it has five parts", "paint:60000", false),
		Entry("since its suffix is no word", "a:b:1:UTC:nightly", false),
	)
})
