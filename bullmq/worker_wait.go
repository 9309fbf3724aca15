package bullmq

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/redisconn"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
)

// markerWatch waits for the queue's marker, which producers set to wake idle
// workers. One goroutine waits, begin before and end after; any may interrupt.
type markerWatch struct {
	core *core
	conn *redisconn.Blocking

	mu     sync.Mutex
	turn   int // counts the waits, so that an interrupt meets the one it is for
	begun  bool
	giveUp func() // ends the wait where Redis can't be asked to
	gaveUp bool   // it was called
}

// popped is how a wait ended: with a marker, with none (member ""), or not
// at all (err).
type popped struct {
	member string
	score  float64
	err    error
}

func newMarkerWatch(c *core, clientName string) *markerWatch {
	return &markerWatch{core: c, conn: c.newBlocking(clientName)}
}

// begin says that a wait is coming: from now on interrupt ends it, even
// before it has reached the server.
func (m *markerWatch) begin() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.turn++
	m.begun, m.gaveUp = true, false
}

func (m *markerWatch) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.begun, m.giveUp = false, nil
}

// waiting says whether there is a wait to interrupt.
func (m *markerWatch) waiting() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.begun
}

// wait blocks for at most a time. behind, which may be nil, makes a command that
// the server carries out when the wait ends, however it does; done is false
// where none was sent, for Redis can't be asked to end this wait, or there is a
// cluster between.
func (m *markerWatch) wait(timeout time.Duration, behind func(rueidis.Builder) rueidis.Completed) (p popped, answer rueidis.RedisResult, done bool) {
	timeout = min(max(timeout, timing.ShortestBlock), timing.LongestBlock)
	cancellable, cancel := context.WithCancel(context.Background())
	defer cancel()
	m.orElse(cancel)
	p = popped{err: m.conn.Connect(cancellable)}
	if p.err == nil {
		ctx := cancellable
		if m.conn.CanUnblock() {
			ctx = context.Background()
			m.orElse(m.conn.Drop)
			done = behind != nil
		}
		results := m.conn.Wait(ctx, timeout, func(b rueidis.Builder) []rueidis.Completed {
			commands := []rueidis.Completed{b.Bzpopmin().Key(m.core.keys.of("marker")).Timeout(timeout.Seconds()).Build()}
			if done {
				commands = append(commands, behind(b))
			}
			return commands
		})
		p = readPopped(results[0])
		answer = results[len(results)-1]
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gaveUp && p.err != nil { // as was wanted
		p.err = nil
	}
	return p, answer, done
}

// orElse sets what ends the wait where Redis can't be asked to.
func (m *markerWatch) orElse(giveUp func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.giveUp = giveUp
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

// interrupt ends the wait that has begun, if one has. It asks Redis to, so
// that a marker which comes at the last moment is still handed over, and gives
// the connection up only where that doesn't help.
func (m *markerWatch) interrupt() {
	ctx, cancel := context.WithTimeout(context.Background(), timing.UnblockTimeout)
	defer cancel()
	m.mu.Lock()
	turn := m.turn
	m.mu.Unlock()
	for {
		m.mu.Lock()
		over, giveUp := !m.begun || m.turn != turn, m.giveUp
		m.mu.Unlock()
		if over {
			return
		}
		ended, possible := m.conn.Unblock(ctx)
		if ended {
			return
		}
		if !possible && giveUp != nil {
			m.mu.Lock()
			if m.begun && m.turn == turn { // under the lock, or it could meet the next wait
				m.gaveUp = true
				giveUp()
			}
			m.mu.Unlock()
			return
		}
		time.Sleep(time.Millisecond) // it is still on its way to the server
	}
}

// waitWithin waits for a marker until a time is over or ctx ends. Where there is
// no connection to wait on, it returns sooner: when it is time to look.
func (m *markerWatch) waitWithin(ctx context.Context, most time.Duration) error {
	m.begin()
	defer m.end()
	defer time.AfterFunc(most, m.interrupt).Stop()
	defer context.AfterFunc(ctx, m.interrupt)()
	end := time.Now().Add(most)
	p, _, _ := m.wait(most, nil)
	if errors.Is(p.err, backend.ErrNoConnection) {
		p.err = nil
		timing.Sleep(ctx, min(time.Until(end), timing.PollInterval))
	}
	if ctx.Err() != nil {
		m.returnMarker(p)
		return context.Cause(ctx)
	}
	return p.err
}

// returnMarker puts back a marker that this worker doesn't use, so that it wakes
// another one.
func (m *markerWatch) returnMarker(p popped) {
	if p.member == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), timing.UnblockTimeout)
	defer cancel()
	if err := m.core.store.PutMarker(ctx, p.member, p.score); err != nil {
		m.core.log.Warn().Err(err).Msg("a marker could not be returned; idle workers fetch after their DrainDelay at the latest")
	}
}
