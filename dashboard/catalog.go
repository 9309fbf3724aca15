package dashboard

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// catalog knows the names of the queues. To find them takes a scan of all keys, so that it is
// made at most once in namesFor, and at most once at a time.
type catalog struct {
	connection *bullmq.Connection
	o          *Options

	mu    sync.Mutex
	names []string
	at    time.Time     // of the last scan
	scan  chan struct{} // is closed when the scan that runs has ended; nil if none runs
	err   error         // of the last scan
}

const (
	namesFor = 15 * time.Second
	scanTime = time.Minute // limit of one scan
)

func newCatalog(connection *bullmq.Connection, o *Options) *catalog {
	return &catalog{connection: connection, o: o}
}

// list returns the names in order. If they are old, it starts a scan, and waits for it only
// if no names are known yet.
func (c *catalog) list(ctx context.Context) ([]string, error) {
	if c.o.Queues != nil {
		return slices.Sorted(slices.Values(c.o.Queues)), nil
	}
	c.mu.Lock()
	known := !c.at.IsZero()
	if c.scan == nil && time.Since(c.at) > namesFor {
		c.scan = make(chan struct{})
		go c.find(c.scan)
	}
	names, scan := c.names, c.scan
	c.mu.Unlock()
	if known {
		return names, nil
	}
	select {
	case <-scan:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.names, c.err
}

// known returns the names that are known. If they are old, it starts a scan, without waiting.
func (c *catalog) known() []string {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	names, _ := c.list(ended)
	return names
}

// find scans the keys. It outlives the request that has started it.
func (c *catalog) find(ended chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), scanTime)
	defer cancel()
	var names []string
	var failed error
	for name, err := range bullmq.ListQueues(ctx, c.connection, c.o.Prefix) {
		if err != nil {
			failed = err
			break
		}
		if isQueueName(name) { // one odd key must not hide all queues
			names = append(names, name)
		}
	}
	slices.Sort(names)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err = failed; failed == nil {
		c.names, c.at = names, time.Now()
	}
	c.scan = nil
	close(ended)
}

// isQueueName reports whether the SDK can open a queue of this name.
func isQueueName(name string) bool {
	return utf8.ValidString(name) && name != "" && !strings.Contains(name, ":")
}

// shows reports whether a queue is shown.
func (c *catalog) shows(name string) bool {
	return isQueueName(name) && (c.o.Queues == nil || slices.Contains(c.o.Queues, name))
}

// forget removes the name of a queue that no longer exists.
func (c *catalog) forget(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.names = slices.DeleteFunc(slices.Clone(c.names), func(known string) bool { return known == name })
}
