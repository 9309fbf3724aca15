package dashboard_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/dashboard"
)

// updated is a page that is updated while it is open.
type updated struct {
	title, path string
	stream      string // its stream; "" if it is updated by time alone
	every       string // milliseconds
}

// fillUpdated makes what the pages of updatedPages show.
func fillUpdated(s *site) {
	GinkgoHelper()
	ctx := context.Background()
	orders := s.queue("orders")
	_, err := orders.UpsertScheduler(ctx, "nightly", bullmq.Repeat{Pattern: "0 3 * * *"}, nil)
	Expect(err).NotTo(HaveOccurred())
	_, err = orders.Add(ctx, "scale", nil, &bullmq.JobOptions{Target: &bullmq.Target{Capabilities: []string{"gpu"}}})
	Expect(err).NotTo(HaveOccurred())
	producer, err := bullmq.NewFlowProducer(ctx, &bullmq.FlowProducerOptions{Connection: s.connection})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(producer.Close)
	_, err = producer.Add(ctx, bullmq.Flow{Name: "ship", QueueName: "orders", Options: &bullmq.JobOptions{JobID: "ship"}, Children: []bullmq.Flow{{Name: "pack", QueueName: "packages"}}})
	Expect(err).NotTo(HaveOccurred())
}

var updatedPages = []updated{
	{"schedulers", "/schedulers", "/live", ""},
	{"a queue's schedulers", "/queues/orders/schedulers", "/live?queue=orders", ""},
	{"a scheduler", "/queues/orders/schedulers/nightly", "/live?queue=orders", ""},
	{"dead letters", "/dead-letters", "/live", ""},
	{"a queue's dead letters", "/queues/orders/dead-letters", "/live?queue=orders", ""},
	{"routes", "/routes", "/live", ""},
	{"a queue's routes", "/queues/orders/routes", "/live?queue=orders&queue=orders%40gpu", ""},
	{"a flow", "/queues/orders/jobs/ship/flow", "/live?queue=orders&queue=packages", ""},
	{"workers", "/workers", "", "5000"},
	{"a queue's workers", "/queues/orders/workers", "", "5000"},
}

var _ = Describe("A page of the dashboard that stays open", func() {
	ctx := context.Background()

	for _, p := range updatedPages {
		It("is updated if it shows "+p.title, func() {
			s := open(nil)
			fillUpdated(s)
			found := regexp.MustCompile(`<main [^>]*data-live="([^"]*)"(?: data-every="(\d+)")?`).FindStringSubmatch(s.page(p.path))
			Expect(found).To(HaveLen(3))
			stream := strings.ReplaceAll(found[1], "&amp;", "&")
			Expect(stream).To(Equal(p.stream))
			Expect(found[2]).To(Equal(p.every))
			if stream != "" {
				changes, _ := s.stream(stream)
				Eventually(changes).Should(Receive())
			}
		})
	}

	It("costs one read for 20 viewers, at most once a second", func() {
		s := open(nil)
		fillUpdated(s)
		for _, p := range updatedPages {
			s.page(p.path)
		}
		alone := s.commands()
		for _, p := range updatedPages {
			response, text := s.get(p.path, asUpdate)
			Expect(response.StatusCode).To(Equal(http.StatusOK), text)
		}
		alone = s.commands() - alone
		time.Sleep(1100 * time.Millisecond) // so that the next requests read
		before := s.commands()
		var viewers sync.WaitGroup
		for range 20 {
			for _, p := range updatedPages {
				viewers.Go(func() {
					defer GinkgoRecover()
					response, text := s.get(p.path, asUpdate)
					Expect(response.StatusCode).To(Equal(http.StatusOK), text)
				})
			}
		}
		viewers.Wait()
		Expect(s.commands()-before).To(BeNumerically("<", 2*alone), "one viewer causes %d commands", alone)
	})

	It("is not the form of an action, which must keep what is typed", func() {
		s := open(nil)
		s.queue("orders")
		Expect(s.page("/queues/orders/actions/add")).NotTo(ContainSubstring("data-live"))
		Expect(s.page("/queues/orders/actions/pause")).NotTo(ContainSubstring("live.js"))
	})

	It("shows each viewer the queues that the viewer may see, although they share what is read", func() {
		s := open(&dashboard.Options{Access: func(r *http.Request, use dashboard.Use) error {
			if use.Queue == "packages" && r.Header.Get("User") != "ada" {
				return errors.New("packages are secret")
			}
			return nil
		}})
		fillUpdated(s)
		_, err := s.queue("packages").UpsertScheduler(ctx, "weekly", bullmq.Repeat{Pattern: "0 3 * * 1"}, nil)
		Expect(err).NotTo(HaveOccurred())
		asAda := func(r *http.Request) { r.Header.Set("User", "ada") }
		for _, path := range []string{"/schedulers", "/queues/orders/jobs/ship/flow"} {
			_, text := s.get(path, asUpdate, asAda)
			Expect(text).To(ContainSubstring("packages"), path)
			_, text = s.get(path, asUpdate)
			Expect(text).NotTo(ContainSubstring("packages"), path)
		}
		response, _ := s.get("/live?queue=orders&queue=packages")
		Expect(response.StatusCode).To(Equal(http.StatusForbidden))
	})

	It("is updated by time alone if it is about more queues than a stream may watch", func() {
		s := open(nil)
		orders := s.queue("orders")
		for i := range 25 {
			_, err := orders.Add(ctx, "scale", nil, &bullmq.JobOptions{Target: &bullmq.Target{Capabilities: []string{fmt.Sprint("kind", i)}}})
			Expect(err).NotTo(HaveOccurred())
		}
		Expect(s.page("/queues/orders/routes")).To(ContainSubstring(`data-live="" data-every="5000"`))
		many := url.Values{}
		for i := range 21 {
			many.Add("queue", fmt.Sprint("orders-", i))
		}
		response, text := s.get("/live?" + many.Encode())
		Expect(response.StatusCode).To(Equal(http.StatusBadRequest))
		Expect(text).To(ContainSubstring("at most 20 queues"))
	})
})
