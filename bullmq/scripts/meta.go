package scripts

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
)

// metaFields are the fields of the queue's meta hash that Meta reads.
var metaFields = []string{"version", "paused", "concurrency", "max", "duration", "opts.maxLenEvents"}

// Meta reads the queue's settings.
func (q *Store) Meta(ctx context.Context) (_ backend.Meta, err error) {
	defer q.about("the meta hash", &err)
	message, err := q.client.Do(ctx, q.client.B().Hmget().Key(q.keyOf("meta")).Field(metaFields...).Build()).ToMessage()
	if err != nil {
		return backend.Meta{}, err
	}
	values := texts(message)
	if len(values) != len(metaFields) {
		return backend.Meta{}, fmt.Errorf("%d fields were requested, and %d returned", len(metaFields), len(values))
	}
	meta := backend.Meta{Version: values[0], Paused: values[1] != "", HasMax: values[3] != "", MaxEvents: maxEvents(values[5])}
	if values[2] != "" {
		meta.Concurrency = new(number(values[2]))
	}
	if values[3] != "" && values[4] != "" {
		meta.RateLimit = &backend.RateLimit{Max: number(values[3]), Duration: wire.ParseMillis(values[4])}
	}
	return meta, nil
}

// maxEvents parses opts.maxLenEvents. It returns [backend.NoEvents] for the number 0. It
// returns 0 for a missing field and for a text with characters other than digits. For these
// the scripts use the default. It also returns 0 for a number beyond int64, which the
// scripts use as it is.
func maxEvents(stored string) int {
	n, err := strconv.ParseUint(stored, 10, 63)
	switch {
	case err != nil:
		return 0
	case n == 0:
		return backend.NoEvents
	}
	return int(n)
}

// maxLength returns the maximum length of a stream that keeps this number of events.
func maxLength(maxEvents int) string { return strconv.Itoa(max(maxEvents, 0)) }

// DialectHints returns the data that determines a queue's dialect: the version in meta,
// or "", and whether the list "paused" has jobs.
func (q *Store) DialectHints(ctx context.Context) (version string, parked bool, err error) {
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

// SetGlobalConcurrency limits how many jobs run at the same time.
func (q *Store) SetGlobalConcurrency(ctx context.Context, concurrency *int) error {
	if concurrency == nil {
		return q.removeMeta(ctx, "concurrency")
	}
	return q.setMeta(ctx, "concurrency", strconv.Itoa(*concurrency))
}

// SetGlobalRateLimit limits how many jobs start within a period.
func (q *Store) SetGlobalRateLimit(ctx context.Context, limit *backend.RateLimit) error {
	if limit == nil {
		return q.removeMeta(ctx, "max", "duration")
	}
	return q.setMeta(ctx, "max", strconv.Itoa(limit.Max), "duration", wire.FormatMillis(limit.Duration))
}

// setMeta writes fields: name, value, name, value …
func (q *Store) setMeta(ctx context.Context, pairs ...string) (err error) {
	defer q.about("changing the meta hash", &err)
	set := q.client.B().Hset().Key(q.keyOf("meta")).FieldValue()
	for i := 0; i+1 < len(pairs); i += 2 {
		set = set.FieldValue(pairs[i], pairs[i+1])
	}
	return q.client.Do(ctx, set.Build()).Error()
}

func (q *Store) removeMeta(ctx context.Context, fields ...string) (err error) {
	defer q.about("changing the meta hash", &err)
	return q.client.Do(ctx, q.client.B().Hdel().Key(q.keyOf("meta")).Field(fields...).Build()).Error()
}

// InitMeta stores the number of events to keep. It also stores the version, unless
// another client has stored its own.
func (q *Store) InitMeta(ctx context.Context, maxEvents int, version string) error {
	for _, result := range q.client.DoMulti(ctx,
		q.client.B().Hset().Key(q.keyOf("meta")).FieldValue().FieldValue("opts.maxLenEvents", maxLength(maxEvents)).Build(),
		q.client.B().Hsetnx().Key(q.keyOf("meta")).Field("version").Value(version).Build(),
	) {
		if err := result.Error(); err != nil {
			return err
		}
	}
	return nil
}

// StartRateLimit stops workers that obey a rate limit for a duration: all workers if the
// queue has a global rate limit, otherwise only those with a limiter.
func (q *Store) StartRateLimit(ctx context.Context, wait time.Duration) (err error) {
	defer q.about("the rate limit", &err)
	return q.client.Do(ctx, q.client.B().Set().Key(q.keyOf("limiter")).Value("9007199254740991").PxMilliseconds(wait.Milliseconds()).Build()).Error()
}

// RemoveRateLimit ends the current window of the rate limit.
func (q *Store) RemoveRateLimit(ctx context.Context) (removed bool, err error) {
	defer q.about("ending the rate limit", &err)
	n, err := q.client.Do(ctx, q.client.B().Del().Key(q.keyOf("limiter")).Build()).AsInt64()
	return n > 0, err
}

// DeduplicationOwner returns the job that owns a deduplication id.
func (q *Store) DeduplicationOwner(ctx context.Context, dedupID string) (owner string, err error) {
	defer q.about("the owner of deduplication id "+dedupID, &err)
	owner, err = q.client.Do(ctx, q.client.B().Get().Key(q.base+"de:"+dedupID).Build()).ToString()
	if rueidis.IsRedisNil(err) {
		return "", nil
	}
	return owner, err
}

// FreeDeduplication removes the owner of a deduplication id.
func (q *Store) FreeDeduplication(ctx context.Context, dedupID string) (freed bool, err error) {
	defer q.about("freeing deduplication id "+dedupID, &err)
	n, err := q.client.Do(ctx, q.client.B().Del().Key(q.base+"de:"+dedupID).Build()).AsInt64()
	return n > 0, err
}
