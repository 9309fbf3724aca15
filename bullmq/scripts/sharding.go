package scripts

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

// Sharding keeps the generations of one sharded queue in a hash: the number of each
// generation, and a record as JSON. It is safe for concurrent use and owns no connection.
type Sharding struct {
	client Client
	key    string
}

var _ backend.Sharding = (*Sharding)(nil)

// generation is the record of a generation.
type generation struct {
	Shards  int   `json:"shards"`
	Servers int   `json:"servers"`
	Since   int64 `json:"since"` // in ms
}

// NewSharding returns the generations of the sharded queue with this key prefix, such as
// bull:orders.
func NewSharding(client Client, name string) *Sharding {
	return &Sharding{client, name + "@x:shards"}
}

// Generations returns the generations in ascending order.
func (s *Sharding) Generations(ctx context.Context) ([]backend.Generation, error) {
	fields, err := s.client.Do(ctx, s.client.B().Hgetall().Key(s.key).Build()).AsStrMap()
	if err != nil {
		return nil, s.failed("reading", err)
	}
	all := make([]backend.Generation, 0, len(fields))
	for field, text := range fields {
		var g generation
		number, err := strconv.Atoi(field)
		if err != nil || number < 0 || json.Unmarshal([]byte(text), &g) != nil || g.Shards < 1 || g.Servers < 1 {
			return nil, s.failed("reading", fmt.Errorf("the field %.80q has the invalid value %.80q", field, text))
		}
		all = append(all, backend.Generation{Number: number, Shards: g.Shards, Servers: g.Servers, Since: time.UnixMilli(g.Since)})
	}
	slices.SortFunc(all, func(a, b backend.Generation) int { return cmp.Compare(a.Number, b.Number) })
	return all, nil
}

// AddGeneration stores a generation, unless there is one with this number.
func (s *Sharding) AddGeneration(ctx context.Context, g backend.Generation) (bool, error) {
	text, err := json.Marshal(generation{g.Shards, g.Servers, g.Since.UnixMilli()})
	if err != nil {
		return false, err
	}
	added, err := s.client.Do(ctx, s.client.B().Hsetnx().Key(s.key).Field(strconv.Itoa(g.Number)).Value(string(text)).Build()).AsBool()
	if err != nil {
		return false, s.failed("adding a generation", err)
	}
	return added, nil
}

// RemoveGenerations removes generations.
func (s *Sharding) RemoveGenerations(ctx context.Context, numbers ...int) error {
	if len(numbers) == 0 {
		return nil
	}
	fields := make([]string, len(numbers))
	for i, number := range numbers {
		fields[i] = strconv.Itoa(number)
	}
	if err := s.client.Do(ctx, s.client.B().Hdel().Key(s.key).Field(fields...).Build()).Error(); err != nil {
		return s.failed("removing generations", err)
	}
	return nil
}

func (s *Sharding) failed(what string, err error) error {
	return fmt.Errorf("bullmq: %s of the shards in %s: %w", what, s.key, err)
}
