package backendtest

import (
	"github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

func (s *suite) events() {
	ginkgo.Describe("Events", func() {
		ginkgo.It("have a position that moves with each of them", func() {
			before, err := s.Store.LastEvent(s.ctx)
			Expect(err).NotTo(HaveOccurred())
			id, err := s.Store.Publish(s.ctx, 100, []string{"event", "custom", "b", "2", "a", "1"})
			Expect(err).NotTo(HaveOccurred())
			after, err := s.Store.LastEvent(s.ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(after.ID).To(Equal(id))
			Expect(after.ID).NotTo(Equal(before.ID))
		})

		ginkgo.It("contain the end of a job with its result", func() {
			s.run("a")
			Expect(s.Store.FindEnd(s.ctx, "a")).To(BeNil())
			s.complete("a", `"value"`)
			s.run("b")
			s.fail("b", "boom")
			end := func(id string) map[string]string {
				event, err := s.Store.FindEnd(s.ctx, id)
				Expect(err).NotTo(HaveOccurred())
				Expect(event).NotTo(BeNil())
				return fieldsOf(event)
			}
			Expect(end("a")).To(And(HaveKeyWithValue("event", "completed"), HaveKeyWithValue("returnvalue", `"value"`)))
			Expect(end("b")).To(And(HaveKeyWithValue("event", "failed"), HaveKeyWithValue("failedReason", "boom")))
		})

		ginkgo.It("of a job can be read again after one of them, and tell whether some are missing", func() {
			s.run("a")
			first, err := s.Store.Publish(s.ctx, 100, []string{"event", "custom", "jobId", "a"})
			Expect(err).NotTo(HaveOccurred())
			s.run("b")
			s.complete("a", "1")
			last, err := s.Store.LastEvent(s.ctx)
			Expect(err).NotTo(HaveOccurred())
			read := func(after, last string) (kinds []string, complete bool) {
				events, complete, err := s.Store.JobEvents(s.ctx, "a", after, last)
				Expect(err).NotTo(HaveOccurred())
				for i := range events {
					kinds = append(kinds, fieldsOf(&events[i])["event"])
				}
				return kinds, complete
			}
			kinds, complete := read(first, last.ID)
			Expect(kinds).To(Equal([]string{"completed"}))
			Expect(complete).To(BeTrue())
			kinds, complete = read("0-0", first)
			Expect(kinds[len(kinds)-1]).To(Equal("custom"))
			Expect(complete).To(BeFalse())
			kinds, complete = read(last.ID, last.ID)
			Expect(kinds).To(BeEmpty())
			Expect(complete).To(BeTrue())
		})

		ginkgo.It("can all be removed", func() {
			s.run("a")
			s.complete("a", "1")
			removed, err := s.Store.TrimEvents(s.ctx, 0)
			Expect(err).NotTo(HaveOccurred())
			Expect(removed).To(BeNumerically(">", 0))
			Expect(s.Store.FindEnd(s.ctx, "a")).To(BeNil())
		})
	})
}

func fieldsOf(event *backend.Event) map[string]string {
	fields := map[string]string{}
	for i := 0; i+1 < len(event.Fields); i += 2 {
		fields[event.Fields[i]] = event.Fields[i+1]
	}
	return fields
}
