// Package faultproxy is a TCP proxy between a client and a Redis server. In tests, it makes the connection
// fail on demand. It can delay data, hold it, cut the connection at a chosen byte, or cut it between a command
// and its reply.
//
//	proxy, err := faultproxy.Start(server.Addr())
//	if err != nil { … }
//	defer proxy.Close()
//	… a client connects to proxy.Addr() …
//	err = proxy.Set(faultproxy.Faults{Delay: 50 * time.Millisecond}) // until the next Set
//	lost := proxy.LoseReply("evalsha")                               // once
//	<-lost
//
// The proxy understands unencrypted RESP 2 and 3. It cannot count the replies of some commands (SUBSCRIBE,
// MONITOR, CLIENT REPLY). After such a command, LoseReply is unreliable on that connection.
package faultproxy

import (
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

const dialTimeout = 5 * time.Second

// Proxy forwards connections to a server. Its methods are safe for concurrent use.
type Proxy struct {
	addr  string
	tasks sync.WaitGroup

	mu          sync.Mutex
	target      string
	listener    net.Listener // nil while connections are refused
	faults      Faults
	changed     chan struct{} // closed when faults change
	traps       []*trap
	byteCut     *byteCut
	connections map[*connection]struct{}
	accepted    int
	closed      bool
}

// Start listens on a free loopback port and forwards connections to target, without faults at first. The
// server need not run yet.
func Start(target string) (*Proxy, error) {
	port, err := redisserver.FreePort()
	if err != nil {
		return nil, err
	}
	proxy := &Proxy{
		target:      target,
		addr:        net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
		changed:     make(chan struct{}),
		connections: map[*connection]struct{}{},
	}
	proxy.mu.Lock()
	defer proxy.mu.Unlock()
	if err := proxy.listen(); err != nil {
		return nil, err
	}
	return proxy, nil
}

// Addr returns the host:port to connect to instead of that of the server.
func (p *Proxy) Addr() string { return p.addr }

// Forward makes new connections go to another server, as after a failover. Open ones continue; see
// [Proxy.CutAll].
func (p *Proxy) Forward(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

func (p *Proxy) server() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.target
}

// Connections returns the number of open connections.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.connections)
}

// Accepted returns the number of connections accepted so far.
func (p *Proxy) Accepted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}

// CutAll closes every open connection. New connections are accepted.
func (p *Proxy) CutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cutAll()
}

// Close closes every connection and stops listening. It may be called more than once.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.stopListening()
	p.cutAll()
	p.mu.Unlock()
	p.tasks.Wait()
}

func (p *Proxy) cutAll() {
	for c := range p.connections {
		c.cut()
	}
}

// listen accepts connections, unless it already does.
func (p *Proxy) listen() error {
	if p.listener != nil || p.closed {
		return nil
	}
	listener, err := net.Listen("tcp", p.addr)
	if err != nil {
		return fmt.Errorf("start the proxy's listener: %w", err)
	}
	p.listener = listener
	p.tasks.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			p.accept(client, listener)
		}
	})
	return nil
}

func (p *Proxy) stopListening() {
	if p.listener != nil {
		_ = p.listener.Close()
		p.listener = nil
	}
}

// accept takes a client that came through a listener, unless the listener was closed meanwhile.
func (p *Proxy) accept(client net.Conn, through net.Listener) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.listener != through {
		_ = client.Close()
		return
	}
	c := &connection{proxy: p, client: client, gone: make(chan struct{}), traps: map[int]*trap{}}
	p.accepted++
	p.connections[c] = struct{}{}
	p.tasks.Go(func() {
		c.run()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.connections, c)
	})
}
