package bullmq_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/rs/zerolog"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/faultproxy"
)

var _ = Describe("Jobs that end at the same time", func() {
	const jobs = 30
	var (
		name  string
		queue *bullmq.Queue
		ctx   context.Context
		ids   []string
	)
	BeforeEach(func() {
		name, ctx = newQueueName(), specContext()
		queue = newQueue(name, nil)
		bulk := make([]bullmq.BulkJob, jobs)
		for i := range bulk {
			bulk[i] = bullmq.BulkJob{Name: fmt.Sprint("job-", i)}
		}
		added, err := queue.AddBulk(ctx, bulk)
		Expect(err).NotTo(HaveOccurred())
		ids = nil
		for _, job := range added {
			ids = append(ids, job.ID)
		}
	})

	// together holds all handlers until every job is running.
	together := func(handler bullmq.Handler) (bullmq.Handler, *sync.WaitGroup) {
		var running sync.WaitGroup
		running.Add(jobs)
		return func(ctx context.Context, job *bullmq.Job) (any, error) {
			if strings.HasPrefix(job.Name, "job-") && job.AttemptsStarted == 1 {
				running.Done()
				running.Wait()
			}
			return handler(ctx, job)
		}, &running
	}

	DescribeTable("each end as their handler decides, with a batch size of", func(size int) {
		handler, _ := together(func(_ context.Context, job *bullmq.Job) (any, error) {
			if job.ID == ids[7] || job.ID == ids[8] {
				return nil, errors.New("boom " + job.ID)
			}
			return "done " + job.ID, nil
		})
		runWorker(name, handler, &bullmq.WorkerOptions{Concurrency: jobs, BatchSize: size})
		for i, id := range ids {
			if i == 7 || i == 8 {
				Eventually(stateOf(queue, id)).Should(Equal(bullmq.StateFailed))
				Expect(hashAt(keyOf(name, id))).To(HaveKeyWithValue("failedReason", "boom "+id))
			} else {
				Eventually(stateOf(queue, id)).Should(Equal(bullmq.StateCompleted))
				Expect(hashAt(keyOf(name, id))).To(HaveKeyWithValue("returnvalue", `"done `+id+`"`))
			}
		}
		Expect(listAt(keyOf(name, "active"))).To(BeEmpty())
	},
		Entry("the default", 0),
		Entry("1", 1),
		Entry("7", 7),
	)

	It("complete even if other jobs of the batch lost their lock or were removed", func() {
		var told sync.Map
		release := make(chan struct{})
		handler, running := together(func(context.Context, *bullmq.Job) (any, error) { <-release; return nil, nil })
		runWorker(name, handler, &bullmq.WorkerOptions{
			Concurrency: jobs, SkipStalledCheck: true,
			Events: bullmq.WorkerEvents{Error: func(err error) { told.Store(err.Error(), err) }},
		})
		running.Wait()
		redisDo("DEL", keyOf(name, ids[3])+":lock")
		redisDo("SET", keyOf(name, ids[4])+":lock", "another")
		redisDo("DEL", keyOf(name, ids[5]))
		close(release)
		for i, id := range ids {
			if i < 3 || i > 5 {
				Eventually(stateOf(queue, id)).Should(Equal(bullmq.StateCompleted))
			}
		}
		Eventually(func() (codes []error) {
			told.Range(func(_, err any) bool {
				var refused *bullmq.Error
				if errors.As(err.(error), &refused) {
					codes = append(codes, refused.Code)
				}
				return true
			})
			return codes
		}).Should(ConsistOf(bullmq.ErrLockNotFound, bullmq.ErrLockMismatch, bullmq.ErrJobNotFound))
		Expect(listAt(keyOf(name, "active"))).To(ConsistOf(ids[3], ids[4], ids[5]))
		Expect(stringAt(keyOf(name, ids[4]) + ":lock")).To(Equal("another"))
	})

	It("end once, and the next jobs run once, if replies are lost", func() {
		proxy, via := proxiedRedis()
		more := make([]bullmq.BulkJob, 2000)
		for i := range more {
			more[i] = bullmq.BulkJob{Name: "later"}
		}
		_, err := queue.AddBulk(ctx, more)
		Expect(err).NotTo(HaveOccurred())
		total := int64(jobs + len(more))
		var runs, completed atomic.Int64
		var twice sync.Map
		handler, _ := together(func(_ context.Context, job *bullmq.Job) (any, error) {
			if _, again := twice.LoadOrStore(job.ID, true); again {
				return nil, errors.New("run twice")
			}
			runs.Add(1)
			return "marked", nil
		})
		var lost []<-chan struct{}
		for range 4 {
			lost = append(lost, proxy.LoseReply("marked"))
		}
		lost = append(lost, proxy.LoseCommand("marked"))
		runWorker(name, handler, &bullmq.WorkerOptions{
			Connection: via, Concurrency: jobs, SkipStalledCheck: true, Logger: bullmq.Zerolog(zerolog.New(GinkgoWriter)),
			Events: bullmq.WorkerEvents{Completed: func(*bullmq.Job, any) { completed.Add(1) }},
		})
		for _, one := range lost {
			Eventually(one, "10s").Should(BeClosed())
		}
		Eventually(countOf(queue, bullmq.StateCompleted), "15s").Should(BeEquivalentTo(total))
		Expect(runs.Load()).To(Equal(total))
		Eventually(completed.Load).Should(Equal(total))
		Consistently(listAt, 200*time.Millisecond).WithArguments(keyOf(name, "active")).Should(BeEmpty())
		Expect(proxy.Set(faultproxy.Faults{})).To(Succeed())
	})
})

var _ = Describe("Adds at the same time", func() {
	DescribeTable("are each made once and return their own id, with a batch size of", func(size int) {
		name, ctx := newQueueName(), specContext()
		queue := newQueue(name, &bullmq.QueueOptions{BatchSize: size})
		const adders, each = 40, 25
		var all sync.WaitGroup
		var mine sync.Map
		for a := range adders {
			all.Go(func() {
				defer GinkgoRecover()
				for n := range each {
					var options *bullmq.JobOptions
					switch n % 5 {
					case 1:
						options = &bullmq.JobOptions{Delay: time.Hour}
					case 2:
						options = &bullmq.JobOptions{Priority: 3}
					case 3:
						options = &bullmq.JobOptions{JobID: fmt.Sprintf("own-%d-%d", a, n), LIFO: true}
					}
					job, err := queue.Add(ctx, fmt.Sprint(a, "-", n), map[string]int{"a": a, "n": n}, options)
					Expect(err).NotTo(HaveOccurred())
					_, doubled := mine.LoadOrStore(job.ID, job.Name)
					Expect(doubled).To(BeFalse())
				}
			})
		}
		all.Wait()
		n := 0
		mine.Range(func(id, job any) bool {
			n++
			Expect(hashAt(keyOf(name, id.(string)))).To(HaveKeyWithValue("name", job))
			return true
		})
		Expect(n).To(Equal(adders * each))
		Expect(countOf(queue, bullmq.StateWaiting)()).To(Equal(adders * each * 3 / 5))
	},
		Entry("the default", 0),
		Entry("1", 1),
		Entry("3", 3),
	)

	It("reject an invalid batch size", func() {
		_, err := bullmq.NewQueue(context.Background(), "paint", &bullmq.QueueOptions{Connection: connection(), BatchSize: -1})
		Expect(err).To(MatchError(ContainSubstring("BatchSize -1")))
		_, err = bullmq.NewWorker(context.Background(), "paint", doNothing, &bullmq.WorkerOptions{Connection: connection(), BatchSize: 5000})
		Expect(err).To(MatchError(ContainSubstring("BatchSize 5000")))
	})
})
