package bullmq_test

import (
	"errors"
	"fmt"
	"time"

	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// adminTasks are the tasks of an administrator in a dialect.
func adminTasks(version int, dialect bullmq.Dialect) (tasks []task) {
	for _, t := range []struct {
		does string
		do   func(p *program, queue *bullmq.Queue)
	}{
		{"reads jobs", readJobs}, {"reads a flow", readFlow}, {"reads counts and settings", readSettings}, {"manages schedulers", manageSchedulers},
		{"changes settings", changeSettings}, {"changes jobs", changeJobs}, {"moves jobs", moveJobs},
		{"pauses, resumes and repairs", pauseAndRepair}, {"retries jobs", retryJobs}, {"detaches children", detachChildren},
		{"removes jobs", removeJobs}, {"cleans each state", cleanStates}, {"drains", drain}, {"obliterates", obliterate},
	} {
		tasks = append(tasks, task{fmt.Sprint(t.does, " in the dialect of BullMQ ", version), func(p *program) {
			queue := p.queue(dialect)
			t.do(p, queue)
			p.Expect(queue.Close()).To(Succeed())
			p.Expect(p.failed()).NotTo(HaveOccurred())
		}})
	}
	return tasks
}

// succeeds expects that a call returns no error.
func (p *program) succeeds(_ any, err error) {
	p.Expect(err).NotTo(HaveOccurred())
}

func readJobs(p *program, queue *bullmq.Queue) {
	root := p.others.addFlow(bullmq.Flow{Name: "a"}, bullmq.Flow{Name: "b"})
	job := queue.JobRef(root.Job.ID)
	p.others.do("ZADD", p.others.key(job.ID+":unsuccessful"), "1", p.others.key("x"))
	p.succeeds(queue.Job(p.ctx, job.ID))
	p.Expect(queue.JobState(p.ctx, job.ID)).To(Equal(bullmq.StateWaitingChildren))
	p.Expect(queue.Jobs(p.ctx, bullmq.AllEntries())).To(HaveLen(2))
	p.Expect(queue.JobIDs(p.ctx, bullmq.AllEntries())).To(HaveLen(2))
	p.Expect(queue.JobIDs(p.ctx, bullmq.Page{Limit: 6}, bullmq.StateCompleted, bullmq.StateWaiting)).To(HaveLen(1))
	_, _, err := queue.JobLogs(p.ctx, job.ID, bullmq.Page{Limit: -1})
	p.Expect(err).NotTo(HaveOccurred())
	p.succeeds(job.Dependencies(p.ctx))
	p.succeeds(job.DependencyPage(p.ctx, bullmq.DependencyQuery{Processed: &bullmq.DependencyCursor{}, Unprocessed: &bullmq.DependencyCursor{}, Ignored: &bullmq.DependencyCursor{}, Failed: &bullmq.DependencyCursor{}}))
	p.succeeds(bullmq.Children[any](p.ctx, job))
	_, _, err = queue.PendingChildren(p.ctx, job.ID, bullmq.Page{Limit: -1})
	p.Expect(err).NotTo(HaveOccurred())
}

func readFlow(p *program, _ *bullmq.Queue) {
	producer := p.flows()
	p.others.addFlow(bullmq.Flow{Name: "a", Options: &bullmq.JobOptions{JobID: "read"}}, bullmq.Flow{Name: "b"})
	root, err := producer.Flow(p.ctx, bullmq.FlowQuery{QueueName: p.name, ID: "read"})
	p.Expect(err).NotTo(HaveOccurred())
	p.Expect(root.Children).To(HaveLen(1))
	p.Expect(producer.Close()).To(Succeed())
	p.others.do("HSET", p.others.key("read"), "processedOn", "1")
	p.others.do("HSET", p.others.key("read:processed"), p.others.key("c"), "1")
	connection, err := bullmq.Connect(p.ctx, "redis://"+p.name+":secret@"+p.others.address)
	p.Expect(err).NotTo(HaveOccurred())
	defer connection.Close()
	tree, err := bullmq.ReadFlowTree(p.ctx, connection, bullmq.FlowTreeQuery{QueueName: p.name, ID: root.Children[0].Job.ID, FromRoot: true})
	p.Expect(err).NotTo(HaveOccurred())
	p.Expect(tree.Nodes).To(Equal(3))
}

func readSettings(p *program, queue *bullmq.Queue) {
	p.succeeds(queue.Counts(p.ctx))
	p.succeeds(queue.CountDelayedBefore(p.ctx, time.Now()))
	p.succeeds(queue.CountFinishedBefore(p.ctx, bullmq.StateFailed, time.Now()))
	p.succeeds(queue.Ages(p.ctx))
	p.succeeds(queue.Timings(p.ctx, bullmq.TimingQuery{}))
	p.succeeds(queue.CountsPerPriority(p.ctx, 0, 1))
	p.succeeds(queue.Metrics(p.ctx, bullmq.StateCompleted, bullmq.Page{Limit: -1}))
	p.succeeds(queue.Meta(p.ctx))
	p.succeeds(queue.IsMaxed(p.ctx))
	p.others.do("SET", p.others.key("limiter"), "9", "PX", "60000")
	p.Expect(queue.RateLimitTTL(p.ctx, 1)).To(BeNumerically(">", 0))
	_, err := queue.DeduplicationJobID(p.ctx, "d")
	p.Expect(err).To(MatchError(bullmq.ErrDeduplicationNotFound))
	p.Expect(queue.FindOrphanedJobs(p.ctx)).To(BeEmpty())
	p.Expect(queue.FindStrandedJobs(p.ctx)).To(BeEmpty())
}

func manageSchedulers(p *program, queue *bullmq.Queue) {
	p.others.upsertScheduler("s", nil)
	p.succeeds(queue.Scheduler(p.ctx, "s"))
	p.Expect(queue.Schedulers(p.ctx, bullmq.AllEntries())).To(HaveLen(1))
	p.Expect(queue.Schedulers(p.ctx, bullmq.Page{Limit: -1})).To(HaveLen(1)) // last first
	p.Expect(queue.CountSchedulers(p.ctx)).To(Equal(1))
	p.succeeds(queue.UpsertScheduler(p.ctx, "t", bullmq.Repeat{Every: time.Hour}, nil))
	p.Expect(queue.RemoveScheduler(p.ctx, "t")).To(Succeed())
}

func changeSettings(p *program, queue *bullmq.Queue) {
	p.Expect(queue.SetGlobalConcurrency(p.ctx, 5)).To(Succeed())
	p.Expect(queue.RemoveGlobalConcurrency(p.ctx)).To(Succeed())
	p.Expect(queue.SetGlobalRateLimit(p.ctx, bullmq.Limiter{Max: 5, Duration: time.Second})).To(Succeed())
	p.Expect(queue.RemoveGlobalRateLimit(p.ctx)).To(Succeed())
	p.Expect(queue.RateLimit(p.ctx, time.Millisecond)).To(Succeed())
	p.succeeds(queue.RemoveRateLimitKey(p.ctx))
	p.succeeds(queue.TrimEvents(p.ctx, 10))
	p.succeeds(queue.RemoveDeduplicationKey(p.ctx, "d"))
}

func changeJobs(p *program, queue *bullmq.Queue) {
	job := queue.JobRef(p.others.add("a", bullmq.JobOptions{}).ID)
	p.succeeds(job.Log(p.ctx, "row"))
	p.Expect(queue.AddJobLog(p.ctx, job.ID, "row", &bullmq.LogOptions{Keep: 5})).To(BeEquivalentTo(2))
	p.Expect(job.ClearLogs(p.ctx, &bullmq.ClearLogsOptions{Keep: 1})).To(Succeed())
	p.Expect(job.ClearLogs(p.ctx, nil)).To(Succeed())
	p.Expect(job.UpdateData(p.ctx, 1)).To(Succeed())
	p.Expect(job.UpdateProgress(p.ctx, 1)).To(Succeed())
	p.Expect(job.ChangePriority(p.ctx, 5, nil)).To(Succeed())
	p.Expect(job.ChangePriority(p.ctx, 5, &bullmq.ChangePriorityOptions{LIFO: true})).To(Succeed())
	p.Expect(job.ChangePriority(p.ctx, 0, &bullmq.ChangePriorityOptions{LIFO: true})).To(Succeed())
}

func moveJobs(p *program, queue *bullmq.Queue) {
	delayed := queue.JobRef(p.others.add("a", bullmq.JobOptions{Delay: time.Hour}).ID)
	prioritized := queue.JobRef(p.others.add("a", bullmq.JobOptions{Delay: time.Hour, Priority: 2}).ID)
	p.others.add("a", bullmq.JobOptions{Delay: time.Hour})
	p.Expect(delayed.ChangeDelay(p.ctx, time.Minute)).To(Succeed())
	p.Expect(delayed.Promote(p.ctx)).To(Succeed())
	p.Expect(prioritized.Promote(p.ctx)).To(Succeed())
	p.Expect(queue.PromoteJobs(p.ctx, nil)).To(Succeed())
	p.Expect(p.others.queue.Counts(p.ctx, bullmq.StateDelayed)).To(HaveKeyWithValue(bullmq.StateDelayed, 0))
}

func pauseAndRepair(p *program, queue *bullmq.Queue) {
	p.others.add("a", bullmq.JobOptions{})
	p.Expect(queue.Pause(p.ctx)).To(Succeed())
	p.others.add("a", bullmq.JobOptions{})
	p.Expect(queue.Resume(p.ctx)).To(Succeed())
	p.others.do("LPUSH", p.others.key("paused"), "parked")
	p.Expect(queue.RepairPaused(p.ctx)).To(BeEmpty())
	p.others.do("HSET", p.others.key("lost"), "name", "a", "data", "{}", "timestamp", "1", "priority", "1")
	p.others.do("HSET", p.others.key("lost-too"), "name", "a", "data", "{}", "timestamp", "1")
	p.Expect(queue.RepairPaused(p.ctx)).To(ConsistOf("lost", "lost-too"))
	p.others.do("HSET", p.others.key("orphan"), "name", "a")
	p.Expect(queue.RemoveOrphanedJobs(p.ctx, nil)).To(ContainElement("orphan"))
}

func retryJobs(p *program, queue *bullmq.Queue) {
	parent := p.others.addFlow(bullmq.Flow{Name: "a"}, bullmq.Flow{Name: "b"}).Job.ID
	for i, state := range []string{"failed", "completed", "failed", "completed"} {
		id := fmt.Sprint("ended-", i)
		p.others.do("HSET", p.others.key(id), "name", "a", "finishedOn", "1", "failedReason", "x", "parentKey", p.others.key(parent))
		p.others.do("ZADD", p.others.key(state), "1", id)
		p.others.do("ZADD", p.others.key(parent+":unsuccessful"), "1", p.others.key(id))
		p.others.do("HSET", p.others.key(parent+":processed"), p.others.key(id), "1")
	}
	p.Expect(queue.JobRef("ended-0").Retry(p.ctx, bullmq.StateFailed, &bullmq.RetryOptions{ResetAttemptsMade: true})).To(Succeed())
	p.Expect(queue.JobRef("ended-1").Retry(p.ctx, bullmq.StateCompleted, nil)).To(Succeed())
	p.Expect(queue.RetryJobs(p.ctx, nil)).To(Succeed())
	p.Expect(p.others.queue.Counts(p.ctx, bullmq.StateFailed, bullmq.StateCompleted)).To(Equal(map[bullmq.State]int{bullmq.StateFailed: 0, bullmq.StateCompleted: 1}))
}

func detachChildren(p *program, queue *bullmq.Queue) {
	root := p.others.addFlow(bullmq.Flow{Name: "a"}, bullmq.Flow{Name: "b"}, bullmq.Flow{Name: "c"})
	child, err := queue.Job(p.ctx, root.Children[0].Job.ID)
	p.Expect(err).NotTo(HaveOccurred())
	p.Expect(child.RemoveChildDependency(p.ctx)).To(BeTrue())
	p.Expect(queue.JobRef(root.Job.ID).RemoveUnprocessedChildren(p.ctx)).To(Succeed())
}

// addFamily adds a flow with a waiting and a delayed child.
func (p *program) addFamily() *bullmq.FlowNode {
	return p.others.addFlow(bullmq.Flow{Name: "a"},
		bullmq.Flow{Name: "b", Options: &bullmq.JobOptions{JobID: fmt.Sprint("b:b:", time.Now().UnixNano())}},
		bullmq.Flow{Name: "c", Options: &bullmq.JobOptions{Delay: time.Hour}})
}

func removeJobs(p *program, queue *bullmq.Queue) {
	p.Expect(queue.Remove(p.ctx, p.addFamily().Job.ID, nil)).To(Succeed())
	alone := p.others.add("a", bullmq.JobOptions{Deduplication: &bullmq.Deduplication{ID: "d"}})
	p.Expect(queue.Remove(p.ctx, alone.ID, &bullmq.RemoveOptions{KeepChildren: true})).To(Succeed())
	_, err := p.others.queue.Job(p.ctx, alone.ID)
	p.Expect(errors.Is(err, bullmq.ErrJobNotFound)).To(BeTrue())
}

func cleanStates(p *program, queue *bullmq.Queue) {
	for _, state := range []bullmq.State{bullmq.StateWaiting, bullmq.StateDelayed, bullmq.StatePrioritized, bullmq.StateCompleted, bullmq.StateFailed, bullmq.StateActive} {
		p.addFamily()
		p.others.do("HSET", p.others.key("old"), "name", "a", "timestamp", "1", "rjk", "s")
		switch state {
		case bullmq.StateWaiting:
			p.others.do("LPUSH", p.others.key("wait"), "old")
		case bullmq.StateActive:
			p.others.do("LPUSH", p.others.key("active"), "old")
		default:
			p.others.do("ZADD", p.others.key(string(state)), "1", "old")
		}
		p.succeeds(queue.Clean(p.ctx, &bullmq.CleanOptions{State: state}))
	}
}

func drain(p *program, queue *bullmq.Queue) {
	p.addFamily()
	p.Expect(queue.Drain(p.ctx, &bullmq.DrainOptions{Delayed: true})).To(Succeed())
	p.Expect(p.others.queue.Counts(p.ctx, bullmq.StateWaiting, bullmq.StateDelayed)).To(HaveEach(0))
}

func obliterate(p *program, queue *bullmq.Queue) {
	p.addFamily()
	p.others.do("LPUSH", p.others.key("active"), "runs")
	p.Expect(queue.Obliterate(p.ctx, &bullmq.ObliterateOptions{Force: true})).To(Succeed())
}
