package scripts

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

// ServeQueues ends jobs and then fetches others, of several queues.
func (g *Group) ServeQueues(ctx context.Context, s backend.Serve) (read func() (backend.Served, error)) {
	queues, args := encodeServe(s)
	reply, err := g.run(ctx, serveQueues, queues, args...)
	return func() (backend.Served, error) {
		if err != nil {
			return backend.Served{}, err
		}
		served, err := readServed(s, reply)
		if err != nil {
			err = aboutQueues(serveQueues.name, queues, err)
		}
		return served, err
	}
}

// encodeServe returns the queues of a call of serveQueues, and its arguments.
func encodeServe(s backend.Serve) (queues, args []string) {
	numbers := make(map[string]string, len(s.Ends)+len(s.Takes))
	number := func(queue string) string {
		n, known := numbers[queue]
		if !known {
			queues = append(queues, queue)
			n = strconv.Itoa(len(queues))
			numbers[queue] = n
		}
		return n
	}
	points, size := "", 6+len(s.Tokens)+3*len(s.Takes)
	if s.MetricsPoints > 0 {
		points = strconv.Itoa(s.MetricsPoints)
	}
	for _, of := range s.Ends {
		size += 3 + 3*len(of.Ends)
	}
	options := workerArgs(s.Worker)
	args = make([]string, 0, size)
	args = append(args, decimal(s.Now.UnixMilli()), points, options[0], options[1], strconv.Itoa(len(s.Tokens)), strconv.Itoa(len(s.Ends)))
	args = append(args, s.Tokens...)
	for _, of := range s.Ends {
		at := len(args)
		var kinds, value string
		args, kinds, value = appendEnds(append(args, number(of.Queue), "", ""), of.Ends, false)
		args[at+1], args[at+2] = kinds, value
	}
	for _, take := range s.Takes {
		limit := ""
		if take.Limit.Max > 0 {
			limit = strconv.Itoa(take.Limit.Max) + ":" + decimal(take.Limit.Duration.Milliseconds())
		}
		args = append(args, number(take.Queue), strconv.Itoa(take.Most), limit)
	}
	return queues, args
}

// readServed reads the reply of serveQueues.
func readServed(s backend.Serve, reply []rueidis.RedisMessage) (served backend.Served, err error) {
	if len(reply) < 3 {
		return served, errors.New("the reply has an unexpected form")
	}
	ended, err := reply[0].ToArray()
	if err == nil && len(ended) < len(s.Ends) {
		err = fmt.Errorf("the reply has an unexpected form: %d queues with ends", len(ended))
	}
	if err != nil {
		return served, err
	}
	served.Ends = make([]backend.QueueEnded, len(s.Ends))
	for i, of := range s.Ends {
		refused, err := errorOf(serveQueues, of.Queue, ended[i])
		if err != nil {
			served.Ends[i].Err = err
			continue
		}
		errs := make([]error, len(of.Ends))
		readRefused(of.Queue, of.Ends, refused, func(end int, why error) { errs[end] = why })
		served.Ends[i].Errs = errs
	}
	waiting, err := reply[2].AsIntSlice()
	if err != nil {
		return served, err
	}
	for _, n := range waiting {
		if n >= 1 && int(n) <= len(served.Ends) {
			served.Ends[n-1].Waiting = true
		}
	}
	taken, err := reply[1].ToArray()
	if err != nil {
		return served, err
	}
	if len(taken) > len(s.Takes) {
		return served, fmt.Errorf("the reply has an unexpected form: %d takes", len(taken))
	}
	served.Takes = make([]backend.Taken, len(taken))
	startedOn, tokens := time.UnixMilli(s.Now.UnixMilli()), s.Tokens
	for i := range taken {
		most := min(s.Takes[i].Most, len(tokens))
		served.Takes[i] = readTake(s.Takes[i].Queue, taken[i], tokens[:most], startedOn, s.Worker.Name)
		tokens = tokens[len(served.Takes[i].Jobs)+len(served.Takes[i].Tokens):]
	}
	return served, nil
}

// readTake reads the reply to a fetch from one queue with some tokens.
func readTake(queue string, reply rueidis.RedisMessage, tokens []string, startedOn time.Time, workerName string) (taken backend.Taken) {
	parts, err := errorOf(serveQueues, queue, reply)
	if err == nil && len(parts) < 4 {
		err = fmt.Errorf("bullmq: %s: %w", serveQueues.name, &backend.QueueError{Queue: queue, Text: "the reply has an unexpected form"})
	}
	if err != nil {
		return backend.Taken{Err: err, Tokens: tokens}
	}
	if limitedMs, _ := parts[1].AsInt64(); limitedMs > 0 {
		taken.LimitedFor = time.Duration(limitedMs) * time.Millisecond
	}
	if dueMs, _ := parts[2].AsInt64(); dueMs > 0 {
		taken.NextDue = time.UnixMilli(dueMs)
	}
	dry, _ := parts[3].AsInt64()
	taken.Dry = dry == 1
	jobs, _ := parts[0].ToArray()
	var last commonFields
	for _, token := range tokens {
		if len(jobs) < 2 {
			break
		}
		job, isBase, rest := last.next(jobs)
		jobs = rest
		if job.record == nil {
			break
		}
		one := backend.TakenJob{Job: job.started(startedOn, workerName), Token: token}
		if isBase {
			one.Hint = onlyBaseFields
		}
		taken.Jobs = append(taken.Jobs, one)
	}
	return taken
}

// ResolveFetches finds the jobs that a call whose reply was lost has locked.
func (g *Group) ResolveFetches(ctx context.Context, queues, tokens []string) ([]backend.LockedJob, error) {
	reply, err := g.run(ctx, resolveFetches, queues, tokens...)
	if err != nil {
		return nil, err
	}
	var locked []backend.LockedJob
	for ; len(reply) >= 4; reply = reply[4:] {
		n, _ := reply[0].AsInt64()
		id := text(reply[1])
		if n < 1 || int(n) > len(queues) || id == "" {
			continue
		}
		locked = append(locked, backend.LockedJob{Queue: queues[n-1], Job: Record(id, texts(reply[3])), Token: text(reply[2])})
	}
	return locked, nil
}
