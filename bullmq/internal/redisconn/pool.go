package redisconn

import (
	"context"
	"reflect"
	"slices"
	"sync"

	"github.com/redis/rueidis"
)

// clientPool distributes the connections of a caller's client on which workers and event
// readers wait. The client may have too few such connections: all workers, all event readers
// and the caller's own blocking commands share its BlockingPoolSize. A worker or reader
// without a connection polls over the shared connections instead.
type clientPool struct {
	client rueidis.Client

	// The fields below are guarded by clientPools.mu.
	users   int              // workers and readers that need a connection each
	asking  int              // calls of the client's Dedicate that have not returned
	waiting []chan dedicated // one for each user without a connection, the longest waiting first
	warned  bool             // the shortage has been reported
}

type dedicated struct {
	conn    rueidis.DedicatedClient
	release func()
}

// clientPools holds the pools in use. Workers and readers with the same client share a
// pool, even if they do not share a Connection.
var clientPools = struct {
	mu sync.Mutex
	of map[rueidis.Client]*clientPool
}{of: map[rueidis.Client]*clientPool{}}

// joinPool returns the pool of a client. The caller must call leave.
func joinPool(client rueidis.Client) *clientPool {
	clientPools.mu.Lock()
	defer clientPools.mu.Unlock()
	isKey := reflect.ValueOf(client).Comparable() // a caller's own type may not be comparable
	var p *clientPool
	if isKey {
		p = clientPools.of[client]
	}
	if p == nil {
		p = &clientPool{client: client}
		if isKey {
			clientPools.of[client] = p
		}
	}
	p.users++
	return p
}

func (p *clientPool) leave() {
	clientPools.mu.Lock()
	defer clientPools.mu.Unlock()
	p.users--
	p.forget()
}

// forget removes the pool if it has no users. The caller holds the lock.
func (p *clientPool) forget() {
	if p.users == 0 && p.asking == 0 && reflect.ValueOf(p.client).Comparable() {
		delete(clientPools.of, p.client)
	}
}

// take waits for a connection until ctx ends.
func (p *clientPool) take(ctx context.Context) (dedicated, error) {
	turn := make(chan dedicated, 1)
	clientPools.mu.Lock()
	p.waiting = append(p.waiting, turn)
	// If a user has given up, its call of Dedicate serves this user.
	if p.asking < len(p.waiting) {
		p.asking++
		go p.ask()
	}
	clientPools.mu.Unlock()
	select {
	case got := <-turn:
		return got, nil
	case <-ctx.Done():
	}
	clientPools.mu.Lock()
	at := slices.Index(p.waiting, turn)
	if at >= 0 {
		p.waiting = slices.Delete(p.waiting, at, at+1)
	}
	clientPools.mu.Unlock()
	if at < 0 { // the connection was delivered at the same time
		got := <-turn
		got.release()
	}
	return dedicated{}, context.Cause(ctx)
}

// ask gets a connection from the client and delivers it to the user that has waited longest.
// It runs in a separate goroutine, because Dedicate of rueidis can't be cancelled and has no
// timeout.
func (p *clientPool) ask() {
	conn, release := p.client.Dedicate()
	clientPools.mu.Lock()
	p.asking--
	var turn chan dedicated
	if len(p.waiting) > 0 {
		turn, p.waiting = p.waiting[0], p.waiting[1:]
	}
	p.forget()
	clientPools.mu.Unlock()
	if turn == nil {
		release()
		return
	}
	turn <- dedicated{conn, release}
}

// warn reports, once, that the pool is too small and how large it must be.
func (p *clientPool) warn(report func(needed int)) {
	clientPools.mu.Lock()
	warned, needed := p.warned, p.users
	p.warned = true
	clientPools.mu.Unlock()
	if !warned {
		report(needed)
	}
}
