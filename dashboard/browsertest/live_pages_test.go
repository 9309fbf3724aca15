package browsertest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/chromedp/chromedp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("An open page", Ordered, ContinueOnFailure, func() {
	var (
		w *world
		t *tab
	)
	BeforeAll(func() {
		w = openWorld(nil)
		t = browser.open(views[0])
	})
	open := func(address string) {
		GinkgoHelper()
		t.load(address)
		t.mark()
	}

	It("of all schedulers shows one that a program adds, pauses, resumes and removes", func() {
		reports := w.queue("reports")
		open(w.at("/schedulers"))
		Expect(t.text()).To(ContainSubstring("No scheduler"))
		nightly(w, "reports")
		Eventually(t.text).Should(And(ContainSubstring("nightly"), ContainSubstring("at 03:00")))
		Expect(reports.PauseScheduler(w.ctx, "nightly")).To(Succeed())
		Eventually(t.text).Should(ContainSubstring("paused"))
		Expect(reports.ResumeScheduler(w.ctx, "nightly")).To(Succeed())
		Eventually(t.text).ShouldNot(ContainSubstring("paused"))
		Expect(reports.RemoveScheduler(w.ctx, "nightly")).To(Succeed())
		Eventually(t.text).Should(ContainSubstring("No scheduler"))
		t.same()
	})

	It("of the schedulers of a queue, and of one, shows a run and a pause", func() {
		w.queue("cleaning")
		open(w.at("/queues/cleaning/schedulers"))
		_, err := w.queue("cleaning").UpsertScheduler(w.ctx, "sweep", bullmq.Repeat{Every: time.Hour}, nil)
		Expect(err).NotTo(HaveOccurred())
		Eventually(t.text).Should(And(ContainSubstring("sweep"), ContainSubstring("none yet")))
		t.same()
		open(w.at("/queues/cleaning/schedulers/sweep"))
		w.work("cleaning", "sweeper", nil)
		Expect(w.queue("cleaning").RunScheduler(w.ctx, "sweep")).Error().NotTo(HaveOccurred())
		Expect(w.queue("cleaning").PauseScheduler(w.ctx, "sweep")).To(Succeed())
		Eventually(t.text).Should(ContainSubstring("It is paused since"))
		t.same()
	})

	It("of workers shows one of this SDK and one of Node that start, and what runs", func() {
		release := make(chan struct{})
		defer close(release)
		w.queue("orders")
		open(w.at("/workers"))
		Expect(t.text()).NotTo(ContainSubstring("packer"))
		w.work("orders", "packer", func(context.Context, *bullmq.Job) (any, error) { <-release; return nil, nil })
		w.node("worker.mjs", "-queue", "mails", "-name", "mailer")
		id := w.add("orders", "pack-the-box", nil, nil)
		w.reaches("orders", id, bullmq.StateActive)
		Eventually(t.text).Should(And(ContainSubstring("packer"), ContainSubstring("pack-the-box")))
		Eventually(t.text).WithTimeout(40*time.Second).Should(ContainSubstring("mailer"), "Node's queue is found by the next scan")
		t.same()
	})

	It("of the workers of a queue shows one that starts", func() {
		w.queue("labels")
		open(w.at("/queues/labels/workers"))
		Expect(t.text()).To(ContainSubstring("No worker"))
		w.work("labels", "printer", nil)
		Eventually(t.text).Should(ContainSubstring("printer"))
		t.same()
	})

	It("of routes shows jobs that wait for a worker, and that it comes", func() {
		gpu := &bullmq.JobOptions{Target: &bullmq.Target{Capabilities: []string{"gpu"}}}
		w.add("thumbnails", "scale", nil, gpu)
		for _, path := range []string{"/routes", "/queues/thumbnails/routes"} {
			open(w.at(path))
			before := w.routeReady()
			ready := func() int {
				return eval[int](t, `Number([...document.querySelectorAll('tbody tr')].find(row => row.innerText.includes('thumbnails'))?.cells[2].innerText ?? -1)`)
			}
			Eventually(ready).WithTimeout(40*time.Second).Should(Equal(before), "the route is found by the next scan")
			w.add("thumbnails", "scale", nil, gpu)
			Eventually(ready).Should(Equal(before + 1))
			t.same()
		}
		worker, err := bullmq.NewRoutedWorker(w.ctx, "thumbnails", func(context.Context, *bullmq.Job) (any, error) { return nil, nil },
			&bullmq.RoutedWorkerOptions{
				Worker: bullmq.WorkerOptions{Connection: w.connection, Name: "scaler", Registration: &bullmq.RegistrationOptions{Capabilities: []string{"gpu"}}},
			})
		Expect(err).NotTo(HaveOccurred())
		running, stop := context.WithCancel(w.ctx)
		ended := make(chan error, 1)
		go func() { ended <- worker.Run(running) }()
		DeferCleanup(func() { stop(); Expect(<-ended).To(Succeed()) })
		Eventually(t.text).WithTimeout(40 * time.Second).Should(ContainSubstring("scaler"))
		t.same()
	})

	It("of dead letters shows one that arrives, and keeps the selection and the focus", func() {
		w.queue("payments-dead")
		open(w.at("/dead-letters"))
		Expect(t.text()).To(ContainSubstring("No dead letter"))
		w.deadLetters("payments", "payments-dead")
		Eventually(t.text).Should(MatchRegexp(`payments-dead\s+2`))
		t.same()

		open(w.at("/queues/payments-dead/dead-letters"))
		Expect(t.text()).To(ContainSubstring("2 dead letters"))
		first := eval[string](t, `document.querySelector('tbody input[type=checkbox]').getAttribute('aria-label')`)
		t.fill(first, "")
		w.deadLetters("refunds", "payments-dead")
		Eventually(t.text).Should(And(ContainSubstring("4 dead letters"), ContainSubstring("refunds")))
		Expect(eval[string](t, nameScript)).To(Equal(first), "the focus is kept")
		Expect(eval[[]string](t, `[...document.querySelectorAll('tbody input:checked')].map(e => e.getAttribute('aria-label'))`)).To(Equal([]string{first}))
		t.same()
	})

	It("of a flow shows a child that completes, and keeps the position and the focus", func() {
		producer, err := bullmq.NewFlowProducer(w.ctx, &bullmq.FlowProducerOptions{Connection: w.connection})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(producer.Close)
		flow := bullmq.Flow{Name: "ship", QueueName: "shipping"}
		for i := range 11 {
			flow.Children = append(flow.Children, bullmq.Flow{Name: fmt.Sprint("child-", i), QueueName: "packages"})
		}
		flow.Children = append(flow.Children, bullmq.Flow{Name: "confirm", QueueName: "confirmations"})
		root, err := producer.Add(w.ctx, flow)
		Expect(err).NotTo(HaveOccurred())
		t.look(view{width: 400, height: 400})
		open(w.at("/queues/shipping/jobs", root.Job.ID) + "/flow")
		list := func() string { return eval[string](t, `document.querySelector('.tree').innerText`) }
		Expect(list()).NotTo(ContainSubstring("completed"))
		t.tabTo("child-7")
		_ = eval[bool](t, `document.querySelector('.flow').scrollTo(60, 40), scrollBy(0, 50), true`)
		top := `Math.round(document.activeElement.getBoundingClientRect().top)`
		drawing := `[document.querySelector('.flow').scrollLeft, document.querySelector('.flow').scrollTop].map(Math.round)`
		before := eval[int](t, top)
		Expect(eval[[]int](t, drawing)).To(Equal([]int{60, 40}))
		w.work("confirmations", "confirmer", nil)
		Eventually(list).Should(MatchRegexp(`confirm\s+completed`))
		Expect(eval[string](t, nameScript)).To(Equal("child-7"), "the focus is kept")
		Expect(eval[string](t, `document.activeElement.getAttribute('href')`)).To(ContainSubstring(root.Children[7].Job.ID))
		Expect(eval[int](t, top)).To(BeNumerically("~", before, 60), "up to the lines of the child, which is the last one now")
		Expect(eval[[]int](t, drawing)).To(Equal([]int{60, 40}))
		Expect(eval[int](t, `document.querySelectorAll('.flow .node.completed').length`)).To(Equal(1), "the drawing")
		t.same()
		t.look(views[0])
	})

	It("of a job that waits follows the log when it runs", func() {
		id := w.add("coats", "paint", nil, nil)
		open(w.at("/queues/coats/jobs", id))
		step := make(chan struct{})
		w.work("coats", "painter", func(ctx context.Context, job *bullmq.Job) (any, error) {
			for range step {
				if _, err := job.Log(ctx, "a coat dries"); err != nil {
					return nil, err
				}
			}
			return nil, nil
		})
		Eventually(t.text).Should(ContainSubstring("painter"))
		t.mark()
		for n := range 2 {
			step <- struct{}{}
			Eventually(func() int { return strings.Count(t.text(), "a coat dries") }).WithTimeout(6 * time.Second).Should(Equal(n + 1))
		}
		close(step)
		Eventually(t.text).Should(ContainSubstring("completed"))
		t.same()
	})

	It("of a job keeps what the reader has opened and closed", func() {
		w.work("fragile", "breaker", func(context.Context, *bullmq.Job) (any, error) { panic("broken") })
		id := w.add("fragile", "lift", nil, nil)
		w.reaches("fragile", id, bullmq.StateFailed)
		open(w.at("/queues/fragile/jobs", id))
		Expect(eval[int](t, `document.querySelectorAll('details[open]').length`)).To(Equal(1))
		t.tabTo(eval[string](t, `document.querySelector('summary').innerText`))
		t.do(chromedp.KeyEvent(" "))
		Expect(w.queue("fragile").UpdateJobProgress(w.ctx, id, 50)).To(Succeed())
		Eventually(t.text).Should(ContainSubstring("50 %"))
		Expect(eval[int](t, `document.querySelectorAll('details[open]').length`)).To(BeZero())
		t.same()
	})
})

// routeReady returns the number of jobs that are ready in the routes of thumbnails.
func (w *world) routeReady() (ready int) {
	GinkgoHelper()
	routes, err := w.queue("thumbnails").Routes(w.ctx)
	Expect(err).NotTo(HaveOccurred())
	for _, route := range routes {
		ready += route.Ready
	}
	return ready
}
