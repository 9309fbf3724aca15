package tests

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/nodeprocess"
)

var _ = Describe("The name of a route", func() {
	It("is the same in Go and in the five lines of JavaScript", func() {
		process := startNode("routes.mjs")
		traits := []string{"gpu", "GPU", "avx", "cuda_12.4", "a-b", "Z", "stack", "region", "server", "any", "0"}
		pick := func() string {
			if rand.IntN(2) == 0 {
				return ""
			}
			return traits[rand.IntN(len(traits))]
		}
		targets := []bullmq.Target{{}, {Mode: bullmq.MatchAny}, {Server: "w1"}, {Capabilities: []string{"gpu", "avx", "GPU"}}}
		for range 500 {
			target := bullmq.Target{Stack: pick(), Region: pick(), Mode: []bullmq.TargetMode{"", bullmq.MatchAll, bullmq.MatchAny}[rand.IntN(3)]}
			if rand.IntN(5) == 0 {
				target.Server = pick()
			}
			for range rand.IntN(4) {
				target.Capabilities = append(target.Capabilities, traits[rand.IntN(len(traits))])
			}
			targets = append(targets, target)
		}
		queues := []string{"orders", "a@b", "{tag}", "ordres à"}
		for i, target := range targets {
			queue := queues[i%len(queues)]
			want, err := target.Route(queue)
			Expect(err).NotTo(HaveOccurred())
			var stored struct {
				Target json.RawMessage `json:"target,omitempty"`
			}
			text, err := json.Marshal(bullmq.JobOptions{Target: &target})
			Expect(err).NotTo(HaveOccurred())
			Expect(json.Unmarshal(text, &stored)).To(Succeed())
			request := object{"queue": queue}
			if stored.Target != nil {
				request["target"] = stored.Target
			}
			Expect(process.Send(request)).To(Succeed())
			line, err := process.WaitFor(soon(), func(nodeprocess.Line) bool { return true })
			Expect(err).NotTo(HaveOccurred())
			var reply struct{ Route string }
			Expect(line.Decode(&reply)).To(Succeed())
			Expect(reply.Route).To(Equal(want), string(text))
		}
	})
})

var _ = Describe("A job that Node adds to a queue with a target", func() {
	DescribeTable("is forwarded by Go, runs in Node on its route, and keeps its target, with", func(line string) {
		name := newQueueName()
		probe := startProbe("-bullmq", line)
		target := object{"capabilities": []any{"gpu"}, "region": "eu", "note": "kept"}
		id := probe.Add(name, "a", object{"n": 1}, object{"target": target, "attempts": 2})
		Expect(probe.Record(name, id)).To(HaveKeyWithValue("opts", HaveKeyWithValue("target", target)))
		runGoWorker(name, func(context.Context, *bullmq.Job) (any, error) { return nil, errors.New("it ran in Go") }, bullmq.WorkerOptions{})
		route := name + "@gpu+region=eu"
		worker := startNode("worker.mjs", "-queue", route, "-bullmq", line, "-name", "noddy")
		_, err := worker.WaitFor(soon(), hasEvent("completed"))
		Expect(err).NotTo(HaveOccurred())
		Expect(probe.Record(route, id)).To(And(
			HaveKeyWithValue("state", "completed"), HaveKeyWithValue("attemptsMade", 1.), HaveKeyWithValue("attemptsStarted", 1.),
			HaveKeyWithValue("processedBy", "noddy"), HaveKeyWithValue("opts", HaveKeyWithValue("target", target)),
		))
		Expect(ask("KEYS", "bull:"+name+":"+id+"*").AsStrSlice()).To(BeEmpty())
	}, Entry("bullmq 6", "6"), Entry("bullmq 5", "5"))
})
