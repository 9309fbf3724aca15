package dashboard_test

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/url"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/dashboard"
)

// post sends a form, as a browser does.
func (s *site) post(path string, form url.Values, changes ...func(*http.Request)) (*http.Response, string) {
	GinkgoHelper()
	request, err := http.NewRequest(http.MethodPost, s.web.URL+path, strings.NewReader(form.Encode()))
	Expect(err).NotTo(HaveOccurred())
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Sec-Fetch-Site", "same-origin")
	for _, change := range changes {
		change(request)
	}
	response, err := s.web.Client().Do(request)
	Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	Expect(err).NotTo(HaveOccurred())
	return response, string(text)
}

var _ = Describe("An action of the dashboard", func() {
	ctx := context.Background()

	It("tells what it will do, does it when the form is sent, and tells what it did", func() {
		s := open(nil)
		orders := s.queue("orders")
		for range 3 {
			_, err := orders.Add(ctx, "paint", nil, &bullmq.JobOptions{Delay: time.Hour})
			Expect(err).NotTo(HaveOccurred())
		}
		Expect(s.page("/queues/orders/jobs/1")).To(ContainSubstring(`href="/queues/orders/actions/promote?job=1&amp;state=delayed"`))
		Expect(s.page("/queues/orders/actions/promote?job=1")).To(ContainSubstring("Promote the job 1 of orders."))
		Expect(s.page("/queues/orders/actions/promote?all=1&state=delayed")).To(ContainSubstring("Promote 3 jobs of orders."))
		Expect(orders.Counts(ctx, bullmq.StateDelayed)).To(HaveKeyWithValue(bullmq.StateDelayed, 3), "nothing has changed yet")

		_, text := s.post("/queues/orders/actions/promote", url.Values{"job": {"1"}})
		Expect(text).To(ContainSubstring("1 job promoted."))
		_, text = s.post("/queues/orders/actions/remove", url.Values{"all": {"1"}, "state": {"delayed"}})
		Expect(text).To(ContainSubstring("2 jobs removed."))
		Expect(orders.Counts(ctx, bullmq.StateDelayed, bullmq.StateWaiting)).To(Equal(map[bullmq.State]int{bullmq.StateDelayed: 0, bullmq.StateWaiting: 1}))

		s.post("/queues/orders/actions/pause", nil)
		Expect(orders.IsPaused(ctx)).To(BeTrue())
	})

	It("is refused from another site, without permission, and on a read-only dashboard", func() {
		var records []dashboard.Record
		s := open(&dashboard.Options{
			Access: func(_ *http.Request, use dashboard.Use) error {
				if use.Action == "pause" && use.Queue == "orders" {
					return errors.New("only the night shift may pause orders")
				}
				return nil
			},
			Audit: func(_ *http.Request, record dashboard.Record) { records = append(records, record) },
		})
		orders := s.queue("orders")
		response, text := s.post("/queues/orders/actions/pause", nil)
		Expect(response.StatusCode).To(Equal(http.StatusForbidden))
		Expect(text).To(ContainSubstring("only the night shift may pause orders"))
		Expect(records).To(HaveLen(1))
		Expect(records[0].Err).To(MatchError(ContainSubstring("night shift")))
		Expect(s.page("/queues/orders")).NotTo(ContainSubstring("actions/pause"))

		response, _ = s.post("/queues/orders/actions/resume", nil, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") })
		Expect(response.StatusCode).To(Equal(http.StatusForbidden))
		Expect(records).To(HaveLen(2))
		Expect(records[1].Err).To(MatchError(ContainSubstring("another site")))
		response, _ = s.post("/queues/orders/actions/resume", nil)
		Expect(response.StatusCode).To(Equal(http.StatusOK))
		Expect(records).To(HaveLen(3))
		Expect(records[2].Done).To(Equal("orders is no longer paused."))

		reading := open(&dashboard.Options{ReadOnly: true})
		reading.queue("orders")
		Expect(reading.page("/queues/orders")).NotTo(ContainSubstring("/actions/"))
		response, _ = reading.post("/queues/orders/actions/pause", nil)
		Expect(response.StatusCode).To(Equal(http.StatusForbidden))
		Expect(orders.IsPaused(ctx)).To(BeFalse())
	})

	It("tells Options.Audit of a form that selects too much, but not of a page that only asks", func() {
		var records []string
		s := open(&dashboard.Options{Audit: auditTo(&records)})
		s.queue("orders")
		response, _ := s.post("/queues/orders/actions/remove", url.Values{"id": {"%zz"}})
		Expect(response.StatusCode).To(Equal(http.StatusBadRequest))
		response, _ = s.get("/queues/orders/actions/remove?id=%25zz")
		Expect(response.StatusCode).To(Equal(http.StatusBadRequest))
		Expect(records).To(ConsistOf(ContainSubstring("invalid URL escape")))
	})

	It("does not answer a form with a success after a panic of Options.Audit", func() {
		s := open(&dashboard.Options{Audit: func(*http.Request, dashboard.Record) { panic("the audit is broken") }})
		s.web.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.queue("orders")
		for range 2 { // the second request would get what is remembered of the first
			request, err := http.NewRequest(http.MethodPost, s.web.URL+"/queues/orders/actions/pause", strings.NewReader("once=1"))
			Expect(err).NotTo(HaveOccurred())
			request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			_, err = s.web.Client().Do(request) // there is no reply, thus no body
			Expect(err).To(MatchError(io.EOF))
		}
	})
})
