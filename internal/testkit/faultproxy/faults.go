package faultproxy

import "time"

// trickleEvery is the pause between two pieces of a reply that trickles.
const trickleEvery = time.Millisecond

// Faults is how the link behaves for as long as it is set; the zero value passes everything on.
type Faults struct {
	// Delay holds back what goes either way for this long. What arrives together is held once.
	Delay time.Duration
	// Trickle passes replies on in pieces of this many bytes, one each millisecond.
	Trickle int
	// SwallowReplies lets commands through and drops every reply. Since a reply that came later
	// would be taken for an earlier command's, connections that lost one are cut when this ends.
	SwallowReplies bool
	// BlackHole accepts connections and passes nothing either way, as a firewall that drops packets
	// does. Nothing is lost: what was held goes on its way when this ends.
	BlackHole bool
	// Refuse turns new connections away, as if nothing listened. Old ones go on; see CutAll.
	Refuse bool
}

// Set replaces the faults of the link, for connections old and new. The error is that the proxy
// couldn't listen on its port again after Refuse.
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

// current returns the faults, and a channel that is closed when they change.
func (p *Proxy) current() (Faults, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.faults, p.changed
}

// swallows tells whether a reply of c is to be dropped, and remembers that it was.
func (p *Proxy) swallows(c *connection) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.lostReplies = c.lostReplies || p.faults.SwallowReplies
	return p.faults.SwallowReplies
}

// hold waits out Delay, where something has just arrived, and BlackHole. It tells whether the
// connection is still there.
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

// pause tells whether the connection is still there after the time.
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
