package redisconn

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
)

// sockets are the network connections of one rueidis client. When a client is closed and
// the server is silent, rueidis waits up to a second for each connection, one after the
// other. cut closes all of them at once.
type sockets struct {
	ended context.Context // cut ends it, which also ends every dial in progress
	end   context.CancelFunc

	opening atomic.Int64 // connections being opened, until the server's first reply

	mu   sync.Mutex
	open map[*socket]struct{}
}

// socket is a connection that is removed from sockets when it is closed.
type socket struct {
	net.Conn
	of     *sockets
	opened atomic.Bool // the server has replied, or nothing waits for its first reply any more

	requested chan struct{} // closed when the first request is written, or the socket is closed
	request   sync.Once
	failed    atomic.Pointer[error] // the error of the last read or write that failed
}

func newSockets() *sockets {
	s := &sockets{open: map[*socket]struct{}{}}
	s.ended, s.end = context.WithCancel(context.Background())
	return s
}

// track makes a client with this option open its connections through s.
func (s *sockets) track(option *rueidis.ClientOption) {
	dial := dialer(*option)
	option.DialCtxFn = func(call context.Context, address string, d *net.Dialer, config *tls.Config) (net.Conn, error) {
		ctx, cancel := context.WithCancel(call)
		defer cancel()
		defer context.AfterFunc(s.ended, cancel)()
		s.opening.Add(1)
		conn, err := dial(ctx, address, d, config)
		if err != nil {
			s.opening.Add(-1)
			return nil, err
		}
		return s.add(call, conn)
	}
}

// dialer returns the dialer that rueidis uses by default.
func dialer(option rueidis.ClientOption) func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
	dial := func(ctx context.Context, address string, d *net.Dialer, config *tls.Config) (net.Conn, error) {
		switch {
		case option.DialCtxFn != nil:
			return option.DialCtxFn(ctx, address, d, config)
		case option.DialFn != nil:
			return option.DialFn(address, d, config)
		case config != nil:
			return (&tls.Dialer{NetDialer: d, Config: config}).DialContext(ctx, "tcp", address)
		default:
			return d.DialContext(ctx, "tcp", address)
		}
	}
	if !option.DisableTCPNoDelay {
		return dial
	}
	// rueidis sets this option on connections of type *net.TCPConn only.
	return func(ctx context.Context, address string, d *net.Dialer, config *tls.Config) (net.Conn, error) {
		conn, err := dial(ctx, address, d, config)
		if tcp, ok := bare(conn).(*net.TCPConn); ok {
			_ = tcp.SetNoDelay(false)
		}
		return conn, err
	}
}

// bare returns the connection below TLS. Closing it does not wait for the peer.
func bare(conn net.Conn) net.Conn {
	if secured, ok := conn.(*tls.Conn); ok {
		return secured.NetConn()
	}
	return conn
}

// add registers a connection that was opened for a call.
func (s *sockets) add(call context.Context, conn net.Conn) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended.Err() != nil {
		s.opening.Add(-1)
		_ = bare(conn).Close()
		return nil, net.ErrClosed
	}
	added := &socket{Conn: conn, of: s, requested: make(chan struct{})}
	s.open[added] = struct{}{}
	context.AfterFunc(call, added.giveUp)
	return added, nil
}

// giveUp is called when the call that opens the connection has ended. If the server does not
// reply soon, giveUp ends the opening. While it opens a connection, rueidis respects the
// deadline of the call's context, but not its cancellation.
func (s *socket) giveUp() {
	if s.opened.Load() {
		return
	}
	time.AfterFunc(timing.CloseTimeout, func() {
		if s.endOpening() {
			_ = bare(s.Conn).SetDeadline(time.Unix(1, 0))
			s.allowReads()
		}
	})
}

// endOpening ends the opening and reports whether it was in progress.
func (s *socket) endOpening() bool {
	if s.opened.Load() || !s.opened.CompareAndSwap(false, true) {
		return false
	}
	s.of.opening.Add(-1)
	return true
}

// Read reads from the connection. rueidis panics if it reads a reply without a request. Two
// measures prevent that:
//   - Read waits for the first request. When rueidis gives up opening a connection, it starts
//     to read before it has queued a request. By then, a server with too many clients may
//     have sent its refusal.
//   - Read delivers nothing after a read or a write has failed. Otherwise the reply to a
//     request that rueidis has given up could arrive.
func (s *socket) Read(p []byte) (int, error) {
	if !s.opened.Load() {
		<-s.requested
	}
	if failed := s.failed.Load(); failed != nil {
		return 0, *failed
	}
	n, err := s.Conn.Read(p)
	if n > 0 {
		s.endOpening()
	}
	if err != nil {
		s.failed.Store(&err)
	}
	return n, err
}

// Write writes to the connection.
func (s *socket) Write(p []byte) (int, error) {
	s.allowReads()
	n, err := s.Conn.Write(p)
	if err != nil {
		s.failed.Store(&err)
	}
	return n, err
}

func (s *socket) allowReads() { s.request.Do(func() { close(s.requested) }) }

// Close closes the connection.
func (s *socket) Close() error {
	s.of.mu.Lock()
	delete(s.of.open, s)
	s.of.mu.Unlock()
	err := s.Conn.Close()
	s.endOpening()
	s.allowReads()
	return err
}

// cut closes all connections and prevents new ones.
func (s *sockets) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end()
	for open := range s.open {
		_ = bare(open.Conn).Close()
		open.allowReads()
	}
	clear(s.open)
}

// close calls end, which closes the client, and returns when end has returned. Connections
// that are still open after [timing.CloseTimeout] are cut, which also ends calls in flight.
func (s *sockets) close(end func()) {
	time.AfterFunc(timing.CloseTimeout, s.cut)
	waitAtMost(timing.CloseTimeout+timing.CloseTimeout/4, end)
}

// waitAtMost calls a function that may hang. It returns when the function has returned,
// or after the given time.
func waitAtMost(most time.Duration, call func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		call()
	}()
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}
