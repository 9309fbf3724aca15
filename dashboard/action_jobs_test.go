package dashboard_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/dashboard"
)

// inputs returns the values of the hidden inputs of the form of an action, as a browser sends them.
func inputs(page string) url.Values {
	form := url.Values{}
	for _, input := range regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`).FindAllStringSubmatch(page, -1) {
		form.Add(input[1], html.UnescapeString(input[2]))
	}
	return form
}

// fail makes waiting jobs fail.
func (s *site) fail(queue string, jobs int) {
	GinkgoHelper()
	worker, err := bullmq.NewWorker(context.Background(), queue, func(context.Context, *bullmq.Job) (any, error) {
		return nil, errors.New("the bucket is empty")
	}, &bullmq.WorkerOptions{Connection: s.connection})
	Expect(err).NotTo(HaveOccurred())
	running, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(running) }()
	q := s.queue(queue)
	Eventually(func() int {
		counts, _ := q.Counts(context.Background(), bullmq.StateFailed)
		return counts[bullmq.StateFailed]
	}).Should(Equal(jobs))
	stop()
	Expect(<-ended).To(Succeed())
}

var _ = Describe("Actions on jobs", func() {
	ctx := context.Background()
	var s *site
	var orders *bullmq.Queue
	BeforeEach(func() {
		s = open(nil)
		orders = s.queue("orders")
	})
	add := func(name string, data any, options *bullmq.JobOptions) *bullmq.Job {
		GinkgoHelper()
		job, err := orders.Add(ctx, name, data, options)
		Expect(err).NotTo(HaveOccurred())
		return job
	}
	state := func(id string) bullmq.State {
		GinkgoHelper()
		state, err := orders.JobState(ctx, id)
		Expect(err).NotTo(HaveOccurred())
		return state
	}

	It("are offered for the ticked jobs of the list, and for all that match a search", func() {
		for i := range 5 {
			add([]string{"paint", "sand"}[i%2], map[string]int{"order": i}, nil)
		}
		s.fail("orders", 5)
		page := s.page("/queues/orders?state=failed&name=paint")
		Expect(page).To(ContainSubstring(`<input type="checkbox" name="id" value="1" aria-label="select job 1">`))
		Expect(page).To(ContainSubstring(`<button formaction="/queues/orders/actions/retry">Retry</button>`))
		Expect(page).To(ContainSubstring(`<button formaction="/queues/orders/actions/retry?all=1">Retry all</button>`))
		Expect(page).NotTo(ContainSubstring(`actions/promote"`), "the jobs are not delayed")

		form := inputs(page)
		form["id"] = []string{"1", "3"}
		_, asked := s.post("/queues/orders/actions/retry", form)
		Expect(asked).To(ContainSubstring("Retry 2 jobs of orders."))
		Expect(orders.Counts(ctx, bullmq.StateFailed)).To(HaveKeyWithValue(bullmq.StateFailed, 5), "nothing has changed yet")
		_, done := s.post("/queues/orders/actions/retry", inputs(asked))
		Expect(done).To(ContainSubstring("2 jobs retried."))

		form = inputs(page)
		form.Set("id", "5") // a tick does not count when all are selected
		_, asked = s.post("/queues/orders/actions/remove?all=1", form)
		Expect(asked).To(ContainSubstring("Remove 1 job of orders."))
		_, done = s.post("/queues/orders/actions/remove", inputs(asked))
		Expect(done).To(ContainSubstring("1 job removed."))
		Expect(orders.Counts(ctx, bullmq.StateFailed, bullmq.StateWaiting)).To(Equal(map[bullmq.State]int{bullmq.StateFailed: 2, bullmq.StateWaiting: 2}))
	})

	It("name the jobs for which they were refused, and tell if no job was selected", func() {
		add("paint", nil, &bullmq.JobOptions{Delay: time.Hour})
		add("paint", nil, nil)
		response, text := s.post("/queues/orders/actions/promote", url.Values{"job": {"1", "2", "77"}})
		Expect(response.StatusCode).To(Equal(http.StatusOK))
		Expect(text).To(ContainSubstring("1 job promoted. 2 jobs not promoted."))
		Expect(text).To(MatchRegexp(`(?s)jobs/2">2</a></th><td>[^<]*not in the state.*jobs/77">77</a>`))
		response, text = s.post("/queues/orders/actions/promote", url.Values{"job": {"2"}})
		Expect(response.StatusCode).To(Equal(http.StatusConflict))
		Expect(text).To(ContainSubstring(`role="alert"`))
		response, text = s.post("/queues/orders/actions/promote", url.Values{"ask": {"1"}, "state": {"delayed"}})
		Expect(response.StatusCode).To(Equal(http.StatusBadRequest))
		Expect(text).To(ContainSubstring("select jobs"))
	})

	It("retry a job with its attempts cleared", func() {
		add("paint", nil, nil)
		s.fail("orders", 1)
		Expect(s.page("/queues/orders/actions/retry?job=1")).To(ContainSubstring("Retry the job 1 of orders. Its name is paint, its state failed."))
		_, text := s.post("/queues/orders/actions/retry", url.Values{"job": {"1"}, "clear": {"1"}})
		Expect(text).To(ContainSubstring("1 job retried."))
		job, err := orders.Job(ctx, "1")
		Expect(err).NotTo(HaveOccurred())
		Expect(job.AttemptsMade).To(Equal(0))
		Expect(state("1")).To(Equal(bullmq.StateWaiting))
	})

	It("change the delay and the priority", func() {
		add("paint", nil, &bullmq.JobOptions{Delay: time.Hour})
		_, text := s.post("/queues/orders/actions/delay", url.Values{"job": {"1"}, "delay": {"2d"}})
		Expect(text).To(ContainSubstring("1 job delayed."))
		job, err := orders.Job(ctx, "1")
		Expect(err).NotTo(HaveOccurred())
		Expect(job.Delay).To(BeNumerically("~", 48*time.Hour, time.Second))
		response, text := s.post("/queues/orders/actions/delay", url.Values{"job": {"1"}, "delay": {"soon"}, "sent": {"1"}})
		Expect(response.StatusCode).To(Equal(http.StatusBadRequest))
		Expect(text).To(ContainSubstring(`value="soon"`), "what was typed is kept")
		Expect(text).To(ContainSubstring("is not a duration such as"))

		add("sand", nil, nil)
		_, text = s.post("/queues/orders/actions/priority", url.Values{"job": {"2"}, "priority": {"7"}})
		Expect(text).To(ContainSubstring("1 job changed."))
		Expect(state("2")).To(Equal(bullmq.StatePrioritized))
	})

	It("tell that the cancellation of a running job is a request, which the page of the job shows", func() {
		add("paint", nil, nil)
		add("paint", nil, nil)
		s.redisText("LMOVE", "bull:orders:wait", "bull:orders:active", "RIGHT", "LEFT")
		_, text := s.post("/queues/orders/actions/cancel", url.Values{"job": {"1"}, "reason": {"<b>late</b>"}})
		Expect(text).To(ContainSubstring("1 cancellation requested: a worker of BullMQ stops only if its code looks for cancellations."))
		Expect(text).NotTo(ContainSubstring("cancelled."))
		Expect(s.page("/queues/orders/jobs/1")).To(ContainSubstring("A cancellation of the job is requested, with the reason “&lt;b&gt;late&lt;/b&gt;”."))
		_, text = s.post("/queues/orders/actions/cancel", url.Values{"job": {"1", "2"}})
		Expect(text).To(ContainSubstring("1 job cancelled. 1 cancellation requested: a worker of BullMQ"))
		Expect(s.page("/queues/orders/jobs/2")).To(ContainSubstring("The job is cancelled. The next worker that fetches it fails it, without running it."))
		_, text = s.get("/api/v1/queues/orders/jobs/2")
		Expect(text).To(ContainSubstring(`"cancellation":""`))
	})

	It("cancel with a reason, and remove a parent with its children or without", func() {
		add("paint", nil, nil)
		_, text := s.post("/queues/orders/actions/cancel", url.Values{"job": {"1"}, "reason": {"out of paint"}})
		Expect(text).To(ContainSubstring("1 job cancelled."))
		s.fail("orders", 1)
		job, err := orders.Job(ctx, "1")
		Expect(err).NotTo(HaveOccurred())
		Expect(job.FailedReason).To(Equal("cancelled: out of paint"))
		response, text := s.post("/queues/orders/actions/cancel", url.Values{"job": {"1"}})
		Expect(response.StatusCode).To(Equal(http.StatusConflict))
		Expect(text).To(ContainSubstring("the job has finished"))

		flows, err := bullmq.NewFlowProducer(ctx, &bullmq.FlowProducerOptions{Connection: s.connection})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(flows.Close)
		for _, keep := range []string{"", "1"} {
			tree, err := flows.Add(ctx, bullmq.Flow{Name: "house", QueueName: "orders", Children: []bullmq.Flow{{Name: "wall", QueueName: "walls"}}})
			Expect(err).NotTo(HaveOccurred())
			form := url.Values{"job": {tree.Job.ID}}
			if keep != "" {
				form.Set("keep", keep)
			}
			_, text = s.post("/queues/orders/actions/remove", form)
			Expect(text).To(ContainSubstring("1 job removed."))
			counts, err := s.queue("walls").Count(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(counts).To(Equal(len(keep)))
		}
	})

	It("edit the data of a job, check the JSON, and notice a change in between", func() {
		add("paint", map[string]any{"color": "red"}, nil)
		page := s.page("/queues/orders/actions/edit?job=1")
		Expect(html.UnescapeString(page)).To(ContainSubstring("{\n  \"color\": \"red\"\n}</textarea>"))
		form := inputs(page)
		form.Set("value", "{\r\n  \"color\": blue\r\n}")
		response, text := s.post("/queues/orders/actions/edit", form)
		Expect(response.StatusCode).To(Equal(http.StatusBadRequest))
		Expect(text).To(ContainSubstring("this is not JSON, in line 2, column 12"))
		Expect(html.UnescapeString(text)).To(ContainSubstring(`"color": blue`), "what was typed is kept")
		for broken, says := range map[string]string{"": "line 1, column 1", `{"a":`: "line 1, column 6", strings.Repeat("[", 2000) + strings.Repeat("]", 2000): "nested deeper"} {
			form.Set("value", broken)
			response, text := s.post("/queues/orders/actions/edit", form)
			Expect(response.StatusCode).To(Equal(http.StatusBadRequest))
			Expect(text).To(ContainSubstring(says))
		}
		form.Set("value", `{"color": "blue", "n": 1e400}`)
		_, text = s.post("/queues/orders/actions/edit", form)
		Expect(text).To(ContainSubstring("The job has 26 bytes of data."))
		job, err := orders.Job(ctx, "1")
		Expect(err).NotTo(HaveOccurred())
		Expect(string(job.Data)).To(Equal(`{"color":"blue","n":1e400}`))

		form.Set("value", `{}`)
		form.Del("once")
		response, text = s.post("/queues/orders/actions/edit", form)
		Expect(response.StatusCode).To(Equal(http.StatusConflict))
		Expect(text).To(ContainSubstring("the data has changed since you opened the form"))
		response, _ = s.post("/queues/orders/actions/edit", url.Values{"job": {"1", "2"}, "value": {"{}"}})
		Expect(response.StatusCode).To(Equal(http.StatusBadRequest))
	})

	It("duplicate a job with its options, without its id, its deduplication and its delay, and link to the new one", func() {
		add("paint", map[string]string{"color": "red"}, &bullmq.JobOptions{JobID: "first", Attempts: 4, Delay: time.Hour, Priority: 5, Deduplication: &bullmq.Deduplication{ID: "only-one"}})
		_, text := s.post("/queues/orders/actions/duplicate", url.Values{"job": {"first"}})
		Expect(text).To(ContainSubstring("1 job duplicated."))
		at := regexp.MustCompile(`href="(/queues/orders/jobs/([^"]+))">job `).FindStringSubmatch(text)
		Expect(at).NotTo(BeNil())
		s.page(at[1])
		job, err := orders.Job(ctx, at[2])
		Expect(err).NotTo(HaveOccurred())
		Expect(job.Options.Attempts).To(Equal(4))
		Expect(job.Priority).To(Equal(5))
		Expect(job.DeduplicationID).To(BeEmpty())
		Expect(string(job.Data)).To(Equal(`{"color":"red"}`))
		Expect(state(job.ID)).To(Equal(bullmq.StatePrioritized))

		scheduled, err := orders.UpsertScheduler(ctx, "hourly", bullmq.Repeat{Every: time.Hour}, &bullmq.JobTemplate{Name: "count", Data: 1})
		Expect(err).NotTo(HaveOccurred())
		_, text = s.post("/queues/orders/actions/duplicate", url.Values{"job": {scheduled.ID}})
		Expect(text).To(ContainSubstring("1 job duplicated."))
		at = regexp.MustCompile(`href="(/queues/orders/jobs/([^"]+))">job `).FindStringSubmatch(text)
		job, err = orders.Job(ctx, at[2])
		Expect(err).NotTo(HaveOccurred())
		Expect(job.SchedulerID).To(BeEmpty())
		Expect(string(job.RawOptions)).NotTo(ContainSubstring("repeat"))
	})

	It("do nothing a second time when a result is reloaded or a button is pressed twice", func() {
		add("paint", nil, nil)
		form := inputs(s.page("/queues/orders/actions/duplicate?job=1"))
		Expect(form.Get("once")).NotTo(BeEmpty())
		_, first := s.post("/queues/orders/actions/duplicate", form)
		_, second := s.post("/queues/orders/actions/duplicate", form)
		Expect(second).To(Equal(first))
		Expect(orders.Count(ctx)).To(Equal(2))
		_, third := s.post("/queues/orders/actions/duplicate", inputs(s.page("/queues/orders/actions/duplicate?job=1")))
		Expect(third).NotTo(Equal(first))
		Expect(orders.Count(ctx)).To(Equal(3))
	})

	It("act on jobs whose ids no form could hold", func() {
		for _, id := range []string{"..", ".", "~.", "~~", "a/b", `a\b`, "a b&c=d", "\xff\xfe", "null\x00byte", "line\r\nend", "%2f", `"><b>`} {
			s.redisText("HSET", "bull:orders:"+id, "name", "odd", "data", "{}", "opts", "{}", "timestamp", "1700000000000", "delay", "0", "priority", "0")
			s.redisText("ZADD", "bull:orders:failed", "1700000000000", id)
			page := s.page("/queues/orders?state=failed")
			at := regexp.MustCompile(`<th scope="row"><a class="id" title="[^"]*" href="([^"]*)">`).FindStringSubmatch(page)
			Expect(at).NotTo(BeNil(), "%q", id)
			Expect(s.page(html.UnescapeString(at[1]))).To(ContainSubstring("odd"), "%q", id)
			box := regexp.MustCompile(`name="id" value="([^"]*)"`).FindStringSubmatch(page)
			form := inputs(page)
			form.Set("id", html.UnescapeString(box[1]))
			_, asked := s.post("/queues/orders/actions/remove", form)
			_, done := s.post("/queues/orders/actions/remove", inputs(asked))
			Expect(done).To(ContainSubstring("1 job removed."), "%q", id)
			Expect(s.redisText("EXISTS", "bull:orders:"+id)).NotTo(ContainSubstring("1"), "%q", id)
		}
	})

	It("continue behind the jobs that were refused", func() {
		s = open(&dashboard.Options{Timeout: 1500 * time.Millisecond})
		orders = s.queue("orders")
		const jobs = 12_000
		for i := range jobs / 2000 {
			bulk := make([]bullmq.BulkJob, 2000)
			for j := range bulk {
				bulk[j] = bullmq.BulkJob{Name: fmt.Sprintf("batch-%d", i/5), Data: strings.Repeat("x", 1000)}
			}
			_, err := orders.AddBulk(ctx, bulk)
			Expect(err).NotTo(HaveOccurred())
		}
		form := url.Values{"all": {"1"}, "state": {"waiting"}, "name": {"batch-0"}}
		for i := 0; ; i++ {
			Expect(i).To(BeNumerically("<", 100))
			response, text := s.post("/queues/orders/actions/remove", form)
			if response.StatusCode != http.StatusOK {
				continue // the machine was busy
			}
			if !strings.Contains(text, ">Continue</button>") {
				break
			}
			form = inputs(text)
		}
		Expect(orders.Count(ctx)).To(Equal(2000), "those of the other name")
	})

	It("stop in time when there are many jobs, tell how many are left, and continue when repeated", func() {
		s = open(&dashboard.Options{Timeout: 400 * time.Millisecond})
		orders = s.queue("orders")
		const jobs = 6000
		bulk := make([]bullmq.BulkJob, jobs)
		for i := range bulk {
			bulk[i] = bullmq.BulkJob{Name: "paint", Options: &bullmq.JobOptions{Delay: time.Hour}}
		}
		_, err := orders.AddBulk(ctx, bulk)
		Expect(err).NotTo(HaveOccurred())
		form := url.Values{"all": {"1"}, "state": {"delayed"}}
		promote := func() string {
			_, text := s.post("/queues/orders/actions/promote", form)
			return text
		}
		Eventually(promote, "30s").Should(MatchRegexp(`[\d,]+ jobs promoted\. .*repeat the action\.`))
		Eventually(promote, "60s").Should(MatchRegexp(`jobs? promoted\.</p>`))
		Expect(orders.Counts(ctx, bullmq.StateDelayed)).To(HaveKeyWithValue(bullmq.StateDelayed, 0))
	})
})

var _ = Describe("The form for a new job", func() {
	ctx := context.Background()

	It("adds a job with its options, and links to it", func() {
		s := open(nil)
		orders := s.queue("orders")
		Expect(s.page("/queues/orders/actions/add")).To(ContainSubstring("No worker is known"))
		_, text := s.post("/queues/orders/actions/add", url.Values{
			"name": {"paint"}, "data": {"{\"color\": \"red\"}"}, "delay": {"5m"}, "priority": {"3"}, "attempts": {"4"}, "backoff": {"exponential"}, "backoffdelay": {"10s"},
			"jobid": {"order-17"}, "dedup": {"seventeen"}, "dedupttl": {"1h"}, "lifo": {"1"}, "sent": {"1"},
		})
		Expect(text).To(ContainSubstring("Job order-17 was added to orders."))
		Expect(text).To(ContainSubstring(`<a href="/queues/orders/jobs/order-17">job order-17</a>`))
		job, err := orders.Job(ctx, "order-17")
		Expect(err).NotTo(HaveOccurred())
		Expect(string(job.Data)).To(Equal(`{"color":"red"}`))
		Expect(job.Options.Attempts).To(Equal(4))
		Expect(job.Options.Backoff).To(HaveField("Delay", 10*time.Second))
		Expect(job.Options.LIFO).To(BeTrue())
		Expect(job.Priority).To(Equal(3))
		Expect(job.Delay).To(Equal(5 * time.Minute))
		Expect(job.DeduplicationID).To(Equal("seventeen"))

		_, text = s.post("/queues/orders/actions/add", url.Values{"name": {"paint"}, "jobid": {"order-17"}})
		Expect(text).To(ContainSubstring("Nothing was added: the job order-17 exists."))
		_, text = s.post("/queues/orders/actions/add", url.Values{"name": {"paint"}, "dedup": {"seventeen"}})
		Expect(text).To(ContainSubstring("Nothing was added: the job order-17 has the deduplication id."))
	})

	It("tells what is wrong, and keeps what was typed", func() {
		s := open(nil)
		s.queue("orders")
		for says, change := range map[string]url.Values{
			"write the name of the job":                  {"name": {""}},
			"data: this is not JSON, in line 1":          {"data": {"{red}"}},
			"the priority is":                            {"priority": {"high"}},
			"write the backoff delay":                    {"backoff": {"fixed"}},
			"select the backoff":                         {"backoffdelay": {"5s"}},
			"write the deduplication id":                 {"dedupttl": {"5s"}},
			"ids must not be whole numbers":              {"jobid": {"17"}},
			"the delay: &#34;-5m&#34; is not a duration": {"delay": {"-5m"}},
		} {
			form := url.Values{"name": {"paint"}, "data": {`{"kept": "text"}`}, "sent": {"1"}}
			for name, value := range change {
				form[name] = value
			}
			response, text := s.post("/queues/orders/actions/add", form)
			Expect(response.StatusCode).To(BeElementOf(400, 422), says)
			Expect(text).To(MatchRegexp(`role="alert" class="notice bad">[^<]*`+regexp.QuoteMeta(says)), text)
			if change.Get("data") == "" {
				Expect(html.UnescapeString(text)).To(ContainSubstring(`{"kept": "text"}`))
			}
		}
		Expect(s.queue("orders").Count(ctx)).To(Equal(0))
	})

	It("offers typed jobs with an example and a schema, and refuses data that doesn't fit", func() {
		type item struct {
			Name  string  `json:"name"`
			Price float64 `json:"price"`
		}
		type order struct {
			Number int       `json:"number"`
			Items  []item    `json:"items"`
			Note   string    `json:"note,omitempty"`
			At     time.Time `json:"at"`
			Next   *order    `json:"next,omitempty"`
		}
		ship := bullmq.Define[order, any]("ship", bullmq.JobOptions{Attempts: 7})
		s := open(&dashboard.Options{JobTypes: []dashboard.JobType{
			dashboard.TypeOf(ship, "orders"),
			{Name: "count", Queues: []string{"mails"}},
			{Name: "greet", Example: json.RawMessage(`{"to":"you"}`), Check: func(data []byte) error {
				if !strings.Contains(string(data), "to") {
					return fmt.Errorf("there is no to")
				}
				return nil
			}},
		}})
		orders := s.queue("orders")
		page := html.UnescapeString(s.page("/queues/orders/actions/add?type=ship"))
		Expect(page).To(ContainSubstring(`href="/queues/orders/actions/add?type=greet"`))
		Expect(page).NotTo(ContainSubstring("type=count"))
		Expect(page).To(ContainSubstring(`name="name" value="ship"`))
		Expect(page).To(ContainSubstring(`"price": 0`))
		Expect(page).To(ContainSubstring(`"format": "date-time"`))
		_, text := s.post("/queues/orders/actions/add", url.Values{"name": {"ship"}, "data": {`{"number":1,"items":[{"name":"a","price":"much"}]}`}, "sent": {"1"}})
		Expect(html.UnescapeString(text)).To(ContainSubstring("the data doesn't fit ship: cannot unmarshal string"))
		Expect(text).To(ContainSubstring("$.items[0].price"))
		_, text = s.post("/queues/orders/actions/add", url.Values{"name": {"ship"}, "data": {`{"number":1}`}})
		Expect(text).To(ContainSubstring("Job 1 was added"))
		job, err := orders.Job(ctx, "1")
		Expect(err).NotTo(HaveOccurred())
		Expect(job.Options.Attempts).To(Equal(7), "the default of the type")
		response, text := s.post("/queues/orders/actions/edit", url.Values{"job": {"1"}, "value": {`{"number":"x"}`}})
		Expect(response.StatusCode).To(Equal(400))
		Expect(text).To(ContainSubstring("$.number"))
		_, text = s.post("/queues/orders/actions/add", url.Values{"name": {"greet"}, "data": {`{}`}})
		Expect(text).To(ContainSubstring("there is no to"))
	})
})
