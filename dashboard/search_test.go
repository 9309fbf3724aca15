package dashboard_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/http"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/dashboard"
)

var _ = Describe("The search for jobs", func() {
	ctx := context.Background()

	It("finds an id in all queues, and a text in the newest jobs, and is offered on each page", func() {
		s := open(nil)
		for i := range 60 {
			_, err := s.queue(fmt.Sprintf("many-%d", i)).Add(ctx, "count", map[string]int{"i": i}, &bullmq.JobOptions{JobID: fmt.Sprintf("job-%d", i)})
			Expect(err).NotTo(HaveOccurred())
		}
		_, err := s.queue("orders").Add(ctx, "<paint>", map[string]string{"customer": "Ada Lovelace"}, &bullmq.JobOptions{Delay: time.Hour})
		Expect(err).NotTo(HaveOccurred())
		_, err = s.queue("mails").Add(ctx, "send", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		s.fail("mails", 1)
		for _, path := range []string{"/", "/queues/orders", "/queues/orders/jobs/1", "/workers", "/search"} {
			Expect(s.page(path)).To(ContainSubstring(`<form class="find" method="get" action="/search"`), path)
		}
		before := s.commands()
		page := s.page("/search?q=job-57")
		Expect(s.commands() - before).To(BeNumerically("<=", 300))
		Expect(page).To(MatchRegexp(`href="/queues/many-57/jobs/job-57">job-57</a></th><td><a href="/queues/many-57">many-57</a></td><td>count</td>\s*<td><span class="badge">waiting</span></td><td>id</td>`))
		Expect(s.page("/search?q=lovelace")).To(And(ContainSubstring("&lt;paint&gt;"), ContainSubstring("<td>data</td>")))
		Expect(s.page("/search?q=bucket+is")).To(ContainSubstring("<td>error</td>"))
		Expect(s.page("/search?q=%3CPAINT")).To(ContainSubstring("<td>name</td>"))
		Expect(s.page("/search?q=nothing+of+the+kind")).To(And(ContainSubstring("No job was found."), ContainSubstring("of 62 queues with jobs")))
		_, text := s.get("/api/v1/search?q=job-57")
		var reply struct {
			Jobs []struct{ ID, Queue, Match, URL string }
		}
		Expect(json.Unmarshal([]byte(text), &reply)).To(Succeed())
		Expect(reply.Jobs).To(HaveExactElements(And(HaveField("Queue", "many-57"), HaveField("Match", "id"), HaveField("URL", "/api/v1/queues/many-57/jobs/job-57"))))
	})

	It("leaves out queues and jobs that the user may not read, and data that is redacted", func() {
		s := open(&dashboard.Options{
			Redact: func(string, string, []byte) []byte { return []byte(`"hidden"`) },
			Access: func(_ *http.Request, use dashboard.Use) error {
				if use.Queue == "secret" || use.Queue == "orders" && use.Job == "2" {
					return errors.New("not for you")
				}
				return nil
			},
		})
		for _, queue := range []string{"secret", "orders", "orders"} {
			_, err := s.queue(queue).Add(ctx, "paint", map[string]string{"customer": "Ada"}, nil)
			Expect(err).NotTo(HaveOccurred())
		}
		for _, q := range []string{"1", "2", "paint"} {
			text := s.page("/search?q=" + q)
			Expect(text).NotTo(Or(ContainSubstring("secret"), ContainSubstring("orders/jobs/2")), q)
			Expect(text).To(ContainSubstring("Data is hidden, so it was not searched."))
		}
		Expect(s.page("/search?q=paint")).To(ContainSubstring("orders/jobs/1"))
		Expect(s.page("/search?q=ada")).To(ContainSubstring("No job was found."))
	})
})

var _ = Describe("The list of the jobs of a queue", func() {
	ctx := context.Background()

	It("shows the jobs of all states, and selects by age, from the end of finished jobs and otherwise from the add", func() {
		s := open(nil)
		orders := s.queue("orders")
		for _, options := range []bullmq.JobOptions{{}, {}} {
			_, err := orders.Add(ctx, "paint", nil, &options)
			Expect(err).NotTo(HaveOccurred())
		}
		s.fail("orders", 2)
		hourAgo := time.Now().Add(-time.Hour).UnixMilli()
		s.redisText("HSET", "bull:orders:1", "finishedOn", fmt.Sprint(hourAgo))
		s.redisText("ZADD", "bull:orders:failed", fmt.Sprint(hourAgo), "1")
		_, err := orders.Add(ctx, "old", nil, &bullmq.JobOptions{Timestamp: time.UnixMilli(hourAgo)})
		Expect(err).NotTo(HaveOccurred())
		all := s.page("/queues/orders?state=all")
		Expect(all).To(And(ContainSubstring(`id="j-1"`), ContainSubstring(`id="j-2"`), ContainSubstring(`id="j-3"`), ContainSubstring(`>all <b>3</b>`), ContainSubstring(`<th scope="col">State</th>`)))
		Expect(all).NotTo(ContainSubstring("?all=1"))
		old := s.page("/queues/orders?state=failed&older=30m")
		Expect(old).To(And(ContainSubstring(`id="j-1"`), Not(ContainSubstring(`id="j-2"`)), ContainSubstring(`<input type="hidden" name="older" value="30m">`)))
		Expect(s.page("/queues/orders?state=failed&newer=30m")).To(And(ContainSubstring(`id="j-2"`), Not(ContainSubstring(`id="j-1"`))))
		Expect(s.page("/queues/orders?state=waiting&older=30m")).To(ContainSubstring(`id="j-3"`))
		Expect(s.page("/queues/orders?state=all&older=30m")).To(And(ContainSubstring(`id="j-3"`), Not(ContainSubstring(`id="j-1"`))))
		response, _ := s.get("/queues/orders?state=failed&older=long")
		Expect(response.StatusCode).To(Equal(400))
		Expect(s.page("/queues/orders/actions/remove?all=1&state=failed&older=30m")).To(ContainSubstring("Remove 1 job of orders."))
		_, text := s.get("/api/v1/queues/orders/jobs?state=failed&older=30m")
		Expect(text).To(And(ContainSubstring(`"id":"1"`), Not(ContainSubstring(`"id":"2"`))))
	})

	It("shows when finished jobs finished, and the error of failed ones before their data", func() {
		s := open(nil)
		_, err := s.queue("orders").Add(ctx, "paint", nil, &bullmq.JobOptions{Timestamp: time.UnixMilli(1_700_000_000_000)})
		Expect(err).NotTo(HaveOccurred())
		Expect(s.page("/queues/orders?state=waiting")).To(MatchRegexp(`<th scope="col">Added</th>.*<th scope="col">Data</th></tr>`), "no job has an error")
		s.fail("orders", 1)
		page := s.page("/queues/orders?state=failed")
		Expect(page).To(MatchRegexp(`<th scope="col">Finished</th>.*<th scope="col">Error</th><th scope="col">Data</th>`))
		Expect(page).NotTo(ContainSubstring("2023-11-14"))
		Expect(s.page("/queues/orders?state=completed")).To(ContainSubstring("No job of this state matches."))
	})
})

var _ = Describe("A reply about what does not exist", func() {
	ctx := context.Background()

	It("names the job as its reader knows it, without the command and the code", func() {
		s := open(nil)
		_, err := s.queue("orders").Add(ctx, "paint", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		for _, path := range []string{"/queues/orders/jobs/99", "/queues/orders/actions/retry?job=99", "/api/v1/queues/orders/jobs/99"} {
			response, text := s.get(path)
			Expect(response.StatusCode).To(Equal(404), path)
			Expect(html.UnescapeString(text)).To(ContainSubstring("there is no job 99 in orders"), path)
			Expect(text).NotTo(Or(ContainSubstring("bullmq:"), ContainSubstring("code -1")), path)
		}
		_, text := s.post("/queues/orders/actions/remove", map[string][]string{"job": {"98", "99"}})
		Expect(text).To(And(ContainSubstring("there is no job 98 in orders"), Not(ContainSubstring("code -1"))))
	})

	It("does not call a queue of dead letters one without workers", func() {
		s := open(nil)
		_, err := s.queue("orders").Add(ctx, "paint", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		s.fail("orders", 1)
		_, err = s.queue("orders").MoveFailed(ctx, "dead", nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(s.page("/")).NotTo(ContainSubstring("no workers"))
		Expect(s.page("/queues/dead")).NotTo(ContainSubstring("no workers"))
	})
})
