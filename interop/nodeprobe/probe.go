// Package nodeprobe runs Node.js processes with the npm package bullmq for tests
// and has them call it.
package nodeprobe

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/internal/testkit/nodeprocess"
)

// Probe is a Node process that calls the library as instructed, several calls at
// a time.
type Probe struct {
	process *nodeprocess.Process

	mu      sync.Mutex
	next    int
	waiting map[int]chan Reply
}

// Reply is what Node returns for an instruction.
type Reply struct {
	ID     int
	Result json.RawMessage
	Error  *struct {
		Message string
		Code    int
	}
}

// Start starts a Node process that uses the Redis at an address. It is stopped
// when the spec ends.
func Start(address string, arguments ...string) *Probe {
	GinkgoHelper()
	p := &Probe{process: StartScript(address, "probe.mjs", arguments...), waiting: map[int]chan Reply{}}
	go func() {
		defer GinkgoRecover()
		for line := range p.process.Lines() {
			var reply Reply
			Expect(line.Decode(&reply)).To(Succeed())
			p.mu.Lock()
			out := p.waiting[reply.ID]
			delete(p.waiting, reply.ID)
			p.mu.Unlock()
			out <- reply
		}
	}()
	return p
}

// Send gives an instruction.
func (p *Probe) Send(op string, args map[string]any) <-chan Reply {
	GinkgoHelper()
	out := make(chan Reply, 1)
	p.mu.Lock()
	p.next++
	id := p.next
	p.waiting[id] = out
	p.mu.Unlock()
	Expect(p.process.Send(map[string]any{"id": id, "op": op, "args": args})).To(Succeed())
	return out
}

// Begin gives an instruction. The function it returns waits for the result and
// decodes it into a value, which may be nil.
func (p *Probe) Begin(op string, args map[string]any) func(into any) {
	GinkgoHelper()
	out := p.Send(op, args)
	return func(into any) {
		GinkgoHelper()
		select {
		case reply := <-out:
			if reply.Error != nil {
				Fail(fmt.Sprintf("Node returned an error for %s %v: %s", op, args, reply.Error.Message))
			}
			if into != nil {
				Expect(json.Unmarshal(reply.Result, into)).To(Succeed(), "%s returned %s", op, reply.Result)
			}
		case <-time.After(60 * time.Second):
			Fail(fmt.Sprintf("Node did not reply to %s %v; its output: %s", op, args, p.process.Stderr()))
		}
	}
}

// Refused gives an instruction that Node refuses, and returns the error's text.
func (p *Probe) Refused(op string, args map[string]any) string {
	GinkgoHelper()
	var reply Reply
	Eventually(p.Send(op, args)).Should(Receive(&reply))
	Expect(reply.Error).NotTo(BeNil(), "Node returned no error for %s %v", op, args)
	return reply.Error.Message
}

// Do gives an instruction, waits for its result and decodes it into a value,
// which may be nil.
func (p *Probe) Do(op string, args map[string]any, into any) {
	GinkgoHelper()
	p.Begin(op, args)(into)
}

// Add adds a job as Node does, and returns its id.
func (p *Probe) Add(queue, name string, data any, opts map[string]any) string {
	GinkgoHelper()
	args := map[string]any{"queue": queue, "name": name, "opts": opts}
	if data != Absent {
		args["data"] = data
	}
	var job struct{ ID string }
	p.Do("add", args, &job)
	return job.ID
}

// Absent is the data of a job that is added without any.
const Absent = "\x00Absent"

// Record returns a job as Node's own objects show it.
func (p *Probe) Record(queue, id string) map[string]any {
	GinkgoHelper()
	var record map[string]any
	p.Do("record", map[string]any{"queue": queue, "id": id}, &record)
	Expect(record).NotTo(BeNil(), "Node does not find job %s in %s", id, queue)
	return record
}

// Run begins to run a worker in Node until so many attempts have ended.
func (p *Probe) Run(queue string, count int, handler, options map[string]any) func(into any) {
	GinkgoHelper()
	return p.Begin("run", map[string]any{"queue": queue, "count": count, "handler": handler, "worker": options})
}

// StartScript starts a program of interop/node that uses the Redis at an address,
// and returns once it is ready. It is stopped when the spec ends.
func StartScript(address, script string, arguments ...string) *nodeprocess.Process {
	GinkgoHelper()
	process, err := nodeprocess.Start(script, append([]string{"-redis", address}, arguments...)...)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(process.Stop)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	_, err = process.WaitFor(ctx, func(line nodeprocess.Line) bool {
		var message struct{ Event string }
		return line.Decode(&message) == nil && message.Event == "ready"
	})
	Expect(err).NotTo(HaveOccurred())
	return process
}
