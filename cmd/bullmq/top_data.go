package main

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

const (
	topListEvery = 15 * time.Second // the names of queues, which a scan of all keys finds
	topRateOver  = 10 * time.Second
	topRunning   = 50 // running jobs of a queue that are read
)

// topSource reads what the view shows.
type topSource struct {
	connection *bullmq.Connection
	prefix     string
	names      []string
	listed     time.Time
	history    map[string][]topSample
}

// topSample is what rates are computed from.
type topSample struct {
	at                time.Time
	added, unfinished int
}

// topData is what a refresh has read.
type topData struct {
	at     time.Time
	rows   []topRow
	detail *topDetail
}

// topRow is a queue.
type topRow struct {
	bullmq.QueueSummary
	ready, workers int
	in, out        float64 // jobs a second; -1 if not known yet
	age            time.Duration
	failures       float64 // of the jobs that ended in the last hour; -1 if not known
}

// topDetail has the workers and the running jobs of a queue.
type topDetail struct {
	queue   string
	workers []bullmq.WorkerInfo
	running []*bullmq.Job
}

// read reads all queues, and the details of one, unless queue is "".
func (s *topSource) read(ctx context.Context, queue string) (topData, error) {
	if time.Since(s.listed) > topListEvery {
		var names []string
		for name, err := range bullmq.ListQueues(ctx, s.connection, s.prefix) {
			if err != nil {
				return topData{}, err
			}
			names = append(names, name)
		}
		slices.Sort(names)
		s.names, s.listed = names, time.Now()
	}
	summaries, err := bullmq.SummarizeQueues(ctx, s.connection, s.prefix, s.names...)
	if err != nil {
		return topData{}, err
	}
	data := topData{at: time.Now()}
	var workers []bullmq.WorkerInfo
	if len(s.names) > 0 {
		if workers, err = bullmq.ListWorkers(ctx, s.connection, s.prefix, s.names...); err != nil {
			return topData{}, err
		}
	}
	counts := map[string]int{}
	for _, worker := range workers {
		for _, name := range worker.Queues {
			counts[name]++
		}
	}
	for _, summary := range summaries {
		row := s.row(summary, data.at)
		row.workers = counts[summary.Name]
		data.rows = append(data.rows, row)
	}
	if queue != "" {
		if data.detail, err = s.detail(ctx, queue); err != nil {
			return topData{}, err
		}
	}
	return data, nil
}

func (s *topSource) row(summary bullmq.QueueSummary, now time.Time) topRow {
	row := topRow{QueueSummary: summary, in: -1, out: -1, failures: -1}
	if summary.Err != nil {
		return row
	}
	row.ready = summary.Counts[bullmq.StateWaiting] + summary.Counts[bullmq.StatePrioritized]
	row.age = max(summary.Ages[bullmq.StateWaiting], summary.Ages[bullmq.StatePrioritized])
	var completed, failed int
	for _, n := range summary.Completed.Points {
		completed += n
	}
	for _, n := range summary.Failed.Points {
		failed += n
	}
	if completed+failed > 0 {
		row.failures = float64(failed) / float64(completed+failed)
	}
	unfinished := row.ready + summary.Counts[bullmq.StateActive] + summary.Counts[bullmq.StateDelayed] + summary.Counts[bullmq.StateWaitingChildren]
	row.in, row.out = s.rates(summary.Name, topSample{now, summary.Added, unfinished})
	return row
}

// rates returns the rates of jobs that came, and of jobs that have left the unfinished ones.
// Both come from counts, because not all workers store metrics.
func (s *topSource) rates(name string, sample topSample) (in, out float64) {
	if s.history == nil {
		s.history = map[string][]topSample{}
	}
	samples := append(s.history[name], sample)
	for len(samples) > 2 && sample.at.Sub(samples[1].at) >= topRateOver {
		samples = samples[1:]
	}
	s.history[name] = samples
	first := samples[0]
	seconds := sample.at.Sub(first.at).Seconds()
	if len(samples) < 2 || seconds <= 0 {
		return -1, -1
	}
	came := sample.added - first.added
	left := came - (sample.unfinished - first.unfinished)
	return max(0, float64(came)/seconds), max(0, float64(left)/seconds)
}

func (s *topSource) detail(ctx context.Context, name string) (*topDetail, error) {
	queue, err := bullmq.NewQueue(ctx, name, &bullmq.QueueOptions{Connection: s.connection, Prefix: s.prefix, SkipMetaUpdate: true})
	if err != nil {
		return nil, err
	}
	defer queue.Close()
	d := &topDetail{queue: name}
	if d.workers, err = queue.Workers(ctx); err != nil {
		return nil, err
	}
	d.running, err = queue.Jobs(ctx, bullmq.Page{Limit: topRunning}, bullmq.StateActive)
	return d, err
}

// topColumn is a column of the table.
type topColumn struct {
	name    string
	text    bool // sorted in ascending order first
	keep    int  // the lowest are left out first on narrow terminals
	cell    func(topRow) string
	compare func(a, b topRow) int
}

func topCount(name string, keep int, count func(topRow) int) topColumn {
	return topColumn{name, false, keep, func(r topRow) string { return number(count(r)) }, func(a, b topRow) int { return cmp.Compare(count(a), count(b)) }}
}

func topState(name string, keep int, state bullmq.State) topColumn {
	return topCount(name, keep, func(r topRow) int { return r.Counts[state] })
}

var topColumns = []topColumn{
	{"queue", true, 99, func(r topRow) string { return r.Name }, func(a, b topRow) int { return strings.Compare(a.Name, b.Name) }},
	topCount("ready", 98, func(r topRow) int { return r.ready }),
	topState("active", 97, bullmq.StateActive),
	topState("delayed", 92, bullmq.StateDelayed),
	topState("children", 81, bullmq.StateWaitingChildren),
	topState("failed", 94, bullmq.StateFailed),
	topState("completed", 83, bullmq.StateCompleted),
	{"in/s", false, 90, func(r topRow) string { return rate(r.in) }, func(a, b topRow) int { return cmp.Compare(a.in, b.in) }},
	{"out/s", false, 91, func(r topRow) string { return rate(r.out) }, func(a, b topRow) int { return cmp.Compare(a.out, b.out) }},
	{"age", false, 95, func(r topRow) string {
		if r.age <= 0 {
			return ""
		}
		return short(r.age.Truncate(time.Second))
	}, func(a, b topRow) int { return cmp.Compare(a.age, b.age) }},
	{"fail%", false, 85, func(r topRow) string { return percent(r.failures) }, func(a, b topRow) int { return cmp.Compare(a.failures, b.failures) }},
	topCount("workers", 93, func(r topRow) int { return r.workers }),
}

// topColumnNames lists the columns for a message.
func topColumnNames() string {
	var names []string
	for _, column := range topColumns {
		names = append(names, column.name)
	}
	return strings.Join(names, ", ")
}

// sortBy sorts by a column, and reports whether there is one of that name.
func (m *topModel) sortBy(name string) bool {
	m.column = slices.IndexFunc(topColumns, func(c topColumn) bool { return strings.EqualFold(c.name, name) })
	if m.column < 0 {
		return false
	}
	m.ascending = topColumns[m.column].text
	return true
}

// arrange filters and sorts the rows, and keeps the selected one.
func (m *topModel) arrange() {
	m.rows = slices.DeleteFunc(slices.Clone(m.data.rows), func(r topRow) bool {
		return !strings.Contains(strings.ToLower(r.Name), strings.ToLower(m.filter))
	})
	column := topColumns[m.column]
	slices.SortStableFunc(m.rows, func(a, b topRow) int {
		order := column.compare(a, b)
		if !m.ascending {
			order = -order
		}
		return cmp.Or(order, strings.Compare(a.Name, b.Name))
	})
	if m.index() < 0 {
		m.selected, m.top = "", 0
		if len(m.rows) > 0 {
			m.selected = m.rows[0].Name
		}
	}
}

// index returns the index of the selected row; -1 if there is none.
func (m *topModel) index() int {
	return slices.IndexFunc(m.rows, func(r topRow) bool { return r.Name == m.selected })
}
