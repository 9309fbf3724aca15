package browsertest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// mark marks the document when it is live, so that same notices that it was loaded again.
func (t *tab) mark() {
	GinkgoHelper()
	Eventually(t.live).Should(Equal("Live"))
	_ = eval[bool](t, "window.marked = true")
}

func (t *tab) same() {
	GinkgoHelper()
	Expect(eval[bool](t, "window.marked === true")).To(BeTrue(), "the page was loaded again")
	Expect(t.found()).To(BeEmpty())
}

// live returns what the page tells of its updates.
func (t *tab) live() string {
	return eval[string](t, "document.getElementById('live').innerText")
}

var _ = Describe("A page that stays open", Ordered, ContinueOnFailure, func() {
	var (
		w *world
		t *tab
	)
	BeforeAll(func() {
		w = openWorld(nil)
		t = browser.open(views[0])
	})

	It("shows a job that Node has added, and counts it", func() {
		w.queue("orders")
		t.load(w.at("/queues/orders?state=waiting"))
		Expect(t.text()).To(ContainSubstring("waiting 0"))
		t.mark()
		producer, _ := w.node("producer.mjs", "-queue", "orders")
		Expect(producer.Send(map[string]any{"name": hostileName, "data": map[string]any{"color": "blue <b>"}})).To(Succeed())
		Eventually(t.text).Should(And(ContainSubstring("waiting 1"), ContainSubstring(hostileName), ContainSubstring("blue <b>")))
		t.same()
	})

	It("shows the end of a log and stays there, unless the reader has scrolled away", func() {
		queue := w.queue("logged")
		job, err := queue.Add(w.ctx, "paint", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		write := func(lines int, text string) {
			GinkgoHelper()
			for i := range lines {
				_, err := queue.AddJobLog(w.ctx, job.ID, fmt.Sprint(text, " ", i), nil)
				Expect(err).NotTo(HaveOccurred())
			}
			Expect(job.UpdateProgress(w.ctx, lines)).To(Succeed()) // an event, unlike the lines
		}
		atEnd := func() bool {
			return eval[bool](t, `(() => { const log = document.getElementById("logs"); return log.scrollHeight > log.clientHeight && log.scrollHeight - log.scrollTop - log.clientHeight < 10; })()`)
		}
		write(150, "the first coat")
		t.load(w.at("/queues/logged/jobs", job.ID))
		Eventually(atEnd).Should(BeTrue())
		t.mark()
		write(20, "the second coat")
		Eventually(t.text).Should(ContainSubstring("the second coat 19"))
		Eventually(atEnd).Should(BeTrue())
		_ = eval[bool](t, `(document.getElementById("logs").scrollTop = 0) === 0`)
		write(20, "the third coat")
		Eventually(t.text).Should(ContainSubstring("the third coat 19"))
		Expect(atEnd()).To(BeFalse())
		t.same()
	})

	It("counts jobs in the overview, and shows a worker that starts", func() {
		t.load(w.at("/"))
		t.mark()
		row := func() string {
			return eval[string](t, `[...document.querySelectorAll('tbody tr')].find(row => row.innerText.includes('orders')).innerText`)
		}
		Expect(row()).To(ContainSubstring("no workers"))
		for range 3 {
			w.add("orders", "paint", nil, nil)
		}
		Eventually(row).Should(MatchRegexp(`\t4\t`))
		w.work("orders", "painter", nil)
		Eventually(row).Should(MatchRegexp(`\t4\t.*\t1$`), "four completed jobs and a worker")
		Expect(row()).NotTo(ContainSubstring("no workers"))
		t.same()
	})

	It("shows the progress, the logs and the end of a job", func() {
		release := make(chan struct{})
		step := make(chan struct{})
		w.work("live", "painter", func(ctx context.Context, job *bullmq.Job) (any, error) {
			<-step
			if _, err := job.Log(ctx, "the first coat <i>dries</i>"); err != nil {
				return nil, err
			}
			if err := job.UpdateProgress(ctx, 42); err != nil {
				return nil, err
			}
			<-release
			return "done at last", nil
		})
		id := w.add("live", "paint", nil, nil)
		w.reaches("live", id, bullmq.StateActive)
		t.load(w.at("/queues/live/jobs", id))
		t.mark()
		close(step)
		Eventually(t.text).Should(And(ContainSubstring("42"), ContainSubstring("the first coat <i>dries</i>")))
		close(release)
		Eventually(t.text).Should(And(ContainSubstring("done at last"), ContainSubstring("completed")))
		t.same()
	})

	It("keeps the focus, the selection and what is typed", func() {
		for range 3 {
			w.add("kept", "paint", nil, nil)
		}
		t.load(w.at("/queues/kept?state=waiting"))
		t.mark()
		t.tabTo("Data contains")
		t.do(chromedp.KeyEvent("blu"))
		_ = eval[bool](t, "document.querySelector('[aria-label=\"select job 2\"]').click(), true")
		w.add("kept", "paint", nil, nil)
		Eventually(t.text).Should(ContainSubstring("waiting 4"))
		t.do(chromedp.KeyEvent("e"))
		Expect(eval[string](t, "document.activeElement.name + document.activeElement.value")).To(Equal("datablue"))
		Expect(eval[[]string](t, "[...document.querySelectorAll('tbody input:checked')].map(e => e.value)")).To(Equal([]string{"2"}))
		t.tabTo("select all jobs of this page")
		t.do(chromedp.KeyEvent(" "))
		Expect(eval[int](t, "document.querySelectorAll('tbody input:checked').length")).To(Equal(4))
		w.add("kept", "paint", nil, nil)
		Eventually(t.text).Should(ContainSubstring("waiting 5"))
		Expect(eval[string](t, nameScript)).To(Equal("select all jobs of this page"), "the focus is kept")
		Expect(eval[int](t, "document.querySelectorAll('tbody input:checked').length")).To(Equal(4), "a new job is not selected")
		t.same()
	})

	It("is not updated while the reader has paused it", func() {
		t.load(w.at("/queues/kept?state=waiting"))
		t.mark()
		t.tabTo("Live")
		t.do(chromedp.KeyEvent(kb.Enter))
		Eventually(t.text).Should(ContainSubstring("Paused"))
		w.add("kept", "paint", nil, nil)
		Consistently(t.text).WithTimeout(1500 * time.Millisecond).Should(ContainSubstring("waiting 5"))
		t.do(chromedp.KeyEvent(kb.Enter))
		Eventually(t.text).Should(ContainSubstring("waiting 6"))
		t.same()
	})

	It("says so while Redis can't be reached, and recovers", func() {
		t.load(w.at("/queues/kept?state=waiting"))
		t.mark()
		w.redis.Kill()
		Eventually(t.live).Should(BeElementOf("Not updated", "Every 5 s"))
		Expect(w.redis.Start()).To(Succeed())
		Eventually(t.live).WithTimeout(40 * time.Second).Should(Equal("Live"))
		w.add("kept", "paint", nil, nil) // the server has started without data
		Eventually(t.text).Should(ContainSubstring("waiting 1"))
		Expect(eval[bool](t, "window.marked === true")).To(BeTrue())
		_ = t.found() // the failed requests
	})
})

var _ = Describe("Times", func() {
	It("are those of the reader's zone, and of UTC without JavaScript", func() {
		address := job("orders", "completed")(shop)
		for zone, text := range map[string]string{"Asia/Kolkata": `GMT\+5:30`, "America/New_York": "E[SD]T", "UTC": "UTC"} {
			t := browser.open(view{width: 1280, zone: zone})
			t.load(address)
			Expect(t.text()).To(MatchRegexp(text), zone)
			Expect(t.text()).To(ContainSubstring(fmt.Sprintf("Times are those of %s.", strings.Replace(zone, "Kolkata", "Calcutta", 1))))
		}
		t := browser.open(view{width: 1280, noScript: true, zone: "Asia/Kolkata"})
		t.load(address)
		Expect(t.text()).To(ContainSubstring("Times are UTC."))
		Expect(eval[string](t, "document.querySelector('time').innerText")).To(ContainSubstring("UTC"))
	})
})

var _ = Describe("The charts of the metrics", func() {
	It("are drawn in light and dark, from the figures in the table", func() {
		t := browser.open(views[0])
		for _, v := range views {
			t.look(v)
			t.load(shop.at("/queues/orders/metrics"))
			Eventually(func() []string {
				return eval[[]string](t, `[...document.querySelectorAll('figure[data-chart]')].map(figure => {
					const canvas = figure.querySelector('canvas');
					const pixels = canvas ? canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data : [];
					return figure.dataset.chart + (pixels.some(value => value > 0) ? ' is drawn' : ' is empty');
				})`)
			}).Should(Equal([]string{"throughput is drawn", "wait is drawn", "run is drawn"}), v.String())
		}
		Expect(t.found()).To(BeEmpty())
	})
})
