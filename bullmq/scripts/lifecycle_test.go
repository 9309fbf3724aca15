package scripts

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

// watched is a client that records which scripts are called and can make the
// server flush its scripts before each call.
type watched struct {
	rueidis.Client
	forgetful bool

	mu     sync.Mutex
	called map[string]bool // by hash
	texts  int             // calls that sent a script's text
}

func (w *watched) note(commands ...rueidis.Completed) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, command := range commands {
		switch words := command.Commands(); words[0] {
		case "EVALSHA":
			w.called[words[1]] = true
		case "EVAL":
			sum := sha1.Sum([]byte(words[1]))
			w.called[hex.EncodeToString(sum[:])] = true
			w.texts++
		}
	}
}

func (w *watched) forget(first rueidis.Completed) {
	if w.forgetful && first.Commands()[0] == "EVALSHA" {
		w.Client.Do(context.Background(), w.Client.B().ScriptFlush().Build())
	}
}

func (w *watched) Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	w.note(command)
	w.forget(command)
	return w.Client.Do(ctx, command)
}

func (w *watched) DoMulti(ctx context.Context, commands ...rueidis.Completed) []rueidis.RedisResult {
	w.note(commands...)
	w.forget(commands[0])
	return w.Client.DoMulti(ctx, commands...)
}

// live takes jobs through everything that can happen to them, with each typed
// call.
func live(f *fixture) {
	ginkgo.GinkgoHelper()
	ok := func(err error) { ginkgo.GinkgoHelper(); Expect(err).NotTo(HaveOccurred()) }
	job := func(state backend.State, id string) backend.Add {
		add := backend.Add{State: state, ID: id, Name: id, Data: `{"n":1}`, Opts: `{"attempts":2}`, Timestamp: now}
		switch state {
		case backend.Delayed:
			add.Delay = time.Second
		case backend.Prioritized:
			add.Priority = 3
		}
		return add
	}
	add := func(a backend.Add) { ginkgo.GinkgoHelper(); Expect(f.add(a)).To(Equal(backend.AddResult{JobID: a.ID})) }
	worker := backend.Worker{LockDuration: 30 * time.Second, Name: "blue"}
	take := func(id string) {
		ginkgo.GinkgoHelper()
		taken, err := f.take(now, worker)
		ok(err)
		Expect(idOf(taken)).To(Equal(id))
	}
	state := func(id string, want backend.State) { ginkgo.GinkgoHelper(); Expect(f.State(f.ctx, id)).To(Equal(want)) }

	complete := func(id, value string, fetch bool) (backend.Fetched, error) {
		return f.finish(backend.End{JobID: id, Token: "t", ReturnValue: value, Keep: keepAll, Fetch: fetch}, worker)
	}

	// Adds of all kinds, one by one and in bulk.
	add(job(backend.Waiting, "a"))
	add(job(backend.Delayed, "later"))
	add(job(backend.Prioritized, "ranked"))
	Expect(f.addAll(job(backend.Waiting, "b"), job(backend.Delayed, "d2"), job(backend.Prioritized, "p2"), job(backend.Waiting, "c"))).
		To(Equal([]backend.AddResult{{JobID: "b"}, {JobID: "d2"}, {JobID: "p2"}, {JobID: "c"}}))
	Expect(f.Counts(f.ctx, backend.Waiting, backend.Delayed, backend.Prioritized, backend.Active)).To(Equal([]int{3, 2, 2, 0}))
	Expect(f.CountDelayed(f.ctx, time.UnixMilli(nowMs))).To(BeZero())
	Expect(f.Oldest(f.ctx, backend.Waiting, backend.Prioritized, backend.Delayed, backend.Active)).To(HaveLen(4))
	Expect(f.CountsPerPriority(f.ctx, 0, 3)).To(Equal([]int{3, 2}))
	records, err := f.Jobs(f.ctx, backend.Page{To: 99, Ascending: true}, backend.Waiting, backend.Prioritized)
	ok(err)
	Expect(records).To(HaveLen(5))
	Expect(records[0].ID).To(Equal("a"))
	Expect(f.JobIDs(f.ctx, backend.Page{}, backend.Waiting, backend.Prioritized)).To(Equal([]string{"c", "p2"}))
	Expect(f.JobsAfter(f.ctx, backend.Waiting, nil, nil, 1)).To(Equal([]backend.JobPosition{{ID: "c"}}))
	Expect(f.AreInState(f.ctx, backend.Waiting, 0, []string{"c", "p2"})).To(Equal([]int{0, -1}))

	// Delays: changed, expired and promoted.
	ok(f.ChangeDelay(f.ctx, "later", time.UnixMilli(nowMs), 5*time.Second))
	taken, err := f.take(now, backend.Worker{LockDuration: 30 * time.Second})
	ok(err)
	Expect(idOf(taken)).To(Equal("a"))
	Expect(taken.Job.Name).To(Equal("a"))
	Expect(taken.Job.AttemptsStarted).To(Equal(1))
	_, err = f.MoveToWait(f.ctx, "a", "t")
	ok(err)
	state("a", "waiting")
	ok(f.Promote(f.ctx, "later"))
	state("later", "waiting")

	// Calls of a worker for a running job.
	take("a")
	_, jobState, _, err := f.JobAndState(f.ctx, "a", true)
	ok(err)
	Expect(jobState).To(Equal(backend.Active))
	Expect(f.ExtendLock(f.ctx, backend.Lock{JobID: "a", Token: "t"}, 30*time.Second)).To(BeTrue())
	Expect(f.ExtendLock(f.ctx, backend.Lock{JobID: "a", Token: "other"}, 30*time.Second)).To(BeFalse())
	Expect(f.ExtendLocks(f.ctx, []backend.Lock{{JobID: "a", Token: "t"}, {JobID: "b", Token: "t"}}, 30*time.Second)).To(HaveField("Lost", Equal([]string{"b"})))
	ok(f.UpdateProgress(f.ctx, "a", "50"))
	ok(f.UpdateData(f.ctx, "a", "{}"))
	Expect(f.AddLog(f.ctx, "a", "row", 5)).To(BeEquivalentTo(1))
	undone, _, err := f.ResolveFetch(f.ctx, "t", "a")
	ok(err)
	Expect(undone).To(BeTrue())
	taken, err = f.wake(0, time.UnixMilli(math.MaxInt32), worker)
	ok(err)
	Expect(taken.Unknown).To(BeTrue(), "it is later than that")
	taken, err = complete("a", `"ok"`, true)
	ok(err)
	Expect(idOf(taken)).To(Equal("b"))
	Expect(f.Outcome(f.ctx, "a")).To(Equal(backend.Outcome{State: backend.Completed, Value: `"ok"`}))

	// Failures: retried at once, retried later, permanent and reprocessed.
	ok(f.RetryJob(f.ctx, backend.Retry{
		JobID: "b", Token: "t", Now: now, LIFO: true, Failure: backend.FailedAttempt{Reason: "boom", StackTrace: "[]"},
	}))
	take("b")
	taken, err = f.MoveToDelayed(f.ctx, backend.Delay{JobID: "b", Token: "t", Now: now, Delay: time.Second, Failure: &backend.FailedAttempt{StackTrace: "[]"}, Fetch: true, Worker: worker})
	ok(err)
	Expect(idOf(taken)).To(Equal("c"))
	state("b", "delayed")
	taken, err = f.finish(backend.End{JobID: "c", Token: "t", Failure: &backend.FailedAttempt{Reason: "boom"}, Attempts: 1, Keep: keepAll, Fetch: true}, worker)
	ok(err)
	Expect(idOf(taken)).To(Equal("later"))
	state("c", "failed")
	ok(f.Reprocess(f.ctx, "c", backend.Reprocess{From: backend.Failed, ResetAttemptsMade: true, ResetAttemptsStarted: true}))
	ok(f.ChangePriority(f.ctx, "c", 1, false))
	state("c", "prioritized")
	metrics, err := f.Metrics(f.ctx, backend.Completed, 0, -1)
	ok(err)
	Expect(metrics.Count).To(Equal(1))

	// A worker that ends while its job runs.
	Expect(f.MoveStalledJobsToWait(f.ctx, now, 1, 10*time.Millisecond)).To(BeEmpty())
	f.set("DEL", "later:lock")
	f.set("DEL", "stalled-check")
	Expect(f.MoveStalledJobsToWait(f.ctx, now, 1, 10*time.Millisecond)).To(Equal([]string{"later"}))
	state("later", "waiting")

	// Pause, concurrency and rate limit.
	ok(f.Pause(f.ctx))
	take("")
	ok(f.Resume(f.ctx))
	f.set("HSET", "meta", "concurrency", "1", "max", "1", "duration", "60000")
	Expect(f.IsMaxed(f.ctx)).To(BeFalse())
	take("later")
	Expect(f.IsMaxed(f.ctx)).To(BeTrue())
	Expect(f.RateLimitTTL(f.ctx, 0)).To(BeNumerically(">", 0))
	f.set("HDEL", "meta", "concurrency", "max", "duration")
	_, err = complete("later", "null", false)
	ok(err)

	// A waiting parent with children that end, are detached and are removed.
	children := func(id string) []backend.FlowJob {
		parent := job(backend.WaitingChildren, id)
		jobs := []backend.FlowJob{{Queue: f.Store, Add: &parent}}
		for n := range 3 {
			child := job(backend.Waiting, fmt.Sprint(id, "-child-", n))
			child.Parent, child.ParentPolicy = f.ref(id), fmt.Sprintf(`{"id":%q,"queueKey":%q}`, id, shown(f.base))
			jobs = append(jobs, backend.FlowJob{Queue: f.Store, Add: &child})
		}
		return jobs
	}
	added, err := f.AddFlow(f.ctx, children("wall"), now)
	ok(err)
	Expect(idsOf(added)).To(Equal([]string{"wall", "wall-child-0", "wall-child-1", "wall-child-2"}))
	state("wall", "waiting-children")
	take("wall-child-0")
	_, err = complete("wall-child-0", "0", false)
	ok(err)
	Expect(f.RemoveChildDependency(f.ctx, "wall-child-1")).To(BeTrue())
	ok(f.RemoveUnprocessedChildren(f.ctx, "wall"))
	state("wall", "waiting")
	state("wall-child-2", "unknown")
	take("wall")
	Expect(f.MoveToWaitingChildren(f.ctx, "wall", "t", now, backend.JobRef{})).To(BeFalse())
	f.set("SADD", "wall:dependencies", f.base+"c")
	Expect(f.MoveToWaitingChildren(f.ctx, "wall", "t", now, backend.JobRef{})).To(BeTrue())
	Expect(f.Remove(f.ctx, "wall", false)).To(Equal(backend.Removed))

	// Deduplication.
	once := job(backend.Waiting, "once")
	once.Deduplication.ID = "d"
	add(once)
	again := once
	again.ID = "again"
	Expect(f.add(again)).To(Equal(backend.AddResult{JobID: "once", Outcome: backend.Deduplicated}))
	numbered, err := f.add(job(backend.Waiting, ""))
	ok(err)
	Expect(numbered.JobID).To(MatchRegexp(`^\d+$`))
	Expect(f.RemoveDeduplicationKey(f.ctx, "d", "once")).To(BeTrue())

	// A scheduler.
	jobID, _, err := f.AddJobScheduler(f.ctx, backend.SchedulerAdd{
		ID: "often", Now: now, Name: "s", Data: "{}", Template: "{}", Opts: `{"repeat":{"every":1000}}`,
		Repeat: backend.SchedulerRepeat{Every: time.Second},
	})
	ok(err)
	Expect(jobID).To(HavePrefix("repeat:often:"))
	next, err := f.UpdateJobScheduler(f.ctx, backend.NextRun{
		SchedulerID: "often", Now: now, ProducerID: jobID, EveryMillis: 1000, Opts: `{"repeat":{"every":1000}}`, Data: "{}",
	})
	ok(err)
	Expect(next).NotTo(Equal(jobID))
	Expect(f.PauseJobScheduler(f.ctx, "often", now)).To(BeTrue())
	Expect(f.PausedJobSchedulers(f.ctx)).To(HaveLen(1))
	Expect(f.RemoveJobScheduler(f.ctx, "often")).To(BeTrue())

	// Dead letters, which are in the same queue here.
	own := backend.QueueRef{Prefix: "bull", Name: strings.TrimSuffix(strings.TrimPrefix(f.Base(), "bull:"), ":")}
	f.set("HSET", "bad", "name", "a", "data", "{}", "opts", "{}", "atm", "2", "deid", "d")
	f.set("ZADD", "failed", "7", "bad")
	moved, err := f.MoveFailed(f.ctx, backend.MoveFailed{From: own, Count: 1, Now: now, Records: true})
	ok(err)
	Expect(moved.Seen).To(Equal(1))
	Expect(moved.IDs).To(Equal([]string{own.Name + "-bad"}))
	Expect(moved.Records[0].Name).To(Equal("a"))
	Expect(f.FindDeadLetter(f.ctx, backend.JobRef{Prefix: own.Prefix, Queue: own.Name, ID: "bad"})).To(Equal(moved.Records[0]))
	Expect(f.ReplayDeadLetters(f.ctx, own, []backend.Letter{{ID: moved.IDs[0], JobID: "bad"}, {ID: "nobody", JobID: "bad"}})).
		To(Equal([]backend.ReplayOutcome{backend.Replayed, backend.LetterGone}))
	state("bad", "waiting")

	// Several queues.
	sharing := backend.Add{State: backend.Waiting, Name: "sharing", Data: "{}", Opts: "{}", Timestamp: now}
	both := []backend.QueueAdds{{Queue: f.base, Jobs: []*backend.Add{&sharing}}, {Queue: "bull:another-queue:", Jobs: []*backend.Add{&sharing}}}
	Expect(NewGroup(f.client, f.Dialect).AddPlainJobs(f.ctx, both)).To(HaveLen(2))
	ids, err := f.JobIDs(f.ctx, backend.Page{To: 0}, backend.Waiting)
	ok(err)
	Expect(f.Remove(f.ctx, ids[0], false)).To(Equal(backend.Removed))
	for _, suffix := range []string{"id", "1", "meta", "events", "wait", "marker"} {
		Expect(f.do("DEL", "bull:another-queue:"+suffix).Error()).To(Succeed())
	}
	list := NewRegistry(f.client, "bull", own.Name)
	ok(list.Register(f.ctx, []string{"a"}))
	Expect(list.Listen(f.ctx, backend.Listen{Listener: "l", Lease: time.Minute})).To(HaveField("Names", []string{"a"}))
	_, err = list.RemoveVanished(f.ctx, time.Hour, time.Hour)
	ok(err)
	ok(list.Unregister(f.ctx, []string{"a"}))
	f.running("several", "t")
	group, queues := NewGroup(f.client, f.Dialect), []string{f.base, "bull:no-such-queue:"}
	held := []backend.QueueLocks{{Queue: f.base, Locks: []backend.Lock{{JobID: "several", Token: "t"}}}, {Queue: queues[1]}}
	Expect(group.ExtendLocksOf(f.ctx, held, 30*time.Second)).To(HaveLen(2))
	Expect(group.ResolveFetches(f.ctx, queues, []string{"t"})).To(HaveLen(1))
	Expect(group.LookAtQueues(f.ctx, queues, backend.Look{})).To(HaveLen(1))
	Expect(group.MoveStalledJobsOf(f.ctx, queues[:1], now, 1, 10*time.Millisecond)).To(HaveLen(1))
	served, err := f.serve(backend.Serve{
		Now: now, Worker: worker, Tokens: []string{"t"}, Takes: []backend.Take{{Queue: queues[1], Most: 1}, {Queue: f.base, Most: 1}},
		Ends: []backend.QueueEnds{{Queue: f.base, Ends: []*backend.End{{JobID: "several", Token: "t", ReturnValue: "1"}}}},
	})
	ok(err)
	Expect(served.Ends[0]).To(Equal(backend.QueueEnded{Errs: []error{nil}}))
	Expect(served.Takes).To(HaveLen(2))
	Expect(f.do("DEL", "bull:no-such-queue:meta", "bull:no-such-queue:events").Error()).To(Succeed())

	last, err := NewQueueFinder(single{f.client}).LastEvents(f.ctx, queues)
	Expect(err).NotTo(HaveOccurred())
	Expect(last).To(HaveLen(len(queues)))
	summaries, err := NewQueueFinder(single{f.client}).Summaries(f.ctx, queues, 60)
	ok(err)
	Expect(summaries[0].Counts).To(HaveKeyWithValue(backend.Completed, BeNumerically(">", 0)))
	Expect(summaries[1].Counts).To(HaveEach(0))

	memory, err := NewQueueFinder(single{f.client}).Memory(f.ctx, queues, 1)
	ok(err)
	Expect(memory[0].Jobs[backend.Completed].Keys).To(BeNumerically(">", 0)) // in-process Redis does not measure bytes

	// Timings.
	timings, _, err := f.Timings(f.ctx, backend.TimingsFrom{}, 1)
	ok(err)
	Expect(timings).To(HaveLen(1))

	// Flows.
	several := backend.JobRef{Prefix: own.Prefix, Queue: own.Name, ID: "several"}
	part, err := NewFlowReader(single{f.client}).ReadFlow(f.ctx, backend.FlowRead{Jobs: []backend.FlowStart{{JobRef: several}}, MaxJobs: 1, MaxText: 10})
	ok(err)
	Expect(part.Records).To(HaveExactElements(HaveField("State", backend.Completed)))
	above, err := NewFlowReader(single{f.client}).FlowAncestors(f.ctx, several, 1)
	ok(err)
	Expect(above).To(Equal(backend.FlowAncestors{Jobs: []backend.JobRef{}, End: backend.AncestorsRoot}))

	// Registered workers, and the limits of a name.
	registered := backend.WorkerLease{ID: "w", Home: f.base, Queues: []string{f.base}, Lease: time.Minute, Record: "{}"}
	registry := NewWorkerRegistry(single{f.client})
	ok(registry.RegisterWorker(f.ctx, registered))
	Expect(registry.RegisteredWorkers(f.ctx, []string{f.base})).To(HaveLen(1))
	f.running("limited", "t")
	granted, _, err := f.StartNamed(f.ctx, backend.NamedStart{JobID: "limited", Token: "t", Name: "a", Concurrency: 1})
	ok(err)
	Expect(granted).To(BeTrue())

	// Other queues.
	route := backend.QueueRef{Prefix: "bull", Name: own.Name + "@gpu"}
	f.running("forwarded", "t")
	Expect(f.ForwardJob(f.ctx, backend.Forward{JobID: "forwarded", Token: "t", To: route, Now: now})).To(HaveField("JobID", "forwarded"))
	there := NewStore(f.client, route.String()+":", nil)
	there.Dialect = f.Dialect
	Expect(there.MoveWaiting(f.ctx, backend.QueueRef{Prefix: "bull", Name: own.Name}, now, []backend.MovedJob{{ID: "forwarded", Opts: "{}"}})).
		To(Equal([]string{"forwarded"}))
	state("forwarded", "waiting")
	Expect(f.Remove(f.ctx, "forwarded", false)).To(Equal(backend.Removed))
	for _, suffix := range []string{"id", "meta", "events", "marker"} {
		Expect(f.do("DEL", route.String()+":"+suffix).Error()).To(Succeed())
	}

	// Cleaning.
	_, err = f.Cancel(f.ctx, "nobody", "cancelled", "", "")
	Expect(err).To(MatchError(backend.JobNotFound))
	f.set("HSET", "lost", "name", "lost")
	Expect(f.RemoveOrphanedJobs(f.ctx, []string{"lost", "a"}, true)).To(Equal([]string{"lost"}))
	f.set("HSET", "stray", "name", "a", "data", "{}", "opts", "{}", "timestamp", "5")
	Expect(f.StrandedJobs(f.ctx, []string{"stray", "a", "nobody"}, false)).To(Equal([]backend.StrandedJob{{ID: "stray", Timestamp: time.UnixMilli(5)}}))
	Expect(f.StrandedJobs(f.ctx, []string{"stray"}, true)).To(HaveLen(1))
	state("stray", "waiting")
	ok(f.JoinPaused(f.ctx))
	Expect(f.Clean(f.ctx, backend.Completed, now, 1)).To(HaveLen(1))
	Expect(f.MoveJobsToWait(f.ctx, backend.MoveJobs{From: backend.Delayed, Count: 100})).To(BeFalse())
	Expect(f.Drain(f.ctx, true, 1000)).To(BeFalse())
	Expect(f.Counts(f.ctx, backend.Waiting, backend.Delayed, backend.Prioritized)).To(Equal([]int{0, 0, 0}))
	ok(f.Pause(f.ctx))
	plain := backend.Add{State: backend.Waiting, Name: "plain", Data: "{}", Opts: "{}", Timestamp: now}
	Expect(f.addAll(plain, plain)).To(HaveLen(2))
	Expect(f.Obliterate(f.ctx, 1000, true)).To(BeFalse())
	used, _, err := f.RemoveUnused(f.ctx, 1000, true)
	Expect(err).NotTo(HaveOccurred())
	Expect(used).To(BeFalse())
	left := f.state()
	delete(left, "limiter")
	Expect(left).To(BeEmpty())
	Expect(registry.RegisteredWorkers(f.ctx, []string{f.base})).To(BeEmpty())
}

// single is a client of one server, which lists no keys.
type single struct{ Client }

func (single) IsCluster() bool                                            { return false }
func (single) ScanKeys(context.Context, string) ([]string, error)         { return nil, nil }
func (single) EachKey(context.Context, string, func([]string) bool) error { return nil }

var _ = ginkgo.Describe("All scripts", func() {
	ginkgo.DescribeTable("work together on a real Redis, in the dialect of", func(dialect Dialect, uncalled ...*command) {
		var want []string
		for _, c := range commands {
			if !slices.Contains(uncalled, c) {
				want = append(want, c.forms[dialect].sha)
			}
		}
		w := &watched{Client: client, called: map[string]bool{}}
		f := newFixture(w)
		f.Dialect = dialect
		live(f)
		Expect(slices.Collect(maps.Keys(w.called))).To(ConsistOf(want), "every command is called")
	},
		ginkgo.Entry("BullMQ 6", V6),
		ginkgo.Entry("BullMQ 5", V5, releaseParent),
	)

	ginkgo.It("still work if the server loses its scripts before every call", func() {
		w := &watched{Client: client, called: map[string]bool{}, forgetful: true}
		live(newFixture(w))
		Expect(w.texts).To(BeNumerically(">", len(commands)))
	})

	ginkgo.It("are sent in full once, as long as the server keeps them", func() {
		w := &watched{Client: client, called: map[string]bool{}}
		f := newFixture(w)
		f.do("SCRIPT", "FLUSH")
		for range 5 {
			Expect(f.IsMaxed(f.ctx)).To(BeFalse())
		}
		Expect(w.texts).To(Equal(1))
	})

	ginkgo.It("work on an in-process Redis", func() {
		mini := miniredis.RunT(ginkgo.GinkgoT())
		inProcess, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{mini.Addr()}, DisableCache: true, ForceSingleClient: true})
		Expect(err).NotTo(HaveOccurred())
		ginkgo.DeferCleanup(inProcess.Close)
		live(newFixture(inProcess))
	})

	ginkgo.It("keep bulks in order if the server loses them between two tries", func() {
		w := &watched{Client: client, called: map[string]bool{}, forgetful: true}
		f := newFixture(w)
		var adds []backend.Add
		var want []string
		for n := range 50 {
			adds = append(adds, backend.Add{State: backend.Waiting, Name: fmt.Sprint(n), Data: "{}", Opts: "{}", Timestamp: time.UnixMilli(1)})
			want = append(want, fmt.Sprint(n+1))
		}
		Expect(idsOf(f.addAll(adds...))).To(Equal(want))
		Expect(f.do("LRANGE", f.base+"wait", "0", "-1").AsStrSlice()).To(HaveLen(50))
	})
})
