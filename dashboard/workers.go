package dashboard

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// workersPage is what the pages of workers show.
type workersPage struct {
	Queue    string // "" for all queues
	Workers  []workerRow
	Hidden   int // workers that are not shown
	Go, Node int // numbers of workers that are registered, and that are known by their connection
	Warnings []string
	Running  []runningGroup
	Unread   int // running jobs that were not read
	Now      time.Time
}

// workerRow is a worker in the list.
type workerRow struct {
	bullmq.WorkerInfo
	Address string // of its connection
	Since   time.Time
}

// runningGroup are the running jobs of a worker, or of several with the same name.
type runningGroup struct {
	Worker string
	Jobs   []runningJob
}

// runningJob is a job that runs.
type runningJob struct {
	*bullmq.Job
	Queue string
}

const (
	workersShown   = 300
	runningPerPage = 200 // jobs that a page reads
	runningQueues  = 40  // queues of which a page reads jobs
)

func (d *Dashboard) workers(r *http.Request) (any, error) {
	names, err := d.queueNames(r)
	if err != nil {
		return nil, err
	}
	return d.workersOf(r, "", names)
}

func (d *Dashboard) queueWorkers(r *http.Request) (any, error) {
	queue, err := d.open(r)
	if err != nil {
		return nil, err
	}
	defer queue.Close()
	return d.workersOf(r, queue.Name(), []string{queue.Name()})
}

// live updates the page by time: a worker that starts or stops is no event.
func (*workersPage) live() livePage { return livePage{Every: slowly} }

// workersModel is what is read for a page of workers.
type workersModel struct {
	workers   []bullmq.WorkerInfo
	summaries []bullmq.QueueSummary
	running   []runningGroup
	unread    int
}

// readWorkers reads the workers of queues, and the jobs that they run.
func (d *Dashboard) readWorkers(ctx context.Context, names []string) (m *workersModel, err error) {
	m = &workersModel{}
	if len(names) == 0 {
		return m, nil
	}
	if m.workers, err = bullmq.ListWorkers(ctx, d.connection, d.o.Prefix, names...); err != nil {
		return nil, err
	}
	if m.summaries, err = bullmq.SummarizeQueues(ctx, d.connection, d.o.Prefix, names...); err != nil {
		return nil, err
	}
	m.running, m.unread, err = d.running(ctx, m.summaries)
	return m, err
}

// workersOf shows the workers of queues, and the jobs that they run.
func (d *Dashboard) workersOf(r *http.Request, queue string, names []string) (*workersPage, error) {
	m, err := sharedRead(d, r, workersTopic, keyOf("workers", names), func(ctx context.Context) (*workersModel, error) { return d.readWorkers(ctx, names) })
	if err != nil {
		return nil, err
	}
	page := &workersPage{Queue: queue, Now: d.o.Now(), Running: m.running, Unread: m.unread}
	workers := d.shownWorkers(r, m.workers)
	serving := map[string]int{}
	for _, worker := range workers {
		for _, name := range worker.Queues {
			serving[name]++
		}
		if worker.IsRegistered() {
			page.Go++
		} else {
			page.Node++
		}
	}
	var unserved []string
	for _, summary := range m.summaries {
		ready := summary.Counts[bullmq.StateWaiting] + summary.Counts[bullmq.StatePrioritized]
		if ready > 0 && serving[summary.Name] == 0 && !summary.Paused && !summary.DeadLetters {
			unserved = append(unserved, summary.Name)
		}
	}
	if len(unserved) > 0 {
		page.Warnings = append(page.Warnings, "Jobs wait in "+number(len(unserved), "queue")+" that no worker serves: "+cut(strings.Join(unserved, ", "), 400)+".")
	}
	page.Warnings = append(page.Warnings, mixedVersions(workers)...)
	page.Hidden = max(len(workers)-workersShown, 0)
	for _, worker := range workers[:len(workers)-page.Hidden] {
		page.Workers = append(page.Workers, workerRowOf(worker, page.Now))
	}
	return page, nil
}

// workerRowOf returns a worker with what its connection tells.
func workerRowOf(worker bullmq.WorkerInfo, now time.Time) workerRow {
	row := workerRow{WorkerInfo: worker, Since: worker.Started}
	if len(worker.Connections) > 0 {
		fields := worker.Connections[0].Fields
		row.Address = fields["addr"]
		if age, err := time.ParseDuration(fields["age"] + "s"); err == nil && row.Since.IsZero() {
			row.Since = now.Add(-age)
		}
	}
	return row
}

// mixedVersions returns a warning for each queue whose workers have several versions of the program
// or of the SDK. During a deploy this is normal.
func mixedVersions(workers []bullmq.WorkerInfo) (warnings []string) {
	programs, libraries := map[string][]string{}, map[string][]string{}
	add := func(to map[string][]string, queue, version string) {
		if version != "" && !slices.Contains(to[queue], version) {
			to[queue] = append(to[queue], version)
		}
	}
	for _, worker := range workers {
		for _, queue := range worker.Queues {
			add(programs, queue, worker.Version)
			add(libraries, queue, worker.Library)
		}
	}
	for _, kind := range []struct {
		what string
		of   map[string][]string
	}{{"the program", programs}, {"the SDK", libraries}} {
		for queue, versions := range kind.of {
			if len(versions) > 1 {
				slices.Sort(versions)
				warnings = append(warnings, fmt.Sprintf("Workers of %s have several versions of %s: %s.", cut(queue, 80), kind.what, cut(strings.Join(versions, ", "), 200)))
			}
		}
	}
	slices.Sort(warnings)
	const most = 10
	if n := len(warnings) - most; n > 0 {
		warnings = append(warnings[:most], fmt.Sprintf("%s have workers of several versions too.", number(n, "more queue")))
	}
	return warnings
}

// running returns the jobs that run, by worker, those that have run for the longest time first.
func (d *Dashboard) running(ctx context.Context, summaries []bullmq.QueueSummary) (groups []runningGroup, unread int, err error) {
	summaries = slices.DeleteFunc(slices.Clone(summaries), func(s bullmq.QueueSummary) bool { return s.Counts[bullmq.StateActive] == 0 })
	slices.SortFunc(summaries, func(a, b bullmq.QueueSummary) int {
		return cmp.Compare(a.Counts[bullmq.StateActive], b.Counts[bullmq.StateActive])
	})
	total, left := 0, runningPerPage
	take := make([]int, len(summaries))
	for i, summary := range summaries {
		n := summary.Counts[bullmq.StateActive]
		total += n
		if i < runningQueues {
			take[i] = min(n, left)
			left -= take[i]
		}
	}
	found := make([][]runningJob, len(summaries))
	err = each(ctx, len(summaries), func(ctx context.Context, i int) error {
		if take[i] == 0 {
			return nil
		}
		queue, err := bullmq.NewQueue(ctx, summaries[i].Name, &bullmq.QueueOptions{Connection: d.connection, Prefix: d.o.Prefix, SkipMetaUpdate: true, Dialect: bullmq.V6})
		if err != nil {
			return err
		}
		defer queue.Close()
		jobs, err := queue.Search(ctx, bullmq.JobSearch{States: []bullmq.State{bullmq.StateActive}, Limit: take[i], MaxRead: take[i]})
		if err != nil {
			return err
		}
		for _, job := range jobs.Jobs {
			found[i] = append(found[i], runningJob{job, queue.Name()})
		}
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	jobs := slices.Concat(found...)
	slices.SortFunc(jobs, func(a, b runningJob) int {
		return cmp.Or(strings.Compare(a.ProcessedBy, b.ProcessedBy), a.ProcessedOn.Compare(b.ProcessedOn))
	})
	for _, job := range jobs {
		if n := len(groups); n == 0 || groups[n-1].Worker != job.ProcessedBy {
			groups = append(groups, runningGroup{Worker: job.ProcessedBy})
		}
		group := &groups[len(groups)-1]
		group.Jobs = append(group.Jobs, job)
	}
	return groups, max(total-len(jobs), 0), nil
}
