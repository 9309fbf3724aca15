// Package backendtest is the conformance suite of package backend. It exercises a store
// through the interface alone, and knows nothing of the server behind it. A backend conforms
// if all specs pass.
package backendtest

import (
	"context"
	"fmt"
	"time"

	"github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

// Queue is an empty queue of a backend.
type Queue struct {
	Store        backend.Store
	Prefix, Name string
	// Elapse returns when a time has passed on the server.
	Elapse func(time.Duration)

	// Another returns the store of another queue on the same server, with the same prefix.
	Another func(name string) backend.Store
	// EventStream opens a reader of the queue's events. Waiter opens a waiter for the
	// queue's jobs, and GroupWaiter a waiter for the jobs of many queues. The suite closes
	// them.
	EventStream func() backend.EventStream
	Waiter      func() backend.Waiter
	GroupWaiter func() backend.GroupWaiter
	// EventsWaiter opens a waiter for the events of many queues. The suite closes it.
	EventsWaiter func() backend.EventsWaiter
	// Group makes calls about several queues; nil if the backend has none.
	Group backend.Group
	// Workers registers workers; nil if the backend does not.
	Workers backend.WorkerRegistry
	// Queues finds queues.
	Queues backend.QueueFinder
	// Flows reads the jobs of flows.
	Flows backend.FlowReader
	// Registry opens a registry of queues with the same prefix; nil if the backend has none.
	Registry func(name string) backend.Registry
	// Marker returns the key by which a GroupWaiter knows a queue.
	Marker func(name string) string
	// Unsupported holds the features that the backend lacks, with the reason. The specs of
	// these features are skipped.
	Unsupported map[Feature]string

	// Unlist takes a job out of its state and leaves its record. It also takes back the
	// wake-up for the job. Only a [backend.Repairer] needs it.
	Unlist func(jobID string)
}

// Feature is a part of a backend that may be missing.
type Feature string

// The features.
const (
	EventStreams Feature = "event streams"
	MissedEvents Feature = "detection of missed events"
	Waiters      Feature = "waiters"
	Memory       Feature = "measured memory"
)

// Exercise defines the specs. open returns a new queue for each of them.
func Exercise(open func() Queue) {
	s := &suite{}
	ginkgo.BeforeEach(func() {
		var cancel context.CancelFunc
		s.ctx, cancel = context.WithTimeout(context.Background(), time.Minute)
		ginkgo.DeferCleanup(cancel)
		s.Queue = open()
	})
	s.producer()
	s.flows()
	s.fetching()
	s.finishing()
	s.consumer()
	s.locks()
	s.jobs()
	s.cancelling()
	s.deadLetters()
	s.routes()
	s.children()
	s.flowReading()
	s.reading()
	s.administration()
	s.schedulers()
	s.events()
	s.eventStream()
	s.waiting()
	s.waitingForMany()
	s.group()
	s.registeredWorkers()
	s.queues()
	s.watchingQueues()
	s.nameLimits()
	s.registry()
	s.metrics()
	s.rateLimit()
	s.repair()
}

// suite is what a spec works with.
type suite struct {
	Queue
	ctx context.Context
}

// requires skips a spec if the backend lacks a feature.
func (s *suite) requires(feature Feature) {
	if why, lacks := s.Unsupported[feature]; lacks {
		ginkgo.Skip(fmt.Sprintf("the backend has no %s: %s", feature, why))
	}
}

// now is the time that all calls pass. It is not a round number, because an in-process Redis
// writes round numbers with an exponent.
var now = time.UnixMilli(1_700_000_123_456)

const (
	token    = "token"
	data     = `{"text":"für <all> & \u2028","n":1.50}`
	lockTime = 30 * time.Second
)

// worker fetches all jobs. keepAll keeps all jobs that end.
var (
	worker  = backend.Worker{LockDuration: lockTime, Name: "worker"}
	keepAll = backend.Keep{Count: backend.Int(-1)}
)

var allJobs = backend.Page{From: 0, To: -1, Ascending: true}

// plain returns a job that waits.
func plain(name string) *backend.Add {
	return &backend.Add{State: backend.Waiting, Name: name, Data: data, Opts: `{"attempts":2}`, Timestamp: now}
}

// named returns a waiting job with a custom id.
func named(id string) *backend.Add {
	a := plain(id)
	a.ID = id
	return a
}

func delayed(id string, delay time.Duration) *backend.Add {
	a := named(id)
	a.State, a.Delay = backend.Delayed, delay
	return a
}

func prioritized(id string, priority int) *backend.Add {
	a := named(id)
	a.State, a.Priority = backend.Prioritized, priority
	return a
}

// ref names a job of the queue.
func (s *suite) ref(id string) backend.JobRef {
	return backend.JobRef{Prefix: s.Prefix, Queue: s.Name, ID: id}
}

// childOf returns a job whose parent is another job of the queue.
func (s *suite) childOf(parent, id string) *backend.Add {
	return s.childWith(parent, id, "")
}

// childWith is like childOf, with a policy for the failure of the child, such as "fpof".
func (s *suite) childWith(parent, id, policy string) *backend.Add {
	a := named(id)
	a.Parent = s.ref(parent)
	if policy != "" {
		policy = fmt.Sprintf(",%q:true", policy)
	}
	a.ParentPolicy = fmt.Sprintf(`{"id":%q,"queueKey":"%s:%s"%s}`, parent, s.Prefix, s.Name, policy)
	return a
}

// add adds jobs and returns their ids.
func (s *suite) add(jobs ...*backend.Add) (ids []string) {
	ginkgo.GinkgoHelper()
	for _, result := range s.Store.AddBatch(s.ctx, jobs) {
		Expect(result.Err).NotTo(HaveOccurred())
		Expect(result.Outcome).To(Equal(backend.Added))
		ids = append(ids, result.JobID)
	}
	return ids
}

// addFlow adds jobs of the queue as a flow, the first as the root.
func (s *suite) addFlow(jobs ...*backend.Add) []backend.AddResult {
	ginkgo.GinkgoHelper()
	jobs[0].State = backend.WaitingChildren
	var flow []backend.FlowJob
	for _, job := range jobs {
		flow = append(flow, backend.FlowJob{Queue: s.Store, Add: job})
	}
	results, err := s.Store.AddFlow(s.ctx, flow, now)
	Expect(err).NotTo(HaveOccurred())
	return results
}

// take fetches the next job.
func (s *suite) take(at time.Time) backend.Fetched {
	ginkgo.GinkgoHelper()
	taken, err := s.Store.MoveToActive(s.ctx, at, worker, token)
	Expect(err).NotTo(HaveOccurred())
	Expect(taken).To(HaveLen(1))
	return taken[0]
}

// fetch fetches the next job and returns its id; "" if there is none.
func (s *suite) fetch() string {
	ginkgo.GinkgoHelper()
	return s.fetchAt(now)
}

func (s *suite) fetchAt(at time.Time) string {
	ginkgo.GinkgoHelper()
	return idOf(s.take(at))
}

// idOf returns the id of the job that was fetched; "" for none.
func idOf(taken backend.Fetched) string {
	if taken.Job == nil {
		return ""
	}
	return taken.Job.ID
}

// run adds a job that waits, and starts it.
func (s *suite) run(id string) {
	ginkgo.GinkgoHelper()
	s.add(named(id))
	Expect(s.fetch()).To(Equal(id))
}

// end ends jobs in one call.
func (s *suite) end(ends ...*backend.End) []backend.Ended {
	ginkgo.GinkgoHelper()
	ended, err := s.Store.MoveToFinished(s.ctx, backend.Finish{Now: now, Worker: worker, Ends: ends})()
	Expect(err).NotTo(HaveOccurred())
	Expect(ended).To(HaveLen(len(ends)))
	return ended
}

// completion completes a job, which is kept.
func completion(id, value string) *backend.End {
	return &backend.End{JobID: id, Token: token, ReturnValue: value, Keep: keepAll}
}

// failure fails a job permanently. The job is kept.
func failure(id, reason string) *backend.End {
	return &backend.End{JobID: id, Token: token, Failure: &backend.FailedAttempt{Reason: reason, StackTrace: "[]"}, Attempts: 1, Keep: keepAll}
}

func (s *suite) complete(id, value string) {
	ginkgo.GinkgoHelper()
	Expect(s.end(completion(id, value))[0].Err).NotTo(HaveOccurred())
}

func (s *suite) fail(id, reason string) {
	ginkgo.GinkgoHelper()
	Expect(s.end(failure(id, reason))[0].Err).NotTo(HaveOccurred())
}

// order fetches all jobs that are ready, and returns their ids.
func (s *suite) order() (ids []string) {
	ginkgo.GinkgoHelper()
	for id := s.fetch(); id != ""; id = s.fetch() {
		ids = append(ids, id)
	}
	return ids
}

func (s *suite) expectState(id string, want backend.State) {
	ginkgo.GinkgoHelper()
	Expect(s.Store.State(s.ctx, id)).To(Equal(want))
}

// record reads a job that exists.
func (s *suite) record(id string) *backend.JobRecord {
	ginkgo.GinkgoHelper()
	record, err := s.Store.Job(s.ctx, id)
	Expect(err).NotTo(HaveOccurred())
	Expect(record).NotTo(BeNil())
	return record
}
