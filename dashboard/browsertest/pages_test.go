package browsertest

import (
	_ "embed"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/chromedp/chromedp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// shown is a page that each check looks at.
type shown struct {
	title  string // of the specs
	path   func(w *world) string
	text   string // that it shows, also without JavaScript
	status int64  // 200 if it is 0
}

// pages are all pages. A new page needs one line.
var pages = []shown{
	{title: "overview", path: to("/"), text: "orders"},
	{title: "queue", path: to("/queues/orders?state=waiting"), text: "pack"},
	{title: "queue's failed jobs", path: to("/queues/orders?state=failed"), text: "the printer is on fire"},
	{title: "queue's jobs of all states", path: to("/queues/orders?state=all"), text: "in all states"},
	{title: "search in all queues", path: to("/search?q=refused+by"), text: "Found by"},
	{title: "empty search", path: to("/queues/orders?state=failed&data=nothing"), text: "No job"},
	{title: "hostile queue", path: func(w *world) string { return w.at("/queues", hostileQueue) }, text: hostileName},
	{title: "completed job", path: job("orders", "completed"), text: "the box is open"},
	{title: "failed job", path: job("orders", "failed"), text: "refused by the carrier"},
	{title: "panicked job", path: job("orders", "panicked"), text: "the printer is on fire"},
	{title: "active job", path: job("orders", "active"), text: "packer"},
	{title: "delayed job", path: job("orders", "delayed"), text: "order-4721"},
	{title: "parent job", path: job("shipping", "flow"), text: "children"},
	{title: "hostile job", path: job(hostileQueue, "hostile"), text: "onerror=alert(1)"},
	{title: "large job", path: job(hostileQueue, "large"), text: "many bytes"},
	{title: "deep job", path: job(hostileQueue, "deep"), text: "deep"},
	{title: "broken job", path: job(hostileQueue, "broken"), text: "name"},
	{title: "workers", path: to("/workers"), text: "mailer"},
	{title: "schedulers", path: to("/schedulers"), text: "weekdays"},
	{title: "queue's schedulers", path: to("/queues/reports/schedulers"), text: "every-quarter"},
	{title: "scheduler", path: to("/queues/reports/schedulers/weekdays"), text: "Europe/Berlin"},
	{title: "hostile scheduler", path: func(w *world) string { return w.at("/queues/reports/schedulers", hostileName) }, text: hostileName},
	{title: "dead letters", path: to("/dead-letters"), text: "payments-dead"},
	{title: "queue's dead letters", path: to("/queues/payments-dead/dead-letters"), text: "the card has expired"},
	{title: "server", path: to("/server"), text: "Redis"},
	{title: "server with memory", path: to("/server?memory=1"), text: "An estimate"},
	{title: "metrics", path: to("/metrics"), text: "all queues"},
	{title: "queue's metrics", path: to("/queues/orders/metrics"), text: "By name"},
	{title: "hostile queue's metrics", path: func(w *world) string { return w.at("/queues", hostileQueue) + "/metrics" }, text: "There is no throughput"},
	{title: "routes and shards", path: to("/routes"), text: "thumbnails"},
	{title: "queue's routes", path: to("/queues/thumbnails/routes"), text: "us-east"},
	{title: "flow", path: flowOf("flow"), text: "advertise"},
	{title: "child's flow", path: func(w *world) string { return w.at("/queues/mails/jobs", w.ids["child"]) + "/flow" }, text: "confirm"},
	{title: "queue's workers", path: to("/queues/orders/workers"), text: "packer"},
	{title: "retry confirmation", path: to("/queues/orders/actions/retry?state=failed&all=1"), text: "2 jobs"},
	{title: "pause confirmation", path: to("/queues/orders/actions/pause"), text: "orders"},
	{title: "missing queue", path: to("/queues/none"), text: "none", status: 404},
	{title: "wrong search", path: to("/queues/orders?state=done"), text: "done", status: 400},
}

// to returns a function for an address that is known in advance.
func to(path string) func(*world) string { return func(w *world) string { return w.at(path) } }

// job returns a function for the page of a job of world.ids.
func job(queue, what string) func(*world) string {
	return func(w *world) string { return w.at("/queues", queue, "jobs", w.ids[what]) }
}

// flowOf returns a function for the page of a flow.
func flowOf(what string) func(*world) string {
	return func(w *world) string { return w.at("/queues/shipping/jobs", w.ids[what]) + "/flow" }
}

var (
	//go:embed scripts/layout.js
	layoutScript string
	//go:embed scripts/focus.js
	focusScript string
)

var _ = Describe("The page", func() {
	for _, p := range pages {
		open := func(v view) *tab {
			GinkgoHelper()
			tab := browser.open(v)
			if p.status != 0 {
				tab.expected = map[int64]bool{p.status: true}
			}
			tab.load(p.path(shop))
			return tab
		}

		Context(fmt.Sprintf("%q", p.title), Ordered, ContinueOnFailure, func() {
			var tab *tab
			BeforeAll(func() { tab = open(views[0]) })

			It("has no faults in its layout, light and dark, wide and narrow", func() {
				for _, v := range views {
					tab.look(v)
					tab.settle()
					Expect(eval[[]string](tab, "("+layoutScript+")()")).To(BeEmpty(), v.String())
				}
			})

			It("has no serious findings of axe", func() {
				for i, v := range views[:3] {
					tab.look(v)
					tab.settle()
					Expect(findings(tab, axeRules[i])).To(BeEmpty(), v.String())
				}
			})

			It("shows markup in names and data as text", func() {
				Expect(eval[[]string](tab, `[...document.querySelectorAll('script:not([src]), img, iframe, [onerror], [onload], main i, a[href^="javascript:"]')].map(e => e.outerHTML)`)).To(BeEmpty())
			})

			It("is operated by keyboard, and shows the focus", func() {
				tab.look(views[0])
				n := eval[int](tab, "("+focusScript+")()")
				for range n + 5 {
					tab.do(chromedp.KeyEvent("\t"))
				}
				Expect(eval[[]string](tab, "window.walk.report()")).To(BeEmpty())
			})

			It("has the layout of its reference, wide and narrow", func() {
				for _, v := range widths {
					tab.look(v)
					tab.load(p.path(shop))
					Expect(compare(p.title, v, skeleton(tab))).To(BeEmpty(), "in %s; if this is meant to be: make browser FLAGS=-update", v)
				}
			})

			It("can be read without JavaScript", func() {
				Expect(tab.found()).To(BeEmpty(), "problems with JavaScript")
				tab.look(view{width: 1280, noScript: true})
				tab.load(p.path(shop))
				Expect(eval[string](tab, "document.querySelector('main').innerText")).To(ContainSubstring(p.text))
				Expect(tab.found()).To(BeEmpty())
			})
		})
	}
})

var variablePart = regexp.MustCompile(`/(queues|jobs|schedulers|actions)/[^/]+`)

// pattern returns the path of an address with its variable parts left out.
func pattern(address string) string {
	parsed, err := url.Parse(address)
	Expect(err).NotTo(HaveOccurred())
	return variablePart.ReplaceAllString(parsed.EscapedPath(), "/$1/*")
}

var _ = Describe("The list of pages", func() {
	It("has each page that a link of another one leads to", func() {
		known := map[string]bool{}
		for _, p := range pages {
			known[pattern(p.path(shop))] = true
		}
		t := browser.open(views[0])
		for _, p := range pages {
			if p.status != 0 {
				continue
			}
			t.load(p.path(shop))
			for _, address := range eval[[]string](t, `[...document.querySelectorAll('a[href]')].map(e => e.getAttribute('href'))`) {
				if strings.HasPrefix(address, "/") && !strings.Contains(address, "/raw/") {
					Expect(known).To(HaveKey(pattern(address)), "add it to pages; the page %q has a link to %s", p.title, address)
				}
			}
		}
	})
})
