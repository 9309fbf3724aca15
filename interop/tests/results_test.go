package tests

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("The results of jobs", func() {
	It("that Node finishes reach every caller waiting in Go, before and after the end, even if the job is removed at once", func() {
		l := newLedger(newQueueName())
		queue := newGoQueue(l.queue)
		produceFromGo(l, mixOfJobs(jobs, 8))
		ctx := within(60 * time.Second)
		var waiting sync.WaitGroup
		var mu sync.Mutex
		results := map[string]result{}
		wait := func(id string) {
			waiting.Go(func() {
				value, err := queue.WaitForJob(ctx, id)
				mu.Lock()
				defer mu.Unlock()
				results[id] = goResult(value, err)
			})
		}
		late := map[string]bool{}
		for id := range l.added {
			if len(late) < jobs/10 {
				late[id] = true
				continue
			}
			wait(id)
		}
		worker := workInNode(l, "noddy", "6")
		l.waitForEnds(jobs)
		returned := make(chan struct{})
		go func() { waiting.Wait(); close(returned) }()
		Eventually(returned).WithTimeout(15*time.Second).Should(BeClosed(), "callers that waited before the end")
		worker.stop()
		for id := range late {
			if l.added[id][0].stays() {
				wait(id)
			} else {
				delete(l.added, id) // the stream may no longer contain its end
			}
		}
		waiting.Wait()
		Expect(results).To(Equal(l.results()))
	})

	It("that Go finishes reach every caller waiting in Node, even if the job is removed at once", func() {
		l := newLedger(newQueueName())
		produceFromNode(l, "6", jobs/2, 9)
		produceFromGo(l, mixOfJobs(jobs/2, 10))
		ids := make([]string, 0, len(l.added))
		for id := range l.added {
			ids = append(ids, id)
		}
		node.Do("listen", object{"queue": l.queue, "ids": ids}, nil)
		worker := workInGo(l, "gopher", bullmq.WorkerOptions{})
		l.waitForEnds(jobs)
		worker.stop()
		var results map[string]result
		node.Do("results", object{"queue": l.queue}, &results)
		for id, got := range results {
			results[id] = got.compacted()
		}
		Expect(results).To(Equal(l.results()))
	})

	It("that exist already are returned at once, and in Go also those of removed jobs whose end is still in the stream", func() {
		name := newQueueName()
		queue := newGoQueue(name)
		removed := node.Add(name, "removed", object{}, object{"removeOnComplete": true})
		kept := node.Add(name, "kept", object{}, object{})
		failed := node.Add(name, "failed", object{}, object{"removeOnFail": true})
		node.Run(name, 3, object{"byName": object{
			"removed": object{"return": object{"gone": true}}, "kept": object{"return": ""}, "failed": object{"throw": "no <way>"},
		}}, object{})(nil)
		ctx := within(2 * time.Second)
		Expect(queue.WaitForJob(ctx, removed)).To(MatchJSON(`{"gone":true}`))
		Expect(queue.WaitForJob(ctx, kept)).To(MatchJSON(`""`))
		_, err := queue.WaitForJob(ctx, failed)
		var why *bullmq.JobFailedError
		Expect(errors.As(err, &why)).To(BeTrue(), "got %v", err)
		Expect(why.Reason).To(Equal("no <way>"))

		runGoWorker(name, returning([]int{}), bullmq.WorkerOptions{})
		job, err := queue.Add(soon(), "a", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		Eventually(stateOf(queue, job.ID)).Should(Equal(bullmq.StateCompleted))
		node.Do("listen", object{"queue": name, "ids": []string{job.ID}}, nil)
		var results map[string]result
		node.Do("results", object{"queue": name}, &results)
		Expect(results[job.ID].Returnvalue).To(MatchJSON("[]"))
	})
})

// The text contains NUL, a Latin-1 letter, a truncated character and a lone surrogate.
var _ = DescribeTable("A large text that is not UTF-8 does not prevent Go from finishing a job, and BullMQ can read it", func(version string) {
	const bytes, characters = "a\x00b 日\xe6\x97 caf\xe9 \xed\xa0\x80|", "a\x00b 日\ufffd caf\ufffd \ufffd\ufffd\ufffd|"
	// In JSON each byte outside a character is replaced; Node replaces a truncated character once.
	const inJSON = "a\x00b 日\ufffd\ufffd caf\ufffd \ufffd\ufffd\ufffd|"
	times := 390_000 / len(bytes)
	text := strings.Repeat(bytes, times)
	// is compares without printing the whole text.
	is := func(what string, got any, unit string) {
		GinkgoHelper()
		read, ok := got.(string)
		Expect(ok).To(BeTrue(), "%s is a %T", what, got)
		Expect(read == strings.Repeat(unit, times)).To(BeTrue(), "%s has %d bytes and begins with %q", what, len(read), read[:min(len(read), 60)])
	}
	reader := node
	if version != "6" {
		reader = startProbe("-bullmq", version)
	}
	name := newQueueName()
	queue := newGoQueue(name)
	runGoWorker(name, func(ctx context.Context, job *bullmq.Job) (any, error) {
		_, err := job.Log(ctx, text)
		if err = errors.Join(err, job.UpdateProgress(ctx, text)); err != nil {
			return nil, bullmq.Unrecoverable(err)
		}
		if job.Name == "fails" {
			return nil, errorText(text)
		}
		return text, nil
	}, bullmq.WorkerOptions{})
	for called, end := range map[string]bullmq.State{"completes": bullmq.StateCompleted, "fails": bullmq.StateFailed} {
		_, err := queue.Add(soon(), called, text, &bullmq.JobOptions{JobID: called})
		Expect(err).NotTo(HaveOccurred())
		Eventually(stateOf(queue, called)).Should(Equal(end))
		read := reader.Record(name, called)
		is("data", read["data"], inJSON)
		is("progress", read["progress"], inJSON)
		logs, _ := read["logs"].([]any)
		Expect(logs).To(HaveLen(1))
		is("the log", logs[0], characters)
		if called == "fails" {
			is("the reason", read["failedReason"], characters)
			Expect(stored(name, called, "failedReason") == text).To(BeTrue(), "the reason must be stored byte for byte")
		} else {
			is("the result", read["returnvalue"], inJSON)
		}
	}
}, Entry("6", "6"), Entry("5", "5"))

// result is what a caller waiting for a job receives.
type result struct {
	Returnvalue json.RawMessage
	Error       string
}

// compacted removes insignificant white space.
func (r result) compacted() result {
	if len(r.Returnvalue) > 0 {
		r.Returnvalue = json.RawMessage(stringified(decoded(r.Returnvalue)))
	}
	return r
}

func goResult(value json.RawMessage, err error) result {
	var failed *bullmq.JobFailedError
	switch {
	case errors.As(err, &failed):
		return result{Error: failed.Reason}
	case err != nil:
		return result{Error: fmt.Sprintf("not a result: %v", err)}
	}
	return result{Returnvalue: value}.compacted()
}

// results returns the expected result of each job in the ledger.
func (l *ledger) results() map[string]result {
	l.mu.Lock()
	defer l.mu.Unlock()
	results := map[string]result{}
	for id := range l.added {
		switch ends := l.ends[id]; {
		case len(ends) != 1:
			results[id] = result{Error: fmt.Sprintf("it ended %d times", len(ends))}
		case ends[0].failed:
			results[id] = result{Error: ends[0].value}
		default:
			results[id] = result{Returnvalue: json.RawMessage(ends[0].value)}.compacted()
		}
	}
	return results
}
