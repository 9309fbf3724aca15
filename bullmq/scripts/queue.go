// Package scripts changes and reads the state of a queue in Redis. It has a Lua file for each
// command, and a typed call for each file. It implements the wire format and makes no
// decisions: for instance, times and retries are arguments. The reference is the keyspace and
// the events of npm bullmq 6.7.0.
//
// The API is not stable. Do not import this package outside this module.
package scripts

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
)

// Store calls the commands of one queue. It is safe for concurrent use and owns no
// connection.
type Store struct {
	client Client
	base   string
	keyOf  func(suffix string) string
	keys   sync.Map // *command to []string
	clock  serverClock

	Dialect // must be set before the first call
}

// Client makes calls to Redis, as a rueidis.Client does.
type Client interface {
	B() rueidis.Builder
	Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult
	DoMulti(ctx context.Context, commands ...rueidis.Completed) []rueidis.RedisResult
}

var (
	_ backend.Store    = (*Store)(nil)
	_ backend.Dialects = (*Store)(nil)
	_ backend.Repairer = (*Store)(nil)
)

// NewStore returns the store of a queue. base is its key prefix, such as bull:orders:,
// and keyOf returns the key with a suffix.
func NewStore(client Client, base string, keyOf func(suffix string) string) *Store {
	return &Store{client: client, base: base, keyOf: keyOf}
}

// Suffixes returns the suffixes of the keys that each command declares. A test compares
// them with the layout of a queue.
func Suffixes() map[string][]string {
	suffixes := map[string][]string{}
	for name, c := range commands {
		for _, f := range c.forms {
			suffixes[name] = append(suffixes[name], f.keys...)
		}
	}
	return suffixes
}

// Base returns the key prefix of the queue, such as bull:orders:.
func (q *Store) Base() string { return q.base }

// SetDialect sets the major version of BullMQ to write, 5 or 6, before any other call.
func (q *Store) SetDialect(major int) {
	q.Dialect = V6
	if major == 5 {
		q.Dialect = V5
	}
}

// CheckReach returns an error if a script can't reach both this queue and the given one. That
// is so on a cluster, unless the keys of both have the same hash tag.
func (q *Store) CheckReach(prefix, queue string) error {
	client, ok := q.client.(interface{ IsCluster() bool })
	if !ok || !client.IsCluster() {
		return nil
	}
	other, tag := strings.TrimPrefix(prefix+":"+queue, ":"), wire.HashTag(q.base)
	if tag != "" && wire.HashTag(other) == tag {
		return nil
	}
	return fmt.Errorf("on a cluster, jobs of one flow must be on queues with one hash tag, and %s and %s have not: put it into the prefix, such as {bull}, on every client of the queues",
		other, shown(q.base))
}

// keysOf returns the keys that a command declares.
func (q *Store) keysOf(c *command) []string {
	if keys, ok := q.keys.Load(c); ok {
		return keys.([]string)
	}
	suffixes := c.forms[q.Dialect].keys
	keys := make([]string, len(suffixes))
	for i, suffix := range suffixes {
		keys[i] = q.keyOf(suffix)
	}
	if len(keys) == 0 {
		keys = []string{q.base} // on a cluster, a call needs a key
	}
	q.keys.Store(c, keys)
	return keys
}

// run calls a command by EVALSHA. If the server doesn't know the script (first call,
// restart, SCRIPT FLUSH, eviction), it calls the command by EVAL. It does not retry
// after another error, because the command may have run.
func (q *Store) run(ctx context.Context, c *command, args ...string) (rueidis.RedisMessage, error) {
	result := q.client.Do(ctx, q.call(q.client.B(), c, false, args))
	if IsNoScript(result.Error()) {
		result = q.client.Do(ctx, q.call(q.client.B(), c, true, args))
	}
	message, err := result.ToMessage()
	if err != nil {
		if rueidis.IsRedisNil(err) {
			return message, nil
		}
		return message, q.failed(c, err)
	}
	return message, nil
}

// about adds the subject and the queue to the error of a plain Redis command. Callers defer
// it, with a pointer to the error that they return.
func (q *Store) about(what string, err *error) {
	if *err != nil && !rueidis.IsRedisNil(*err) {
		*err = fmt.Errorf("bullmq: %s of %s: %w", what, shown(q.base), *err)
	}
}

// failed returns the error of a call that has failed.
func (q *Store) failed(c *command, err error) error { return failed(c, q.base, err) }

func failed(c *command, base string, err error) error {
	return fmt.Errorf("bullmq: %s on %s: %w", c.name, shown(base), err)
}

// call returns the Redis command that calls a script, by its hash or with its text.
func (q *Store) call(b rueidis.Builder, c *command, withText bool, args []string) rueidis.Completed {
	c.check(args)
	f, keys := &c.forms[q.Dialect], q.keysOf(c)
	if withText {
		return b.Eval().Script(f.text).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()
	}
	return b.Evalsha().Sha1(f.sha).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()
}

// IsNoScript reports whether a call failed because the server doesn't know the script.
func IsNoScript(err error) bool {
	var refusal *rueidis.RedisError // which rueidis.IsRedisErr doesn't find when it is wrapped
	return errors.As(err, &refusal) && refusal.IsNoScript()
}

// check panics if a call has more arguments than its file declares.
func (c *command) check(args []string) {
	if len(args) > len(c.args) && !c.rest {
		panic(fmt.Sprintf("bullmq/scripts: %s takes %d arguments, got %d", c.name, len(c.args), len(args)))
	}
}

// number runs a command that returns a number. A negative number is an error code.
func (q *Store) number(ctx context.Context, c *command, jobID string, args ...string) (int64, error) {
	message, err := q.run(ctx, c, args...)
	if err != nil {
		return 0, err
	}
	n, err := message.AsInt64()
	if err != nil {
		return 0, q.unexpected(c, err)
	}
	if n < 0 {
		return 0, q.refusal(c, n, jobID, "")
	}
	return n, nil
}

// refusal returns the error of a command that returned an error code.
func (q *Store) refusal(c *command, code int64, jobID, detail string) error {
	return refusalOn(c, q.base, code, jobID, detail)
}

func refusalOn(c *command, base string, code int64, jobID, detail string) error {
	key := shown(base)
	name := key[strings.LastIndexByte(key, ':')+1:]
	return &backend.Error{Code: backend.Code(code), Command: c.name, QueueName: name, QueueKey: key, JobID: jobID, Detail: detail}
}

// unexpected returns the error of a reply that can't be read.
func (q *Store) unexpected(c *command, err error) error {
	return fmt.Errorf("bullmq: %s on %s: the reply has an unexpected form: %w", c.name, shown(q.base), err)
}

// strings runs a command that returns a list of strings.
func (q *Store) strings(ctx context.Context, c *command, args ...string) ([]string, error) {
	message, err := q.run(ctx, c, args...)
	if err != nil {
		return nil, err
	}
	return texts(message), nil
}

// numbers runs a command that returns count numbers.
func (q *Store) numbers(ctx context.Context, c *command, count int, args ...string) ([]int64, error) {
	message, err := q.run(ctx, c, args...)
	if err != nil {
		return nil, err
	}
	values, err := message.AsIntSlice()
	if err == nil && len(values) != count {
		err = fmt.Errorf("%d numbers, not %d", len(values), count)
	}
	if err != nil {
		return nil, q.unexpected(c, err)
	}
	return values, nil
}

// texts reads a list of strings. The server may have sent some of them as numbers.
func texts(message rueidis.RedisMessage) []string {
	values, err := message.ToArray()
	if err != nil {
		return nil
	}
	list := make([]string, len(values))
	for i, value := range values {
		list[i] = text(value)
	}
	return list
}

// text reads a string or a number; "" for anything else.
func text(message rueidis.RedisMessage) string {
	if s, err := message.ToString(); err == nil {
		return s
	}
	if n, err := message.AsInt64(); err == nil {
		return strconv.FormatInt(n, 10)
	}
	return ""
}

// flag writes a condition as an argument.
func flag(set bool) string {
	if set {
		return "1"
	}
	return ""
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }
