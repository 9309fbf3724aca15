package dashboard

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// schedulersPage is what the pages of schedulers show.
type schedulersPage struct {
	Queue  string // "" for all queues
	Rows   []schedulerRow
	Total  int // with the paused ones
	Paused int
	Queues int // that have schedulers
	// Next is the address of the next page.
	Next string
	Now  time.Time
}

// live updates the page when a queue has changed: an upsert adds a job, and each run does.
func (p *schedulersPage) live() livePage { return livePage{Topics: []string{p.Queue}} }

// schedulerRow is a scheduler in a list.
type schedulerRow struct {
	*bullmq.Scheduler
	Queue string
	Words string
	Last  *schedulerRun // nil if none is known
}

// schedulerRun is a run of a scheduler.
type schedulerRun struct {
	Due   time.Time
	Job   *bullmq.Job
	State bullmq.State
}

// Took returns how long the run has taken; 0 if it has not ended.
func (r *schedulerRun) Took() time.Duration {
	if r.Job.FinishedOn.IsZero() || r.Job.ProcessedOn.IsZero() {
		return 0
	}
	return r.Job.FinishedOn.Sub(r.Job.ProcessedOn)
}

const (
	schedulersPerPage = 50
	nextRuns          = 10 // times that the page of a scheduler shows
	lastRuns          = 5  // runs that the page of a scheduler looks for
)

// Overdue returns for how long the next run is overdue; 0 if it is not.
func (s schedulerRow) Overdue(now time.Time) time.Duration {
	if late := now.Sub(s.Next); late > time.Second && !s.Next.IsZero() && s.PausedAt.IsZero() {
		return late
	}
	return 0
}

// allSchedulers lists the schedulers of all queues, the next one first. It reads the queues
// that have schedulers, up to a page.
func (d *Dashboard) allSchedulers(r *http.Request) (any, error) {
	summaries, err := d.summaries(r)
	if err != nil {
		return nil, err
	}
	page := &schedulersPage{Now: d.o.Now()}
	summaries = slices.DeleteFunc(summaries, func(s bullmq.QueueSummary) bool { return schedulersOf(s) == 0 })
	slices.SortFunc(summaries, func(a, b bullmq.QueueSummary) int { return strings.Compare(a.Name, b.Name) })
	after, shown := r.FormValue("after"), 0
	var read []string
	var counts []int // schedulers of read that are not paused
	for _, summary := range summaries {
		page.Queues++
		page.Total += schedulersOf(summary)
		page.Paused += summary.PausedSchedulers
		switch {
		case strings.Compare(summary.Name, after) <= 0 && after != "":
		case shown > 0 && shown+schedulersOf(summary) > schedulersPerPage:
			if page.Next == "" {
				page.Next = d.link("schedulers") + "?after=" + url.QueryEscape(read[len(read)-1])
			}
		default:
			if page.Next == "" {
				read, counts = append(read, summary.Name), append(counts, summary.Schedulers)
				shown += schedulersOf(summary)
			}
		}
	}
	rows := make([][]schedulerRow, len(read))
	err = each(r.Context(), len(read), func(ctx context.Context, i int) error {
		key := fmt.Sprintf("schedulers of %s: %d", read[i], counts[i])
		found, err := sharedRead(d, r.WithContext(ctx), read[i], key, func(ctx context.Context) ([]schedulerRow, error) { return d.readSchedulers(ctx, read[i], counts[i]) })
		rows[i] = found
		return err
	})
	page.Rows = slices.Concat(rows...)
	slices.SortStableFunc(page.Rows, func(a, b schedulerRow) int { return a.Next.Compare(b.Next) })
	return page, err
}

// readSchedulers reads the first schedulers of a queue, of which count are not paused.
func (d *Dashboard) readSchedulers(ctx context.Context, name string, count int) ([]schedulerRow, error) {
	queue, err := d.schedulerQueue(ctx, name)
	if err != nil {
		return nil, err
	}
	defer queue.Close()
	return d.schedulerRows(ctx, queue, 0, count)
}

// queueSchedulers lists the schedulers of a queue, the next one first.
func (d *Dashboard) queueSchedulers(r *http.Request) (any, error) {
	queue, err := d.openToRead(r)
	if err != nil {
		return nil, err
	}
	defer queue.Close()
	ctx := r.Context()
	from, err := strconv.Atoi(cmp.Or(r.FormValue("from"), "0"))
	if err != nil || from < 0 {
		return nil, badRequest{errors.New("there is no such page")}
	}
	page := &schedulersPage{Queue: queue.Name(), Now: d.o.Now(), Queues: 1}
	summaries, err := bullmq.SummarizeQueues(ctx, d.connection, d.o.Prefix, queue.Name())
	if err == nil {
		err = summaries[0].Err
	}
	if err != nil {
		return nil, err
	}
	page.Total, page.Paused = schedulersOf(summaries[0]), summaries[0].PausedSchedulers
	if page.Rows, err = d.schedulerRows(ctx, queue, from, summaries[0].Schedulers); err != nil {
		return nil, err
	}
	if from+schedulersPerPage < page.Total {
		page.Next = d.link("queues", queue.Name(), "schedulers") + "?from=" + strconv.Itoa(from+schedulersPerPage)
	}
	return page, nil
}

// schedulerQueue opens a queue to read its schedulers. In the dialect V5 a list of schedulers
// changes nothing, while that of V6 removes entries without a record.
func (d *Dashboard) schedulerQueue(ctx context.Context, name string) (*bullmq.Queue, error) {
	return bullmq.NewQueue(ctx, name, &bullmq.QueueOptions{Connection: d.connection, Prefix: d.o.Prefix, SkipMetaUpdate: true, Dialect: bullmq.V5})
}

// openToRead opens the queue of a request to read its schedulers.
func (d *Dashboard) openToRead(r *http.Request) (*bullmq.Queue, error) {
	queue, err := d.open(r)
	if err != nil {
		return nil, err
	}
	defer queue.Close()
	return d.schedulerQueue(r.Context(), queue.Name())
}

// schedulersOf returns the number of the schedulers of a queue, with the paused ones.
func schedulersOf(s bullmq.QueueSummary) int { return s.Schedulers + s.PausedSchedulers }

// schedulerRows reads a page of the schedulers of a queue, with the last run of each. The paused
// ones follow the others, of which there are count.
func (d *Dashboard) schedulerRows(ctx context.Context, queue *bullmq.Queue, from, count int) ([]schedulerRow, error) {
	schedulers, err := queue.Schedulers(ctx, bullmq.Page{Offset: from, Limit: schedulersPerPage, Ascending: true})
	if err != nil {
		return nil, err
	}
	if left := schedulersPerPage - len(schedulers); left > 0 {
		paused, err := queue.PausedSchedulers(ctx)
		if err != nil {
			return nil, err
		}
		paused = paused[min(max(from-count, 0), len(paused)):]
		schedulers = append(schedulers, paused[:min(left, len(paused))]...)
	}
	rows := make([]schedulerRow, len(schedulers))
	return rows, each(ctx, len(rows), func(ctx context.Context, i int) error {
		rows[i] = schedulerRow{Scheduler: schedulers[i], Queue: queue.Name(), Words: repeatWords(schedulers[i])}
		if schedulers[i].Iterations == 1 {
			return nil // its first job waits, or runs
		}
		runs, err := pastRuns(ctx, queue, schedulers[i], 1)
		if len(runs) > 0 {
			rows[i].Last = &runs[0]
		}
		return err
	})
}

// schedulerPage is what the page of a scheduler shows.
type schedulerPage struct {
	schedulerRow
	Now   time.Time
	Notes []string
	// NextJob is the job of the next run; nil if it is missing. Then the schedule stands still.
	NextJob   *bullmq.Job
	NextState bullmq.State
	LastStart time.Time // of the run before; zero if it is not known
	Times     []time.Time
	Ends      bool // there is no run after Times
	Runs      []schedulerRun
	// Data and TemplateOptions are the template of its jobs, as they may be shown.
	Data, TemplateOptions []byte
}

func (p *schedulerPage) live() livePage { return livePage{Topics: []string{p.Queue}} }

func (d *Dashboard) scheduler(r *http.Request) (any, error) {
	queue, err := d.openToRead(r)
	if err != nil {
		return nil, err
	}
	defer queue.Close()
	ctx, id := r.Context(), r.PathValue("scheduler")
	found, err := findScheduler(ctx, queue, id)
	if err != nil {
		if errors.Is(err, bullmq.ErrSchedulerNotFound) {
			return nil, notFound{"there is no scheduler " + cut(id, 80) + " in " + cut(queue.Name(), 80)}
		}
		return nil, err
	}
	page := &schedulerPage{schedulerRow: schedulerRow{Scheduler: found, Queue: queue.Name(), Words: repeatWords(found)}, Now: d.o.Now(), Notes: repeatNotes(found)}
	page.Data, page.TemplateOptions = d.redacted(queue.Name(), found.Name, found.Data), found.RawOptions
	if found.PausedAt.IsZero() {
		if err := page.readNext(ctx, queue); err != nil {
			return nil, err
		}
	}
	page.Runs, err = pastRuns(ctx, queue, found, lastRuns)
	for i := range page.Runs {
		page.Runs[i].Job = d.shownJob(queue.Name(), page.Runs[i].Job)
	}
	if page.NextJob != nil {
		page.NextJob = d.shownJob(queue.Name(), page.NextJob)
	}
	return page, err
}

// NameQuery returns the query of the page of the queue that shows the jobs with the scheduler's name.
func (p *schedulerPage) NameQuery() string {
	return url.Values{"state": {string(allStates)}, "name": {p.Name}}.Encode()
}

// readNext reads the job of the next run, and sets the next times.
func (p *schedulerPage) readNext(ctx context.Context, queue *bullmq.Queue) (err error) {
	p.NextJob, p.NextState, err = queue.JobAndState(ctx, runID(p.Scheduler, p.Next.UnixMilli()))
	if err != nil && !errors.Is(err, bullmq.ErrJobNotFound) {
		return err
	}
	var stored json.RawMessage
	if p.NextJob != nil {
		stored = p.NextJob.RawOptions
		if p.Iterations > 1 {
			p.LastStart = p.NextJob.Timestamp // the run before adds the next job as it starts
		}
	}
	p.Times, p.Ends = upcoming(p.Scheduler, stored, p.Now, nextRuns)
	return nil
}

// Parts returns the template as the page shows it.
func (p *schedulerPage) Parts() (parts []part) {
	for _, of := range []struct {
		name, title string
		value       []byte
	}{{"data", "Data of its jobs", p.Data}, {"options", "Options of its jobs", p.TemplateOptions}} {
		if len(of.value) > 0 {
			parts = append(parts, partOf(of.name, of.title, of.value))
		}
	}
	return parts
}

// rawTemplate serves a value of the template of a scheduler whole, as text.
func (d *Dashboard) rawTemplate(w http.ResponseWriter, r *http.Request) error {
	if err := d.mayRead(r); err != nil {
		return err
	}
	content, err := d.scheduler(r)
	if err != nil {
		return err
	}
	page := content.(*schedulerPage)
	value := map[string][]byte{"data": page.Data, "options": page.TemplateOptions}[r.PathValue("part")]
	if len(value) == 0 {
		return notFound{"the scheduler has no such value"}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write(value)
	return nil
}

// findScheduler returns a scheduler, which may be paused.
func findScheduler(ctx context.Context, queue *bullmq.Queue, id string) (*bullmq.Scheduler, error) {
	found, err := queue.Scheduler(ctx, id)
	if !errors.Is(err, bullmq.ErrSchedulerNotFound) {
		return found, err
	}
	paused, pausedErr := queue.PausedSchedulers(ctx)
	for _, s := range paused {
		if s.ID == id {
			return s, nil
		}
	}
	return nil, cmp.Or(pausedErr, err)
}

// pastRuns returns the stored jobs of the runs before the next one, the newest first. It
// looks for the jobs of the last n runs, if they were in time. A run that was late has
// another id, and is not found.
func pastRuns(ctx context.Context, queue *bullmq.Queue, s *bullmq.Scheduler, n int) ([]schedulerRun, error) {
	times := previous(s, n)
	runs := make([]schedulerRun, len(times))
	err := each(ctx, len(times), func(ctx context.Context, i int) (err error) {
		runs[i].Due = times[i]
		runs[i].Job, runs[i].State, err = queue.JobAndState(ctx, runID(s, times[i].UnixMilli()))
		if errors.Is(err, bullmq.ErrJobNotFound) {
			return nil
		}
		return err
	})
	return slices.DeleteFunc(runs, func(run schedulerRun) bool { return run.Job == nil }), err
}

// runID returns the id of the job of a run.
func runID(s *bullmq.Scheduler, ms int64) string {
	return "repeat:" + s.ID + ":" + strconv.FormatInt(ms, 10)
}
