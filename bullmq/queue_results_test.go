package bullmq_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/faultproxy"
)

var _ = Describe("Waiting for a job's result", func() {
	var (
		name  string
		queue *bullmq.Queue
		ctx   context.Context
	)
	BeforeEach(func() {
		name, ctx = newQueueName(), specContext()
		queue = newQueue(name, nil)
	})
	add := func(options *bullmq.JobOptions) *bullmq.Job {
		GinkgoHelper()
		job, err := queue.Add(ctx, "paint", 21, options)
		Expect(err).NotTo(HaveOccurred())
		return job
	}
	doubling := func(_ context.Context, job *bullmq.Job) (any, error) {
		var n int
		err := job.Decode(&n)
		return 2 * n, err
	}
	type outcome struct {
		value string
		err   error
	}
	// waiting starts a wait and returns when it reads events.
	waiting := func(ctx context.Context, id string) <-chan outcome {
		GinkgoHelper()
		done := make(chan outcome, 1)
		go func() {
			value, err := queue.WaitForJob(ctx, id)
			done <- outcome{string(value), err}
		}()
		Eventually(clientList).Should(ContainSubstring("cmd=xread"))
		return done
	}
	const soon = 4 * time.Second // a wait polls every five

	It("returns the value of a job at once when it completes", func() {
		job := add(nil)
		done := waiting(ctx, job.ID)
		runWorker(name, doubling, nil)
		Eventually(done, soon).Should(Receive(Equal(outcome{"42", nil})))
	})

	It("returns the value of a job that completed before", func() {
		job := add(nil)
		runWorker(name, doubling, nil)
		Eventually(func() (bullmq.State, error) { return job.State(ctx) }).Should(Equal(bullmq.StateCompleted))
		Expect(job.Wait(ctx, queue)).To(MatchJSON(`42`))
	})

	It("returns the reason of a failure as an error", func() {
		runWorker(name, func(context.Context, *bullmq.Job) (any, error) { return nil, errors.New(`boom "q"`) }, nil)
		job := add(nil)
		_, err := job.Wait(ctx, queue)
		var failed *bullmq.JobFailedError
		Expect(errors.As(err, &failed)).To(BeTrue())
		Expect(*failed).To(Equal(bullmq.JobFailedError{QueueName: name, JobID: job.ID, Reason: `boom "q"`}))
		Expect(err).To(MatchError(And(ContainSubstring("job 1"), ContainSubstring(name), ContainSubstring(`boom "q"`))))
		_, again := job.Wait(ctx, queue)
		Expect(again).To(Equal(err), "now that it has failed")
	})

	It("continues while the job is retried", func() {
		tries := 0
		runWorker(name, func(context.Context, *bullmq.Job) (any, error) {
			if tries++; tries < 3 {
				return nil, errors.New("not yet")
			}
			return tries, nil
		}, nil)
		Expect(add(&bullmq.JobOptions{Attempts: 3, Backoff: bullmq.FixedBackoff(5 * time.Millisecond)}).Wait(ctx, queue)).To(MatchJSON(`3`))
	})

	It("returns the result after a retry, not the earlier one that the stream still holds", func() {
		runWorker(name, func(_ context.Context, job *bullmq.Job) (any, error) {
			if job.AttemptsStarted == 1 {
				return nil, errors.New("not at first")
			}
			return "in the end", nil
		}, nil)
		for range 50 {
			job := add(nil)
			_, err := job.Wait(ctx, queue)
			Expect(err).To(MatchError(ContainSubstring("not at first")))
			Expect(job.Retry(ctx, bullmq.StateFailed, nil)).To(Succeed())
			Expect(job.Wait(ctx, queue)).To(MatchJSON(`"in the end"`))
		}
	})

	DescribeTable("returns the result of every job that is removed as it finishes:", func(reason error) {
		runWorker(name, func(context.Context, *bullmq.Job) (any, error) { return "done", reason }, &bullmq.WorkerOptions{Concurrency: 5})
		for range 20 {
			job := add(&bullmq.JobOptions{KeepCompleted: bullmq.KeepNone(), KeepFailed: bullmq.KeepNone()})
			value, err := job.Wait(ctx, queue)
			if reason == nil {
				Expect(value, err).To(MatchJSON(`"done"`))
			} else {
				Expect(err).To(MatchError(ContainSubstring("boom")))
			}
		}
		Expect(keysOf(name)).NotTo(ContainElement(HavePrefix(keyOf(name, "2"))))
	},
		Entry("completed", nil), Entry("failed", errors.New("boom")),
	)

	It("finds the result of a removed job in the stream, far back and long before the call", func() {
		redisDo("XADD", keyOf(name, "events"), "*", "event", "completed", "jobId", "7", "returnvalue", `{"a":1}`, "prev", "active")
		others := make([]rueidis.Completed, 2500)
		for n := range others {
			others[n] = raw.B().Arbitrary("XADD").Keys(keyOf(name, "events")).Args("*", "event", "completed", "jobId", fmt.Sprint("other-", n), "returnvalue", "0", "prev", "active").Build()
		}
		for batch := range slices.Chunk(others, 500) {
			raw.DoMulti(ctx, batch...)
		}
		Expect(queue.WaitForJob(ctx, "7")).To(MatchJSON(`{"a":1}`))
	})

	DescribeTable("returns an error when the job is", func(remove func(job *bullmq.Job) error) {
		job := add(&bullmq.JobOptions{Delay: time.Hour})
		queue.PollResultsEvery(300 * time.Millisecond)
		done := waiting(ctx, job.ID)
		Expect(remove(job)).To(Succeed())
		var end outcome
		Eventually(done, soon).Should(Receive(&end))
		Expect(end.err).To(MatchError(bullmq.ErrJobNotFound))
	},
		Entry("removed", func(job *bullmq.Job) error { return job.Remove(ctx) }),
		Entry("drained", func(*bullmq.Job) error { return queue.Drain(ctx, &bullmq.DrainOptions{Delayed: true}) }),
		Entry("obliterated with its queue", func(*bullmq.Job) error { return queue.Obliterate(ctx, nil) }),
	)

	It("returns at once when the job is cleaned, and continues for other jobs", func() {
		job := add(nil)
		done := waiting(ctx, job.ID)
		kept := waiting(ctx, add(&bullmq.JobOptions{Delay: 100 * time.Millisecond}).ID)
		Expect(queue.Clean(ctx, &bullmq.CleanOptions{State: bullmq.StateWaiting})).To(Equal([]string{job.ID}))
		var end outcome
		Eventually(done, soon).Should(Receive(&end))
		Expect(end.err).To(MatchError(bullmq.ErrJobNotFound))
		runWorker(name, doubling, nil)
		Eventually(kept).Should(Receive(Equal(outcome{"42", nil})))
	})

	It("returns an error for a job that never existed", func() {
		_, err := queue.WaitForJob(ctx, "gone")
		Expect(err).To(MatchError(bullmq.ErrJobNotFound))
		Expect(err).To(MatchError(ContainSubstring("job gone")))
	})

	It("returns the cause at the end of its context", func() {
		reason := errors.New("the user went away")
		job := add(nil)
		leaving, leave := context.WithCancelCause(ctx)
		done := waiting(leaving, job.ID)
		leave(reason)
		Eventually(done, soon).Should(Receive(Equal(outcome{"", reason})))

		short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		_, err := job.Wait(short, queue)
		Expect(err).To(MatchError(context.DeadlineExceeded))
	})

	It("returns when the queue is closed", func() {
		job := add(nil)
		done := waiting(ctx, job.ID)
		Expect(queue.Close()).To(Succeed())
		Eventually(done, soon).Should(Receive(Equal(outcome{"", bullmq.ErrClosed})))
	})

	It("shares one connection among many waiters, even several for one job", func() {
		const jobs, each = 20, 3
		reading := func() int { return strings.Count(clientList(), "cmd=xread") }
		Eventually(reading).Should(BeZero(), "readers of other specs are gone")
		results := make(chan string, jobs*each)
		for range jobs {
			job := add(nil)
			for range each {
				go func() {
					defer GinkgoRecover()
					value, err := job.Wait(ctx, queue)
					Expect(err).NotTo(HaveOccurred())
					results <- string(value)
				}()
			}
		}
		Eventually(reading).Should(Equal(1))
		// Between two reads the connection makes other calls.
		Consistently(reading, 50*time.Millisecond).Should(BeNumerically("<=", 1))
		runWorker(name, doubling, &bullmq.WorkerOptions{Concurrency: 5})
		for range jobs * each {
			Eventually(results).Should(Receive(Equal("42")))
		}
	})

	It("reads the job's state at once when its event was trimmed before it was read", func() {
		job := add(nil)
		done := waiting(ctx, job.ID)
		fetcher := newFetcher(name, nil)
		takeJob(fetcher)
		endUnseen(name, job.ID, "42")
		Eventually(done, soon).Should(Receive(Equal(outcome{"42", nil})))
	})

	It("returns on a queue without events, whether busy or idle", func() {
		queue = newQueue(name, &bullmq.QueueOptions{MaxEvents: bullmq.NoEvents})
		runWorker(name, doubling, &bullmq.WorkerOptions{Concurrency: 5})
		const jobs = 200
		results := make(chan string, jobs)
		for range jobs {
			job := add(nil)
			go func() {
				defer GinkgoRecover()
				value, err := job.Wait(ctx, queue)
				Expect(err).NotTo(HaveOccurred())
				results <- string(value)
			}()
		}
		for range jobs {
			Eventually(results, "15s").Should(Receive(Equal("42")))
		}
		Expect(add(nil).Wait(ctx, queue)).To(MatchJSON("42"))
	})

	It("survives the loss of its connection", func() {
		proxy, link := proxiedRedis()
		shaky := newQueue(name, &bullmq.QueueOptions{Connection: link})
		job := add(nil)
		done := make(chan json.RawMessage, 1)
		go func() {
			defer GinkgoRecover()
			value, err := shaky.WaitForJob(ctx, job.ID)
			Expect(err).NotTo(HaveOccurred())
			done <- value
		}()
		Eventually(clientList).Should(ContainSubstring("cmd=xread"))
		Expect(proxy.Set(faultproxy.Faults{Refuse: true})).To(Succeed())
		proxy.CutAll()
		fetcher := newFetcher(name, nil)
		endJob(fetcher, takeJob(fetcher), "late", nil)
		Expect(proxy.Set(faultproxy.Faults{})).To(Succeed())
		Eventually(done).Should(Receive(MatchJSON(`"late"`)))
	})
})

// endUnseen completes a job and trims its event in one transaction.
func endUnseen(name, id, value string) {
	GinkgoHelper()
	Expect(redisDo("EVAL", `
		redis.call('LREM', KEYS[1] .. 'active', 0, ARGV[1])
		redis.call('ZADD', KEYS[1] .. 'completed', 1, ARGV[1])
		redis.call('HSET', KEYS[1] .. ARGV[1], 'returnvalue', ARGV[2], 'finishedOn', 1)
		redis.call('XADD', KEYS[1] .. 'events', '*', 'event', 'completed', 'jobId', ARGV[1], 'returnvalue', ARGV[2])
		for n = 1, 20 do redis.call('XADD', KEYS[1] .. 'events', '*', 'event', 'drained') end
		redis.call('XTRIM', KEYS[1] .. 'events', 'MAXLEN', 15)
		return 1`, "1", keyOf(name, ""), id, value).Error()).To(Succeed())
}
