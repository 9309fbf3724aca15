package tests

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = DescribeTable("The tree of a flow that only Node uses is read with the states and outcomes of its jobs", func(line string) {
	name := newQueueName()
	kids := name + "-kids"
	node := startProbe("-bullmq", line)
	child := func(id string, options object, children ...object) object {
		options["jobId"] = id
		return object{"name": "child", "queueName": kids, "data": object{"id": id}, "opts": options, "children": children}
	}
	node.Do("addFlow", object{"flow": object{
		"name": "parent", "queueName": name, "data": object{}, "opts": object{"jobId": "top"}, "children": []object{
			child("done", object{}), child("gone", object{"removeOnComplete": true}), child("broken", object{"failParentOnFailure": true}),
			child("ignored", object{"ignoreDependencyOnFailure": true}), child("runs", object{}), child("waits", object{}),
			child("late", object{"delay": 3600_000}), child("nested", object{}, child("deep", object{})),
		},
	}}, nil)
	stateOf := map[string]bullmq.State{"waits": bullmq.StateWaiting, "deep": bullmq.StateWaiting, "runs": bullmq.StateWaiting}
	for range 6 {
		var job struct{ ID string }
		node.Do("fetch", object{"queue": kids, "token": "token"}, &job)
		stateOf[job.ID] = bullmq.StateActive
		switch end := (object{"queue": kids, "id": job.ID, "token": "token"}); job.ID {
		case "done", "gone":
			node.Do("complete", end, nil)
		case "broken", "ignored":
			end["message"] = "boom"
			node.Do("fail", end, nil)
		}
	}
	connection, err := bullmq.Connect(soon(), server.URL())
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(connection.Close)

	tree, err := bullmq.ReadFlowTree(soon(), connection, bullmq.FlowTreeQuery{QueueName: kids, ID: "deep", FromRoot: true})
	Expect(err).NotTo(HaveOccurred())
	Expect(tree.Ancestors).To(Equal([]bullmq.FlowTreeKey{
		{Prefix: "bull", QueueName: kids, ID: "nested"}, {Prefix: "bull", QueueName: name, ID: "top"},
	}))
	Expect([]int{tree.Nodes, tree.LeftOut}).To(Equal([]int{10, 0}))
	type seen struct {
		state   bullmq.State
		outcome bullmq.ChildOutcome
		reason  string
	}
	found := map[string]seen{}
	for _, node := range tree.Root.Children {
		found[node.ID] = seen{node.State, node.Outcome, node.FailedReason}
	}
	Expect(found).To(Equal(map[string]seen{
		"done":    {bullmq.StateCompleted, bullmq.ChildProcessed, ""},
		"gone":    {"", bullmq.ChildProcessed, ""},
		"broken":  {bullmq.StateFailed, bullmq.ChildFailed, "boom"},
		"ignored": {bullmq.StateFailed, bullmq.ChildIgnored, "boom"},
		"runs":    {stateOf["runs"], bullmq.ChildUnprocessed, ""},
		"waits":   {stateOf["waits"], bullmq.ChildUnprocessed, ""},
		"late":    {bullmq.StateDelayed, bullmq.ChildUnprocessed, ""},
		"nested":  {bullmq.StateWaitingChildren, bullmq.ChildUnprocessed, ""},
	}))
	Expect(tree.Root.Dependencies).To(Equal(bullmq.DependencyCounts{Processed: 2, Unprocessed: 4, Ignored: 1, Failed: 1}))
},
	Entry("in BullMQ 6", "6"),
	Entry("in BullMQ 5", "5"),
)
