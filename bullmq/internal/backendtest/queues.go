package backendtest

import (
	"strings"
	"time"

	"github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

func (s *suite) queues() {
	ginkgo.It("finds the queues with a prefix, each once, until the caller has seen enough", func() {
		var added []string
		for _, queue := range s.members(5) {
			s.fill(queue, &backend.Add{ID: "a", Name: "a"})
			added = append(added, strings.TrimSuffix(strings.TrimPrefix(queue.key, s.Prefix+":"), ":"))
		}
		var found []string
		Expect(s.Queues.EachQueue(s.ctx, s.Prefix, func(names []string) bool {
			found = append(found, names...)
			return true
		})).To(Succeed())
		for _, name := range added {
			Expect(found).To(ContainElement(name))
		}
		seen := map[string]bool{}
		for _, name := range found {
			Expect(seen).NotTo(HaveKey(name))
			seen[name] = true
		}
		calls := 0
		Expect(s.Queues.EachQueue(s.ctx, s.Prefix, func([]string) bool { calls++; return false })).To(Succeed())
		Expect(calls).To(Equal(1))
		Expect(s.Queues.EachQueue(s.ctx, s.Prefix+"-none", func([]string) bool { panic("there is no such queue") })).To(Succeed())
	})

	ginkgo.It("measures queues by samples of their jobs", func() {
		s.requires(Memory)
		queues := s.members(2)
		for range 5 {
			s.fill(queues[1], &backend.Add{Name: "a", Data: data, Timestamp: now})
		}
		memory, err := s.Queues.Memory(s.ctx, keysOf(queues), 2)
		Expect(err).NotTo(HaveOccurred())
		Expect(memory).To(HaveLen(2))
		Expect(memory[0].Err).NotTo(HaveOccurred())
		Expect(memory[0].Jobs[backend.Waiting]).To(Equal(backend.SampledMemory{}))
		Expect(memory[1].Measured).To(BeTrue())
		Expect(memory[1].Jobs[backend.Waiting]).To(And(
			HaveField("Count", int64(5)), HaveField("Sampled", int64(2)), HaveField("Keys", int64(2)), HaveField("Bytes", BeNumerically(">", 0))))
		Expect(memory[1].Keys).To(BeNumerically(">=", 2))
		Expect(memory[1].Bytes).To(BeNumerically(">=", memory[1].Events))
	})

	ginkgo.It("summarizes queues in the order of the call", func() {
		queues := s.members(4)
		s.fill(queues[1], &backend.Add{Name: "a", Timestamp: now})
		s.fill(queues[1], &backend.Add{Name: "a", Timestamp: now.Add(time.Hour)})
		s.start(queues[2], "b")
		s.fill(queues[3], &backend.Add{Name: "a", Opts: `{"attempts":0,"deadLetter":{"queue":"bull:a","id":"1"}}`})
		summaries, err := s.Queues.Summaries(s.ctx, keysOf(queues), 60)
		Expect(err).NotTo(HaveOccurred())
		Expect(summaries).To(HaveLen(4))
		Expect(summaries[0].Counts).To(HaveEach(0))
		Expect(summaries[0].Oldest).To(BeEmpty())
		Expect(summaries[1].Counts).To(HaveKeyWithValue(backend.Waiting, 2))
		Expect(summaries[1].Oldest[backend.Waiting]).To(BeTemporally("==", now))
		Expect(summaries[1].IDs).To(Equal(2))
		Expect(summaries[2].Counts).To(HaveKeyWithValue(backend.Active, 1))
		Expect(summaries[2].Oldest).To(HaveKey(backend.Active))
		for i, summary := range summaries {
			Expect(summary.DeadLetters).To(Equal(i == 3))
			Expect(summary.Schedulers).To(BeZero())
			Expect(summary.PausedSchedulers).To(BeZero())
		}
	})
}
