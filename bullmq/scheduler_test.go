package bullmq_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("A job scheduler", func() {
	var (
		name   string
		queue  *bullmq.Queue
		worker *bullmq.Fetcher
		ctx    context.Context
		clock  time.Time
	)
	BeforeEach(func() {
		name, ctx, clock = newQueueName(), specContext(), time.UnixMilli(fixedNow)
		ticking := func() time.Time { return clock }
		queue = newQueue(name, &bullmq.QueueOptions{Now: ticking})
		worker = newFetcher(name, &bullmq.FetcherOptions{Now: ticking})
	})
	upsert := func(repeat bullmq.Repeat, template *bullmq.JobTemplate) *bullmq.Job {
		GinkgoHelper()
		job, err := queue.UpsertScheduler(ctx, "tick", repeat, template)
		Expect(err).NotTo(HaveOccurred())
		return job
	}
	// run fetches the job that is due, which adds the next one, and completes it.
	run := func() *bullmq.Job {
		GinkgoHelper()
		job := takeJob(worker)
		endJob(worker, job, nil, nil)
		return job
	}
	jobAt := func(after time.Duration) string { return fmt.Sprint("repeat:tick:", fixedNow+after.Milliseconds()) }
	pending := func() []string {
		GinkgoHelper()
		return append(listAt(keyOf(name, "wait")), zsetAt(keyOf(name, "delayed"))...)
	}

	It("with an interval adds no job after EndDate, but the last job may be due after it", func() {
		upsert(bullmq.Repeat{Every: time.Minute, EndDate: time.UnixMilli(fixedNow + 90_000)}, nil)
		run()
		clock = clock.Add(time.Minute)
		run()
		Expect(pending()).To(Equal([]string{jobAt(2 * time.Minute)}), "half a minute after EndDate")
		clock = clock.Add(time.Minute)
		run()
		Expect(pending()).To(BeEmpty())
	})

	It("with a pattern has no due time after EndDate, but its last job may run later", func() {
		upsert(bullmq.Repeat{Pattern: "* * * * *", TimeZone: "UTC", EndDate: time.UnixMilli(fixedNow + 90_000)}, nil)
		clock = clock.Add(time.Hour)
		run()
		Expect(pending()).To(BeEmpty())
	})

	It("whose next job cannot be added leaves its job to the stalled check if the lock expires, since it is not renewed", Label("slow"), func() {
		upsert(bullmq.Repeat{Every: time.Hour}, nil)
		faults, runs := make(chan error, 100), make(chan string, 10)
		handle := func(_ context.Context, job *bullmq.Job) (any, error) { runs <- job.ID; return nil, nil }
		repeat := keyOf(name, "repeat")
		Expect(redisDo("RENAME", repeat, repeat+"-").Error()).To(Succeed())
		Expect(redisDo("SET", repeat, "text").Error()).To(Succeed())
		runWorker(name, handle, &bullmq.WorkerOptions{
			SkipLockRenewal: true, SkipStalledCheck: true, LockDuration: 400 * time.Millisecond,
			Events: bullmq.WorkerEvents{Error: func(err error) { faults <- err }},
		})
		Eventually(faults).Should(Receive(MatchError(ContainSubstring("WRONGTYPE"))))
		Eventually(func() (int64, error) { return redisDo("EXISTS", keyOf(name, jobAt(0)+":lock")).AsInt64() }).Should(BeZero())
		Expect(redisDo("RENAME", repeat+"-", repeat).Error()).To(Succeed())
		Consistently(runs, "1500ms").ShouldNot(Receive())
		Expect(listAt(keyOf(name, "active"))).To(Equal([]string{jobAt(0)}))

		runWorker(name, handle, &bullmq.WorkerOptions{StalledInterval: 100 * time.Millisecond})
		Eventually(runs).Should(Receive(Equal(jobAt(0))))
	})

	Describe("with a pattern for which BullMQ finds no next run", func() {
		repeat := bullmq.Repeat{Pattern: "0 12 * * *", TimeZone: "Australia/Lord_Howe"}
		on := func(date string) time.Time {
			GinkgoHelper()
			t, err := time.Parse(time.RFC3339, date)
			Expect(err).NotTo(HaveOccurred())
			return t
		}

		It("cannot be upserted and writes nothing", func() {
			clock = on("2024-04-06T13:00:00+11:00") // clocks are set back by half an hour that night
			before := snapshot(name)
			job, err := queue.UpsertScheduler(ctx, "tick", repeat, nil)
			Expect(job).To(BeNil())
			Expect(err).To(MatchError(bullmq.ErrNoNextRun))
			Expect(err).To(MatchError(And(HavePrefix(`bullmq: scheduler "tick" of queue `+name), ContainSubstring(`"0 12 * * *"`), ContainSubstring(`"Australia/Lord_Howe"`))))
			Expect(snapshot(name)).To(Equal(before))
		})

		It("stops, as in Node, and causes an Error event of the worker", func() {
			clock = on("2024-04-06T10:00:00+11:00")
			upsert(repeat, nil)
			clock = on("2024-04-06T13:00:00+11:00")
			faults := make(chan error, 5)
			runWorker(name, func(context.Context, *bullmq.Job) (any, error) { return nil, nil }, &bullmq.WorkerOptions{
				Now: func() time.Time { return on("2024-04-06T13:00:00+11:00") }, Events: bullmq.WorkerEvents{Error: func(err error) { faults <- err }},
			})
			var fault error
			Eventually(faults).Should(Receive(&fault))
			Expect(fault).To(MatchError(bullmq.ErrNoNextRun))
			Eventually(countOf(queue, bullmq.StateCompleted)).Should(Equal(1))
			Expect(pending()).To(BeEmpty())
		})

		It("cannot be upserted with an EndDate before its next run and stays unchanged", func() {
			upsert(bullmq.Repeat{Every: time.Hour}, nil)
			before := snapshot(name)
			job, err := queue.UpsertScheduler(ctx, "tick", bullmq.Repeat{Pattern: "0 12 1 1 *", TimeZone: "UTC", EndDate: time.UnixMilli(fixedNow + 1000)}, nil)
			Expect(job).To(BeNil())
			Expect(err).To(MatchError(bullmq.ErrNoNextRun))
			Expect(err).To(MatchError(And(HavePrefix(`bullmq: scheduler "tick" of queue `+name), ContainSubstring(`"0 12 1 1 *"`), ContainSubstring("EndDate 2023-11-14"))))
			Expect(snapshot(name)).To(Equal(before))
		})
	})

	It("with an interval stores a record, its next due time and one job with that time in its id", func() {
		job := upsert(bullmq.Repeat{Every: time.Minute, Limit: 9, StartDate: time.UnixMilli(fixedNow + 5000), EndDate: time.UnixMilli(fixedNow + 3600000)},
			&bullmq.JobTemplate{Name: "tock", Data: map[string]int{"a": 1}, Options: &bullmq.JobOptions{Attempts: 2}})
		Expect(job.ID).To(Equal(jobAt(5 * time.Second)))
		Expect(scoresAt(keyOf(name, "repeat"))).To(Equal(map[string]float64{"tick": fixedNow + 5000}))
		Expect(hashAt(keyOf(name, "repeat:tick"))).To(Equal(map[string]string{
			"name": "tock", "data": `{"a":1}`, "opts": `{"attempts":2}`, "every": "60000", "offset": "25000", "limit": "9",
			"startDate": "1700000005000", "endDate": "1700003600000", "ic": "1",
		}))
		Expect(hashAt(job.Key())).To(And(HaveKeyWithValue("rjk", "tick"), HaveKeyWithValue("name", "tock"), HaveKeyWithValue("data", `{"a":1}`),
			HaveKeyWithValue("delay", "5000"), HaveKeyWithValue("opts", MatchJSON(`{
				"attempts":2,"delay":5000,"jobId":"repeat:tick:1700000005000","repeatJobKey":"tick","timestamp":1700000000000,
				"repeat":{"every":60000,"limit":9,"startDate":1700000005000,"endDate":1700003600000,"count":1}}`))))
		Expect(pending()).To(Equal([]string{job.ID}))
	})

	It("with a pattern stores the pattern and its time zone", func() {
		job := upsert(bullmq.Repeat{Pattern: "0 0 * * *", TimeZone: "Asia/Kolkata"}, nil)
		midnight := time.Date(2023, time.November, 15, 18, 30, 0, 0, time.UTC).UnixMilli()
		Expect(job.ID).To(Equal(fmt.Sprint("repeat:tick:", midnight)))
		Expect(scoresAt(keyOf(name, "repeat"))).To(Equal(map[string]float64{"tick": float64(midnight)}))
		Expect(hashAt(keyOf(name, "repeat:tick"))).To(Equal(map[string]string{
			"name": "tick", "pattern": "0 0 * * *", "tz": "Asia/Kolkata", "offset": "0", "ic": "1",
		}))
		scheduler, err := queue.Scheduler(ctx, "tick")
		Expect(err).NotTo(HaveOccurred())
		Expect(*scheduler).To(Equal(bullmq.Scheduler{
			ID: "tick", Name: "tick", Next: time.UnixMilli(midnight), Iterations: 1, HasOffset: true,
			Repeat: bullmq.Repeat{Pattern: "0 0 * * *", TimeZone: "Asia/Kolkata"},
		}))
	})

	It("uses the data and options of its template for every run", func() {
		upsert(bullmq.Repeat{Every: time.Second}, &bullmq.JobTemplate{Data: map[string]any{"a": []int{}}, Options: &bullmq.JobOptions{Attempts: 2}})
		for n := range 5 {
			job := run()
			Expect(job.ID).To(Equal(jobAt(time.Duration(n) * time.Second)))
			Expect(string(job.Data)).To(Equal(`{"a":[]}`))
			Expect(job.Options.Attempts).To(Equal(2))
			Expect(pending()).To(Equal([]string{jobAt(time.Duration(n+1) * time.Second)}))
			clock = clock.Add(time.Second)
		}
	})

	Describe("that is upserted again", func() {
		every := bullmq.Repeat{Every: 3 * time.Second}

		It("without a change keeps its due times and uses the new template", func() {
			upsert(every, nil)
			clock = clock.Add(100 * time.Millisecond)
			Expect(upsert(every, &bullmq.JobTemplate{Data: 1}).ID).To(Equal(jobAt(0)))
			running := takeJob(worker)
			Expect(string(running.Data)).To(Equal("1"))
			clock = clock.Add(100 * time.Millisecond)
			Expect(upsert(every, &bullmq.JobTemplate{Data: 2}).ID).To(Equal(jobAt(3 * time.Second)))
			Expect(pending()).To(Equal([]string{jobAt(3 * time.Second)}))
			clock = time.UnixMilli(fixedNow + 3000)
			Expect(string(run().Data)).To(Equal("2"))
			Expect(queue.CountSchedulers(ctx)).To(BeEquivalentTo(1))
		})

		DescribeTable("removes the old job and follows its new repeat options:", func(repeat bullmq.Repeat, next time.Duration) {
			upsert(every, nil)
			run()
			Expect(pending()).To(Equal([]string{jobAt(3 * time.Second)}))
			clock = clock.Add(300 * time.Millisecond)
			Expect(upsert(repeat, nil).ID).To(Equal(jobAt(next)))
			Expect(pending()).To(Equal([]string{jobAt(next)}))
			Expect(keysOf(name)).NotTo(ContainElement(keyOf(name, jobAt(3*time.Second))))
			Expect(scoresAt(keyOf(name, "repeat"))).To(Equal(map[string]float64{"tick": float64(fixedNow + next.Milliseconds())}))
			scheduler, err := queue.Scheduler(ctx, "tick")
			Expect(err).NotTo(HaveOccurred())
			Expect(scheduler.Repeat.Every).To(Equal(repeat.Every))
			Expect(scheduler.Repeat.Pattern).To(Equal(repeat.Pattern))
		},
			Entry("a longer interval", bullmq.Repeat{Every: 8 * time.Second}, 300*time.Millisecond),
			Entry("a shorter interval", bullmq.Repeat{Every: time.Second}, 300*time.Millisecond),
			Entry("an interval with StartDate", bullmq.Repeat{Every: 8 * time.Second, StartDate: time.UnixMilli(fixedNow + 20000)}, 20*time.Second),
			Entry("a pattern", bullmq.Repeat{Pattern: "*/10 * * * * *", TimeZone: "UTC"}, 10*time.Second),
		)
	})

	// The scenarios of interop/scenarios about promoted jobs compare the same with BullMQ.
	Describe("whose pending job is promoted and started", func() {
		everyMinute := bullmq.Repeat{Pattern: "* * * * *", TimeZone: "UTC"} // the clock is 40 seconds before a minute
		first, second := jobAt(40*time.Second), jobAt(100*time.Second)
		start := func(repeat bullmq.Repeat) *bullmq.Job {
			GinkgoHelper()
			Expect(upsert(repeat, &bullmq.JobTemplate{Data: 1}).Promote(ctx)).To(Succeed())
			return takeJob(worker)
		}

		It("adds the job of the scheduled time after that of the promoted job", func() {
			Expect(start(everyMinute).ID).To(Equal(first))
			Expect(pending()).To(Equal([]string{second}))
		})

		DescribeTable("and that is upserted, overwrites that job, which runs again at its scheduled time:", func(endsFirst bool) {
			running := start(everyMinute)
			if endsFirst {
				endJob(worker, running, "done", nil)
			}
			Expect(upsert(everyMinute, &bullmq.JobTemplate{Data: 2}).ID).To(Equal(first))
			Expect(pending()).To(Equal([]string{first}))
			Expect(hashAt(keyOf(name, first))).To(HaveKeyWithValue("data", "2"))
			if !endsFirst {
				endJob(worker, running, "done", nil)
			}
			Expect(zsetAt(keyOf(name, "completed"))).To(Equal([]string{first}))
			clock = clock.Add(40 * time.Second)
			again := run()
			Expect(again.ID).To(Equal(first))
			Expect(string(again.Data)).To(Equal("2"))
			Expect(pending()).To(Equal([]string{second}))
			Expect(zsetAt(keyOf(name, "completed"))).To(Equal([]string{first}))
		},
			Entry("while it runs", false),
			Entry("after it has completed", true),
		)

		It("and that is upserted, loses the lock of that job if it still runs at its scheduled time", func() {
			running := start(everyMinute)
			upsert(everyMinute, nil)
			clock = clock.Add(40 * time.Second)
			other := newFetcher(name, &bullmq.FetcherOptions{Now: func() time.Time { return clock }, Token: func() string { return "other" }})
			Expect(takeJob(other).ID).To(Equal(first))
			Expect(worker.Complete(ctx, running, nil)).To(MatchError(bullmq.ErrLockMismatch))
		})

		It("and that has no next job, cannot be upserted and stays unchanged", func() {
			once := everyMinute
			once.Limit = 1
			start(once)
			Expect(pending()).To(BeEmpty())
			before := snapshot(name)
			Expect(queue.UpsertScheduler(ctx, "tick", once, nil)).Error().To(MatchError(bullmq.ErrSchedulerIDTaken))
			Expect(snapshot(name)).To(Equal(before))
		})

		It("and that has an interval, replaces only the next job", func() {
			start(bullmq.Repeat{Every: time.Minute, StartDate: time.UnixMilli(fixedNow + 40_000)})
			Expect(upsert(bullmq.Repeat{Every: time.Minute}, &bullmq.JobTemplate{Data: 2}).ID).To(Equal(second))
			Expect(pending()).To(Equal([]string{second}))
			Expect(hashAt(keyOf(name, first))).To(HaveKeyWithValue("data", "1"))
		})
	})

	It("with a pattern and StartDate first runs after StartDate", func() {
		start := time.Date(2031, time.March, 5, 12, 0, 0, 0, time.UTC)
		upsert(bullmq.Repeat{Pattern: "0 0 * * *", TimeZone: "UTC", StartDate: start}, nil)
		first := start.Add(12 * time.Hour)
		Expect(scoresAt(keyOf(name, "repeat"))).To(Equal(map[string]float64{"tick": float64(first.UnixMilli())}))
		clock = first
		run()
		Expect(scoresAt(keyOf(name, "repeat"))).To(Equal(map[string]float64{"tick": float64(first.AddDate(0, 0, 1).UnixMilli())}))
	})

	DescribeTable("accepts patterns as cron-parser does, such as", func(pattern, first string) {
		upsert(bullmq.Repeat{Pattern: pattern, TimeZone: "UTC"}, nil)
		scheduler, err := queue.Scheduler(ctx, "tick")
		Expect(err).NotTo(HaveOccurred())
		Expect(scheduler.Next.UTC().Format(time.DateTime)).To(Equal(first)) // the clock is at 2023-11-14 22:13:20, a Tuesday
	}, EntryDescription("%q, which is first due on %s"),
		Entry(nil, "30 9 * * *", "2023-11-15 09:30:00"),
		Entry(nil, "5 30 9 * * *", "2023-11-15 09:30:05"),
		Entry(nil, "0 0 L * *", "2023-11-30 00:00:00"),
		Entry(nil, "0 0 * * 5L", "2023-11-24 00:00:00"),
		Entry(nil, "0 0 * * 1#2", "2023-12-11 00:00:00"),
		Entry(nil, "0 0 * * 7", "2023-11-19 00:00:00"),
		Entry(nil, "0/15 * * * *", "2023-11-14 22:15:00"),
		Entry(nil, "@daily", "2023-11-15 00:00:00"),
		Entry("13th or Friday", "0 0 13 * 5", "2023-11-17 00:00:00"),
	)

	DescribeTable("remains unchanged if it is upserted with", func(repeat bullmq.Repeat, hint string) {
		upsert(bullmq.Repeat{Every: time.Minute}, nil)
		before := snapshot(name)
		_, err := queue.UpsertScheduler(ctx, "tick", repeat, nil)
		Expect(err).To(MatchError(And(ContainSubstring(`scheduler "tick" of queue `+name+" was not changed"), ContainSubstring(hint))))
		Expect(snapshot(name)).To(Equal(before))
	},
		Entry("a nearest weekday", bullmq.Repeat{Pattern: "0 0 15W * *"}, "day of the month"),
		Entry("a reversed range", bullmq.Repeat{Pattern: "0 22-2 * * *"}, "22-2"),
		Entry("30 February", bullmq.Repeat{Pattern: "0 0 30 2 *"}, "no such day"),
		Entry("minute 61", bullmq.Repeat{Pattern: "61 * * * *"}, "61"),
		Entry("an unknown time zone", bullmq.Repeat{Pattern: "* * * * *", TimeZone: "Mars/Olympus"}, "Mars/Olympus"),
		Entry("both an interval and a pattern", bullmq.Repeat{Pattern: "* * * * *", Every: time.Second}, "choose one"),
		Entry("neither an interval nor a pattern", bullmq.Repeat{}, "Pattern"),
		Entry("an interval of nanoseconds", bullmq.Repeat{Every: 500}, "Every of at least a millisecond, not 500ns"),
		Entry("an EndDate in the past", bullmq.Repeat{Every: time.Second, EndDate: time.UnixMilli(fixedNow - 1)}, "EndDate"),
	)

	It("that is removed keeps its running job and adds no further job", func() {
		upsert(bullmq.Repeat{Every: time.Second}, nil)
		job := takeJob(worker)
		Expect(queue.RemoveScheduler(ctx, "tick")).To(Succeed())
		Expect(queue.RemoveScheduler(ctx, "tick")).To(MatchError(bullmq.ErrSchedulerNotFound))
		Expect(queue.Scheduler(ctx, "tick")).Error().To(MatchError(bullmq.ErrSchedulerNotFound))
		Expect(pending()).To(BeEmpty())
		endJob(worker, job, nil, errors.New("boom"))
		Expect(queue.Schedulers(ctx, bullmq.AllEntries())).To(BeEmpty())
		Expect(keysOf(name)).NotTo(ContainElement(keyOf(name, "repeat:tick")))
	})

	DescribeTable("of BullMQ 4 is left unchanged and reported as an error", func(entry string) {
		job := upsert(bullmq.Repeat{Every: time.Minute}, nil)
		redisDo("DEL", keyOf(name, "repeat"), keyOf(name, "repeat:tick"))
		redisDo("ZADD", keyOf(name, "repeat"), "1700000000000", entry)
		redisDo("HSET", job.Key(), "rjk", entry)
		faults := make(chan error, 5)
		runWorker(name, doNothing, &bullmq.WorkerOptions{Events: bullmq.WorkerEvents{Error: func(err error) { faults <- err }}})
		Eventually(stateOf(queue, job.ID)).Should(Equal(bullmq.StateCompleted))
		Eventually(faults).Should(Receive(MatchError(And(ContainSubstring(entry), ContainSubstring("BullMQ 4 or older"), ContainSubstring("upsert a scheduler")))))
		Expect(zsetAt(keyOf(name, "repeat"))).To(Equal([]string{entry}))
		Expect(pending()).To(BeEmpty())
		_, err := queue.Schedulers(ctx, bullmq.AllEntries())
		Expect(err).To(MatchError(ContainSubstring(entry)))
		Expect(zsetAt(keyOf(name, "repeat"))).To(Equal([]string{entry}))
	},
		Entry("with a pattern", "paint:wall:::0 0 * * *"), Entry("with an interval", "paint::1800000000000:Europe/Berlin:60000"),
	)

	It("of a BullMQ 5 repeatable job continues with the data of the previous job", func() {
		upsert(bullmq.Repeat{Every: time.Second}, &bullmq.JobTemplate{Name: "paint", Data: map[string]int{"a": 1}})
		redisDo("HDEL", keyOf(name, "repeat:tick"), "data", "opts", "ic")
		for n := range 3 {
			Expect(run().Data).To(Equal(json.RawMessage(`{"a":1}`)), "run %d", n)
			clock = clock.Add(time.Second)
		}
		Expect(zsetAt(keyOf(name, "repeat"))).To(Equal([]string{"tick"}))
	})
})
