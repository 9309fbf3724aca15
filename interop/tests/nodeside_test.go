package tests

import (
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/nodeprocess"
)

// produceFromNode adds jobs of Node's own mix with Node.
func produceFromNode(l *ledger, line string, count, seed int) {
	GinkgoHelper()
	produced(l, startNode("producer.mjs", "-queue", l.queue, "-bullmq", line,
		"-generate", strconv.Itoa(count), "-seed", strconv.Itoa(seed)))
}

// produceThroughNode adds jobs of this package's mix with Node, several per call.
func produceThroughNode(l *ledger, line string, jobs []bullmq.BulkJob) {
	GinkgoHelper()
	process := startNode("producer.mjs", "-queue", l.queue, "-bullmq", line, "-bulk", "20")
	go func() {
		defer GinkgoRecover()
		for _, job := range jobs {
			Expect(process.Send(object{"name": job.Name, "data": job.Data, "opts": publicOptions(job.Options)})).To(Succeed())
		}
		Expect(process.CloseInput()).To(Succeed())
	}()
	produced(l, process)
}

// publicOptions returns options in the form that a Node program writes.
func publicOptions(o *bullmq.JobOptions) map[string]json.RawMessage {
	GinkgoHelper()
	public := map[string]json.RawMessage{}
	if o == nil {
		return public
	}
	stored, err := json.Marshal(o)
	Expect(err).NotTo(HaveOccurred())
	Expect(json.Unmarshal(stored, &public)).To(Succeed())
	for short, long := range map[string]string{
		"kl": "keepLogs", "de": "deduplication", "fpof": "failParentOnFailure", "cpof": "continueParentOnFailure",
		"idof": "ignoreDependencyOnFailure", "rdof": "removeDependencyOnFailure",
	} {
		if value, there := public[short]; there {
			delete(public, short)
			public[long] = value
		}
	}
	return public
}

// produced records the jobs that producer.mjs reports as added until it is done.
func produced(l *ledger, process *nodeprocess.Process) {
	GinkgoHelper()
	_, err := process.WaitFor(within(60*time.Second), func(line nodeprocess.Line) bool {
		var message struct {
			Event, ID, Name string
			Data, Opts      json.RawMessage
		}
		if err := line.Decode(&message); err != nil {
			l.noteFault(err.Error())
		}
		if message.Event == "added" {
			l.noteAdded(message.ID, message.Name, string(message.Data), message.Opts)
		}
		return message.Event == "done"
	})
	Expect(err).NotTo(HaveOccurred())
}

// nodeWorker is a running worker.mjs.
type nodeWorker struct {
	*nodeprocess.Process
	stop func() // lets running jobs finish
}

// workInNode runs a worker in Node that updates the ledger.
func workInNode(l *ledger, name, line string, arguments ...string) *nodeWorker {
	GinkgoHelper()
	process := startNode("worker.mjs",
		append([]string{"-queue", l.queue, "-bullmq", line, "-name", name, "-concurrency", "20"}, arguments...)...)
	read := make(chan struct{})
	go func() {
		defer close(read)
		for line := range process.Lines() {
			l.noteLine(name, line)
		}
	}()
	stop := sync.OnceFunc(func() {
		if code := process.Stop(); code != 0 {
			l.noteFault(fmt.Sprintf("worker %s exited with status %d: %s", name, code, process.Stderr()))
		}
		<-read
	})
	return &nodeWorker{process, stop}
}

// noteLine records a line of a Node worker.
func (l *ledger) noteLine(by string, line nodeprocess.Line) {
	var message struct {
		Event, ID, Name, Reason, Message string
		Data, ReturnValue                json.RawMessage
		AttemptsMade                     int
		Final                            bool
	}
	if err := line.Decode(&message); err != nil {
		l.noteFault(err.Error())
		return
	}
	switch message.Event {
	case "started":
		l.noteStarted(message.ID, started{by: by, attemptsMade: message.AttemptsMade, name: message.Name, data: string(message.Data)})
	case "completed":
		l.noteEnded(message.ID, ended{by: by, value: string(message.ReturnValue)})
	case "failed":
		if message.Final {
			l.noteEnded(message.ID, ended{by: by, failed: true, value: message.Reason})
		}
	case "stalled":
		l.noteFault("job " + message.ID + " stalled")
	case "error":
		l.noteFault(by + ": " + message.Message)
	}
}
