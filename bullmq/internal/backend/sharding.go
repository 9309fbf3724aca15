package backend

import (
	"context"
	"time"
)

// Generation is a set of shards of a sharded queue. Each change of the number of shards
// begins a generation.
type Generation struct {
	Number  int // 0 for the first
	Shards  int // how many
	Servers int // on how many servers they are, shard i on server i modulo their number
	Since   time.Time
}

// Sharding keeps the generations of one sharded queue, for all its clients.
type Sharding interface {
	// Generations returns the generations in ascending order of their numbers. The last
	// one is the current one. There are none if the sharded queue does not exist yet.
	Generations(ctx context.Context) ([]Generation, error)
	// AddGeneration stores a generation and reports whether it did. It does not if there is
	// one with this number.
	AddGeneration(ctx context.Context, g Generation) (bool, error)
	// RemoveGenerations removes generations. Those that do not exist are ignored.
	RemoveGenerations(ctx context.Context, numbers ...int) error
}
