package dashboard

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// shownStates are the states in the order of the pages.
var shownStates = []bullmq.State{
	bullmq.StateActive, bullmq.StateWaiting, bullmq.StatePrioritized, bullmq.StateDelayed, bullmq.StateWaitingChildren, bullmq.StateFailed, bullmq.StateCompleted,
}

// overviewPage is what the overview shows.
type overviewPage struct {
	Filter string
	Queues []queueRow
	Total  map[bullmq.State]int
	Hidden int // number of queues that the filter hides
}

// queueRow is a queue in the overview.
type queueRow struct {
	bullmq.QueueSummary
	Workers int
	Oldest  time.Duration // age of the oldest job that is ready
	// FailureRatio is the share of failed jobs in the metrics of the last hour; -1 if there
	// are none.
	FailureRatio float64
}

func (d *Dashboard) overview(r *http.Request) (any, error) {
	names, err := d.queueNames(r)
	if err != nil {
		return nil, err
	}
	page := &overviewPage{Filter: r.FormValue("filter"), Total: map[bullmq.State]int{}}
	filter := strings.ToLower(page.Filter)
	shown := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !strings.Contains(strings.ToLower(name), filter) })
	page.Hidden = len(names) - len(shown)
	summaries, err := bullmq.SummarizeQueues(r.Context(), d.connection, d.o.Prefix, shown...)
	if err != nil {
		return nil, err
	}
	workers := map[string]int{}
	if len(shown) > 0 {
		// Without the names of workers the rest of the page is still useful.
		list, _ := d.listWorkers(r, shown...)
		for _, worker := range list {
			for _, queue := range worker.Queues {
				workers[queue]++
			}
		}
	}
	for _, summary := range summaries {
		page.Queues = append(page.Queues, rowOf(summary, workers[summary.Name]))
		for state, n := range summary.Counts {
			page.Total[state] += n
		}
	}
	return page, nil
}

func rowOf(summary bullmq.QueueSummary, workers int) queueRow {
	row := queueRow{QueueSummary: summary, Workers: workers, FailureRatio: -1}
	row.Oldest = max(summary.Ages[bullmq.StateWaiting], summary.Ages[bullmq.StatePrioritized])
	completed, failed := sum(summary.Completed.Points), sum(summary.Failed.Points)
	if completed+failed > 0 {
		row.FailureRatio = float64(failed) / float64(completed+failed)
	}
	return row
}

// Percent returns the failure ratio in percent.
func (r queueRow) Percent() float64 { return 100 * r.FailureRatio }

// Stuck reports whether jobs are ready and nobody works on them.
func (r queueRow) Stuck() bool {
	ready := r.Counts[bullmq.StateWaiting] + r.Counts[bullmq.StatePrioritized]
	return r.Err == nil && ready > 0 && r.Workers == 0 && !r.Paused
}

func sum(numbers []int) (total int) {
	for _, n := range numbers {
		total += n
	}
	return total
}
