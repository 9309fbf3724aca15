package bullmqhttp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmqhttp"
	"github.com/17a2ac88/bullmq-go/internal/testkit/nodeprocess"
)

var _ = DescribeTable("Node and a manager share queues:", Label("slow"), func(version string, dialect bullmq.Dialect) {
	ctx := context.Background()
	managed := manage(bullmqhttp.ManagerOptions{Fetcher: bullmq.FetcherOptions{Dialect: dialect}})
	worked := manage(bullmqhttp.ManagerOptions{Fetcher: bullmq.FetcherOptions{Dialect: dialect}})

	// Jobs of the Manager for Node: one whose worker is gone, two that were released, and others.
	gone := worked.add(map[string]any{"n": 1}, nil)
	_, err := worked.m.Extend(ctx, worked.claim("gone"), time.Millisecond, nil)
	Expect(err).NotTo(HaveOccurred())
	released, later := worked.add(map[string]any{"n": 2}, nil), worked.add(map[string]any{"n": 3}, nil)
	claims := []*bullmqhttp.Claim{worked.claim("anna"), worked.claim("anna")}
	Expect(worked.m.Release(ctx, claims[0], 0)).To(Succeed())
	Expect(worked.m.Release(ctx, claims[1], 10*time.Millisecond)).To(Succeed())
	bad := worked.add(map[string]any{"bad": true}, &bullmq.JobOptions{Attempts: 2, Backoff: bullmq.FixedBackoff(20 * time.Millisecond)})
	cancelled := worked.add(map[string]any{"n": 4}, nil)
	Expect(worked.m.Cancel(ctx, cancelled.ID, "not needed")).To(Succeed())
	held := worked.add(map[string]any{"n": 5, "hold": true}, nil)
	delayed := worked.add(map[string]any{"n": 6}, &bullmq.JobOptions{Delay: 50 * time.Millisecond, Priority: 2})

	process := runNode("manager.mjs", version, managed.queue.Name(), worked.queue.Name())
	next := func() (line nodeprocess.Line) {
		GinkgoHelper()
		Eventually(process.Lines(), "60s").Should(Receive(&line), process.Stderr())
		return line
	}

	// Jobs of Node for the workers of the Manager.
	Expect(next().String()).To(MatchJSON(`{"added":["node-ok","node-again","node-bad","node-later","node-first"]}`))
	left := map[string]bool{"ok": true, "again": true, "bad": true, "later": true, "first": true}
	for len(left) > 0 {
		claim := managed.claim("anna")
		Expect(string(claim.Job.Data)).To(Equal(fmt.Sprintf(`{"name":%q,"text":"ä<&>"}`, claim.Job.Name)))
		switch name := claim.Job.Name; {
		case name == "bad":
			_, err := managed.m.Fail(ctx, claim, bullmqhttp.Failure{Reason: "no ink", Permanent: true})
			Expect(err).NotTo(HaveOccurred())
		case name == "again" && claim.Job.Attempts == 0:
			job, err := managed.m.Fail(ctx, claim, bullmqhttp.Failure{Reason: "busy"})
			Expect(err).NotTo(HaveOccurred())
			Expect(job.State).To(Equal(bullmqhttp.Retrying))
			continue
		default:
			_, err := managed.m.Extend(ctx, claim, 0, map[string]int{"percent": 50})
			Expect(err).NotTo(HaveOccurred())
			_, err = managed.m.Succeed(ctx, claim, map[string]string{"url": "/r/" + name + "?a&b"})
			Expect(err).NotTo(HaveOccurred())
		}
		delete(left, claim.Job.Name)
	}
	Expect(next().String()).To(MatchJSON(`{"ended":{"ok":{"url":"/r/ok?a&b"},"again":{"url":"/r/again?a&b"},"bad":"failed: no ink","later":{"url":"/r/later?a&b"},"first":{"url":"/r/first?a&b"}}}`))
	var read struct {
		Shown map[string]struct {
			State, Name, FailedReason, ProcessedBy string
			ReturnValue, Progress                  json.RawMessage
			AttemptsMade                           int
		}
	}
	Expect(next().Decode(&read)).To(Succeed())
	for name, job := range read.Shown {
		Expect(job.ProcessedBy).To(Equal("anna"))
		stored := managed.get("node-" + name)
		Expect(stored.Attempts).To(Equal(job.AttemptsMade))
		if name == "bad" {
			Expect([]string{job.State, job.FailedReason}).To(Equal([]string{"failed", "no ink"}))
			Expect(stored.State).To(Equal(bullmqhttp.Failed))
			continue
		}
		Expect(job.State).To(Equal("completed"))
		Expect(string(job.ReturnValue)).To(Equal(string(stored.Result)))
		Expect(job.Progress).To(MatchJSON(`{"percent":50}`))
		Expect(stored.State).To(Equal(bullmqhttp.Succeeded))
	}
	Expect(read.Shown).To(HaveLen(5))
	Expect(read.Shown["again"].AttemptsMade).To(Equal(2))

	// Node holds a job meanwhile, so the Manager can't use or remove it.
	Eventually(func() bullmqhttp.State { return worked.get(held.ID).State }, "60s").Should(Equal(bullmqhttp.Running))
	Expect(worked.get(held.ID).Worker).To(Equal("node-worker"))
	for _, err := range worked.use(&bullmqhttp.Claim{JobID: held.ID, Worker: "anna", Token: "AAAAAAAAAAAAAAAAAAAAAA.anna"}) {
		Expect(err).To(MatchError(bullmqhttp.ErrAlreadyAssigned))
	}
	Expect(worked.m.Remove(ctx, held.ID)).To(MatchError(bullmqhttp.ErrAlreadyAssigned))
	Expect(worked.queue.JobRef(held.ID).UpdateProgress(ctx, "go")).To(Succeed())

	for n, job := range map[int]*bullmqhttp.JobInfo{1: gone, 2: released, 3: later, 5: held, 6: delayed} {
		Eventually(func() bullmqhttp.State { return worked.get(job.ID).State }, "60s").Should(Equal(bullmqhttp.Succeeded), fmt.Sprint(n, process.Stderr()))
		stored := worked.get(job.ID)
		Expect(stored.Result).To(MatchJSON(fmt.Sprintf(`{"by":"node","n":%d}`, n)))
		Expect([]any{stored.Worker, stored.Attempts}).To(Equal([]any{"node-worker", 1}))
	}
	Eventually(func() bullmqhttp.State { return worked.get(bad.ID).State }, "60s").Should(Equal(bullmqhttp.Failed))
	Expect(worked.get(bad.ID).Error).To(Equal("no toner"))
	Expect(worked.get(bad.ID).Attempts).To(Equal(2))
	Eventually(func() bullmqhttp.State { return worked.get(cancelled.ID).State }, "60s").Should(Equal(bullmqhttp.Cancelled))
	Expect(worked.m.Stats(ctx)).To(Equal(bullmqhttp.Stats{Completed: 5, Failed: 1, Cancelled: 1, Examined: 2}))
},
	Entry("bullmq 6", "bullmq", bullmq.V6),
	Entry("bullmq 5", "bullmq5", bullmq.V5),
)
