package bullmq

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
)

// allStates are the states that Jobs and Counts read if none is given.
var allStates = []State{StateActive, StateCompleted, StateDelayed, StateFailed, StatePrioritized, StateWaiting, StateWaitingChildren}

// statesOf returns the states to read for the named states. In BullMQ 5, waiting jobs
// include the jobs in the list "paused".
func (c *core) statesOf(named []State) []State {
	if len(named) == 0 {
		named = allStates
	}
	if c.dialect == V5 && slices.Contains(named, StateWaiting) && !slices.Contains(named, StatePaused) {
		return append(slices.Clone(named), StatePaused)
	}
	return named
}

// checkStates returns an error for a state that does not exist. "wait" is another name
// of StateWaiting.
func (c *core) checkStates(verb string, states []State) error {
	for _, state := range states {
		if state != StatePaused && state != "wait" && !slices.Contains(allStates, state) {
			return fmt.Errorf("bullmq: %s of queue %s: there is no state %.80q; use the constants of State, such as StateWaiting", verb, c.keys.queue, state)
		}
	}
	return nil
}

// Job reads a job. It returns [ErrJobNotFound] if there is none (BullMQ: getJob).
func (q *Queue) Job(ctx context.Context, id string) (*Job, error) {
	return q.core.job(ctx, id)
}

// JobAndState reads a job and its state in one call, so that they agree. It returns
// [ErrJobNotFound] if there is no such job, or if the job is in no state of the queue.
//
// If the job is waiting or waits for children, Redis searches the list of waiting jobs.
// The call then takes longer if many jobs are waiting. This also holds for
// [Queue.JobState], but not for [Queue.Job].
func (q *Queue) JobAndState(ctx context.Context, id string) (*Job, State, error) {
	record, state, _, err := q.core.store.JobAndState(ctx, id, false)
	switch {
	case err != nil:
		return nil, "", err
	case record == nil || state == backend.Unknown:
		return nil, "", q.core.noJob("JobAndState", id)
	}
	return q.core.newJob(record), State(state), nil
}

// Job reads a job of the worker's queue, as [Queue.Job] does.
func (w *queueWorker) Job(ctx context.Context, id string) (*Job, error) {
	return w.core.job(ctx, id)
}

func (c *core) job(ctx context.Context, id string) (*Job, error) {
	record, err := c.store.Job(ctx, id)
	if err != nil {
		return nil, err
	}
	if record == nil {
		return nil, c.noJob("Job", id)
	}
	return c.newJob(record), nil
}

func (c *core) noJob(command, id string) error {
	return &Error{Code: backend.JobNotFound, Command: command, QueueName: c.keys.queue, QueueKey: c.keys.qualifiedName(), JobID: id}
}

// JobState returns the state of a job. It returns [ErrJobNotFound] if no state of the
// queue has the job (BullMQ: getJobState, which returns "unknown").
func (q *Queue) JobState(ctx context.Context, id string) (State, error) {
	return q.core.state(ctx, id)
}

func (c *core) state(ctx context.Context, id string) (State, error) {
	state, err := c.store.State(ctx, id)
	if err == nil && state == backend.Unknown {
		return "", c.noJob("getState", id)
	}
	return State(state), err
}

// Page selects a part of a list, newest entry first. The zero Page selects the first 100
// entries. [AllEntries] selects the whole list.
type Page struct {
	// Offset is the number of entries to skip.
	Offset int
	// Limit is the maximum number of entries. A number that is negative, or beyond the
	// largest safe integer of JavaScript, means no limit.
	// Defaults to 100.
	Limit int
	// Ascending returns the oldest entries first.
	Ascending bool
}

const defaultPageLimit = 100

// AllEntries returns the Page of all entries, oldest first.
func AllEntries() Page { return Page{Limit: -1, Ascending: true} }

// bounds returns the inclusive range of the page. -1 is the last entry.
func (p Page) bounds() (from, to int, err error) {
	if err := checkCount("Page.Offset", p.Offset, "the first entry"); err != nil {
		return 0, 0, fmt.Errorf("bullmq: read a page: %w", err)
	}
	if p.Offset > wire.MaxSafeInteger {
		return 0, 0, fmt.Errorf("bullmq: read a page: Page.Offset %d is too large; the largest is %d", p.Offset, wire.MaxSafeInteger)
	}
	if p.Limit < 0 || p.Limit > wire.MaxSafeInteger-p.Offset {
		return p.Offset, -1, nil
	}
	return p.Offset, p.Offset + cmp.Or(p.Limit, defaultPageLimit) - 1, nil
}

// reversed returns the range of the page in a list of the opposite order.
func (p Page) reversed() (from, to int, err error) {
	from, to, err = p.bounds()
	return -(to + 1), -(from + 1), err
}

func (p Page) stored() (backend.Page, error) {
	from, to, err := p.bounds()
	return backend.Page{From: from, To: to, Ascending: p.Ascending}, err
}

// Jobs returns jobs in the given states, one state after the other. page applies to each
// state separately. If no state is given, Jobs reads all states (BullMQ: getJobs). On a
// queue of BullMQ 5, StateWaiting includes StatePaused.
//
// A page of more than 1,000 jobs is read in several calls, so that Redis serves other
// clients in between. Jobs can then change while the page is read.
func (q *Queue) Jobs(ctx context.Context, page Page, states ...State) ([]*Job, error) {
	if err := q.core.checkStates("read the jobs", states); err != nil {
		return nil, err
	}
	states = q.core.statesOf(states)
	stored, err := page.stored()
	if err != nil {
		return nil, err
	}
	records, err := q.core.store.Jobs(ctx, stored, distinct(states)...)
	if err != nil {
		return nil, err
	}
	jobs := make([]*Job, 0, len(records))
	seen := make(map[string]bool, len(records))
	for _, record := range records {
		if !seen[record.ID] {
			seen[record.ID] = true
			jobs = append(jobs, q.core.newJob(record))
		}
	}
	return jobs, nil
}

// JobIDs returns the ids of jobs in the given states. page and states select the jobs as in
// [Queue.Jobs], but a given StateWaiting does not include StatePaused. JobIDs includes jobs
// whose hash no longer exists (BullMQ: getRanges).
func (q *Queue) JobIDs(ctx context.Context, page Page, states ...State) ([]string, error) {
	if err := q.core.checkStates("read the job ids", states); err != nil {
		return nil, err
	}
	if len(states) == 0 {
		states = q.core.statesOf(nil)
	}
	stored, err := page.stored()
	if err != nil {
		return nil, err
	}
	found, err := q.core.store.JobIDs(ctx, stored, distinct(states)...)
	if err != nil {
		return nil, err
	}
	ids := make([]string, 0, len(found))
	seen := make(map[string]bool, len(found))
	for _, id := range found {
		if !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// distinct returns the states without repetitions, under the store's names.
func distinct(states []State) []backend.State {
	var once []backend.State
	for _, state := range states {
		if state := backendState(state); !slices.Contains(once, state) {
			once = append(once, state)
		}
	}
	return once
}

// backendState returns a state under the store's name. "wait", the name of its key in
// Redis, means Waiting.
func backendState(state State) backend.State {
	if state == "wait" {
		return backend.Waiting
	}
	return backend.State(state)
}

// Counts returns the number of jobs in each given state. If no state is given, it counts
// the jobs in all states (BullMQ: getJobCounts).
//
// On a queue of BullMQ 5, waiting jobs are in StatePaused while the queue is paused. If
// StateWaiting is counted there, the result also has StatePaused.
func (q *Queue) Counts(ctx context.Context, states ...State) (map[State]int, error) {
	if err := q.core.checkStates("count the jobs", states); err != nil {
		return nil, err
	}
	states = q.core.statesOf(states)
	named := make([]backend.State, len(states))
	for i, state := range states {
		named[i] = backendState(state)
	}
	numbers, err := q.core.store.Counts(ctx, named...)
	if err != nil {
		return nil, err
	}
	counts := make(map[State]int, len(states))
	for i, state := range states {
		counts[state] = numbers[i]
	}
	return counts, nil
}

// Count returns how many jobs have not started: waiting, delayed, prioritized and
// waiting for children (BullMQ: count).
func (q *Queue) Count(ctx context.Context) (int, error) {
	counts, err := q.Counts(ctx, StateWaiting, StateDelayed, StatePrioritized, StateWaitingChildren)
	var sum int
	for _, n := range counts {
		sum += n
	}
	return sum, err
}

// CountsPerPriority returns the number of waiting jobs of each given priority. Priority
// 0 means jobs without one (BullMQ: getCountsPerPriority).
func (q *Queue) CountsPerPriority(ctx context.Context, priorities ...int) (map[int]int, error) {
	for _, priority := range priorities {
		if err := checkPriority(priority); err != nil {
			return nil, fmt.Errorf("bullmq: count the jobs of queue %s by priority: %w", q.Name(), err)
		}
	}
	numbers, err := q.core.store.CountsPerPriority(ctx, priorities...)
	if err != nil {
		return nil, err
	}
	counts := make(map[int]int, len(priorities))
	for i, priority := range priorities {
		counts[priority] = numbers[i]
	}
	return counts, nil
}

// JobMetrics holds the counts that workers with WorkerOptions.MetricsPoints have stored.
type JobMetrics struct {
	Count     int       // jobs in total
	PrevTime  time.Time // when the last point was recorded
	PrevCount int       // jobs in total at PrevTime
	Points    []int     // jobs in each minute of the page, newest first unless Page.Ascending is set
	Total     int       // number of stored points, one for each minute
}

// Metrics reads the counts of jobs that completed or failed (BullMQ: getMetrics). state is
// StateCompleted or StateFailed. The entries of page are minutes.
func (q *Queue) Metrics(ctx context.Context, state State, page Page) (JobMetrics, error) {
	if state != StateCompleted && state != StateFailed {
		return JobMetrics{}, fmt.Errorf("bullmq: read the metrics of queue %s: there are none of the state %.80q; use StateCompleted or StateFailed", q.Name(), state)
	}
	bounds := page.bounds
	if page.Ascending { // the points are stored newest first
		bounds = page.reversed
	}
	from, to, err := bounds()
	if err != nil {
		return JobMetrics{}, err
	}
	m, err := q.core.store.Metrics(ctx, backend.State(state), from, to)
	if err != nil {
		return JobMetrics{}, err
	}
	if page.Ascending {
		slices.Reverse(m.Points)
	}
	return JobMetrics(m), nil
}

// ConnectedClient is a worker or an event reader, of any BullMQ client library, as
// listed by Redis.
type ConnectedClient struct {
	// Name is the worker's name, or "" for a worker without a name and for event
	// readers.
	Name string
	// Fields is the whole entry of CLIENT LIST: addr, age, idle, cmd …
	Fields map[string]string
}

// ConnectedWorkers lists the connections of the workers of the queue (BullMQ: getWorkers).
// On a cluster it lists the clients of each node. The result is empty if the server does
// not permit CLIENT LIST. [Queue.Workers] lists the workers themselves.
func (q *Queue) ConnectedWorkers(ctx context.Context) ([]ConnectedClient, error) {
	return q.clients(ctx, q.core.workerName)
}

// CountWorkers returns, for each of several queues, the number of workers that
// [Queue.ConnectedWorkers] lists (BullMQ: getWorkersCount). The numbers are in the order of
// the queues. CountWorkers lists the clients of each Connection once.
func CountWorkers(ctx context.Context, queues ...*Queue) ([]int, error) {
	counts := make([]int, len(queues))
	lists := map[any][]backend.ConnectedClient{} // by connection
	for i, q := range queues {
		conn := q.core.client.Conn()
		clients, listed := lists[conn]
		if !listed {
			var err error
			if clients, err = q.core.conn.Clients(ctx); err != nil {
				return nil, err
			}
			lists[conn] = clients
		}
		for _, client := range clients {
			if _, ok := q.core.workerName(client.Name); ok {
				counts[i]++
			}
		}
	}
	return counts, nil
}

// workerName returns the name of the worker to which a connection belongs, given the name
// of the connection. It returns false if no worker of the queue has such a connection.
func (c *core) workerName(connection string) (string, bool) {
	unnamed := c.keys.clientName("")
	if connection == unnamed {
		return "", true
	}
	return strings.CutPrefix(connection, unnamed+":w:")
}

// ConnectedReaders lists the QueueEvents that are connected to the queue (BullMQ:
// getQueueEvents).
func (q *Queue) ConnectedReaders(ctx context.Context) ([]ConnectedClient, error) {
	wanted := q.core.keys.clientName(":qe")
	return q.clients(ctx, func(name string) (string, bool) { return "", name == wanted })
}

func (q *Queue) clients(ctx context.Context, match func(name string) (string, bool)) ([]ConnectedClient, error) {
	clients, err := q.core.conn.Clients(ctx)
	if err != nil {
		return nil, err
	}
	var found []ConnectedClient
	for _, client := range clients {
		if name, ok := match(client.Name); ok {
			found = append(found, ConnectedClient{Name: name, Fields: client.Fields})
		}
	}
	return found, nil
}
