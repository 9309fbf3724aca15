package scripts

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
)

var (
	areInState           = load("areInState")
	jobsAfter            = load("jobsAfter")
	getCounts            = load("getCounts")
	getCountsPerPriority = load("getCountsPerPriority")
	getJobIDs            = load("getJobIds")
	getJobs              = load("getJobs")
	getMetrics           = load("getMetrics")
	getRateLimitTTL      = load("getRateLimitTtl")
	isMaxed              = load("isMaxed")
	pause                = load("pause")
	resume               = load("resume")
)

// Counts returns the numbers of jobs in states.
func (q *Store) Counts(ctx context.Context, states ...backend.State) ([]int, error) {
	return q.counts(ctx, getCounts, withStates(states, q.base, ""))
}

// CountDelayed counts the delayed jobs that are due before a time.
func (q *Store) CountDelayed(ctx context.Context, before time.Time) (int, error) {
	counts, err := q.counts(ctx, getCounts, []string{q.base, decimal(max(before.UnixMilli(), 0)), stateKey(backend.Delayed)})
	if err != nil {
		return 0, err
	}
	return counts[0], nil
}

// CountFinished counts the completed or failed jobs that finished before a time.
func (q *Store) CountFinished(ctx context.Context, state backend.State, before time.Time) (int, error) {
	counts, err := q.counts(ctx, getCounts, []string{q.base, decimal(max(before.UnixMilli(), 0)), stateKey(state)})
	if err != nil {
		return 0, err
	}
	return counts[0], nil
}

// CountsPerPriority returns the number of waiting jobs with each of the given
// priorities.
func (q *Store) CountsPerPriority(ctx context.Context, priorities ...int) ([]int, error) {
	args := []string{q.base}
	for _, priority := range priorities {
		args = append(args, strconv.Itoa(priority))
	}
	return q.counts(ctx, getCountsPerPriority, args)
}

// counts runs a command that returns a number for each of its trailing arguments.
func (q *Store) counts(ctx context.Context, c *command, args []string) ([]int, error) {
	numbers, err := q.numbers(ctx, c, len(args)-len(c.args), args...)
	if err != nil {
		return nil, err
	}
	counts := make([]int, len(numbers))
	for i, n := range numbers {
		counts[i] = int(n)
	}
	return counts, nil
}

// withStates appends the names of the keys of states to the arguments of a command.
func withStates(states []backend.State, args ...string) []string {
	for _, state := range states {
		args = append(args, stateKey(state))
	}
	return args
}

func (q *Store) pageArgs(page backend.Page, states []backend.State) []string {
	return withStates(states, q.base, strconv.Itoa(page.From), strconv.Itoa(page.To), flag(page.Ascending))
}

// largestPage is the number of jobs of a state that are read by one script. The hashes of
// more jobs are read in parts, so that Redis serves other clients in between.
const largestPage = 1000

// Jobs reads a page of the jobs of each state.
func (q *Store) Jobs(ctx context.Context, page backend.Page, states ...backend.State) ([]*backend.JobRecord, error) {
	if page.From < 0 || page.To < 0 || page.To-page.From >= largestPage {
		return q.manyJobs(ctx, page, states)
	}
	return q.jobsAtOnce(ctx, page, states)
}

// manyJobs reads the ids first, and then the hashes.
func (q *Store) manyJobs(ctx context.Context, page backend.Page, states []backend.State) (records []*backend.JobRecord, err error) {
	ids, err := q.JobIDs(ctx, page, states...)
	if err != nil {
		return nil, err
	}
	defer q.about("reading the jobs", &err)
	records = make([]*backend.JobRecord, 0, len(ids))
	for part := range slices.Chunk(ids, largestPage) {
		commands := make([]rueidis.Completed, len(part))
		for i, id := range part {
			commands[i] = q.client.B().Hgetall().Key(q.base + id).Build()
		}
		for i, result := range q.client.DoMulti(ctx, commands...) {
			record, err := readIfHash(part[i], result)
			switch {
			case err != nil:
				return nil, err
			case record != nil:
				records = append(records, record)
			case page.From >= 0 && page.To >= 0: // jobs that follow the page fill it
				return q.jobsAtOnce(ctx, page, states)
			}
		}
	}
	return records, nil
}

// jobsAtOnce reads the jobs by one script.
func (q *Store) jobsAtOnce(ctx context.Context, page backend.Page, states []backend.State) ([]*backend.JobRecord, error) {
	message, err := q.run(ctx, getJobs, q.pageArgs(page, states)...)
	if err != nil {
		return nil, err
	}
	pages, err := message.ToArray()
	if err != nil {
		return nil, q.unexpected(getJobs, err)
	}
	var records []*backend.JobRecord
	for _, page := range pages {
		rows, _ := page.ToArray()
		for _, row := range rows {
			if pair, _ := row.ToArray(); len(pair) == 2 {
				records = append(records, Record(text(pair[0]), texts(pair[1])))
			}
		}
	}
	return records, nil
}

// JobIDs reads the ids of a page of the jobs of each state.
func (q *Store) JobIDs(ctx context.Context, page backend.Page, states ...backend.State) ([]string, error) {
	return q.strings(ctx, getJobIDs, q.pageArgs(page, states)...)
}

// JobsAfter reads the ids of the jobs that follow a position.
func (q *Store) JobsAfter(ctx context.Context, state backend.State, after *backend.JobPosition, others []string, count int) ([]backend.JobPosition, error) {
	args := []string{q.base, stateKey(state), strconv.Itoa(count), "0", ""}
	if after != nil {
		args[3], args[4] = strconv.Itoa(after.Index), after.Score
		args = append(append(args, after.ID), others...)
	}
	message, err := q.run(ctx, jobsAfter, args...)
	if err != nil {
		return nil, err
	}
	reply, err := message.ToArray()
	if err != nil || len(reply)%2 != 1 {
		return nil, q.unexpected(jobsAfter, err)
	}
	first := integer(reply[0])
	jobs := make([]backend.JobPosition, 0, len(reply)/2)
	for i := 1; i < len(reply); i += 2 {
		jobs = append(jobs, backend.JobPosition{ID: text(reply[i]), Index: first + i/2, Score: text(reply[i+1])})
	}
	return jobs, nil
}

// AreInState returns the places of jobs in a state.
func (q *Store) AreInState(ctx context.Context, state backend.State, index int, ids []string) ([]int, error) {
	return q.counts(ctx, areInState, append([]string{q.base, stateKey(state), strconv.Itoa(index)}, ids...))
}

// Metrics reads the counts of finished jobs that workers have stored.
func (q *Store) Metrics(ctx context.Context, kind backend.State, from, to int) (backend.Metrics, error) {
	message, err := q.run(ctx, getMetrics, q.base, string(kind), strconv.Itoa(from), strconv.Itoa(to))
	if err != nil {
		return backend.Metrics{}, err
	}
	parts, err := message.ToArray()
	if err != nil || len(parts) != 3 {
		return backend.Metrics{}, q.unexpected(getMetrics, err)
	}
	points := texts(parts[1])
	metrics := backend.Metrics{Points: make([]int, len(points))}
	for i, point := range points {
		f, _ := strconv.ParseFloat(point, 64)
		metrics.Points[i] = int(f)
	}
	if head := texts(parts[0]); len(head) == 3 {
		count, _ := wire.ParseNumber(head[0])
		prevCount, _ := wire.ParseNumber(head[2])
		metrics.Count, metrics.PrevTime, metrics.PrevCount = int(count), wire.ParseTime(head[1]), int(prevCount)
	}
	total, _ := parts[2].AsInt64()
	metrics.Total = int(total)
	return metrics, nil
}

// RateLimitTTL returns how long the rate limit is still in effect. If max is 0 and the queue
// has no maximum, it returns the result of PTTL, which may be -1 or -2 milliseconds.
func (q *Store) RateLimitTTL(ctx context.Context, max int) (time.Duration, error) {
	message, err := q.run(ctx, getRateLimitTTL, q.base, strconv.Itoa(max))
	if err != nil {
		return 0, err
	}
	ms, err := message.AsInt64()
	return time.Duration(ms) * time.Millisecond, err
}

// IsMaxed reports whether the queue runs as many jobs as its global concurrency
// allows.
func (q *Store) IsMaxed(ctx context.Context) (bool, error) {
	n, err := q.number(ctx, isMaxed, "", q.base)
	return n == 1, err
}

// Pause stops the queue for all workers.
func (q *Store) Pause(ctx context.Context) error {
	_, err := q.number(ctx, pause, "", q.base)
	return err
}

// Resume ends the pause of the queue. It moves the jobs in the list paused of BullMQ 5
// back, 7000 in each call, and writes one event.
func (q *Store) Resume(ctx context.Context) error {
	for quiet := false; ; quiet = true {
		parked, err := q.number(ctx, resume, "", q.base, flag(quiet))
		if err != nil || parked == 0 {
			return err
		}
	}
}
