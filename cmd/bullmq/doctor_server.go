package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	mostClockDifference = 2 * time.Second
	fullMemory          = 0.95 // of maxmemory
)

// examineServer looks at what all queues share. An ACL may forbid the commands; then nothing is
// found.
func (d *doctor) examineServer(ctx context.Context) error {
	info := d.info(ctx)
	d.examineVersion(info)
	d.examineMemory(info)
	d.examineClock(ctx)
	if err := d.redis.Do(ctx, d.redis.B().Arbitrary("CLIENT", "LIST").ReadOnly()).Error(); err != nil && ctx.Err() == nil {
		d.find(severityInfo, "", "clients", "CLIENT LIST is not permitted: "+err.Error(),
			"Workers of BullMQ for Node can't be seen. Only workers of this SDK are listed, which register themselves.", "")
	}
	d.keys, _ = d.redis.Do(ctx, d.redis.B().Dbsize().Build()).AsInt64()
	return ctx.Err()
}

// info returns the fields of INFO.
func (d *doctor) info(ctx context.Context) map[string]string {
	fields := map[string]string{}
	text, _ := d.redis.Do(ctx, d.redis.B().Info().Build()).ToString()
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields
}

func (d *doctor) examineVersion(info map[string]string) {
	server := "a server that does not tell its version"
	for _, kind := range [][2]string{{"valkey_version", "Valkey "}, {"dragonfly_version", "Dragonfly "}, {"redis_version", "Redis "}} {
		if info[kind[0]] != "" {
			server = kind[1] + info[kind[0]]
			break
		}
	}
	if info["server_name"] == "miniredis" {
		server = "the Redis of bullmq dev"
	}
	where := fmt.Sprintf("database %d", d.option.SelectDB)
	if d.cluster {
		where = "a cluster"
	}
	d.find(severityInfo, "", "server", fmt.Sprintf("%s at %s, %s, prefix %s", server, d.connection, where, d.c.prefix), "", "")
	if info["role"] == "slave" {
		d.find(severityError, "", "replica", "the server is a replica of "+info["master_host"]+":"+info["master_port"],
			"Clients can't change a replica, so workers fetch no jobs from it.", "bullmq doctor --redis "+shellWord("redis://"+info["master_host"]+":"+info["master_port"]))
	}
}

func (d *doctor) examineMemory(info map[string]string) {
	limit, _ := strconv.ParseFloat(info["maxmemory"], 64)
	used, _ := strconv.ParseFloat(info["used_memory"], 64)
	if policy := info["maxmemory_policy"]; policy != "" && policy != "noeviction" {
		severity, when := severityWarning, "When its memory is full"
		if limit == 0 {
			when = "If it gets a limit of memory (maxmemory) and reaches it"
		}
		d.find(severity, "", "eviction", "maxmemory-policy is "+policy, when+", Redis removes keys of queues. Jobs are then lost without an error.",
			"redis-cli CONFIG SET maxmemory-policy noeviction")
	}
	if limit > 0 && used >= fullMemory*limit {
		d.find(severityError, "", "memory", fmt.Sprintf("Redis uses %.0f%% of its memory: %.0f MiB of %.0f MiB", 100*used/limit, used/(1<<20), limit/(1<<20)),
			"At the limit, Redis refuses to add, fetch and finish jobs.", "redis-cli CONFIG SET maxmemory "+strconv.FormatInt(int64(2*limit), 10))
	}
}

// examineClock compares the clock of Redis with the clock of this machine.
func (d *doctor) examineClock(ctx context.Context) {
	before := time.Now()
	reply, err := d.redis.Do(ctx, d.redis.B().Time().Build()).AsIntSlice()
	if err != nil || len(reply) != 2 {
		return
	}
	roundTrip := time.Since(before)
	difference := time.Unix(reply[0], reply[1]*1000).Sub(before.Add(roundTrip / 2))
	if difference.Abs() < mostClockDifference+roundTrip/2 {
		return
	}
	word := "ahead of"
	if difference < 0 {
		word = "behind"
	}
	d.find(severityWarning, "", "clock", fmt.Sprintf("the clock of Redis is %s %s the clock of this machine", short(difference.Abs()), word),
		"Clients use their own clocks for delays, schedulers and ages. Between clients whose clocks differ, jobs run early or late.", "timedatectl status")
}

// otherDatabases returns the numbers of the other databases that have keys.
func (d *doctor) otherDatabases(ctx context.Context) (numbers []int) {
	if d.cluster {
		return nil
	}
	for field := range d.info(ctx) {
		if number, err := strconv.Atoi(strings.TrimPrefix(field, "db")); strings.HasPrefix(field, "db") && err == nil && number != d.option.SelectDB {
			numbers = append(numbers, number)
		}
	}
	slices.Sort(numbers)
	return numbers
}
