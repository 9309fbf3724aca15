package dashboard

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// metricsPage is what the pages of metrics show: of one queue, or of all.
type metricsPage struct {
	Queue   string // "" for all queues
	Range   string
	Ranges  []metricsRange
	Stored  bool // workers store metrics
	Buckets []bucket
	Timed   bool // Waits and Runs are of some jobs
	Jobs    int  // number of jobs that Waits and Runs are of
	More    bool // there are older jobs in the range that were not read
	Unknown int  // number of jobs without times
	Retried int  // number of jobs with more than one attempt, of which the wait is not known
	Names   []nameMetrics
	Queues  []queueRow // those with the most jobs, on the page of all queues
}

// metricsRange is a time that a page of metrics shows.
type metricsRange struct {
	Name, Title string
	minutes     int // in all
	each        int // minutes of a bucket
}

var metricsRanges = []metricsRange{{"1h", "1 hour", 60, 1}, {"6h", "6 hours", 360, 5}, {"24h", "24 hours", 1440, 15}}

// bucket are the figures of one or some minutes.
type bucket struct {
	At                time.Time // its beginning
	Completed, Failed int
	Partial           bool // it has not ended
	Before            bool // there are older jobs in it that were not read
	Wait, Run         percentiles
}

// percentiles are those of durations. They come from all durations of a time, and are never
// made of other percentiles.
type percentiles struct {
	N                  int
	P50, P95, P99, Max time.Duration
}

// nameMetrics are the figures of the jobs with one name.
type nameMetrics struct {
	Name         string
	Jobs, Failed int
	Wait, Run    percentiles
}

const (
	metricsJobs  = 5000
	metricsEvery = 10 * time.Second
	metricsNames = 100
)

func (*metricsPage) live() livePage { return livePage{Every: metricsEvery} }

// metricsModel is what is read for the metrics of a queue.
type metricsModel struct {
	at                time.Time
	completed, failed bullmq.JobMetrics
	timings           *bullmq.QueueTimings
}

// length returns the length of a bucket.
func (m metricsRange) length() time.Duration { return time.Duration(m.each) * time.Minute }

func rangeOf(r *http.Request) (metricsRange, error) {
	name := cmp.Or(r.FormValue("range"), metricsRanges[0].Name)
	at := slices.IndexFunc(metricsRanges, func(m metricsRange) bool { return m.Name == name })
	if at < 0 {
		return metricsRange{}, badRequest{errors.New("there is no range " + cut(name, 80))}
	}
	return metricsRanges[at], nil
}

// queueMetrics shows the metrics of a queue.
func (d *Dashboard) queueMetrics(r *http.Request) (any, error) {
	of, err := rangeOf(r)
	if err != nil {
		return nil, err
	}
	m, err := sharedRead(d, r, metricsTopic, r.URL.EscapedPath()+"?"+of.Name, func(ctx context.Context) (*metricsModel, error) { return d.readMetrics(r.WithContext(ctx), of) })
	if err != nil {
		return nil, err
	}
	page := &metricsPage{Queue: r.PathValue("queue"), Range: of.Name, Ranges: metricsRanges, Stored: m.completed.Count+m.failed.Count > 0}
	page.Jobs, page.More, page.Unknown = len(m.timings.Jobs), m.timings.More, m.timings.Unknown
	page.Timed = page.Jobs > 0
	page.Buckets = bucketsOf(of, m.at)
	for state, metrics := range map[bullmq.State]bullmq.JobMetrics{bullmq.StateCompleted: m.completed, bullmq.StateFailed: m.failed} {
		if metrics.PrevTime.IsZero() {
			continue
		}
		put(page.Buckets, state, metrics.PrevTime, metrics.Count-metrics.PrevCount)
		for i, n := range metrics.Points {
			put(page.Buckets, state, metrics.PrevTime.Truncate(time.Minute).Add(-time.Duration(i+1)*time.Minute), n)
		}
	}
	page.time(m.timings)
	return page, nil
}

func (d *Dashboard) readMetrics(r *http.Request, of metricsRange) (*metricsModel, error) {
	queue, err := d.open(r)
	if err != nil {
		return nil, err
	}
	defer queue.Close()
	ctx := r.Context()
	m := &metricsModel{at: time.Now()}
	if m.completed, err = queue.Metrics(ctx, bullmq.StateCompleted, bullmq.Page{Limit: of.minutes}); err != nil {
		return nil, err
	}
	if m.failed, err = queue.Metrics(ctx, bullmq.StateFailed, bullmq.Page{Limit: of.minutes}); err != nil {
		return nil, err
	}
	m.timings, err = queue.Timings(ctx, bullmq.TimingQuery{Limit: metricsJobs, Since: bucketsOf(of, m.at)[0].At})
	return m, err
}

// fleetMetrics shows the metrics of all queues.
func (d *Dashboard) fleetMetrics(r *http.Request) (any, error) {
	names, err := d.queueNames(r)
	if err != nil {
		return nil, err
	}
	fleet, err := sharedRead(d, r, allQueues, "fleet", d.readFleet)
	if err != nil {
		return nil, err
	}
	of := metricsRanges[0]
	page := &metricsPage{Range: of.Name, Buckets: bucketsOf(of, time.Now())}
	for _, name := range names {
		row, known := fleet[name]
		if !known || row.Err != nil {
			continue
		}
		for state, m := range map[bullmq.State]bullmq.QueueMetrics{bullmq.StateCompleted: row.Completed, bullmq.StateFailed: row.Failed} {
			for i, n := range m.Points {
				put(page.Buckets, state, m.Until.Truncate(time.Minute).Add(-time.Duration(i+1)*time.Minute), n)
			}
		}
		if sum(row.Done())+sum(row.Lost()) > 0 {
			page.Stored = true
			page.Queues = append(page.Queues, row)
		}
	}
	page.Buckets = page.Buckets[:len(page.Buckets)-1] // summaries have no figures of the present minute
	slices.SortStableFunc(page.Queues, func(a, b queueRow) int {
		return cmp.Compare(sum(b.Done())+sum(b.Lost()), sum(a.Done())+sum(a.Lost()))
	})
	page.Queues = page.Queues[:min(len(page.Queues), metricsNames)]
	return page, nil
}

// bucketsOf returns the empty buckets of a range that ends now, oldest first.
func bucketsOf(of metricsRange, now time.Time) []bucket {
	each := of.length()
	last := now.Truncate(each)
	buckets := make([]bucket, of.minutes/of.each)
	for i := range buckets {
		buckets[i].At = last.Add(-time.Duration(len(buckets)-1-i) * each)
	}
	buckets[len(buckets)-1].Partial = true
	return buckets
}

// bucketAt returns the bucket of a time, or nil.
func bucketAt(buckets []bucket, at time.Time) *bucket {
	i, _ := slices.BinarySearchFunc(buckets, at, func(b bucket, at time.Time) int {
		if b.At.After(at) {
			return 1
		}
		return -1
	})
	if i == 0 {
		return nil
	}
	return &buckets[i-1]
}

func put(buckets []bucket, state bullmq.State, at time.Time, n int) {
	b := bucketAt(buckets, at)
	switch {
	case b == nil:
	case state == bullmq.StateFailed:
		b.Failed += n
	default:
		b.Completed += n
	}
}

// time adds the percentiles to the buckets, and those by name.
func (p *metricsPage) time(timings *bullmq.QueueTimings) {
	type durations struct{ waits, runs []time.Duration }
	byBucket, byName := map[*bucket]*durations{}, map[string]*durations{}
	failed := map[string]int{}
	for _, job := range timings.Jobs {
		b := bucketAt(p.Buckets, job.FinishedOn)
		if b == nil {
			continue
		}
		if byBucket[b] == nil {
			byBucket[b] = &durations{}
		}
		if byName[job.Name] == nil {
			byName[job.Name] = &durations{}
		}
		for _, all := range []*durations{byBucket[b], byName[job.Name]} {
			if all.runs = append(all.runs, job.Run); job.AttemptsMade <= 1 { // that of others would include the earlier attempts
				all.waits = append(all.waits, job.Wait)
			}
		}
		if job.AttemptsMade > 1 {
			p.Retried++
		}
		if job.State == bullmq.StateFailed {
			failed[job.Name]++
		}
	}
	for b, all := range byBucket {
		b.Wait, b.Run = percentilesOf(all.waits), percentilesOf(all.runs)
	}
	if timings.More && len(timings.Jobs) > 0 {
		if b := bucketAt(p.Buckets, timings.Jobs[len(timings.Jobs)-1].FinishedOn); b != nil {
			b.Before = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		all := byName[name]
		p.Names = append(p.Names, nameMetrics{name, len(all.runs), failed[name], percentilesOf(all.waits), percentilesOf(all.runs)})
	}
	slices.SortStableFunc(p.Names, func(a, b nameMetrics) int { return cmp.Compare(b.Jobs, a.Jobs) })
	p.Names = p.Names[:min(len(p.Names), metricsNames)]
}

// percentilesOf sorts durations, and returns their percentiles by nearest rank.
func percentilesOf(durations []time.Duration) percentiles {
	n := len(durations)
	if n == 0 {
		return percentiles{}
	}
	slices.Sort(durations)
	at := func(percent int) time.Duration { return durations[(n*percent+99)/100-1] }
	return percentiles{n, at(50), at(95), at(99), durations[n-1]}
}
