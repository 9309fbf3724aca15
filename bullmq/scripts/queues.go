package scripts

import (
	"context"
	"strings"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

// QueueFinder finds queues by the names of their keys.
type QueueFinder struct{ client KeyFinder }

// KeyFinder lists the keys of a server, or of all nodes of a cluster.
type KeyFinder interface {
	// EachKey passes the keys that match a pattern to each, page by page, until each returns
	// false.
	EachKey(ctx context.Context, pattern string, each func(keys []string) (more bool)) error
}

var _ backend.QueueFinder = (*QueueFinder)(nil)

// NewQueueFinder returns a QueueFinder.
func NewQueueFinder(client KeyFinder) *QueueFinder { return &QueueFinder{client} }

// Each key of a queue that has had a job, or was opened by a Queue: a queue that only flows
// were added to has no meta, and one whose jobs have ids of their own has no id. The pattern
// is as narrow as a pattern can be, since each key that matches is sent.
const (
	queueKeysPattern = ":*:[mie][edv]*"
	metaSuffix       = ":meta"
	idSuffix         = ":id"
	eventsSuffix     = ":events"
)

// EachQueue passes the names of the queues with a prefix to each, each name once, until
// each returns false.
func (f *QueueFinder) EachQueue(ctx context.Context, prefix string, each func(names []string) (more bool)) error {
	seen := map[string]bool{}
	return f.client.EachKey(ctx, escapeGlob(prefix)+queueKeysPattern, func(keys []string) bool {
		var names []string
		for _, key := range keys {
			name, ok := queueOfKey(strings.TrimPrefix(key, prefix+":"))
			if ok && !seen[name] {
				seen[name] = true
				names = append(names, name)
			}
		}
		return len(names) == 0 || each(names)
	})
}

// queueOfKey returns the name of the queue to which a key without its prefix belongs.
func queueOfKey(key string) (name string, ok bool) {
	for _, suffix := range []string{metaSuffix, idSuffix, eventsSuffix} {
		if name, ok = strings.CutSuffix(key, suffix); ok {
			// A name has no colon. The keys of extensions have @x behind the name.
			return name, name != "" && !strings.Contains(name, ":") && !strings.HasSuffix(name, "@x")
		}
	}
	return "", false
}
