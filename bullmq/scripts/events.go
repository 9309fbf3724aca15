package scripts

import (
	"context"
	"strings"

	"github.com/redis/rueidis"
)

// LastEventID is the id after which the next event will come; a real one, for
// "$" would lose what comes between two reads.
func (q *Queue) LastEventID(ctx context.Context) (id string, err error) {
	defer q.about("the last event", &err)
	result := q.client.Do(ctx, q.client.B().XinfoStream().Key(q.keyOf("events")).Build())
	if err := result.NonRedisError(); err != nil {
		return "", err
	}
	info, err := result.AsMap()
	if refused, ok := rueidis.IsRedisErr(err); ok && strings.Contains(refused.Error(), "no such key") {
		return "0-0", nil
	}
	if err == nil {
		last := info["last-generated-id"]
		if id, err := last.ToString(); err == nil {
			return id, nil
		}
	}
	// A server without XINFO: the last entry there is.
	entries, err := q.client.Do(ctx, q.client.B().Xrevrange().Key(q.keyOf("events")).End("+").Start("-").Count(1).Build()).AsXRange()
	if err != nil {
		return "", err
	}
	if len(entries) == 0 {
		return "0-0", nil
	}
	return entries[0].ID, nil
}

// Publish writes an entry: field, value … in order.
func (q *Queue) Publish(ctx context.Context, maxEvents string, fields []string) (id string, err error) {
	defer q.about("an event", &err)
	entry := q.client.B().Xadd().Key(q.keyOf("events")).Maxlen().Almost().Threshold(maxEvents).Id("*").FieldValue()
	for i := 0; i+1 < len(fields); i += 2 {
		entry = entry.FieldValue(fields[i], fields[i+1])
	}
	return q.client.Do(ctx, entry.Build()).ToString()
}

// FindEnd looks back through the stream, a thousand entries at a time, for the
// entry that tells of a job's end, and answers its fields; nil when the stream
// remembers none.
func (q *Queue) FindEnd(ctx context.Context, jobID string) (fields []string, id string, err error) {
	defer q.about("the end of job "+jobID, &err)
	end := "+"
	for {
		page, err := q.client.Do(ctx, q.client.B().Xrevrange().Key(q.keyOf("events")).End(end).Start("-").Count(1000).Build()).AsXRangeSlices()
		if err != nil {
			return nil, "", err
		}
		for _, entry := range page {
			fields = fields[:0]
			event, about := "", ""
			for _, pair := range entry.FieldValues {
				fields = append(fields, pair.Field, pair.Value)
				switch pair.Field {
				case "event":
					event = pair.Value
				case "jobId":
					about = pair.Value
				}
			}
			if about == jobID && (event == "completed" || event == "failed") {
				return fields, entry.ID, nil
			}
		}
		if len(page) < 1000 {
			return nil, "", nil
		}
		end = "(" + page[len(page)-1].ID
	}
}
