package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// jobPage is what the page of a job shows.
type jobPage struct {
	*bullmq.Job
	Queue    string
	State    bullmq.State
	Timeline []moment
	Traces   []trace
	Percent  float64 // of the progress
	HasBar   bool    // Percent is known
	Parts    []part
	Logs     []string
	NumLogs  int
	Children bullmq.DependencyCounts
	Parent   string
	Letter   *bullmq.DeadLetter // nil if the job is none
	Cancel   *string            // reason of a cancellation that was requested, which may be ""; nil if there is none
}

// live updates the page of a running job each second, because a line of its log is no event.
func (p *jobPage) live() livePage {
	page := livePage{Topics: []string{p.Queue}}
	if p.State == bullmq.StateActive {
		page.Every = readEvery
	}
	return page
}

// moment is a time in the life of a job.
type moment struct {
	What   string
	At     time.Time // zero if Redis does not store it
	Tone   string    // good, bad or future; "" for others
	Passed string    // what was between the moment before and this one; "" if that is unknown
}

// trace is the stack trace of a failed attempt.
type trace struct {
	Number  int // from 1, of the traces that are stored
	Attempt int // 0 if it is unknown, because not all traces are stored
	Text    string
	Open    bool
}

// part is a value of a job.
type part struct {
	Name, Title, Text string
	Whole             bool // the text is the whole value
}

const (
	logsPerPage = 200
	mostLogs    = 100_000 // lines of the whole log
	longestPart = 20_000  // bytes that a page shows of a value
)

// jobModel is what is read for the page of a job.
type jobModel struct {
	job      *bullmq.Job
	queue    string
	state    bullmq.State
	logs     []string
	numLogs  int
	children bullmq.DependencyCounts
}

func (d *Dashboard) job(r *http.Request) (any, error) {
	m, err := sharedRead(d, r, r.PathValue("queue"), r.URL.EscapedPath(), func(ctx context.Context) (*jobModel, error) { return d.readJob(r.WithContext(ctx)) })
	if err != nil {
		return nil, err
	}
	job := d.shownJob(m.queue, m.job)
	page := &jobPage{Job: job, Queue: m.queue, State: m.state, Logs: d.shownLines(m.queue, m.job, m.logs), NumLogs: m.numLogs, Children: m.children, Parent: d.parent(r, job)}
	page.Timeline, page.Traces = timeline(job, m.state), traces(job)
	if d.o.Redact == nil {
		page.Percent, page.HasBar = percent(job.Progress)
	}
	page.Cancel = d.cancellation(m.queue, m.job)
	if letter, isLetter := job.DeadLetter(); isLetter {
		page.Letter = &letter
	}
	for _, p := range []struct{ name, title string }{{"data", "Data"}, {"result", "Result"}, {"progress", "Progress"}, {"options", "Options"}} {
		if value := d.value(r, job, p.name); len(value) > 0 {
			page.Parts = append(page.Parts, partOf(p.name, p.title, value))
		}
	}
	return page, nil
}

// readJob reads a job. What it returns does not depend on who asks.
func (d *Dashboard) readJob(r *http.Request) (*jobModel, error) {
	queue, err := d.open(r)
	if err != nil {
		return nil, err
	}
	defer queue.Close()
	ctx := r.Context()
	m := &jobModel{queue: queue.Name()}
	if m.job, m.state, err = queue.JobAndState(ctx, r.PathValue("job")); err != nil {
		return nil, err
	}
	if m.logs, m.numLogs, err = queue.JobLogs(ctx, m.job.ID, bullmq.Page{Limit: logsPerPage}); err != nil {
		return nil, err
	}
	slices.Reverse(m.logs) // the newest ones, in the order in which they were written
	if m.children, err = m.job.DependencyCounts(ctx); err != nil {
		return nil, err
	}
	return m, nil
}

// cancellation returns the reason of the cancellation of a job that has not ended, as it may be
// shown; nil if it is not cancelled. The reason may be "".
func (d *Dashboard) cancellation(queue string, job *bullmq.Job) *string {
	reason, isCancel := strings.CutPrefix(job.DeferredFailure, "cancelled")
	if !isCancel || !job.FinishedOn.IsZero() || reason != "" && !strings.HasPrefix(reason, ": ") {
		return nil
	}
	reason = d.redactedText(queue, job, strings.TrimPrefix(reason, ": "))
	return &reason
}

// value returns a value of a job that shownJob has returned.
func (d *Dashboard) value(r *http.Request, job *bullmq.Job, name string) []byte {
	switch name {
	case "data":
		return job.Data
	case "result":
		return job.ReturnValue
	case "progress":
		return job.Progress
	case "options":
		return d.shownOptions(r, job)
	}
	return nil
}

// raw serves a value of a job whole, as text.
func (d *Dashboard) raw(w http.ResponseWriter, r *http.Request) error {
	if err := d.mayRead(r); err != nil {
		return err
	}
	queue, err := d.open(r)
	if err != nil {
		return err
	}
	defer queue.Close()
	job, err := queue.Job(r.Context(), r.PathValue("job"))
	if err != nil {
		return err
	}
	if r.PathValue("part") == "logs" {
		lines, _, err := queue.JobLogs(r.Context(), job.ID, bullmq.Page{Limit: mostLogs, Ascending: true})
		if err != nil {
			return err
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, strings.Join(d.shownLines(queue.Name(), job, lines), "\n"))
		return nil
	}
	value := d.value(r, d.shownJob(queue.Name(), job), r.PathValue("part"))
	if value == nil {
		return notFound{"the job has no such value"}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write(value)
	return nil
}

// partOf returns a value as a page shows it.
func partOf(name, title string, value []byte) part {
	text := indented(value)
	return part{name, title, cut(text, longestPart), len(text) <= longestPart}
}

// timeline returns the times of a job in order.
func timeline(job *bullmq.Job, state bullmq.State) []moment {
	moments := []moment{{What: "added", At: job.Timestamp}}
	ready := job.Timestamp
	if job.Delay > 0 && job.AttemptsMade == 0 { // of a retry, Redis stores only the delay
		ready = job.Timestamp.Add(job.Delay)
		due := moment{What: "due", At: ready, Passed: "delay of " + formatAge(job.Delay)}
		if state == bullmq.StateDelayed {
			due.Tone = "future"
		}
		moments = append(moments, due)
	}
	if earlier := job.AttemptsMade - 1; earlier > 0 && !job.ProcessedOn.IsZero() {
		moments = append(moments, moment{What: number(earlier, "earlier attempt"), Tone: "bad"})
	}
	if !job.ProcessedOn.IsZero() && state != bullmq.StateWaiting && state != bullmq.StatePrioritized {
		start := moment{What: "started", At: job.ProcessedOn}
		if job.AttemptsMade > 1 {
			start.What = "last started"
		} else if waited := job.ProcessedOn.Sub(ready); waited >= 0 {
			start.Passed = "waited " + formatAge(waited)
		}
		moments = append(moments, start)
	}
	if !job.FinishedOn.IsZero() {
		end := moment{What: string(state), At: job.FinishedOn, Tone: tone(state)}
		if ran := job.FinishedOn.Sub(job.ProcessedOn); !job.ProcessedOn.IsZero() && ran >= 0 {
			end.Passed = "ran " + formatAge(ran)
		}
		moments = append(moments, end)
	} else if state == bullmq.StateActive {
		moments = append(moments, moment{What: "running", Tone: "future"})
	}
	return moments
}

// traces returns the stack traces of a job, the last one first.
func traces(job *bullmq.Job) []trace {
	var all []trace
	n := len(job.StackTrace)
	for i := n - 1; i >= 0; i-- {
		t := trace{Number: i + 1, Text: job.StackTrace[i], Open: i == n-1}
		if n == job.AttemptsMade {
			t.Attempt = i + 1
		}
		all = append(all, t)
	}
	return all
}

// percent returns the progress of a job in percent, if it is a number from 0 to 100.
func percent(progress []byte) (n float64, is bool) {
	if err := json.Unmarshal(progress, &n); err != nil || n < 0 || n > 100 {
		return 0, false
	}
	return n, len(progress) > 0
}

// indented returns JSON in lines, and other text as it is.
func indented(value []byte) string {
	var text bytes.Buffer
	if len(value) > 1_000_000 || json.Indent(&text, value, "", "  ") != nil || text.Len() > 10*len(value)+1000 {
		return string(value) // deeply nested values would become many times as long
	}
	return text.String()
}
