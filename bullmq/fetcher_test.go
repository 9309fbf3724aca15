package bullmq_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	"github.com/rs/zerolog"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/faultproxy"
)

var _ = Describe("A manually fetched job", func() {
	var (
		name    string
		queue   *bullmq.Queue
		fetcher *bullmq.Fetcher
		ctx     context.Context
		next    string // the token of the next job
	)
	setUp := func() {
		GinkgoHelper()
		name, ctx = newQueueName(), specContext()
		queue = newQueue(name, nil)
		next = "mine"
		fetcher = newFetcher(name, &bullmq.FetcherOptions{
			Name: "by-hand", LockDuration: 40 * time.Second, Token: func() string { return next },
		})
	}
	BeforeEach(setUp)
	add := func(options *bullmq.JobOptions) *bullmq.Job {
		GinkgoHelper()
		job, err := queue.Add(ctx, "a", map[string]int{"n": 1}, options)
		Expect(err).NotTo(HaveOccurred())
		return job
	}
	take := func(token string) *bullmq.Job {
		GinkgoHelper()
		next = token
		job, err := fetcher.TryFetch(ctx)
		Expect(err).NotTo(HaveOccurred())
		return job
	}

	It("is active, locked by its token and marked with the worker's name", func() {
		added := add(nil)
		job := take("mine")
		Expect(job.ID).To(Equal(added.ID))
		Expect(string(job.Data)).To(Equal(`{"n":1}`))
		Expect(job.Token()).To(Equal("mine"))
		Expect(stateOf(queue, job.ID)()).To(Equal(bullmq.StateActive))
		Expect(stringAt(keyOf(name, job.ID+":lock"))).To(Equal("mine"))
		Expect(redisDo("PTTL", keyOf(name, job.ID+":lock")).AsInt64()).To(And(BeNumerically(">", 32000), BeNumerically("<=", 40000)))
		Expect(hashAt(keyOf(name, job.ID))).To(And(HaveKeyWithValue("pb", "by-hand"), HaveKeyWithValue("ats", "1"), HaveKey("processedOn")))
	})

	DescribeTable("cannot be fetched with a token that owns every lock:", func(token string) {
		add(nil)
		next = token
		_, err := fetcher.TryFetch(ctx)
		Expect(err).To(MatchError(And(ContainSubstring("queue "+name), ContainSubstring("would own every lock"))))
		Expect(listAt(keyOf(name, "active"))).To(BeEmpty())
	}, Entry("zero", "0"), Entry("an empty token", ""))

	It("cannot be finished with another token", func() {
		add(nil)
		job := take("mine")
		Expect(fetcher.Complete(ctx, job.WithToken("theirs"), nil)).To(MatchError(bullmq.ErrLockMismatch))
		Expect(fetcher.Complete(ctx, job, "done")).To(Succeed())
	})

	It("is waited for until one is added or the context ends", func() {
		_, err := fetcher.TryFetch(ctx)
		Expect(err).To(MatchError(bullmq.ErrNoJob))

		got := make(chan *bullmq.Job, 1)
		go func() {
			defer GinkgoRecover()
			job, err := fetcher.Fetch(ctx)
			Expect(err).NotTo(HaveOccurred())
			got <- job
		}()
		waitUntilIdle(queue)
		add(nil)
		Eventually(got).Should(Receive(HaveField("ID", "1")))

		short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		begun := time.Now()
		_, err = fetcher.Fetch(short)
		Expect(err).To(MatchError(context.DeadlineExceeded))
		Expect(time.Since(begun)).To(BeNumerically("<", 3*time.Second))
	})

	It("completes with its value and returns the next job on request", func() {
		add(nil)
		add(nil)
		job := take("mine")
		next, err := fetcher.CompleteAndFetch(ctx, job, map[string]string{"colour": "red"})
		Expect(err).NotTo(HaveOccurred())
		Expect(next.ID).To(Equal("2"))
		Expect(string(job.ReturnValue)).To(Equal(`{"colour":"red"}`))
		Expect(job.AttemptsMade).To(Equal(1))
		Expect(job.FinishedOn).NotTo(BeZero())
		Expect(stringAt(keyOf(name, "2:lock"))).To(Equal("mine"))
		Expect(hashAt(keyOf(name, "1"))).To(HaveKeyWithValue("returnvalue", `{"colour":"red"}`))
		_, err = fetcher.CompleteAndFetch(ctx, next, nil)
		Expect(err).To(MatchError(bullmq.ErrNoJob))
		Expect(stateOf(queue, next.ID)()).To(Equal(bullmq.StateCompleted))
	})

	It("stays as it is if JSON cannot represent its value", func() {
		add(nil)
		job := take("mine")
		err := fetcher.Complete(ctx, job, func() {})
		Expect(err).To(MatchError(ContainSubstring("can't be written as JSON")))
		Expect(stateOf(queue, job.ID)()).To(Equal(bullmq.StateActive))
		Expect(stringAt(keyOf(name, job.ID+":lock"))).To(Equal("mine"))
	})

	It("that fails is retried by its options and then fails for good", func() {
		add(&bullmq.JobOptions{Attempts: 3, Backoff: bullmq.FixedBackoff(30 * time.Millisecond)})
		fail := func() {
			GinkgoHelper()
			job, err := fetcher.Fetch(ctx)
			Expect(err).NotTo(HaveOccurred())
			err = fetcher.Fail(ctx, job, errors.New("boom"))
			Expect(err).NotTo(HaveOccurred())
			Expect(job.FailedReason).To(Equal("boom"))
			Expect(job.StackTrace).To(HaveLen(job.AttemptsMade))
		}
		fail()
		Expect(stateOf(queue, "1")()).To(Equal(bullmq.StateDelayed))
		fail()
		fail()
		Expect(stateOf(queue, "1")()).To(Equal(bullmq.StateFailed))
		Expect(hashAt(keyOf(name, "1"))).To(And(HaveKeyWithValue("atm", "3"), HaveKeyWithValue("failedReason", "boom")))
		Expect(eventsOf(name)).To(ContainElement("retries-exhausted jobId=1 attemptsMade=3"))
	})

	DescribeTable("that has a priority and fails is retried after lower numbers and earlier equals", func(backoff *bullmq.Backoff) {
		add(&bullmq.JobOptions{Priority: 2, Attempts: 2, Backoff: backoff})
		job := take("mine")
		for _, priority := range []int{1, 2, 3} {
			add(&bullmq.JobOptions{Priority: priority})
		}
		err := fetcher.Fail(ctx, job, errors.New("boom"))
		Expect(err).NotTo(HaveOccurred())
		if backoff != nil {
			Expect(job.Promote(ctx)).To(Succeed())
		}
		Expect(zsetAt(keyOf(name, "prioritized"))).To(Equal([]string{"2", "3", "1", "4"}))
	},
		Entry("at once", nil), Entry("after a backoff", bullmq.FixedBackoff(time.Hour)),
	)

	It("that fails returns the next job on request", func() {
		add(nil)
		add(nil)
		next, err := fetcher.FailAndFetch(ctx, take("mine"), bullmq.Unrecoverable(errors.New("boom")))
		Expect(err).NotTo(HaveOccurred())
		Expect(next.ID).To(Equal("2"))
		Expect(next.Token()).To(Equal("mine"))
	})

	It("that fails without a reason still fails", func() {
		add(nil)
		err := fetcher.Fail(ctx, take("mine"), nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(stateOf(queue, "1")()).To(Equal(bullmq.StateFailed))
	})

	It("keeps its lock for the requested time, alone or with others", func() {
		add(nil)
		add(nil)
		one, two := take("t:1"), take("t:2")
		ttl := func(job *bullmq.Job) int64 {
			ms, err := redisDo("PTTL", keyOf(name, job.ID+":lock")).AsInt64()
			Expect(err).NotTo(HaveOccurred())
			return ms
		}
		Expect(one.ExtendLock(ctx, time.Minute)).To(BeTrue())
		Expect(ttl(one)).To(BeNumerically(">", 50000))
		Expect(one.WithToken("t:2").ExtendLock(ctx, time.Hour)).To(BeFalse())
		Expect(ttl(one)).To(BeNumerically("<=", 60000))

		Expect(redisDo("DEL", keyOf(name, one.ID+":lock")).Error()).To(Succeed())
		Expect(fetcher.ExtendLocks(ctx, []*bullmq.Job{one, two}, time.Minute)).To(Equal([]string{one.ID}))
		Expect(ttl(two)).To(BeNumerically(">", 50000))
		_, err := fetcher.ExtendLocks(ctx, []*bullmq.Job{one, queue.JobRef(two.ID)}, time.Minute)
		Expect(err).To(MatchError(ContainSubstring("Job.WithToken")))
	})

	Describe("that Queue.Cancel has cancelled", func() {
		BeforeEach(func() {
			// A child's failure is no cancellation.
			add(nil)
			redisDo("HSET", take("t:0").Key(), "defa", "child bull:q:1 failed")
		})
		// cancelled takes and cancels a job.
		cancelled := func(token string) *bullmq.Job {
			GinkgoHelper()
			added := add(&bullmq.JobOptions{Attempts: 5})
			job := take(token)
			Expect(job.ID).To(Equal(added.ID))
			Expect(job.ExtendLock(ctx, time.Minute)).To(BeTrue())
			Expect(queue.Cancel(ctx, job.ID, "the order is void")).To(Equal(bullmq.CancelRunning))
			return job
		}

		It("is reported by the extension of its lock, whose error fails it without a retry", func() {
			job := cancelled("mine")
			extended, err := job.ExtendLock(ctx, time.Minute)
			Expect(extended).To(BeTrue())
			Expect(redisDo("PTTL", keyOf(name, job.ID+":lock")).AsInt64()).To(BeNumerically(">", 50000))
			Expect(err).To(MatchError("bullmq: job " + job.ID + " of " + name + " was cancelled: the order is void"))
			var notice *bullmq.CancelledError
			Expect(errors.As(err, &notice)).To(BeTrue())
			Expect(notice.Reason).To(Equal("the order is void"))
			Expect(fetcher.Fail(ctx, job, fmt.Errorf("stopped at page 3: %w", err))).To(Succeed())
			read, err := queue.Job(ctx, job.ID)
			Expect(err).NotTo(HaveOccurred())
			Expect(read.FailedReason).To(Equal("cancelled: the order is void"))
			Expect(read.StackTrace).To(ConsistOf(ContainSubstring("stopped at page 3")))
			Expect(stateOf(queue, job.ID)()).To(Equal(bullmq.StateFailed))
		})

		It("is reported by the extension of many locks, by its index", func() {
			first := cancelled("t:1")
			add(nil)
			second := take("t:2")
			third := cancelled("t:3")
			add(nil)
			gone := take("t:4")
			redisDo("DEL", keyOf(name, gone.ID+":lock"))
			lost, err := fetcher.ExtendLocks(ctx, []*bullmq.Job{first, second, third, gone, queue.JobRef("1").WithToken("t:0")}, time.Minute)
			Expect(lost).To(Equal([]string{gone.ID}))
			var errs *bullmq.BulkError
			Expect(errors.As(err, &errs)).To(BeTrue())
			Expect(errs.Errs).To(HaveExactElements(MatchError(bullmq.ErrCancelled), BeNil(), MatchError(bullmq.ErrCancelled), BeNil(), BeNil()))
			Expect(fetcher.Fail(ctx, third, errs.Of(2))).To(Succeed())
			Expect(hashAt(third.Key())).To(HaveKeyWithValue("failedReason", "cancelled: the order is void"))
		})

		It("is reported once by OnCancelled, if RenewLocks is set", func() {
			type notice struct {
				id  string
				err error
			}
			notices := make(chan notice, 10)
			renewing := newFetcher(name, &bullmq.FetcherOptions{
				LockDuration: 5 * time.Second, LockRenewTime: 100 * time.Millisecond, RenewLocks: true,
				OnCancelled: func(job *bullmq.Job, err error) { notices <- notice{job.ID, err} },
			})
			add(&bullmq.JobOptions{Attempts: 3})
			job := takeJob(renewing)
			Expect(queue.Cancel(ctx, job.ID, "no")).To(Equal(bullmq.CancelRunning))
			var one notice
			Eventually(notices, "10s").Should(Receive(&one))
			Expect(one.id).To(Equal(job.ID))
			Expect(one.err).To(MatchError(bullmq.ErrCancelled))
			Consistently(notices, "500ms").ShouldNot(Receive())
			Expect(renewing.Fail(ctx, job, one.err)).To(Succeed())
			Expect(hashAt(job.Key())).To(And(HaveKeyWithValue("failedReason", "cancelled: no"), HaveKeyWithValue("atm", "1")))
		})
	})

	It("is delayed without using an attempt, and is fetched again when it is due", func() {
		add(nil)
		job := take("t:1")
		Expect(job.WithToken("other").MoveToDelayed(ctx, time.Now().Add(100*time.Millisecond))).To(MatchError(bullmq.ErrLockMismatch))
		begun := time.Now()
		Expect(job.MoveToDelayed(ctx, begun.Add(100*time.Millisecond))).To(Succeed())
		Expect(stateOf(queue, job.ID)()).To(Equal(bullmq.StateDelayed))
		again, err := fetcher.Fetch(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(again.ID).To(Equal(job.ID))
		Expect(again.AttemptsMade).To(BeZero())
		Expect(time.Since(begun)).To(And(BeNumerically(">=", 99*time.Millisecond), BeNumerically("<", 4*time.Second)))
	})

	It("that stalled too often reports that it must be failed", func() {
		add(nil)
		Expect(redisDo("HSET", keyOf(name, "1"), "defa", "job stalled more than allowable limit").Error()).To(Succeed())
		job := take("mine")
		Expect(job.DeferredFailure).To(Equal("job stalled more than allowable limit"))
		err := fetcher.Fail(ctx, job, bullmq.Unrecoverable(errors.New(job.DeferredFailure)))
		Expect(err).NotTo(HaveOccurred())
		Expect(hashAt(keyOf(name, "1"))).NotTo(HaveKey("defa"))
	})

	It("is returned when the rate limit ends and when the queue is resumed", func() {
		fetcher = newFetcher(name, &bullmq.FetcherOptions{Limiter: &bullmq.Limiter{Max: 1, Duration: 300 * time.Millisecond}})
		add(nil)
		add(nil)
		begun := time.Now()
		take("t:1")
		job, err := fetcher.Fetch(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(job.ID).To(Equal("2"))
		Expect(time.Since(begun)).To(And(BeNumerically(">=", 290*time.Millisecond), BeNumerically("<", 4*time.Second)))

		Expect(queue.Pause(ctx)).To(Succeed())
		add(nil)
		got := make(chan *bullmq.Job, 1)
		go func() {
			defer GinkgoRecover()
			job, err := fetcher.Fetch(ctx)
			Expect(err).NotTo(HaveOccurred())
			got <- job
		}()
		waitUntilIdle(queue)
		Expect(queue.Resume(ctx)).To(Succeed())
		Eventually(got).Should(Receive(HaveField("ID", "3")))
	})

	It("is returned to one of many waiting calls, each of which gets its own", func() {
		const many = 8
		var tokens atomic.Int64
		fetcher := newFetcher(name, &bullmq.FetcherOptions{Token: func() string { return fmt.Sprint("t:", tokens.Add(1)) }})
		got := make(chan string, many)
		var waiting sync.WaitGroup
		for range many {
			waiting.Go(func() {
				defer GinkgoRecover()
				job, err := fetcher.Fetch(ctx)
				Expect(err).NotTo(HaveOccurred())
				got <- job.ID
				err = fetcher.Complete(ctx, job, nil)
				Expect(err).NotTo(HaveOccurred())
			})
		}
		Eventually(func() ([]bullmq.ConnectedClient, error) { return queue.ConnectedWorkers(ctx) }).Should(HaveLen(many))
		for range many {
			add(nil)
		}
		waiting.Wait()
		close(got)
		ids := map[string]bool{}
		for id := range got {
			ids[id] = true
		}
		Expect(ids).To(HaveLen(many))
	})

	It("stays active, and Fail returns an error, if Classify panics", func() {
		fetcher = newFetcher(name, &bullmq.FetcherOptions{Classify: func(error, *bullmq.Job) bullmq.Verdict { panic("no idea") }})
		add(&bullmq.JobOptions{Attempts: 2})
		job := take("mine")
		err := fetcher.Fail(ctx, job, errors.New("boom"))
		Expect(err).To(MatchError(ContainSubstring("panicked")))
		Expect(stateOf(queue, job.ID)()).To(Equal(bullmq.StateActive), "left as it is")
	})

	Describe("over a connection that fails", Label("slow"), func() {
		var (
			proxy *faultproxy.Proxy
			log   *logLines
		)
		BeforeEach(func() {
			var via *bullmq.Connection
			proxy, via = proxiedRedis()
			log = &logLines{}
			fetcher = newFetcher(name, &bullmq.FetcherOptions{Connection: via, Token: func() string { return "by-hand" }, Logger: bullmq.Zerolog(zerolog.New(log))})
		})
		type outcome struct {
			Job *bullmq.Job
			Err error
		}
		fetch := func(ctx context.Context) <-chan outcome {
			got := make(chan outcome, 1)
			go func() {
				job, err := fetcher.Fetch(ctx)
				got <- outcome{job, err}
			}()
			return got
		}
		fetched := func(id string) types.GomegaMatcher {
			return And(HaveField("Err", BeNil()), HaveField("Job", HaveField("ID", id)))
		}

		It("is waited for although the connection is cut", func() {
			got := fetch(ctx)
			waitUntilIdle(queue)
			proxy.CutAll()
			Consistently(got, "300ms").ShouldNot(Receive())
			add(nil)
			Eventually(got).Should(Receive(fetched("1")))
		})

		It("is waited for in an outage, with an attempt a second, and returned after it", func() {
			got := fetch(ctx)
			waitUntilIdle(queue)
			Expect(proxy.Set(faultproxy.Faults{Refuse: true})).To(Succeed())
			proxy.CutAll()
			begun := time.Now()
			add(nil)
			Consistently(got, "2s").ShouldNot(Receive())
			Expect(float64(log.with("fetching a job failed"))).To(BeNumerically("<=", 2+time.Since(begun).Seconds()))
			Expect(proxy.Set(faultproxy.Faults{})).To(Succeed())
			Eventually(got).Should(Receive(fetched("1")))
		})

		It("is not lost if neither the fetch nor the search for its job gets a reply", func() {
			lost := []<-chan struct{}{proxy.LoseReply("by-hand"), proxy.LoseReply("by-hand")}
			add(nil)
			add(nil)
			Eventually(fetch(ctx), "10s").Should(Receive(fetched("1")))
			for _, reply := range lost {
				Expect(reply).To(BeClosed())
			}
			Expect(listAt(keyOf(name, "active"))).To(Equal([]string{"1"}))
			Expect(stringAt(keyOf(name, "1:lock"))).To(Equal("by-hand"))
		})

		It("is not waited for by TryFetch, whose error names the queue", func() {
			Expect(proxy.Set(faultproxy.Faults{Refuse: true})).To(Succeed())
			proxy.CutAll()
			begun := time.Now()
			_, err := fetcher.TryFetch(ctx)
			Expect(err).To(MatchError(HavePrefix("bullmq: fetch a job of queue " + name + ": ")))
			Expect(time.Since(begun)).To(BeNumerically("<", 4*time.Second))
		})

		It("is waited for until the context ends, and the error has both causes", func() {
			Expect(proxy.Set(faultproxy.Faults{Refuse: true})).To(Succeed())
			proxy.CutAll()
			short, cancel := context.WithTimeout(ctx, 2*time.Second)
			defer cancel()
			_, err := fetcher.Fetch(short)
			Expect(err).To(And(MatchError(context.DeadlineExceeded), MatchError(HavePrefix("bullmq: fetch a job of queue "+name+": ")), MatchError(ContainSubstring("Redis could not be read"))))
		})

		It("is not waited for once the Fetcher is closed", func() {
			Expect(proxy.Set(faultproxy.Faults{Refuse: true})).To(Succeed())
			proxy.CutAll()
			got := fetch(ctx)
			Consistently(got, "300ms").ShouldNot(Receive())
			Expect(fetcher.Close()).To(Succeed())
			Eventually(got).Should(Receive(HaveField("Err", MatchError(bullmq.ErrClosed))))
		})
	})

	Describe("that was postponed many times", func() {
		postponed := func(options bullmq.FetcherOptions) *bullmq.Job {
			GinkgoHelper()
			fetcher = newFetcher(name, &options)
			add(nil)
			redisDo("HSET", keyOf(name, "1"), "ats", "20") // Fail pauses for a second
			job := takeJob(fetcher)
			Expect(job).NotTo(BeNil())
			return job
		}

		It("is requeued after a pause that the lock outlasts", func() {
			steadily(func(g Gomega) {
				setUp()
				job := postponed(bullmq.FetcherOptions{LockDuration: 600 * time.Millisecond})
				begun := time.Now()
				g.Expect(fetcher.Fail(ctx, job, bullmq.ErrSnoozed)).To(Succeed())
				g.Expect(time.Since(begun)).To(BeNumerically(">=", 200*time.Millisecond))
				Expect(listAt(keyOf(name, "wait"))).To(Equal([]string{"1"}))
			})
		})

		It("is requeued before the deadline of the context", func() {
			steadily(func(g Gomega) {
				setUp()
				job := postponed(bullmq.FetcherOptions{})
				short, cancel := context.WithTimeout(ctx, 600*time.Millisecond)
				defer cancel()
				g.Expect(fetcher.Fail(short, job, bullmq.ErrSnoozed)).To(Succeed())
				Expect(listAt(keyOf(name, "wait"))).To(Equal([]string{"1"}))
			})
		})

		It("is not waited for when the Fetcher is closed", func() {
			steadily(func(g Gomega) {
				setUp()
				job := postponed(bullmq.FetcherOptions{})
				fetcher := fetcher // of this run
				begun, failed := time.Now(), make(chan error, 1)
				go func() { failed <- fetcher.Fail(ctx, job, bullmq.ErrSnoozed) }()
				g.Consistently(failed, "100ms").ShouldNot(Receive())
				Expect(fetcher.Close()).To(Succeed())
				Eventually(failed).Should(Receive())
				g.Expect(time.Since(begun)).To(BeNumerically("<", 900*time.Millisecond))
			})
		})
	})

	It("is not returned by a closed Fetcher", func() {
		Expect(fetcher.Close()).To(Succeed())
		_, err := fetcher.Fetch(ctx)
		Expect(err).To(And(MatchError(bullmq.ErrClosed), MatchError(ContainSubstring(name))))
		_, err = fetcher.CheckStalled(ctx)
		Expect(err).To(MatchError(bullmq.ErrClosed))
	})

	It("is waited for until the Fetcher is closed", func() {
		got := make(chan error, 1)
		go func() {
			_, err := fetcher.Fetch(ctx)
			got <- err
		}()
		waitUntilIdle(queue)
		Expect(fetcher.Close()).To(Succeed())
		Eventually(got).Should(Receive(MatchError(bullmq.ErrClosed)))
	})

	It("keeps its lock until it is finished or moved if RenewLocks is set", Label("slow"), func() {
		fetcher := newFetcher(name, &bullmq.FetcherOptions{LockDuration: 6 * time.Second, LockRenewTime: time.Second, RenewLocks: true})
		add(nil)
		add(nil)
		job, err := fetcher.TryFetch(ctx)
		Expect(err).NotTo(HaveOccurred())
		lock := func() string { return stringAt(keyOf(name, job.ID+":lock")) }
		// expectRenewal waits until more time is left of the lock than before.
		expectRenewal := func() {
			GinkgoHelper()
			var last, left int64
			Eventually(func() bool {
				var err error
				last = left
				left, err = redisDo("PTTL", keyOf(name, job.ID+":lock")).AsInt64()
				Expect(err).NotTo(HaveOccurred())
				return last > 0 && left > last
			}, "10s", "20ms").Should(BeTrue())
			Expect(lock()).To(Equal(job.Token()))
		}
		expectRenewal()
		job, err = fetcher.CompleteAndFetch(ctx, job, "done")
		Expect(err).NotTo(HaveOccurred())
		expectRenewal()
		Expect(job.MoveToDelayed(ctx, time.Now().Add(time.Hour))).To(Succeed())
		Consistently(lock, "300ms", "20ms").Should(BeEmpty())
	})

	It("loses its lock after LockDuration without RenewLocks", func() {
		fetcher := newFetcher(name, &bullmq.FetcherOptions{LockDuration: 50 * time.Millisecond})
		add(nil)
		job, err := fetcher.TryFetch(ctx)
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() string { return stringAt(keyOf(name, job.ID+":lock")) }).Should(BeEmpty())
		Expect(fetcher.Complete(ctx, job, nil)).To(MatchError(bullmq.ErrLockNotFound))
	})

	It("has a token of its own, which a job handle needs to finish it", func() {
		fetcher, err := bullmq.NewFetcher(ctx, name, &bullmq.FetcherOptions{Connection: connection()})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(fetcher.Close)
		add(nil)
		add(nil)
		one, err := fetcher.Fetch(ctx)
		Expect(err).NotTo(HaveOccurred())
		two, err := fetcher.Fetch(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(one.Token()).NotTo(Or(BeEmpty(), Equal(two.Token())))
		Expect(fetcher.Complete(ctx, queue.JobRef(one.ID), nil)).To(MatchError(ContainSubstring("Job.WithToken")))
		Expect(fetcher.Complete(ctx, queue.JobRef(one.ID).WithToken(one.Token()), nil)).To(Succeed())
		Expect(fetcher.Complete(ctx, two, nil)).To(Succeed())
	})

	It("is found after DrainDelay even if its marker is missing", func() {
		fetcher := newFetcher(name, &bullmq.FetcherOptions{DrainDelay: 100 * time.Millisecond})
		got := make(chan *bullmq.Job, 1)
		go func() {
			defer GinkgoRecover()
			job, err := fetcher.Fetch(ctx)
			Expect(err).NotTo(HaveOccurred())
			got <- job
		}()
		waitUntilIdle(queue)
		Expect(redisDo("HSET", keyOf(name, "quiet"), "name", "a", "data", "{}", "opts", "{}", "timestamp", "1").Error()).To(Succeed())
		Expect(redisDo("LPUSH", keyOf(name, "wait"), "quiet").Error()).To(Succeed())
		Eventually(got).Should(Receive(HaveField("ID", "quiet")))
	})
})
