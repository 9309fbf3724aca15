package bullmq_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/gomega"
	"github.com/redis/rueidis"
	"github.com/rs/zerolog"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// A role is a kind of program, with rights of its own in docs/security.md. Its tasks are all that such
// programs do with a queue.
type role struct {
	name  string
	tasks []task
}

// A task runs on an empty queue. It fails by an assertion of the program, such as p.Expect.
type task struct {
	does string // completes "a worker …"
	do   func(p *program)
}

var roles = []role{
	{"producer", producerTasks},
	{"worker", workerTasks},
	{"events", readerTasks},
	{"admin", slices.Concat(adminTasks(6, bullmq.V6), adminTasks(5, bullmq.V5))},
}

// A program does a task as a user of its own, who may lack rights.
type program struct {
	Gomega // stops the task at the first failure
	ctx    context.Context
	others *others
	name   string // of the queue

	mu      sync.Mutex
	failure error
	opened  []interface{ Close() error }
}

// attempt does a task on a queue of its own, as a user with the given rights on that queue. It returns the
// first failure.
func attempt(t task, rights []string, address string, client rueidis.Client) (failure error) {
	name := newQueueName()
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
	defer cancel()
	p := &program{ctx: ctx, name: name}
	p.Gomega = NewGomega(func(message string, _ ...int) {
		p.note(errors.New(message))
		panic(taskFailed{})
	})
	defer func() {
		if panicked := recover(); panicked != nil && panicked != any(taskFailed{}) {
			panic(panicked)
		}
		failure = p.failed() // without what is logged while things are closed
		for _, o := range p.opened {
			_ = o.Close()
		}
	}()
	p.others = &others{Gomega: p.Gomega, ctx: ctx, address: address, client: client, name: name}
	p.others.open()
	p.opened = append(p.opened, p.others.queue, p.others.flows)
	p.others.do(append([]string{"ACL", "SETUSER", name, "on", ">secret", "~bull:" + name + ":*"}, rights...)...)
	t.do(p)
	return nil
}

// taskFailed ends a task, or a handler of its worker, that has failed.
type taskFailed struct{}

func (p *program) note(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failure == nil {
		p.failure = err
	}
}

func (p *program) failed() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failure
}

// Write notes a line of the log as a failure.
func (p *program) Write(line []byte) (int, error) {
	p.note(errors.New(string(line)))
	return len(line), nil
}

// logger returns a Logger whose warnings and errors are failures.
func (p *program) logger() bullmq.Logger {
	return bullmq.Zerolog(zerolog.New(p).Level(zerolog.WarnLevel))
}

// connection returns the Connection of the program's user, to an address of the server.
func (p *program) connection(address string) *bullmq.Connection {
	return bullmq.URL("redis://" + p.name + ":secret@" + address)
}

// queue opens the queue, which is closed after the task.
func (p *program) queue(dialect bullmq.Dialect) *bullmq.Queue {
	queue, err := bullmq.NewQueue(p.ctx, p.name, &bullmq.QueueOptions{Connection: p.connection(p.others.address), Dialect: dialect, Logger: p.logger()})
	p.Expect(err).NotTo(HaveOccurred())
	p.opened = append(p.opened, queue)
	return queue
}

// flows opens a FlowProducer, which is closed after the task.
func (p *program) flows() *bullmq.FlowProducer {
	producer, err := bullmq.NewFlowProducer(p.ctx, &bullmq.FlowProducerOptions{Connection: p.connection(p.others.address), Logger: p.logger()})
	p.Expect(err).NotTo(HaveOccurred())
	p.opened = append(p.opened, producer)
	return producer
}

// others are the other programs of the queue. They have all rights.
type others struct {
	Gomega
	ctx     context.Context
	address string
	client  rueidis.Client
	name    string
	queue   *bullmq.Queue
	flows   *bullmq.FlowProducer
}

func (o *others) open() {
	var err error
	o.queue, err = bullmq.NewQueue(o.ctx, o.name, &bullmq.QueueOptions{Connection: bullmq.Client(o.client)})
	o.Expect(err).NotTo(HaveOccurred())
	o.flows, err = bullmq.NewFlowProducer(o.ctx, &bullmq.FlowProducerOptions{Connection: bullmq.Client(o.client)})
	o.Expect(err).NotTo(HaveOccurred())
}

// do sends one command.
func (o *others) do(words ...string) {
	o.Expect(o.client.Do(o.ctx, o.client.B().Arbitrary(words...).Build()).Error()).To(Succeed(), strings.Join(words, " "))
}

func (o *others) key(suffix string) string { return keyOf(o.name, suffix) }

func (o *others) add(name string, options bullmq.JobOptions) *bullmq.Job {
	job, err := o.queue.Add(o.ctx, name, 1, &options)
	o.Expect(err).NotTo(HaveOccurred())
	return job
}

// addFlow adds a parent with children on the same queue.
func (o *others) addFlow(parent bullmq.Flow, children ...bullmq.Flow) *bullmq.FlowNode {
	parent.QueueName, parent.Children = o.name, children
	for i := range children {
		children[i].QueueName = o.name
	}
	root, err := o.flows.Add(o.ctx, parent)
	o.Expect(err).NotTo(HaveOccurred())
	return root
}

func (o *others) upsertScheduler(id string, template *bullmq.JobTemplate) {
	_, err := o.queue.UpsertScheduler(o.ctx, id, bullmq.Repeat{Every: time.Hour}, template)
	o.Expect(err).NotTo(HaveOccurred())
}

// publish writes an event.
func (o *others) publish(event, jobID string, fields ...string) {
	o.do(append([]string{"XADD", o.key("events"), "*", "event", event, "jobId", jobID}, fields...)...)
}
