package dashboard_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/dashboard"
)

var _ = Describe("Moving jobs to another queue", func() {
	ctx := context.Background()

	It("moves selected jobs, or all that match, and links to them", func() {
		s := open(nil)
		orders, later := s.queue("orders"), s.queue("later")
		for range 3 {
			_, err := orders.Add(ctx, "paint", map[string]int{"n": 1}, &bullmq.JobOptions{Delay: time.Hour})
			Expect(err).NotTo(HaveOccurred())
		}
		_, text := s.post("/queues/orders/actions/move", url.Values{"job": {"1"}, "to": {"later"}})
		Expect(text).To(ContainSubstring("1 job moved."))
		Expect(text).To(ContainSubstring(`href="/queues/later/jobs/1"`))
		_, text = s.post("/queues/orders/actions/move", url.Values{"all": {"1"}, "state": {"delayed"}, "to": {"later"}})
		Expect(text).To(ContainSubstring("2 jobs moved."))
		Expect(orders.Count(ctx)).To(Equal(0))
		Expect(later.Counts(ctx, bullmq.StateDelayed)).To(HaveKeyWithValue(bullmq.StateDelayed, 3))
	})

	It("refuses jobs of flows, and a queue that does not exist or that the user may not see or add to", func() {
		s := open(&dashboard.Options{Access: func(_ *http.Request, use dashboard.Use) error {
			if use.Queue == "secret" || use.Queue == "readable" && use.Action != dashboard.ActionRead {
				return errors.New("not for you")
			}
			return nil
		}})
		orders := s.queue("orders")
		for _, name := range []string{"secret", "readable", "later"} {
			s.queue(name)
		}
		flows, err := bullmq.NewFlowProducer(ctx, &bullmq.FlowProducerOptions{Connection: s.connection})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(flows.Close)
		_, err = flows.Add(ctx, bullmq.Flow{Name: "ship", QueueName: "orders", Children: []bullmq.Flow{{Name: "pack", QueueName: "orders", Options: &bullmq.JobOptions{JobID: "child"}}}})
		Expect(err).NotTo(HaveOccurred())
		_, err = orders.Add(ctx, "paint", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		for to, status := range map[string]int{"": 400, "orders": 400, "none": 400, "secret": 400, "readable": 403} {
			response, _ := s.post("/queues/orders/actions/move", url.Values{"job": {"1"}, "to": {to}})
			Expect(response.StatusCode).To(Equal(status), to)
		}
		_, hidden := s.post("/queues/orders/actions/move", url.Values{"job": {"1"}, "to": {"secret"}})
		Expect(hidden).To(ContainSubstring("there is no queue secret"))
		response, text := s.post("/queues/orders/actions/move", url.Values{"job": {"child"}, "to": {"later"}})
		Expect(response.StatusCode).To(Equal(http.StatusConflict))
		Expect(text).To(ContainSubstring("part of a flow"))
		Expect(orders.Count(ctx)).To(Equal(3))
	})
})
