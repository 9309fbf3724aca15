package scripts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

var (
	addPlainJobsTo    = load("addPlainJobsTo")
	serveQueues       = load("serveQueues")
	resolveFetches    = load("resolveFetches")
	lookAtQueues      = load("lookAtQueues")
	extendLocksOf     = load("extendLocksOf")
	moveStalledJobsOf = load("moveStalledJobsOf")
)

// Group calls the commands that concern several queues. Each call names its queues. A Group
// is safe for concurrent use and owns no connection.
type Group struct {
	client Client
	Dialect
}

var _ backend.Group = (*Group)(nil)

// NewGroup returns a Group that writes in a dialect.
func NewGroup(client Client, dialect Dialect) *Group { return &Group{client, dialect} }

// run calls a command, as [Store.run] does.
//
// As keys it passes the bases of the queues, which never exist as keys, and the key meta of
// the first queue, which may exist. So while a cluster moves the slot, neither node has all
// of these keys, and both nodes refuse the call with TRYAGAIN. With a single key, the new node
// would run the call, even if it has only some of the queues' keys.
func (g *Group) run(ctx context.Context, c *command, queues []string, args ...string) ([]rueidis.RedisMessage, error) {
	message, err := g.message(ctx, c, queues, args...)
	if err != nil {
		return nil, err
	}
	reply, err := message.ToArray()
	if err != nil {
		return nil, aboutQueues(c.name, queues, err)
	}
	return reply, nil
}

// message calls a command whose reply need not be a list.
func (g *Group) message(ctx context.Context, c *command, queues []string, args ...string) (rueidis.RedisMessage, error) {
	c.check(args)
	f, keys := &c.forms[g.Dialect], append(append(make([]string, 0, len(queues)+1), queues...), queues[0]+"meta")
	result := g.client.Do(ctx, g.client.B().Evalsha().Sha1(f.sha).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build())
	if IsNoScript(result.Error()) {
		result = g.client.Do(ctx, g.client.B().Eval().Script(f.text).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build())
	}
	message, err := result.ToMessage()
	if err != nil {
		return message, aboutQueues(c.name, queues, err)
	}
	return message, nil
}

// aboutQueues returns an error of a call about some queues.
func aboutQueues(what string, queues []string, err error) error {
	more := ""
	if len(queues) > 1 {
		more = fmt.Sprintf(" and %d more queues", len(queues)-1)
	}
	return fmt.Errorf("bullmq: %s on %s%s: %w", what, shown(queues[0]), more, err)
}

// each calls read with the reply of each queue. It returns an error if their number differs.
func (g *Group) each(c *command, queues []string, reply []rueidis.RedisMessage, read func(i int, reply rueidis.RedisMessage)) error {
	if len(reply) < len(queues) {
		return aboutQueues(c.name, queues, fmt.Errorf("the reply has an unexpected form: %d queues", len(reply)))
	}
	for i := range queues {
		read(i, reply[i])
	}
	return nil
}

// errorOf reads the reply of one queue, which is a list or the text of an error.
func errorOf(c *command, queue string, reply rueidis.RedisMessage) ([]rueidis.RedisMessage, error) {
	list, err := reply.ToArray()
	if err != nil {
		return nil, fmt.Errorf("bullmq: %s: %w", c.name, &backend.QueueError{Queue: queue, Text: text(reply)})
	}
	return list, nil
}

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

// The bits of a queue in the reply of lookAtQueues.
const (
	seenReady = 1 << iota
	seenRunning
	seenCancelled
	seenFailed
	seenVanished
)

// glance is the number of queues whose keys one EXISTS counts. A script takes several times
// as long for each queue, and most queues have none of the keys.
const glance = 16

// LookAtQueues finds the queues that need attention.
func (g *Group) LookAtQueues(ctx context.Context, queues []string, l backend.Look) ([]backend.Seen, error) {
	indexes, err := g.glance(ctx, queues, l)
	if err != nil || len(indexes) == 0 {
		return nil, err
	}
	looked := make([]string, len(indexes))
	for i, index := range indexes {
		looked[i] = queues[index]
	}
	reply, err := g.run(ctx, lookAtQueues, looked, flag(l.Quick), flag(l.Claim), flag(l.Failed), flag(l.Vanished))
	if err != nil {
		return nil, err
	}
	seen := make([]backend.Seen, 0, len(reply)/3)
	for ; len(reply) >= 3; reply = reply[3:] {
		n, _ := reply[0].AsInt64()
		bits, _ := reply[1].AsInt64()
		dueMs, _ := reply[2].AsInt64()
		if n < 1 || int(n) > len(indexes) {
			continue
		}
		one := backend.Seen{
			Index: indexes[n-1], Ready: bits&seenReady != 0, Running: bits&seenRunning != 0, Cancelled: bits&seenCancelled != 0,
			Failed: bits&seenFailed != 0, Vanished: bits&seenVanished != 0,
		}
		if dueMs > 0 {
			one.NextDue = time.UnixMilli(dueMs)
		}
		seen = append(seen, one)
	}
	return seen, nil
}

// glance returns the indexes of queues that may need attention. It counts, for each group of
// 16 queues, which of the keys exist that a look reads. If any exists, all queues of the
// group may need attention. For 16 queues or fewer it returns all indexes, without a call.
func (g *Group) glance(ctx context.Context, queues []string, l backend.Look) (indexes []int, err error) {
	if len(queues) <= glance {
		for i := range queues {
			indexes = append(indexes, i)
		}
		return indexes, nil
	}
	suffixes := []string{"marker"}
	if !l.Quick {
		suffixes = []string{"wait", "prioritized", "delayed", "active"}
		if l.Failed {
			suffixes = append(suffixes, "failed")
		}
	}
	exists := func(group []string, suffixes ...string) rueidis.Completed {
		keys := make([]string, 0, len(group)*len(suffixes))
		for _, queue := range group {
			for _, suffix := range suffixes {
				keys = append(keys, queue+suffix)
			}
		}
		return g.client.B().Exists().Key(keys...).Build()
	}
	commands := make([]rueidis.Completed, 0, 3*(len(queues)/glance+1))
	for group := range slices.Chunk(queues, glance) {
		commands = append(commands, exists(group, suffixes...))
		if !l.Quick {
			told := make([]string, len(group))
			for i, queue := range group {
				told[i] = cancelEventsKey(queue)
			}
			commands = append(commands, g.client.B().Exists().Key(told...).Build())
		}
		if l.Vanished && !l.Quick {
			commands = append(commands, exists(group, "meta"))
		}
	}
	results := g.client.DoMulti(ctx, commands...)
	next := func() (found int64, err error) {
		found, err = results[0].AsInt64()
		if results = results[1:]; err != nil {
			err = aboutQueues("a look", queues, err)
		}
		return found, err
	}
	for from := 0; from < len(queues); from += glance {
		to := min(from+glance, len(queues))
		found, err := next()
		if err == nil && !l.Quick {
			var told int64
			if told, err = next(); isForbidden(err) {
				err = nil
			}
			found += told
		}
		if err == nil && l.Vanished && !l.Quick {
			var metas int64
			metas, err = next()
			found += int64(to-from) - metas
		}
		if err != nil {
			return nil, err
		}
		if found == 0 {
			continue
		}
		for i := from; i < to; i++ {
			indexes = append(indexes, i)
		}
	}
	return indexes, nil
}

// isForbidden reports whether the user of the caller lacks the permission for a command.
func isForbidden(err error) bool {
	var refusal *rueidis.RedisError
	return errors.As(err, &refusal) && strings.HasPrefix(refusal.Error(), "NOPERM")
}

// ReturnDues sets markers again, with the times of delayed jobs.
func (g *Group) ReturnDues(ctx context.Context, dues []backend.QueueDue) error {
	commands := make([]rueidis.Completed, len(dues))
	for i, due := range dues {
		commands[i] = g.client.B().Zadd().Key(due.Queue+"marker").Lt().ScoreMember().ScoreMember(float64(due.At.UnixMilli()), "1").Build()
	}
	for i, result := range g.client.DoMulti(ctx, commands...) {
		if err := result.Error(); err != nil {
			return aboutQueues("the marker", []string{dues[i].Queue}, err)
		}
	}
	return nil
}

// ExtendLocksOf renews the locks of jobs.
func (g *Group) ExtendLocksOf(ctx context.Context, locks []backend.QueueLocks, duration time.Duration) ([]backend.QueueRenewal, error) {
	queues, args := make([]string, len(locks)), []string{decimal(duration.Milliseconds())}
	for i, of := range locks {
		queues[i] = of.Queue
		args = append(args, strconv.Itoa(len(of.Locks)))
		for _, lock := range of.Locks {
			args = append(args, lock.JobID, lock.Token)
		}
	}
	reply, err := g.run(ctx, extendLocksOf, queues, args...)
	if err != nil {
		return nil, err
	}
	renewals := make([]backend.QueueRenewal, len(locks))
	return renewals, g.each(extendLocksOf, queues, reply, func(i int, reply rueidis.RedisMessage) {
		parts, err := errorOf(extendLocksOf, queues[i], reply)
		if renewals[i].Err = err; len(parts) >= 2 {
			renewals[i].Renewal = readRenewal(parts)
		}
	})
}

// MoveStalledJobsOf makes one check for stalled jobs in each queue.
func (g *Group) MoveStalledJobsOf(ctx context.Context, queues []string, now time.Time, maxStalled int, interval time.Duration) ([]backend.QueueStalled, error) {
	reply, err := g.run(ctx, moveStalledJobsOf, queues, decimal(now.UnixMilli()), strconv.Itoa(maxStalled), decimal(interval.Milliseconds()))
	if err != nil {
		return nil, err
	}
	moved := make([]backend.QueueStalled, len(queues))
	return moved, g.each(moveStalledJobsOf, queues, reply, func(i int, reply rueidis.RedisMessage) {
		if _, moved[i].Err = errorOf(moveStalledJobsOf, queues[i], reply); moved[i].Err == nil {
			moved[i].JobIDs = texts(reply)
		}
	})
}

// CancelRequestsOf returns at most a thousand entries of each queue's stream after an id.
func (g *Group) CancelRequestsOf(ctx context.Context, after []backend.QueuePosition) ([][]backend.CancelRequest, error) {
	keys, ids := make([]string, len(after)), make([]string, len(after))
	for i, of := range after {
		keys[i], ids[i] = cancelEventsKey(of.Queue), of.After
	}
	requests := make([][]backend.CancelRequest, len(after))
	streams, err := g.client.Do(ctx, g.client.B().Xread().Count(1000).Streams().Key(keys...).Id(ids...).Build()).AsXRead()
	if err != nil && !rueidis.IsRedisNil(err) {
		queues := make([]string, len(after))
		for i, of := range after {
			queues[i] = of.Queue
		}
		return nil, aboutQueues("cancellations", queues, err)
	}
	for i, key := range keys {
		requests[i] = cancelRequests(streams[key])
	}
	return requests, nil
}

// DialectHintsOf returns the data that determines the dialect of each queue.
func (g *Group) DialectHintsOf(ctx context.Context, queues []string) ([]backend.QueueDialect, error) {
	commands := make([]rueidis.Completed, 0, 2*len(queues))
	for _, queue := range queues {
		commands = append(commands,
			g.client.B().Hget().Key(queue+"meta").Field("version").Build(),
			g.client.B().Exists().Key(queue+"paused").Build())
	}
	hints := make([]backend.QueueDialect, len(queues))
	results := g.client.DoMulti(ctx, commands...)
	for i := range hints {
		var err error
		if hints[i].Version, err = results[2*i].ToString(); err == nil || rueidis.IsRedisNil(err) {
			hints[i].Paused, err = results[2*i+1].AsBool()
		}
		hints[i].Err = err
	}
	return hints, nil
}
