package main

import (
	linked "container/list"
	"net/netip"
	"sync"
	"time"
)

const (
	freeTries   = 10          // wrong passwords until the next one has to wait
	triesEvery  = time.Minute // gives back one of them
	knownTriers = 10_000      // whose failed tries are remembered
)

// tries counts wrong passwords by key, such as an address. It remembers the keys that failed last,
// so that others can't fill the memory. It is safe for concurrent use.
type tries struct {
	mutex  sync.Mutex
	now    func() time.Time
	byKey  map[string]*linked.Element
	recent linked.List // of *trier, the last to fail first
}

// trier is a key with its wrong passwords. They are forgotten one by one.
type trier struct {
	key    string
	freeAt time.Time // when all are forgotten
}

func newTries() *tries { return &tries{now: time.Now, byKey: map[string]*linked.Element{}} }

// try calls right, which reports whether a password is right, and counts it for a key if it is not.
// It does not call right while the key has to wait, and returns how long.
func (t *tries) try(key string, right func() bool) (ok bool, wait time.Duration) {
	t.mutex.Lock() // until the end, so that tries at the same time are counted too
	defer t.mutex.Unlock()
	element, now := t.byKey[key], t.now()
	if element != nil {
		if wait := element.Value.(*trier).freeAt.Sub(now) - (freeTries-1)*triesEvery; wait > 0 {
			return false, wait
		}
	}
	if right() {
		return true, 0
	}
	if element == nil {
		if t.recent.Len() >= knownTriers {
			delete(t.byKey, t.recent.Remove(t.recent.Back()).(*trier).key)
		}
		element = t.recent.PushFront(&trier{key: key})
		t.byKey[key] = element
	}
	t.recent.MoveToFront(element)
	one := element.Value.(*trier)
	if one.freeAt.Before(now) {
		one.freeAt = now
	}
	one.freeAt = one.freeAt.Add(triesEvery)
	return false, 0
}

// network returns the address of a client without its port. For IPv6 it is the network, since a
// client has many addresses.
func network(remote string) string {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return remote
	}
	address := at.Addr().Unmap().WithZone("")
	if address.Is6() {
		if prefix, err := address.Prefix(64); err == nil {
			return prefix.String()
		}
	}
	return address.String()
}
