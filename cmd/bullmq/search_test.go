package main

import (
	"fmt"
	"regexp"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("The command search", func() {
	It("finds jobs of Node by their id or by conditions, in one, several or all queues", func() {
		n := openNode("6")
		for _, queue := range []string{"mails", "orders", "walls"} {
			bulk := make([]map[string]any, 3)
			for i := range bulk {
				bulk[i] = map[string]any{"name": fmt.Sprint("paint", i), "data": map[string]any{"in": queue, "color": "Blue"}}
			}
			n.call("addBulk", map[string]any{"queue": queue, "jobs": bulk})
		}
		n.call("add", map[string]any{"queue": "walls", "name": "sand", "data": 1, "opts": map[string]any{"jobId": "west"}})
		n.call("run", map[string]any{"queue": "walls", "count": 4, "handler": map[string]any{"throw": "no sand"}})

		output, _ := n.run(0, "search", "--id", "west")
		Expect(lines(output)).To(HaveExactElements(And(HaveKeyWithValue("queue", "walls"), HaveKeyWithValue("id", "west"), HaveKeyWithValue("state", "failed"))))
		output, _ = n.run(0, "search", "--id", "2")
		Expect(lines(output)).To(HaveExactElements(HaveKeyWithValue("queue", "mails"), HaveKeyWithValue("queue", "orders"), HaveKeyWithValue("queue", "walls")))
		output, _ = n.run(0, "search", "mails", "orders", "--id", "2")
		Expect(lines(output)).To(HaveLen(2))
		_, errors := n.run(3, "search", "mails", "--id", "west")
		Expect(errors).To(ContainSubstring("find job west in 1 queue"))
		output, _ = n.run(0, "search", "--error", "NO SAND", "--name", "sand")
		Expect(lines(output)).To(HaveExactElements(HaveKeyWithValue("id", "west")))
		Expect(onTerminal(n.command("search", "orders", "--name", "paint1"), "")).To(MatchRegexp(`(?m)^orders +2 +waiting +paint1 `))

		arguments := []string{"search", "--data", "blue", "--limit", "4"}
		var found []map[string]any
		for range 3 {
			output, errors := n.run(0, arguments...)
			found = append(found, lines(output)...)
			after := regexp.MustCompile(`--after '(\S+)'`).FindStringSubmatch(errors)
			if after == nil {
				break
			}
			arguments = append(arguments[:5:5], "--after", after[1])
		}
		Expect(found).To(HaveLen(9))
		_, errors = n.run(0, "search", "--data", "blue", "--max-read", "2")
		Expect(errors).To(ContainSubstring("--after 'mails@"))
		_, errors = n.run(1, "search", "--id", "1", "nowhere")
		Expect(errors).To(ContainSubstring("there is no queue nowhere"))
	})
})

var _ = Describe("The commands for dead letters", func() {
	It("list, count, show and replay the letters of jobs that Node has failed", func() {
		n := openNode("6")
		for i := range 4 {
			n.call("add", map[string]any{"queue": "orders", "name": "paint", "data": map[string]any{"wall": i}})
		}
		n.call("add", map[string]any{"queue": "orders", "name": "sand", "data": 1})
		n.call("run", map[string]any{"queue": "orders", "count": 5, "handler": map[string]any{"byName": map[string]any{
			"paint": map[string]any{"throw": "the bucket is empty"}, "sand": map[string]any{"throw": "no \x1b[31msand"}}}})
		orders := n.queue("orders")
		_, err := orders.MoveFailed(ctx, "failures", nil)
		Expect(err).NotTo(HaveOccurred())
		failures := n.queue("failures")
		n.add(failures, 1, "no letter", nil, &bullmq.JobOptions{JobID: "other"})

		output, _ := n.run(0, "dead", "failures")
		letters := lines(output)
		Expect(letters).To(HaveLen(5))
		Expect(letters).To(HaveEach(And(HaveKeyWithValue("queue", "orders"), HaveKeyWithValue("attemptsMade", 1.0))))
		output, _ = n.run(0, "dead", "failures", "--counts")
		Expect(lines(output)).To(HaveExactElements(And(HaveKeyWithValue("total", 5.0), HaveKeyWithValue("queues", HaveKeyWithValue("orders", 5.0)), HaveKeyWithValue("reasons", HaveKeyWithValue("the bucket is empty", 4.0)))))
		Expect(onTerminal(n.command("dead", "failures", "--counts"), "")).To(MatchRegexp(`(?s)LETTERS +QUEUE\s+5 +orders\s+LETTERS +ERROR\s+4 +the bucket is empty\s+1 +no .\[31msand`))
		output, errors := n.run(0, "dead", "failures", "--error", "bucket", "--limit", "3")
		Expect(lines(output)).To(HaveLen(3))
		after := regexp.MustCompile(`--after (\S+)`).FindStringSubmatch(errors)
		Expect(after).To(HaveLen(2))
		output, _ = n.run(0, "dead", "failures", "--error", "bucket", "--limit", "3", "--after", after[1])
		Expect(lines(output)).To(HaveLen(1))
		Expect(onTerminal(n.command("dead", "failures", "--name", "sand"), "")).To(MatchRegexp(`(?m)^\S+ +orders +5 +sand `))
		id := letters[0]["id"].(string)
		output, _ = n.run(0, "dead", "failures", id)
		Expect(lines(output)).To(HaveExactElements(And(HaveKeyWithValue("id", id), HaveKeyWithValue("stackTrace", Not(BeEmpty())), HaveKeyWithValue("state", "waiting"))))
		output, _ = n.run(0, "dead", "failures", "--from", "orders", "--job", "5")
		Expect(lines(output)).To(HaveExactElements(HaveKeyWithValue("name", "sand")))
		n.run(3, "dead", "failures", "none")
		_, errors = n.run(1, "dead", "failures", "other")
		Expect(errors).To(ContainSubstring("it is no dead letter"))

		before := n.dump()
		output, _ = n.run(0, "replay", "failures", "--name", "paint", "--limit", "3", "--dry-run")
		Expect(lines(output)).To(HaveExactElements(And(HaveKeyWithValue("matched", 3.0), HaveKeyWithValue("dryRun", true))))
		output, _ = n.run(1, "replay", "failures", id, "other", "--dry-run")
		Expect(lines(output)).To(HaveExactElements(And(HaveKeyWithValue("matched", 2.0), HaveKeyWithValue("failed", HaveKey("other")))))
		Expect(onTerminal(n.command("replay", "failures", "--all"), "n\n")).To(And(ContainSubstring("replay 5 letters of failures? [y/N]"), ContainSubstring("nothing was changed")))
		Expect(n.dump()).To(Equal(before))
		n.run(0, "replay", "failures", id)
		output, _ = n.run(0, "replay", "failures", "--all", "--yes")
		Expect(lines(output)).To(HaveExactElements(HaveKeyWithValue("done", 4.0)))
		Expect(n.call("counts", map[string]any{"queue": "orders", "types": []string{"waiting"}})).To(HaveKeyWithValue("waiting", 5.0))
		Expect(failures.Count(ctx)).To(Equal(1))
	})
})
