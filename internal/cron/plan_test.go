package cron_test

import (
	"errors"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/internal/cron"
)

var _ = Describe("The next run of a job scheduler", func() {
	const (
		second = int64(1000)
		day    = 24 * 60 * 60 * second
		start  = 20_000 * day // midnight in UTC
		noon   = start + day/2
	)
	daily := cron.Plan{Pattern: "0 12 * * *", TimeZone: "UTC"}

	with := func(change func(*cron.Plan)) cron.Plan {
		plan := daily
		change(&plan)
		return plan
	}

	DescribeTable("is found", func(plan cron.Plan, now, want int64) {
		Expect(plan.NextRun(now)).To(Equal(want))
	},
		Entry("after now", daily, start, noon),
		Entry("after now, not at it", daily, noon, noon+day),
		Entry("after the previous run if that is still to come",
			with(func(p *cron.Plan) { p.PrevMillis = noon + day }), start, noon+2*day),
		Entry("after now if the previous run is past",
			with(func(p *cron.Plan) { p.PrevMillis = noon - 3*day }), start, noon),
		Entry("after the start date", with(func(p *cron.Plan) { p.StartDate = start + 7*day }), start, noon+7*day),
		Entry("after the start date, not at it", with(func(p *cron.Plan) { p.StartDate = noon + 7*day }), start, noon+8*day),
		Entry("at the end date", with(func(p *cron.Plan) { p.EndDate = noon }), start, noon),
		Entry("now if it is requested immediately", with(func(p *cron.Plan) { p.Immediately = true }), start, start),
		Entry("at the previous run if it is requested immediately and that is still to come",
			with(func(p *cron.Plan) { p.Immediately, p.PrevMillis = true, noon }), start, noon),
		Entry("in the given zone", with(func(p *cron.Plan) { p.TimeZone = "UTC+2" }), start, noon-day/12),
	)

	DescribeTable("does not exist", func(plan cron.Plan, now int64, want error) {
		_, err := plan.NextRun(now)
		Expect(err).To(MatchError(want))
		Expect(errors.Is(err, cron.ErrNoRun)).To(BeTrue())
	},
		Entry("past the end date", with(func(p *cron.Plan) { p.EndDate = start - 1 }), start, cron.ErrEnded),
		Entry("past the end date even if the pattern is invalid",
			with(func(p *cron.Plan) { p.EndDate, p.Pattern = start-1, "bad" }), start, cron.ErrEnded),
		Entry("if the first run would be past the end date", with(func(p *cron.Plan) { p.EndDate = noon - 1 }), start, cron.ErrEnded),
		Entry("if the start date is past the end date",
			with(func(p *cron.Plan) { p.StartDate, p.EndDate = noon+day, noon }), start, cron.ErrEnded),
		Entry("if the pattern never fires", with(func(p *cron.Plan) { p.Pattern = "0 0 31 4,6 *" }), start, cron.ErrGaveUp),
	)

	It("is rejected with an invalid pattern even if it is requested immediately", func() {
		_, err := with(func(p *cron.Plan) { p.Pattern, p.Immediately = "61 * * * *", true }).NextRun(start)
		var refused *cron.PatternError
		Expect(errors.As(err, &refused)).To(BeTrue(), "%v", err)
	})

	It("is rejected with an unknown zone", func() {
		_, err := with(func(p *cron.Plan) { p.TimeZone = "Mars/Olympus" }).NextRun(start)
		var refused *cron.ZoneError
		Expect(errors.As(err, &refused)).To(BeTrue(), "%v", err)
	})

	It("is rejected with a date outside JavaScript's range", func() {
		_, err := with(func(p *cron.Plan) { p.StartDate = 8_640_000_000_000_001 }).NextRun(start)
		var refused *cron.DateError
		Expect(errors.As(err, &refused)).To(BeTrue(), "%v", err)
		Expect(refused.Name).To(Equal("StartDate"))
	})

	It("is rejected if it is requested immediately and with a start date", func() {
		_, err := with(func(p *cron.Plan) { p.StartDate, p.Immediately = noon, true }).NextRun(start)
		Expect(err).To(MatchError(cron.ErrImmediatelyWithStartDate))
	})
})
