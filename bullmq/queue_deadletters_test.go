package bullmq_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("Failed jobs", func() {
	var queue, dead *bullmq.Queue
	var ctx context.Context
	BeforeEach(func() {
		ctx = specContext()
		name := newQueueName()
		queue, dead = newQueue(name, nil), newQueue(name+".dead", nil)
	})

	// fail adds a job and fails it. The queue must have no other job.
	fail := func(queue *bullmq.Queue, data any, options *bullmq.JobOptions, reason string) *bullmq.Job {
		GinkgoHelper()
		job, err := queue.Add(ctx, "mail", data, options)
		Expect(err).NotTo(HaveOccurred())
		fetcher := newFetcher(queue.Name(), nil)
		endJob(fetcher, takeJob(fetcher), nil, bullmq.Unrecoverable(errors.New(reason)))
		return job
	}
	// move moves the failed jobs of the queue.
	move := func() []string {
		GinkgoHelper()
		ids, err := queue.MoveFailed(ctx, dead.Name(), nil)
		Expect(err).NotTo(HaveOccurred())
		return ids
	}
	moveOne := func() *bullmq.Job {
		GinkgoHelper()
		ids := move()
		Expect(ids).To(HaveLen(1))
		letter, err := dead.Job(ctx, ids[0])
		Expect(err).NotTo(HaveOccurred())
		return letter
	}
	It("count the attempts that older software made in their dead letters", func() {
		fail(queue, nil, &bullmq.JobOptions{JobID: "a"}, "no")
		Expect(redisDo("HSET", keyOf(queue.Name(), "a"), "attemptsMade", "2").Error()).To(Succeed())
		was, _ := moveOne().DeadLetter()
		Expect(was.AttemptsMade).To(Equal(3))
	})

	It("become dead letters: waiting jobs of another queue that say what they were", func() {
		options := &bullmq.JobOptions{JobID: "a", Attempts: 3, Priority: 7, KeepCompleted: bullmq.KeepNone(), Backoff: bullmq.FixedBackoff(time.Minute)}
		job := fail(queue, json.RawMessage(`{"to":"a/b <c>","n":12345678901234567890}`), options, `no "such" <address>/x`)
		failedAt := hashAt(keyOf(queue.Name(), "a"))["finishedOn"]
		letter := moveOne()
		Expect(letter.ID).To(Equal(queue.Name() + "-a"))
		Expect(letter.Name).To(Equal("mail"))
		Expect(string(letter.Data)).To(Equal(`{"to":"a/b <c>","n":12345678901234567890}`))
		Expect(string(letter.RawOptions)).To(Equal(`{"attempts":0,"deadLetter":{"queue":"bull:` + queue.Name() +
			`","id":"a","reason":"no \"such\" <address>/x","attemptsMade":1,"failedAt":` + failedAt + `}}`))
		Expect(letter.FailedReason).To(Equal(`no "such" <address>/x`))
		Expect(letter.StackTrace).NotTo(BeEmpty())
		Expect(letter.AttemptsMade).To(BeZero())
		was, isLetter := letter.DeadLetter()
		Expect(isLetter).To(BeTrue())
		Expect(strconv.FormatInt(was.FailedAt.UnixMilli(), 10)).To(Equal(failedAt))
		was.FailedAt = time.Time{}
		Expect(was).To(Equal(bullmq.DeadLetter{
			QueueName: queue.Name(), QueueKey: "bull:" + queue.Name(), JobID: "a", Name: "mail", Reason: `no "such" <address>/x`, AttemptsMade: 1,
			Letter: letter,
		}))
		_, isLetter = job.DeadLetter()
		Expect(isLetter).To(BeFalse())
		Expect(listAt(keyOf(dead.Name(), "wait"))).To(Equal([]string{letter.ID}))
		Expect(zsetAt(keyOf(dead.Name(), "marker"))).To(Equal([]string{"0"}))
		Expect(eventsOf(dead.Name())).To(Equal([]string{"added jobId=" + letter.ID + " name=mail", "waiting jobId=" + letter.ID}))
		Expect(eventsOf(queue.Name())).To(ContainElement("removed jobId=a prev=failed"))
		_, err := queue.Job(ctx, "a")
		Expect(err).To(MatchError(bullmq.ErrJobNotFound))
		Expect(countOf(queue, bullmq.StateFailed)()).To(BeZero())
	})

	It("stay as they are if the user may not rename keys", func() {
		job := fail(queue, nil, nil, "no")
		Expect(job.Log(ctx, "a line")).To(Equal(1))
		limited := newQueue(queue.Name(), &bullmq.QueueOptions{Connection: restricted("~bull:* +@all -rename")})
		_, err := limited.MoveFailed(ctx, dead.Name(), nil)
		Expect(err).To(Satisfy(isDenied))
		Expect(job.State(ctx)).To(Equal(bullmq.StateFailed))
		letter := moveOne()
		_, err = newQueue(dead.Name(), &bullmq.QueueOptions{Connection: restricted("~bull:* +@all -rename")}).ReplayDeadLetter(ctx, letter.ID)
		Expect(err).To(Satisfy(isDenied))
		Expect(letter.State(ctx)).To(Equal(bullmq.StateWaiting))
	})

	It("are moved up to a limit, the oldest first", func() {
		var ids []string
		for i := range 5 {
			id := fmt.Sprint("job-", i)
			fail(queue, nil, &bullmq.JobOptions{JobID: id}, "no")
			redisDo("ZADD", keyOf(queue.Name(), "failed"), strconv.Itoa(1000+i), id)
			ids = append(ids, id)
		}
		moved, err := queue.MoveFailed(ctx, dead.Name(), &bullmq.MoveFailedOptions{Limit: 2})
		Expect(err).NotTo(HaveOccurred())
		Expect(moved).To(Equal([]string{queue.Name() + "-" + ids[0], queue.Name() + "-" + ids[1]}))
		Expect(zsetAt(keyOf(queue.Name(), "failed"))).To(Equal(ids[2:]))
		Expect(move()).To(HaveLen(3))
		Expect(move()).To(BeEmpty())
	})

	It("with ids of the form a:b:c become dead letters without colons in their ids", func() {
		fail(queue, nil, &bullmq.JobOptions{JobID: "a:b:c"}, "no")
		letter := moveOne()
		Expect(letter.ID).To(Equal(queue.Name() + "-a_b_c"))
		job, err := dead.ReplayDeadLetter(ctx, letter.ID)
		Expect(err).NotTo(HaveOccurred())
		Expect(job.ID).To(Equal("a:b:c"))
		Expect(job.State(ctx)).To(Equal(bullmq.StateWaiting))
	})

	It("get another id as a dead letter if theirs is taken", func() {
		fail(queue, nil, &bullmq.JobOptions{JobID: "a"}, "no")
		taken := queue.Name() + "-a"
		_, err := dead.Add(ctx, "other", nil, &bullmq.JobOptions{JobID: taken})
		Expect(err).NotTo(HaveOccurred())
		Expect(move()).To(Equal([]string{taken + "-2"}))
	})

	It("are left alone if they have no name, and dropped from the state failed if they have no hash", func() {
		meta := hashAt(keyOf(queue.Name(), "meta"))
		redisDo("ZADD", keyOf(queue.Name(), "failed"), "1", "gone", "2", "meta")
		fail(queue, nil, &bullmq.JobOptions{JobID: "a"}, "no")
		Expect(move()).To(HaveLen(1))
		Expect(zsetAt(keyOf(queue.Name(), "failed"))).To(Equal([]string{"meta"}))
		Expect(hashAt(keyOf(queue.Name(), "meta"))).To(Equal(meta))
	})

	Describe("that were cancelled", func() {
		// cancelled adds a job, cancels it, and fails it as a worker does.
		cancelled := func(id, reason string) {
			GinkgoHelper()
			_, err := queue.Add(ctx, "mail", nil, &bullmq.JobOptions{JobID: id})
			Expect(err).NotTo(HaveOccurred())
			Expect(queue.Cancel(ctx, id, reason)).To(Equal(bullmq.CancelQueued))
			fetcher := newFetcher(queue.Name(), nil)
			job := takeJob(fetcher)
			endJob(fetcher, job, nil, bullmq.Unrecoverable(errors.New(job.DeferredFailure)))
		}

		It("stay failed, and do not keep others from being moved", func() {
			for i := range 120 {
				cancelled(fmt.Sprint("void-", i), "")
			}
			fail(queue, nil, nil, "cancelled")
			was, _ := moveOne().DeadLetter()
			Expect(was).To(And(HaveField("Reason", "cancelled"), HaveField("Cancelled", false)), "by its text alone no job is cancelled")
			Expect(countOf(queue, bullmq.StateFailed)()).To(Equal(120))
		})

		It("are moved with IncludeCancelled, and their letters say that they were", func() {
			cancelled("a", "the order is void")
			Expect(queue.MoveFailed(ctx, dead.Name(), &bullmq.MoveFailedOptions{IncludeCancelled: true})).To(HaveLen(1))
			letter, err := dead.DeadLetter(ctx, queue.Name(), "a")
			Expect(err).NotTo(HaveOccurred())
			Expect(letter).To(And(HaveField("Reason", "cancelled: the order is void"), HaveField("Cancelled", true)))
			job, err := dead.ReplayDeadLetter(ctx, letter.Letter.ID)
			Expect(err).NotTo(HaveOccurred())
			Expect(hashAt(job.Key())).NotTo(HaveKey("cancelled"))
		})

		It("and ran again are moved when they fail by themselves", func() {
			cancelled("a", "the order is void")
			Expect(queue.JobRef("a").Retry(ctx, bullmq.StateFailed, nil)).To(Succeed())
			fetcher := newFetcher(queue.Name(), nil)
			endJob(fetcher, takeJob(fetcher), nil, bullmq.Unrecoverable(errors.New("no")))
			was, _ := moveOne().DeadLetter()
			Expect(was).To(And(HaveField("Reason", "no"), HaveField("Cancelled", false)))
		})
	})

	It("are not moved to their own queue, to a queue without a name or with a colon in it", func() {
		for _, name := range []string{queue.Name(), "", "a:b"} {
			_, err := queue.MoveFailed(ctx, name, nil)
			Expect(err).To(MatchError(HavePrefix("bullmq: move failed jobs of queue " + queue.Name() + ": ")))
		}
		_, err := queue.MoveFailed(ctx, dead.Name(), &bullmq.MoveFailedOptions{Limit: -1})
		Expect(err).To(MatchError(ContainSubstring("Limit -1 is less than 0")))
	})

	It("are moved on a cluster only between queues with one hash tag", func() {
		conn := clustered()
		tag := "{" + newQueueName() + "}"
		queue = newQueue(tag, &bullmq.QueueOptions{Connection: conn})
		_, err := queue.MoveFailed(ctx, "{other}", nil)
		Expect(err).To(MatchError(ContainSubstring("must have the same hash tag")))
		dead = newQueue(tag+".dead", &bullmq.QueueOptions{Connection: conn})
		_, err = queue.Add(ctx, "mail", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		fetcher := newFetcher(queue.Name(), &bullmq.FetcherOptions{Connection: conn})
		endJob(fetcher, takeJob(fetcher), nil, errors.New("no"))
		letter := moveOne()
		job, err := dead.ReplayDeadLetter(ctx, letter.ID)
		Expect(err).NotTo(HaveOccurred())
		Expect(job.State(ctx)).To(Equal(bullmq.StateWaiting))
		_, err = bullmq.NewWorker(ctx, queue.Name(), doNothing, &bullmq.WorkerOptions{
			Connection: conn, DeadLetters: &bullmq.DeadLetterOptions{QueueName: "{other}"},
		})
		Expect(err).To(MatchError(ContainSubstring("must have the same hash tag")))
	})

	It("of a paused queue of BullMQ 5 wait as dead letters in its list paused", func() {
		old := &bullmq.QueueOptions{Dialect: bullmq.V5}
		queue, dead = newQueue(queue.Name()+".5", old), newQueue(queue.Name()+".5.dead", old)
		Expect(dead.Pause(ctx)).To(Succeed())
		fail(queue, nil, &bullmq.JobOptions{Priority: 3}, "no")
		letter := moveOne()
		Expect(listAt(keyOf(dead.Name(), "paused"))).To(Equal([]string{letter.ID}))
		Expect(keysOf(dead.Name())).NotTo(ContainElement(keyOf(dead.Name(), "marker")))
		Expect(queue.Pause(ctx)).To(Succeed())
		Expect(dead.ReplayDeadLetters(ctx, nil)).To(Equal([]string{letter.ID}))
		Expect(zsetAt(keyOf(queue.Name(), "prioritized"))).To(HaveLen(1))
		Expect(keysOf(dead.Name())).NotTo(ContainElement(HaveSuffix("paused")))
	})

	Describe("of a flow", func() {
		var flows *bullmq.FlowProducer
		BeforeEach(func() {
			var err error
			flows, err = bullmq.NewFlowProducer(ctx, &bullmq.FlowProducerOptions{Connection: connection()})
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(flows.Close)
		})
		// runAll runs all ready jobs. Those named in failing fail.
		runAll := func(failing ...string) {
			GinkgoHelper()
			fetcher := newFetcher(queue.Name(), nil)
			for job := takeJob(fetcher); job != nil; job = takeJob(fetcher) {
				var reason error
				for _, name := range failing {
					if job.Name == name {
						reason = errors.New("no")
					}
				}
				endJob(fetcher, job, map[string]string{"by": job.Name}, reason)
			}
		}
		add := func(root bullmq.Flow) *bullmq.FlowNode {
			GinkgoHelper()
			flow, err := flows.Add(ctx, root)
			Expect(err).NotTo(HaveOccurred())
			return flow
		}

		It("leave their parent waiting, which runs when the replayed child completes", func() {
			flow := add(bullmq.Flow{Name: "parent", QueueName: queue.Name(), Children: []bullmq.Flow{
				{Name: "good", QueueName: queue.Name()}, {Name: "bad", QueueName: queue.Name()},
			}})
			runAll("bad")
			letter := moveOne()
			Expect(stateOf(queue, flow.Job.ID)()).To(Equal(bullmq.StateWaitingChildren))
			job, err := dead.ReplayDeadLetter(ctx, letter.ID)
			Expect(err).NotTo(HaveOccurred())
			runAll()
			Expect(job.State(ctx)).To(Equal(bullmq.StateCompleted))
			Expect(stateOf(queue, flow.Job.ID)()).To(Equal(bullmq.StateCompleted))
			children, err := flow.Job.ChildrenValues(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(children).To(HaveLen(2))
		})

		It("keep their children, with the results, and have them again after a replay", func() {
			flow := add(bullmq.Flow{Name: "parent", QueueName: queue.Name(), Children: []bullmq.Flow{
				{Name: "child", QueueName: queue.Name(), Options: &bullmq.JobOptions{JobID: "child"}},
			}})
			runAll("parent")
			letter := moveOne()
			Expect(stateOf(queue, "child")()).To(Equal(bullmq.StateCompleted))
			Expect(keysOf(queue.Name())).NotTo(ContainElement(ContainSubstring(flow.Job.ID + ":")))
			job, err := dead.ReplayDeadLetter(ctx, letter.ID)
			Expect(err).NotTo(HaveOccurred())
			children, err := job.ChildrenValues(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(children).To(HaveLen(1))
			runAll()
			Expect(job.State(ctx)).To(Equal(bullmq.StateCompleted))
			Expect(keysOf(dead.Name())).NotTo(ContainElement(ContainSubstring(letter.ID)))
		})

		It("stay failed while a child can still finish, and do not keep others from being moved", func() {
			flow := add(bullmq.Flow{Name: "parent", QueueName: queue.Name(), Children: []bullmq.Flow{
				{Name: "bad", QueueName: queue.Name(), Options: &bullmq.JobOptions{OnFailure: bullmq.FailParent}},
				{Name: "late", QueueName: queue.Name() + ".late", Options: &bullmq.JobOptions{JobID: "late"}},
			}})
			runAll("bad", "parent")
			Expect(stateOf(queue, flow.Job.ID)()).To(Equal(bullmq.StateFailed))
			redisDo("ZADD", keyOf(queue.Name(), "failed"), "1", flow.Job.ID) // the oldest one
			Expect(move()).To(HaveLen(1))
			Expect(stateOf(queue, flow.Job.ID)()).To(Equal(bullmq.StateFailed))

			late := newFetcher(queue.Name()+".late", nil)
			endJob(late, takeJob(late), "done", nil)
			letter := moveOne()
			was, _ := letter.DeadLetter()
			Expect(was.JobID).To(Equal(flow.Job.ID))
		})

		It("can be replayed together: a parent whose child completes in the meantime has its result", func() {
			flow := add(bullmq.Flow{Name: "parent", QueueName: queue.Name(), Children: []bullmq.Flow{
				{Name: "bad", QueueName: queue.Name(), Options: &bullmq.JobOptions{JobID: "bad", OnFailure: bullmq.FailParent}},
			}})
			runAll("bad", "parent")
			letters := move()
			Expect(letters).To(HaveLen(2))
			child, parent := letters[0], letters[1]
			if !strings.HasSuffix(child, "-bad") {
				child, parent = parent, child
			}
			_, err := dead.ReplayDeadLetter(ctx, child)
			Expect(err).NotTo(HaveOccurred())
			runAll()
			job, err := dead.ReplayDeadLetter(ctx, parent)
			Expect(err).NotTo(HaveOccurred())
			counts, err := job.DependencyCounts(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(counts).To(Equal(bullmq.DependencyCounts{Processed: 1}))
			runAll()
			Expect(stateOf(queue, flow.Job.ID)()).To(Equal(bullmq.StateCompleted))
		})
	})
})

var _ = Describe("A dead letter", func() {
	var queue, dead *bullmq.Queue
	var ctx context.Context
	BeforeEach(func() {
		ctx = specContext()
		name := newQueueName()
		queue, dead = newQueue(name, nil), newQueue(name+".dead", nil)
	})
	// bury adds a job, fails it, moves it and returns the letter.
	bury := func(options *bullmq.JobOptions) *bullmq.Job {
		GinkgoHelper()
		_, err := queue.Add(ctx, "mail", map[string]int{"n": 1}, options)
		Expect(err).NotTo(HaveOccurred())
		fetcher := newFetcher(queue.Name(), nil)
		endJob(fetcher, takeJob(fetcher), nil, bullmq.Unrecoverable(errors.New("no")))
		ids, err := queue.MoveFailed(ctx, dead.Name(), nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(ids).To(HaveLen(1))
		letter, err := dead.Job(ctx, ids[0])
		Expect(err).NotTo(HaveOccurred())
		return letter
	}
	options := func() *bullmq.JobOptions {
		return &bullmq.JobOptions{
			JobID: "a", Attempts: 2, Priority: 5, KeepLogs: 4, Backoff: bullmq.ExponentialBackoff(time.Second),
			Extra: map[string]json.RawMessage{"tenant": json.RawMessage(`{"id":1.50}`)},
		}
	}

	It("is replayed as the job that it was, without attempts and with its log", func() {
		_, err := queue.Add(ctx, "mail", map[string]int{"n": 1}, options())
		Expect(err).NotTo(HaveOccurred())
		fetcher := newFetcher(queue.Name(), nil)
		job := takeJob(fetcher)
		_, err = job.Log(ctx, "first row")
		Expect(err).NotTo(HaveOccurred())
		Expect(job.UpdateProgress(ctx, 40)).To(Succeed())
		redisDo("HSET", job.Key(), "custom", "bytes \x00\xff \\/ é")
		endJob(fetcher, job, nil, bullmq.Unrecoverable(errors.New("no")))
		before := hashAt(job.Key())

		ids, err := queue.MoveFailed(ctx, dead.Name(), nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(keysOf(dead.Name())).To(ContainElement(keyOf(dead.Name(), ids[0]+":logs")))
		replayed, err := dead.ReplayDeadLetter(ctx, ids[0])
		Expect(err).NotTo(HaveOccurred())
		Expect(replayed.ID).To(Equal("a"))
		Expect(replayed.QueueName()).To(Equal(queue.Name()))
		Expect(replayed.State(ctx)).To(Equal(bullmq.StatePrioritized))

		for _, field := range []string{"finishedOn", "processedOn", "failedReason", "atm", "ats"} {
			Expect(before).To(HaveKey(field))
			delete(before, field)
		}
		Expect(hashAt(job.Key())).To(Equal(before))
		rows, _, err := queue.JobLogs(ctx, "a", bullmq.AllEntries())
		Expect(err).NotTo(HaveOccurred())
		Expect(rows).To(Equal([]string{"first row"}))
		Expect(keysOf(dead.Name())).NotTo(ContainElement(ContainSubstring(ids[0])))
		Expect(countOf(dead, bullmq.StateWaiting)()).To(BeZero())
		endJob(fetcher, takeJob(fetcher), "ok", nil)
		Expect(replayed.State(ctx)).To(Equal(bullmq.StateCompleted))
	})

	It("is found by the queue and the id of its job, also if the id has colons", func() {
		for _, id := range []string{"a", "a:b:c"} {
			letter := bury(&bullmq.JobOptions{JobID: id})
			found, err := dead.DeadLetter(ctx, queue.Name(), id)
			Expect(err).NotTo(HaveOccurred())
			was, _ := letter.DeadLetter()
			Expect(found).To(Equal(was))
			Expect(found.JobID).To(Equal(id))
			_, err = dead.ReplayDeadLetter(ctx, found.Letter.ID)
			Expect(err).NotTo(HaveOccurred())
			_, err = dead.DeadLetter(ctx, queue.Name(), id)
			Expect(err).To(MatchError(bullmq.ErrJobNotFound))
			Expect(queue.Remove(ctx, id, nil)).To(Succeed())
		}
	})

	It("of the last failure is found if the job has several, also after others were removed", func() {
		_, err := dead.Add(ctx, "other", nil, &bullmq.JobOptions{JobID: queue.Name() + "-a"}) // has the first id
		Expect(err).NotTo(HaveOccurred())
		var ids []string
		for range 5 {
			ids = append(ids, bury(&bullmq.JobOptions{JobID: "a"}).ID)
			found, err := dead.DeadLetter(ctx, queue.Name(), "a")
			Expect(err).NotTo(HaveOccurred())
			Expect(found.Letter.ID).To(Equal(ids[len(ids)-1]))
			time.Sleep(2 * time.Millisecond) // times are milliseconds
		}
		for _, id := range ids[:4] {
			Expect(dead.Remove(ctx, id, nil)).To(Succeed())
		}
		found, err := dead.DeadLetter(ctx, queue.Name(), "a")
		Expect(err).NotTo(HaveOccurred())
		Expect(found.Letter.ID).To(Equal(ids[4]))
		last := bury(&bullmq.JobOptions{JobID: "a"}) // takes the id of one that was removed
		Expect(last.ID).To(Equal(ids[0]))
		found, err = dead.DeadLetter(ctx, queue.Name(), "a")
		Expect(err).NotTo(HaveOccurred())
		Expect(found.Letter.ID).To(Equal(last.ID))
	})

	It("is not found for another job whose letter has the same id", func() {
		other := newQueue(queue.Name()+"-a", nil)
		bury(&bullmq.JobOptions{JobID: "a-b"})
		_, err := dead.DeadLetter(ctx, other.Name(), "b")
		Expect(err).To(MatchError(And(HavePrefix("bullmq: no dead letter in "+dead.Name()), ContainSubstring("job b of "+other.Name()))))
		Expect(errors.Is(err, bullmq.ErrJobNotFound)).To(BeTrue())
		_, err = dead.DeadLetter(ctx, "", "b")
		Expect(err).To(MatchError(ContainSubstring("a queue needs a name")))
	})

	It("is replayed with the data that it has now", func() {
		letter := bury(options())
		Expect(letter.UpdateData(ctx, map[string]int{"n": 2})).To(Succeed())
		_, err := dead.ReplayDeadLetter(ctx, letter.ID)
		Expect(err).NotTo(HaveOccurred())
		job, err := queue.Job(ctx, "a")
		Expect(err).NotTo(HaveOccurred())
		Expect(string(job.Data)).To(Equal(`{"n":2}`))
		Expect(job.Options.Attempts).To(Equal(2))
	})

	DescribeTable("is replayed from the state", func(state bullmq.State, bring func(letter *bullmq.Job)) {
		letter := bury(options())
		bring(letter)
		Expect(letter.State(ctx)).To(Equal(state))
		job, err := dead.ReplayDeadLetter(ctx, letter.ID)
		Expect(err).NotTo(HaveOccurred())
		Expect(job.State(ctx)).To(Equal(bullmq.StatePrioritized))
		_, err = dead.Job(ctx, letter.ID)
		Expect(err).To(MatchError(bullmq.ErrJobNotFound))
		events := eventsOf(dead.Name())
		Expect(events[len(events)-1]).To(HavePrefix("removed jobId=" + letter.ID + " prev="))
		Expect(dead.FindOrphanedJobs(ctx)).To(BeEmpty())
	},
		Entry("waiting", bullmq.StateWaiting, func(*bullmq.Job) {}),
		Entry("prioritized", bullmq.StatePrioritized, func(letter *bullmq.Job) {
			Expect(letter.ChangePriority(specContext(), 3, nil)).To(Succeed())
		}),
		Entry("delayed", bullmq.StateDelayed, func(letter *bullmq.Job) {
			fetcher := newFetcher(letter.QueueName(), nil)
			Expect(takeJob(fetcher).MoveToDelayed(specContext(), time.Now().Add(time.Hour))).To(Succeed())
		}),
		Entry("completed", bullmq.StateCompleted, func(letter *bullmq.Job) {
			fetcher := newFetcher(letter.QueueName(), nil)
			endJob(fetcher, takeJob(fetcher), "seen", nil)
		}),
		Entry("failed", bullmq.StateFailed, func(letter *bullmq.Job) {
			fetcher := newFetcher(letter.QueueName(), nil)
			endJob(fetcher, takeJob(fetcher), nil, errors.New("no alert"))
		}),
	)

	It("is not replayed, and nothing changes, while a worker holds it", func() {
		letter := bury(options())
		takeJob(newFetcher(dead.Name(), nil))
		before, other := snapshot(dead.Name()), snapshot(queue.Name())
		_, err := dead.ReplayDeadLetter(ctx, letter.ID)
		Expect(err).To(MatchError(bullmq.ErrJobLocked))
		_, err = dead.ReplayDeadLetters(ctx, &bullmq.ReplayOptions{States: []bullmq.State{bullmq.StateActive}})
		Expect(err).To(MatchError(ContainSubstring(`from the state "active"`)))
		Expect(snapshot(dead.Name())).To(Equal(before))
		Expect(snapshot(queue.Name())).To(Equal(other))
	})

	It("is not replayed, and nothing changes, if a job with the original id exists", func() {
		letter := bury(options())
		_, err := queue.Add(ctx, "mail", nil, &bullmq.JobOptions{JobID: "a"})
		Expect(err).NotTo(HaveOccurred())
		before, other := snapshot(dead.Name()), snapshot(queue.Name())
		_, err = dead.ReplayDeadLetter(ctx, letter.ID)
		Expect(err).To(MatchError(bullmq.ErrJobExists))
		Expect(snapshot(dead.Name())).To(Equal(before))
		Expect(snapshot(queue.Name())).To(Equal(other))
	})

	It("that is none is not replayed: a missing job, any other job, and one that names a key of the queue", func() {
		_, err := dead.ReplayDeadLetter(ctx, "nobody")
		Expect(err).To(MatchError(bullmq.ErrJobNotFound))
		for _, option := range []string{"", "7", `{"queue":"bull:` + queue.Name() + `","id":"wait"}`, `{"queue":"bull:` + queue.Name() + `","id":"b"}`, `{"queue":"x","id":"b"}`} {
			o := &bullmq.JobOptions{}
			if option != "" {
				o.Extra = map[string]json.RawMessage{"deadLetter": json.RawMessage(option)}
			}
			job, err := dead.Add(ctx, "other", nil, o)
			Expect(err).NotTo(HaveOccurred())
			_, err = dead.ReplayDeadLetter(ctx, job.ID)
			Expect(err).To(MatchError(bullmq.ErrNotDeadLetter), option)
		}
		Expect(dead.ReplayDeadLetters(ctx, &bullmq.ReplayOptions{Filter: func(letter bullmq.DeadLetter) bool {
			return letter.QueueName == "nowhere"
		}})).To(BeEmpty())
		Expect(keysOf(queue.Name())).To(Equal([]string{keyOf(queue.Name(), "meta")}))
	})

	It("that fails for good in its queue can be moved and replayed in two steps", func() {
		letter := bury(options())
		fetcher := newFetcher(dead.Name(), nil)
		endJob(fetcher, takeJob(fetcher), nil, errors.New("no alert"))
		last := newQueue(dead.Name()+".dead", nil)
		ids, err := dead.MoveFailed(ctx, last.Name(), nil)
		Expect(err).NotTo(HaveOccurred())
		back, err := last.ReplayDeadLetter(ctx, ids[0])
		Expect(err).NotTo(HaveOccurred())
		Expect(back.ID).To(Equal(letter.ID))
		job, err := dead.ReplayDeadLetter(ctx, letter.ID)
		Expect(err).NotTo(HaveOccurred())
		Expect(job.ID).To(Equal("a"))
	})

	It("is one of many that are replayed together, by a filter and up to a limit, into their queues", func() {
		other := newQueue(queue.Name()+".other", nil)
		for i := range 130 {
			for _, q := range []*bullmq.Queue{queue, other} {
				_, err := q.Add(ctx, "mail", i, nil)
				Expect(err).NotTo(HaveOccurred())
			}
		}
		for _, q := range []*bullmq.Queue{queue, other} {
			fetcher := newFetcher(q.Name(), nil)
			for job := takeJob(fetcher); job != nil; job = takeJob(fetcher) {
				endJob(fetcher, job, nil, errors.New("no"))
			}
			Expect(q.MoveFailed(ctx, dead.Name(), nil)).To(HaveLen(130))
		}
		fetcher := newFetcher(dead.Name(), nil)
		for range 10 {
			endJob(fetcher, takeJob(fetcher), nil, nil)
		}
		_, err := queue.Add(ctx, "mail", nil, nil) // in nobody's way
		Expect(err).NotTo(HaveOccurred())
		of := func(name string) func(bullmq.DeadLetter) bool {
			return func(letter bullmq.DeadLetter) bool { return letter.QueueName == name }
		}
		Expect(dead.ReplayDeadLetters(ctx, &bullmq.ReplayOptions{Filter: of(other.Name()), Limit: 40})).To(HaveLen(40))
		Expect(countOf(other, bullmq.StateWaiting)()).To(Equal(40))
		Expect(listAt(keyOf(other.Name(), "wait"))[39]).To(Equal("1"))
		Expect(dead.ReplayDeadLetters(ctx, nil)).To(HaveLen(220))
		Expect(countOf(other, bullmq.StateWaiting)()).To(Equal(130))
		Expect(countOf(queue, bullmq.StateWaiting)()).To(Equal(131))
		Expect(dead.FindOrphanedJobs(ctx)).To(BeEmpty())
	})

	It("that can't be replayed does not keep others from being replayed", func() {
		letter := bury(options())
		Expect(bury(&bullmq.JobOptions{JobID: "b"}).ID).NotTo(BeEmpty())
		_, err := queue.Add(ctx, "mail", nil, &bullmq.JobOptions{JobID: "a"})
		Expect(err).NotTo(HaveOccurred())
		replayed, err := dead.ReplayDeadLetters(ctx, nil)
		Expect(replayed).To(HaveLen(1))
		Expect(err).To(And(MatchError(bullmq.ErrJobExists), MatchError(ContainSubstring(letter.ID))))
	})
})
