package redisconn

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

// Nodes asks the server what it is and how it does. On a cluster it asks each node, sorted by
// address.
func (c *Client) Nodes(ctx context.Context) []backend.Node {
	if !c.conn.IsCluster() {
		return []backend.Node{c.node(ctx, c.conn.address, c)}
	}
	if !c.begin() {
		return []backend.Node{{Address: c.conn.address, Err: backend.ErrClosed}}
	}
	defer c.conn.end()
	clients := c.conn.client.Nodes()
	addresses := slices.Sorted(maps.Keys(clients))
	nodes := make([]backend.Node, len(addresses))
	var all sync.WaitGroup
	for i, address := range addresses {
		all.Go(func() { nodes[i] = c.node(ctx, address, clients[address]) })
	}
	all.Wait()
	return nodes
}

// pings is how often a node is pinged. The first PING may open a connection.
const pings = 3

// node asks one server.
func (c *Client) node(ctx context.Context, address string, node Commands) backend.Node {
	n := newNode(address)
	hidden := func(err error) error { return hidePasswords(c.conn.option, err) }
	for range pings {
		start := time.Now()
		if err := node.Do(ctx, node.B().Ping().Build()).Error(); err != nil && !Classify(err).Lasting() {
			n.Err = hidden(err)
			return n
		}
		if took := time.Since(start); n.Latency < 0 || took < n.Latency {
			n.Latency = took
		}
	}
	start := time.Now()
	there, err := node.Do(ctx, node.B().Time().Build()).AsStrSlice()
	if end := time.Now(); err != nil {
		n.ClockErr = hidden(err)
	} else if len(there) != 2 {
		n.ClockErr = fmt.Errorf("TIME returns %d values", len(there))
	} else {
		seconds, _ := strconv.ParseInt(there[0], 10, 64)
		micros, _ := strconv.ParseInt(there[1], 10, 64)
		n.ClockOffset = time.Unix(seconds, micros*1000).Sub(start.Add(end.Sub(start) / 2))
	}
	results := node.DoMulti(ctx, node.B().Info().Build(), node.B().Dbsize().Build())
	if keys, err := results[1].AsInt64(); err == nil {
		n.Keys = keys
	}
	text, err := results[0].ToString()
	if err != nil {
		n.InfoErr = hidden(err)
		return n
	}
	describe(&n, text)
	return n
}

func newNode(address string) backend.Node {
	return backend.Node{
		Address: address, Latency: -1, Uptime: -1, Clients: -1, BlockedClients: -1, MaxClients: -1, UsedMemory: -1, PeakMemory: -1,
		MaxMemory: -1, EvictedKeys: -1, CommandsPerSecond: -1, Keys: -1, Replicas: -1, ReplicaLag: -1, ReplicaLagBytes: -1,
	}
}

// describe reads the reply to INFO.
func describe(n *backend.Node, text string) {
	info := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[name] = value
		}
	}
	number := func(name string) int64 {
		value, err := strconv.ParseInt(info[name], 10, 64)
		if err != nil {
			return -1
		}
		return value
	}
	seconds := func(name string) time.Duration {
		if value := number(name); value >= 0 {
			return time.Duration(value) * time.Second
		}
		return -1
	}
	for _, product := range []struct{ name, field string }{{"Dragonfly", "dragonfly_version"}, {"Valkey", "valkey_version"}, {"Redis", "redis_version"}} {
		if version := info[product.field]; version != "" {
			n.Product, n.Version = product.name, strings.TrimPrefix(version, "df-v")
			break
		}
	}
	n.Mode, n.Replica = info["redis_mode"], info["role"] == "slave" || info["role"] == "replica"
	n.Uptime = seconds("uptime_in_seconds")
	n.Clients, n.BlockedClients, n.MaxClients = int(number("connected_clients")), int(number("blocked_clients")), int(number("maxclients"))
	n.UsedMemory, n.PeakMemory, n.MaxMemory = number("used_memory"), number("used_memory_peak"), number("maxmemory")
	n.EvictionPolicy, n.EvictedKeys = info["maxmemory_policy"], number("evicted_keys")
	n.CommandsPerSecond = int(number("instantaneous_ops_per_sec"))
	if n.Replica {
		n.ReplicaLag = seconds("master_last_io_seconds_ago")
		if status := info["master_link_status"]; status != "" && status != "up" {
			n.ReplicationError = "the link to the master is " + status
		}
		return
	}
	n.Replicas = int(number("connected_slaves"))
	offset := number("master_repl_offset")
	for i := range n.Replicas {
		replica, ok := info["slave"+strconv.Itoa(i)]
		if !ok { // Redis lists all of them
			break
		}
		fields := map[string]string{}
		for pair := range strings.SplitSeq(replica, ",") {
			name, value, _ := strings.Cut(pair, "=")
			fields[name] = value
		}
		if state := fields["state"]; state != "" && state != "online" && state != "stable_sync" {
			n.ReplicationError = "the replica " + fields["ip"] + ":" + fields["port"] + " is in the state " + state
		}
		if lag, err := strconv.ParseInt(fields["lag"], 10, 64); err == nil && lag >= 0 {
			n.ReplicaLag = max(n.ReplicaLag, time.Duration(lag)*time.Second)
		}
		if at, err := strconv.ParseInt(fields["offset"], 10, 64); err == nil && offset >= 0 {
			n.ReplicaLagBytes = max(n.ReplicaLagBytes, offset-at)
		}
	}
}
