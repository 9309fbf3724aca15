package tests

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("A job of Node", func() {
	DescribeTable("is moved in Go to a queue where Node runs it, with", func(line string, dialect bullmq.Dialect) {
		name, to, other := newQueueName(), newQueueName(), node
		if line == "5" {
			other = startProbe("-bullmq", "5")
		}
		other.Do("openQueue", object{"queue": to}, nil)
		waiting := other.Add(name, "mail", object{"to": "a/b"}, object{"attempts": 2, "removeOnFail": 5})
		own := other.Add(name, "mail", object{"to": "c"}, object{"jobId": "own", "priority": 3})
		queue, err := bullmq.NewQueue(soon(), name, &bullmq.QueueOptions{URL: server.URL(), Dialect: dialect})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(queue.Close)
		for _, id := range []string{waiting, own} {
			was := other.Record(name, id)
			moved, err := queue.MoveJob(soon(), id, to)
			Expect(err).NotTo(HaveOccurred())
			Expect(moved.ID).To(Equal(id))
			Expect(other.Record(to, id)).To(And(
				HaveKeyWithValue("data", was["data"]), HaveKeyWithValue("opts", was["opts"]), HaveKeyWithValue("state", was["state"]),
			))
		}
		other.Run(to, 2, object{"return": "done"}, object{"name": "noddy"})(nil)
		for _, id := range []string{waiting, own} {
			Expect(other.Record(to, id)).To(HaveKeyWithValue("state", "completed"))
		}
	},
		Entry("BullMQ 6", "6", bullmq.V6),
		Entry("BullMQ 5", "5", bullmq.V5),
	)
})
