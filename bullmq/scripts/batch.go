package scripts

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

const (
	// maxPlain is the maximum number of plain jobs that one call adds. It is large enough
	// for calls to be cheap, and small enough for other clients' calls to run in between.
	maxPlain = 250
	// maxPipelined is the maximum number of jobs that are sent before the replies are read.
	maxPipelined = 1000
)

// addCall is a call that adds one job, or several plain jobs in a row.
type addCall struct {
	command *command
	args    []string
	jobs    []*backend.Add
}

// AddBatch adds jobs in order. Each job is added or refused independently. If the server or
// the connection fails in a round trip, no further jobs are sent.
func (q *Store) AddBatch(ctx context.Context, jobs []*backend.Add) []backend.AddResult {
	results := make([]backend.AddResult, len(jobs))
	for from := 0; from < len(jobs); from += maxPipelined {
		to := min(from+maxPipelined, len(jobs))
		if !q.addPipelined(ctx, q.addCalls(jobs[from:to]), results[from:to]) {
			setErr(results[to:], backend.ErrNotSent)
			break
		}
	}
	return results
}

// addCalls returns the calls that add jobs.
func (q *Store) addCalls(jobs []*backend.Add) []addCall {
	var calls []addCall
	for len(jobs) > 0 {
		n := 0
		for n < len(jobs) && n < maxPlain && jobs[n].IsPlain() {
			n++
		}
		call := addCall{command: addPlainJobs}
		if n > 0 {
			call.args = encodePlainAdds(q.base, jobs[:n])
		} else {
			n = 1
			call.command, call.args = addCommand(jobs[0]), encodeAdd(q.base, jobs[0], false)
		}
		call.jobs, jobs = jobs[:n], jobs[n:]
		calls = append(calls, call)
	}
	return calls
}

// addPipelined makes calls in one round trip and stores their results. It reports
// false if the server or the connection has failed.
func (q *Store) addPipelined(ctx context.Context, calls []addCall, results []backend.AddResult) bool {
	if len(calls) == 1 {
		message, err := q.run(ctx, calls[0].command, calls[0].args...)
		if err != nil {
			setErr(results, err)
			return false
		}
		q.addedAll(calls[0], message, results)
		return true
	}
	ok := true
	for i, result := range q.pipeline(ctx, calls) {
		of := results[:len(calls[i].jobs)]
		if message, err := result.ToMessage(); err != nil {
			ok = false
			setErr(of, q.failed(calls[i].command, err))
		} else {
			q.addedAll(calls[i], message, of)
		}
		results = results[len(of):]
	}
	return ok
}

// addedAll reads the results of the jobs that one call has added.
func (q *Store) addedAll(c addCall, message rueidis.RedisMessage, results []backend.AddResult) {
	if c.command != addPlainJobs {
		results[0] = q.added(c.jobs[0], message)
		return
	}
	first, err := message.AsInt64()
	if err != nil {
		setErr(results, q.unexpected(addPlainJobs, err))
		return
	}
	for i := range results {
		results[i].JobID = idText(first + int64(i))
	}
}

func setErr(results []backend.AddResult, err error) {
	for i := range results {
		results[i].Err = err
	}
}

// pipeline sends calls by EVALSHA. If the server did not know the script of some calls, these
// are sent once more by EVAL, in the same order. If the calls have different scripts, the
// first call of each script has its text from the beginning. Otherwise a server that knows
// only some of the scripts would carry out their calls before the others.
func (q *Store) pipeline(ctx context.Context, calls []addCall) []rueidis.RedisResult {
	build := func(c addCall, withText bool) rueidis.Completed {
		return q.call(q.client.B(), c.command, withText, c.args)
	}
	sent := make([]rueidis.Completed, len(calls))
	mixed := slices.ContainsFunc(calls, func(c addCall) bool { return c.command != calls[0].command })
	hasText := map[*command]bool{}
	for i, c := range calls {
		sent[i] = build(c, mixed && !hasText[c.command])
		hasText[c.command] = true
	}
	results := q.client.DoMulti(ctx, sent...)
	var unknown []int
	for i, result := range results {
		if IsNoScript(result.Error()) {
			unknown = append(unknown, i)
		}
	}
	if len(unknown) == 0 {
		return results
	}
	hasText = map[*command]bool{}
	again := make([]rueidis.Completed, len(unknown))
	for n, i := range unknown {
		again[n] = build(calls[i], !hasText[calls[i].command])
		hasText[calls[i].command] = true
	}
	for n, result := range q.client.DoMulti(ctx, again...) {
		// The scripts may have been flushed between EVAL and EVALSHA.
		if IsNoScript(result.Error()) {
			result = q.client.Do(ctx, build(calls[unknown[n]], true))
		}
		results[unknown[n]] = result
	}
	return results
}

// AddPlainJobs adds plain jobs to several queues, in one call.
func (g *Group) AddPlainJobs(ctx context.Context, adds []backend.QueueAdds) ([][]backend.AddResult, error) {
	queues, size := make([]string, len(adds)), 0
	for i, of := range adds {
		queues[i] = of.Queue
		size += 2 + 4*len(of.Jobs)
	}
	args := make([]string, 0, size)
	var last *backend.Add // the last one that was alone in its queue
	for _, of := range adds {
		if only := of.Jobs[0]; len(of.Jobs) == 1 && only.State == backend.Waiting && !only.LIFO {
			if last != nil && isLike(only, last) {
				args = append(args, "4", only.Data)
			} else {
				args = append(args, "0", only.Data, only.Name, only.Opts, timestampText(only))
			}
			last = only
			continue
		}
		at := len(args)
		args = append(args, "", "")
		with, kinds := appendPlainAdds(args, of.Jobs)
		args = with
		args[at], args[at+1] = kinds, strconv.Itoa(len(args)-at-2)
	}
	reply, err := g.run(ctx, addPlainJobsTo, queues, args...)
	if err != nil {
		return nil, err
	}
	results := make([][]backend.AddResult, len(adds))
	return results, g.each(addPlainJobsTo, queues, reply, func(i int, reply rueidis.RedisMessage) {
		results[i] = make([]backend.AddResult, len(adds[i].Jobs))
		first, err := reply.ToInt64()
		if err != nil {
			setErr(results[i], fmt.Errorf("bullmq: %s: %w", addPlainJobsTo.name, &backend.QueueError{Queue: queues[i], Text: text(reply)}))
			return
		}
		for n := range results[i] {
			results[i][n].JobID = idText(first + int64(n))
		}
	})
}
