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

var _ = Describe("A job that is read", func() {
	read := func(fields ...string) *bullmq.Job {
		GinkgoHelper()
		name := newQueueName()
		Expect(redisDo(append([]string{"HSET", keyOf(name, "7")}, fields...)...).Error()).To(Succeed())
		job, err := newQueue(name, nil).Job(specContext(), "7")
		Expect(err).NotTo(HaveOccurred())
		return job
	}

	It("has every field of its hash in Go's types", func() {
		job := read("name", "paint", "data", `{"n":1}`, "opts", `{"attempts":3,"kl":5}`, "timestamp", "1700000000000", "delay", "1500",
			"priority", "9", "atm", "2", "ats", "4", "stc", "1", "processedOn", "1700000000001", "finishedOn", "1700000000002",
			"pb", "blue", "progress", "50", "returnvalue", `{"ok":true}`, "failedReason", "boom", "stacktrace", `["one","two"]`,
			"parentKey", "bull:walls:1", "parent", `{"id":"1","queueKey":"bull:walls"}`, "rjk", "daily", "deid", "d", "defa", "a child failed")
		Expect(job.ID).To(Equal("7"))
		Expect(job.Name).To(Equal("paint"))
		Expect(job.Data).To(MatchJSON(`{"n":1}`))
		Expect(job.Options).To(Equal(bullmq.JobOptions{Attempts: 3, KeepLogs: 5}))
		Expect(string(job.RawOptions)).To(Equal(`{"attempts":3,"kl":5}`))
		Expect(job.Timestamp).To(BeTemporally("==", time.UnixMilli(fixedNow)))
		Expect(job.Delay).To(Equal(1500 * time.Millisecond))
		Expect(job.Priority).To(Equal(9))
		Expect([]int{job.AttemptsMade, job.AttemptsStarted, job.StalledCounter}).To(Equal([]int{2, 4, 1}))
		Expect(job.ProcessedOn).To(BeTemporally("==", time.UnixMilli(fixedNow+1)))
		Expect(job.FinishedOn).To(BeTemporally("==", time.UnixMilli(fixedNow+2)))
		Expect(job.ProcessedBy).To(Equal("blue"))
		Expect(job.Progress).To(MatchJSON(`50`))
		Expect(job.ReturnValue).To(MatchJSON(`{"ok":true}`))
		Expect(job.FailedReason).To(Equal("boom"))
		Expect(job.StackTrace).To(Equal([]string{"one", "two"}))
		Expect(job.ParentKey).To(Equal("bull:walls:1"))
		Expect(job.RawParent).To(MatchJSON(`{"id":"1","queueKey":"bull:walls"}`))
		Expect(job.SchedulerID).To(Equal("daily"))
		Expect(job.DeduplicationID).To(Equal("d"))
		Expect(job.DeferredFailure).To(Equal("a child failed"))
	})

	It("has zero values for missing fields", func() {
		job := read("name", "paint")
		Expect(string(job.Data)).To(Equal(`{}`))
		Expect(job.Progress).To(BeNil())
		Expect(job.ReturnValue).To(BeNil())
		Expect(job.StackTrace).To(BeNil())
		Expect(job.Options).To(Equal(bullmq.JobOptions{}))
		Expect(job.ProcessedOn.IsZero()).To(BeTrue())
		Expect(job.FinishedOn.IsZero()).To(BeTrue())
	})

	It("has no progress if the field is empty", func() {
		Expect(read("name", "paint", "progress", "").Progress).To(BeNil())
	})

	It("reads attempts under the name of older versions", func() {
		Expect(read("name", "paint", "attemptsMade", "3").AttemptsMade).To(Equal(3))
	})

	It("reads times with fractions, as other clients may write them", func() {
		job := read("name", "paint", "timestamp", "1700000000000.5", "delay", "1000.7")
		Expect(job.Timestamp).To(BeTemporally("==", time.UnixMilli(fixedNow)))
		Expect(job.Delay).To(Equal(1000700 * time.Microsecond))
	})

	It("omits fields that cannot be parsed", func() {
		job := read("name", "paint", "opts", `{"att`, "progress", "half", "returnvalue", "plain text", "stacktrace", "Error: x",
			"timestamp", "soon", "priority", "high", "atm", "")
		Expect(job.Options).To(Equal(bullmq.JobOptions{}))
		Expect(job.Progress).To(BeNil())
		Expect(job.ReturnValue).To(BeNil())
		Expect(job.StackTrace).To(BeNil())
		Expect(job.Timestamp.IsZero()).To(BeTrue())
		Expect(job.Priority).To(BeZero())
		Expect(job.AttemptsMade).To(BeZero())
	})

	It("keeps its data byte for byte", func() {
		data := "{ \"html\" : \"<&>\", \"sep\":\"\u2028\", \"n\": 1.0e2 , \"big\":9007199254740993 }"
		Expect(string(read("name", "paint", "data", data).Data)).To(Equal(data))
	})
})

var _ = Describe("Job.Decode", func() {
	add := func(data string) *bullmq.Job {
		GinkgoHelper()
		job, err := newQueue(newQueueName(), nil).Add(specContext(), "paint", rawJSON(data), nil)
		Expect(err).NotTo(HaveOccurred())
		return job
	}

	It("decodes data into the caller's type with exact integers", func() {
		var target struct {
			ID  int64
			Any any
		}
		Expect(add(`{"ID":9007199254740993,"Any":12345678901234567890}`).Decode(&target)).To(Succeed())
		Expect(target.ID).To(Equal(int64(9007199254740993)))
		Expect(target.Any).To(Equal(json.Number("12345678901234567890")))
	})

	It("returns an error that names job, queue and type if the data does not fit", func() {
		var target struct{ Colour int }
		job := add(`{"Colour":"red"}`)
		Expect(job.Decode(&target)).To(MatchError(And(ContainSubstring("job 1 (paint)"), ContainSubstring(job.QueueName()),
			ContainSubstring("struct { Colour int }"), ContainSubstring("Colour"))))
	})
})

var _ = Describe("A job in Redis", func() {
	var (
		name  string
		queue *bullmq.Queue
		ctx   context.Context
	)
	BeforeEach(func() {
		name, ctx = newQueueName(), specContext()
		queue = newQueue(name, &bullmq.QueueOptions{Now: fixedClock(fixedNow)})
	})
	add := func(options *bullmq.JobOptions) *bullmq.Job {
		GinkgoHelper()
		job, err := queue.Add(ctx, "paint", nil, options)
		Expect(err).NotTo(HaveOccurred())
		return job
	}
	lastEvent := func() string {
		GinkgoHelper()
		all := eventsOf(name)
		return all[len(all)-1]
	}

	It("that does not exist stays as it is and returns ErrJobNotFound from every change", func() {
		before := snapshot(name)
		handle := queue.JobRef("gone")
		_, logErr := handle.Log(ctx, "row")
		_, byIDErr := queue.AddJobLog(ctx, "gone", "row", nil)
		for i, err := range []error{
			handle.UpdateProgress(ctx, 1), handle.UpdateData(ctx, 1), handle.ChangeDelay(ctx, time.Second),
			handle.ChangePriority(ctx, 1, nil), handle.Retry(ctx, bullmq.StateFailed, nil), handle.WithToken("t").MoveToWait(ctx),
			handle.WithToken("t").MoveToDelayed(ctx, time.UnixMilli(fixedNow)), logErr, byIDErr,
		} {
			Expect(err).To(MatchError(bullmq.ErrJobNotFound), fmt.Sprint("call ", i))
			var refusal *bullmq.Error
			Expect(errors.As(err, &refusal)).To(BeTrue())
			Expect(refusal.JobID).To(Equal("gone"))
			Expect(refusal.QueueName).To(Equal(name))
			Expect(refusal.QueueKey).To(Equal("bull:" + name))
			Expect(err).To(MatchError(And(ContainSubstring("job gone of "+name), ContainSubstring("(code -1)"))))
		}
		Expect(handle.Promote(ctx)).To(MatchError(bullmq.ErrNotInState))
		Expect(handle.State(ctx)).Error().To(MatchError(bullmq.ErrJobNotFound))
		Expect(snapshot(name)).To(Equal(before))
	})

	Describe("and its progress", func() {
		DescribeTable("are stored as JSON of any type in the hash and the event:", func(progress any, want string) {
			job := add(nil)
			Expect(job.UpdateProgress(ctx, progress)).To(Succeed())
			Expect(string(job.Progress)).To(Equal(want))
			Expect(hashAt(job.Key())).To(HaveKeyWithValue("progress", want))
			Expect(lastEvent()).To(Equal("progress jobId=1 data=" + want))
		},
			Entry("a number", 50, `50`),
			Entry("a string", "half", `"half"`),
			Entry("true", true, `true`),
			Entry("an object", map[string]int{"a": 1}, `{"a":1}`),
			Entry("null", nil, `null`),
			Entry("HTML", "<b>", `"<b>"`),
		)

		It("can be updated by id", func() {
			Expect(queue.UpdateJobProgress(ctx, add(nil).ID, 50)).To(Succeed())
			Expect(lastEvent()).To(Equal("progress jobId=1 data=50"))
			Expect(queue.UpdateJobProgress(ctx, "gone", 50)).To(MatchError(bullmq.ErrJobNotFound))
		})

		It("are refused, and nothing is written, if JSON cannot represent the value", func() {
			job := add(nil)
			before := snapshot(name)
			Expect(job.UpdateProgress(ctx, func() {})).To(MatchError(ContainSubstring("progress of job 1")))
			Expect(snapshot(name)).To(Equal(before))
		})

		It("can be updated from many goroutines together with logs", func() {
			job := add(nil)
			errs := make(chan error)
			for n := range 10 {
				go func() {
					_, err := job.Log(ctx, "row")
					errs <- errors.Join(err, job.UpdateProgress(ctx, n))
				}()
			}
			for range 10 {
				Expect(<-errs).To(Succeed())
			}
			_, count, err := queue.JobLogs(ctx, "1", bullmq.Page{Limit: -1, Ascending: true})
			Expect(err).NotTo(HaveOccurred())
			Expect(count).To(Equal(10))
		})
	})

	Describe("and its data", func() {
		It("are replaced without an event", func() {
			job, count := add(nil), len(eventsOf(name))
			Expect(job.UpdateData(ctx, map[string]string{"colour": "<blue>"})).To(Succeed())
			Expect(string(job.Data)).To(Equal(`{"colour":"<blue>"}`))
			Expect(hashAt(job.Key())).To(HaveKeyWithValue("data", `{"colour":"<blue>"}`))
			Expect(eventsOf(name)).To(HaveLen(count))
		})

		It("are refused, and nothing is written, if JSON cannot represent them", func() {
			job := add(nil)
			before := snapshot(name)
			Expect(job.UpdateData(ctx, make(chan int))).To(MatchError(ContainSubstring("data of job 1")))
			Expect(snapshot(name)).To(Equal(before))
		})
	})

	Describe("and its log", func() {
		It("are counted in rows and read in pages from either end", func() {
			job := add(nil)
			for n := range 5 {
				Expect(job.Log(ctx, fmt.Sprint("row ", n))).To(Equal(n + 1))
			}
			rows := func(page bullmq.Page) []string {
				GinkgoHelper()
				rows, count, err := queue.JobLogs(ctx, "1", page)
				Expect(err).NotTo(HaveOccurred())
				Expect(count).To(Equal(5))
				return rows
			}
			Expect(rows(bullmq.AllEntries())).To(Equal([]string{"row 0", "row 1", "row 2", "row 3", "row 4"}))
			Expect(rows(bullmq.Page{Offset: 1, Limit: 2, Ascending: true})).To(Equal([]string{"row 1", "row 2"}))
			Expect(rows(bullmq.Page{})).To(Equal([]string{"row 4", "row 3", "row 2", "row 1", "row 0"}))
			Expect(rows(bullmq.Page{Limit: 2})).To(Equal([]string{"row 4", "row 3"}))
			Expect(rows(bullmq.Page{Offset: 7, Limit: 3, Ascending: true})).To(BeEmpty())
		})

		It("are limited to the newest rows by the job's options", func() {
			job := add(&bullmq.JobOptions{KeepLogs: 2})
			Expect(job.Log(ctx, "a")).To(Equal(1))
			Expect(job.Log(ctx, "b")).To(Equal(2))
			Expect(job.Log(ctx, "c")).To(Equal(2))
			Expect(listAt(job.Key() + ":logs")).To(Equal([]string{"b", "c"}))
		})

		It("are written by id, limited by the caller", func() {
			add(nil)
			for _, row := range []string{"a", "b", "c"} {
				_, err := queue.AddJobLog(ctx, "1", row, &bullmq.LogOptions{Keep: 1})
				Expect(err).NotTo(HaveOccurred())
			}
			Expect(listAt(keyOf(name, "1:logs"))).To(Equal([]string{"c"}))
		})

		It("are cleared in part or as a whole", func() {
			job := add(nil)
			for _, row := range []string{"a", "b", "c"} {
				_, err := job.Log(ctx, row)
				Expect(err).NotTo(HaveOccurred())
			}
			Expect(job.ClearLogs(ctx, &bullmq.ClearLogsOptions{Keep: 2})).To(Succeed())
			Expect(listAt(job.Key() + ":logs")).To(Equal([]string{"b", "c"}))
			Expect(job.ClearLogs(ctx, nil)).To(Succeed())
			Expect(keysOf(name)).NotTo(ContainElement(job.Key() + ":logs"))
		})
	})

	Describe("that is delayed", func() {
		It("gets a new delay, counted from now, and keeps its options", func() {
			job := add(&bullmq.JobOptions{Delay: time.Minute})
			Expect(job.ChangeDelay(ctx, 5*time.Second)).To(Succeed())
			Expect(job.Delay).To(Equal(5 * time.Second))
			Expect(hashAt(job.Key())).To(And(HaveKeyWithValue("delay", "5000"), HaveKeyWithValue("opts", MatchJSON(`{"attempts":0,"delay":60000}`))))
			Expect(scoresAt(keyOf(name, "delayed"))).To(Equal(map[string]float64{"1": (fixedNow + 5000) * 4096}))
			Expect(scoresAt(keyOf(name, "marker"))).To(Equal(map[string]float64{"1": fixedNow + 5000}))
			Expect(lastEvent()).To(Equal("delayed jobId=1 delay=1700000005000"))
		})

		It("starts at its new time in an idle worker", func() {
			clocked := newQueue(name, nil)
			started := make(chan time.Time, 1)
			runWorker(name, func(context.Context, *bullmq.Job) (any, error) { started <- time.Now(); return nil, nil }, nil)
			job, err := clocked.Add(ctx, "paint", nil, &bullmq.JobOptions{Delay: time.Minute})
			Expect(err).NotTo(HaveOccurred())
			before := time.Now().Truncate(time.Millisecond)
			Expect(job.ChangeDelay(ctx, 100*time.Millisecond)).To(Succeed())
			var at time.Time
			Eventually(started).Should(Receive(&at))
			Expect(at).To(BeTemporally(">=", before.Add(100*time.Millisecond)))
		})

		It("becomes ready at once when promoted", func() {
			job := add(&bullmq.JobOptions{Delay: time.Minute})
			Expect(job.Promote(ctx)).To(Succeed())
			Expect(job.Delay).To(BeZero())
			Expect(job.State(ctx)).To(Equal(bullmq.StateWaiting))
			Expect(hashAt(job.Key())).To(HaveKeyWithValue("delay", "0"))
			Expect(scoresAt(keyOf(name, "marker"))).To(HaveKey("0"))
			Expect(lastEvent()).To(Equal("waiting jobId=1 prev=delayed"))
		})

		It("keeps its priority when promoted", func() {
			job := add(&bullmq.JobOptions{Delay: time.Minute, Priority: 4})
			Expect(job.Promote(ctx)).To(Succeed())
			Expect(scoresAt(keyOf(name, "prioritized"))).To(Equal(map[string]float64{"1": 4<<32 + 1}))
		})
	})

	It("is the only kind that can be promoted or given a delay", func() {
		job := add(nil)
		before := snapshot(name)
		Expect(job.Promote(ctx)).To(MatchError(bullmq.ErrNotInState))
		Expect(job.ChangeDelay(ctx, time.Second)).To(MatchError(bullmq.ErrNotInState))
		Expect(snapshot(name)).To(Equal(before))
	})

	Describe("with a changed priority", func() {
		It("moves from its place in line to that of the priority, and back", func() {
			first, second := add(nil), add(nil)
			Expect(first.ChangePriority(ctx, 5, nil)).To(Succeed())
			Expect(first.Priority).To(Equal(5))
			Expect(listAt(keyOf(name, "wait"))).To(Equal([]string{second.ID}))
			Expect(scoresAt(keyOf(name, "prioritized"))).To(Equal(map[string]float64{"1": 5<<32 + 1}))
			Expect(hashAt(first.Key())).To(HaveKeyWithValue("priority", "5"))

			Expect(first.ChangePriority(ctx, 0, nil)).To(Succeed())
			Expect(listAt(keyOf(name, "wait"))).To(Equal([]string{first.ID, second.ID}), "last in line")
			Expect(zsetAt(keyOf(name, "prioritized"))).To(BeEmpty())
		})

		It("comes first within that priority with lifo", func() {
			add(&bullmq.JobOptions{Priority: 5})
			second := add(nil)
			Expect(second.ChangePriority(ctx, 5, &bullmq.ChangePriorityOptions{LIFO: true})).To(Succeed())
			Expect(zsetAt(keyOf(name, "prioritized"))).To(Equal([]string{"2", "1"}))
			Expect(second.ChangePriority(ctx, 0, &bullmq.ChangePriorityOptions{LIFO: true})).To(Succeed())
			add(nil)
			Expect(listAt(keyOf(name, "wait"))).To(Equal([]string{"3", "2"}), "next to run is last in the list")
		})

		It("keeps it while it is delayed", func() {
			job := add(&bullmq.JobOptions{Delay: time.Minute})
			Expect(job.ChangePriority(ctx, 7, nil)).To(Succeed())
			Expect(hashAt(job.Key())).To(HaveKeyWithValue("priority", "7"))
			Expect(job.State(ctx)).To(Equal(bullmq.StateDelayed))
		})

		It("is refused, and nothing is written, if the priority is above the highest", func() {
			job := add(nil)
			before := snapshot(name)
			Expect(job.ChangePriority(ctx, 2097152, nil)).To(MatchError(ContainSubstring("2097151")))
			Expect(snapshot(name)).To(Equal(before))
		})
	})

	Describe("that is retried after it has finished", func() {
		run := func(options *bullmq.JobOptions, reason error) *bullmq.Job {
			GinkgoHelper()
			add(options)
			fetcher := newFetcher(name, &bullmq.FetcherOptions{Now: fixedClock(fixedNow)})
			taken := takeJob(fetcher)
			endJob(fetcher, taken, "done", reason)
			job, err := queue.Job(ctx, taken.ID)
			Expect(err).NotTo(HaveOccurred())
			return job
		}

		It("runs again after a failure, without the old result", func() {
			job := run(nil, errors.New("boom"))
			Expect(job.FailedReason).To(Equal("boom"))
			Expect(job.Retry(ctx, bullmq.StateFailed, nil)).To(Succeed())
			Expect(job.FailedReason).To(BeEmpty())
			Expect(job.State(ctx)).To(Equal(bullmq.StateWaiting))
			Expect(hashAt(job.Key())).To(And(Not(HaveKey("failedReason")), Not(HaveKey("finishedOn")), Not(HaveKey("processedOn")), HaveKeyWithValue("atm", "1")))
			Expect(scoresAt(keyOf(name, "marker"))).To(HaveKey("0"))
			Expect(lastEvent()).To(Equal("waiting jobId=1 prev=failed"))
		})

		It("runs again after a success", func() {
			job := run(nil, nil)
			Expect(job.ReturnValue).To(MatchJSON(`"done"`))
			Expect(job.Retry(ctx, bullmq.StateCompleted, nil)).To(Succeed())
			Expect(job.ReturnValue).To(BeNil())
			Expect(hashAt(job.Key())).NotTo(HaveKey("returnvalue"))
			Expect(lastEvent()).To(Equal("waiting jobId=1 prev=completed"))
		})

		It("resets its attempts and starts on request", func() {
			job := run(nil, errors.New("boom"))
			Expect(job.Retry(ctx, bullmq.StateFailed, &bullmq.RetryOptions{ResetAttemptsMade: true, ResetAttemptsStarted: true})).To(Succeed())
			Expect([]int{job.AttemptsMade, job.AttemptsStarted}).To(Equal([]int{0, 0}))
			Expect(hashAt(job.Key())).To(And(Not(HaveKey("atm")), Not(HaveKey("ats"))))
		})

		It("resets only what is requested", func() {
			job := run(nil, errors.New("boom"))
			Expect(job.Retry(ctx, bullmq.StateFailed, &bullmq.RetryOptions{ResetAttemptsStarted: true})).To(Succeed())
			Expect(hashAt(job.Key())).To(And(HaveKeyWithValue("atm", "1"), Not(HaveKey("ats"))))
			again := run(&bullmq.JobOptions{LIFO: true}, errors.New("boom"))
			Expect(again.Retry(ctx, bullmq.StateFailed, &bullmq.RetryOptions{ResetAttemptsMade: true})).To(Succeed())
			Expect(hashAt(again.Key())).To(And(HaveKeyWithValue("ats", "1"), Not(HaveKey("atm"))))
		})

		It("keeps its priority", func() {
			Expect(run(&bullmq.JobOptions{Priority: 3}, errors.New("boom")).Retry(ctx, bullmq.StateFailed, nil)).To(Succeed())
			Expect(zsetAt(keyOf(name, "prioritized"))).To(Equal([]string{"1"}))
		})

		It("keeps its options byte for byte, including those of newer clients", func() {
			job := run(nil, errors.New("boom"))
			opts := `{"foo":1,"kl":5,"attempts":1,"nested":{"b":1,"a":[ ]}}`
			redisDo("HSET", job.Key(), "opts", opts)
			again, err := queue.Job(ctx, job.ID)
			Expect(err).NotTo(HaveOccurred())
			Expect(again.Options.Extra).To(HaveKey("foo"))
			Expect(again.Retry(ctx, bullmq.StateFailed, nil)).To(Succeed())
			Expect(hashAt(job.Key())).To(HaveKeyWithValue("opts", opts))
		})

		It("is refused if it is not in the given state", func() {
			job := run(nil, errors.New("boom"))
			before := snapshot(name)
			Expect(job.Retry(ctx, bullmq.StateCompleted, nil)).To(MatchError(bullmq.ErrNotInState))
			Expect(job.Retry(ctx, bullmq.StateWaiting, nil)).To(MatchError(ContainSubstring(`not from "waiting"`)))
			Expect(snapshot(name)).To(Equal(before))
		})
	})

	It("keeps the reason of its last failure while it is retried and when it succeeds", func() {
		job := add(&bullmq.JobOptions{Attempts: 2})
		fetcher := newFetcher(name, nil)
		endJob(fetcher, takeJob(fetcher), nil, errors.New("boom"))
		running := takeJob(fetcher)
		Expect(running.FailedReason).To(Equal("boom"))
		endJob(fetcher, running, "done", nil)
		read, err := queue.Job(ctx, job.ID)
		Expect(err).NotTo(HaveOccurred())
		Expect(read.FailedReason).To(Equal("boom"))
		Expect(read.State(ctx)).To(Equal(bullmq.StateCompleted))
	})

	Describe("retried after its attempts are used up", func() {
		It("runs once more, or as often as at first if its attempts are reset", func() {
			runs := 0
			fetcher := newFetcher(name, nil)
			exhaust := func() {
				GinkgoHelper()
				for job := takeJob(fetcher); job != nil; job = takeJob(fetcher) {
					runs++
					endJob(fetcher, job, nil, errors.New("boom"))
				}
			}
			job := add(&bullmq.JobOptions{Attempts: 2})
			exhaust()
			Expect(runs).To(Equal(2))
			Expect(hashAt(job.Key())).To(HaveKeyWithValue("atm", "2"))
			Expect(job.Retry(ctx, bullmq.StateFailed, nil)).To(Succeed())
			exhaust()
			Expect(runs).To(Equal(3))
			Expect(hashAt(job.Key())).To(HaveKeyWithValue("atm", "3"))
			Expect(job.Retry(ctx, bullmq.StateFailed, &bullmq.RetryOptions{ResetAttemptsMade: true})).To(Succeed())
			exhaust()
			Expect(runs).To(Equal(5))
			Expect(hashAt(job.Key())).To(HaveKeyWithValue("atm", "2"))
		})
	})
})
