package bullmqhttp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmqhttp"
)

type (
	order struct {
		ID    string      `json:"id"`
		Items []orderItem `json:"items"`
		Paid  bool        `json:"paid"`
	}
	orderItem struct {
		Count int8       `json:"count"`
		Price float64    `json:"price"`
		Tags  []string   `json:"tags"`
		Due   *time.Time `json:"due,omitempty"`
	}
	invoice struct {
		Status int `json:"status"` // as a Response has one
	}
)

var bill = bullmq.Define[order, invoice]("bill", bullmq.JobOptions{Attempts: 1})

// billed is a handler of bill.
func billed(_ context.Context, _ *bullmq.Job, o order) (invoice, error) {
	if !o.Paid {
		return invoice{}, bullmq.Unrecoverable(errors.New("the order is not paid"))
	}
	return invoice{Status: 201}, nil
}

type check = func(r *http.Request, o *order, options *bullmq.JobOptions) error

// byOrder makes the id of the job from that of the order.
func byOrder(_ *http.Request, o *order, options *bullmq.JobOptions) error {
	options.JobID = "order-" + o.ID
	return nil
}

// startOrders starts a service with "POST /orders" and the jobs below /orders. o and queueOptions may be nil.
func startOrders(t *bullmq.JobType[order, invoice], check check, o *bullmqhttp.Options, queueOptions *bullmq.QueueOptions) *service {
	GinkgoHelper()
	if queueOptions == nil {
		queueOptions = &bullmq.QueueOptions{URL: redis.URL()}
	}
	if o == nil {
		o = &bullmqhttp.Options{}
	}
	o.Base = "/orders"
	queue, err := bullmq.NewQueue(context.Background(), fmt.Sprint("http-", queues.Add(1)), queueOptions)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(queue.Close)
	jobs := bullmqhttp.New(queue, o)
	mux := http.NewServeMux()
	handler := bullmqhttp.Post(jobs, t, check)
	mux.Handle("/orders", handler)
	mux.Handle("PUT /customers/{customer}/orders/{id}", handler)
	mux.Handle("/orders/", jobs)
	web := httptest.NewServer(mux)
	DeferCleanup(web.Close)
	DeferCleanup(jobs.Close)
	transport := &http.Transport{MaxIdleConnsPerHost: 100}
	DeferCleanup(transport.CloseIdleConnections)
	return &service{queue, jobs, web.URL, &http.Client{Transport: transport}}
}

// order posts an order.
func (s *service) order(body string, headers ...string) answer {
	GinkgoHelper()
	return s.do("POST", "/orders", body, append([]string{"Content-Type", "application/json"}, headers...)...)
}

func (s *service) workOrders(handler func(context.Context, *bullmq.Job, order) (invoice, error)) {
	GinkgoHelper()
	mux := bullmq.NewMux()
	bullmq.Handle(mux, bill, handler)
	s.workWith(mux.ServeJob, &bullmq.WorkerOptions{Concurrency: 10})
}

func (s *service) storedJob(id string) *bullmq.Job {
	GinkgoHelper()
	job, err := s.queue.Job(context.Background(), id)
	Expect(err).NotTo(HaveOccurred())
	return job
}

var _ = Describe("A posted job of a type", func() {
	It("is an ordinary job, and the reply is 202 with its address and links", func() {
		s := startOrders(bill, nil, nil, nil)
		a := s.order(` {"paid": true, "id": "<1>", "other": 1} `)
		Expect(a.status).To(Equal(http.StatusAccepted), a.body)
		Expect(a.header.Get("Retry-After")).To(Equal("1"))
		job := a.job()
		Expect(job.ID).To(MatchRegexp(`^rq-[\w-]{22}$`))
		Expect(job.State).To(Equal(bullmqhttp.Queued))
		Expect(job.Route).To(Equal("bill"))
		self := "/orders/" + job.ID
		Expect(a.header.Get("Location")).To(Equal(self))
		Expect(job.Links).To(Equal(bullmqhttp.Links{Self: self, Result: self + "/result", Events: self + "/events", Cancel: self + "/cancel"}))
		stored := s.storedJob(job.ID)
		Expect(stored.Name).To(Equal("bill"))
		Expect(string(stored.Data)).To(Equal(`{"id":"<1>","items":null,"paid":true}`))
		Expect(stored.RawOptions).To(MatchJSON(`{"attempts":1,"jobId":"` + job.ID + `","removeOnComplete":{"age":86400},"removeOnFail":{"age":86400}}`))
	})

	It("has its result in the status, at the address of the result, and in the last event", func() {
		s := startOrders(bill, nil, nil, nil)
		s.workOrders(billed)
		location := s.order(`{"paid":true}`).header.Get("Location")
		status := s.ended(location)
		Expect(status.State).To(Equal(bullmqhttp.Succeeded))
		Expect(string(status.Result)).To(Equal(`{"status":201}`))
		Expect(status.ResponseStatus).To(BeZero())
		Expect(status.Expires).To(Equal(status.Ended.Add(24 * time.Hour)))
		result := s.get(location, "/result")
		Expect(result.status).To(Equal(http.StatusOK))
		Expect(result.header.Get("Content-Type")).To(Equal("application/json"))
		Expect(result.body).To(Equal(`{"status":201}`))
		events, _ := s.listen(location, "")
		var last sent
		Eventually(events).Should(Receive(&last))
		Expect(last.name).To(Equal("end"))
		Expect(string(last.job().Result)).To(Equal(`{"status":201}`))
	})

	It("has its result in the last event even if it is removed at its end", func() {
		brief := bullmq.Define[order, invoice]("bill", bullmq.JobOptions{KeepCompleted: bullmq.KeepNone()})
		s := startOrders(brief, nil, nil, nil)
		location := s.order(`{"paid":true}`).header.Get("Location")
		events, _ := s.listen(location, "")
		var last sent
		Eventually(events).Should(Receive(&last))
		s.workOrders(billed)
		for event := range events {
			last = event
		}
		Expect(last.name).To(Equal("end"))
		Expect(last.job().Route).To(Equal("bill"))
		Expect(string(last.job().Result)).To(Equal(`{"status":201}`))
		Expect(s.get(location, "").status).To(Equal(http.StatusNotFound))
	})

	It("is answered with its result if the client prefers to wait", func() {
		s := startOrders(bill, nil, nil, nil)
		s.workOrders(billed)
		a := s.order(`{"paid":true}`, "Prefer", "wait=20")
		Expect(a.status).To(Equal(http.StatusOK), a.body)
		Expect(a.header.Get("Content-Location")).To(MatchRegexp(`^/orders/rq-[\w-]+/result$`))
		Expect(a.body).To(Equal(`{"status":201}`))
	})

	It("has the reason of its failure as Options.Reason shows it", func() {
		s := startOrders(bill, nil, nil, nil)
		s.workOrders(billed)
		hidden := s.ended(s.order(`{}`).header.Get("Location"))
		Expect(hidden.State).To(Equal(bullmqhttp.Failed))
		Expect(hidden.Error).To(Equal("the job failed"))
		shown := startOrders(bill, nil, &bullmqhttp.Options{Reason: func(reason string) string { return reason }}, nil)
		shown.workOrders(billed)
		location := shown.order(`{}`).header.Get("Location")
		Expect(shown.ended(location).Error).To(Equal("the order is not paid"))
		result := shown.get(location, "/result")
		Expect(result.status).To(Equal(http.StatusInternalServerError))
		Expect(result.code()).To(Equal(bullmqhttp.CodeJobFailed))
	})

	It("without a result has the status 204 at the address of the result", func() {
		s := startOrders(bill, nil, nil, nil)
		s.workWith(func(context.Context, *bullmq.Job) (any, error) { return nil, nil }, &bullmq.WorkerOptions{})
		location := s.order(`{}`).header.Get("Location")
		Expect(s.ended(location).Result).To(BeEmpty())
		Expect(s.get(location, "/result").status).To(Equal(http.StatusNoContent))
	})

	It("is cancelled while it runs", func() {
		s, started := startOrders(bill, byOrder, nil, nil), make(chan bool, 1)
		s.workOrders(func(ctx context.Context, _ *bullmq.Job, _ order) (invoice, error) {
			started <- true
			<-ctx.Done()
			return invoice{}, context.Cause(ctx)
		})
		location := s.order(`{"id":"a"}`).header.Get("Location")
		Eventually(started).Should(Receive())
		Expect(s.get(location, "").job().State).To(Equal(bullmqhttp.Running))
		Expect(s.do("DELETE", location, "").status).To(Equal(http.StatusAccepted))
		Expect(s.ended(location).State).To(Equal(bullmqhttp.Cancelled))
		Expect(s.do("DELETE", location, "").status).To(Equal(http.StatusOK))
		Expect(s.get(location, "/result").code()).To(Equal(bullmqhttp.CodeCancelled))
		Expect(s.order(`{"id":"a"}`).job().State).To(Equal(bullmqhttp.Cancelled)) // a late repetition does not undo it
	})

	It("has the retention of its type, and otherwise that of the Server", func() {
		kept := bullmq.Define[order, invoice]("bill", bullmq.JobOptions{KeepCompleted: bullmq.KeepFor(time.Hour)})
		s := startOrders(kept, nil, &bullmqhttp.Options{KeepFor: time.Minute}, nil)
		a := s.order(`{"paid":true}`)
		Expect(s.storedJob(a.job().ID).RawOptions).To(And(ContainSubstring(`"removeOnComplete":{"age":3600}`), ContainSubstring(`"removeOnFail":{"age":60}`)))
		s.workOrders(billed)
		status := s.ended(a.header.Get("Location"))
		Expect(status.Expires).To(Equal(status.Ended.Add(time.Hour)))
	})

	It("that other programs have added is served too, and jobs of other names and other keys of the queue are not", func() {
		s := startOrders(bill, nil, nil, nil)
		ctx := context.Background()
		added, err := bill.Add(ctx, s.queue, order{ID: "a"}, nil)
		Expect(err).NotTo(HaveOccurred())
		other, err := s.queue.Add(ctx, "other", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(s.get("/orders/"+added.ID, "").job().State).To(Equal(bullmqhttp.Queued))
		for _, id := range []string{other.ID, "none", "meta", "events", "wait", "id", "x:logs", "%00", "%ff", "%2e%2e", "a%2Fb", strings.Repeat("a", 1001)} {
			Expect(s.get("/orders/"+id, "").code()).To(Equal(bullmqhttp.CodeJobNotFound), id)
			Expect(s.do("DELETE", "/orders/"+id, "").status).To(Equal(http.StatusNotFound), id)
		}
	})

	It("is shown as failed after it has become a dead letter", func() {
		ctx := context.Background()
		dead, err := bullmq.NewQueue(ctx, fmt.Sprint("http-", queues.Add(1)), &bullmq.QueueOptions{URL: redis.URL()})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(dead.Close)
		s := startOrders(bill, byOrder, &bullmqhttp.Options{DeadLetters: dead, Reason: func(reason string) string { return reason }}, nil)
		mux := bullmq.NewMux()
		bullmq.Handle(mux, bill, billed)
		s.workWith(mux.ServeJob, &bullmq.WorkerOptions{DeadLetters: &bullmq.DeadLetterOptions{QueueName: dead.Name()}})
		location := s.order(`{"id":"a"}`).header.Get("Location")
		Eventually(func() error {
			_, err := dead.DeadLetter(ctx, s.queue.Name(), "order-a")
			return err
		}).Should(Succeed())
		status := s.get(location, "").job()
		Expect(status.State).To(Equal(bullmqhttp.Failed))
		Expect(status.Error).To(Equal("the order is not paid"))
		Expect(status.Attempts).To(Equal(1))
		Expect(s.get(location, "/result").code()).To(Equal(bullmqhttp.CodeJobFailed))
		Expect(s.do("DELETE", location, "").code()).To(Equal(bullmqhttp.CodeFinished))
		_, err = s.queue.TrimEvents(ctx, 0)
		Expect(err).NotTo(HaveOccurred())
		events, _ := s.listen(location, "")
		var last sent
		Eventually(events).Should(Receive(&last))
		Expect(last.name).To(Equal("end"))
		Expect(last.job().Error).To(Equal("the order is not paid"))
		Expect(s.get("/orders/order-b", "").status).To(Equal(http.StatusNotFound))
	})
})

var _ = Describe("The handler of a job type", func() {
	It("can't be made without a Server or a type, or with a name that has another route", func() {
		s := startOrders(bill, nil, nil, nil)
		Expect(func() { bullmqhttp.Post(nil, bill, nil) }).To(PanicWith(ContainSubstring("nil")))
		Expect(func() { bullmqhttp.Post[order, invoice](s.server, nil, nil) }).To(PanicWith(ContainSubstring("nil")))
		Expect(func() { bullmqhttp.Post(s.server, bill, nil) }).To(PanicWith(ContainSubstring(`"bill" exists`)))
		Expect(func() { s.server.Async("bill", bullmqhttp.Route{}) }).To(PanicWith(ContainSubstring(`"bill" exists`)))
	})

	It("shares its Server with routes of stored requests", func() {
		s := start(nil, bullmqhttp.Route{}, nil)
		handler := bullmqhttp.Post(s.server, bill, nil)
		recorder := httptest.NewRecorder()
		r := httptest.NewRequest("POST", "/orders", strings.NewReader(`{"paid":true}`))
		r.Header.Set("Content-Type", "application/json")
		handler.ServeHTTP(recorder, r)
		report := s.submit().header.Get("Location")
		mux := bullmq.NewMux()
		bullmq.Handle(mux, bill, billed)
		mux.HandleFunc("report", bullmqhttp.Serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) })))
		s.workWith(mux.ServeJob, &bullmq.WorkerOptions{})
		Expect(string(s.ended(recorder.Header().Get("Location")).Result)).To(Equal(`{"status":201}`))
		status := s.ended(report)
		Expect(status.ResponseStatus).To(Equal(http.StatusCreated))
		Expect(status.Result).To(BeEmpty())
	})
})
