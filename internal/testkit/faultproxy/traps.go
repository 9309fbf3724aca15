package faultproxy

import (
	"maps"
	"slices"
	"strings"
)

// trap waits for one command, and cuts its connection either before the server sees the command or
// when the server has answered it; or lets nothing more through from then on.
type trap struct {
	match  string
	before bool
	hang   bool
	sprung chan struct{}
}

// LoseReply lets the next command that contains match reach the server, and cuts its connection
// when the server has answered, without passing the answer on: it was carried out, and its sender
// doesn't know. The channel is closed when that has happened.
//
// Commands are matched as one would type them ("evalsha 5f8c…"), capitals or not. Each call sets a
// trap for one command.
func (p *Proxy) LoseReply(match string) <-chan struct{} { return p.set(trap{match: match}) }

// HangReply is LoseReply without the cut: the connection stays, and no reply comes over it any more.
func (p *Proxy) HangReply(match string) <-chan struct{} { return p.set(trap{match: match, hang: true}) }

// LoseCommand cuts the connection instead of passing on the next command that contains match: it
// was never carried out, and looks the same to its sender. The channel is closed when that has
// happened.
func (p *Proxy) LoseCommand(match string) <-chan struct{} {
	return p.set(trap{match: match, before: true})
}

func (p *Proxy) set(t trap) <-chan struct{} {
	t.match, t.sprung = strings.ToLower(t.match), make(chan struct{})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.traps = append(p.traps, &t)
	return t.sprung
}

// trapFor takes away and returns the trap into which the command walks, if any.
func (p *Proxy) trapFor(command []byte) *trap {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.traps) == 0 {
		return nil
	}
	text := strings.ToLower(words(command))
	at := slices.IndexFunc(p.traps, func(t *trap) bool { return strings.Contains(text, t.match) })
	if at < 0 {
		return nil
	}
	t := p.traps[at]
	p.traps = slices.Delete(p.traps, at, at+1)
	return t
}

// putBack sets traps again whose replies another cut has kept from coming.
func (p *Proxy) putBack(traps map[int]*trap) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, number := range slices.Sorted(maps.Keys(traps)) {
		p.traps = append(p.traps, traps[number])
	}
}

// byteCut cuts the connection that carries the last of a number of reply bytes.
type byteCut struct {
	left int
	done chan struct{}
}

// CutAfter lets n more bytes of replies through, counted over all connections, and cuts the
// connection that carried the last of them, be it in the middle of a reply. The channel is closed
// when that has happened. Another call replaces one that hasn't come about yet.
func (p *Proxy) CutAfter(n int) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.byteCut = &byteCut{left: n, done: make(chan struct{})}
	return p.byteCut.done
}

// portion tells how much of a reply may pass, and returns the cut that is due after it, if any.
func (p *Proxy) portion(reply []byte) ([]byte, *byteCut) {
	p.mu.Lock()
	defer p.mu.Unlock()
	cut := p.byteCut
	if cut == nil {
		return reply, nil
	}
	if len(reply) < cut.left {
		cut.left -= len(reply)
		return reply, nil
	}
	p.byteCut = nil
	return reply[:cut.left], cut
}
