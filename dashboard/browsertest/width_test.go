package browsertest

import (
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// scrolling returns the parts of a page that are wider than their place, except for drawings.
const scrolling = `[document.documentElement, ...document.querySelectorAll('.wide:not(.flow)')].filter(e => e.scrollWidth > e.clientWidth + 1).map(e => (e.getAttribute('aria-label') || 'the page') + ' is ' + e.scrollWidth + ' px wide in ' + e.clientWidth)`

var _ = Describe("A window of 1280 px", func() {
	It("shows the tables of all pages without scrolling sideways", func() {
		t, faults := browser.open(views[0]), []string{}
		for _, p := range pages {
			if p.status == 0 {
				t.load(p.path(shop))
				faults = append(faults, eval[[]string](t, scrolling)...)
			}
		}
		Expect(faults).To(BeEmpty())
	})

	It("shows queues, jobs, schedulers and dead letters with long names without scrolling sideways", func() {
		w := openWorld(nil)
		long := "a-queue-with-a-long-name." + strings.Repeat("customer", 12)
		for i := range 3 {
			w.add(long, strings.Repeat("name", 40), nil, &bullmq.JobOptions{JobID: strings.Repeat("id", 30) + fmt.Sprint(i)})
		}
		w.add("orders", "pack", nil, nil)
		w.deadLetters(long, long+"-dead")
		for i := range 2 {
			_, err := w.queue(long).UpsertScheduler(w.ctx, strings.Repeat("scheduler", 10)+fmt.Sprint(i), bullmq.Repeat{Pattern: "0 30 3 * * 1-5", TimeZone: "America/Argentina/ComodRivadavia"}, nil)
			Expect(err).NotTo(HaveOccurred())
		}
		w.command("HSET", "bull:"+long+":metrics:completed", "count", "1234567", "prevTS", fmt.Sprint(time.Now().UnixMilli()), "prevCount", "0")
		w.command("RPUSH", "bull:"+long+":metrics:completed:data", "12345", "23456")
		t, faults := browser.open(views[0]), []string{}
		for _, path := range [][]string{
			{""}, {"queues", long}, {"schedulers"}, {"queues", long, "schedulers"}, {"dead-letters"}, {"queues", long + "-dead", "dead-letters"}, {"workers"}, {"routes"}, {"metrics"},
			{"queues", long, "metrics"}, {"server"},
		} {
			t.load(w.at("", path...))
			faults = append(faults, eval[[]string](t, scrolling)...)
		}
		t.load(w.at("/server") + "?memory=1")
		Expect(append(faults, eval[[]string](t, scrolling)...)).To(BeEmpty())
	})
})
