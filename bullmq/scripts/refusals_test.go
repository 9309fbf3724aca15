package scripts

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

// A refusal is a case in which a command returns an error code.
type refusal struct {
	command string // with "for" and the case after it where a command has several
	code    backend.Code
	when    string // a clause that follows if
	arrange func(f *fixture)
	call    func(f *fixture) error
	// changes holds the keys that change nevertheless, as BullMQ does, with their
	// values afterwards, or "" if they are removed.
	changes map[string]string
}

// unlocked holds the changes of a command that releases a job's lock and then
// finds that the job is not active.
var unlocked = map[string]string{"1:lock": "", "stalled": ""}

var refusals = slices.Concat(
	adds(), holds(),
	[]refusal{
		{"addLog", backend.JobNotFound, "the job does not exist", nil, func(f *fixture) error { _, err := f.AddLog(f.ctx, "1", "row", 0); return err }, nil},
		{"cancelJob", backend.JobNotFound, "the job does not exist", nil, func(f *fixture) error { _, err := f.Cancel(f.ctx, "1", "cancelled", "", ""); return err }, nil},
		{"cancelJob", backend.JobNotFound, "the job is in no state", func(f *fixture) { f.set("HSET", "1", "name", "paint") }, func(f *fixture) error { _, err := f.Cancel(f.ctx, "1", "cancelled", "", ""); return err }, nil},
		{"updateData", backend.JobNotFound, "the job does not exist", nil, func(f *fixture) error { return f.UpdateData(f.ctx, "1", "{}") }, nil},
		{"updateProgress", backend.JobNotFound, "the job does not exist", nil, func(f *fixture) error { return f.UpdateProgress(f.ctx, "1", "50") }, nil},
		{"changePriority", backend.JobNotFound, "the job does not exist", nil, func(f *fixture) error { return f.ChangePriority(f.ctx, "1", 5, false) }, nil},
		{"changeDelay", backend.JobNotFound, "the job does not exist", nil, func(f *fixture) error { return f.ChangeDelay(f.ctx, "1", time.UnixMilli(nowMs), 5*time.Millisecond) }, nil},
		{"changeDelay", backend.NotInState, "the job is not delayed", waiting, func(f *fixture) error { return f.ChangeDelay(f.ctx, "1", time.UnixMilli(nowMs), 5*time.Millisecond) }, nil},
		{"promote", backend.NotInState, "the job is not delayed", waiting, func(f *fixture) error { return f.Promote(f.ctx, "1") }, nil},
		{"reprocessJob", backend.JobNotFound, "the job does not exist", nil, func(f *fixture) error { return f.Reprocess(f.ctx, "1", retry(backend.Failed)) }, nil},
		{"reprocessJob", backend.NotInState, "the job has not failed", waiting, func(f *fixture) error { return f.Reprocess(f.ctx, "1", retry(backend.Failed)) }, nil},
		{"reprocessJob", backend.NotInState, "the job has not completed", waiting, func(f *fixture) error { return f.Reprocess(f.ctx, "1", retry(backend.Completed)) }, nil},
		{"removeJob", backend.SchedulerJob, "the job is the next one of a scheduler", func(f *fixture) {
			f.set("HSET", "repeat:daily:500", "name", "paint", "rjk", "daily")
			f.set("ZADD", "repeat", "500", "daily")
			f.set("ZADD", "delayed", "2048000", "repeat:daily:500")
		}, func(f *fixture) error { _, err := f.Remove(f.ctx, "repeat:daily:500", true); return err }, nil},
		{"removeChildDependency", backend.JobNotFound, "the job does not exist", nil,
			func(f *fixture) error { _, err := f.RemoveChildDependency(f.ctx, "1"); return err }, nil},
		{"removeChildDependency", backend.ParentNotFound, "the parent does not exist",
			func(f *fixture) { waiting(f); f.set("HSET", "1", "parentKey", f.base+"wall") },
			func(f *fixture) error { _, err := f.RemoveChildDependency(f.ctx, "1"); return err }, nil},
		{"addJobScheduler", backend.SchedulerIDTaken, "the next job of the pattern is already running", func(f *fixture) {
			f.set("HSET", "meta", "opts.maxLenEvents", "10000")
			f.running(fmt.Sprint("repeat:daily:", nowMs), "t")
		}, func(f *fixture) error {
			_, _, err := f.AddJobScheduler(f.ctx, backend.SchedulerAdd{
				ID: "daily", Now: now, Name: "paint", Data: "{}", Template: "{}", Opts: "{}", Due: now,
				Repeat: backend.SchedulerRepeat{Pattern: "* * * * *"},
			})
			return err
		}, nil},
		{"addJobScheduler", backend.SchedulerTimesTaken, "the times of the next jobs are all taken", func(f *fixture) {
			f.set("HSET", "meta", "opts.maxLenEvents", "10000")
			for n := -2; n < 40; n++ {
				f.set("HSET", fmt.Sprint("repeat:often:", nowMs+n*1000), "name", "paint")
			}
		}, func(f *fixture) error {
			_, _, err := f.AddJobScheduler(f.ctx, backend.SchedulerAdd{
				ID: "often", Now: now, Name: "paint", Data: "{}", Template: "{}", Opts: "{}",
				Repeat: backend.SchedulerRepeat{Every: time.Second},
			})
			return err
		}, nil},
		{"obliterate", -1, "the queue is not paused", waiting, func(f *fixture) error { return numbered(f, backend.ErrNotPaused, -1) }, nil},
		{"obliterate", -2, "jobs are running", func(f *fixture) { f.running("1", "t"); f.set("HSET", "meta", "paused", "1") },
			func(f *fixture) error { return numbered(f, backend.ErrActiveJobs, -2) }, nil},
	},
)

// retry moves a job back from a state.
func retry(from backend.State) backend.Reprocess {
	return backend.Reprocess{From: from, ResetAttemptsMade: true, ResetAttemptsStarted: true}
}

// waiting leaves a job in wait.
func waiting(f *fixture) {
	f.set("HSET", "1", "name", "paint", "data", "{}", "opts", "{}")
	f.set("LPUSH", "wait", "1")
}

// numbered returns the backend error with the code instead of an error value of its own.
func numbered(f *fixture, want error, code backend.Code) error {
	_, err := f.Obliterate(f.ctx, 100, false)
	if errors.Is(err, want) {
		return &backend.Error{Code: code, Command: "obliterate"}
	}
	return err
}

// adds returns the refusals that all adds share.
func adds() (all []refusal) {
	for name, state := range map[string]backend.State{"addStandardJob": backend.Waiting, "addDelayedJob": backend.Delayed, "addPrioritizedJob": backend.Prioritized, "addParentJob": backend.WaitingChildren} {
		add := func(f *fixture, id string, deferred bool) error {
			a := &backend.Add{
				State: state, ID: id, Name: "brick", Data: "{}", Opts: "{}", Timestamp: time.UnixMilli(1), Delay: time.Millisecond, Priority: 1,
				Parent: f.ref("wall"), ParentPolicy: `{"id":"wall","queueKey":"` + shown(f.base) + `"}`,
			}
			message, err := f.run(f.ctx, addCommand(a), encodeAdd(f.base, a, deferred)...)
			if err != nil {
				return err
			}
			return f.added(a, message).Err
		}
		taken := func(f *fixture) {
			f.set("HSET", "meta", "opts.maxLenEvents", "77")
			f.set("SET", "id", "6")
			for _, parent := range []string{"wall", "other-wall"} {
				f.set("HSET", parent, "name", "wall")
			}
			f.set("HSET", "brick", "name", "brick", "parentKey", f.base+"other-wall", "parent", "{}")
			f.set("SADD", "other-wall:dependencies", f.base+"brick")
		}
		all = append(all,
			refusal{name, backend.ParentNotFound, "the parent does not exist", nil, func(f *fixture) error { return add(f, "", false) }, nil},
			refusal{name, backend.ParentNotFound, "the parent of a job with a custom id does not exist", nil, func(f *fixture) error { return add(f, "brick", false) }, nil},
			refusal{name, backend.ParentNotReplaceable, "the job already has another parent", taken,
				func(f *fixture) error { return add(f, "brick", false) }, map[string]string{"id": "7"}},
			refusal{name, backend.ParentNotReplaceable, "the job of a flow already has another parent", taken,
				func(f *fixture) error { return add(f, "brick", true) },
				map[string]string{"id": "7", "wall": "map[flowAttachmentFailed:1 name:wall]"}},
		)
	}
	return all
}

// holds returns the refusals of commands that release a worker's lock on a job.
func holds() (all []refusal) {
	worker := backend.Worker{LockDuration: time.Second}
	failure := &backend.FailedAttempt{Reason: "boom", StackTrace: "[]"}
	calls := map[string]func(f *fixture) error{
		"moveToFinished": func(f *fixture) error {
			_, err := f.finish(backend.End{JobID: "1", Token: "t", ReturnValue: "1", Fetch: true}, worker)
			return err
		},
		"moveToFinished for a failed job": func(f *fixture) error {
			_, err := f.finish(backend.End{JobID: "1", Token: "t", Failure: failure, Attempts: 1, Fetch: true}, worker)
			return err
		},
		"retryJob": func(f *fixture) error {
			return f.RetryJob(f.ctx, backend.Retry{JobID: "1", Token: "t", Now: now, Failure: backend.FailedAttempt{Reason: "boom", StackTrace: "[]"}})
		},
		"moveToDelayed": func(f *fixture) error {
			_, err := f.MoveToDelayed(f.ctx, backend.Delay{JobID: "1", Token: "t", Now: now, Delay: time.Second, Failure: failure, Fetch: true, Worker: worker})
			return err
		},
		"forwardJob": func(f *fixture) error {
			_, err := f.ForwardJob(f.ctx, backend.Forward{JobID: "1", Token: "t", Now: now, To: backend.QueueRef{Prefix: "bull", Name: "another-queue"}})
			return err
		},
		"moveToWait": func(f *fixture) error { _, err := f.MoveToWait(f.ctx, "1", "t"); return err },
		"moveToWaitingChildren": func(f *fixture) error {
			_, err := f.MoveToWaitingChildren(f.ctx, "1", "t", now, backend.JobRef{})
			return err
		},
	}
	// Add a job that could be fetched next and one that waits for a child, so that
	// every command would have something to write.
	held := func(f *fixture) {
		f.running("1", "t")
		waitingNext := "2"
		f.set("HSET", waitingNext, "name", "paint")
		f.set("LPUSH", "wait", waitingNext)
	}
	for _, variant := range []string{"moveToFinished", "moveToFinished for a failed job"} {
		calls[strings.Replace(variant, "moveToFinished", "serveQueues", 1)] = func(f *fixture) error {
			end := backend.End{JobID: "1", Token: "t", ReturnValue: "1"}
			if variant != "moveToFinished" {
				end = backend.End{JobID: "1", Token: "t", Failure: failure, Attempts: 1}
			}
			served, err := f.serve(backend.Serve{Now: now, Worker: worker, Ends: []backend.QueueEnds{{Queue: f.base, Ends: []*backend.End{&end}}}})
			if err != nil {
				return err
			}
			return served.Ends[0].Errs[0]
		}
	}
	for variant, call := range calls {
		name := commandOf(variant)
		ends := name == "moveToFinished" || name == "serveQueues"
		failed := strings.HasSuffix(variant, "for a failed job")
		parks := name == "moveToWaitingChildren"
		arranged := func(also func(f *fixture)) func(f *fixture) {
			return func(f *fixture) {
				held(f)
				if parks {
					f.set("SADD", "1:dependencies", f.base+"child")
				}
				also(f)
			}
		}
		all = append(all,
			refusal{variant, backend.JobNotFound, "the job does not exist", arranged(func(f *fixture) { f.set("DEL", "1") }), call, nil},
			refusal{variant, backend.LockNotFound, "the lock does not exist", arranged(func(f *fixture) { f.set("DEL", "1:lock") }), call, nil},
			refusal{variant, backend.LockMismatch, "another worker holds the lock", arranged(func(f *fixture) { f.set("SET", "1:lock", "other") }), call, nil},
		)
		if name != "moveToWait" { // which does not move a job that is not active
			changes := maps.Clone(unlocked)
			if failed || name == "moveToDelayed" || name == "retryJob" {
				changes["1"] = "map[data:{} delay:0 failedReason:boom name:paint opts:{} priority:0 stacktrace:[] timestamp:1]"
			}
			all = append(all, refusal{variant, backend.NotInState, "the job is not active", arranged(func(f *fixture) { f.set("LREM", "active", "1", "1") }), call, changes})
		}
		if ends && !failed {
			all = append(all, refusal{variant, backend.PendingChildren, "children of the job are pending",
				arranged(func(f *fixture) { f.set("SADD", "1:dependencies", f.base+"child") }), call, nil})
		}
		if ends && !failed || parks {
			all = append(all, refusal{variant, backend.FailedChildren, "a child of the job has failed",
				arranged(func(f *fixture) { f.set("ZADD", "1:unsuccessful", "1", f.base+"child") }), call, nil})
		}
	}
	return all
}

var (
	toldNumber     = regexp.MustCompile(`-\d+ `)
	returnedNumber = regexp.MustCompile(`return (?:nil, )?(-\d+)\b`)
)

// headOf returns the comment at the beginning of a command's file.
func headOf(command string) string {
	text, err := fs.ReadFile(sources, command+".lua")
	Expect(err).NotTo(HaveOccurred())
	head, _, _ := strings.Cut(string(text), "]]")
	return head
}

// toldNumbers returns the error codes of a command that its head lists.
func toldNumbers(command string) (numbers []string) {
	head := headOf(command)
	_, listed, _ := strings.Cut(head, "Errors: ")
	listed, _, _ = strings.Cut(listed, "Events: ")
	for _, number := range toldNumber.FindAllString(listed, -1) {
		numbers = append(numbers, strings.TrimSpace(number))
	}
	return numbers
}

// commandOf returns the name of a refusal's command without the case.
func commandOf(command string) string {
	name, _, _ := strings.Cut(command, " ")
	return name
}

var _ = ginkgo.Describe("The command", func() {
	for _, r := range refusals {
		changes := "nothing"
		if len(r.changes) > 0 {
			changes = "only the keys " + strings.Join(slices.Sorted(maps.Keys(r.changes)), ", ")
		}
		ginkgo.It(fmt.Sprintf("%s returns the error %d and changes %s if %s", r.command, r.code, changes, r.when), func() {
			f := newFixture(client)
			if r.arrange != nil {
				r.arrange(f)
			}
			want := f.state()
			for suffix, value := range r.changes {
				want[suffix] = value
				if value == "" {
					delete(want, suffix)
				}
			}
			err := r.call(f)
			var refused *backend.Error
			Expect(errors.As(err, &refused)).To(BeTrue(), fmt.Sprint(err))
			Expect(refused.Code).To(Equal(r.code))
			Expect(refused.Command).To(Equal(strings.Replace(commandOf(r.command), "serveQueues", "moveToFinished", 1)), "BullMQ's name")
			Expect(f.state()).To(Equal(want))
		})
	}

})

var _ = ginkgo.Describe("An error code", func() {
	ginkgo.It("that the head of a script lists is tested above", func() {
		tried := map[string]bool{}
		for _, r := range refusals {
			tried[fmt.Sprint(commandOf(r.command), " ", int(r.code))] = true
		}
		told := map[string]bool{}
		for name := range commands {
			for _, code := range toldNumbers(name) {
				told[name+" "+code] = true
			}
		}
		Expect(slices.Sorted(maps.Keys(tried))).To(Equal(slices.Sorted(maps.Keys(told))))
	})

	ginkgo.It("that a script returns is listed in its head", func() {
		for name, c := range commands {
			for dialect, form := range c.forms {
				var returned []string
				for _, match := range returnedNumber.FindAllStringSubmatch(form.text, -1) {
					returned = append(returned, match[1])
				}
				told := toldNumbers(name)
				for _, code := range returned {
					Expect(told).To(ContainElement(code), fmt.Sprintf("%s in dialect %d", name, dialect))
				}
				for _, code := range told {
					Expect(returned).To(ContainElement(code), fmt.Sprintf("%s tells of it in dialect %d", name, dialect))
				}
			}
		}
	})

	ginkgo.It("makes an error that names the call, the job, the queue, the reason and the code, and matches errors.Is", func() {
		err := error(&backend.Error{Code: backend.LockMismatch, Command: "moveToFinished", QueueName: "orders", JobID: "7"})
		Expect(err).To(MatchError("bullmq: finish job 7 of orders: its lock belongs to another token: another worker runs it now (code -6)"))
		Expect(errors.Is(err, backend.LockMismatch)).To(BeTrue())
		Expect(errors.Is(err, backend.LockNotFound)).To(BeFalse())
		Expect(backend.Code(-99).Error()).To(ContainSubstring("-99"))
		for code := backend.JobNotFound; code >= backend.SchedulerTimesTaken; code-- {
			Expect(code.Error()).NotTo(ContainSubstring("unknown"))
		}
	})
})
