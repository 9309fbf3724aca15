package faultproxy

import "time"

// trickleEvery is the pause between two pieces of a trickled reply.
const trickleEvery = time.Millisecond

// Faults describes how the link behaves. The zero value forwards everything.
type Faults struct {
	// Delay holds data in both directions for this long. Data that arrives together is delayed only once.
	Delay time.Duration
	// Trickle forwards replies in pieces of this many bytes, one per millisecond.
	Trickle int
	// SwallowReplies forwards commands and drops every reply. When it is switched off, connections that lost a
	// reply are cut. Otherwise the client would match the next reply to an earlier command.
	SwallowReplies bool
	// BlackHole accepts connections and forwards nothing in either direction, like a firewall that drops
	// packets. When it is switched off, the data held until then is forwarded.
	BlackHole bool
	// Refuse rejects new connections as if nothing listened. Open ones continue; see [Proxy.CutAll].
	Refuse bool
}

// Set replaces the faults for open and new connections. It returns an error if the proxy cannot listen on its
// port again after Refuse.
func (p *Proxy) Set(faults Faults) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if faults.Refuse {
		p.stopListening()
	} else if err := p.listen(); err != nil {
		return err
	}
	p.faults = faults
	close(p.changed)
	p.changed = make(chan struct{})
	if !faults.SwallowReplies {
		for c := range p.connections {
			if c.lostReplies {
				c.cut()
			}
		}
	}
	return nil
}

// current returns the faults and a channel that is closed when they change.
func (p *Proxy) current() (Faults, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.faults, p.changed
}

// swallows reports whether to drop a reply of c, and records it.
func (p *Proxy) swallows(c *connection) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.lostReplies = c.lostReplies || p.faults.SwallowReplies
	return p.faults.SwallowReplies
}

// hold waits for the time of Delay, if data has just arrived, and then until BlackHole is off. It reports whether
// the connection is still open.
func (c *connection) hold(arrived bool) bool {
	if faults, _ := c.proxy.current(); arrived && faults.Delay > 0 && !c.pause(faults.Delay) {
		return false
	}
	for {
		faults, changed := c.proxy.current()
		if !faults.BlackHole {
			return true
		}
		select {
		case <-changed:
		case <-c.gone:
			return false
		}
	}
}

// pause reports whether the connection is still open after the given time.
func (c *connection) pause(length time.Duration) bool {
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.gone:
		return false
	}
}
