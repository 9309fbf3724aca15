package tests

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/internal/testkit/nodeprocess"
)

// object is a JSON object of no fixed shape.
type object = map[string]any

// probe is a Node process that does with the library what it is told, several
// things at once.
type probe struct {
	process *nodeprocess.Process

	mu      sync.Mutex
	next    int
	waiting map[int]chan probeAnswer
}

type probeAnswer struct {
	ID     int
	Result json.RawMessage
	Error  *struct {
		Message string
		Code    int
	}
}

func startProbe(arguments ...string) *probe {
	GinkgoHelper()
	return startProbeAt(server.Addr(), arguments...)
}

func startProbeAt(address string, arguments ...string) *probe {
	GinkgoHelper()
	p := &probe{process: startNodeAt(address, "probe.mjs", arguments...), waiting: map[int]chan probeAnswer{}}
	go func() {
		defer GinkgoRecover()
		for line := range p.process.Lines() {
			var answer probeAnswer
			Expect(line.Decode(&answer)).To(Succeed())
			p.mu.Lock()
			out := p.waiting[answer.ID]
			delete(p.waiting, answer.ID)
			p.mu.Unlock()
			out <- answer
		}
	}()
	return p
}

// send gives an instruction.
func (p *probe) send(op string, args object) <-chan probeAnswer {
	GinkgoHelper()
	out := make(chan probeAnswer, 1)
	p.mu.Lock()
	p.next++
	id := p.next
	p.waiting[id] = out
	p.mu.Unlock()
	Expect(p.process.Send(object{"id": id, "op": op, "args": args})).To(Succeed())
	return out
}

// begin gives an instruction; what is answered calls for the result, which it
// reads into a value of one's own, or nil.
func (p *probe) begin(op string, args object) func(into any) {
	GinkgoHelper()
	out := p.send(op, args)
	return func(into any) {
		GinkgoHelper()
		select {
		case answer := <-out:
			if answer.Error != nil {
				Fail(fmt.Sprintf("Node refused %s %v: %s", op, args, answer.Error.Message))
			}
			if into != nil {
				Expect(json.Unmarshal(answer.Result, into)).To(Succeed(), "%s answered %s", op, answer.Result)
			}
		case <-time.After(60 * time.Second):
			Fail(fmt.Sprintf("Node did not answer %s %v; it says %s", op, args, p.process.Stderr()))
		}
	}
}

// refused gives an instruction that Node refuses, and answers what it says.
func (p *probe) refused(op string, args object) string {
	GinkgoHelper()
	var answer probeAnswer
	Eventually(p.send(op, args)).Should(Receive(&answer))
	Expect(answer.Error).NotTo(BeNil(), "Node carries %s %v out", op, args)
	return answer.Error.Message
}

// do gives an instruction and waits for its result.
func (p *probe) do(op string, args object, into any) {
	GinkgoHelper()
	p.begin(op, args)(into)
}

// add adds a job as Node does, and answers its id.
func (p *probe) add(queue, name string, data any, opts object) string {
	GinkgoHelper()
	args := object{"queue": queue, "name": name, "opts": opts}
	if data != absent {
		args["data"] = data
	}
	var job struct{ ID string }
	p.do("add", args, &job)
	return job.ID
}

// absent stands for no data at all.
const absent = "\x00absent"

// record is a job as Node's own objects show it.
func (p *probe) record(queue, id string) object {
	GinkgoHelper()
	var record object
	p.do("record", object{"queue": queue, "id": id}, &record)
	Expect(record).NotTo(BeNil(), "Node finds no job %s in %s", id, queue)
	return record
}

// run begins to run a worker in Node until some attempts have ended.
func (p *probe) run(queue string, count int, handler, options object) func(into any) {
	GinkgoHelper()
	return p.begin("run", object{"queue": queue, "count": count, "handler": handler, "worker": options})
}

// startNode runs a program of interop/node until the spec ends, and returns
// once it is ready.
func startNode(script string, arguments ...string) *nodeprocess.Process {
	GinkgoHelper()
	return startNodeAt(server.Addr(), script, arguments...)
}

func startNodeAt(address, script string, arguments ...string) *nodeprocess.Process {
	GinkgoHelper()
	process, err := nodeprocess.Start(script, append([]string{"-redis", address}, arguments...)...)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(process.Stop)
	_, err = process.WaitFor(within(30*time.Second), func(line nodeprocess.Line) bool {
		var said struct{ Event string }
		return line.Decode(&said) == nil && said.Event == "ready"
	})
	Expect(err).NotTo(HaveOccurred())
	return process
}
