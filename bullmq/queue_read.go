package bullmq

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

// allStates are those that Jobs and Counts look at when none is named.
var allStates = []State{StateActive, StateCompleted, StateDelayed, StateFailed, StatePrioritized, StateWaiting, StateWaitingChildren}

// statesOf are the states to look at for those that were named. In BullMQ 5 who
// asks for waiting jobs also gets those that a pause has parked.
func (c *core) statesOf(named []State) []State {
	if len(named) == 0 {
		named = allStates
	}
	if c.dialect == V5 && slices.Contains(named, StateWaiting) && !slices.Contains(named, StatePaused) {
		return append(slices.Clone(named), StatePaused)
	}
	return named
}

// Job reads a job. It returns [ErrJobNotFound] if there is none (BullMQ: getJob).
func (q *Queue) Job(ctx context.Context, id string) (*Job, error) {
	return q.core.job(ctx, id)
}

// Job reads a job of the worker's queue.
func (w *Worker) Job(ctx context.Context, id string) (*Job, error) {
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

// Page is a range of jobs. The zero Page{} is one job, the first, since both ends
// are inclusive: Page{To: 99} is the first 100 jobs, and All is every job.
// Negative positions count from the end: -1 is the last job.
type Page struct {
	From, To  int
	Ascending bool // oldest first
}

// AllJobs returns the Page of all jobs, oldest first.
func AllJobs() Page { return Page{To: -1, Ascending: true} }

// Jobs reads a page of each of some states, one after the other; of all states
// when none is named (BullMQ: getJobs).
func (q *Queue) Jobs(ctx context.Context, page Page, states ...State) ([]*Job, error) {
	states = q.core.statesOf(states)
	records, err := q.core.store.Jobs(ctx, backend.Page(page), distinct(states)...)
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

// JobIDs reads the ids of a page of each of some states, as Jobs does, also of
// jobs whose hash is gone (BullMQ: getRanges).
func (q *Queue) JobIDs(ctx context.Context, page Page, states ...State) ([]string, error) {
	if len(states) == 0 {
		states = q.core.statesOf(nil)
	}
	found, err := q.core.store.JobIDs(ctx, backend.Page(page), distinct(states)...)
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

// distinct returns states, each once, as the store names them.
func distinct(states []State) []backend.State {
	var once []backend.State
	for _, state := range states {
		if state := backendState(state); !slices.Contains(once, state) {
			once = append(once, state)
		}
	}
	return once
}

// backendState returns a state as the store names it. "wait", the name of its key
// in Redis, means Waiting.
func backendState(state State) backend.State {
	if state == "wait" {
		return backend.Waiting
	}
	return backend.State(state)
}

// Counts answers how many jobs stand in each of some states; in each of all
// when none is named (BullMQ: getJobCounts). On a queue of BullMQ 5 Waiting
// comes with Paused, where its jobs stand while the queue is paused.
func (q *Queue) Counts(ctx context.Context, states ...State) (map[State]int64, error) {
	states = q.core.statesOf(states)
	named := make([]backend.State, len(states))
	for i, state := range states {
		named[i] = backendState(state)
	}
	numbers, err := q.core.store.Counts(ctx, named...)
	if err != nil {
		return nil, err
	}
	counts := make(map[State]int64, len(states))
	for i, state := range states {
		counts[state] = int64(numbers[i])
	}
	return counts, nil
}

// Count answers how many jobs wait to be run: waiting, delayed, prioritized
// and waiting for children (BullMQ: count).
func (q *Queue) Count(ctx context.Context) (int64, error) {
	counts, err := q.Counts(ctx, StateWaiting, StateDelayed, StatePrioritized, StateWaitingChildren)
	var sum int64
	for _, n := range counts {
		sum += n
	}
	return sum, err
}

// CountsPerPriority answers how many jobs wait for each of some priorities; 0
// is those without one (BullMQ: getCountsPerPriority).
func (q *Queue) CountsPerPriority(ctx context.Context, priorities ...int) (map[int]int64, error) {
	numbers, err := q.core.store.CountsPerPriority(ctx, priorities...)
	if err != nil {
		return nil, err
	}
	counts := make(map[int]int64, len(priorities))
	for i, priority := range priorities {
		counts[priority] = int64(numbers[i])
	}
	return counts, nil
}

// JobMetrics is what workers with MetricsPoints have counted.
type JobMetrics struct {
	Count     int64     // jobs in all
	PrevTime  time.Time // of the last point
	PrevCount int64     // jobs until then
	Points    []int64   // jobs in each minute, newest first
	Total     int64     // how many points there are
}

// Metrics reads the counts of StateCompleted or StateFailed jobs, of a range of minutes,
// newest first, -1 the oldest (BullMQ: getMetrics).
func (q *Queue) Metrics(ctx context.Context, kind State, from, to int) (JobMetrics, error) {
	m, err := q.core.store.Metrics(ctx, backend.State(kind), from, to)
	if err != nil {
		return JobMetrics{}, err
	}
	points := make([]int64, len(m.Points))
	for i, point := range m.Points {
		points[i] = int64(point)
	}
	return JobMetrics{Count: int64(m.Count), PrevTime: m.PrevTime, PrevCount: int64(m.PrevCount), Points: points, Total: int64(m.Total)}, nil
}

// ConnectedClient is a worker or an event reader as Redis lists it, of any
// client library of BullMQ.
type ConnectedClient struct {
	// Name is the worker's own name; "" for one without, and for event readers.
	Name string
	// Fields is the whole entry of CLIENT LIST: addr, age, idle, cmd …
	Fields map[string]string
}

// Workers lists the workers that are connected to the queue. Empty where the
// server doesn't let clients be listed. On a cluster each node is asked
// (BullMQ: getWorkers).
func (q *Queue) Workers(ctx context.Context) ([]ConnectedClient, error) {
	unnamed := q.core.keys.clientName("")
	return q.clients(ctx, func(name string) (string, bool) {
		if name == unnamed {
			return "", true
		}
		return strings.CutPrefix(name, unnamed+":w:")
	})
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
