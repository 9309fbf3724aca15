package bullmq

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"strings"
)

// DefaultPrefix is the first part of every key if the option Prefix is not set. All
// clients of a queue must use the same prefix.
const DefaultPrefix = "bull"

// layout lists the keys <prefix>:<queue>:<suffix> of a queue in Redis. A script receives
// these keys of its queue. It builds other keys itself, because their names become known
// only while it runs: the keys of jobs, which are in keyFamilies, and the keys of a
// parent's queue.
var layout = []struct{ suffix, kind, meaning string }{
	{"wait", "list", "ready jobs without priority; newest first, fetched from the end"},
	{"paused", "list", "waiting jobs of BullMQ 5 while the queue is paused"},
	{"active", "list", "running jobs"},
	{"prioritized", "zset", "ready jobs with a priority; score priority*2^32 + order of arrival"},
	{"delayed", "zset", "jobs that are due later; score due ms*4096 + order"},
	{"waiting-children", "zset", "parents with pending children; score the time in ms"},
	{"completed", "zset", "completed jobs; score the time in ms"},
	{"failed", "zset", "failed jobs; score the time in ms"},
	{"marker", "zset", `wakes idle workers: "0" a job is ready, "1" the next delayed job, score its ms`},
	{"stalled", "set", "jobs that the last stalled check found in active and no renewal has cleared"},
	{"stalled-check", "string", "prevents another stalled check within the interval; expires"},
	{"limiter", "string", "jobs started in the rate limit's window; expires with it"},
	{"id", "string", "last job number"},
	{"pc", "string", "order of arrival among prioritized jobs"},
	{"meta", "hash", "paused, concurrency, max, duration, opts.maxLenEvents, version"},
	{"events", "stream", "events, for QueueEvents"},
	{"repeat", "zset", "job schedulers; score the next run's ms"},
	{"metrics:completed", "hash", "count, prevTS, prevCount; the minutes are in metrics:completed:data"},
	{"metrics:failed", "hash", "count, prevTS, prevCount; the minutes are in metrics:failed:data"},
	{"metrics:completed:data", "list", "jobs completed in each minute, newest first"},
	{"metrics:failed:data", "list", "jobs failed in each minute, newest first"},
}

// keyFamilies lists the keys <prefix>:<queue>:<start><name><end>, which contain the
// name of a job, a scheduler or a deduplication id.
var keyFamilies = []struct{ start, end, kind, meaning string }{
	{"de:", "", "string", "owner of a deduplication id; expires with its ttl"},
	{"dn:", "", "hash", "the newest add while the owner of a deduplication id runs (keepLastIfActive)"},
	{"repeat:", "", "hash", "a job scheduler's record"},
	{"", "", "hash", "a job: name, data, opts, timestamp, delay, priority, and its progress and results"},
	{"", ":lock", "string", "token of the worker that runs the job; expires unless renewed"},
	{"", ":logs", "list", "rows of the job's log"},
	{"", ":dependencies", "set", "keys of the children that have not finished"},
	{"", ":processed", "hash", "key of a completed child to its return value"},
	{"", ":failed", "hash", "key of a failed child that was ignored to its reason"},
	{"", ":unsuccessful", "zset", "keys of failed children that fail the parent"},
}

// isKeyName reports whether the hash of a job with this id would collide with a key
// of the layout.
func isKeyName(id string) bool {
	for _, key := range layout {
		if key.suffix == id {
			return true
		}
	}
	return false
}

// keys builds the keys of one queue.
type keys struct {
	prefix, queue string
	base          string // bull:orders:
	bySuffix      map[string]string
}

// baseOf returns the first part of the keys of a queue, with the last colon.
func baseOf(prefix, queue string) string { return prefix + ":" + queue + ":" }

// checkNames returns an error if a queue can't have this prefix and this name.
func checkNames(prefix, queue string) error {
	if queue == "" {
		return fmt.Errorf("bullmq: a queue needs a name")
	}
	if strings.Contains(queue, ":") {
		return fmt.Errorf("bullmq: queue name %.80q must not contain a colon, which separates the parts of a key; put it into the prefix instead", queue)
	}
	if err := cmp.Or(checkText("the queue name", queue), checkText("the prefix", prefix)); err != nil {
		return fmt.Errorf("bullmq: %w", err)
	}
	return nil
}

func newKeys(prefix, queue string) (*keys, error) {
	if prefix == "" {
		prefix = DefaultPrefix
	}
	if err := checkNames(prefix, queue); err != nil {
		return nil, err
	}
	k := &keys{prefix: prefix, queue: queue, base: baseOf(prefix, queue)}
	k.bySuffix = make(map[string]string, len(layout))
	for _, key := range layout {
		k.bySuffix[key.suffix] = k.base + key.suffix
	}
	return k, nil
}

// named returns the key with a suffix of the layout.
func (k *keys) named(suffix string) string {
	key, ok := k.bySuffix[suffix]
	if !ok {
		panic("bullmq: the layout has no key " + suffix)
	}
	return key
}

// jobKey returns the key of a job's hash. Parents refer to a child by it.
func (k *keys) jobKey(id string) string { return k.base + id }

// qualifiedName returns the queue's name with its prefix, such as bull:orders. Children
// refer to the parent's queue by it.
func (k *keys) qualifiedName() string { return k.prefix + ":" + k.queue }

// clientName returns the connection name by which BullMQ finds a queue's workers and
// event readers in CLIENT LIST: the prefix, the queue in base64 and a suffix.
func (k *keys) clientName(suffix string) string {
	return k.prefix + ":" + base64.StdEncoding.EncodeToString([]byte(k.queue)) + suffix
}

// jobIDOf returns the id of the job that a key belongs to. It returns false if the key
// belongs to the queue, a scheduler or a deduplication id.
func (k *keys) jobIDOf(key string) (string, bool) {
	name, ok := strings.CutPrefix(key, k.base)
	if !ok || name == "" {
		return "", false
	}
	if _, isLayout := k.bySuffix[name]; isLayout {
		return "", false
	}
	for _, family := range keyFamilies {
		if family.start != "" && strings.HasPrefix(name, family.start) {
			return "", false
		}
	}
	for _, family := range keyFamilies {
		if family.end != "" && strings.HasSuffix(name, family.end) {
			return strings.TrimSuffix(name, family.end), true
		}
	}
	return name, true
}
