package browsertest

import (
	"fmt"

	"github.com/chromedp/chromedp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// bull-board is a dashboard in Node. The specs show that it reads what Go writes.
var _ = Describe("bull-board", Ordered, ContinueOnFailure, func() {
	var (
		t    *tab
		base string
	)
	BeforeAll(func() {
		_, line := shop.node("bull-board.mjs", "-queues", "orders,mails,reports,shipping,payments-dead")
		var ready struct{ Port int }
		Expect(line.Decode(&ready)).To(Succeed())
		base = fmt.Sprintf("http://127.0.0.1:%d", ready.Port)
		t = browser.open(view{width: 1280, height: 900})
	})
	shows := func(path string, texts ...string) {
		GinkgoHelper()
		t.do(chromedp.Navigate(base + path))
		for _, text := range texts {
			Eventually(t.text).Should(ContainSubstring(text), path)
		}
	}
	press := func(name string) {
		GinkgoHelper()
		Expect(eval[bool](t, fmt.Sprintf(`(button => button ? (button.click(), true) : false)([...document.querySelectorAll('button')].find(b => [b.title, b.ariaLabel, b.innerText].includes(%q)))`, name))).To(BeTrue(), "there is no button %q", name)
	}

	It("counts the jobs of queues that Go uses, and tells which have no workers", func() {
		shows("/", "orders", "9 Jobs", "payments-dead", "No workers", "[ Paused ]")
	})

	It("shows a job of a Go worker with its times, worker, data, result, progress and logs", func() {
		shows("/queue/orders/"+shop.ids["completed"], "pack", "by packer", "Process started at", "Finished at", `"spoon"`, "weight:2.5", "100%")
		press("Logs")
		Eventually(t.text).Should(ContainSubstring("the box is open\n<b>3 items</b> & a card\nthe box is closed"))
	})

	It("shows why jobs of a Go worker have failed, with the stack trace of a panic", func() {
		shows("/queue/orders?status=failed", "refused by the carrier", "panic: the printer is on fire", "goroutine", "world_test.go")
	})

	It("shows priorities, deduplication, and the attempts of a running job", func() {
		shows("/queue/orders", "priority 10", "dedup order-4721", "1 started")
	})

	It("draws a flow that Go has added, with failed and ignored children", Label("screenshots"), func() {
		shows("/queue/shipping/"+shop.ids["flow"], "Job flow", "confirm", "COMPLETED", "invoice", "FAILED", "1 done", "2 unfinished", "1 ignored", "fetch", "DELAYED")
		t.settle()
		screenshot(t, "bull-board.png")
	})

	It("lists the schedulers that Go has made", func() {
		shows("/job-schedulers", "weekdays", "0 30 9 * * 1-5", "Europe/Berlin", "every 15m")
	})

	It("counts the workers of Go and Node", func() {
		for _, queue := range []string{"orders", "mails"} {
			shows("/queue/"+queue, "COMPLETED")
			press("Queue info")
			Eventually(t.text).Should(ContainSubstring("Workers\n1"), queue)
		}
	})
})
