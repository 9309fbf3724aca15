package bullmq_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// interop/prometheus tests the text with Prometheus' own parser.
var _ = Describe("Prometheus metrics", func() {
	It("of several queues are one text with each HELP and TYPE once and a final line end", func() {
		one, two := newQueueName(), newQueueName()
		queues := []*bullmq.Queue{newQueue(one, nil), newQueue(two, nil)}
		_, err := queues[1].Add(specContext(), "paint", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(bullmq.PrometheusMetrics(specContext(), map[string]string{"zone": "b", "region": "a"}, queues...)).To(Equal(
			"# HELP bullmq_job_count Number of jobs in the queue by state\n# TYPE bullmq_job_count gauge\n" +
				samples("bullmq_job_count", one, "0") + samples("bullmq_job_count", two, "1") +
				"# HELP bullmq_job_completed_total Total number of completed jobs\n# TYPE bullmq_job_completed_total counter\n" +
				`bullmq_job_completed_total{queue="` + one + `", region="a", zone="b"} 0` + "\n" +
				`bullmq_job_completed_total{queue="` + two + `", region="a", zone="b"} 0` + "\n" +
				"# HELP bullmq_job_failed_total Total number of failed jobs\n# TYPE bullmq_job_failed_total counter\n" +
				`bullmq_job_failed_total{queue="` + one + `", region="a", zone="b"} 0` + "\n" +
				`bullmq_job_failed_total{queue="` + two + `", region="a", zone="b"} 0` + "\n"))
		Expect(bullmq.PrometheusMetrics(specContext(), nil)).To(BeEmpty())
	})

	DescribeTable("are refused with a label", func(label, hint string) {
		_, err := newQueue(newQueueName(), nil).PrometheusMetrics(specContext(), map[string]string{label: "x"})
		Expect(err).To(MatchError(And(ContainSubstring("PrometheusMetrics"), ContainSubstring(label), ContainSubstring(hint))))
	},
		Entry("that the queue sets", "queue", "choose another name"),
		Entry("that the state sets", "state", "choose another name"),
		Entry("with a hyphen", "a-b", "use letters"),
		Entry("that begins with a digit", "1a", "use letters"),
		Entry("without a name", "", "use letters"),
		Entry("that Prometheus reserves", "__name__", "reserves"),
	)

	It("are refused for duplicate queues or without any queue", func() {
		queue := newQueue(newQueueName(), nil)
		_, err := bullmq.PrometheusMetrics(specContext(), nil, queue, queue)
		Expect(err).To(MatchError(And(ContainSubstring("two queues are named "+queue.Name()), ContainSubstring("once"))))
		_, err = bullmq.PrometheusMetrics(specContext(), nil, queue, nil)
		Expect(err).To(MatchError(ContainSubstring("queue 2 of 2 is nil")))
	})
})

// lines returns the samples of a queue's states, of which only waiting is not zero.
func samples(metric, queue, waiting string) (text string) {
	for _, state := range []string{"active", "completed", "delayed", "failed", "prioritized", "waiting", "waiting-children"} {
		value := "0"
		if state == "waiting" {
			value = waiting
		}
		text += metric + `{queue="` + queue + `", state="` + state + `", region="a", zone="b"} ` + value + "\n"
	}
	return text
}
