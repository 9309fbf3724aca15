package bullmq_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("The memory of queues", func() {
	var ctx context.Context
	var link *bullmq.Connection
	BeforeEach(func() { ctx, link = specContext(), sharedConnection() })
	estimate := func(link *bullmq.Connection, names ...string) []bullmq.QueueMemory {
		GinkgoHelper()
		memory, err := bullmq.EstimateQueueMemory(ctx, link, "", names...)
		Expect(err).NotTo(HaveOccurred())
		Expect(memory).To(HaveLen(len(names)))
		return memory
	}
	// fill adds n jobs with about size bytes of data, a tenth of them delayed, and logs.
	fill := func(name string, n, size int) {
		GinkgoHelper()
		queue := newQueue(name, &bullmq.QueueOptions{Connection: link})
		jobs := make([]bullmq.BulkJob, n)
		for i := range jobs {
			jobs[i] = bullmq.BulkJob{Name: "paint", Data: strings.Repeat("x", size-size/4+i%(size/2+1))}
			if i%10 == 0 {
				jobs[i].Options = &bullmq.JobOptions{Delay: time.Hour + time.Duration(i)*time.Millisecond}
			}
		}
		added, err := queue.AddBulk(ctx, jobs)
		Expect(err).NotTo(HaveOccurred())
		for _, job := range added {
			_, err := job.Log(ctx, "a line")
			Expect(err).NotTo(HaveOccurred())
		}
	}
	// measured returns the memory and the number of all keys of a queue.
	measured := func(name string) (bytes, keys int64) {
		GinkgoHelper()
		for _, key := range keysOf(name) {
			n, err := redisDo("MEMORY", "USAGE", key, "SAMPLES", "0").AsInt64()
			Expect(err).NotTo(HaveOccurred())
			bytes, keys = bytes+n, keys+1
		}
		return bytes, keys
	}

	It("is estimated from some jobs, whatever their number, without changing anything", func() {
		name := newQueueName()
		fill(name, 1000, 2000)
		estimate(link, name)
		before := commandCalls()
		memory := estimate(link, name)[0]
		after := commandCalls()
		Expect(after["evalsha"] - before["evalsha"]).To(Equal(1))
		Expect(after["memory|usage"] - before["memory|usage"] + after["memory"] - before["memory"]).To(BeNumerically("<", 200))
		bytes, keys := measured(name)
		Expect(memory.Err).NotTo(HaveOccurred())
		Expect(memory.Bytes).To(BeNumerically("~", bytes, bytes/5))
		Expect(memory.Keys).To(BeNumerically("~", keys, keys/20))
		Expect(memory.Sampled).To(Equal(20))
		Expect(memory.Jobs).To(HaveLen(2))
		Expect(memory.Jobs[bullmq.StateWaiting]).To(BeNumerically("~", 9*memory.Jobs[bullmq.StateDelayed], memory.Jobs[bullmq.StateDelayed]*3))
		Expect(memory.Events).To(BeNumerically(">", 1000))
	})

	It("is that of each of many queues, with an error for one that can't be read", func() {
		names := make([]string, 25)
		for i := range names {
			names[i] = newQueueName()
		}
		fill(names[3], 10, 500)
		fill(names[24], 10, 5000)
		Expect(redisDo("SET", keyOf(names[7], "wait"), "text").Error()).To(Succeed())
		estimate(link, names[0])
		before := commandCalls()
		memory := estimate(link, names...)
		Expect(commandCalls()["evalsha"] - before["evalsha"]).To(Equal(3))
		for i, queue := range memory {
			Expect(queue.Name).To(Equal(names[i]))
			if i != 3 && i != 7 && i != 24 {
				Expect(queue).To(Equal(bullmq.QueueMemory{Name: names[i], Jobs: map[bullmq.State]int64{}}))
			}
		}
		Expect(memory[7].Err).To(MatchError(ContainSubstring("WRONGTYPE")))
		Expect(memory[24].Bytes).To(BeNumerically(">", memory[3].Bytes+20_000))
		Expect(estimate(link)).To(BeEmpty())
	})

	It("is unknown to a user who may not measure it, but not the number of keys", func() {
		name := newQueueName()
		fill(name, 20, 100)
		Expect(redisDo("ACL", "SETUSER", name, "on", ">secret", "~bull:*", "+@all", "-memory").Error()).To(Succeed())
		DeferCleanup(func() { redisDo("ACL", "DELUSER", name) })
		narrow, err := bullmq.Connect(ctx, fmt.Sprintf("redis://%s:secret@%s", name, redis.Addr()))
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(narrow.Close)
		memory := estimate(narrow, name)[0]
		Expect(memory.Err).NotTo(HaveOccurred())
		Expect([]int64{memory.Bytes, memory.Events, memory.Jobs[bullmq.StateWaiting]}).To(HaveEach(int64(-1)))
		_, keys := measured(name)
		Expect(memory.Keys).To(Equal(keys))
	})

	It("of queues in several slots of a cluster is estimated", func() {
		clustered()
		conn, err := bullmq.Connect(ctx, cluster.URL())
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(conn.Close)
		names := []string{"{" + newQueueName() + "}", "{" + newQueueName() + "}"}
		for _, name := range names {
			_, err := newQueue(name, &bullmq.QueueOptions{Connection: conn}).Add(ctx, "paint", nil, nil)
			Expect(err).NotTo(HaveOccurred())
		}
		for _, memory := range estimate(conn, names...) {
			Expect(memory.Bytes).To(BeNumerically(">", 0))
		}
	})

	It("needs a connection and valid names", func() {
		_, err := bullmq.EstimateQueueMemory(ctx, nil, "")
		Expect(err).To(MatchError(ContainSubstring("there is no Connection")))
		_, err = bullmq.EstimateQueueMemory(ctx, link, "", "a:b")
		Expect(err).To(MatchError(ContainSubstring("colon")))
	})
})
