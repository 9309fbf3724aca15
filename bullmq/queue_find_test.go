package bullmq_test

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("A job that is looked for in many queues", func() {
	It("is found in each that has it, with its state, by few calls", func() {
		ctx := specContext()
		base := newQueueName()
		names := make([]string, 120)
		for i := range names {
			names[i] = fmt.Sprintf("%s-%d", base, i)
		}
		waiting, failed := newQueue(names[7], nil), names[110]
		_, err := waiting.Add(ctx, "paint", nil, &bullmq.JobOptions{JobID: "order 12"})
		Expect(err).NotTo(HaveOccurred())
		_, err = newQueue(failed, nil).Add(ctx, "sand", nil, &bullmq.JobOptions{JobID: "order 12"})
		Expect(err).NotTo(HaveOccurred())
		Expect(redisDo("LREM", keyOf(failed, "wait"), "1", "order 12").Error()).To(Succeed())
		Expect(redisDo("ZADD", keyOf(failed, "failed"), "1700000000000", "order 12").Error()).To(Succeed())
		Expect(redisDo("HSET", keyOf(failed, "order 12"), "failedReason", "no paint", "processedOn", "1699999999000", "finishedOn", "1700000000000", "atm", "2").Error()).To(Succeed())
		Expect(redisDo("SET", keyOf(names[9], "order 12"), "is no job").Error()).To(Succeed())

		connection := sharedConnection()
		found, err := bullmq.FindJob(ctx, connection, "", "order 12", names...)
		Expect(err).NotTo(HaveOccurred())
		Expect(found).To(HaveExactElements(
			And(HaveField("QueueName", names[7]), HaveField("ID", "order 12"), HaveField("Name", "paint"), HaveField("State", bullmq.StateWaiting), HaveField("FinishedOn.IsZero()", true)),
			And(HaveField("QueueName", failed), HaveField("Name", "sand"), HaveField("State", bullmq.StateFailed), HaveField("FailedReason", "no paint"), HaveField("AttemptsMade", 2), HaveField("FinishedOn.UnixMilli()", int64(1700000000000))),
		))
		for _, id := range []string{"wait", "meta", "none"} {
			Expect(bullmq.FindJob(ctx, connection, "", id, names...)).To(BeEmpty(), id)
		}
		_, err = bullmq.FindJob(ctx, connection, "", "", names...)
		Expect(err).To(MatchError(ContainSubstring("the id is empty")))
	})
})
