package browsertest

import (
	"errors"
	"net/http"

	"github.com/chromedp/chromedp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/dashboard"
)

// refusal is a page that tells why something was not done.
type refusal struct {
	title, path string
	status      int64
	text        string
	readOnly    bool
}

var refusals = []refusal{
	{title: "a page that does not exist", path: "/nothing", status: 404, text: "no such page"},
	{title: "a job that does not exist", path: "/queues/orders/jobs/none", status: 404, text: "none"},
	{title: "an action that does not exist", path: "/queues/orders/actions/none", status: 404, text: "none"},
	{title: "a queue that the user may not read", path: "/queues/secret", status: 403, text: "queue is not for you"},
	{title: "an action that the user may not use", path: "/queues/orders/actions/drain", status: 403, text: "may not drain"},
	{title: "an action of a read-only dashboard", path: "/queues/orders/actions/pause", status: 403, text: "read-only", readOnly: true},
}

var _ = Describe("A page that refuses", Ordered, ContinueOnFailure, func() {
	var (
		writable, readOnly *world
		t                  *tab
	)
	BeforeAll(func() {
		writable = openWorld(&dashboard.Options{Access: func(_ *http.Request, use dashboard.Use) error {
			switch {
			case use.Queue == "secret":
				return errors.New("this queue is not for you")
			case use.Action == "drain":
				return errors.New("you may not drain")
			}
			return nil
		}})
		readOnly = openWorld(&dashboard.Options{ReadOnly: true})
		writable.queue("orders")
		readOnly.queue("orders")
		t = browser.open(views[0])
	})

	// check checks what the tab shows in all views.
	check := func() {
		GinkgoHelper()
		for i, v := range views {
			t.look(v)
			t.settle()
			Expect(eval[[]string](t, "("+layoutScript+")()")).To(BeEmpty(), v.String())
			if i < len(axeRules) {
				Expect(findings(t, axeRules[i])).To(BeEmpty(), v.String())
			}
		}
		t.look(views[0])
		Expect(t.found()).To(BeEmpty())
	}

	for _, r := range refusals {
		It(r.title+" says why, without serious findings of axe", func() {
			w := writable
			if r.readOnly {
				w = readOnly
			}
			t.expected = map[int64]bool{r.status: true}
			t.load(w.at(r.path))
			Expect(t.status[w.at(r.path)]).To(Equal(r.status))
			Expect(t.text()).To(ContainSubstring(r.text))
			check()
			t.expected = map[int64]bool{200: true}
			t.load(w.at("/"))
		})
	}

	It("an invalid form says what is wrong beside what was typed, without serious findings of axe", func() {
		t.expected = map[int64]bool{200: true, 400: true}
		t.load(writable.at("/queues/orders/actions/ratelimit"))
		t.fill("Jobs", "10")
		t.fill("In a period of", "soon")
		t.tabTo("Rate limit")
		t.enter()
		Expect(eval[string](t, "document.querySelector('[role=alert]').innerText")).To(ContainSubstring("soon"))
		Expect(eval[string](t, "[...document.querySelectorAll('form.form input')].map(e => e.value).join()")).To(ContainSubstring("soon"))
		check()
	})

	It("a dashboard that is read-only offers no action", func() {
		t.expected = map[int64]bool{200: true}
		t.load(readOnly.at("/queues/orders"))
		Expect(t.text()).To(ContainSubstring("read-only"))
		Expect(eval[int](t, `document.querySelectorAll('[href*="/actions/"], [formaction]').length`)).To(BeZero())
		check()
		t.do(chromedp.Navigate(readOnly.at("/")))
		check()
	})
})
