package browsertest

import (
	"strings"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/dashboard"
)

var _ = Describe("A page without a stream", func() {
	// otherProblems returns the problems that are not about the stream.
	otherProblems := func(t *tab) (others []string) {
		for _, problem := range t.found() {
			if !strings.Contains(problem, "/live") && !strings.Contains(problem, "a request failed") {
				others = append(others, problem)
			}
		}
		return others
	}

	It("is requested every 5 seconds while too many pages are open, and gets a stream when one is closed", func() {
		w := openWorld(&dashboard.Options{MaxStreams: 1})
		w.queue("orders")
		first, second := browser.open(views[0]), browser.open(views[0])
		first.load(w.at("/queues/orders?state=waiting"))
		first.mark()
		second.do(chromedp.Navigate(w.at("/queues/orders?state=waiting")))
		Eventually(second.live).Should(Equal("Every 5 s"))
		w.add("orders", "pack", nil, nil)
		Eventually(second.text).Should(ContainSubstring("waiting 1"))
		Expect(second.live()).To(Equal("Every 5 s"))
		Expect(otherProblems(second)).To(BeEmpty())
		first.load(w.at("/server"))
		Eventually(second.live).WithTimeout(60 * time.Second).Should(Equal("Live"))
		w.add("orders", "pack", nil, nil)
		Eventually(second.text).WithTimeout(4 * time.Second).Should(ContainSubstring("waiting 2"))
		Expect(otherProblems(second)).To(BeEmpty())
	})

	It("is requested every 5 seconds if something between blocks streams", func() {
		w := openWorld(nil)
		w.queue("orders")
		t := browser.open(views[0])
		t.do(call(network.SetBlockedURLs, network.SetBlockedURLsParams{URLPatterns: []*network.BlockPattern{{URLPattern: "http://*:*/live*", Block: true}}}))
		t.do(chromedp.Navigate(w.at("/queues/orders?state=waiting")))
		Eventually(t.live).Should(Equal("Every 5 s"))
		w.add("orders", "pack", nil, nil)
		Eventually(t.text).Should(ContainSubstring("waiting 1"))
		Expect(otherProblems(t)).To(BeEmpty())
	})
})

var _ = Describe("A page in a hidden tab", func() {
	It("has no stream, and shows what has changed when it is visible again", func() {
		w := openWorld(nil)
		w.queue("orders")
		t := browser.open(views[0])
		t.do(call(emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: false}))
		t.load(w.at("/queues/orders?state=waiting"))
		t.mark()
		watchers := func() int {
			list := w.command("CLIENT", "LIST")
			text, err := list.ToString()
			Expect(err).NotTo(HaveOccurred())
			return strings.Count(text, "@x:watch")
		}
		Eventually(watchers).Should(Equal(1))
		hidden := func() bool { return eval[bool](t, "document.hidden") }
		Expect(hidden()).To(BeFalse())
		gesture := true
		t.do(call(runtime.Evaluate, runtime.EvaluateParams{Expression: "window.other = window.open('about:blank'), true", UserGesture: &gesture}))
		Eventually(hidden).Should(BeTrue(), "another tab is in front")
		Eventually(watchers).Should(BeZero())
		w.add("orders", "pack", nil, nil)
		Consistently(t.text).WithTimeout(6 * time.Second).WithPolling(500 * time.Millisecond).Should(ContainSubstring("waiting 0"))
		_ = eval[bool](t, "window.other.close(), true")
		Eventually(hidden).Should(BeFalse())
		Eventually(t.text).WithTimeout(4 * time.Second).Should(ContainSubstring("waiting 1"))
		Eventually(t.live).Should(Equal("Live"))
		Eventually(watchers).Should(Equal(1))
		t.same()
	})
})
