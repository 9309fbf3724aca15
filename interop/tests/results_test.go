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

var _ = Describe("Results across languages", func() {
	It("of jobs that Node ends reach all who wait in Go, before and after the end, also of jobs that are removed at once", func() {
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
		told := make(chan struct{})
		go func() { waiting.Wait(); close(told) }()
		Eventually(told).WithTimeout(3*time.Second).Should(BeClosed(), "all who waited before the end")
		worker.stop()
		for id := range late {
			if l.added[id][0].stays() {
				wait(id)
			} else {
				delete(l.added, id) // its end may have left the stream
			}
		}
		waiting.Wait()
		Expect(results).To(Equal(l.results()))
	})

	It("of jobs that Go ends reach all who wait in Node, also of jobs that are removed at once", func() {
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

	It("that are there already are answered at once, a removed job's too in Go as long as the stream holds its end", func() {
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
		Expect(errors.As(err, &why)).To(BeTrue(), "it was %v", err)
		Expect(why.Reason).To(Equal("no <way>"))

		runGoWorker(name, returning([]int{}), bullmq.WorkerOptions{})
		job, err := queue.Add(soon(), "a", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		Eventually(stateOf(queue, job.ID)).Should(Equal(bullmq.Completed))
		node.Do("listen", object{"queue": name, "ids": []string{job.ID}}, nil)
		var results map[string]result
		node.Do("results", object{"queue": name}, &results)
		Expect(results[job.ID].Returnvalue).To(MatchJSON("[]"))
	})
})

// Text with NUL, a Latin-1 letter, and a character and a surrogate that are cut off.
var _ = DescribeTable("A lot of text that is not UTF-8 ends a job in Go all the same, and is read by BullMQ", func(version string) {
	const bytes, characters = "a\x00b 日\xe6\x97 caf\xe9 \xed\xa0\x80|", "a\x00b 日\ufffd caf\ufffd \ufffd\ufffd\ufffd|"
	// In JSON each byte that is no part of a character is replaced, where Node replaces a character that is cut off.
	const inJSON = "a\x00b 日\ufffd\ufffd caf\ufffd \ufffd\ufffd\ufffd|"
	times := 390_000 / len(bytes)
	text := strings.Repeat(bytes, times)
	// is compares without printing all of it.
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
	for called, end := range map[string]bullmq.State{"completes": bullmq.Completed, "fails": bullmq.Failed} {
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
			Expect(stored(name, called, "failedReason") == text).To(BeTrue(), "the reason is stored byte for byte")
		} else {
			is("the result", read["returnvalue"], inJSON)
		}
	}
}, Entry("6", "6"), Entry("5", "5"))

// result is what one who waits for a job gets.
type result struct {
	Returnvalue json.RawMessage
	Error       string
}

// compacted has no space that only the way of writing put there.
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

// results are those that the ledger has on account for each job that was added.
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
