package dashboard

import (
	"cmp"
	"context"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// routesPage is what the page of routes and shards shows.
type routesPage struct {
	Routed  []routedQueue
	Sharded []shardedQueue
}

// routedQueue is a queue with routes.
type routedQueue struct {
	Name                          string
	Routes, Ready, Active, Failed int
	Unserved                      int // routes with jobs that no worker serves
	Oldest                        time.Duration
}

// shardedQueue is a queue that consists of shards.
type shardedQueue struct {
	Name        string
	Generations []shardGeneration // the newest first
}

// shardGeneration are the shards of a generation.
type shardGeneration struct {
	Number                           int
	Current                          bool
	Shards                           []shard
	Ready, Active, Failed, Completed int
	Unseen                           int // shards without keys on this server
}

// shard is a queue of a sharded queue.
type shard struct {
	Name                             string
	Index                            int
	Ready, Active, Failed, Completed int
	Paused                           bool
	Percent                          float64 // of the ready jobs of the fullest shard
	Err                              error
}

func (*routesPage) live() livePage { return livePage{Topics: []string{allQueues}} }

func (d *Dashboard) routesAndShards(r *http.Request) (any, error) {
	names, err := d.queueNames(r)
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		_, _, isRoute := routeOf(name)
		_, _, _, isShard := shardOf(name)
		return !isRoute && !isShard
	})
	summaries, err := d.summariesOf(r, names)
	if err != nil {
		return nil, err
	}
	workers, err := sharedRead(d, r, workersTopic, keyOf("routes", names), func(ctx context.Context) ([]bullmq.WorkerInfo, error) {
		if len(names) == 0 {
			return nil, nil
		}
		return bullmq.ListWorkers(ctx, d.connection, d.o.Prefix, names...)
	})
	if err != nil {
		return nil, err
	}
	return &routesPage{Routed: routedQueues(summaries, workers), Sharded: shardedQueues(summaries)}, nil
}

// routedQueues returns the queues with routes, in the order of their names.
func routedQueues(summaries []bullmq.QueueSummary, workers []bullmq.WorkerInfo) (routed []routedQueue) {
	served := map[string]bool{}
	for _, worker := range workers {
		for _, name := range worker.Queues {
			served[name] = served[name] || !worker.Stopping
		}
	}
	found := map[string]*routedQueue{}
	for _, summary := range summaries {
		base, _, ok := routeOf(summary.Name)
		if !ok {
			continue
		}
		queue := found[base]
		if queue == nil {
			queue = &routedQueue{Name: base}
			found[base] = queue
		}
		ready := readyJobs(summary)
		queue.Routes++
		queue.Ready += ready
		queue.Active += summary.Counts[bullmq.StateActive]
		queue.Failed += summary.Counts[bullmq.StateFailed]
		queue.Oldest = max(queue.Oldest, summary.Ages[bullmq.StateWaiting], summary.Ages[bullmq.StatePrioritized])
		if ready > 0 && !served[summary.Name] {
			queue.Unserved++
		}
	}
	for _, queue := range found {
		routed = append(routed, *queue)
	}
	slices.SortFunc(routed, func(a, b routedQueue) int { return strings.Compare(a.Name, b.Name) })
	return routed
}

func readyJobs(s bullmq.QueueSummary) int {
	return s.Counts[bullmq.StateWaiting] + s.Counts[bullmq.StatePrioritized]
}

// routeOf returns the queue and the target of a route. It returns false for other names.
func routeOf(name string) (queue string, target bullmq.Target, ok bool) {
	at := strings.LastIndexByte(name, '@')
	if at <= 0 {
		return "", target, false
	}
	separator := "+"
	if strings.Contains(name[at:], "|") {
		separator, target.Mode = "|", bullmq.MatchAny
	}
	for need := range strings.SplitSeq(name[at+1:], separator) {
		kind, value, _ := strings.Cut(need, "=")
		switch kind {
		case "stack":
			target.Stack = value
		case "region":
			target.Region = value
		case "server":
			target.Server = value
		default:
			target.Capabilities = append(target.Capabilities, need)
		}
	}
	same, err := target.Route(name[:at])
	return name[:at], target, err == nil && same == name
}

// queueRoutesPage is what the page of the routes of a queue shows.
type queueRoutesPage struct {
	Queue  string
	Routes []routeRow
}

// routeRow is a route in the list.
type routeRow struct {
	bullmq.RouteInfo
	Needs          []string
	Any            bool
	Active, Failed int
	Unserved       bool // jobs wait, and no worker serves the route
}

// live updates the page when a route has changed, which is a queue of its own.
func (p *queueRoutesPage) live() livePage {
	page := livePage{Topics: []string{p.Queue}}
	for _, route := range p.Routes {
		page.Topics = append(page.Topics, route.Name)
	}
	return page
}

// readRoutes reads the routes of a queue, also those that a viewer may not see.
func (d *Dashboard) readRoutes(r *http.Request) ([]bullmq.RouteInfo, error) {
	queue, err := d.open(r)
	if err != nil {
		return nil, err
	}
	defer queue.Close()
	return queue.Routes(r.Context())
}

func (d *Dashboard) queueRoutes(r *http.Request) (any, error) {
	routes, err := sharedRead(d, r, allQueues, r.URL.EscapedPath(), func(ctx context.Context) ([]bullmq.RouteInfo, error) { return d.readRoutes(r.WithContext(ctx)) })
	if err != nil {
		return nil, err
	}
	page := &queueRoutesPage{Queue: r.PathValue("queue")}
	for _, route := range routes {
		if !d.sees(r, route.Name) {
			continue
		}
		row := routeRow{RouteInfo: route, Any: route.Target.Mode == bullmq.MatchAny, Active: route.Counts[bullmq.StateActive], Failed: route.Counts[bullmq.StateFailed]}
		row.Needs = slices.Clone(route.Target.Capabilities)
		for _, need := range []struct{ name, value string }{{"stack", route.Target.Stack}, {"region", route.Target.Region}, {"server", route.Target.Server}} {
			if need.value != "" {
				row.Needs = append(row.Needs, need.name+" "+need.value)
			}
		}
		row.Unserved = !route.IsServed()
		page.Routes = append(page.Routes, row)
	}
	slices.SortStableFunc(page.Routes, func(a, b routeRow) int {
		return cmp.Compare(boolRank(b.Unserved && b.Ready > 0), boolRank(a.Unserved && a.Ready > 0))
	})
	return page, nil
}

func boolRank(b bool) int {
	if b {
		return 1
	}
	return 0
}

var shardName = regexp.MustCompile(`^\{(.+?)(?:\.([0-9]{1,9}))?-([0-9]{1,4})\}$`)

// shardOf returns the sharded queue, the generation and the index of a shard. It returns false
// for other names.
func shardOf(name string) (queue string, generation, index int, ok bool) {
	found := shardName.FindStringSubmatch(name)
	if found == nil {
		return "", 0, 0, false
	}
	generation, _ = strconv.Atoi("0" + found[2])
	index, _ = strconv.Atoi(found[3])
	return found[1], generation, index, index < bullmq.MaxShards
}

// shardedQueues returns the sharded queues with their shards.
func shardedQueues(summaries []bullmq.QueueSummary) (queues []shardedQueue) {
	found := map[string]map[int]*shardGeneration{}
	for _, summary := range summaries {
		name, number, index, ok := shardOf(summary.Name)
		if !ok {
			continue
		}
		if found[name] == nil {
			found[name] = map[int]*shardGeneration{}
		}
		g := found[name][number]
		if g == nil {
			g = &shardGeneration{Number: number}
			found[name][number] = g
		}
		s := shard{
			Name: summary.Name, Index: index, Ready: readyJobs(summary), Active: summary.Counts[bullmq.StateActive],
			Failed: summary.Counts[bullmq.StateFailed], Completed: summary.Counts[bullmq.StateCompleted], Paused: summary.Paused, Err: summary.Err,
		}
		g.Shards = append(g.Shards, s)
		g.Ready += s.Ready
		g.Active += s.Active
		g.Failed += s.Failed
		g.Completed += s.Completed
	}
	for name, generations := range found {
		queue := shardedQueue{Name: name}
		for _, g := range generations {
			g.finish()
			queue.Generations = append(queue.Generations, *g)
		}
		slices.SortFunc(queue.Generations, func(a, b shardGeneration) int { return b.Number - a.Number })
		queue.Generations[0].Current = true
		queues = append(queues, queue)
	}
	slices.SortFunc(queues, func(a, b shardedQueue) int { return strings.Compare(a.Name, b.Name) })
	return queues
}

// finish sorts the shards, and compares them with the fullest one.
func (g *shardGeneration) finish() {
	slices.SortFunc(g.Shards, func(a, b shard) int { return a.Index - b.Index })
	g.Unseen = g.Shards[len(g.Shards)-1].Index + 1 - len(g.Shards)
	fullest := 0
	for _, s := range g.Shards {
		fullest = max(fullest, s.Ready)
	}
	for i := range g.Shards {
		if fullest > 0 {
			g.Shards[i].Percent = 100 * float64(g.Shards[i].Ready) / float64(fullest)
		}
	}
}
