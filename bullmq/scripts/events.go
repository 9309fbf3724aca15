package scripts

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

// Stream is the state of the events stream.
type Stream struct {
	First   string // the id of its first entry; "" if it has none
	Last    string // the last generated id, even if its entry was removed; "0-0" if there is no stream
	Deleted string // the greatest id that XDEL has removed; "0-0" if it has removed none, and before Redis 7.0
	Length  int64
	Added   int64 // entries added since the stream was created; -1 before Redis 7.0
}

// ReadStream reads the reply of XINFO STREAM.
func ReadStream(reply rueidis.RedisResult) (Stream, error) {
	info, err := reply.AsMap()
	if refused, ok := rueidis.IsRedisErr(err); ok && strings.Contains(refused.Error(), "no such key") {
		return Stream{Last: "0-0", Deleted: "0-0"}, nil
	}
	if err != nil {
		return Stream{}, err
	}
	s := Stream{Deleted: "0-0", Added: -1}
	last := info["last-generated-id"]
	if s.Last, err = last.ToString(); err != nil {
		return Stream{}, err
	}
	length := info["length"]
	if s.Length, err = length.AsInt64(); err != nil {
		return Stream{}, err
	}
	if first, err := entryID(info["first-entry"]); err == nil {
		s.First = first
	}
	if deleted, there := info["max-deleted-entry-id"]; there {
		if s.Deleted, err = deleted.ToString(); err != nil {
			return Stream{}, err
		}
	}
	if added, there := info["entries-added"]; there {
		if s.Added, err = added.AsInt64(); err != nil {
			return Stream{}, err
		}
	}
	return s, nil
}

// entryID is the id of an entry: id, [field, value …].
func entryID(entry rueidis.RedisMessage) (string, error) {
	parts, err := entry.ToArray()
	if err != nil || len(parts) == 0 {
		return "", err
	}
	return parts[0].ToString()
}

// LastEvent returns the position after the last event. The position has an actual id. With
// "$" instead, events added between two reads would be lost.
func (q *Store) LastEvent(ctx context.Context) (_ backend.EventPosition, err error) {
	defer q.about("the last event", &err)
	reply := q.client.Do(ctx, q.client.B().XinfoStream().Key(q.keyOf("events")).Build())
	if err := reply.NonRedisError(); err != nil {
		return backend.EventPosition{}, err
	}
	if s, err := ReadStream(reply); err == nil {
		return backend.EventPosition{ID: s.Last, Added: int(s.Added)}, nil
	}
	// Without XINFO, the last existing entry is the best approximation.
	entries, err := q.client.Do(ctx, q.client.B().Xrevrange().Key(q.keyOf("events")).End("+").Start("-").Count(1).Build()).AsXRange()
	if err != nil {
		return backend.EventPosition{}, err
	}
	last := backend.EventPosition{ID: "0-0", Added: -1}
	if len(entries) > 0 {
		last.ID = entries[0].ID
	}
	return last, nil
}

// Publish writes an event.
func (q *Store) Publish(ctx context.Context, maxEvents int, fields []string) (id string, err error) {
	defer q.about("an event", &err)
	entry := q.client.B().Xadd().Key(q.keyOf("events")).Maxlen().Almost().Threshold(maxLength(maxEvents)).Id("*").FieldValue()
	for i := 0; i+1 < len(fields); i += 2 {
		entry = entry.FieldValue(fields[i], fields[i+1])
	}
	return q.client.Do(ctx, entry.Build()).ToString()
}

// TrimEvents removes the oldest events.
func (q *Store) TrimEvents(ctx context.Context, keep int) (_ int, err error) {
	defer q.about("trimming the events", &err)
	n, err := q.client.Do(ctx, q.client.B().Xtrim().Key(q.keyOf("events")).Maxlen().Almost().Threshold(strconv.Itoa(keep)).Build()).AsInt64()
	return int(n), err
}

// FindEnd searches the stream backwards for the event with which a job completed or
// failed.
func (q *Store) FindEnd(ctx context.Context, jobID string) (end *backend.Event, err error) {
	defer q.about("the end of job "+jobID, &err)
	err = q.searchEvents(ctx, "-", "+", func(event backend.Event, kind, about string) bool {
		if about == jobID && (kind == "completed" || kind == "failed") {
			end = &event
		}
		return end == nil
	})
	return end, err
}

// JobEvents reads the events of a job between two ids, backwards.
func (q *Store) JobEvents(ctx context.Context, jobID, after, last string) (events []backend.Event, complete bool, err error) {
	defer q.about("the events of job "+jobID, &err)
	err = q.searchEvents(ctx, after, last, func(event backend.Event, _, about string) bool {
		switch {
		case event.ID == after:
			complete = true
		case about == jobID:
			events = append(events, event)
		}
		return true
	})
	slices.Reverse(events)
	return events, complete, err
}

// searchEvents reads the stream backwards from last to first, a thousand entries at a time,
// until visit returns false. kind and about are the type and the job of an event.
func (q *Store) searchEvents(ctx context.Context, first, last string, visit func(event backend.Event, kind, about string) bool) error {
	for {
		page, err := q.client.Do(ctx, q.client.B().Xrevrange().Key(q.keyOf("events")).End(last).Start(first).Count(1000).Build()).AsXRangeSlices()
		if err != nil {
			return err
		}
		for _, entry := range page {
			fields := make([]string, 0, 2*len(entry.FieldValues))
			kind, about := "", ""
			for _, pair := range entry.FieldValues {
				fields = append(fields, pair.Field, pair.Value)
				switch pair.Field {
				case "event":
					kind = pair.Value
				case "jobId":
					about = pair.Value
				}
			}
			if !visit(backend.Event{ID: entry.ID, Fields: fields}, kind, about) {
				return nil
			}
		}
		if len(page) < 1000 {
			return nil
		}
		last = "(" + page[len(page)-1].ID
	}
}
