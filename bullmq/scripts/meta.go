package scripts

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/rueidis"
)

// Meta reads fields of the queue's meta hash; "" where one is missing.
func (q *Store) Meta(ctx context.Context, fields ...string) (values []string, err error) {
	defer q.about("the meta hash", &err)
	message, err := q.client.Do(ctx, q.client.B().Hmget().Key(q.keyOf("meta")).Field(fields...).Build()).ToMessage()
	if err != nil {
		return nil, err
	}
	values = texts(message)
	if len(values) != len(fields) {
		return nil, fmt.Errorf("%d fields were asked for, and %d came", len(fields), len(values))
	}
	return values, nil
}

// Signs are by what a queue's dialect is told: the version in meta, "" for none,
// and whether jobs are parked in paused.
func (q *Store) Signs(ctx context.Context) (version string, parked bool, err error) {
	defer q.about("the version", &err)
	results := q.client.DoMulti(ctx,
		q.client.B().Hget().Key(q.keyOf("meta")).Field("version").Build(),
		q.client.B().Exists().Key(q.keyOf("paused")).Build())
	if version, err = results[0].ToString(); err != nil && !rueidis.IsRedisNil(err) {
		return "", false, err
	}
	parked, err = results[1].AsBool()
	return version, parked, err
}

// SetMeta writes fields: name, value, name, value …
func (q *Store) SetMeta(ctx context.Context, pairs ...string) (err error) {
	defer q.about("changing the meta hash", &err)
	set := q.client.B().Hset().Key(q.keyOf("meta")).FieldValue()
	for i := 0; i+1 < len(pairs); i += 2 {
		set = set.FieldValue(pairs[i], pairs[i+1])
	}
	return q.client.Do(ctx, set.Build()).Error()
}

// RemoveMeta deletes fields.
func (q *Store) RemoveMeta(ctx context.Context, fields ...string) (err error) {
	defer q.about("changing the meta hash", &err)
	return q.client.Do(ctx, q.client.B().Hdel().Key(q.keyOf("meta")).Field(fields...).Build()).Error()
}

// Introduce tells the queue's other clients how long the stream is to be, and
// which version of the wire is spoken here where nobody has said so yet.
func (q *Store) Introduce(ctx context.Context, maxEvents int64, version string) error {
	for _, result := range q.client.DoMulti(ctx,
		q.client.B().Hset().Key(q.keyOf("meta")).FieldValue().FieldValue("opts.maxLenEvents", strconv.FormatInt(maxEvents, 10)).Build(),
		q.client.B().Hsetnx().Key(q.keyOf("meta")).Field("version").Value(version).Build(),
	) {
		if err := result.Error(); err != nil {
			return err
		}
	}
	return nil
}

// Delete deletes one of the queue's keys and answers whether it was there.
func (q *Store) Delete(ctx context.Context, suffix string) (there bool, err error) {
	defer q.about("deleting the key "+suffix, &err)
	n, err := q.client.Do(ctx, q.client.B().Del().Key(q.keyOf(suffix)).Build()).AsInt64()
	return n > 0, err
}

// DeletePriority deletes the key in which BullMQ 3 and older kept jobs by
// priority, and answers whether it was there.
func (q *Store) DeletePriority(ctx context.Context) (there bool, err error) {
	defer q.about("deleting the key priority", &err)
	n, err := q.client.Do(ctx, q.client.B().Del().Key(q.base+"priority").Build()).AsInt64()
	return n > 0, err
}

// DedupOwner is the job that owns a deduplication id, or "".
func (q *Store) DedupOwner(ctx context.Context, dedupID string) (owner string, err error) {
	defer q.about("the owner of deduplication id "+dedupID, &err)
	owner, err = q.client.Do(ctx, q.client.B().Get().Key(q.base+"de:"+dedupID).Build()).ToString()
	if rueidis.IsRedisNil(err) {
		return "", nil
	}
	return owner, err
}

// FreeDedup frees a deduplication id and answers whether anybody owned it.
func (q *Store) FreeDedup(ctx context.Context, dedupID string) (freed bool, err error) {
	defer q.about("freeing deduplication id "+dedupID, &err)
	n, err := q.client.Do(ctx, q.client.B().Del().Key(q.base+"de:"+dedupID).Build()).AsInt64()
	return n > 0, err
}

// TrimEvents cuts the stream to about max entries and answers how many went.
func (q *Store) TrimEvents(ctx context.Context, max int64) (n int64, err error) {
	defer q.about("trimming the events", &err)
	return q.client.Do(ctx, q.client.B().Xtrim().Key(q.keyOf("events")).Maxlen().Almost().Threshold(strconv.FormatInt(max, 10)).Build()).AsInt64()
}
