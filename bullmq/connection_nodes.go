package bullmq

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

// RedisNode is what a server tells of itself. A number that the server does not tell is
// negative, and so is a duration, except for ClockOffset. A text that it does not tell is "".
type RedisNode struct {
	Address string // without user and password
	// Err is why the node can't be reached or can't serve, such as while it loads its data.
	// The other fields then have no meaning.
	Err error

	// Latency is the time of a PING from this program, the shortest of three.
	Latency time.Duration
	// ClockOffset is by how much the clock of the node is ahead of the clock of this machine,
	// to within half of the time that the call takes. ClockErr is why it is not known, such as
	// a lack of permission for TIME.
	ClockOffset time.Duration
	ClockErr    error
	// InfoErr is why the fields below, except for Keys, are not known, such as a lack of
	// permission for INFO.
	InfoErr error

	Product string // Redis, Valkey or Dragonfly; Redis for other servers that claim to be one
	Version string
	Cluster bool          // it is a node of a cluster
	Replica bool          // it is a replica
	Uptime  time.Duration // since its start

	Clients, BlockedClients int // that are connected; BlockedClients wait, such as idle workers
	MaxClients              int // maxclients

	UsedMemory, PeakMemory int64  // bytes
	MaxMemory              int64  // maxmemory, in bytes; 0 for no limit
	EvictionPolicy         string // maxmemory-policy; BullMQ needs noeviction
	EvictedKeys            int64  // since the start
	CommandsPerSecond      int    // in the last moments
	Keys                   int64  // of the database that the connection uses

	// Replicas is the number of connected replicas. ReplicaLag is how long ago the slowest of
	// them has acknowledged data, in whole seconds, and ReplicaLagBytes how much it has not
	// acknowledged. On a replica, ReplicaLag is how long ago it has heard from its master.
	Replicas        int
	ReplicaLag      time.Duration
	ReplicaLagBytes int64
	// ReplicationError tells of a replica that is not synchronized, or of a lost master.
	ReplicationError string
}

// Nodes asks the server of the connection for its version, memory, clients, replication,
// latency and clock. On a cluster it asks each node, at the same time, and returns them in the
// order of their addresses. Otherwise there is one node.
//
// What the user of the connection may not know, or the server does not tell, is left out.
// Nodes returns an error if no node can be reached. It makes six calls for each node, and
// returns when ctx ends, so give ctx a deadline.
func (c *Connection) Nodes(ctx context.Context) ([]RedisNode, error) {
	if c == nil || c.client == nil {
		return nil, errors.New("bullmq: ask the server: there is no Connection: make one with Connect, ConnectOption or ConnectClient")
	}
	found := c.client().Nodes(ctx)
	nodes, reached, failure := make([]RedisNode, len(found)), false, errors.New("no node is known")
	for i, node := range found {
		nodes[i] = redisNode(node)
		if reached = reached || node.Err == nil; node.Err != nil {
			failure = node.Err
		}
	}
	if !reached {
		return nil, fmt.Errorf("bullmq: ask Redis at %s: %w", c.address, failure)
	}
	return nodes, nil
}

func redisNode(n backend.Node) RedisNode {
	return RedisNode{
		Address: n.Address, Err: n.Err, Latency: n.Latency, ClockOffset: n.ClockOffset, ClockErr: n.ClockErr, InfoErr: n.InfoErr,
		Product: n.Product, Version: n.Version, Cluster: n.Mode == "cluster", Replica: n.Replica, Uptime: n.Uptime,
		Clients: n.Clients, BlockedClients: n.BlockedClients, MaxClients: n.MaxClients,
		UsedMemory: n.UsedMemory, PeakMemory: n.PeakMemory, MaxMemory: n.MaxMemory, EvictionPolicy: n.EvictionPolicy,
		EvictedKeys: n.EvictedKeys, CommandsPerSecond: n.CommandsPerSecond, Keys: n.Keys,
		Replicas: n.Replicas, ReplicaLag: n.ReplicaLag, ReplicaLagBytes: n.ReplicaLagBytes, ReplicationError: n.ReplicationError,
	}
}
