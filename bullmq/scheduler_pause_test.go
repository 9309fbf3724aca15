package bullmq_test

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("A scheduler that is paused", func() {
	var (
		name  string
		queue *bullmq.Queue
		ctx   context.Context
		clock time.Time
	)
	BeforeEach(func() {
		name, ctx, clock = newQueueName(), specContext(), time.UnixMilli(fixedNow)
		queue = newQueue(name, &bullmq.QueueOptions{Now: func() time.Time { return clock }, DefaultJobOptions: &bullmq.JobOptions{Attempts: 9}})
	})
	template := &bullmq.JobTemplate{Name: "paint", Data: json.RawMessage(`{"b":1,"a":"<ü>"}`), Options: &bullmq.JobOptions{Attempts: 3, Priority: 7}}
	upsert := func(repeat bullmq.Repeat) *bullmq.Job {
		GinkgoHelper()
		job, err := queue.UpsertScheduler(ctx, "tick", repeat, template)
		Expect(err).NotTo(HaveOccurred())
		return job
	}
	fetch := func() *bullmq.Job {
		GinkgoHelper()
		worker := newFetcher(name, &bullmq.FetcherOptions{Now: func() time.Time { return clock }})
		job := takeJob(worker)
		endJob(worker, job, nil, nil)
		return job
	}
	// state returns what is stored about the schedulers and their jobs.
	state := func(key string) map[string]any {
		GinkgoHelper()
		stored := snapshot(name)
		for _, changing := range []string{"events", "id", "meta", "marker"} {
			delete(stored, keyOf(name, changing))
		}
		if key != "" {
			Expect(stored).To(HaveKey(key))
		}
		return stored
	}

	It("is not there for other clients, and continues as if it had not been paused", func() {
		for kind, repeat := range map[string]bullmq.Repeat{
			"pattern": {Pattern: "0 9 * * *", TimeZone: "Europe/Rome", Limit: 10, EndDate: time.UnixMilli(fixedNow).AddDate(0, 1, 0)},
			"offset":  {Every: time.Hour, Offset: 5 * time.Minute},
		} {
			By(kind)
			job := upsert(repeat)
			before := state(job.Key())
			Expect(queue.PauseScheduler(ctx, "tick")).To(Succeed())
			Expect(state("")).To(BeEmpty())
			Expect(queue.Schedulers(ctx, bullmq.AllEntries())).To(BeEmpty())
			Expect(queue.Scheduler(ctx, "tick")).Error().To(MatchError(bullmq.ErrSchedulerNotFound))
			Expect(queue.PauseScheduler(ctx, "tick")).To(Succeed(), "again")

			paused, err := queue.PausedSchedulers(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(paused).To(HaveLen(1))
			Expect(*paused[0]).To(And(
				HaveField("ID", "tick"), HaveField("Name", "paint"), HaveField("Iterations", 1), HaveField("PausedAt", time.UnixMilli(fixedNow)),
				HaveField("Next", job.Timestamp.Add(job.Delay)), HaveField("Repeat.Every", repeat.Every), HaveField("Repeat.Pattern", repeat.Pattern),
				HaveField("Repeat.TimeZone", repeat.TimeZone), HaveField("Repeat.Limit", repeat.Limit), HaveField("Data", template.Data),
			))

			Expect(queue.ResumeScheduler(ctx, "tick")).To(Succeed())
			Expect(state("")).To(Equal(before))
			Expect(queue.PausedSchedulers(ctx)).To(BeEmpty())
			Expect(queue.ResumeScheduler(ctx, "tick")).To(Succeed(), "again")
			Expect(state("")).To(Equal(before))
			Expect(queue.RemoveScheduler(ctx, "tick")).To(Succeed())
			Expect(state("")).To(BeEmpty())
		}
	})

	It("keeps its times and the number of its runs, and leaves out those in the pause", func() {
		upsert(bullmq.Repeat{Every: time.Minute, Limit: 5})
		Expect(fetch().Name).To(Equal("paint"))
		Expect(fetchable(ctx, queue)).To(BeEmpty())
		Expect(queue.PauseScheduler(ctx, "tick")).To(Succeed())
		clock = clock.Add(10*time.Minute + 20*time.Second)
		Expect(fetchable(ctx, queue)).To(BeEmpty())
		Expect(queue.ResumeScheduler(ctx, "tick")).To(Succeed())
		scheduler, err := queue.Scheduler(ctx, "tick")
		Expect(err).NotTo(HaveOccurred())
		Expect(scheduler.Next).To(Equal(time.UnixMilli(fixedNow).Add(11 * time.Minute)))
		Expect(scheduler.Iterations).To(Equal(2))
		for n := range 4 {
			clock = time.UnixMilli(fixedNow).Add(time.Duration(11+n) * time.Minute)
			Expect(fetch().ID).To(Equal(fmt.Sprint("repeat:tick:", clock.UnixMilli())))
		}
		Expect(zsetAt(keyOf(name, "delayed"))).To(BeEmpty(), "5 jobs were added in all")
	})

	It("is replaced by an upsert, and can be removed", func() {
		upsert(bullmq.Repeat{Every: time.Minute})
		Expect(queue.PauseScheduler(ctx, "tick")).To(Succeed())
		Expect(queue.RemoveScheduler(ctx, "tick")).To(Succeed())
		Expect(queue.RemoveScheduler(ctx, "tick")).To(MatchError(bullmq.ErrSchedulerNotFound))
		Expect(queue.ResumeScheduler(ctx, "tick")).To(MatchError(bullmq.ErrSchedulerNotFound))
		Expect(queue.PauseScheduler(ctx, "tick")).To(MatchError(bullmq.ErrSchedulerNotFound))

		upsert(bullmq.Repeat{Every: time.Minute})
		Expect(queue.PauseScheduler(ctx, "tick")).To(Succeed())
		upsert(bullmq.Repeat{Every: time.Hour})
		Expect(queue.PausedSchedulers(ctx)).To(BeEmpty())
		Expect(queue.ResumeScheduler(ctx, "tick")).To(Succeed())
		Expect(queue.Scheduler(ctx, "tick")).To(HaveField("Repeat.Every", time.Hour))
	})

	It("stays paused if it has no next run", func() {
		upsert(bullmq.Repeat{Pattern: "0 9 * * *", EndDate: time.UnixMilli(fixedNow).AddDate(0, 0, 2)})
		Expect(queue.PauseScheduler(ctx, "tick")).To(Succeed())
		clock = clock.AddDate(0, 0, 3)
		Expect(queue.ResumeScheduler(ctx, "tick")).To(MatchError(bullmq.ErrNoNextRun))
		Expect(queue.PausedSchedulers(ctx)).To(HaveLen(1))
	})

	It("is deleted with its queue", func() {
		upsert(bullmq.Repeat{Every: time.Minute})
		Expect(queue.PauseScheduler(ctx, "tick")).To(Succeed())
		Expect(queue.Obliterate(ctx, nil)).To(Succeed())
		Expect(redisStrings("KEYS", "bull:"+name+"*")).To(BeEmpty())
	})

	It("or not can be run once now, without a change of its schedule", func() {
		job := upsert(bullmq.Repeat{Every: time.Hour, Offset: time.Minute})
		before := state(job.Key())
		run, err := queue.RunScheduler(ctx, "tick")
		Expect(err).NotTo(HaveOccurred())
		Expect(run).To(And(HaveField("ID", MatchRegexp(`^\d+$`)), HaveField("Name", "paint"), HaveField("Data", template.Data),
			HaveField("Priority", 7), HaveField("SchedulerID", ""), HaveField("Options.Attempts", 3)))
		stored := hashAt(run.Key())
		Expect(stored).To(HaveKeyWithValue("data", `{"b":1,"a":"<ü>"}`))
		Expect(stored["opts"]).To(MatchJSON(`{"attempts":3,"priority":7}`))
		Expect(stored).NotTo(HaveKey("rjk"))
		Expect(fetch().ID).To(Equal(run.ID))
		Expect(queue.Remove(ctx, run.ID, nil)).To(Succeed())
		after := state("")
		delete(after, keyOf(name, "pc"))
		Expect(after).To(Equal(before))

		Expect(queue.PauseScheduler(ctx, "tick")).To(Succeed())
		run, err = queue.RunScheduler(ctx, "tick")
		Expect(err).NotTo(HaveOccurred())
		Expect(run.Data).To(Equal(template.Data))
		_, err = queue.RunScheduler(ctx, "none")
		Expect(err).To(MatchError(bullmq.ErrSchedulerNotFound))
	})
})

// fetchable returns the ids of the jobs that wait.
func fetchable(ctx context.Context, queue *bullmq.Queue) []string {
	GinkgoHelper()
	ids, err := queue.JobIDs(ctx, bullmq.AllEntries(), bullmq.StateWaiting, bullmq.StatePrioritized)
	Expect(err).NotTo(HaveOccurred())
	return ids
}
