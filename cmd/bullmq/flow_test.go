package main

import (
	"encoding/json"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("The command flow", func() {
	It("shows a flow of Node as a tree, with failed and ignored children", func() {
		n := openNode("6")
		child := func(id string, options map[string]any, children ...any) map[string]any {
			opts := map[string]any{"jobId": id}
			for name, value := range options {
				opts[name] = value
			}
			return map[string]any{"name": "paint", "queueName": "walls", "data": 1, "opts": opts, "children": children}
		}
		n.call("addFlow", map[string]any{"flow": map[string]any{"name": "ship", "queueName": "orders", "data": 1, "opts": map[string]any{"jobId": "house"}, "children": []any{
			child("ignored", map[string]any{"ignoreDependencyOnFailure": true}),
			child("north", nil),
			child("south", nil, child("door\x1b[31m", nil)),
		}}})
		for range 3 {
			job := n.call("fetch", map[string]any{"queue": "walls", "token": "t"}).(map[string]any)
			switch job["id"] {
			case "ignored":
				n.call("fail", map[string]any{"queue": "walls", "id": job["id"], "token": "t", "message": "no \x1b[31mpaint"})
			case "north":
				n.call("complete", map[string]any{"queue": "walls", "id": job["id"], "token": "t", "returnvalue": 1})
			}
		}

		output, _ := n.run(0, "flow", "orders", "house")
		var root flowLine
		Expect(json.Unmarshal([]byte(output), &root)).To(Succeed())
		Expect(root).To(And(HaveField("ID", "house"), HaveField("State", BeEquivalentTo("waiting-children")), HaveField("Prefix", ""), HaveField("Children", HaveLen(3))))
		Expect(*root.Counts).To(Equal(childCounts{Processed: 1, Unprocessed: 1, Ignored: 1}))
		Expect(root.Children).To(ContainElements(
			And(HaveField("ID", "ignored"), HaveField("Outcome", BeEquivalentTo("ignored")), HaveField("FailedReason", "no \x1b[31mpaint")),
			And(HaveField("ID", "south"), HaveField("Children", HaveLen(1)))))

		shown := onTerminal(n.command("flow", "orders", "house"), "")
		Expect(shown).NotTo(ContainSubstring("\x1b"))
		Expect(shown).To(MatchRegexp(`(?m)^· ship orders/house waiting-children \(1 of 3 children completed\)$`))
		Expect(shown).To(MatchRegexp(`(?m)^├─ ! paint walls/ignored failed \(its failure is ignored\) in \S+ — no .\[31mpaint$`))
		Expect(shown).To(MatchRegexp(`(?m)^[├└]─ ✓ paint walls/north completed`))
		Expect(shown).To(MatchRegexp(`(?m)^[│ ]  └─ · paint walls/door.\[31m (waiting|active)$`))
		Expect(onTerminal(n.command("flow", "walls", "north", "--root"), "")).To(MatchRegexp(`(?m)^. ship orders/house(.*\n)+.*✓ paint walls/north completed.* ←$`))
		n.run(3, "flow", "orders", "none")
	})

	It("leaves out jobs beyond its limits, and says so", func() {
		n := openNode("5")
		children := make([]any, 40)
		for i := range children {
			children[i] = map[string]any{"name": fmt.Sprint("paint", i), "queueName": "walls", "data": 1}
		}
		n.call("addFlow", map[string]any{"flow": map[string]any{"name": "ship", "queueName": "orders", "data": 1, "opts": map[string]any{"jobId": "house"}, "children": children}})
		output, errors := n.run(0, "flow", "orders", "house", "--max-nodes", "11")
		Expect(errors).To(ContainSubstring("30 jobs were left out: raise --max-nodes"))
		var root flowLine
		Expect(json.Unmarshal([]byte(output), &root)).To(Succeed())
		Expect(root.Children).To(HaveLen(10))
		Expect(root.LeftOut).To(Equal(30))
		Expect(onTerminal(n.command("flow", "orders", "house", "--max-nodes", "3"), "")).To(ContainSubstring("└─ … 38 children not shown"))
		output, _ = n.run(0, "flow", "orders", "house")
		Expect(json.Unmarshal([]byte(output), &root)).To(Succeed())
		Expect(root.Children).To(HaveLen(40))
	})
})
