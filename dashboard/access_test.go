package dashboard_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/dashboard"
)

var _ = Describe("Options.Access", func() {
	ctx := context.Background()

	// only permits some queues.
	only := func(names ...string) func(*http.Request, dashboard.Use) error {
		return func(_ *http.Request, use dashboard.Use) error {
			if use.Queue == "" || slices.Contains(names, use.Queue) {
				return nil
			}
			return errors.New("this queue is not yours")
		}
	}

	It("keeps the names of queues that a user may not see from every page", func() {
		s := open(&dashboard.Options{Access: only("orders")})
		s.queue("orders")
		s.queue("salaries")
		running, stop := context.WithCancel(ctx)
		worker, err := bullmq.NewMultiWorker(ctx, func(context.Context, *bullmq.Job) (any, error) { return nil, nil }, &bullmq.MultiWorkerOptions{
			Worker: bullmq.WorkerOptions{Connection: s.connection, Name: "painter"}, Queues: []bullmq.ServedQueue{{Name: "orders"}, {Name: "salaries"}},
		})
		Expect(err).NotTo(HaveOccurred())
		ended := make(chan error, 1)
		go func() { ended <- worker.Run(running) }()
		DeferCleanup(func() { stop(); Expect(<-ended).To(Succeed()) })
		Eventually(func() string { return s.page("/workers") }).Should(ContainSubstring("painter"))
		flows, err := bullmq.NewFlowProducer(ctx, &bullmq.FlowProducerOptions{Connection: s.connection})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(flows.Close)
		_, err = flows.Add(ctx, bullmq.Flow{Name: "pay", QueueName: "salaries", Children: []bullmq.Flow{{Name: "count", QueueName: "orders", Options: &bullmq.JobOptions{JobID: "child"}}}})
		Expect(err).NotTo(HaveOccurred())
		for _, path := range []string{"/", "/?filter=sal", "/workers", "/queues/orders", "/queues/orders/jobs/child"} {
			Expect(s.page(path)).NotTo(ContainSubstring("salaries"), path)
		}
	})

	It("refuses a queue that does not exist and one that a user may not see with the same reply", func() {
		s := open(&dashboard.Options{Access: only("orders")})
		s.queue("salaries")
		for _, path := range []string{"", "/jobs/1", "/jobs/1/raw/data", "/actions/pause", "/actions/obliterate"} {
			hidden, hiddenText := s.get("/queues/salaries" + path)
			missing, missingText := s.get("/queues/no-queue" + path)
			Expect(hidden.StatusCode).To(Equal(http.StatusForbidden), path)
			Expect(missing.StatusCode).To(Equal(hidden.StatusCode), path)
			Expect(missingText).To(Equal(hiddenText), path)
		}
		hidden, _ := s.post("/queues/salaries/actions/pause", nil)
		missing, _ := s.post("/queues/no-queue/actions/pause", nil)
		Expect([]int{hidden.StatusCode, missing.StatusCode}).To(Equal([]int{403, 403}))
	})

	It("is asked about each of the selected jobs", func() {
		s := open(&dashboard.Options{Access: func(_ *http.Request, use dashboard.Use) error {
			if use.Action != dashboard.ActionRead && use.Job == "2" {
				return errors.New("job 2 stays")
			}
			return nil
		}})
		orders := s.queue("orders")
		for range 3 {
			_, err := orders.Add(ctx, "paint", nil, &bullmq.JobOptions{Delay: time.Hour})
			Expect(err).NotTo(HaveOccurred())
		}
		for _, form := range []url.Values{{"job": {"2"}}, {"job": {"1", "2"}}, {"id": {"3", "2"}}, {"id": {"%32"}}} {
			response, text := s.post("/queues/orders/actions/remove", form)
			Expect(response.StatusCode).To(Equal(http.StatusForbidden))
			Expect(text).To(ContainSubstring("job 2 stays"))
		}
		Expect(orders.Count(ctx)).To(Equal(3))
	})

	It("must permit reading a queue before an action tells something about it", func() {
		s := open(&dashboard.Options{Access: func(_ *http.Request, use dashboard.Use) error {
			if use.Action == dashboard.ActionRead && use.Queue == "orders" {
				return errors.New("not for you")
			}
			return nil
		}})
		s.queue("orders")
		response, _ := s.get("/queues/orders/actions/drain")
		Expect(response.StatusCode).To(Equal(http.StatusForbidden))
	})

	It("must permit replaying in the queue to which a dead letter goes", func() {
		s := open(&dashboard.Options{Access: only("dead", "orders")})
		for _, name := range []string{"orders", "salaries"} {
			_, err := s.queue(name).Add(ctx, "pay", nil, nil)
			Expect(err).NotTo(HaveOccurred())
			s.fail(name, 1)
			Expect(s.queue(name).MoveFailed(ctx, "dead", nil)).To(HaveLen(1))
		}
		letter, err := s.queue("dead").DeadLetter(ctx, "salaries", "1")
		Expect(err).NotTo(HaveOccurred())
		response, _ := s.post("/queues/dead/actions/replay", url.Values{"job": {letter.Letter.ID}})
		Expect(response.StatusCode).NotTo(Equal(http.StatusOK))
		response, _ = s.get("/queues/dead/actions/replay?origin=salaries")
		Expect(response.StatusCode).To(Equal(http.StatusForbidden))
		Expect(s.page("/queues/dead/dead-letters")).NotTo(ContainSubstring("origin=salaries"))
		_, text := s.post("/queues/dead/actions/replay", url.Values{"all": {"1"}})
		Expect(text).To(ContainSubstring("1 dead letter replayed."))
		Expect(s.queue("salaries").Count(ctx)).To(Equal(0))
		Expect(s.queue("orders").Count(ctx)).To(Equal(1))
	})

	It("must permit removing in the queues of the children that a job would take along", func() {
		s := open(&dashboard.Options{Access: only("orders", "items")})
		flows, err := bullmq.NewFlowProducer(ctx, &bullmq.FlowProducerOptions{Connection: s.connection})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(flows.Close)
		_, err = flows.Add(ctx, bullmq.Flow{Name: "order", QueueName: "orders", Options: &bullmq.JobOptions{JobID: "top"}, Children: []bullmq.Flow{
			{Name: "item", QueueName: "items", Children: []bullmq.Flow{{Name: "pay", QueueName: "salaries"}}},
		}})
		Expect(err).NotTo(HaveOccurred())
		response, text := s.post("/queues/orders/actions/remove", url.Values{"job": {"top"}})
		Expect(response.StatusCode).To(Equal(http.StatusForbidden))
		Expect(text).To(ContainSubstring("keep the children"))
		Expect(text).NotTo(ContainSubstring("salaries"))
		Expect(s.queue("salaries").Count(ctx)).To(Equal(1))
		response, _ = s.post("/queues/orders/actions/remove", url.Values{"job": {"top"}, "keep": {"1"}})
		Expect(response.StatusCode).To(Equal(http.StatusOK))
		Expect(s.queue("salaries").Count(ctx)).To(Equal(1))
		_, err = flows.Add(ctx, bullmq.Flow{Name: "order", QueueName: "orders", Options: &bullmq.JobOptions{JobID: "own"}, Children: []bullmq.Flow{{Name: "item", QueueName: "items"}}})
		Expect(err).NotTo(HaveOccurred())
		_, text = s.post("/queues/orders/actions/remove", url.Values{"job": {"own"}})
		Expect(text).To(ContainSubstring("1 job removed."))
	})

	It("does not show the stored data in the form that edits it, if it is redacted", func() {
		s := open(&dashboard.Options{Redact: func(string, string, []byte) []byte { return []byte(`"hidden"`) }})
		_, err := s.queue("orders").Add(ctx, "pay", "the secret", nil)
		Expect(err).NotTo(HaveOccurred())
		page := s.page("/queues/orders/actions/edit?job=1")
		Expect(page).NotTo(ContainSubstring("the secret"))
		Expect(page).To(ContainSubstring("What you write replaces it whole."))
		Expect(page).To(ContainSubstring(`name="was" value=""`), "a digest would tell whether a guess is right")
	})
})
