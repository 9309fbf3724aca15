package faultproxy

import (
	"maps"
	"slices"
	"strings"
)

// trap acts on one matching command. It cuts the connection before the server receives the command, or after
// the server has replied. Or it stops forwarding replies.
type trap struct {
	match  string
	before bool
	hang   bool
	sprung chan struct{}
}

// LoseReply forwards the next command that contains match. When the server has replied, LoseReply cuts the
// connection instead of forwarding the reply. The command ran, but its sender cannot know that. The returned
// channel is closed when the connection has been cut.
//
// Commands are matched as they would be typed ("evalsha 5f8c…"), ignoring case. Each call sets a trap for one
// command.
func (p *Proxy) LoseReply(match string) <-chan struct{} { return p.set(trap{match: match}) }

// HangReply is like [Proxy.LoseReply], but the connection stays open and receives no more replies.
func (p *Proxy) HangReply(match string) <-chan struct{} { return p.set(trap{match: match, hang: true}) }

// LoseCommand cuts the connection instead of forwarding the next command that contains match. The command
// never runs. Its sender can't tell this from a lost reply. The returned channel is closed when the
// connection has been cut.
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

// trapFor removes and returns the trap that matches the command, if any.
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

// putBack restores the traps whose replies were prevented by another cut.
func (p *Proxy) putBack(traps map[int]*trap) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, number := range slices.Sorted(maps.Keys(traps)) {
		p.traps = append(p.traps, traps[number])
	}
}

// byteCut cuts the connection that receives the last of a number of reply bytes.
type byteCut struct {
	left int
	done chan struct{}
}

// CutAfter forwards n more bytes of replies, counted over all connections, and cuts the connection that
// received the last one, even within a reply. The returned channel is closed when the connection has been
// cut. A further call replaces a pending cut.
func (p *Proxy) CutAfter(n int) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.byteCut = &byteCut{left: n, done: make(chan struct{})}
	return p.byteCut.done
}

// portion returns the part of a reply that may be forwarded, and the cut that is due after it, if any.
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
