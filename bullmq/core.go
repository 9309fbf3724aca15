package bullmq

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
	"github.com/rs/zerolog"

	"github.com/17a2ac88/bullmq-go/bullmq/scripts"
)

// core is what everything about one queue shares: its keys, the commands that
// change it, a clock, a logger and a tracer.
type core struct {
	keys    *keys
	store   *scripts.Queue
	client  rueidis.Client
	now     func() time.Time
	isReal  bool    // now is the clock of this machine
	dialect Dialect // V6 or V5
	log     zerolog.Logger
	link    *link
	trace   tracer

	jobs *sync.Mutex // held while a method of a Job changes its fields

	// A worker's; nil for others.
	progressed func(job *Job, progress any)
	locks      *lockKeeper
}

func newCore(ctx context.Context, queue, prefix string, connection Connection, now func() time.Time, dialect Dialect, log zerolog.Logger) (*core, error) {
	k, err := newKeys(prefix, queue)
	if err != nil {
		return nil, err
	}
	log = log.With().Str("queue", queue).Logger()
	l, err := connection.open(ctx, k, log)
	if err != nil {
		return nil, err
	}
	isReal := now == nil
	if isReal {
		now = time.Now
	}
	c := &core{
		keys: k, store: scripts.NewQueue(l.client, k.base, k.of),
		client: l.client, now: now, isReal: isReal, log: log, link: l, jobs: &sync.Mutex{},
		trace: tracer{queue: queue},
	}
	if err := c.speak(ctx, dialect); err != nil {
		l.close()
		return nil, err
	}
	return c, nil
}

// at is another queue on the same connection, taken to speak the same dialect.
func (c *core) at(prefix, queue string) (*core, error) {
	k, err := newKeys(prefix, queue)
	if err != nil {
		return nil, err
	}
	other := *c
	other.keys, other.store = k, scripts.NewQueue(c.client, k.base, k.of)
	other.store.Dialect, other.trace.queue = c.store.Dialect, queue
	return &other, nil
}

// apart are the queue's commands over connections of their own, where that can
// be: a caller's client may have none to spare. open makes the first of these,
// so that no call has to wait for it.
func (c *core) apart() (store *scripts.Queue, open func()) {
	client, ok := c.client.(*closable)
	if !ok || !client.owned || c.client.Mode() == rueidis.ClientModeCluster {
		return c.store, func() {}
	}
	own := apart{client, int64(cmp.Or(c.link.option().BlockingPoolSize, rueidis.DefaultPoolSize)), &atomic.Int64{}, &atomic.Int64{}}
	store = scripts.NewQueue(own, c.keys.base, c.keys.of)
	store.Dialect = c.store.Dialect
	return store, own.open
}

func (c *core) nowMs() int64 { return c.now().UnixMilli() }

// inSlotOf refuses a call that needs keys of two queues where a cluster keeps
// them apart: no script and no transaction could reach both.
func (c *core) inSlotOf(other string) error {
	if c.client.Mode() != rueidis.ClientModeCluster || hashTag(other) == hashTag(c.keys.base) && c.keys.hashTagged() {
		return nil
	}
	return fmt.Errorf("on a cluster, jobs of one flow must be on queues with one hash tag, and %s and %s have not: put it into the prefix, such as {bull}, on every client of the queues",
		strings.TrimSuffix(other, ":"), c.keys.qualifiedName())
}
