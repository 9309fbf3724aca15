package tests

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/interop/nodeprobe"
)

// extended is a queue with every kind of key that this SDK adds to those of BullMQ: cancellations, registered
// workers, limits by name, a registry of queues, which includes its route and a shard, and the number of shards. Its
// failed jobs become dead letters.
type extended struct {
	node     *probe
	dialect  bullmq.Dialect
	name     string
	queue    *bullmq.Queue
	dead     *bullmq.Queue
	parts    []*bullmq.Queue // the route and the first shard
	registry *bullmq.Registry
	sharded  *bullmq.ShardedQueue
	stop     func()        // stops the worker, which serves the queues of the registry except dead
	tenants  []string      // queues that Node has announced
	started  chan string   // ids of jobs with the name hold that have started
	release  chan struct{} // ends such a job
}

const (
	hold      = "hold" // a job that runs until it is cancelled; only one of them may run at a time
	hour      = 3600000
	numShards = 2
)

func newExtended(line string, dialect bullmq.Dialect) *extended {
	GinkgoHelper()
	e := &extended{node: node, dialect: dialect, name: newQueueName(), started: make(chan string, 10), release: make(chan struct{})}
	if line == "5" {
		e.node = startProbe("-bullmq", "5")
	}
	for _, name := range e.queues() {
		e.node.Do("openQueue", object{"queue": name}, nil)
	}
	e.queue, e.dead = newGoQueue(e.name), newGoQueue(e.name+".dead")
	for _, name := range e.queues()[2:] {
		e.parts = append(e.parts, newGoQueue(name))
	}
	var err error
	e.registry, err = bullmq.NewRegistry(soon(), e.name, &bullmq.RegistryOptions{URL: server.URL()})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(e.registry.Close)
	Expect(e.registry.Register(soon(), e.queues()...)).To(Succeed())
	e.sharded = newShardedQueue(e.name, numShards, bullmq.QueueOptions{Dialect: dialect})
	e.stop = runMultiWorker(func(ctx context.Context, job *bullmq.Job) (any, error) {
		switch job.Name {
		case "fail":
			return nil, bullmq.Unrecoverable(errorText("as planned"))
		case hold:
			e.started <- job.ID
			select {
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			case <-e.release:
			}
		}
		return "done", nil
	}, bullmq.MultiWorkerOptions{
		Registry: e.name, Accept: func(name string) (bullmq.ServedQueue, bool) { return bullmq.ServedQueue{}, name != e.dead.Name() },
		Worker: bullmq.WorkerOptions{
			Name: "gopher", Dialect: dialect, Concurrency: 5,
			Registration: &bullmq.RegistrationOptions{Interval: 100 * time.Millisecond, Lease: 5 * time.Second},
			Limits:       map[string]bullmq.NameLimit{hold: {Concurrency: 1, Limiter: &bullmq.Limiter{Max: 1000, Duration: hour * time.Millisecond}}},
		},
	})
	return e
}

// queues returns the names of the queues with jobs.
func (e *extended) queues() []string {
	return []string{e.name, e.name + ".dead", e.name + "@gpu", "{" + e.name + "-0}"}
}

func (e *extended) add(name string, options object) string {
	GinkgoHelper()
	return e.node.Add(e.name, name, object{}, options)
}

// fill adds jobs of all states: one job runs, another one waits because of the limit for its name. A failed job
// becomes a dead letter. The parts have a completed, a failed and a delayed job each.
func (e *extended) fill() (running, limited string) {
	GinkgoHelper()
	for range 2 {
		failed := e.add("fail", object{})
		Eventually(stateOf(e.queue, failed)).Should(Equal(bullmq.StateFailed))
		if len(e.letters()) == 0 {
			_, err := e.queue.MoveFailed(soon(), e.dead.Name(), nil)
			Expect(err).NotTo(HaveOccurred())
		}
	}
	Eventually(stateOf(e.queue, e.add("work", object{}))).Should(Equal(bullmq.StateCompleted))
	e.add("work", object{"delay": hour})
	for _, part := range e.parts {
		for _, job := range []string{"work", "fail"} {
			e.node.Add(part.Name(), job, object{}, object{"jobId": job})
		}
		e.node.Add(part.Name(), "work", object{}, object{"delay": hour})
		expectCounts(part, 1, 1, 1)
	}
	running = e.add(hold, object{})
	Eventually(e.started).Should(Receive(Equal(running)))
	limited = e.add(hold, object{})
	Eventually(stateOf(e.queue, limited)).Should(Equal(bullmq.StateDelayed))
	return running, limited
}

func (e *extended) letters() []string {
	GinkgoHelper()
	letters, err := e.dead.JobIDs(soon(), bullmq.AllEntries(), bullmq.StateWaiting)
	Expect(err).NotTo(HaveOccurred())
	return letters
}

// expectCounts expects that a queue will have so many jobs, and no others.
func expectCounts(queue *bullmq.Queue, completed, failed, delayed int) {
	GinkgoHelper()
	Eventually(func() (map[bullmq.State]int, error) { return queue.Counts(soon()) }).Should(And(
		HaveKeyWithValue(bullmq.StateCompleted, completed), HaveKeyWithValue(bullmq.StateFailed, failed),
		HaveKeyWithValue(bullmq.StateDelayed, delayed), HaveKeyWithValue(bullmq.StateWaiting, 0), HaveKeyWithValue(bullmq.StateActive, 0),
	), queue.Name())
}

// expectSound expects that all extensions work. No job with the name hold may run.
func (e *extended) expectSound() {
	GinkgoHelper()
	for _, name := range e.queues() {
		var orphans int
		e.node.Do("removeOrphanedJobs", object{"queue": name}, &orphans)
		Expect(orphans).To(BeZero(), "orphaned jobs of %s in Node", name)
	}
	Expect(e.queue.FindOrphanedJobs(soon())).To(BeEmpty())
	Eventually(func() ([]bullmq.WorkerInfo, error) { return e.queue.Workers(soon()) }).Should(ConsistOf(And(HaveField("Name", "gopher"), HaveField("IsRegistered()", true))))
	tenant := fmt.Sprintf("%s-tenant-%d", e.name, len(e.tenants))
	e.tenants = append(e.tenants, tenant)
	e.node.Do("announce", object{"queue": tenant, "registry": e.name}, nil)
	id := e.node.Add(tenant, "work", object{}, nil)
	Eventually(stateOf(newGoQueue(tenant), id)).Should(Equal(bullmq.StateCompleted))

	// Jobs with a target run on its route, and the worker forwards those that Node has added to the queue itself.
	direct, err := e.queue.Add(soon(), "work", object{}, &bullmq.JobOptions{Target: &bullmq.Target{Capabilities: []string{"gpu"}}})
	Expect(err).NotTo(HaveOccurred())
	Expect(direct.QueueName()).To(Equal(e.name + "@gpu"))
	forwarded := fmt.Sprint("forwarded-", len(e.tenants))
	e.add("work", object{"jobId": forwarded, "target": object{"capabilities": []string{"gpu"}}})
	route := newGoQueue(direct.QueueName())
	for _, id := range []string{direct.ID, forwarded} {
		Eventually(func() (bullmq.State, error) {
			state, err := route.JobState(soon(), id)
			if errors.Is(err, bullmq.ErrJobNotFound) {
				return "", nil // not forwarded yet
			}
			return state, err
		}).Should(Equal(bullmq.StateCompleted))
	}
	Eventually(func() ([]bullmq.RouteInfo, error) { return e.queue.Routes(soon()) }).Should(ConsistOf(And(HaveField("Name", route.Name()), HaveField("IsServed()", true))))
	Expect(e.registry.Queues(soon())).To(ConsistOf(append(e.tenants, e.queues()...)))
	again := newShardedQueue(e.name, numShards+1, bullmq.QueueOptions{Dialect: e.dialect}) // uses the stored number
	Expect(again.NumShards()).To(Equal(numShards))

	// Of two jobs with a limit for their name, one runs. One is cancelled by Go and one by an event of Node.
	first, second := e.add(hold, object{}), e.add(hold, object{})
	var running string
	Eventually(e.started).Should(Receive(&running))
	waiting := first
	if running == first {
		waiting = second
	}
	Expect([]string{first, second}).To(ContainElement(running))
	Eventually(stateOf(e.queue, waiting)).Should(Equal(bullmq.StateDelayed))
	Expect(e.queue.Cancel(soon(), running, "void")).To(Equal(bullmq.CancelRunning))
	Eventually(stateOf(e.queue, running)).Should(Equal(bullmq.StateFailed))
	Expect(readJob(e.queue, running).FailedReason).To(Equal("cancelled: void"))
	Eventually(e.started).Should(Receive(Equal(waiting)))
	e.node.Do("publish", object{"queue": e.name + "@x", "event": object{"eventName": "cancel", "jobId": waiting, "reason": "by Node"}}, nil)
	Eventually(stateOf(e.queue, waiting)).Should(Equal(bullmq.StateFailed))
	Expect(readJob(e.queue, waiting).FailedReason).To(Equal("cancelled: by Node"))

	// A dead letter is found and replayed.
	failed := e.add("fail", object{})
	Eventually(stateOf(e.queue, failed)).Should(Equal(bullmq.StateFailed))
	_, err = e.queue.MoveFailed(soon(), e.dead.Name(), nil)
	Expect(err).NotTo(HaveOccurred())
	letter, err := e.dead.DeadLetter(soon(), e.name, failed)
	Expect(err).NotTo(HaveOccurred())
	_, err = e.dead.ReplayDeadLetter(soon(), letter.Letter.ID)
	Expect(err).NotTo(HaveOccurred())
	Eventually(stateOf(e.queue, failed)).Should(Equal(bullmq.StateFailed))
}

// cancel ends a running job that fill has added.
func (e *extended) cancel(id string) {
	GinkgoHelper()
	Expect(e.queue.Cancel(soon(), id, "void")).To(Equal(bullmq.CancelRunning))
	Eventually(stateOf(e.queue, id)).Should(Equal(bullmq.StateFailed))
}

// expectStarted expects that a job of fill which waits because of the limit for its name starts, and cancels it.
func (e *extended) expectStarted(id string) {
	GinkgoHelper()
	Eventually(e.started).Should(Receive(Equal(id)))
	e.cancel(id)
}

// own returns the keys of the extensions, without those that exist only until a worker has read them.
func (e *extended) own() []string {
	GinkgoHelper()
	keys, err := ask("KEYS", "bull:"+e.name+"@x:*").AsStrSlice()
	Expect(err).NotTo(HaveOccurred())
	slices.Sort(keys)
	return slices.DeleteFunc(keys, func(key string) bool { return strings.Contains(key, "@x:wake:") || strings.HasSuffix(key, "@x:new") })
}

var _ = Describe("A queue with keys of all extensions", Label("slow"), func() {
	DescribeTable("keeps them correct when Node", func(line string, dialect bullmq.Dialect, maintain func(e *extended, running, limited string)) {
		e := newExtended(line, dialect)
		running, limited := e.fill()
		before := e.own()
		maintain(e, running, limited)
		Expect(e.own()).To(ContainElements(before))
		e.expectSound()
	},
		byNode("removes orphaned jobs", func(e *extended, running, limited string) {
			letters := e.letters()
			for _, name := range e.queues() {
				var removed int
				e.node.Do("removeOrphanedJobs", object{"queue": name, "count": 100, "limit": 100}, &removed)
				Expect(removed).To(BeZero())
			}
			Expect(e.letters()).To(Equal(letters))
			e.cancel(running)
			e.expectStarted(limited)
		}),
		byNode("cleans all states", func(e *extended, running, limited string) {
			time.Sleep(2 * time.Millisecond) // clean compares milliseconds
			// The worker may be fetching the limited job at the moment, to delay it again.
			Eventually(func() error {
				for _, name := range e.queues() {
					for _, state := range []string{"completed", "failed", "wait", "delayed", "prioritized", "active"} {
						e.node.Do("clean", object{"queue": name, "grace": 0, "limit": 100, "type": state}, nil)
					}
				}
				_, err := e.queue.Job(soon(), limited)
				return err
			}, "20s").Should(MatchError(bullmq.ErrJobNotFound))
			Expect(e.letters()).To(BeEmpty())
			for _, part := range e.parts {
				expectCounts(part, 0, 0, 0)
			}
			Expect(stateOf(e.queue, running)()).To(Equal(bullmq.StateActive))
			e.cancel(running)
		}),
		byNode("drains it", func(e *extended, running, limited string) {
			for _, part := range e.parts {
				e.node.Do("pause", object{"queue": part.Name()}, nil)
				e.node.Add(part.Name(), "work", object{}, nil)
			}
			// As above, the limited job may be active at the moment.
			Eventually(func() error {
				for _, name := range e.queues() {
					e.node.Do("drain", object{"queue": name, "delayed": true}, nil)
				}
				_, err := e.queue.Job(soon(), limited)
				return err
			}, "20s").Should(MatchError(bullmq.ErrJobNotFound))
			for _, part := range e.parts {
				e.node.Do("resume", object{"queue": part.Name()}, nil)
				expectCounts(part, 1, 1, 0)
			}
			Expect(e.letters()).To(BeEmpty())
			e.cancel(running)
		}),
		byNode("retries failed jobs of it, its route and a shard, one of which was cancelled", func(e *extended, running, limited string) {
			e.cancel(running)
			Eventually(e.started).Should(Receive(Equal(limited)))
			e.node.Do("retry", object{"queue": e.name, "id": running, "state": "failed"}, nil)
			Eventually(stateOf(e.queue, running)).Should(Equal(bullmq.StateDelayed), "because of the limit")
			e.node.Do("retryJobs", object{"queue": e.name}, nil)
			e.cancel(limited)
			e.expectStarted(running)
			for _, part := range e.parts {
				started := func() int { return readJob(part, "fail").AttemptsStarted }
				e.node.Do("retry", object{"queue": part.Name(), "id": "fail", "state": "failed"}, nil)
				Eventually(started).Should(Equal(2), part.Name())
				expectCounts(part, 1, 1, 1)
				e.node.Do("retryJobs", object{"queue": part.Name()}, nil)
				Eventually(started).Should(Equal(3), part.Name())
				e.node.Do("retryJobs", object{"queue": part.Name(), "state": "completed"}, nil)
				Eventually(func() int { return readJob(part, "work").AttemptsStarted }).Should(Equal(2), part.Name())
				expectCounts(part, 1, 1, 1)
			}
		}),
		byNode("promotes its delayed jobs, one of which is limited", func(e *extended, running, limited string) {
			Eventually(func() bool { // as above, the limited job may be active at the moment
				var reply nodeprobe.Reply
				Eventually(e.node.Send("promote", object{"queue": e.name, "id": limited}), "60s").Should(Receive(&reply))
				return reply.Error == nil
			}, "20s").Should(BeTrue())
			Eventually(stateOf(e.queue, limited)).Should(Equal(bullmq.StateDelayed))
			e.node.Do("promoteJobs", object{"queue": e.name}, nil)
			Eventually(func() (map[bullmq.State]int, error) { return e.queue.Counts(soon()) }).Should(HaveKeyWithValue(bullmq.StateDelayed, 1))
			e.cancel(running)
			e.expectStarted(limited)
		}),
		byNode("pauses and resumes it, its route and a shard", func(e *extended, running, limited string) {
			e.node.Do("pause", object{"queue": e.name}, nil)
			for _, part := range e.parts {
				e.node.Do("pause", object{"queue": part.Name()}, nil)
				Expect(part.IsPaused(soon())).To(BeTrue())
				e.node.Add(part.Name(), "work", object{}, object{"jobId": "held"})
			}
			e.cancel(running)
			queued := e.add(hold, object{})
			Expect(e.queue.Cancel(soon(), queued, "void")).To(Equal(bullmq.CancelQueued))
			Consistently(stateOf(e.queue, limited), "300ms").ShouldNot(Equal(bullmq.StateActive))
			for _, part := range e.parts {
				Expect(readJob(part, "held").AttemptsStarted).To(BeZero(), part.Name())
				e.node.Do("resume", object{"queue": part.Name()}, nil)
				expectCounts(part, 2, 1, 1)
			}
			e.node.Do("resume", object{"queue": e.name}, nil)
			Eventually(stateOf(e.queue, queued)).Should(Equal(bullmq.StateFailed))
			e.expectStarted(limited)
		}),
		byNode("obliterates it while jobs run", func(e *extended, running, _ string) {
			for _, name := range e.queues() {
				e.node.Do("obliterate", object{"queue": name, "force": true}, nil)
				Expect(ask("KEYS", "bull:"+name+":*").AsStrSlice()).To(BeEmpty())
				e.node.Do("openQueue", object{"queue": name}, nil)
			}
			e.release <- struct{}{} // ends the job, which no longer exists
		}),
	)

	DescribeTable("leaves only keys that expire when Node and the owners of lists have removed it, with", func(line string, dialect bullmq.Dialect) {
		e := newExtended(line, dialect)
		running, limited := e.fill()
		e.cancel(running)
		e.expectStarted(limited)
		e.expectSound()
		e.stop()

		// The registry and the sharded queue have lists of queues, which BullMQ does not know.
		names := append(e.queues(), e.tenants...)
		for _, shard := range e.sharded.Shards()[1:] {
			names = append(names, shard.Name())
		}
		for _, name := range names {
			e.node.Do("obliterate", object{"queue": name, "force": false}, nil)
		}
		permanent := func() (keys []string) {
			for _, key := range e.own() {
				left, err := ask("PTTL", key).AsInt64()
				Expect(err).NotTo(HaveOccurred())
				if left < 0 {
					keys = append(keys, key)
				}
			}
			return keys
		}
		Expect(permanent()).To(ConsistOf("bull:"+e.name+"@x:queues", "bull:"+e.name+"@x:shards"))
		Expect(e.registry.Unregister(soon(), names...)).To(Succeed())
		Expect(e.sharded.Obliterate(soon(), nil)).To(Succeed())
		Expect(permanent()).To(BeEmpty())
		Expect(e.own()).NotTo(BeEmpty())
		for _, name := range names {
			Expect(ask("KEYS", "bull:"+name+":*").AsStrSlice()).To(BeEmpty())
		}
		_, err := e.queue.Job(soon(), running)
		Expect(err).To(MatchError(bullmq.ErrJobNotFound))
	},
		Entry("bullmq 6.7.0", "6", bullmq.V6),
		Entry("bullmq 5.81.5", "5", bullmq.V5),
	)
})

// byNode returns the entries of an action of both versions of BullMQ.
func byNode(action string, maintain func(e *extended, running, limited string)) []TableEntry {
	return []TableEntry{
		Entry(action+", bullmq 6.7.0", "6", bullmq.V6, maintain),
		Entry(action+", bullmq 5.81.5", "5", bullmq.V5, maintain),
	}
}
