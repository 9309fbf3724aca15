package bullmqpush_test

import (
	"net/http"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmqpush"
)

var _ = Describe("A host", func() {
	It("gets no requests for BreakerPause after BreakerFailures, and its jobs wait without using an attempt", func() {
		var broken atomic.Bool
		broken.Store(true)
		to := serve(func(w http.ResponseWriter, _ *http.Request) {
			if broken.Load() {
				w.WriteHeader(500)
			}
		})
		queue := work(to.URL, local(bullmqpush.Options{BreakerFailures: 3, BreakerPause: 500 * time.Millisecond}))
		first := add(queue, &bullmq.JobOptions{Attempts: 3})
		inState(queue, first.ID, bullmq.StateFailed)
		second := add(queue, &bullmq.JobOptions{Attempts: 2})
		inState(queue, second.ID, bullmq.StateDelayed)
		Expect(to.count()).To(Equal(3))

		// The probe fails, and the host is paused again.
		Eventually(to.count).Should(Equal(4))
		Consistently(to.count, "300ms").Should(Equal(4))
		broken.Store(false)
		job := inState(queue, second.ID, bullmq.StateCompleted)
		Expect(job.AttemptsMade).To(Equal(2))
		requests := to.received()
		Expect(requests[3].at.Sub(requests[2].at)).To(BeNumerically(">=", 490*time.Millisecond))
		Expect(requests[4].at.Sub(requests[3].at)).To(BeNumerically(">=", 490*time.Millisecond))
	})

	It("that answers between failures is not paused", func() {
		var calls atomic.Int32
		to := serve(func(w http.ResponseWriter, _ *http.Request) {
			if calls.Add(1)%2 == 1 {
				w.WriteHeader(500)
			}
		})
		queue := work(to.URL, local(bullmqpush.Options{BreakerFailures: 2, BreakerPause: time.Hour}))
		for range 4 {
			Expect(inState(queue, add(queue, &bullmq.JobOptions{Attempts: 2}).ID, bullmq.StateCompleted).AttemptsStarted).To(Equal(2))
		}
	})

	It("is not paused if BreakerFailures is negative", func() {
		to := serve(answering(500, ""))
		queue := work(to.URL, local(bullmqpush.Options{BreakerFailures: -1}))
		inState(queue, add(queue, &bullmq.JobOptions{Attempts: 30}).ID, bullmq.StateFailed)
		Expect(to.count()).To(Equal(30))
	})

	It("gets at most HostConcurrency requests at a time, from all handlers of a client", func() {
		var running, most atomic.Int32
		to := serve(func(http.ResponseWriter, *http.Request) {
			now := running.Add(1)
			for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
			}
			time.Sleep(20 * time.Millisecond)
			running.Add(-1)
		})
		client := newClient(local(bullmqpush.Options{HostConcurrency: 2}))
		ids := map[*bullmq.Queue][]string{}
		for _, path := range []string{"/a", "/b"} {
			handler, err := client.Handler(to.URL + path)
			Expect(err).NotTo(HaveOccurred())
			queue := workBy(handler, bullmq.WorkerOptions{Concurrency: 10})
			for range 10 {
				ids[queue] = append(ids[queue], add(queue, nil).ID)
			}
		}
		for queue, added := range ids {
			for _, id := range added {
				inState(queue, id, bullmq.StateCompleted)
			}
		}
		Expect(most.Load()).To(Equal(int32(2)))
	})

	It("does not hold a job that is cancelled while it waits for its turn", func() {
		release := make(chan struct{})
		to := serve(func(http.ResponseWriter, *http.Request) { <-release })
		queue := work(to.URL, local(bullmqpush.Options{HostConcurrency: 1}))
		first := add(queue, nil)
		Eventually(to.count).Should(Equal(1))
		second := add(queue, nil)
		inState(queue, second.ID, bullmq.StateActive)
		_, err := queue.Cancel(specContext(), second.ID, "")
		Expect(err).NotTo(HaveOccurred())
		inState(queue, second.ID, bullmq.StateFailed)
		close(release)
		inState(queue, first.ID, bullmq.StateCompleted)
		Expect(to.count()).To(Equal(1))
	})

	It("is paused alone: jobs for another host of the same client are sent", func() {
		busy, idle := serve(answering(429, "", "Retry-After", "60")), serve(answering(200, ""))
		client := newClient(local(bullmqpush.Options{}))
		mux := bullmq.NewMux()
		for name, to := range map[string]*endpoint{"busy": busy, "idle": idle} {
			handler, err := client.Handler(to.URL)
			Expect(err).NotTo(HaveOccurred())
			mux.HandleFunc(name, handler)
		}
		queue := workBy(mux.ServeJob, bullmq.WorkerOptions{})
		var waiting []*bullmq.Job
		for range 3 {
			job, err := queue.Add(specContext(), "busy", 1, nil)
			Expect(err).NotTo(HaveOccurred())
			waiting = append(waiting, job)
		}
		job, err := queue.Add(specContext(), "idle", 1, nil)
		Expect(err).NotTo(HaveOccurred())
		inState(queue, job.ID, bullmq.StateCompleted)
		for _, job := range waiting {
			Expect(inState(queue, job.ID, bullmq.StateDelayed).Delay).To(BeNumerically(">", 50*time.Second))
		}
		Expect(busy.count()).To(Equal(1))
	})
})
