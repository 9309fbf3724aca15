package backendtest

import (
	"fmt"
	"strings"

	"github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

func (s *suite) flowReading() {
	ginkgo.Describe("A reader of flows", func() {
		start := func(id string, depth int) backend.FlowStart {
			return backend.FlowStart{JobRef: s.ref(id), Depth: depth}
		}
		read := func(change func(read *backend.FlowRead)) backend.FlowPart {
			ginkgo.GinkgoHelper()
			all := backend.FlowRead{
				Jobs: []backend.FlowStart{start("parent", 0)}, MaxJobs: 100, Room: 100, MaxDepth: 100, MaxChildren: 100, MaxText: 10,
			}
			if change != nil {
				change(&all)
			}
			part, err := s.Flows.ReadFlow(s.ctx, all)
			Expect(err).NotTo(HaveOccurred())
			return part
		}
		// family leaves a parent with a child of each kind.
		family := func() {
			s.addFlow(named("parent"), s.childOf("parent", "done"), s.childWith("parent", "ignored", "idof"),
				s.childWith("parent", "broken", "fpof"), s.childOf("parent", "pending"))
			Expect(s.fetch()).To(Equal("done"))
			s.complete("done", `"value"`)
			Expect(s.fetch()).To(Equal("ignored"))
			s.fail("ignored", "no matter at all")
			Expect(s.fetch()).To(Equal("broken"))
			s.fail("broken", "boom")
		}

		ginkgo.It("reads a job and its children, each with its state and with what the parent knows of it", func() {
			family()
			part := read(nil)
			Expect(part.Found).To(Equal([]backend.FlowChild{
				{JobRef: s.ref("broken"), Kind: backend.ChildFailed}, {JobRef: s.ref("ignored"), Kind: backend.ChildIgnored},
				{JobRef: s.ref("pending"), Kind: backend.ChildPending}, {JobRef: s.ref("done"), Kind: backend.ChildProcessed},
			}))
			Expect(part.Records).To(HaveLen(5))
			Expect(*part.Records[0]).To(Equal(backend.FlowRecord{
				Name: "parent", Timestamp: now, State: backend.Waiting, Children: backend.ChildCounts{Processed: 1, Pending: 1, Ignored: 1, Failed: 1},
			}))
			Expect(*part.Records[1]).To(And(HaveField("State", backend.Failed), HaveField("FailedReason", "boom"), HaveField("FailedReasonSize", 4),
				HaveField("AttemptsMade", 1), HaveField("FinishedOn", Not(BeZero())), HaveField("Children", backend.ChildCounts{})))
			Expect(*part.Records[2]).To(And(HaveField("FailedReason", "no matter "), HaveField("FailedReasonSize", 16)))
			Expect(part.Records[3].State).To(Equal(backend.Waiting))
			Expect(*part.Records[4]).To(And(HaveField("State", backend.Completed), HaveField("Name", "done"), HaveField("ProcessedOn", Not(BeZero()))))
		})

		ginkgo.It("reads level by level until it has read enough", func() {
			s.addFlow(named("parent"), s.childOf("parent", "a"), s.childOf("a", "a1"), s.childOf("a1", "a2"))
			part := read(func(read *backend.FlowRead) { read.MaxJobs = 2 })
			Expect(part.Found).To(Equal([]backend.FlowChild{
				{JobRef: s.ref("a"), Kind: backend.ChildPending}, {JobRef: s.ref("a1"), Parent: 1, Kind: backend.ChildPending},
			}))
			Expect(part.Records).To(HaveLen(2))
			part = read(func(read *backend.FlowRead) { read.MaxDepth = 1 })
			Expect(part.Found).To(HaveLen(1))
			Expect(part.Records).To(HaveLen(2))
			Expect(part.Records[1].Children).To(Equal(backend.ChildCounts{Pending: 1}))
			part = read(func(read *backend.FlowRead) {
				read.Jobs, read.MaxDepth = []backend.FlowStart{start("a2", 3), start("a", 1), start("none", 1)}, 2
			})
			Expect(part.Found).To(Equal([]backend.FlowChild{{JobRef: s.ref("a1"), Parent: 1, Kind: backend.ChildPending}}))
			Expect(part.Records).To(HaveLen(4))
			Expect(part.Records[0].Name).To(Equal("a2"))
			Expect(*part.Records[2]).To(Equal(backend.FlowRecord{Missing: true}))
		})

		ginkgo.It("finds no more children than there is room for, the failed ones first", func() {
			family()
			part := read(func(read *backend.FlowRead) { read.Room = 2 })
			Expect(part.Found).To(HaveLen(2))
			Expect(part.Found[0].JobRef).To(Equal(s.ref("broken")))
			part = read(func(read *backend.FlowRead) { read.MaxChildren = 1 })
			Expect(part.Found).To(HaveLen(1))
			Expect(read(func(read *backend.FlowRead) { read.Room = 0 }).Found).To(BeEmpty())
		})

		ginkgo.It("finds some of a thousand and more children", func() {
			jobs := []*backend.Add{named("parent")}
			for i := range 1100 {
				jobs = append(jobs, s.childOf("parent", fmt.Sprint("child-", i)))
			}
			s.addFlow(jobs...)
			part := read(func(read *backend.FlowRead) { read.MaxChildren = 10 })
			Expect(len(part.Found)).To(And(BeNumerically(">", 0), BeNumerically("<=", 10)))
			Expect(part.Records[0].Children.Pending).To(Equal(1100))
			part = read(func(read *backend.FlowRead) { read.MaxChildren, read.Room, read.MaxJobs = 5000, 5000, 1 })
			Expect(part.Found).To(HaveLen(1100))
			Expect(part.Records).To(HaveLen(1))
		})

		ginkgo.It("tells the state of a job that runs, is delayed or has a priority", func() {
			late := delayed("late", 1000)
			late.Delay = lockTime
			first := named("first")
			first.State, first.Priority = backend.Prioritized, 3
			s.add(named("runs"))
			Expect(s.fetch()).To(Equal("runs"))
			s.add(late, first)
			part := read(func(read *backend.FlowRead) {
				read.Jobs = []backend.FlowStart{start("runs", 0), start("late", 0), start("first", 0)}
			})
			var states []backend.State
			for _, record := range part.Records {
				states = append(states, record.State)
			}
			Expect(states).To(Equal([]backend.State{backend.Active, backend.Delayed, backend.Prioritized}))
		})

		ginkgo.It("follows the parents of a job", func() {
			s.addFlow(named("parent"), s.childOf("parent", "a"), s.childOf("a", "b"), s.childOf("b", "c"))
			all, err := s.Flows.FlowAncestors(s.ctx, s.ref("c"), 10)
			Expect(err).NotTo(HaveOccurred())
			Expect(all).To(Equal(backend.FlowAncestors{Jobs: []backend.JobRef{s.ref("b"), s.ref("a"), s.ref("parent")}, End: backend.AncestorsRoot}))
			some, err := s.Flows.FlowAncestors(s.ctx, s.ref("c"), 2)
			Expect(err).NotTo(HaveOccurred())
			Expect(some).To(Equal(backend.FlowAncestors{Jobs: []backend.JobRef{s.ref("b"), s.ref("a")}, End: backend.AncestorsMore}))
			none, err := s.Flows.FlowAncestors(s.ctx, s.ref(strings.Repeat("x", 10)), 2)
			Expect(err).NotTo(HaveOccurred())
			Expect(none.End).To(Equal(backend.AncestorsGone))
		})
	})
}
