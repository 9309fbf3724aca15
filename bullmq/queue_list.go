package bullmq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
)

// ListQueues returns the names of the queues with a prefix, in no particular order and each
// once. It also finds queues that only Node clients use. An empty prefix is [DefaultPrefix].
//
// ListQueues scans the names of all keys of the server, on a cluster of all nodes, by many
// short calls. It makes the next call when the caller asks for more names, so that a caller
// can stop early. An error ends the sequence. A queue that is added or obliterated during
// the scan may be returned or not.
func ListQueues(ctx context.Context, connection *Connection, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if connection == nil || connection.client == nil {
			yield("", errors.New("bullmq: list queues: there is no Connection: make one with Connect, ConnectOption or ConnectClient"))
			return
		}
		prefix := cmp.Or(prefix, DefaultPrefix)
		more := true
		err := newQueueFinder(connection).EachQueue(ctx, prefix, func(names []string) bool {
			for _, name := range names {
				if more = yield(name, nil); !more {
					return false
				}
			}
			return true
		})
		if err != nil && more {
			yield("", fmt.Errorf("bullmq: list the queues with the prefix %.80q: %w", prefix, err))
		}
	}
}
