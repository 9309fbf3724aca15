package browsertest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// deed is an action that a user does with the keyboard. It has a queue of its own with the name of
// the action.
type deed struct {
	action string // in the address
	button string
	press  string // the button of the form, if it has another name
	// prepare makes what the action is about, and returns the address of the page with the button.
	prepare func(w *world, queue string) string
	fill    []string // labels and values of the form
	plan    string   // what the page says before
	done    string   // what it says afterwards
	check   func(w *world, queue string)
}

// deeds are all actions. A new action needs an entry here.
var deeds = []deed{
	{action: "add", button: "Add a job", prepare: emptyQueue,
		fill: []string{"Name", "pack", "Data", `{"order": 5, "note": "<b>&</b>"}`, "Priority", "7"}, plan: "Add a job to add", done: "was added to add",
		check: func(w *world, queue string) {
			job, err := w.queue(queue).Job(w.ctx, "1")
			Expect(err).NotTo(HaveOccurred())
			Expect(job.Name).To(Equal("pack"))
			Expect(job.Data).To(MatchJSON(`{"order": 5, "note": "<b>&</b>"}`))
			Expect(job.Priority).To(Equal(7))
		}},
	{action: "pause", button: "Pause", prepare: emptyQueue, plan: "start no more jobs", done: "is paused", check: paused(true)},
	{action: "resume", button: "Resume", prepare: func(w *world, queue string) string {
		Expect(w.queue(queue).Pause(w.ctx)).To(Succeed())
		return w.at("/queues", queue)
	}, plan: "start jobs again", done: "no longer paused", check: paused(false)},
	{action: "concurrency", button: "Concurrency", prepare: emptyQueue, fill: []string{"Jobs at a time", "3"}, plan: "Limit how many jobs", done: "At most 3 jobs",
		check: func(w *world, queue string) { Expect(w.queue(queue).GlobalConcurrency(w.ctx)).To(Equal(3)) }},
	{action: "ratelimit", button: "Rate limit", prepare: emptyQueue, fill: []string{"Jobs", "10", "In a period of", "2s"}, plan: "Limit how many jobs", done: "At most 10 jobs",
		check: func(w *world, queue string) {
			Expect(w.queue(queue).GlobalRateLimit(w.ctx)).To(HaveValue(Equal(bullmq.Limiter{Max: 10, Duration: 2 * time.Second})))
		}},
	{action: "retryall", button: "Retry all", prepare: func(w *world, queue string) string { return failures(w, queue, "") }, plan: "2 failed jobs", done: "2 jobs retried", check: has(bullmq.StateCompleted, 2)},
	{action: "promoteall", button: "Promote all", prepare: withJobs(bullmq.JobOptions{Delay: time.Hour}), plan: "2 delayed jobs", done: "2 jobs promoted", check: has(bullmq.StateWaiting, 2)},
	{action: "drain", button: "Drain", prepare: withJobs(bullmq.JobOptions{}), plan: "Remove the 2 jobs", done: "2 jobs removed", check: has(bullmq.StateWaiting, 0)},
	{action: "clean", button: "Clean", prepare: withJobs(bullmq.JobOptions{Delay: time.Hour}), fill: []string{"State", "delayed"}, plan: "2 delayed", done: "2 delayed jobs removed", check: has(bullmq.StateDelayed, 0)},
	{action: "orphans", button: "Remove orphaned jobs", prepare: orphan, plan: "1 orphaned job", done: "1 job removed", check: gone("lost")},
	{action: "repair", button: "Repair stranded jobs", prepare: orphan, plan: "1 stranded job", done: "1 job repaired", check: has(bullmq.StateWaiting, 1)},
	{action: "obliterate", button: "Obliterate", prepare: withJobs(bullmq.JobOptions{}), fill: []string{"To confirm, type obliterate", "obliterate"}, plan: "with its 2 jobs", done: "is removed",
		check: func(w *world, queue string) { Expect(w.exists("bull:" + queue + ":meta")).To(BeFalse()) }},

	{action: "retry", button: "Retry", prepare: func(w *world, queue string) string { return failures(w, queue, "1") }, plan: "Retry the job 1", done: "1 job retried", check: has(bullmq.StateCompleted, 1)},
	{action: "promote", button: "Promote", prepare: oneJob(bullmq.JobOptions{Delay: time.Hour}), plan: "Promote the job 1", done: "1 job promoted", check: has(bullmq.StateWaiting, 1)},
	{action: "delay", button: "Change delay", prepare: oneJob(bullmq.JobOptions{Delay: time.Hour}), fill: []string{"Run after", "2d"}, plan: "Change the delay", done: "1 job delayed",
		check: func(w *world, queue string) {
			Expect(w.queue(queue).CountDelayedBefore(w.ctx, time.Now().Add(47*time.Hour))).To(BeZero())
		}},
	{action: "priority", button: "Change priority", prepare: oneJob(bullmq.JobOptions{}), fill: []string{"Priority", "5"}, plan: "Change the priority", done: "1 job changed", check: has(bullmq.StatePrioritized, 1)},
	{action: "edit", button: "Edit data", prepare: oneJob(bullmq.JobOptions{}), fill: []string{"Data", `{"color": "blue"}`}, plan: "", done: "data",
		check: func(w *world, queue string) {
			job, err := w.queue(queue).Job(w.ctx, "1")
			Expect(err).NotTo(HaveOccurred())
			Expect(job.Data).To(MatchJSON(`{"color": "blue"}`))
		}},
	{action: "duplicate", button: "Duplicate", prepare: oneJob(bullmq.JobOptions{}), plan: "an id of its own", done: "1 job duplicated", check: has(bullmq.StateWaiting, 2)},
	{action: "move", button: "Move", prepare: func(w *world, queue string) string {
		w.queue("elsewhere")
		return oneJob(bullmq.JobOptions{})(w, queue)
	}, fill: []string{"To the queue", "elsewhere"}, plan: "Move the job 1", done: "1 job moved", check: func(w *world, _ string) {
		Expect(w.queue("elsewhere").Counts(w.ctx, bullmq.StateWaiting)).To(HaveKeyWithValue(bullmq.StateWaiting, 1))
	}},
	{action: "cancel", button: "Cancel", prepare: oneJob(bullmq.JobOptions{}), fill: []string{"Reason", "sold out"}, plan: "Cancel the job 1", done: "1 job cancelled",
		check: func(w *world, queue string) {
			w.work(queue, "canceller", nil)
			w.reaches(queue, "1", bullmq.StateFailed)
		}},
	{action: "remove", button: "Remove", prepare: oneJob(bullmq.JobOptions{}), plan: "Remove the job 1", done: "1 job removed", check: gone("1")},
	{action: "run-scheduler", button: "Run now", prepare: nightly, plan: "nightly", done: "nightly", check: has(bullmq.StateWaiting, 1)},
	{action: "pause-scheduler", button: "Pause", prepare: nightly, plan: "Pause the scheduler nightly", done: "paused", check: has(bullmq.StateDelayed, 0)},
	{action: "resume-scheduler", button: "Resume", prepare: func(w *world, queue string) string {
		address := nightly(w, queue)
		Expect(w.queue(queue).PauseScheduler(w.ctx, "nightly")).To(Succeed())
		return address
	}, plan: "Resume the scheduler nightly", done: "nightly", check: has(bullmq.StateDelayed, 1)},
	{action: "remove-scheduler", button: "Remove", prepare: nightly, plan: "Remove the scheduler nightly", done: "was removed",
		check: func(w *world, queue string) { Expect(w.queue(queue).CountSchedulers(w.ctx)).To(BeZero()) }},
	{action: "replay", button: "Replay all", prepare: func(w *world, queue string) string {
		w.deadLetters("replayed", queue)
		return w.at("/queues", queue, "dead-letters")
	}, press: "Replay", plan: "2 dead letters", done: "2 dead letters replayed",
		check: func(w *world, _ string) { has(bullmq.StateWaiting, 2)(w, "replayed") }},
}

func emptyQueue(w *world, queue string) string {
	w.queue(queue)
	return w.at("/queues", queue)
}

// nightly makes a scheduler and returns its page.
func nightly(w *world, queue string) string {
	_, err := w.queue(queue).UpsertScheduler(w.ctx, "nightly", bullmq.Repeat{Pattern: "0 3 * * *"}, nil)
	Expect(err).NotTo(HaveOccurred())
	return w.at("/queues", queue, "schedulers", "nightly")
}

// withJobs adds two jobs and returns the page of the queue.
func withJobs(options bullmq.JobOptions) func(*world, string) string {
	return func(w *world, queue string) string {
		w.add(queue, "paint", map[string]string{"color": "red"}, &options)
		w.add(queue, "paint", map[string]string{"color": "green"}, &options)
		return w.at("/queues", queue)
	}
}

// oneJob adds a job and returns its page.
func oneJob(options bullmq.JobOptions) func(*world, string) string {
	return func(w *world, queue string) string {
		return w.at("/queues", queue, "jobs", w.add(queue, "paint", map[string]string{"color": "red"}, &options))
	}
}

// orphan makes a job that is in no state.
func orphan(w *world, queue string) string {
	w.queue(queue)
	w.command("HSET", "bull:"+queue+":lost", "name", "paint", "data", "{}", "opts", "{}", "timestamp", "1700000000000", "delay", "0", "priority", "0")
	return w.at("/queues", queue)
}

// failures makes two jobs of which each first attempt by a Node worker fails, and returns the page
// of the queue or of a job.
func failures(w *world, queue, job string) string {
	w.node("worker.mjs", "-queue", queue, "-name", "painter")
	for range 2 {
		w.reaches(queue, w.add(queue, "paint", map[string]int{"failUntilAttempt": 2}, nil), bullmq.StateFailed)
	}
	if job != "" {
		return w.at("/queues", queue, "jobs", job)
	}
	return w.at("/queues", queue)
}

func paused(want bool) func(*world, string) {
	return func(w *world, queue string) { Expect(w.queue(queue).IsPaused(w.ctx)).To(Equal(want)) }
}

func has(state bullmq.State, n int) func(*world, string) {
	return func(w *world, queue string) {
		Eventually(func() (map[bullmq.State]int, error) { return w.queue(queue).Counts(w.ctx, state) }).Should(HaveKeyWithValue(state, n))
	}
}

func gone(id string) func(*world, string) {
	return func(w *world, queue string) { Expect(w.exists("bull:" + queue + ":" + id)).To(BeFalse()) }
}

var _ = Describe("With the keyboard alone", Ordered, ContinueOnFailure, func() {
	var (
		w *world
		t *tab
	)
	BeforeAll(func() {
		w = openWorld(nil)
		t = browser.open(views[0])
	})

	for _, d := range deeds {
		It(fmt.Sprintf("a user does %q, and reads before and afterwards what it does", d.action), func() {
			address := d.prepare(w, d.action)
			t.load(address)
			t.tabTo(d.button)
			t.enter()
			Expect(t.text()).To(ContainSubstring(d.plan))
			Expect(findings(t, axeRules[0])).To(BeEmpty(), "the confirmation")
			for pair := range slices.Chunk(d.fill, 2) {
				t.fill(pair[0], pair[1])
			}
			t.tabTo(cmp.Or(d.press, d.button))
			t.enter()
			Expect(t.text()).To(ContainSubstring(d.done))
			Expect(eval[string](t, "document.querySelector('[role=status]').innerText")).To(ContainSubstring(d.done), "a screen reader reads it")
			Expect(eval[[]string](t, "("+layoutScript+")()")).To(BeEmpty())
			Expect(findings(t, axeRules[0])).To(BeEmpty(), "what was done")
			Expect(t.found()).To(BeEmpty())
			d.check(w, d.action)
		})
	}

	It("a user selects jobs in the table, and acts on them or on all", func() {
		queue := "selected"
		for range 4 {
			w.add(queue, "paint", nil, nil)
		}
		t.load(w.at("/queues", queue) + "?state=waiting")
		t.fill("select job 2", "")
		t.fill("select job 1", "")
		t.tabTo("Remove")
		t.enter()
		Expect(t.text()).To(ContainSubstring("2 jobs"))
		t.tabTo("Remove")
		t.enter()
		Expect(t.text()).To(ContainSubstring("2 jobs removed"))
		Expect(w.queue(queue).JobIDs(w.ctx, bullmq.Page{}, bullmq.StateWaiting)).To(ConsistOf("3", "4"))
		t.tabTo("Back")
		t.enter()
		t.fill("select all jobs of this page", "")
		Expect(eval[int](t, "document.querySelectorAll('tbody input:checked').length")).To(Equal(2))
		t.tabTo("Remove all")
		t.enter()
		t.tabTo("Remove")
		t.enter()
		Expect(t.text()).To(ContainSubstring("2 jobs removed"))
		Expect(t.found()).To(BeEmpty())
	})

	It("a user is refused with the reason, and keeps what was typed", func() {
		t.load(w.at("/queues/add/actions/add"))
		t.expected[400] = true
		t.fill("Name", "broken")
		t.fill("Data", `{"order": `)
		t.tabTo("Add a job")
		t.enter()
		Expect(eval[string](t, "document.querySelector('[role=alert]').innerText")).To(ContainSubstring("data"))
		Expect(eval[string](t, "document.querySelector('[name=name]').value + document.querySelector('[name=data]').value")).To(Equal(`broken{"order": `))
		Expect(findings(t, axeRules[0])).To(BeEmpty())
		Expect(t.found()).To(BeEmpty())
	})

	It("a user confirms the removal of a queue by typing its name", func() {
		w.queue("kept")
		t.load(w.at("/queues/kept/actions/obliterate"))
		t.expected[400] = true
		t.fill("To confirm, type kept", "keep")
		t.tabTo("Obliterate")
		t.enter()
		Expect(eval[string](t, "document.querySelector('[role=alert]').innerText")).To(ContainSubstring("nothing was done"))
		Expect(w.exists("bull:kept:meta")).To(BeTrue())
	})

	It("a user does no action that has no spec here", func() {
		var tested, offered []string
		for _, d := range deeds {
			tested = append(tested, d.action)
		}
		for _, p := range pages {
			if p.status != 0 {
				continue
			}
			t.load(p.path(shop))
			offered = append(offered, eval[[]string](t, `[...document.querySelectorAll('[href*="/actions/"], [formaction*="/actions/"], form[action*="/actions/"]')]
				.map(e => (e.getAttribute('href') || e.getAttribute('formaction') || e.getAttribute('action')).match(/\/actions\/([^?#/]*)/)[1]).filter(Boolean)`)...)
		}
		Expect(offered).NotTo(BeEmpty())
		for _, action := range offered {
			Expect(tested).To(ContainElement(action), "add it to deeds; tested are %s", strings.Join(tested, ", "))
		}
	})
})
