package scripts

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/internal/testkit/fakeredis"
)

// readers holds all calls that read a reply.
var readers = []func(ctx context.Context, q *Store){
	func(ctx context.Context, q *Store) {
		_, _ = q.MoveToActive(ctx, now, backend.Worker{LockDuration: time.Millisecond}, "t")
	},
	func(ctx context.Context, q *Store) {
		_, _ = q.MoveToActive(ctx, now, backend.Worker{LockDuration: time.Millisecond, Name: "w"}, "t", "u", "v")
	},
	func(ctx context.Context, q *Store) {
		_, _ = q.ReadWhenWoken(q.client.Do(ctx, q.WhenWoken(q.client.B(), false, 0, now, backend.Worker{LockDuration: time.Millisecond}, "t")), backend.Worker{})
	},
	func(ctx context.Context, q *Store) {
		_, _ = q.MoveToFinished(ctx, backend.Finish{Ends: []*backend.End{{JobID: "1", Token: "t"}}})()
	},
	func(ctx context.Context, q *Store) {
		_, _ = q.MoveToFinished(ctx, backend.Finish{Ends: []*backend.End{{JobID: "1", Fetch: true}, {JobID: "2", Failure: &backend.FailedAttempt{}}, {JobID: "3", Fetch: true}}})()
	},
	func(ctx context.Context, q *Store) { _ = q.RetryJob(ctx, backend.Retry{JobID: "1", Token: "t"}) },
	func(ctx context.Context, q *Store) {
		_, _ = q.MoveToDelayed(ctx, backend.Delay{JobID: "1", Token: "t"})
	},
	func(ctx context.Context, q *Store) { _, _ = q.MoveToWait(ctx, "1", "t") },
	func(ctx context.Context, q *Store) {
		_, _ = q.MoveToWaitingChildren(ctx, "1", "t", time.UnixMilli(1), backend.JobRef{})
	},
	func(ctx context.Context, q *Store) { _, _, _ = q.ResolveFetch(ctx, "t", "1") },
	func(ctx context.Context, q *Store) { _, _ = q.ExtendLock(ctx, backend.Lock{JobID: "1", Token: "t"}, 1) },
	func(ctx context.Context, q *Store) {
		_, _ = q.ExtendLocks(ctx, []backend.Lock{{JobID: "1", Token: "t"}}, 1)
	},
	func(ctx context.Context, q *Store) { _, _ = q.MoveStalledJobsToWait(ctx, time.UnixMilli(1), 1, 1) },
	func(ctx context.Context, q *Store) {
		_ = q.AddBatch(ctx, []*backend.Add{{State: backend.Waiting, Name: "a", Data: "{}", Opts: "{}"}})
	},
	func(ctx context.Context, q *Store) {
		_ = q.AddBatch(ctx, []*backend.Add{{State: backend.Delayed, ID: "a", Name: "a"}})
	},
	func(ctx context.Context, q *Store) { _ = q.AddBatch(ctx, []*backend.Add{{}, {}, {}}) },
	func(ctx context.Context, q *Store) {
		_ = q.AddBatch(ctx, []*backend.Add{{State: backend.Waiting}, {ID: "x"}, {State: backend.WaitingChildren}})
	},
	func(ctx context.Context, q *Store) {
		parent := backend.JobRef{Prefix: "bull", Queue: "a", ID: "p"}
		_, _ = q.AddFlow(ctx, []backend.FlowJob{
			{Queue: q, Add: &backend.Add{State: backend.WaitingChildren, ID: "a"}}, {Queue: q, Add: &backend.Add{ID: "b", Parent: parent}},
		}, now)
	},
	func(ctx context.Context, q *Store) { _, _ = q.Counts(ctx, backend.Waiting, backend.Active) },
	func(ctx context.Context, q *Store) { _, _ = q.CountDelayed(ctx, time.Now()) },
	func(ctx context.Context, q *Store) { _, _ = q.CountFinished(ctx, backend.Failed, time.Now()) },
	func(ctx context.Context, q *Store) {
		_, _ = q.Oldest(ctx, backend.Waiting, backend.Delayed, backend.Active)
	},
	func(ctx context.Context, q *Store) { _, _ = q.CountsPerPriority(ctx, 0, 1) },
	func(ctx context.Context, q *Store) {
		_, _ = q.Jobs(ctx, backend.Page{To: -1, Ascending: true}, backend.Waiting)
	},
	func(ctx context.Context, q *Store) {
		_, _ = q.JobIDs(ctx, backend.Page{To: -1, Ascending: true}, backend.Waiting)
	},
	func(ctx context.Context, q *Store) {
		_, _ = q.JobsAfter(ctx, backend.Waiting, &backend.JobPosition{ID: "1"}, []string{"2"}, 10)
	},
	func(ctx context.Context, q *Store) { _, _ = q.AreInState(ctx, backend.Waiting, 3, []string{"1", "2"}) },
	func(ctx context.Context, q *Store) { _, _ = q.Metrics(ctx, "completed", 0, -1) },
	func(ctx context.Context, q *Store) { _, _ = q.RateLimitTTL(ctx, 0) },
	func(ctx context.Context, q *Store) { _, _ = q.IsMaxed(ctx) },
	func(ctx context.Context, q *Store) { _ = q.Pause(ctx) },
	func(ctx context.Context, q *Store) { _ = q.Resume(ctx) },
	func(ctx context.Context, q *Store) { _ = q.UpdateProgress(ctx, "1", "{}") },
	func(ctx context.Context, q *Store) { _ = q.UpdateData(ctx, "1", "{}") },
	func(ctx context.Context, q *Store) { _, _ = q.AddLog(ctx, "1", "row", 1) },
	func(ctx context.Context, q *Store) { _ = q.Promote(ctx, "1") },
	func(ctx context.Context, q *Store) { _ = q.ChangeDelay(ctx, "1", time.Now(), time.Second) },
	func(ctx context.Context, q *Store) { _ = q.ChangePriority(ctx, "1", 1, false) },
	func(ctx context.Context, q *Store) {
		_ = q.Reprocess(ctx, "1", backend.Reprocess{From: backend.Failed})
	},
	func(ctx context.Context, q *Store) { _, _ = q.State(ctx, "1") },
	func(ctx context.Context, q *Store) { _, _ = q.Outcome(ctx, "1") },
	func(ctx context.Context, q *Store) { _, _, _ = q.Logs(ctx, "1", 0, -1) },
	func(ctx context.Context, q *Store) { _ = q.ClearLogs(ctx, "1", 1) },
	func(ctx context.Context, q *Store) { _, _ = q.Job(ctx, "1") },
	func(ctx context.Context, q *Store) { _, _ = q.Summary(ctx, "1") },
	func(ctx context.Context, q *Store) { _, _ = q.JobsOf(ctx, []backend.JobRef{{ID: "a"}, {ID: "b"}}) },
	func(ctx context.Context, q *Store) { _, _ = q.ChildValues(ctx, "1") },
	func(ctx context.Context, q *Store) { _, _ = q.IgnoredFailures(ctx, "1") },
	func(ctx context.Context, q *Store) { _, _ = q.Children(ctx, "1") },
	func(ctx context.Context, q *Store) {
		_, _ = q.JobLabels(ctx, []backend.JobRef{{ID: "a"}, {ID: "b"}})
	},
	func(ctx context.Context, q *Store) {
		from := &backend.Scan{Count: 5}
		_, _ = q.ScanChildren(ctx, "1", backend.ChildScan{Processed: from, Pending: from, Ignored: from, Failed: from})
	},
	func(ctx context.Context, q *Store) { _, _, _ = q.ChildRange(ctx, "1", true, 0, -1) },
	func(ctx context.Context, q *Store) { _, _, _ = q.ChildRange(ctx, "1", false, 2, 5) },
	func(ctx context.Context, q *Store) { _, _ = q.ChildCounts(ctx, "1") },
	func(ctx context.Context, q *Store) {
		_, _ = q.UpdateJobScheduler(ctx, backend.NextRun{SchedulerID: "s"})
	},
	func(ctx context.Context, q *Store) { _, _, _ = q.AddJobScheduler(ctx, backend.SchedulerAdd{ID: "s"}) },
	func(ctx context.Context, q *Store) { _, _ = q.RemoveJobScheduler(ctx, "s") },
	func(ctx context.Context, q *Store) { _, _ = q.PauseJobScheduler(ctx, "s", time.Now()) },
	func(ctx context.Context, q *Store) { _, _ = q.PausedJobSchedulers(ctx) },
	func(ctx context.Context, q *Store) { _, _ = q.PausedJobSchedulers(ctx, "s") },
	func(ctx context.Context, q *Store) { _, _ = q.JobScheduler(ctx, "s") },
	func(ctx context.Context, q *Store) {
		_, _ = q.JobSchedulers(ctx, backend.Page{To: -1, Ascending: true})
	},
	func(ctx context.Context, q *Store) { _, _ = q.CountJobSchedulers(ctx) },
	func(ctx context.Context, q *Store) { _, _ = q.Meta(ctx) },
	func(ctx context.Context, q *Store) { _, _, _ = q.DialectHints(ctx) },
	func(ctx context.Context, q *Store) { _ = q.InitMeta(ctx, 1, "v") },
	func(ctx context.Context, q *Store) { _, _ = q.RemoveRateLimit(ctx) },
	func(ctx context.Context, q *Store) { _, _ = q.DeduplicationOwner(ctx, "d") },
	func(ctx context.Context, q *Store) { _, _ = q.FreeDeduplication(ctx, "d") },
	func(ctx context.Context, q *Store) { _, _ = q.TrimEvents(ctx, 1) },
	func(ctx context.Context, q *Store) { _ = q.SetGlobalConcurrency(ctx, nil) },
	func(ctx context.Context, q *Store) { _, _ = q.LastEvent(ctx) },
	func(ctx context.Context, q *Store) { _, _ = q.Publish(ctx, 1, []string{"event", "e"}) },
	func(ctx context.Context, q *Store) { _, _ = q.FindEnd(ctx, "1") },
	func(ctx context.Context, q *Store) { _, _, _ = q.JobEvents(ctx, "1", "0-0", "+") },
	func(ctx context.Context, q *Store) { _, _ = q.Drain(ctx, true, 1) },
	func(ctx context.Context, q *Store) { _, _ = q.Clean(ctx, backend.Waiting, time.UnixMilli(1), 1) },
	func(ctx context.Context, q *Store) { _, _ = q.Obliterate(ctx, 1, true) },
	func(ctx context.Context, q *Store) { _, _, _ = q.RemoveUnused(ctx, 1, true) },
	func(ctx context.Context, q *Store) {
		_, _ = q.MoveJobsToWait(ctx, backend.MoveJobs{From: backend.Failed, Count: 1, ResetAttemptsMade: true})
	},
	func(ctx context.Context, q *Store) { _, _ = q.Remove(ctx, "1", true) },
	func(ctx context.Context, q *Store) { _ = q.RemoveUnprocessedChildren(ctx, "1") },
	func(ctx context.Context, q *Store) { _, _ = q.RemoveChildDependency(ctx, "1") },
	func(ctx context.Context, q *Store) { _, _ = q.RemoveDeduplicationKey(ctx, "d", "1") },
	func(ctx context.Context, q *Store) { _, _ = q.RemoveOrphanedJobs(ctx, []string{"1"}, false) },
	func(ctx context.Context, q *Store) { _, _ = q.StrandedJobs(ctx, []string{"1"}, false) },
	func(ctx context.Context, q *Store) { _ = q.JoinPaused(ctx) },
	func(ctx context.Context, q *Store) { _, _, _ = q.ScanKeys(ctx, 0, 10) },
}

// FuzzAnswers gives every call replies that no server would send. None may
// panic or run forever.
func FuzzAnswers(f *testing.F) {
	hash := []string{"name", "paint", "data", "{}", "opts", `{"attempts":3}`, "timestamp", "1", "delay", "0", "priority", "0"}
	seeds := [][]any{
		{[]any{[]any{"1", hash, "2", []string{"a", "{}", "{}", "1", "0", "0", ""}}, 0, 0, "1"}}, {[]any{[]any{}, 5, 0, 7}}, {[]any{[]any{}, 0, 1.5}},
		{[]any{[]any{1, -2, 2, "ERR no"}, []any{"1", hash}, 0, 0, 1}}, {[]any{[]any{9, -2, -1, "x", 0}}}, {[]any{[]any{}}}, {0}, {-1}, {-3, -6}, {"7"}, {nil},
		{[]any{1}}, {[]any{0, "1", hash}}, {[]any{0}}, {[]string{"1", "2"}}, {[]any{"7", 100}},
		{[]any{[]any{[]any{"1", hash}, []any{"2", hash}}}}, {[]any{[]any{"1", nil, "x"}, []string{"1", "2"}, 2}},
		{fakeredis.Map{"a", "b"}, 1.5}, {[]any{[]any{"a", 1.5}}}, {[]any{"17", []string{"a", "b", "c", "d"}}, []any{"0", []string{}}},
		{[]any{[]any{"1-1", []string{"event", "completed", "jobId", "1"}}}}, {fakeredis.Map{"last-generated-id", "1-1"}},
		{fakeredis.Err("ERR no such key")}, {fakeredis.Err("NOSCRIPT no"), "1"}, {fakeredis.Err("WRONGTYPE no")},
		{"OK", "QUEUED", "QUEUED", "QUEUED", []any{"a", "b", 0}}, {"OK", "QUEUED", "QUEUED", "QUEUED", "QUEUED", []any{fakeredis.Map{"k", "v"}, []string{"p"}, fakeredis.Map{}, []string{}}},
		{1, 2, 3, 4}, {[]any{math.Inf(1), -1 << 62, "nan", true}},
	}
	for i := range readers {
		for _, n := range []int{0, 1, 5} { // the fuzzer combines the others
			f.Add(byte(i), fakeredis.Encode(seeds[(i+n)%len(seeds)]...))
		}
	}
	var server fakeredis.Server
	client, err := server.Client()
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(client.Close)
	f.Fuzz(func(t *testing.T, which byte, answers []byte) {
		if len(answers) > 1<<14 {
			return
		}
		q := NewStore(client, "bull:q:", func(suffix string) string { return "bull:q:" + suffix })
		server.Script(answers)
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		readers[int(which)%len(readers)](ctx, q)
		if ctx.Err() != nil {
			t.Fatal("the call didn't end")
		}
		if asked := server.Calls(); asked > len(answers)+16 {
			t.Fatalf("%d commands were sent for %d bytes of answers", asked, len(answers))
		}
	})
}
