package backend

import (
	"context"
	"time"
)

// Generation is a set of shards of a sharded queue. Each change of the number of shards
// begins a generation.
type Generation struct {
	Number  int // 0 for the first
	Shards  int // number of shards
	Servers int // number of servers; shard i is on server i modulo Servers
	Since   time.Time
}

// Sharding keeps the generations of one sharded queue, for all its clients.
type Sharding interface {
	// Generations returns the generations in ascending order of their numbers. The last
	// one is the current one. There are none if the sharded queue does not exist yet.
	Generations(ctx context.Context) ([]Generation, error)
	// AddGeneration stores a generation, unless one with this number exists. It reports
	// whether it stored the generation.
	AddGeneration(ctx context.Context, g Generation) (bool, error)
	// RemoveGenerations removes generations. Those that do not exist are ignored.
	RemoveGenerations(ctx context.Context, numbers ...int) error
}
