package redisstore

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/redisconn"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
	"github.com/17a2ac88/bullmq-go/bullmq/scripts"
)

// EventStream reads an events stream, see [backend.EventStream].
type EventStream struct {
	client *redisconn.Client // for polling, if there is no connection for blocking commands
	conn   *redisconn.Blocking
	key    string

	position eventPosition
	away     time.Time // when the last read ended; zero if unknown
	blind    bool      // the server rejects XINFO STREAM
}

// NewEventStream returns an EventStream for the stream with this key.
func NewEventStream(client *redisconn.Client, conn *redisconn.Blocking, key string) *EventStream {
	return &EventStream{client: client, conn: conn, key: key}
}

// StartAt starts after the last event.
func (s *EventStream) StartAt(last backend.EventPosition) {
	s.position = eventPosition{id: last.ID, count: int64(last.Added), counted: last.ID, read: []string{last.ID}}
}

// StartAfter starts after the event with this id.
func (s *EventStream) StartAfter(id string) {
	s.position = eventPosition{id: id, count: -1, resumed: strings.Contains(id, "-") && wire.EventComesAfter(id, "0-0")}
}

// Resume must be called before Read after a pause in reading.
func (s *EventStream) Resume() {
	s.away = time.Time{}
	if wire.EventComesAfter(s.position.counted, s.position.id) { // the last page was not read completely
		s.position.counted = s.position.id
	}
}

// Advance moves the position past an event that was read.
func (s *EventStream) Advance(id string) { s.position.advance(id) }

// Close closes the connection.
func (s *EventStream) Close() { s.conn.Close() }

// Events can be trimmed before they are read only if the reader was away, or if many events
// were added at once. Only in these cases, the reader also reads the stream's state.
const (
	eventsPage  = 1000
	eventsBurst = 10 // events at once
)

// Read waits for the events after the position.
func (s *EventStream) Read(ctx context.Context, block time.Duration) (backend.EventPage, error) {
	page, err := s.read(ctx, block)
	if err != nil {
		s.away = time.Time{}
		return backend.EventPage{}, err
	}
	s.away = time.Now()
	return page, nil
}

func (s *EventStream) read(ctx context.Context, block time.Duration) (page backend.EventPage, err error) {
	away := !s.blind && (s.position.unclear || time.Since(s.away) > timing.ShortestAbsence)
	commands := func(b rueidis.Builder, read rueidis.Completed) (commands []rueidis.Completed) {
		if away {
			commands = append(commands, s.askState(b)...)
		}
		return append(commands, read)
	}
	replies := s.conn.Wait(ctx, block, func(b rueidis.Builder) []rueidis.Completed {
		return commands(b, b.Xread().Count(eventsPage).Block(block.Milliseconds()).
			Streams().Key(s.key).Id(s.position.id).Build())
	})
	polled := errors.Is(replies[len(replies)-1].Error(), backend.ErrNoConnection)
	if polled {
		replies = s.poll(ctx, func(b rueidis.Builder) []rueidis.Completed {
			return commands(b, b.Xread().Count(eventsPage).Streams().Key(s.key).Id(s.position.id).Build())
		})
	}
	entries, err := replies[len(replies)-1].AsXReadSlices()
	if err != nil && !rueidis.IsRedisNil(err) {
		if errors.Is(err, context.Canceled) {
			return page, backend.ErrSilent
		}
		return page, err
	}
	for _, entry := range entries[s.key] {
		fields := make([]string, 0, 2*len(entry.FieldValues))
		for _, pair := range entry.FieldValues {
			fields = append(fields, pair.Field, pair.Value)
		}
		page.Events = append(page.Events, backend.Event{ID: entry.ID, Fields: fields})
	}
	if away && len(replies) > 1 {
		s.compare(replies[0], &page)
	}
	if n := len(page.Events); !s.blind && (n == 0 || n >= eventsBurst) {
		if polled {
			s.compare(s.poll(ctx, s.askState)[0], &page)
		} else {
			s.compare(s.conn.Wait(ctx, 0, s.askState)[0], &page)
		}
	}
	page.Missed = s.position.unreported
	if polled && len(page.Events) == 0 {
		timing.Sleep(ctx, timing.PollInterval)
	}
	return page, nil
}

func (s *EventStream) askState(b rueidis.Builder) []rueidis.Completed {
	return []rueidis.Completed{b.XinfoStream().Key(s.key).Build()}
}

// poll reads over the shared connections.
func (s *EventStream) poll(ctx context.Context, build func(rueidis.Builder) []rueidis.Completed) []rueidis.RedisResult {
	call, cancel := context.WithTimeout(ctx, timing.CallTimeout)
	defer cancel()
	return s.client.DoMulti(call, build(s.client.B())...)
}

// compare determines, from the reply of XINFO STREAM, whether events before the page were
// missed and whether the stream was recreated.
func (s *EventStream) compare(reply rueidis.RedisResult, page *backend.EventPage) {
	now, err := scripts.ReadStream(reply)
	if err != nil {
		s.blind = redisconn.Classify(err).Lasting()
		return
	}
	missed := 0
	switch {
	case !wire.EventComesAfter(s.position.id, now.Last):
		missed = s.position.missed(now, page.Events)
	case len(page.Events) == 0 && s.position.restart(now):
		page.Restart = s.position.id
	}
	s.position.unreported += missed
	page.MaybeMissed = page.MaybeMissed || missed > 0 || page.Restart != ""
}
