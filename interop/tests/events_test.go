package tests

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("The events of a queue", func() {
	It("reach Node's QueueEvents complete, once and in the same order as Go's, if only Go processes the jobs", func() {
		l := newLedger(newQueueName())
		inNode, inGo := readInNode(l.queue, ""), readInGo(l.queue)
		worker := workInGo(l, "gopher", bullmq.WorkerOptions{})
		produceFromGo(l, mixOfJobs(jobs, 6))
		l.waitForEnds(jobs)
		worker.stop()
		l.settle(jobs)
		expectSameEvents(l, inNode, inGo)
	})

	It("reach Go's QueueEvents complete, once and in the same order as Node's, if only Node processes the jobs", func() {
		l := newLedger(newQueueName())
		inNode, inGo := readInNode(l.queue, ""), readInGo(l.queue)
		worker := workInNode(l, "noddy", "6")
		produceFromNode(l, "6", jobs, 7)
		l.waitForEnds(jobs)
		worker.stop()
		l.settle(jobs)
		expectSameEvents(l, inNode, inGo)
	})

	It("have the same payloads for listeners in Node and Go, whichever library published them", func() {
		name := newQueueName()
		inNode, inGo := readInNode(name, "custom event"), readInGo(name)
		queue, ctx := newGoQueue(name), soon()

		add := func(id string, options bullmq.JobOptions) {
			GinkgoHelper()
			options.JobID = id
			_, err := queue.Add(ctx, "a", nil, &options)
			Expect(err).NotTo(HaveOccurred())
		}
		only := &bullmq.Deduplication{ID: "only <one>"}
		add("go-1", bullmq.JobOptions{Deduplication: only})
		add("go-1", bullmq.JobOptions{})
		add("go-2", bullmq.JobOptions{Deduplication: only})
		node.Add(name, "a", object{}, object{"jobId": "node-1"})
		node.Add(name, "a", object{}, object{"jobId": "node-1"})
		node.Add(name, "a", object{}, object{"jobId": "node-2", "deduplication": object{"id": "only <one>"}})
		for _, progress := range []any{50, "half", true, object{"a": []any{1, nil}}, nil, []any{}, "", 0} {
			Expect(queue.JobRef("go-1").UpdateProgress(ctx, progress)).To(Succeed())
			node.Do("progress", object{"queue": name, "id": "node-1", "progress": progress}, nil)
		}
		Expect(queue.Pause(ctx)).To(Succeed())
		node.Do("pause", object{"queue": name}, nil)
		Expect(queue.Resume(ctx)).To(Succeed())
		node.Do("resume", object{"queue": name}, nil)
		node.Do("remove", object{"queue": name, "id": "node-1"}, nil)
		node.Do("clean", object{"queue": name, "grace": 0, "limit": 10, "type": "completed"}, nil)
		_, err := queue.Publish(ctx, "custom event", nil, "jobId", "x", "text", "<&> é \"", "delay", "5")
		Expect(err).NotTo(HaveOccurred())
		node.Do("publish", object{"queue": name, "event": object{"eventName": "custom event", "jobId": "x", "text": "<&> é \"", "delay": "5"}}, nil)

		end := lastEvent(name)
		inGoHeard, inNodeHeard := inGo.upTo(end), inNode.upTo(end)
		Expect(inGoHeard).To(Equal(inNodeHeard))

		// Both libraries made the same calls, so their events differ only in the ids.
		caused := map[string][]string{}
		for _, event := range inNodeHeard {
			caused[event.Name] = append(caused[event.Name], stringified(event.Payload))
		}
		Expect(caused["custom event"]).To(HaveLen(2))
		Expect(caused["custom event"][0]).To(Equal(caused["custom event"][1]))
		Expect(caused["duplicated"]).To(Equal([]string{`{"jobId":"go-1"}`, `{"jobId":"node-1"}`}))
		Expect(caused["deduplicated"]).To(Equal([]string{
			`{"deduplicatedJobId":"go-2","deduplicationId":"only <one>","jobId":"go-1"}`,
			`{"deduplicatedJobId":"node-2","deduplicationId":"only <one>","jobId":"go-1"}`,
		}))
		Expect(caused["progress"]).To(HaveLen(16))
		Expect(caused["progress"][6:8]).To(Equal([]string{
			`{"data":{"a":[1,null]},"jobId":"go-1"}`, `{"data":{"a":[1,null]},"jobId":"node-1"}`,
		}))
		Expect(caused).To(And(HaveKey("paused"), HaveKey("resumed"), HaveKey("removed"), HaveKey("cleaned")))
	})
})

var _ = Describe("A queue without events", func() {
	DescribeTable("is shared by Node and Go without events accumulating:", func(line string) {
		name, ctx := newQueueName(), soon()
		other := node
		if line != "6" {
			other = startProbe("-bullmq", line)
		}
		other.Do("openQueue", object{"queue": name, "streams": object{"events": object{"maxLen": 0}}}, nil)
		Expect(ask("HGET", "bull:"+name+":meta", "opts.maxLenEvents").ToString()).To(Equal("0"))
		queue, err := bullmq.NewQueue(ctx, name, &bullmq.QueueOptions{URL: server.URL(), MaxEvents: bullmq.NoEvents})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(queue.Close)
		Expect(ask("HGET", "bull:"+name+":meta", "opts.maxLenEvents").ToString()).To(Equal("0"))
		kept := func() (int64, error) { return ask("XLEN", "bull:"+name+":events").AsInt64() }

		const each = 60
		add := func() {
			for range each {
				_, err := queue.Add(ctx, "go", nil, nil)
				Expect(err).NotTo(HaveOccurred())
				other.Add(name, "node", object{}, object{})
			}
		}
		completed := func() (int, error) {
			counts, err := queue.Counts(ctx, bullmq.StateCompleted)
			return counts[bullmq.StateCompleted], err
		}
		add()
		Expect(kept()).To(BeZero())
		inNode := startNode("worker.mjs", "-queue", name, "-bullmq", line)
		Eventually(completed).Should(BeEquivalentTo(2 * each))
		Expect(inNode.Stop()).To(BeZero())
		Expect(kept()).To(BeNumerically("<", 100))
		add()
		runGoWorker(name, returning(nil), bullmq.WorkerOptions{})
		Eventually(completed).Should(BeEquivalentTo(4 * each))
		Expect(kept()).To(BeNumerically("<", 100))
		_, err = queue.Publish(ctx, "mine", nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(kept()).To(BeZero())
	},
		Entry("Go and bullmq 6.7.0", "6"), Entry("Go and bullmq 5.81.5", "5"),
	)
})

// expectSameEvents checks that both readers received identical events, and for each job those that follow from
// its options and handler, in order.
func expectSameEvents(l *ledger, inNode, inGo *reader) {
	GinkgoHelper()
	end := lastEvent(l.queue)
	first, second := inNode.upTo(end), inGo.upTo(end)
	Expect(second).To(HaveLen(len(first)))
	for i := range first {
		if !reflect.DeepEqual(first[i], second[i]) {
			Fail(fmt.Sprintf("event %d is %+v in Node and %+v in Go", i+1, first[i], second[i]))
		}
	}

	stories := map[string][]received{}
	ids := map[string]bool{}
	for _, event := range first {
		if ids[event.StreamID] {
			Fail("entry " + event.StreamID + " was delivered twice")
		}
		ids[event.StreamID] = true
		if id := event.jobID(); id != "" {
			stories[id] = append(stories[id], event)
			continue
		}
		if event.Name != "drained" {
			Fail(fmt.Sprintf("%+v has no job", event))
		}
	}
	Expect(first[len(first)-1].Name).To(Equal("drained"))
	Expect(stories).To(HaveLen(len(l.added)))
	var wrong []string
	for id, got := range stories {
		if want := l.added[id][0].expectedEvents(l.ends[id][0]); !slices.EqualFunc(got, want, sameEvent) {
			wrong = append(wrong, fmt.Sprintf("job %s (%s):\n got    %v\n wanted %v", id, l.added[id][0].name, got, want))
		}
	}
	Expect(wrong[:min(len(wrong), 3)]).To(BeEmpty())
}

// sameEvent compares an event with the expected one. A delay of NaN matches any delay.
func sameEvent(got, want received) bool {
	if until, ok := want.Payload["delay"].(float64); ok && math.IsNaN(until) {
		if at, isNumber := got.Payload["delay"].(float64); !isNumber || at < 1.7e12 {
			return false
		}
		want.Payload["delay"] = got.Payload["delay"]
	}
	return got.Name == want.Name && reflect.DeepEqual(got.Payload, want.Payload)
}

// expectedEvents returns the expected events of the job.
func (a added) expectedEvents(end ended) []received {
	var events []received
	say := func(name string, more object) {
		payload := object{"jobId": a.id}
		for field, value := range more {
			payload[field] = value
		}
		events = append(events, received{Name: name, Payload: payload})
	}
	wait := func(delayed bool, more object) {
		if delayed {
			say("delayed", object{"delay": math.NaN()})
			more = object{"prev": "delayed"}
		}
		say("waiting", more)
	}
	say("added", object{"name": a.name})
	wait(a.opts.Delay > 0, nil)
	p := a.plan()
	for attempt := 1; attempt <= p.starts; attempt++ {
		say("active", object{"prev": "waiting"})
		if attempt < p.starts {
			wait(len(a.opts.Backoff) > 0, object{"prev": "active"})
		}
	}
	if p.fails {
		say("failed", object{"failedReason": end.value, "prev": "active"})
		say("retries-exhausted", object{"attemptsMade": fmt.Sprint(p.starts)})
	} else {
		say("completed", object{"returnvalue": decoded(json.RawMessage(end.value)), "prev": "active"})
	}
	return events
}
