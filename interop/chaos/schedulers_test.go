package chaos

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// timetable is the repeat of a scheduler. Its slots, the times of its jobs, are a period apart.
type timetable struct {
	bullmq.Repeat
	period time.Duration
}

// timetables returns the given number of repeats. Every second one is a pattern.
func timetables(n int) map[string]timetable {
	all := map[string]timetable{}
	for i := range n {
		if seconds := 1 + i/2%2; i%2 == 0 {
			all[fmt.Sprint("pattern-", i)] = timetable{bullmq.Repeat{Pattern: fmt.Sprintf("*/%d * * * * *", seconds)}, time.Duration(seconds) * time.Second}
		} else {
			every := time.Duration(300+50*i) * time.Millisecond
			all[fmt.Sprint("interval-", i)] = timetable{bullmq.Repeat{Every: every}, every}
		}
	}
	return all
}

// following returns the slot whose job is due to be added at the given time. The scheduler's last job is that of
// slot last. All times are in ms.
func (t timetable) following(last, now int64) int64 {
	period := t.period.Milliseconds()
	if t.Pattern != "" {
		return (max(last, now)/period + 1) * period
	}
	if last+period >= now {
		return last + period
	}
	return last + ((now-last)/period+1)*period
}

// runs records the runs of jobs as their workers report them.
type runs struct {
	mu      sync.Mutex
	jobs    map[string]*runsOfJob
	running map[*Member]map[string]bool // the jobs that a worker has started and not ended
	errors  []string
}

type runsOfJob struct {
	first  time.Time // receipt of the report of its first start
	starts int
	killed int // runs whose worker was killed before it reported their end
}

func (r *runs) hear(m *Member, s message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch s.Event {
	case "started":
		if r.jobs[s.ID] == nil {
			r.jobs[s.ID] = &runsOfJob{first: time.Now()}
		}
		r.jobs[s.ID].starts++
		if r.running[m] == nil {
			r.running[m] = map[string]bool{}
		}
		r.running[m][s.ID] = true
	case "completed":
		delete(r.running[m], s.ID)
	case "error":
		if strings.Contains(s.Message, "deadline exceeded") { // on a busy machine a call may take too long; the worker repeats it
			return
		}
		r.errors = append(r.errors, fmt.Sprintf("%s: %s %s %s", m.Name, s.Event, s.ID, s.Message))
	case "failed", "locksLost":
		r.errors = append(r.errors, fmt.Sprintf("%s: %s %s %s", m.Name, s.Event, s.ID, s.Message))
	}
}

// noteKilled records that a worker was killed. All its output must have been received.
func (r *runs) noteKilled(m *Member) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.running[m] {
		r.jobs[id].killed++
	}
}

// startedSince returns the schedulers one of whose jobs was first started after a time.
func (r *runs) startedSince(since time.Time) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	found := map[string]bool{}
	for id, job := range r.jobs {
		if scheduler, _ := slotOf(id); job.first.After(since) {
			found[scheduler] = true
		}
	}
	return slices.Collect(maps.Keys(found))
}

// slotOf parses the id of a scheduler's job, "repeat:<scheduler>:<ms>".
func slotOf(id string) (scheduler string, slot int64) {
	parts := strings.Split(id, ":")
	if len(parts) != 3 {
		return id, 0
	}
	slot, _ = strconv.ParseInt(parts[2], 10, 64)
	return parts[1], slot
}

var _ = Describe("Job schedulers", func() {
	It("whose workers are killed at random add one job for each slot, which runs once unless its worker was killed", func() {
		const schedulers = 30
		begun := time.Now()
		// In each lane random workers are killed and replaced, one after the other. nil is a worker in Go.
		lanes, lock, more := [][][]string{{nil, nil, {"-bullmq", "6"}, {"-bullmq", "5"}}}, 3*time.Second, func(kills int) bool { return kills < 2 }
		if *full {
			lanes = [][][]string{{nil, nil, nil, {"-bullmq", "6"}}, {nil, nil, nil, {"-bullmq", "5"}}, {nil, nil, nil, {"-bullmq", "6"}}, {nil, nil, nil, {"-bullmq", "5"}}, {nil, nil, nil, nil}}
			lock, more = 5*time.Second, func(int) bool { return time.Since(begun) < 45*time.Second }
		}

		ctx := within(2 * time.Minute)
		site, queueName := at(startServer()), fmt.Sprintf("cron-%d", trials.Add(1))
		queue, err := bullmq.NewQueue(ctx, queueName, &bullmq.QueueOptions{Connection: connect(site)})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(queue.Close)
		seen := &runs{jobs: map[string]*runsOfJob{}, running: map[*Member]map[string]bool{}}
		fleet := &Fleet{
			site: site, queue: queueName, heard: seen.hear,
			settings: Settings{Lock: lock, Stalled: 300 * time.Millisecond, Work: 300 * time.Millisecond, Concurrency: 3},
		}
		DeferCleanup(fleet.Kill)
		start := func(kind []string) *Member {
			GinkgoHelper()
			library := Go
			if kind != nil {
				library = Node
			}
			m, err := fleet.Start(ctx, library, kind...)
			Expect(err).NotTo(HaveOccurred())
			return m
		}

		all := timetables(schedulers)
		var started, ended sync.WaitGroup
		begin := make(chan struct{})
		for _, kinds := range lanes {
			members := make([]*Member, len(kinds))
			for i, kind := range kinds {
				started.Go(func() {
					defer GinkgoRecover()
					members[i] = start(kind)
				})
			}
			ended.Go(func() {
				defer GinkgoRecover()
				<-begin
				for kills := 0; more(kills); kills++ {
					time.Sleep(rand.N(600 * time.Millisecond))
					i := rand.IntN(len(members))
					fleet.Remove(members[i], func(m *Member) { m.Kill() })
					seen.noteKilled(members[i])
					members[i] = start(kinds[i])
				}
			})
		}
		started.Wait()
		Expect(fleet.Members()).To(HaveLen(len(slices.Concat(lanes...))))
		for id, t := range all {
			_, err := queue.UpsertScheduler(ctx, id, t.Repeat, nil)
			Expect(err).NotTo(HaveOccurred())
		}
		close(begin)
		ended.Wait()

		// All schedulers are still active. They are removed to let the queue become empty.
		killed := len(fleet.Ever()) - len(fleet.Members())
		Eventually(seen.startedSince).WithArguments(time.Now()).Should(HaveLen(schedulers), "schedulers with a job after the last kill")
		for id := range all {
			Expect(queue.RemoveScheduler(ctx, id)).To(Succeed())
		}
		admin, err := site.open()
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(admin.Close)
		Expect(drained(ctx, queueKeys{admin, site.base(queueName)})).To(Succeed())
		Expect(fleet.Stop()).To(Succeed())
		seen.expectSound(ctx, queue, all)
		report.Note("    %d schedulers, %d workers, %d kills: %s in %.2f s", schedulers, len(fleet.Ever())-killed, killed, seen.summary(), time.Since(begun).Seconds())
	})
})

// expectSound compares the runs with the completed jobs in Redis.
func (r *runs) expectSound(ctx context.Context, queue *bullmq.Queue, all map[string]timetable) {
	GinkgoHelper()
	r.mu.Lock()
	defer r.mu.Unlock()
	Expect(r.errors).To(BeEmpty())
	jobs, err := queue.Jobs(ctx, bullmq.AllEntries(), bullmq.StateCompleted, bullmq.StateFailed)
	Expect(err).NotTo(HaveOccurred())
	slots := map[string][]*bullmq.Job{}
	for _, job := range jobs {
		Expect(job.FailedReason).To(BeEmpty(), job.ID)
		runs := r.jobs[job.ID]
		Expect(runs).NotTo(BeNil(), "job %s is completed but was not started", job.ID)
		Expect(runs.starts).To(BeNumerically("<=", 1+runs.killed), "starts of %s, %d of which ended with a killed worker", job.ID, runs.killed)
		scheduler, _ := slotOf(job.ID)
		slots[scheduler] = append(slots[scheduler], job)
	}
	Expect(r.jobs).To(HaveLen(len(jobs)), "all jobs that were started are completed")
	Expect(slots).To(HaveLen(len(all)))
	for scheduler, jobs := range slots {
		slices.SortFunc(jobs, func(a, b *bullmq.Job) int { return strings.Compare(a.ID, b.ID) })
		for i, job := range jobs[1:] {
			_, last := slotOf(jobs[i].ID)
			_, slot := slotOf(job.ID)
			// A job is added before its predecessor runs. Only slots that passed before have no job. The worker
			// computes the slot shortly before it adds the job, so the slot may pass in between.
			added := job.Timestamp.UnixMilli()
			Expect(slot).To(Or(Equal(all[scheduler].following(last, added)), Equal(all[scheduler].following(last, added-500))),
				"the slot after %s, added at %v", jobs[i].ID, job.Timestamp)
			Expect(job.Timestamp).To(BeTemporally("<=", r.jobs[jobs[i].ID].first), "the next job of %s was added late", jobs[i].ID)
		}
	}
}

// summary describes the number of jobs and runs.
func (r *runs) summary() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	again := 0
	for _, job := range r.jobs {
		again += job.starts - 1
	}
	return fmt.Sprintf("%d jobs, %d started again", len(r.jobs), again)
}
