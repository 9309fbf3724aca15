package bullmq_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// chainOf returns a flow of n levels with a job each.
func chainOf(n int, queue string) bullmq.Flow {
	steps := make([]bullmq.Flow, n)
	for i := range steps {
		steps[i] = bullmq.Flow{Name: "step", QueueName: queue}
	}
	return bullmq.Chain(steps...)
}

// treeOf returns a flow in which each job above the last level has the given number of children.
func treeOf(levels, children int, queue string) bullmq.Flow {
	flow := bullmq.Flow{Name: "part", QueueName: queue}
	if levels > 1 {
		for range children {
			flow.Children = append(flow.Children, treeOf(levels-1, children, queue))
		}
	}
	return flow
}

// wideFlow returns a flow of a root with n children.
func wideFlow(n int, queue string) bullmq.Flow {
	flow := bullmq.Flow{Name: "all", QueueName: queue, Children: make([]bullmq.Flow, n)}
	for i := range flow.Children {
		flow.Children[i] = bullmq.Flow{Name: "part", QueueName: queue, Data: map[string]any{"text": fmt.Sprintf("%0500d", i)}}
	}
	return flow
}

// nodesOf counts the nodes and the levels of a tree.
func nodesOf(node *bullmq.FlowTreeNode) (nodes, levels int) {
	nodes = 1
	for _, child := range node.Children {
		n, l := nodesOf(child)
		nodes, levels = nodes+n, max(levels, l)
	}
	return nodes, levels + 1
}

var _ = Describe("The tree of a flow", func() {
	var (
		ctx      context.Context
		link     *bullmq.Connection
		producer *bullmq.FlowProducer
		queue    string
	)
	BeforeEach(func() {
		ctx, link, queue = specContext(), sharedConnection(), newQueueName()
		var err error
		producer, err = bullmq.NewFlowProducer(ctx, &bullmq.FlowProducerOptions{Connection: link})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(producer.Close)
	})
	add := func(flow bullmq.Flow) string {
		GinkgoHelper()
		node, err := producer.Add(ctx, flow)
		Expect(err).NotTo(HaveOccurred())
		return node.Job.ID
	}
	read := func(query bullmq.FlowTreeQuery) *bullmq.FlowTree {
		GinkgoHelper()
		if query.QueueName == "" {
			query.QueueName = queue
		}
		tree, err := bullmq.ReadFlowTree(ctx, link, query)
		Expect(err).NotTo(HaveOccurred())
		nodes, _ := nodesOf(tree.Root)
		Expect(tree.Nodes).To(Equal(nodes))
		return tree
	}
	// finish fetches the next job of a queue and finishes it.
	finish := func(queue string, reason error) {
		GinkgoHelper()
		fetcher := newFetcher(queue, &bullmq.FetcherOptions{Connection: link})
		endJob(fetcher, takeJob(fetcher), strings.Repeat("value ", 1000), reason)
	}
	byID := func(nodes []*bullmq.FlowTreeNode) map[string]*bullmq.FlowTreeNode {
		byID := map[string]*bullmq.FlowTreeNode{}
		for _, node := range nodes {
			byID[node.ID] = node
		}
		return byID
	}

	It("has the jobs of all queues and prefixes, with their states and outcomes", func() {
		kids, prefix := newQueueName(), "other:prefix"
		child := func(id string, options bullmq.JobOptions) bullmq.Flow {
			options.JobID = id
			return bullmq.Flow{Name: "brick", QueueName: kids, Prefix: prefix, Data: "secret", Options: &options}
		}
		own := bullmq.FetcherOptions{Connection: link, Prefix: prefix}
		add(bullmq.Flow{Name: "wall", QueueName: queue, Options: &bullmq.JobOptions{JobID: "top"}, Children: []bullmq.Flow{
			child("done", bullmq.JobOptions{}),
			child("gone", bullmq.JobOptions{KeepCompleted: bullmq.KeepNone()}),
			child("broken", bullmq.JobOptions{OnFailure: bullmq.FailParent}),
			child("ignored", bullmq.JobOptions{OnFailure: bullmq.IgnoreDependency}),
			child("stuck", bullmq.JobOptions{}),
			child("runs", bullmq.JobOptions{}),
			child("waits", bullmq.JobOptions{}),
			child("late", bullmq.JobOptions{Delay: time.Hour}),
			child("first", bullmq.JobOptions{Priority: 5}),
			{Name: "brick", QueueName: queue, Options: &bullmq.JobOptions{JobID: "nested"}, Children: []bullmq.Flow{child("deep", bullmq.JobOptions{})}},
		}})
		fetcher := newFetcher(kids, &own)
		for range 5 {
			job := takeJob(fetcher)
			Expect(job).NotTo(BeNil())
			switch job.ID {
			case "done", "gone":
				endJob(fetcher, job, strings.Repeat("value ", 1000), nil)
			default:
				endJob(fetcher, job, nil, bullmq.Unrecoverable(errors.New("boom "+strings.Repeat("\u00e4", 1000))))
			}
		}
		Expect(takeJob(fetcher).ID).To(Equal("runs"))
		before := snapshot(queue)

		tree := read(bullmq.FlowTreeQuery{ID: "top"})
		Expect(snapshot(queue)).To(Equal(before), "it changes nothing")
		Expect(tree.LeftOut).To(BeZero())
		top := tree.Root
		Expect(top.String()).To(Equal(keyOf(queue, "top")))
		Expect(top.Name).To(Equal("wall"))
		Expect(top.Outcome).To(BeEmpty())
		Expect(top.Dependencies).To(Equal(bullmq.DependencyCounts{Processed: 2, Unprocessed: 6, Ignored: 1, Failed: 1}))
		Expect(top.Children).To(HaveLen(10))
		states, outcomes := map[string]bullmq.State{}, map[string]bullmq.ChildOutcome{}
		for id, node := range byID(top.Children) {
			states[id], outcomes[id] = node.State, node.Outcome
		}
		Expect(states).To(Equal(map[string]bullmq.State{
			"done": bullmq.StateCompleted, "gone": "", "broken": bullmq.StateFailed, "ignored": bullmq.StateFailed, "stuck": bullmq.StateFailed,
			"runs": bullmq.StateActive, "waits": bullmq.StateWaiting, "late": bullmq.StateDelayed, "first": bullmq.StatePrioritized,
			"nested": bullmq.StateWaitingChildren,
		}))
		Expect(outcomes).To(Equal(map[string]bullmq.ChildOutcome{
			"done": bullmq.ChildProcessed, "gone": bullmq.ChildProcessed, "broken": bullmq.ChildFailed, "ignored": bullmq.ChildIgnored,
			"stuck": bullmq.ChildUnprocessed, "runs": bullmq.ChildUnprocessed, "waits": bullmq.ChildUnprocessed, "late": bullmq.ChildUnprocessed,
			"first": bullmq.ChildUnprocessed, "nested": bullmq.ChildUnprocessed,
		}))
		children := byID(top.Children)
		Expect(children["gone"].Removed).To(BeTrue())
		broken := children["broken"]
		Expect(broken.Prefix).To(Equal(prefix))
		Expect(broken.QueueName).To(Equal(kids))
		Expect(broken.AttemptsMade).To(Equal(1))
		Expect(broken.FailedReason).To(HavePrefix("boom \u00e4"))
		Expect(len(broken.FailedReason)).To(BeNumerically("~", 500, 2))
		Expect(utf8.ValidString(broken.FailedReason)).To(BeTrue())
		Expect(broken.FailedReasonSize).To(Equal(2005))
		Expect(broken.FinishedOn).To(BeTemporally("~", time.Now(), time.Minute))
		Expect(broken.Timestamp).To(BeTemporally("<=", broken.ProcessedOn))
		Expect(children["nested"].Children).To(HaveLen(1))
		Expect(children["nested"].Children[0].ID).To(Equal("deep"))
	})

	It("tells what the limits leave out, and prefers the failed children", func() {
		flow := wideFlow(30, queue)
		flow.Options = &bullmq.JobOptions{JobID: "top"}
		for i := range flow.Children {
			flow.Children[i].Options = &bullmq.JobOptions{OnFailure: bullmq.FailParent}
			flow.Children[i].Children = []bullmq.Flow{{Name: "deep", QueueName: queue + "-deep"}, {Name: "deep", QueueName: queue + "-deep"}}
		}
		add(flow)
		finish(queue+"-deep", nil)
		finish(queue+"-deep", nil)
		finish(queue, bullmq.Unrecoverable(errors.New("boom")))

		tree := read(bullmq.FlowTreeQuery{ID: "top", MaxChildren: 4})
		Expect(tree.Nodes).To(Equal(1 + 4 + 8))
		Expect(tree.LeftOut).To(Equal(26))
		Expect(tree.Root.LeftOut).To(Equal(26))
		Expect(tree.Root.Children).To(ContainElement(HaveField("Outcome", bullmq.ChildFailed)))

		tree = read(bullmq.FlowTreeQuery{ID: "top", MaxNodes: 50})
		Expect(tree.Nodes).To(Equal(50))
		Expect(tree.Root.LeftOut).To(BeZero())
		Expect(tree.LeftOut).To(Equal(60 - 19))

		tree = read(bullmq.FlowTreeQuery{ID: "top", MaxDepth: 2})
		Expect(tree.Nodes).To(Equal(31))
		Expect(tree.LeftOut).To(Equal(60))
		tree = read(bullmq.FlowTreeQuery{ID: "top", MaxDepth: 1})
		Expect([]int{tree.Nodes, tree.LeftOut}).To(Equal([]int{1, 30}))
	})

	It("begins at the root of a job, and knows the path to it", func() {
		root := add(bullmq.Chain(
			bullmq.Flow{Name: "a", QueueName: queue, Options: &bullmq.JobOptions{JobID: "a"}},
			bullmq.Flow{Name: "b", QueueName: queue + "-b", Options: &bullmq.JobOptions{JobID: "b"}},
			bullmq.Flow{Name: "c", QueueName: queue},
		))
		path := []bullmq.FlowTreeKey{{Prefix: "bull", QueueName: queue + "-b", ID: "b"}, {Prefix: "bull", QueueName: queue, ID: root}}
		tree := read(bullmq.FlowTreeQuery{ID: "a", FromRoot: true})
		Expect(tree.Ancestors).To(Equal(path))
		Expect(tree.Root.ID).To(Equal(root))
		Expect(tree.Nodes).To(Equal(3))
		Expect(read(bullmq.FlowTreeQuery{ID: "a"}).Nodes).To(Equal(1))
		Expect(read(bullmq.FlowTreeQuery{ID: root, FromRoot: true}).Ancestors).To(BeEmpty())
		Expect(bullmq.FlowAncestors(ctx, link, "", queue, "a")).To(Equal(path))

		Expect(redisDo("DEL", keyOf(queue, root)).Error()).To(Succeed())
		Expect(bullmq.FlowAncestors(ctx, link, "", queue, "a")).To(Equal(path[:1]))
		Expect(read(bullmq.FlowTreeQuery{ID: "a", FromRoot: true}).Root.ID).To(Equal("b"))
	})

	It("of a long chain is found from its last job", Label("slow"), func() {
		root := add(chainOf(2500, queue))
		tree := read(bullmq.FlowTreeQuery{ID: root})
		leaf := tree.Root
		for len(leaf.Children) > 0 {
			leaf = leaf.Children[0]
		}
		ancestors, err := bullmq.FlowAncestors(ctx, link, "", queue, leaf.ID)
		Expect(err).NotTo(HaveOccurred())
		Expect(ancestors).To(HaveLen(2499))
		Expect(ancestors[2498].ID).To(Equal(root))
	})

	It("can't be read without the job or with wrong limits", func() {
		_, err := bullmq.ReadFlowTree(ctx, link, bullmq.FlowTreeQuery{QueueName: queue, ID: "none"})
		Expect(err).To(MatchError(bullmq.ErrJobNotFound))
		_, err = bullmq.ReadFlowTree(ctx, link, bullmq.FlowTreeQuery{QueueName: queue, ID: "none", FromRoot: true})
		Expect(err).To(MatchError(bullmq.ErrJobNotFound))
		_, err = bullmq.FlowAncestors(ctx, link, "", queue, "none")
		Expect(err).To(MatchError(bullmq.ErrJobNotFound))
		_, err = bullmq.ReadFlowTree(ctx, link, bullmq.FlowTreeQuery{QueueName: queue, ID: "a", MaxNodes: -1})
		Expect(err).To(MatchError(ContainSubstring("MaxNodes -1")))
		_, err = bullmq.ReadFlowTree(ctx, nil, bullmq.FlowTreeQuery{QueueName: queue, ID: "a"})
		Expect(err).To(MatchError(ContainSubstring("Connect")))
		_, err = bullmq.FlowAncestors(ctx, &bullmq.Connection{}, "", queue, "a")
		Expect(err).To(MatchError(ContainSubstring("Connect")))
		_, err = bullmq.ReadFlowTree(ctx, link, bullmq.FlowTreeQuery{QueueName: "a:b", ID: "a"})
		Expect(err).To(MatchError(ContainSubstring("colon")))
	})

	It("has jobs that other clients have damaged, and ends if a job is its own descendant", func() {
		add(bullmq.Flow{Name: "a", QueueName: queue, Options: &bullmq.JobOptions{JobID: "a"}, Children: []bullmq.Flow{
			{Name: "b", QueueName: queue, Options: &bullmq.JobOptions{JobID: "b"}},
		}})
		for _, command := range [][]string{
			{"SADD", keyOf(queue, "b:dependencies"), keyOf(queue, "a"), keyOf(queue, "text"), "no key", keyOf(queue, "b")},
			{"HSET", keyOf(queue, "a"), "parentKey", keyOf(queue, "b"), "timestamp", "1;2;3", "name", "<b>\x1b[31m;" + strings.Repeat("x", 5000)},
			{"SET", keyOf(queue, "text"), "1"}, {"SET", keyOf(queue, "b:processed"), "1"}, {"HSET", keyOf(queue, "b:failed"), keyOf(queue, "none"), "lost"},
			{"HSET", keyOf(queue, "b"), "finishedOn", "5", "processedOn", "4", "failedReason", strings.Repeat("y", 40_000)},
		} {
			Expect(redisDo(command...).Error()).To(Succeed())
		}
		tree := read(bullmq.FlowTreeQuery{ID: "a"})
		Expect(tree.Root.Name).To(And(HavePrefix("<b>\x1b[31m;xxx"), HaveLen(500)))
		Expect(tree.Root.Timestamp).To(BeZero())
		Expect(tree.Root.Children).To(HaveLen(1))
		b := tree.Root.Children[0]
		Expect(b.State).To(Equal(bullmq.StateWaiting))
		Expect(b.FailedReason).To(BeEmpty())
		Expect(b.FailedReasonSize).To(Equal(40_000))
		Expect(b.Children).To(ConsistOf(
			And(HaveField("ID", "text"), HaveField("Removed", true)),
			And(HaveField("ID", "none"), HaveField("Removed", true), HaveField("Outcome", bullmq.ChildIgnored)),
			HaveField("Err", MatchError(ContainSubstring("no key"))),
		))
		ancestors, err := bullmq.FlowAncestors(ctx, link, "", queue, "a")
		Expect(err).NotTo(HaveOccurred())
		Expect(ancestors).To(HaveLen(1))
	})

	It("has an error for a child that the user may not read", func() {
		add(bullmq.Flow{Name: "a", QueueName: queue, Options: &bullmq.JobOptions{JobID: "a"}, Children: []bullmq.Flow{
			{Name: "b", QueueName: queue}, {Name: "b", QueueName: "private-" + queue, Options: &bullmq.JobOptions{JobID: "b"}},
		}})
		Expect(redisDo("ACL", "SETUSER", queue, "on", ">secret", "~bull:"+queue+":*", "+@all").Error()).To(Succeed())
		DeferCleanup(func() { redisDo("ACL", "DELUSER", queue) })
		narrow, err := bullmq.Connect(ctx, "redis://"+queue+":secret@"+redis.Addr())
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(narrow.Close)
		tree, err := bullmq.ReadFlowTree(ctx, narrow, bullmq.FlowTreeQuery{QueueName: queue, ID: "a"})
		Expect(err).NotTo(HaveOccurred())
		Expect(tree.Root.Children).To(ConsistOf(
			And(HaveField("QueueName", queue), HaveField("State", bullmq.StateWaiting)),
			And(HaveField("ID", "b"), HaveField("State", bullmq.State("")), HaveField("Err", MatchError(MatchRegexp("NOPERM|can't access")))),
		))
	})

	It("spans the hash slots of a cluster", func() {
		link := clustered()
		tag := queue
		queue := func(n int) string { return fmt.Sprintf("{%s-%d}", tag, n) }
		own, err := bullmq.NewFlowProducer(ctx, &bullmq.FlowProducerOptions{Connection: link})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(own.Close)
		for n := range 3 {
			_, err := own.Add(ctx, bullmq.Flow{Name: "part", QueueName: queue(n), Options: &bullmq.JobOptions{JobID: fmt.Sprint("job-", n)}, Children: []bullmq.Flow{
				{Name: "leaf", QueueName: queue(n)}, {Name: "leaf", QueueName: queue(n)},
			}})
			Expect(err).NotTo(HaveOccurred())
			if n > 0 { // no client adds such a flow, but older ones may have
				Expect(onCluster("SADD", "bull:"+queue(n-1)+":"+fmt.Sprint("job-", n-1)+":dependencies", "bull:"+queue(n)+":"+fmt.Sprint("job-", n)).Error()).To(Succeed())
				Expect(onCluster("HSET", "bull:"+queue(n)+":"+fmt.Sprint("job-", n), "parentKey", "bull:"+queue(n-1)+":"+fmt.Sprint("job-", n-1)).Error()).To(Succeed())
			}
		}
		conn, err := bullmq.Connect(ctx, cluster.URL())
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(conn.Close)
		tree, err := bullmq.ReadFlowTree(ctx, conn, bullmq.FlowTreeQuery{QueueName: queue(2), ID: "job-2", FromRoot: true})
		Expect(err).NotTo(HaveOccurred())
		nodes, levels := nodesOf(tree.Root)
		Expect([]int{nodes, levels, tree.LeftOut}).To(Equal([]int{9, 4, 0}))
		Expect(tree.Root.ID).To(Equal("job-0"))
		Expect(tree.Ancestors).To(HaveLen(2))
	})

	DescribeTable("is read by few short calls if the flow has 10,000 jobs", Label("slow"), func(flow func() bullmq.Flow, nodes, levels int) {
		id := add(flow())
		read(bullmq.FlowTreeQuery{ID: id, MaxNodes: 1}) // loads the script
		before, start := commandCalls(), time.Now()
		tree := read(bullmq.FlowTreeQuery{ID: id})
		took := time.Since(start)
		after := commandCalls()
		n, l := nodesOf(tree.Root)
		Expect([]int{n, l, tree.LeftOut}).To(Equal([]int{nodes, levels, 0}))
		commands, byScripts := after["evalsha"]-before["evalsha"], 0
		for name, n := range after {
			if name != "evalsha" {
				byScripts += n - before[name]
			}
		}
		GinkgoWriter.Println(nodes, "jobs in", took, "by", commands, "calls, which ran", byScripts, "commands")
		Expect(commands).To(BeNumerically("<=", 25))
		Expect(byScripts).To(BeNumerically("<=", 7*nodes))
	},
		Entry("as children of one job", func() bullmq.Flow { return wideFlow(9999, queue) }, 10_000, 2),
		Entry("as a chain", func() bullmq.Flow { return chainOf(10_000, queue) }, 10_000, 10_000),
		Entry("in a tree of 5 levels", func() bullmq.Flow { return treeOf(5, 9, queue) }, 7381, 5),
		Entry("in a binary tree", func() bullmq.Flow { return treeOf(13, 2, queue) }, 8191, 13),
	)
})
