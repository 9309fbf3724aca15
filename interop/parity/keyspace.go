package parity

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

// Keyspace is the contents of a Redis server.
type Keyspace map[string]Value

// Value is the value of one key. Type, Redis's name for it, determines which field is set.
type Value struct {
	Type    string
	Text    string            // string
	List    []string          // list, in order
	Members []string          // set, sorted
	Scored  []ScoredMember    // sorted set, in order
	Fields  map[string]string // hash
	Entries [][]Field         // stream, without the ids of the entries

	// Life is the time to live that the key was given, or nil if the key does not expire.
	Life *Span
}

// ScoredMember is a member of a sorted set.
type ScoredMember struct {
	Member string
	Score  float64
}

// Field is one field of a stream entry.
type Field struct{ Name, Value string }

// readKeyspace reads a whole server. ttls holds the remaining times to live at a moment within window.
// Nothing else may write meanwhile. A key that expires meanwhile is omitted.
func readKeyspace(ctx context.Context, client rueidis.Client) (keyspace Keyspace, ttls map[string]time.Duration, window Window, err error) {
	b := client.B
	names, err := client.Do(ctx, b().Keys().Pattern("*").Build()).AsStrSlice()
	if err != nil {
		return nil, nil, Window{}, fmt.Errorf("list keys: %w", err)
	}
	slices.Sort(names)

	about := make(rueidis.Commands, 0, 2*len(names))
	for _, name := range names {
		about = append(about, b().Type().Key(name).Build(), b().Pttl().Key(name).Build())
	}
	window.From = time.Now()
	responses := client.DoMulti(ctx, about...)
	window.To = time.Now()

	keyspace, ttls = make(Keyspace, len(names)), map[string]time.Duration{}
	var kept []string
	var reads rueidis.Commands
	for index, name := range names {
		kind, err := responses[2*index].ToString()
		if err != nil {
			return nil, nil, Window{}, fmt.Errorf("type of %s: %w", name, err)
		}
		ttl, err := responses[2*index+1].AsInt64()
		if err != nil {
			return nil, nil, Window{}, fmt.Errorf("time to live of %s: %w", name, err)
		}
		if kind == "none" {
			continue
		}
		read, err := readCommand(b(), kind, name)
		if err != nil {
			return nil, nil, Window{}, err
		}
		if ttl >= 0 {
			ttls[name] = time.Duration(ttl) * time.Millisecond
		}
		keyspace[name] = Value{Type: kind}
		kept, reads = append(kept, name), append(reads, read)
	}
	for index, response := range client.DoMulti(ctx, reads...) {
		value, err := parseValue(keyspace[kept[index]].Type, response)
		if err != nil {
			return nil, nil, Window{}, fmt.Errorf("read %s: %w", kept[index], err)
		}
		keyspace[kept[index]] = value
	}
	return keyspace, ttls, window, nil
}

func readCommand(b rueidis.Builder, kind, key string) (rueidis.Completed, error) {
	switch kind {
	case "string":
		return b.Get().Key(key).Build(), nil
	case "list":
		return b.Lrange().Key(key).Start(0).Stop(-1).Build(), nil
	case "set":
		return b.Smembers().Key(key).Build(), nil
	case "zset":
		return b.Zrange().Key(key).Min("0").Max("-1").Withscores().Build(), nil
	case "hash":
		return b.Hgetall().Key(key).Build(), nil
	case "stream":
		return b.Xrange().Key(key).Start("-").End("+").Build(), nil
	}
	return rueidis.Completed{}, fmt.Errorf("key %s has type %s, which cannot be compared", key, kind)
}

func parseValue(kind string, response rueidis.RedisResult) (Value, error) {
	value := Value{Type: kind}
	var err error
	switch kind {
	case "string":
		if value.Text, err = response.ToString(); rueidis.IsRedisNil(err) {
			err = nil // it has just expired
		}
	case "list":
		value.List, err = response.AsStrSlice()
	case "set":
		value.Members, err = response.AsStrSlice()
		slices.Sort(value.Members)
	case "zset":
		var scores []rueidis.ZScore
		scores, err = response.AsZScores()
		for _, score := range scores {
			value.Scored = append(value.Scored, ScoredMember{score.Member, score.Score})
		}
	case "hash":
		value.Fields, err = response.AsStrMap()
	case "stream":
		var entries []rueidis.XRangeSlice
		entries, err = response.AsXRangeSlices()
		for _, entry := range entries {
			fields := make([]Field, 0, len(entry.FieldValues))
			for _, field := range entry.FieldValues {
				fields = append(fields, Field{field.Field, field.Value})
			}
			value.Entries = append(value.Entries, fields)
		}
	}
	return value, err
}

func formatScore(score float64) string { return strconv.FormatFloat(score, 'f', -1, 64) }
