package backendtest

import (
	"fmt"
	"time"

	"github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

func (s *suite) metrics() {
	ginkgo.Describe("Metrics", func() {
		// end runs a job that ends at the given time, and keeps points minutes of metrics.
		end := func(end *backend.End, at time.Time, points int) {
			ginkgo.GinkgoHelper()
			s.run(end.JobID)
			ended, err := s.Store.MoveToFinished(s.ctx, backend.Finish{Now: at, MetricsPoints: points, Worker: worker, Ends: []*backend.End{end}})()
			Expect(err).NotTo(HaveOccurred())
			Expect(ended).To(HaveExactElements(HaveField("Err", BeNil())))
		}
		jobs := 0
		newID := func() string { jobs++; return fmt.Sprint("job-", jobs) }
		minute := func(n int) time.Time { return now.Truncate(time.Minute).Add(time.Duration(n) * time.Minute) }
		read := func(kind backend.State, from, to int) backend.Metrics {
			ginkgo.GinkgoHelper()
			metrics, err := s.Store.Metrics(s.ctx, kind, from, to)
			Expect(err).NotTo(HaveOccurred())
			return metrics
		}

		ginkgo.It("are empty for a queue whose workers collect none", func() {
			end(completion("a", "1"), now, 0)
			metrics := read(backend.Completed, 0, -1)
			Expect(metrics.Count).To(BeZero())
			Expect(metrics.Points).To(BeEmpty())
		})

		ginkgo.It("count the jobs that have completed and those that have failed", func() {
			end(completion("a", "1"), minute(0), 10)
			end(completion("b", "1"), minute(0), 10)
			end(failure("c", "boom"), minute(0), 10)
			Expect(read(backend.Completed, 0, -1).Count).To(Equal(2))
			Expect(read(backend.Failed, 0, -1).Count).To(Equal(1))
		})

		ginkgo.It("have a point for each minute, the newest first, of which a range can be read", func() {
			for n, jobs := range []int{3, 1, 0, 2} {
				for range jobs {
					end(completion(newID(), "1"), minute(n), 10)
				}
			}
			end(completion("last", "1"), minute(4), 10)
			metrics := read(backend.Completed, 0, -1)
			Expect(metrics.Count).To(Equal(7))
			Expect(metrics.Total).To(Equal(len(metrics.Points)))
			sum := 0
			for _, jobs := range metrics.Points {
				sum += jobs
			}
			Expect(metrics.PrevTime).To(BeTemporally("~", minute(4), time.Minute))
			Expect(sum).To(BeNumerically("<=", 7))
			Expect(read(backend.Completed, 0, 0).Points).To(Equal(metrics.Points[:1]))
			Expect(read(backend.Completed, 1, 2).Points).To(Equal(metrics.Points[1:3]))
		})

		ginkgo.It("keep as many points as were asked for", func() {
			for n := range 8 {
				end(completion(newID(), "1"), minute(n), 3)
			}
			Expect(read(backend.Completed, 0, -1).Points).To(HaveLen(3))
		})
	})
}

func (s *suite) rateLimit() {
	ginkgo.Describe("A started rate limit", func() {
		limited := backend.Worker{LockDuration: lockTime, Limit: backend.RateLimit{Max: 100, Duration: time.Minute}}
		take := func(worker backend.Worker) backend.Fetched {
			ginkgo.GinkgoHelper()
			taken, err := s.Store.MoveToActive(s.ctx, now, worker, token)
			Expect(err).NotTo(HaveOccurred())
			return taken[0]
		}

		ginkgo.It("stops the queue for workers with a limit, and for no others", func() {
			Expect(s.Store.StartRateLimit(s.ctx, time.Minute)).To(Succeed())
			s.add(named("a"))
			taken := take(limited)
			Expect(taken.Job).To(BeNil())
			Expect(taken.LimitedFor).To(BeNumerically("~", time.Minute, 10*time.Second))
			Expect(idOf(take(worker))).To(Equal("a"))
		})

		ginkgo.It("ends when its time is over", func() {
			Expect(s.Store.StartRateLimit(s.ctx, 50*time.Millisecond)).To(Succeed())
			s.add(named("a"))
			s.Elapse(60 * time.Millisecond)
			Expect(idOf(take(limited))).To(Equal("a"))
		})

		ginkgo.It("can be removed", func() {
			Expect(s.Store.StartRateLimit(s.ctx, time.Minute)).To(Succeed())
			Expect(s.Store.RemoveRateLimit(s.ctx)).To(BeTrue())
			s.add(named("a"))
			Expect(idOf(take(limited))).To(Equal("a"))
		})

		ginkgo.It("replaces one that lasts for another time", func() {
			Expect(s.Store.StartRateLimit(s.ctx, time.Hour)).To(Succeed())
			Expect(s.Store.StartRateLimit(s.ctx, time.Minute)).To(Succeed())
			Expect(s.Store.RateLimitTTL(s.ctx, 1)).To(BeNumerically("~", time.Minute, 10*time.Second))
		})
	})
}
