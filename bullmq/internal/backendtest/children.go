package backendtest

import (
	"github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

func (s *suite) children() {
	ginkgo.Describe("A parent", func() {
		// family leaves a parent with a child of each kind.
		family := func() {
			s.addFlow(named("parent"), s.childOf("parent", "done"), s.childWith("parent", "ignored", "idof"),
				s.childWith("parent", "broken", "fpof"), s.childOf("parent", "pending"))
			Expect(s.fetch()).To(Equal("done"))
			s.complete("done", `"value"`)
			Expect(s.fetch()).To(Equal("ignored"))
			s.fail("ignored", "no matter")
			Expect(s.fetch()).To(Equal("broken"))
			s.fail("broken", "boom")
		}

		ginkgo.It("knows its children by what has become of them", func() {
			family()
			Expect(s.Store.Children(s.ctx, "parent")).To(Equal(backend.Dependencies{
				Processed: []backend.ChildResult{{Child: s.ref("done"), Value: `"value"`}},
				Pending:   []backend.JobRef{s.ref("pending")},
				Ignored:   []backend.ChildResult{{Child: s.ref("ignored"), Value: "no matter"}},
				Failed:    []backend.JobRef{s.ref("broken")},
			}))
			Expect(s.Store.ChildCounts(s.ctx, "parent")).To(Equal(backend.ChildCounts{Processed: 1, Pending: 1, Ignored: 1, Failed: 1}))
		})

		ginkgo.It("has the values of the completed children and the reasons of the ignored ones", func() {
			family()
			Expect(s.Store.ChildValues(s.ctx, "parent")).To(Equal([]backend.ChildResult{{Child: s.ref("done"), Value: `"value"`}}))
			Expect(s.Store.IgnoredFailures(s.ctx, "parent")).To(Equal([]backend.ChildResult{{Child: s.ref("ignored"), Value: "no matter"}}))
		})

		ginkgo.It("has children that can be read by scans and by ranges", func() {
			family()
			page, err := s.Store.ScanChildren(s.ctx, "parent", backend.ChildScan{Pending: &backend.Scan{Count: 10}})
			Expect(err).NotTo(HaveOccurred())
			Expect(page.Pending).To(Equal([]backend.JobRef{s.ref("pending")}))
			Expect(page.Processed).To(BeEmpty())
			Expect(page.Next).To(Equal(backend.ChildScan{}))
			children, total, err := s.Store.ChildRange(s.ctx, "parent", true, 0, 9)
			Expect(err).NotTo(HaveOccurred())
			Expect(children).To(Equal([]backend.ChildResult{{Child: s.ref("done"), Value: `"value"`}}))
			Expect(total).To(Equal(1))
		})

		ginkgo.It("has jobs, names and reasons that are read in the order of the request", func() {
			family()
			refs := []backend.JobRef{s.ref("broken"), s.ref("gone"), s.ref("done")}
			Expect(s.Store.JobLabels(s.ctx, refs)).To(Equal([]backend.JobLabel{{Name: "broken", FailedReason: "boom"}, {}, {Name: "done"}}))
			Expect(s.Store.JobLabels(s.ctx, nil)).To(BeEmpty())
			records, err := s.Store.JobsOf(s.ctx, refs)
			Expect(err).NotTo(HaveOccurred())
			Expect(records).To(HaveLen(3))
			Expect(records[0].Name).To(Equal("broken"))
			Expect(records[1]).To(BeNil())
			Expect(records[2].Name).To(Equal("done"))
		})

		ginkgo.It("goes on without a child whose dependency was removed", func() {
			s.addFlow(named("parent"), s.childOf("parent", "a"))
			Expect(s.Store.RemoveChildDependency(s.ctx, "a")).To(BeTrue())
			s.expectState("parent", backend.Waiting)
			Expect(s.record("a").Parent.IsZero()).To(BeTrue())
			Expect(s.Store.RemoveChildDependency(s.ctx, "a")).To(BeFalse())
		})

		ginkgo.It("goes on after RemoveUnprocessedChildren, which removes the children that wait", func() {
			s.addFlow(named("parent"), s.childOf("parent", "a"), s.childOf("parent", "b"))
			Expect(s.fetch()).To(Equal("a"))
			s.complete("a", "1")
			Expect(s.Store.RemoveUnprocessedChildren(s.ctx, "parent")).To(Succeed())
			s.expectState("a", backend.Completed)
			s.expectState("b", backend.Unknown)
			s.expectState("parent", backend.Waiting)
		})

		ginkgo.It("is removed with its children if that is asked for", func() {
			s.addFlow(named("parent"), s.childOf("parent", "a"))
			Expect(s.Store.Remove(s.ctx, "parent", true)).To(Equal(backend.Removed))
			s.expectState("a", backend.Unknown)
		})
	})
}
