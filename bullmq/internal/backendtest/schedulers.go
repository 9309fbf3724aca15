package backendtest

import (
	"time"

	"github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

func (s *suite) schedulers() {
	ginkgo.Describe("A job scheduler", func() {
		const opts = `{"repeat":{"every":1000}}`
		add := func(id string) (jobID string) {
			ginkgo.GinkgoHelper()
			jobID, _, err := s.Store.AddJobScheduler(s.ctx, backend.SchedulerAdd{
				ID: id, Now: now, Name: "tick", Data: data, Template: `{"attempts":3}`, Opts: opts,
				Repeat: backend.SchedulerRepeat{Every: time.Second},
			})
			Expect(err).NotTo(HaveOccurred())
			return jobID
		}

		addHourly := func() (jobID string, delay time.Duration) {
			ginkgo.GinkgoHelper()
			jobID, delay, err := s.Store.AddJobScheduler(s.ctx, backend.SchedulerAdd{
				ID: "hourly", Now: now, Name: "tock", Template: "{}", Opts: `{"repeat":{"pattern":"0 * * * *"}}`, Due: now.Add(time.Hour),
				Repeat: backend.SchedulerRepeat{Pattern: "0 * * * *", TimeZone: "Europe/Berlin", Limit: 5},
			})
			Expect(err).NotTo(HaveOccurred())
			return jobID, delay
		}

		ginkgo.It("adds its next job at once", func() {
			record := s.record(add("often"))
			Expect(record.Name).To(Equal("tick"))
			Expect(string(record.Data)).To(Equal(data))
			Expect(record.SchedulerID).To(Equal("often"))
		})

		ginkgo.It("adds one job after the other, and the same one only once", func() {
			first := add("often")
			run := backend.NextRun{SchedulerID: "often", Now: now, ProducerID: first, Data: data, Opts: opts, EveryMillis: 1000}
			second, err := s.Store.UpdateJobScheduler(s.ctx, run)
			Expect(err).NotTo(HaveOccurred())
			Expect(second).NotTo(BeEmpty())
			Expect(second).NotTo(Equal(first))
			s.expectState(second, backend.Delayed)
			Expect(s.Store.UpdateJobScheduler(s.ctx, run)).To(BeEmpty())
			record, err := s.Store.JobScheduler(s.ctx, "often")
			Expect(err).NotTo(HaveOccurred())
			Expect(record.Iterations).To(Equal(2))
		})

		ginkgo.It("that is paused is kept elsewhere, and continues with its number of runs and its times", func() {
			first := add("often")
			run := backend.NextRun{SchedulerID: "often", Now: now, ProducerID: first, Data: data, Opts: opts, EveryMillis: 1000}
			second, err := s.Store.UpdateJobScheduler(s.ctx, run)
			Expect(err).NotTo(HaveOccurred())
			before, err := s.Store.JobScheduler(s.ctx, "often")
			Expect(err).NotTo(HaveOccurred())

			Expect(s.Store.PauseJobScheduler(s.ctx, "often", now)).To(BeTrue())
			Expect(s.Store.PauseJobScheduler(s.ctx, "often", now)).To(BeTrue())
			Expect(s.Store.PauseJobScheduler(s.ctx, "none", now)).To(BeFalse())
			Expect(s.Store.JobScheduler(s.ctx, "often")).To(BeNil())
			s.expectState(second, backend.Unknown)
			paused, err := s.Store.PausedJobSchedulers(s.ctx, "none", "often")
			Expect(err).NotTo(HaveOccurred())
			Expect(paused).To(HaveLen(1))
			Expect(paused[0].PausedAt).To(BeTemporally("==", now))
			paused[0].PausedAt = time.Time{}
			Expect(paused[0]).To(Equal(before))

			resume := backend.SchedulerAdd{
				ID: "often", Now: now, Name: "tick", Data: data, Template: `{"attempts":3}`, Opts: opts,
				Repeat: backend.SchedulerRepeat{Every: time.Second}, Resume: true,
			}
			jobID, _, err := s.Store.AddJobScheduler(s.ctx, resume)
			Expect(err).NotTo(HaveOccurred())
			Expect(jobID).To(Equal(second))
			Expect(s.Store.JobScheduler(s.ctx, "often")).To(Equal(before))
			_, _, err = s.Store.AddJobScheduler(s.ctx, resume)
			Expect(err).To(MatchError(backend.ErrSchedulerNotPaused))
			Expect(s.Store.PausedJobSchedulers(s.ctx)).To(BeEmpty())
		})

		ginkgo.It("can be read alone, and in a list that is sorted by the next run", func() {
			add("often")
			_, delay := addHourly()
			Expect(delay).To(Equal(time.Hour))
			record, err := s.Store.JobScheduler(s.ctx, "hourly")
			Expect(err).NotTo(HaveOccurred())
			Expect(record.Next).To(BeTemporally("==", now.Add(time.Hour)))
			Expect(record.Repeat).To(Equal(backend.SchedulerRepeat{Pattern: "0 * * * *", TimeZone: "Europe/Berlin", Limit: 5}))
			records, err := s.Store.JobSchedulers(s.ctx, allJobs)
			Expect(err).NotTo(HaveOccurred())
			Expect(records).To(HaveLen(2))
			Expect(records[0].ID).To(Equal("often"))
			Expect(string(records[0].Opts)).To(Equal(`{"attempts":3}`))
			Expect(records[1].ID).To(Equal("hourly"))
			Expect(s.Store.CountJobSchedulers(s.ctx)).To(Equal(2))
		})

		ginkgo.It("is removed with its next job, if that is delayed", func() {
			next, _ := addHourly()
			s.expectState(next, backend.Delayed)
			Expect(s.Store.RemoveJobScheduler(s.ctx, "hourly")).To(BeTrue())
			s.expectState(next, backend.Unknown)
			Expect(s.Store.JobScheduler(s.ctx, "hourly")).To(BeNil())
			Expect(s.Store.RemoveJobScheduler(s.ctx, "hourly")).To(BeFalse())
		})

		ginkgo.It("protects its next job from Remove", func() {
			_, err := s.Store.Remove(s.ctx, add("often"), false)
			Expect(err).To(MatchError(backend.SchedulerJob))
		})
	})
}
