package main

import (
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"
)

var _ = Describe("The command and Node", func() {
	DescribeTable("see the same jobs, and what each has done with them", func(version string) {
		n := openNode(version)
		orders := func(arguments map[string]any) map[string]any {
			arguments["queue"] = "orders"
			return arguments
		}
		add := func(id string, opts map[string]any) {
			GinkgoHelper()
			opts["jobId"] = id
			n.call("add", orders(map[string]any{"name": "paint", "data": map[string]any{"wall": id}, "opts": opts}))
		}
		state := func(id string) any {
			GinkgoHelper()
			return n.call("state", orders(map[string]any{"id": id}))
		}
		add("a", map[string]any{"delay": 3600000})
		add("b", map[string]any{"delay": 3600000})
		add("c", map[string]any{"priority": 3})
		add("d", map[string]any{})
		output, _ := n.run(0, "queues")
		Expect(lines(output)).To(HaveExactElements(And(HaveKeyWithValue("name", "orders"), HaveKeyWithValue("counts", And(HaveKeyWithValue("delayed", 2.0), HaveKeyWithValue("prioritized", 1.0), HaveKeyWithValue("waiting", 1.0))))))

		n.run(0, "promote", "orders", "a")
		Expect(state("a")).To(Equal("waiting"))
		Expect(onTerminal(n.command("promote", "orders", "--data", `"wall":"b"`), "y\n")).To(And(ContainSubstring("promote 1 job of orders? [y/N]"), ContainSubstring("1 of 1 job promoted")))
		Expect(state("b")).To(Equal("waiting"))
		n.run(0, "remove", "orders", "c")
		Expect(state("c")).To(Equal("unknown"))
		n.run(0, "cancel", "orders", "d")
		n.call("run", orders(map[string]any{"count": 3, "handler": map[string]any{"return": "dry"}}))
		Expect(state("a")).To(Equal("completed"))
		Expect(state("d")).To(Equal("failed"))
		_, errors := n.run(1, "cancel", "orders", "a")
		Expect(errors).To(ContainSubstring("the job has finished"))
		output, _ = n.run(0, "job", "orders", "a")
		Expect(lines(output)).To(HaveExactElements(And(HaveKeyWithValue("state", "completed"), HaveKeyWithValue("data", HaveKeyWithValue("wall", "a")), HaveKeyWithValue("returnvalue", "dry"))))

		output, _ = n.run(0, "add", "orders", "sand", `{"wall":"<e>"}`, "--priority", "2")
		id := lines(output)[0]["id"].(string)
		Expect(n.call("job", orders(map[string]any{"id": id}))).To(And(HaveKeyWithValue("name", "sand"), HaveKeyWithValue("data", HaveKeyWithValue("wall", "<e>"))))
		Expect(state(id)).To(Equal("prioritized"))

		add("f", map[string]any{"delay": 3600000})
		add("g", map[string]any{})
		_, errors = n.run(1, "move", "orders", "f", "--to", "ordres")
		Expect(errors).To(ContainSubstring("there is no queue ordres"))
		before := n.dump()
		output, _ = n.run(1, "move", "orders", "f", "a", "--to", "slow", "--create", "--dry-run")
		Expect(lines(output)).To(HaveExactElements(And(HaveKeyWithValue("matched", 2.0), HaveKeyWithValue("failed", HaveKeyWithValue("a", ContainSubstring("the job is completed"))))))
		Expect(n.dump()).To(Equal(before))
		n.run(0, "move", "orders", "f", "--to", "slow", "--create")
		Expect(onTerminal(n.command("move", "orders", "--to", "slow", "--data", `"wall":"g"`), "y\n")).To(And(ContainSubstring("move 1 job of orders? [y/N]"), ContainSubstring("1 of 1 job moved")))
		Expect(state("f")).To(Equal("unknown"))
		Expect(n.call("state", map[string]any{"queue": "slow", "id": "f"})).To(Equal("delayed"))
		Expect(n.call("job", map[string]any{"queue": "slow", "id": "g"})).To(HaveKeyWithValue("data", HaveKeyWithValue("wall", "g")))

		session, err := gexec.Start(n.command("tail", "orders", "--after", "0-0"), GinkgoWriter, GinkgoWriter)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { session.Kill().Wait("10s") })
		Eventually(session.Out, "20s").Should(gbytes.Say(`"event":"completed","job":"[ab]"`))
		session.Signal(syscall.SIGINT)
		Eventually(session, "20s").Should(gexec.Exit(0))

		n.call("add", orders(map[string]any{"name": "paint", "data": 1, "opts": map[string]any{"jobId": "lost"}}))
		client := n.client()
		Expect(client.Do(ctx, client.B().Del().Key(nodePrefix+":orders:wait").Build()).Error()).To(Succeed())
		output, _ = n.run(0, "stranded", "orders")
		Expect(lines(output)).To(HaveExactElements(HaveKeyWithValue("id", "lost")))
		n.run(0, "repair", "orders", "--yes")
		Expect(state("lost")).To(Equal("waiting"))
	},
		Entry("of bullmq 6", "6"),
		Entry("of bullmq 5", "5"),
	)
})
