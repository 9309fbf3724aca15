package bullmq

import (
	"context"
	"time"

	"github.com/redis/rueidis"
)

// markerWatch waits for the queue's marker, which producers set to wake idle
// workers.
type markerWatch struct {
	conn   *blockingConn
	out    chan popped // of the wait under way
	cancel context.CancelFunc
}

// popped is how a wait ended: with a marker, with none (member ""), or not
// at all (err).
type popped struct {
	member string
	score  float64
	err    error
}

// Servers before 7.0.8 take 1 ms for ever.
const shortestBlock = 2 * time.Millisecond

func newMarkerWatch(c *core, clientName string) *markerWatch {
	return &markerWatch{conn: &blockingConn{core: c, name: clientName}}
}

// pop starts to wait; the answer comes on the channel. One wait at a time.
func (m *markerWatch) pop(timeout time.Duration) <-chan popped {
	timeout = min(max(timeout, shortestBlock), longestBlock)
	out := make(chan popped, 1)
	ctx, cancel := context.WithCancel(context.Background())
	m.out, m.cancel = out, cancel
	go func() {
		defer cancel()
		out <- readPopped(m.conn.wait(ctx, timeout, func(b rueidis.Builder) rueidis.Completed {
			return b.Bzpopmin().Key(m.conn.core.keys.of("marker")).Timeout(timeout.Seconds()).Build()
		}))
	}()
	return out
}

func readPopped(result rueidis.RedisResult) popped {
	answer, err := result.ToArray()
	switch {
	case rueidis.IsRedisNil(err):
		return popped{}
	case err != nil:
		return popped{err: err}
	case len(answer) < 3:
		return popped{}
	}
	var p popped
	if p.member, err = answer[1].ToString(); err != nil {
		return popped{err: err}
	}
	p.score, _ = answer[2].AsFloat64()
	return p
}

// ended tells that an answer has been read from the channel of pop.
func (m *markerWatch) ended() { m.out = nil }

// stop ends a wait that is under way. A marker that came at the last moment is
// put back, for other workers to be woken by.
func (m *markerWatch) stop() {
	if m.out == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), unblockWait)
	defer cancel()
	if !m.conn.unblock(ctx) {
		m.cancel()
	}
	var p popped
	select {
	case p = <-m.out:
	case <-ctx.Done():
		m.cancel()
		p = <-m.out
	}
	m.ended()
	if p.member == "" {
		return
	}
	put, cancelPut := context.WithTimeout(context.Background(), unblockWait)
	defer cancelPut()
	if err := m.conn.core.store.PutMarker(put, p.member, p.score); err != nil {
		m.conn.core.log.Warn().Err(err).Msg("a wake-up could not be handed on; idle workers look by themselves within their DrainDelay")
	}
}

func (m *markerWatch) close() {
	m.stop()
	m.conn.close()
}
