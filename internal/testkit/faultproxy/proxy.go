// Package faultproxy stands between a client and a Redis server in tests and makes their link fail
// on demand: slow, silent, cut at a chosen byte, or cut between a command and its answer.
//
//	proxy, err := faultproxy.Start(server.Addr())
//	if err != nil { … }
//	defer proxy.Close()
//	… a client connects to proxy.Addr() …
//	err = proxy.Set(faultproxy.Faults{Delay: 50 * time.Millisecond}) // until the next Set
//	lost := proxy.LoseReply("evalsha")                               // once
//	<-lost
//
// It speaks RESP 2 and 3 in the clear and passes on whole commands and replies. Commands whose
// replies can't be counted (SUBSCRIBE, MONITOR, CLIENT REPLY) pass, but LoseReply then counts wrong
// on their connection.
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

// Proxy passes connections on to one server. Its methods may be called from any goroutine.
type Proxy struct {
	target string
	addr   string
	tasks  sync.WaitGroup

	mu          sync.Mutex
	listener    net.Listener // nil while connections are refused
	faults      Faults
	changed     chan struct{} // closed when faults change
	traps       []*trap
	byteCut     *byteCut
	connections map[*connection]struct{}
	accepted    int
	closed      bool
}

// Start listens on a free loopback port and passes connections on to the server at target, faultless
// at first. The server needn't be there yet.
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

// Addr is the host:port to connect to instead of the server's.
func (p *Proxy) Addr() string { return p.addr }

// Connections is how many connections there are at this moment.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.connections)
}

// Accepted is how many connections there have been.
func (p *Proxy) Accepted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}

// CutAll closes every connection there is. New ones are taken.
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

// listen takes connections, if it doesn't already.
func (p *Proxy) listen() error {
	if p.listener != nil || p.closed {
		return nil
	}
	listener, err := net.Listen("tcp", p.addr)
	if err != nil {
		return fmt.Errorf("listen between client and Redis: %w", err)
	}
	p.listener = listener
	p.tasks.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			p.take(client)
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

func (p *Proxy) take(client net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
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
