package main

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

const (
	keysPerScan   = 1000
	scansHere     = 500 // to find other prefixes
	scansBeside   = 50  // to find queues in each other database
	mostDatabases = 16
	mostNamed     = 10 // names in a finding
	mostDescribed = 50 // queues with other prefixes that are looked at
)

// queueKey names a queue.
type queueKey struct{ prefix, name string }

// examineNames finds out which queues there are, and looks for queues whose names may be
// mistaken for others. It leaves the queues that exist in d.names.
func (d *doctor) examineNames(ctx context.Context) error {
	if !d.named {
		for name, err := range bullmq.ListQueues(ctx, d.connection, d.c.prefix) {
			if err != nil {
				return err
			}
			d.names = append(d.names, name)
		}
		slices.Sort(d.names)
	}
	here, whole, err := queuesOf(ctx, d.redis, scansHere)
	if err != nil {
		return fmt.Errorf("bullmq: doctor: scan the keys: %w", err)
	}
	if !whole {
		d.find(severityInfo, "", "names", fmt.Sprintf("only %d of %d keys were scanned for queues with other prefixes", scansHere*keysPerScan, d.keys), "", "")
	}
	elsewhere := map[int]map[queueKey]bool{}
	for i, number := range d.otherDatabases(ctx) {
		if i == mostDatabases {
			break
		}
		if elsewhere[number], err = d.queuesOfDatabase(ctx, number); err != nil {
			return fmt.Errorf("bullmq: doctor: scan the keys of database %d: %w", number, err)
		}
	}
	if len(d.names) == 0 {
		d.examineEmpty(here, elsewhere)
	}
	exist := []string{}
	for _, name := range d.names {
		found, err := d.exists(ctx, name)
		if err != nil {
			return err
		}
		if found {
			exist = append(exist, name)
			here[queueKey{d.c.prefix, name}] = true
		} else {
			d.find(severityError, name, "absent", fmt.Sprintf("there is no queue %s with the prefix %s in this database", name, d.c.prefix),
				"No client has used this queue here. The producer and the worker may use another address, database, prefix or name.", d.typed("queues", ""))
		}
		if err := d.examineName(ctx, name, found, here, elsewhere); err != nil {
			return err
		}
	}
	d.names = exist
	return nil
}

// exists reports whether a queue has one of the keys that each queue has.
func (d *doctor) exists(ctx context.Context, name string) (bool, error) {
	if _, err := bullmq.SummarizeQueues(ctx, d.connection, d.c.prefix, name); err != nil {
		return false, err // the name is invalid
	}
	for _, suffix := range queueSuffixes {
		if n, err := d.redis.Do(ctx, d.redis.B().Exists().Key(d.c.prefix+":"+name+suffix).Build()).AsInt64(); err != nil || n > 0 {
			return n > 0, err
		}
	}
	return false, nil
}

// examineEmpty reports where there are queues, if there is none here.
func (d *doctor) examineEmpty(here map[queueKey]bool, elsewhere map[int]map[queueKey]bool) {
	d.find(severityError, "", "empty", fmt.Sprintf("there are no queues with the prefix %s in this database", d.c.prefix),
		"Producers and workers may use another address, database or prefix.", "")
	prefixes := map[string][]string{}
	for key := range here {
		prefixes[key.prefix] = append(prefixes[key.prefix], key.name)
	}
	for _, prefix := range slices.Sorted(maps.Keys(prefixes)) {
		if prefix != d.c.prefix {
			d.find(severityWarning, "", "prefix", fmt.Sprintf("with the prefix %s there are queues: %s", prefix, some(prefixes[prefix])), "", d.typedFor(prefix, "doctor", ""))
		}
	}
	for _, number := range slices.Sorted(maps.Keys(elsewhere)) {
		if names := namesOf(elsewhere[number]); len(names) > 0 {
			d.find(severityWarning, "", "database", fmt.Sprintf("database %d has queues: %s", number, some(names)), "", d.inDatabase(number, d.c.prefix, ""))
		}
	}
}

// examineName looks for queues that may be meant by the same name.
func (d *doctor) examineName(ctx context.Context, name string, found bool, here map[queueKey]bool, elsewhere map[int]map[queueKey]bool) error {
	severity, means := severityWarning, "These are different queues. A worker of one does not see the jobs of the other."
	if !found {
		severity, means = severityError, "The queue may be this one: use the same name and prefix in the producer and the worker."
	}
	for _, key := range slices.SortedFunc(maps.Keys(here), queueKey.compare) {
		switch {
		case key.name == name && key.prefix != d.c.prefix:
			check := "prefix"
			if withoutBraces(key.prefix) == withoutBraces(d.c.prefix) {
				check = "braces"
			}
			there, err := d.describe(ctx, key)
			if err != nil {
				return err
			}
			d.find(severity, name, check, fmt.Sprintf("there is a queue of this name with the prefix %s%s", key.prefix, there), means, d.typedFor(key.prefix, "doctor", name))
		case key.prefix != d.c.prefix || key.name == name:
		case withoutBraces(key.name) == withoutBraces(name):
			d.find(severity, name, "braces", fmt.Sprintf("there is also a queue %s: the names differ by braces", key.name), means, d.typed("doctor", key.name))
		case strings.EqualFold(strings.TrimSpace(key.name), strings.TrimSpace(name)):
			d.find(severity, name, "name", fmt.Sprintf("there is also a queue %s: the names differ by case or spaces", key.name), means, d.typed("doctor", key.name))
		}
	}
	for _, number := range slices.Sorted(maps.Keys(elsewhere)) {
		for _, key := range slices.SortedFunc(maps.Keys(elsewhere[number]), queueKey.compare) {
			if key.name == name {
				d.find(severity, name, "database", fmt.Sprintf("there is a queue of this name with the prefix %s in database %d; this is database %d", key.prefix, number, d.option.SelectDB),
					"A client uses the database at the end of its address. "+means, d.inDatabase(number, key.prefix, name))
			}
		}
	}
	return nil
}

// prefixedWorkers is a number of workers of a queue with another prefix.
type prefixedWorkers struct {
	prefix  string
	workers int
}

// describe tells what a queue with another prefix has, and keeps whether it has workers. It is
// silent about all queues but the first mostDescribed.
func (d *doctor) describe(ctx context.Context, key queueKey) (string, error) {
	if d.described++; d.described > mostDescribed {
		return "", nil
	}
	summaries, err := bullmq.SummarizeQueues(ctx, d.connection, key.prefix, key.name)
	if err != nil {
		return "", err
	}
	listening, err := bullmq.ListWorkers(ctx, d.connection, key.prefix, key.name)
	if err != nil {
		return "", err
	}
	if len(listening) > 0 && d.elsewhere[key.name].workers == 0 {
		if d.elsewhere == nil {
			d.elsewhere = map[string]prefixedWorkers{}
		}
		d.elsewhere[key.name] = prefixedWorkers{key.prefix, len(listening)}
	}
	if summaries[0].Err != nil {
		return "", nil // doctor with that prefix tells why
	}
	unfinished := 0
	for state, n := range summaries[0].Counts {
		if state != bullmq.StateCompleted && state != bullmq.StateFailed {
			unfinished += n
		}
	}
	return fmt.Sprintf("; it has %s and %s", workers(len(listening)), count(unfinished, "unfinished job", "unfinished jobs")), nil
}

func (k queueKey) compare(other queueKey) int {
	return strings.Compare(k.prefix+"\x00"+k.name, other.prefix+"\x00"+other.name)
}

// withoutBraces returns a name without the braces of a hash tag.
func withoutBraces(name string) string { return strings.NewReplacer("{", "", "}", "").Replace(name) }

// inDatabase returns the command that examines another database.
func (d *doctor) inDatabase(number int, prefix, name string) string {
	address, err := url.Parse(d.c.target.address)
	if err != nil {
		return ""
	}
	if d.c.target.profile != "" {
		return fmt.Sprintf("%s, with /%d at the end of the url of the profile", d.typedFor(prefix, "doctor", name), number)
	}
	if address.User != nil {
		return fmt.Sprintf("%s, with /%d at the end of REDIS_URL", d.typedFor(prefix, "doctor", name), number)
	}
	if address.Scheme == "unix" {
		query := address.Query()
		query.Set("db", fmt.Sprint(number))
		address.RawQuery = query.Encode()
	} else {
		address.Path = fmt.Sprintf("/%d", number)
	}
	return d.typedFor(prefix, "doctor", name, "--redis", shellWord(address.String()))
}

// queuesOfDatabase returns the queues of another database, as far as a bounded scan finds them.
func (d *doctor) queuesOfDatabase(ctx context.Context, number int) (map[queueKey]bool, error) {
	option := d.option
	option.SelectDB = number
	redis, err := rueidis.NewClient(option)
	if err != nil {
		return nil, err
	}
	defer redis.Close()
	found, _, err := queuesOf(ctx, redis, scansBeside)
	return found, err
}

// queueSuffixes are the ends of the keys by which a queue is found.
var queueSuffixes = []string{":meta", ":id", ":events"}

// queuesOf returns the queues of a database with any prefix, by a number of calls of SCAN at
// most. It reports whether it has seen all keys.
func queuesOf(ctx context.Context, redis rueidis.Client, calls int) (found map[queueKey]bool, whole bool, err error) {
	found, whole = map[queueKey]bool{}, true
	for _, node := range redis.Nodes() {
		for cursor := uint64(0); ; calls-- {
			if calls <= 0 {
				return found, false, nil
			}
			entry, err := node.Do(ctx, node.B().Scan().Cursor(cursor).Match("*:[iem][dve]*").Count(keysPerScan).Build()).AsScanEntry()
			if err != nil {
				return nil, false, err
			}
			for _, key := range entry.Elements {
				if queue, ok := queueOf(key); ok {
					found[queue] = true
				}
			}
			if cursor = entry.Cursor; cursor == 0 {
				break
			}
		}
	}
	return found, whole, nil
}

// queueOf returns the queue to which a key belongs that each queue has.
func queueOf(key string) (queueKey, bool) {
	for _, suffix := range queueSuffixes {
		rest, ok := strings.CutSuffix(key, suffix)
		colon := strings.LastIndexByte(rest, ':')
		if !ok || colon <= 0 || colon == len(rest)-1 || strings.Contains(rest, "@x:") {
			continue
		}
		return queueKey{rest[:colon], rest[colon+1:]}, true
	}
	return queueKey{}, false
}

func namesOf(queues map[queueKey]bool) (names []string) {
	for key := range queues {
		names = append(names, key.name)
	}
	return names
}

// some returns the first of some names, and how many there are besides.
func some(names []string) string {
	slices.Sort(names)
	names = slices.Compact(names)
	text := strings.Join(names[:min(mostNamed, len(names))], ", ")
	if more := len(names) - mostNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
