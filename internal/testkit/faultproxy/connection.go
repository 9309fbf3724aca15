package faultproxy

import (
	"bufio"
	"net"
	"sync"
)

// connection is the proxied connection of one client.
type connection struct {
	proxy       *Proxy
	client      net.Conn
	lostReplies bool // guarded by proxy.mu

	closing sync.Once
	gone    chan struct{} // closed by cut

	mu     sync.Mutex
	server net.Conn // nil until dialled
	// Redis replies in order, so the reply to a command has the command's number.
	commands, replies int
	traps             map[int]*trap // by the number of the command whose reply is lost
}

// run forwards data until one end closes or the connection is cut.
func (c *connection) run() {
	defer c.cut()
	if !c.hold(true) {
		return
	}
	server, err := net.DialTimeout("tcp", c.proxy.server(), dialTimeout)
	if err != nil || !c.adopt(server) {
		return
	}
	var replies sync.WaitGroup
	replies.Go(func() {
		defer c.cut()
		c.passReplies(server)
	})
	c.passCommands(server)
	c.cut()
	replies.Wait()
	c.proxy.putBack(c.traps)
}

// adopt adds the server's end to the connection. It reports false if the connection was cut meanwhile.
func (c *connection) adopt(server net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.gone:
		_ = server.Close()
		return false
	default:
		c.server = server
		return true
	}
}

// cut closes both ends.
func (c *connection) cut() {
	c.closing.Do(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		close(c.gone)
		_ = c.client.Close()
		if c.server != nil {
			_ = c.server.Close()
		}
	})
}

func (c *connection) passCommands(server net.Conn) {
	from := bufio.NewReader(c.client)
	for {
		arrived := from.Buffered() == 0
		command, err := readFrame(from)
		if err != nil || !c.hold(arrived) {
			return
		}
		trap := c.proxy.trapFor(command)
		if trap != nil && trap.before {
			c.cut()
			close(trap.sprung)
			return
		}
		c.expectReply(trap)
		if _, err := server.Write(command); err != nil {
			return
		}
	}
}

func (c *connection) passReplies(server net.Conn) {
	from := bufio.NewReader(server)
	for {
		arrived := from.Buffered() == 0
		reply, ended := readFrame(from)
		if ended == nil && !isPush(reply) {
			if trap := c.countReply(); trap != nil {
				if trap.hang {
					close(trap.sprung)
					<-c.gone
					return
				}
				c.cut()
				close(trap.sprung)
				return
			}
		}
		if !c.hold(arrived) {
			return
		}
		if len(reply) > 0 && !c.proxy.swallows(c) && !c.passReply(reply) {
			return
		}
		if ended != nil {
			return
		}
	}
}

// passReply forwards a reply, and reports whether the connection is still open afterwards.
func (c *connection) passReply(reply []byte) bool {
	allowed, cut := c.proxy.portion(reply)
	sent := c.write(allowed)
	if cut != nil {
		c.cut()
		close(cut.done)
		return false
	}
	return sent
}

func (c *connection) write(reply []byte) bool {
	for len(reply) > 0 {
		piece := reply
		if faults, _ := c.proxy.current(); faults.Trickle > 0 && faults.Trickle < len(reply) {
			piece = reply[:faults.Trickle]
		}
		if _, err := c.client.Write(piece); err != nil {
			return false
		}
		if reply = reply[len(piece):]; len(reply) > 0 && !c.pause(trickleEvery) {
			return false
		}
	}
	return true
}

// expectReply counts a command and registers the trap for its reply, if any.
func (c *connection) expectReply(t *trap) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t != nil {
		c.traps[c.commands] = t
	}
	c.commands++
}

// countReply counts a reply and returns its trap, if any.
func (c *connection) countReply() *trap {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.traps[c.replies]
	delete(c.traps, c.replies)
	c.replies++
	return t
}
