package dashboard_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// rows returns the names in the rows of the overview, in order.
func rows(text string) (names []string) {
	for _, found := range regexp.MustCompile(`<tr id="q-([^"]*)">`).FindAllStringSubmatch(text, -1) {
		names = append(names, found[1])
	}
	return names
}

var _ = Describe("The overview", func() {
	ctx := context.Background()

	It("sorts by each column, filters by name and by state, and marks the column", func() {
		s := open(nil)
		for name, jobs := range map[string]int{"a": 2, "b": 0, "c": 5} {
			queue := s.queue(name)
			for range jobs {
				_, err := queue.Add(ctx, "paint", nil, nil)
				Expect(err).NotTo(HaveOccurred())
			}
			if name == "b" {
				Expect(queue.Pause(ctx)).To(Succeed())
			}
		}
		Expect(rows(s.page("/"))).To(Equal([]string{"a", "b", "c"}))
		Expect(rows(s.page("/?sort=-name"))).To(Equal([]string{"c", "b", "a"}))
		sorted := s.page("/?sort=-waiting")
		Expect(rows(sorted)).To(Equal([]string{"c", "a", "b"}))
		Expect(sorted).To(ContainSubstring(`aria-sort="descending"><a href="/?sort=waiting">waiting</a>`))
		Expect(rows(s.page("/?sort=nonsense"))).To(Equal([]string{"a", "b", "c"}))
		Expect(rows(s.page("/?only=paused"))).To(Equal([]string{"b"}))
		Expect(rows(s.page("/?only=jobs"))).To(Equal([]string{"a", "c"}))
		Expect(rows(s.page("/?only=stuck&filter=C"))).To(Equal([]string{"c"}))
		Expect(s.page("/?filter=none")).To(ContainSubstring("No queue matches"))
	})

	It("groups many queues by the beginning of their names, with sums", func() {
		s := open(nil)
		for i := range 110 {
			s.redisText("HSET", fmt.Sprintf("bull:%s-%d:meta", []string{"mail", "shop"}[i%2], i), "version", "bullmq:6.7.0")
		}
		for range 3 {
			_, err := s.queue("mail-0").Add(ctx, "send", nil, nil)
			Expect(err).NotTo(HaveOccurred())
		}
		_, err := s.queue("mail-2").Add(ctx, "send", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		s.queue("reports")
		closed := s.page("/")
		Expect(rows(closed)).To(Equal([]string{"reports"}), "queues of groups are hidden")
		Expect(closed).To(MatchRegexp(`(?s)>mail-</a> <span class="quiet">55 queues</span> <span class="badge bad">2 without workers</span></th>\s*<td class="number"><span class="quiet">0</span></td><td class="number">4</td>`))
		Expect(rows(s.page("/?groups=open"))).To(HaveLen(111))
		Expect(rows(s.page("/?group=shop-"))).To(HaveLen(55))
		Expect(rows(s.page("/?filter=mail-1"))).To(HaveLen(10))
		Expect(rows(s.page("/?sort=-waiting"))[:2]).To(Equal([]string{"mail-0", "mail-2"}), "other orders have no groups")
	})

	It("shows how many jobs come in and go out in a minute", func() {
		s := open(nil)
		orders := s.queue("orders")
		s.page("/")
		worker, err := bullmq.NewWorker(ctx, "orders", func(context.Context, *bullmq.Job) (any, error) { return nil, errors.New("no paint") },
			&bullmq.WorkerOptions{Connection: s.connection})
		Expect(err).NotTo(HaveOccurred())
		running, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- worker.Run(running) }()
		DeferCleanup(func() { stop(); Expect(<-ended).To(Succeed()) })
		begun := time.Now()
		for range 50 {
			_, err := orders.Add(ctx, "paint", nil, nil)
			Expect(err).NotTo(HaveOccurred())
		}
		cells := regexp.MustCompile(`<td class="number">(\d+)</td><td class="number">(\d+)</td><td class="number"></td>`)
		Eventually(func() []string { return cells.FindStringSubmatch(s.page("/")) }, "20s", "200ms").ShouldNot(BeNil())
		var in, out int
		_, err = fmt.Sscan(strings.Join(cells.FindStringSubmatch(s.page("/"))[1:], " "), &in, &out)
		Expect(err).NotTo(HaveOccurred())
		atLeast := int(50 * time.Minute / (time.Since(begun) + 5*time.Second))
		Expect(in).To(BeNumerically("~", 600, 300), "50 in 5 seconds")
		Expect(in).To(BeNumerically(">=", atLeast))
		Expect(out).To(BeNumerically("~", in, 5))
	})
})
