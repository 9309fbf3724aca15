package bullmq_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("A custom job id", func() {
	DescribeTable("is refused, and nothing is written, if it is ambiguous:", func(id, hint string) {
		name := newQueueName()
		queue := newQueue(name, nil)
		before := snapshot(name)
		_, err := queue.Add(specContext(), "paint", nil, &bullmq.JobOptions{JobID: id})
		Expect(err).To(MatchError(And(ContainSubstring(`"`+id+`"`), ContainSubstring(hint))))
		Expect(snapshot(name)).To(Equal(before))
	},
		Entry("a number", "123", "put a letter before it"),
		Entry("a negative number", "-5", "whole numbers"),
		Entry("zero", "0", "wake-up"),
		Entry("the start of a marker entry", "0:77", "wake-up"),
		Entry("the start of a marker entry with two colons", "0:a:b", "wake-up"),
		Entry("the largest number that JavaScript prints in full", "999999999999999900000", "whole numbers"),
		Entry("JavaScript's NaN", "NaN", "whole numbers"),
		Entry("the name of a key that every queue has", "meta", "key of that name"),
		Entry("the name of a key that this queue does not have yet", "delayed", "key of that name"),
		Entry("the name of a key with two colons", "metrics:completed:data", "key of that name"),
		Entry("one colon", "a:b", "colons"),
		Entry("three colons", "a:b:c:d", "colons"),
	)

	DescribeTable("is accepted as it is otherwise:", func(id string) {
		name := newQueueName()
		job, err := newQueue(name, nil).Add(specContext(), "paint", nil, &bullmq.JobOptions{JobID: id})
		Expect(err).NotTo(HaveOccurred())
		Expect(job.ID).To(Equal(id))
		Expect(listAt(keyOf(name, "wait"))).To(Equal([]string{id}))
		Expect(hashAt(keyOf(name, id))).To(HaveKeyWithValue("name", "paint"))
	},
		Entry("leading zeros", "00123"),
		Entry("an exponent", "1e3"),
		Entry("a fraction", "12.5"),
		Entry("negative zero", "-0"),
		Entry("a plus sign", "+7"),
		Entry("a number with more digits than JavaScript keeps", "9007199254740993"),
		Entry("a number that JavaScript prints with an exponent", "1000000000000000000000"),
		Entry("a space", "a b"),
		Entry("emoji", "é😀"),
		Entry("two colons", "::"),
		Entry("three parts", "a:b:c"),
		Entry("a slash", "a/b"),
		Entry("letters and digits", "user-1"),
	)

	It("is the queue's next number if empty", func() {
		name := newQueueName()
		queue, ctx := newQueue(name, nil), specContext()
		for _, want := range []string{"1", "2", "3"} {
			job, err := queue.Add(ctx, "paint", nil, &bullmq.JobOptions{JobID: ""})
			Expect(err).NotTo(HaveOccurred())
			Expect(job.ID).To(Equal(want))
		}
		Expect(stringAt(keyOf(name, "id"))).To(Equal("3"))
	})

	It("uses up a number all the same", func() {
		name := newQueueName()
		queue, ctx := newQueue(name, nil), specContext()
		_, err := queue.Add(ctx, "paint", nil, &bullmq.JobOptions{JobID: "own"})
		Expect(err).NotTo(HaveOccurred())
		job, err := queue.Add(ctx, "paint", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(job.ID).To(Equal("2"))
	})

	It("adds nothing if a job already has it, whether running or finished", func() {
		name := newQueueName()
		queue, ctx := newQueue(name, nil), specContext()
		add := func(jobName string, v int) {
			GinkgoHelper()
			job, err := queue.Add(ctx, jobName, map[string]int{"v": v}, &bullmq.JobOptions{JobID: "d"})
			Expect(err).NotTo(HaveOccurred())
			Expect(job.ID).To(Equal("d"))
			Expect(hashAt(keyOf(name, "d"))).To(And(HaveKeyWithValue("data", `{"v":1}`), HaveKeyWithValue("name", "first")))
		}
		add("first", 1)
		add("second", 2)
		Expect(listAt(keyOf(name, "wait"))).To(Equal([]string{"d"}))
		Expect(eventsOf(name)).To(Equal([]string{"added jobId=d name=first", "waiting jobId=d", "duplicated jobId=d"}))

		fetcher := newFetcher(name, nil)
		job := takeJob(fetcher)
		add("third", 3)
		Expect(listAt(keyOf(name, "wait"))).To(BeEmpty())

		endJob(fetcher, job, nil, nil)
		add("fourth", 4)
		Expect(listAt(keyOf(name, "wait"))).To(BeEmpty())
		Expect(zsetAt(keyOf(name, "completed"))).To(Equal([]string{"d"}))
		Expect(eventsOf(name)).To(HaveExactElements(ContainSubstring("added"), ContainSubstring("waiting"), "duplicated jobId=d",
			ContainSubstring("active"), "duplicated jobId=d", ContainSubstring("completed"), "drained", "duplicated jobId=d"))
	})

	It("can be reused once its job is removed on completion", func() {
		name := newQueueName()
		queue, ctx := newQueue(name, nil), specContext()
		fetcher := newFetcher(name, nil)
		options := &bullmq.JobOptions{JobID: "d", KeepCompleted: bullmq.KeepNone()}
		for _, v := range []string{`{"v":1}`, `{"v":2}`} {
			_, err := queue.Add(ctx, "paint", rawJSON(v), options)
			Expect(err).NotTo(HaveOccurred())
			job := takeJob(fetcher)
			Expect(string(job.Data)).To(Equal(v))
			endJob(fetcher, job, nil, nil)
			Expect(keysOf(name)).NotTo(ContainElement(keyOf(name, "d")))
		}
		Expect(eventsOf(name)).NotTo(ContainElement(ContainSubstring("duplicated")))
	})
})
