package dashboard

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
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
	Filter, Only, Group, Sort string
	Columns                   []column
	Groups                    []*queueGroup
	Total                     queueGroup
	Closed                    bool // groups are shown without their queues
	Shown, Hidden             int  // numbers of queues; the filter hides the others
	Others                    []pair
	Toggle                    string // address of the page with open or closed groups; "" if there are none
}

// queueRow is a queue in the overview.
type queueRow struct {
	bullmq.QueueSummary
	Workers int
	Oldest  time.Duration // age of the oldest job that is ready
	// In and Out are how many jobs were added and have ended, in a minute; -1 if that is unknown.
	In, Out float64
	// FailureRatio is the share of failed jobs in the metrics of the last hour; -1 if there
	// are none.
	FailureRatio float64
}

// queueGroup are queues whose names begin alike, and their sums.
type queueGroup struct {
	Name   string // "" for queues that are in no group
	Link   string // address of the page of the group
	Queues []queueRow
	Sum    queueRow
	Paused, Stopped, Limited, Stuck,
	Unread int // numbers of queues
}

// column is a column by which the overview can be sorted.
type column struct {
	Title, Key string
	Number     bool
	Link       string // address of the page that is sorted by the column
	Order      string // ascending or descending if it is; "" otherwise
	value      func(queueRow) float64
}

// onlyQueues are the choices of queues to show.
var onlyQueues = []struct {
	key, title string
	has        func(queueRow) bool
}{
	{"", "All queues", func(queueRow) bool { return true }},
	{"jobs", "With jobs to do", func(q queueRow) bool { return q.Counts[bullmq.StateActive]+q.ready() > 0 }},
	{"failed", "With failed jobs", func(q queueRow) bool { return q.Counts[bullmq.StateFailed] > 0 }},
	{"paused", "Paused", func(q queueRow) bool { return q.Paused }},
	{"limited", "Limited", func(q queueRow) bool { return q.LimitedFor > 0 || q.LimitMax > 0 || q.Concurrency > 0 || q.Stopped }},
	{"stuck", "Without workers", func(q queueRow) bool { return q.Stuck() }},
}

const (
	groupFrom = 25  // number of queues from which on they are grouped
	closeFrom = 100 // and from which on groups are closed at first
)

// columns returns the columns of the table.
func columns() []column {
	all := []column{{Title: "Queue", Key: "name"}}
	for _, state := range shownStates {
		all = append(all, column{Title: string(state), Key: string(state), Number: true, value: func(q queueRow) float64 { return float64(q.Counts[state]) }})
	}
	return append(all,
		column{Title: "In/min", Key: "in", Number: true, value: func(q queueRow) float64 { return q.In }},
		column{Title: "Out/min", Key: "out", Number: true, value: func(q queueRow) float64 { return q.Out }},
		column{Title: "Oldest", Key: "oldest", Number: true, value: func(q queueRow) float64 { return float64(q.Oldest) }},
		column{Title: "Failed, 1 h", Key: "ratio", Number: true, value: func(q queueRow) float64 { return q.FailureRatio }},
		column{Title: "Last hour", Key: "done", value: func(q queueRow) float64 { return float64(sum(q.Done()) + sum(q.Lost())) }},
		column{Title: "Workers", Key: "workers", Number: true, value: func(q queueRow) float64 { return float64(q.Workers) }},
	)
}

func (*overviewPage) live() livePage { return livePage{Topics: []string{allQueues}} }

func (d *Dashboard) overview(r *http.Request) (any, error) {
	names, err := d.queueNames(r)
	if err != nil {
		return nil, err
	}
	fleet, err := sharedRead(d, r, allQueues, "fleet", d.readFleet)
	if err != nil {
		return nil, err
	}
	query := r.URL.Query()
	page := &overviewPage{Filter: query.Get("filter"), Only: query.Get("only"), Group: query.Get("group"), Sort: query.Get("sort")}
	shown := page.choose(names, fleet)
	page.sort(d, query, shown)
	page.group(d, query, shown)
	return page, nil
}

// readFleet reads all queues, also those that a viewer may not see.
func (d *Dashboard) readFleet(ctx context.Context) (map[string]queueRow, error) {
	names, err := d.catalog.list(ctx)
	if err != nil {
		return nil, err
	}
	fleet := make(map[string]queueRow, len(names))
	if len(names) == 0 {
		return fleet, nil
	}
	summaries, err := bullmq.SummarizeQueues(ctx, d.connection, d.o.Prefix, names...)
	if err != nil {
		return nil, err
	}
	workers := map[string]int{}
	// Without the names of workers the rest of the page is still useful.
	list, _ := bullmq.ListWorkers(ctx, d.connection, d.o.Prefix, names...)
	for _, worker := range list {
		for _, queue := range worker.Queues {
			workers[queue]++
		}
	}
	d.rates.add(summaries)
	for _, summary := range summaries {
		fleet[summary.Name] = d.rowOf(summary, workers[summary.Name])
	}
	return fleet, nil
}

// choose returns the queues that the filter leaves.
func (p *overviewPage) choose(names []string, fleet map[string]queueRow) []queueRow {
	filter := strings.ToLower(p.Filter)
	only := max(slices.IndexFunc(onlyQueues, func(o struct {
		key, title string
		has        func(queueRow) bool
	}) bool {
		return o.key == p.Only
	}), 0)
	var shown []queueRow
	for _, name := range names {
		row, known := fleet[name]
		if !known {
			continue // it was found after the read
		}
		if strings.Contains(strings.ToLower(name), filter) && onlyQueues[only].has(row) && (p.Group == "" || groupOf(name) == p.Group) {
			shown = append(shown, row)
		} else {
			p.Hidden++
		}
	}
	return shown
}

// sort sorts the queues by the column that the reader has chosen, at first by name.
func (p *overviewPage) sort(d *Dashboard, query url.Values, queues []queueRow) {
	key, descending := strings.CutPrefix(p.Sort, "-")
	p.Columns = columns()
	found := false
	for i := range p.Columns {
		c := &p.Columns[i]
		next := "-" + c.Key // the largest first
		if c.Key == "name" {
			next = ""
		}
		if c.Key == key || c.Key == "name" && key == "" {
			found = true
			if c.Order = "ascending"; descending {
				c.Order = "descending"
			}
			if next = "-" + c.Key; descending {
				next = c.Key
			}
			slices.SortStableFunc(queues, func(a, b queueRow) int {
				order := 0
				if c.value != nil {
					order = cmp.Compare(c.value(a), c.value(b))
				} else {
					order = strings.Compare(a.Name, b.Name)
				}
				if descending {
					return -order
				}
				return order
			})
		}
		c.Link = d.with(query, "sort", next)
	}
	if !found {
		p.Sort = ""
	}
}

// with returns the address of the overview with another value in its query.
func (d *Dashboard) with(query url.Values, name, value string) string {
	changed := url.Values{}
	for key, values := range query {
		if key != name && values[0] != "" {
			changed[key] = values[:1]
		}
	}
	if value != "" {
		changed.Set(name, value)
	}
	if len(changed) == 0 {
		return d.link()
	}
	return d.link() + "?" + changed.Encode()
}

// group puts queues whose names begin alike into groups, if there are many queues and they
// are sorted by name.
func (p *overviewPage) group(d *Dashboard, query url.Values, queues []queueRow) {
	p.Shown = len(queues)
	for _, row := range queues {
		p.Total.add(row)
	}
	for _, name := range []string{"sort", "group", "groups"} {
		if value := query.Get(name); value != "" {
			p.Others = append(p.Others, pair{name, value})
		}
	}
	single := &queueGroup{}
	if len(queues) < groupFrom || p.Group != "" || strings.TrimPrefix(p.Sort, "-") != "" && strings.TrimPrefix(p.Sort, "-") != "name" {
		single.Queues = queues
		p.Groups = []*queueGroup{single}
		return
	}
	sizes := map[string]int{}
	for _, row := range queues {
		sizes[groupOf(row.Name)]++
	}
	byName := map[string]*queueGroup{}
	for _, row := range queues {
		name := groupOf(row.Name)
		if name == "" || sizes[name] < 2 || sizes[name] == len(queues) {
			single.Queues = append(single.Queues, row)
			continue
		}
		if byName[name] == nil {
			byName[name] = &queueGroup{Name: name, Link: d.with(query, "group", name)}
			p.Groups = append(p.Groups, byName[name])
		}
		byName[name].Queues = append(byName[name].Queues, row)
		byName[name].add(row)
	}
	if len(p.Groups) > 0 {
		p.Closed = len(queues) >= closeFrom && p.Filter == ""
		if state := query.Get("groups"); state != "" {
			p.Closed = state == "closed"
		}
		p.Toggle = d.with(query, "groups", map[bool]string{true: "open", false: "closed"}[p.Closed])
	}
	if len(single.Queues) > 0 {
		p.Groups = append(p.Groups, single)
	}
}

// groupOf returns the beginning of a name up to its first separator; "" if it has none.
func groupOf(name string) string {
	if at := strings.IndexAny(name, "-._/@ "); at > 0 {
		return name[:at+1]
	}
	return ""
}

// add adds a queue to the sums.
func (g *queueGroup) add(row queueRow) {
	s := &g.Sum
	if s.Counts == nil {
		s.Counts, s.In, s.Out = map[bullmq.State]int{}, -1, -1
	}
	for state, n := range row.Counts {
		s.Counts[state] += n
	}
	s.In, s.Out = addKnown(s.In, row.In), addKnown(s.Out, row.Out)
	s.Oldest = max(s.Oldest, row.Oldest)
	now := time.Now()
	s.Completed, s.Failed = bullmq.QueueMetrics{Until: now, Points: addPoints(s.Completed.Points, row.Done())}, bullmq.QueueMetrics{Until: now, Points: addPoints(s.Failed.Points, row.Lost())}
	s.FailureRatio = ratio(sum(s.Done()), sum(s.Lost()))
	for of, has := range map[*int]bool{&g.Paused: row.Paused, &g.Stopped: row.Stopped, &g.Limited: row.LimitedFor > 0, &g.Stuck: row.Stuck(), &g.Unread: row.Err != nil} {
		if has {
			*of++
		}
	}
}

// addKnown adds numbers of which -1 is unknown.
func addKnown(a, b float64) float64 {
	if b < 0 {
		return a
	}
	return max(a, 0) + b
}

func addPoints(a, b []int) []int {
	if len(b) > len(a) {
		a, b = slices.Clone(b), a
	}
	for i, n := range b {
		a[i] += n
	}
	return a
}

func (d *Dashboard) rowOf(summary bullmq.QueueSummary, workers int) queueRow {
	row := queueRow{QueueSummary: summary, Workers: workers}
	row.Oldest = max(summary.Ages[bullmq.StateWaiting], summary.Ages[bullmq.StatePrioritized])
	row.FailureRatio = ratio(sum(row.Done()), sum(row.Lost()))
	row.In, row.Out = d.rates.of(summary)
	return row
}

// ratio returns the share of failed jobs; -1 if there are no jobs.
func ratio(completed, failed int) float64 {
	if completed+failed == 0 {
		return -1
	}
	return float64(failed) / float64(completed+failed)
}

// Done returns the jobs that have completed in each of the last 60 minutes that have ended,
// newest first, and Lost those that have failed.
func (r queueRow) Done() []int { return lastHour(r.Completed) }
func (r queueRow) Lost() []int { return lastHour(r.Failed) }

// lastHour returns the points of the last 60 minutes that have ended. Workers store a point
// when a job finishes in a later minute, so that those of an idle queue end in the past.
func lastHour(m bullmq.QueueMetrics) []int {
	if len(m.Points) == 0 {
		return nil
	}
	const minutes = 60
	all := make([]int, minutes)
	idle := int(time.Now().Truncate(time.Minute).Sub(m.Until.Truncate(time.Minute)) / time.Minute)
	for i, n := range m.Points {
		if at := i + idle; at >= 0 && at < minutes {
			all[at] = n
		}
	}
	return all
}

// Percent returns the failure ratio in percent.
func (r queueRow) Percent() float64 { return 100 * r.FailureRatio }

// ready returns how many jobs a worker could fetch.
func (r queueRow) ready() int {
	return r.Counts[bullmq.StateWaiting] + r.Counts[bullmq.StatePrioritized]
}

// Stuck reports whether jobs are ready and nobody works on them. Dead letters wait for a person,
// not for a worker.
func (r queueRow) Stuck() bool {
	return r.Err == nil && r.ready() > 0 && r.Workers == 0 && !r.Paused && !r.DeadLetters
}

func sum(numbers []int) (total int) {
	for _, n := range numbers {
		total += n
	}
	return total
}
