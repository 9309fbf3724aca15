package backend

import "time"

// Node is what a server tells of itself. A number that it does not tell is negative, and so is
// a duration, except for ClockOffset.
type Node struct {
	Address string
	// Err is why the server can't be reached, or can't serve. The other fields then have no
	// meaning.
	Err error

	Latency     time.Duration // of a PING
	ClockOffset time.Duration // by which its clock is ahead of this machine's
	ClockErr    error         // why ClockOffset is not known
	InfoErr     error         // why the fields below are not known

	Product, Version string // such as Redis and 7.2.4; "" if unknown
	Mode             string // "standalone", "sentinel" or "cluster"
	Replica          bool
	Uptime           time.Duration

	Clients, BlockedClients, MaxClients int
	UsedMemory, PeakMemory, MaxMemory   int64 // bytes; MaxMemory is 0 for no limit
	EvictionPolicy                      string
	EvictedKeys                         int64
	CommandsPerSecond                   int
	Keys                                int64 // of the database in use

	Replicas         int
	ReplicaLag       time.Duration
	ReplicaLagBytes  int64
	ReplicationError string
}
