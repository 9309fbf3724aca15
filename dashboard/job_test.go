package dashboard_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("The page of a job", func() {
	ctx := context.Background()

	It("shows progress and new lines of the log while the job runs, and the traces of all attempts", func() {
		s := open(nil)
		queue := s.queue("orders")
		_, err := queue.Add(ctx, "paint", nil, &bullmq.JobOptions{Attempts: 2})
		Expect(err).NotTo(HaveOccurred())
		steps := make(chan string)
		worker, err := bullmq.NewWorker(ctx, "orders", func(ctx context.Context, job *bullmq.Job) (any, error) {
			for step := range steps {
				if step == "fail" {
					return nil, fmt.Errorf("out of paint in attempt %d", job.AttemptsMade+1)
				}
				if err := errors.Join(job.UpdateProgress(ctx, 40), logLine(ctx, job, step)); err != nil {
					return nil, err
				}
			}
			return nil, nil
		}, &bullmq.WorkerOptions{Connection: s.connection})
		Expect(err).NotTo(HaveOccurred())
		running, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- worker.Run(running) }()
		DeferCleanup(func() { stop(); Expect(<-ended).To(Succeed()) })
		update := func() string { _, text := s.get("/queues/orders/jobs/1", asUpdate); return text }

		steps <- "sands the wood"
		Eventually(update).Should(And(ContainSubstring("sands the wood"), ContainSubstring(`<progress id="progress" max="100" value="40">`), ContainSubstring(`<b>running</b>`)))
		Expect(update()).To(ContainSubstring(`data-every="1000"`), "a line of a log is no event")
		steps <- "opens the can"
		Eventually(update).Should(ContainSubstring("opens the can"))
		steps <- "fail"
		steps <- "fail"
		Eventually(update).Should(MatchRegexp(`(?s)open><summary>Attempt 2</summary>.*out of paint in attempt 2.*<summary>Attempt 1</summary>.*out of paint in attempt 1`))
		text := update()
		Expect(text).To(MatchRegexp(`(?s)<b>added</b>.*<b>1 earlier attempt</b>.*<b>last started</b>.*ran .*<b>failed</b>`))
		Expect(text).NotTo(ContainSubstring("data-every"))
	})

	It("shows the last lines of a long log, and serves the whole", func() {
		s := open(nil)
		queue := s.queue("orders")
		job, err := queue.Add(ctx, "paint", nil, &bullmq.JobOptions{Delay: time.Hour})
		Expect(err).NotTo(HaveOccurred())
		for i := range 210 {
			Expect(logLine(ctx, job, fmt.Sprintf("line %d.", i))).To(Succeed())
		}
		text := s.page("/queues/orders/jobs/1")
		Expect(text).To(MatchRegexp(`(?s)line 10\..*line 209\.`))
		Expect(text).NotTo(ContainSubstring("line 9."))
		Expect(text).To(ContainSubstring("The last 200 of 210 lines"))
		Expect(text).To(MatchRegexp(`<li class="future"><span class="quiet">delay of 1 h,</span> <b>due</b>`))
		_, whole := s.get("/queues/orders/jobs/1/raw/logs")
		Expect(strings.Count(whole, "line ")).To(Equal(210))
		Expect(whole).To(HavePrefix("line 0."))
	})
})

// logLine writes a line to the log of a job.
func logLine(ctx context.Context, job *bullmq.Job, line string) error {
	_, err := job.Log(ctx, line)
	return err
}
