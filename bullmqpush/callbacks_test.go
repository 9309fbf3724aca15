package bullmqpush_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmqpush"
	"github.com/17a2ac88/bullmq-go/internal/testkit/faultproxy"
)

var _ = Describe("A job that an endpoint accepts with 202", func() {
	It("is completed by a callback, while the worker runs other jobs", func() {
		a := accept(setup{worker: bullmq.WorkerOptions{Concurrency: 1}})
		first, second := a.add(nil), a.add(nil)
		Expect(a.call(1, "complete", `{"pages": 3}`)).To(beMade())
		job := inState(a.queue, second.ID, bullmq.StateCompleted)
		Expect(string(job.ReturnValue)).To(MatchJSON(`{"pages":3}`))
		Expect(job.AttemptsMade).To(Equal(1))
		inState(a.queue, first.ID, bullmq.StateActive)
		Expect(a.call(0, "complete", "")).To(beMade())
		Expect(string(inState(a.queue, first.ID, bullmq.StateCompleted).ReturnValue)).To(Equal("null"))
		Expect(a.emitted("completed")).To(Equal(2))
	})

	It("is retried after a callback of a failure, and the address of the earlier attempt is void then", func() {
		a := accept(setup{})
		job := a.add(&bullmq.JobOptions{Attempts: 3})
		Expect(a.call(0, "fail", `{"reason":"no paper"}`)).To(beMade())
		Eventually(a.count).Should(Equal(2))
		Expect(inState(a.queue, job.ID, bullmq.StateActive).FailedReason).To(Equal("no paper"))
		Expect(a.received()[1].header.Get(bullmqpush.HeaderAttempt)).To(Equal("2"))
		Expect(a.address(1)).NotTo(Equal(a.address(0)))
		for _, name := range allCalls {
			Expect(a.call(0, name, "{}")).To(beOver(), name)
		}
		Expect(a.call(1, "fail", `{"reason":"no printer","unrecoverable":true}`)).To(beMade())
		failed := inState(a.queue, job.ID, bullmq.StateFailed)
		Expect(failed.FailedReason).To(Equal("no printer"))
		Expect(failed.AttemptsMade).To(Equal(2))
		Expect(a.count()).To(Equal(2))
	})

	It("fails for good when a callback ends its last attempt, and has a reason even if the callback gives none", func() {
		a := accept(setup{})
		for i, body := range []string{"", "{}", `{"reason":""}`, "null"} {
			job := a.add(nil)
			Expect(a.call(i, "fail", body)).To(beMade(), body)
			Expect(inState(a.queue, job.ID, bullmq.StateFailed).FailedReason).To(Equal("the endpoint failed the job"), body)
		}
	})

	It("stays active for CallbacksOptions.Wait after each callback that extends it", func() {
		a := accept(setup{acceptWait: 20 * time.Second})
		job := a.add(nil)
		Eventually(lockEnd).WithArguments(job).Should(BeNumerically("<=", 20*time.Second)) // the worker has left it
		Expect(a.call(0, "extend", "")).To(beMade())
		Expect(lockEnd(job)).To(BeNumerically(">", 50*time.Minute))
		Expect(command(redis, "PEXPIRE", job.Key()+":lock", "20000")).To(Equal("1"))
		Expect(a.call(0, "progress", `{"page": 7}`)).To(beMade())
		Expect(lockEnd(job)).To(BeNumerically(">", 50*time.Minute))
		Expect(string(inState(a.queue, job.ID, bullmq.StateActive).Progress)).To(MatchJSON(`{"page":7}`))
		Expect(a.emitted("progress")).To(Equal(1))
		Expect(a.call(0, "complete", "")).To(beMade())
	})

	It("runs again if no callback arrives within CallbackWait, and the address of the earlier attempt is void then", func() {
		a := accept(setup{
			acceptWait: 200 * time.Millisecond,
			worker:     bullmq.WorkerOptions{StalledInterval: 100 * time.Millisecond, MaxStalledCount: 1000},
		})
		job := a.add(nil)
		Eventually(a.count).Should(BeNumerically(">=", 2))
		Expect(a.call(0, "extend", "")).To(beOver())
		Eventually(func() reply { return a.call(a.count()-1, "complete", "17") }).Should(beMade())
		done := inState(a.queue, job.ID, bullmq.StateCompleted)
		Expect(done.StalledCounter).To(BeNumerically(">=", 1))
		Expect(done.AttemptsMade).To(Equal(1))
	})

	It("is reported as cancelled to its callbacks, and fails with the reason of the cancellation", func() {
		a := accept(setup{})
		job := a.add(&bullmq.JobOptions{Attempts: 3})
		_, err := a.queue.Cancel(specContext(), job.ID, "void")
		Expect(err).NotTo(HaveOccurred())
		for _, name := range []string{"extend", "progress"} {
			refused := a.call(0, name, "1")
			Expect(refused).To(beRefused(409, bullmqpush.CodeCancelled), name)
			Expect(refused.Detail).To(Equal("the job is cancelled: void"))
		}
		Expect(a.call(0, "fail", `{"reason":"stopped"}`)).To(beMade())
		Expect(inState(a.queue, job.ID, bullmq.StateFailed).FailedReason).To(Equal("cancelled: void"))
		Expect(a.call(0, "fail", "")).To(beOver())
	})

	It("is completed by a callback although it was cancelled", func() {
		a := accept(setup{})
		job := a.add(nil)
		_, err := a.queue.Cancel(specContext(), job.ID, "void")
		Expect(err).NotTo(HaveOccurred())
		Expect(a.call(0, "complete", "1")).To(beMade())
		Expect(string(inState(a.queue, job.ID, bullmq.StateCompleted).ReturnValue)).To(Equal("1"))
	})

	It("may be ended by a callback before the endpoint has answered", func() {
		var made atomic.Int32
		a := accept(setup{answer: func(w http.ResponseWriter, r *http.Request) {
			response, err := caller.Post(r.Header.Get(bullmqpush.HeaderCallback)+"/complete", "application/json", strings.NewReader("17"))
			if err == nil {
				made.Store(int32(response.StatusCode))
				_ = response.Body.Close()
			}
			w.WriteHeader(202)
		}})
		job := a.add(nil)
		Expect(string(inState(a.queue, job.ID, bullmq.StateCompleted).ReturnValue)).To(Equal("17"))
		Eventually(made.Load).Should(Equal(int32(204)))
		inState(a.queue, a.add(nil).ID, bullmq.StateCompleted)
		Expect(a.count()).To(Equal(2))
	})

	It("can't be completed while it has pending children, and can be failed", func() {
		a := accept(setup{})
		job := a.add(nil)
		_, err := a.queue.Add(specContext(), "page", 1, &bullmq.JobOptions{Parent: parent(a.queue, job), Delay: time.Hour})
		Expect(err).NotTo(HaveOccurred())
		Expect(a.call(0, "complete", "")).To(beRefused(409, bullmqpush.CodePendingChildren))
		inState(a.queue, job.ID, bullmq.StateActive)
		Expect(a.call(0, "fail", "")).To(beMade())
		inState(a.queue, job.ID, bullmq.StateFailed)
	})

	It("can't be completed after a child has failed it, and can be failed", func() {
		a := accept(setup{})
		job := a.add(nil)
		child := a.add(&bullmq.JobOptions{Parent: parent(a.queue, job), OnFailure: bullmq.FailParent})
		Expect(a.call(1, "fail", "")).To(beMade())
		inState(a.queue, child.ID, bullmq.StateFailed)
		Expect(a.call(0, "complete", "")).To(beRefused(409, bullmqpush.CodeFailedChildren))
		Expect(a.call(0, "fail", `{"reason":"a page is missing"}`)).To(beMade())
		Expect(inState(a.queue, job.ID, bullmq.StateFailed).FailedReason).To(Equal("a page is missing"))
	})

	It("is not waited for by a worker that stops, and is ended by callbacks afterwards", func() {
		held, release := make(chan struct{}), make(chan struct{})
		var requests atomic.Int32
		a := accept(setup{answer: func(w http.ResponseWriter, _ *http.Request) {
			if requests.Add(1) == 3 {
				close(held)
				<-release
			}
			w.WriteHeader(202)
		}})
		jobs := []*bullmq.Job{a.add(nil), a.add(nil), a.add(nil)}
		Eventually(held).Should(BeClosed())
		stopped := make(chan struct{})
		go func() {
			defer GinkgoRecover()
			defer close(stopped)
			a.stop()
		}()
		close(release) // before or after the worker has begun to stop
		Eventually(stopped, "20s").Should(BeClosed())
		for i, job := range jobs {
			inState(a.queue, job.ID, bullmq.StateActive)
			Expect(lockEnd(job)).To(BeNumerically(">", 50*time.Minute), "the lock of job %d", i)
			Expect(a.call(i, "extend", "")).To(beMade())
			Expect(a.call(i, "complete", fmt.Sprint(i))).To(beMade())
			Expect(string(inState(a.queue, job.ID, bullmq.StateCompleted).ReturnValue)).To(Equal(fmt.Sprint(i)))
		}
	})

	It("is not sent again if the worker can't reach Redis when the endpoint accepts it", func() {
		proxy, err := faultproxy.Start(redis.Addr())
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(proxy.Close)
		cut := make(chan struct{})
		var once sync.Once
		a := accept(setup{
			worker: bullmq.WorkerOptions{URL: "redis://" + proxy.Addr()},
			answer: func(w http.ResponseWriter, _ *http.Request) {
				once.Do(func() {
					_ = proxy.Set(faultproxy.Faults{Refuse: true})
					proxy.CutAll()
					close(cut)
				})
				w.WriteHeader(202)
			},
		})
		job := a.add(&bullmq.JobOptions{Attempts: 3})
		Eventually(cut).Should(BeClosed())
		Expect(a.call(0, "progress", "1")).To(beMade())
		Expect(a.call(0, "complete", "17")).To(beMade())
		Expect(proxy.Set(faultproxy.Faults{})).To(Succeed())
		inState(a.queue, job.ID, bullmq.StateCompleted)
		next := a.add(nil)
		Expect(a.received()[1].header.Get(bullmqpush.HeaderID)).To(HaveSuffix("/" + next.ID))
		Expect(a.call(1, "complete", "")).To(beMade())
	})

	It("completes if there is no address for callbacks", func() {
		to := serve(answering(202, ""))
		queue := work(to.URL, local(bullmqpush.Options{}))
		inState(queue, add(queue, nil).ID, bullmq.StateCompleted)
		Expect(to.received()[0].header).NotTo(HaveKey(bullmqpush.HeaderCallback))
	})
})

// parent returns the reference by which a job becomes a child of another.
func parent(queue *bullmq.Queue, job *bullmq.Job) *bullmq.ParentRef {
	GinkgoHelper()
	stored, err := queue.Job(specContext(), job.ID)
	Expect(err).NotTo(HaveOccurred())
	return stored.AsParent()
}

var _ = Describe("The options of callbacks", func() {
	It("have one Fetcher for each queue", func() {
		key := bullmqpush.NewKey()
		fetcher := func() *bullmq.Fetcher {
			f, err := bullmq.NewFetcher(specContext(), "orders", &bullmq.FetcherOptions{URL: redis.URL()})
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(f.Close)
			return f
		}
		first, second := fetcher(), fetcher()
		_, err := bullmqpush.NewCallbacks(&bullmqpush.CallbacksOptions{Keys: []string{key}}, first, second)
		Expect(err).To(MatchError("bullmqpush: make callbacks: there are two Fetchers for queue orders; make one Callbacks for each of them"))
		_, err = bullmqpush.NewCallbacks(&bullmqpush.CallbacksOptions{Keys: []string{key}}, first, nil)
		Expect(err).To(MatchError("bullmqpush: make callbacks: Fetcher 2 of 2 is nil"))
		_, err = bullmqpush.NewCallbacks(&bullmqpush.CallbacksOptions{Keys: []string{key}}, first)
		Expect(err).NotTo(HaveOccurred())
	})

	DescribeTable("must be valid:", func(o *bullmqpush.CallbacksOptions, text string) {
		_, err := bullmqpush.NewCallbacks(o)
		Expect(err).To(MatchError(And(HavePrefix("bullmqpush: make callbacks: "), ContainSubstring(text))))
	},
		Entry("none", nil, "there is no key"),
		Entry("an invalid key", &bullmqpush.CallbacksOptions{Keys: []string{"whsec_!"}}, "key 1 of 1"),
		Entry("a negative Wait", &bullmqpush.CallbacksOptions{Keys: []string{bullmqpush.NewKey()}, Wait: -1}, "less than 0"),
		Entry("a negative MaxBody", &bullmqpush.CallbacksOptions{Keys: []string{bullmqpush.NewKey()}, MaxBody: -1}, "less than 0"),
		Entry("a negative Timeout", &bullmqpush.CallbacksOptions{Keys: []string{bullmqpush.NewKey()}, Timeout: -1}, "less than 0"),
		Entry("no Fetcher", &bullmqpush.CallbacksOptions{Keys: []string{bullmqpush.NewKey()}}, "there is no Fetcher"),
	)

	shared := bullmqpush.NewKey()
	DescribeTable("must be valid in the client too:", func(change func(o *bullmqpush.Options), text string) {
		o := &bullmqpush.Options{Keys: []string{shared}, CallbackURL: "https://jobs.example.com/callbacks", CallbackKeys: []string{bullmqpush.NewKey()}}
		_, err := bullmqpush.NewClient(o)
		Expect(err).NotTo(HaveOccurred())
		change(o)
		_, err = bullmqpush.NewClient(o)
		Expect(err).To(MatchError(ContainSubstring(text)))
	},
		Entry("no address", func(o *bullmqpush.Options) { o.CallbackURL = "" }, "only together"),
		Entry("no key", func(o *bullmqpush.Options) { o.CallbackKeys = nil }, "only together"),
		Entry("an invalid key", func(o *bullmqpush.Options) { o.CallbackKeys = []string{"whsec_!"} }, "CallbackKeys: key 1 of 1"),
		Entry("a key that endpoints know", func(o *bullmqpush.Options) { o.CallbackKeys = []string{shared} }, "CallbackKeys has one of Keys"),
		Entry("a key that endpoints know, without its prefix", func(o *bullmqpush.Options) { o.CallbackKeys = []string{strings.TrimPrefix(shared, "whsec_")} }, "CallbackKeys has one of Keys"),
		Entry("a negative wait", func(o *bullmqpush.Options) { o.CallbackWait = -1 }, "CallbackWait is less than 0"),
		Entry("no TLS", func(o *bullmqpush.Options) { o.CallbackURL = "http://jobs.example.com" }, "CallbackURL has no TLS"),
		Entry("a query", func(o *bullmqpush.Options) { o.CallbackURL += "?a=1" }, "CallbackURL is not an absolute URL"),
	)
})
