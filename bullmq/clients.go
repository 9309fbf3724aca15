package bullmq

import (
	"context"
	"strings"

	"github.com/redis/rueidis"
)

// ConnectedClient is a worker or an event reader as Redis lists it, of any
// client library of BullMQ.
type ConnectedClient struct {
	// Name is the worker's own name; "" for one without, and for event readers.
	Name string
	// Fields is the whole entry of CLIENT LIST: addr, age, idle, cmd …
	Fields map[string]string
}

// Workers lists the workers that are connected to the queue. Empty where the
// server doesn't let clients be listed. On a cluster each node is asked
// (BullMQ: getWorkers).
func (q *Queue) Workers(ctx context.Context) ([]ConnectedClient, error) {
	unnamed := q.core.keys.clientName("")
	return q.clients(ctx, func(name string) (string, bool) {
		if name == unnamed {
			return "", true
		}
		return strings.CutPrefix(name, unnamed+":w:")
	})
}

// EventReaders lists the QueueEvents that are connected to the queue (BullMQ:
// getQueueEvents).
func (q *Queue) EventReaders(ctx context.Context) ([]ConnectedClient, error) {
	wanted := q.core.keys.clientName(":qe")
	return q.clients(ctx, func(name string) (string, bool) { return "", name == wanted })
}

func (q *Queue) clients(ctx context.Context, match func(name string) (string, bool)) ([]ConnectedClient, error) {
	nodes := map[string]rueidis.Client{"": q.core.client}
	if q.core.client.Mode() == rueidis.ClientModeCluster {
		nodes = q.core.client.Nodes()
	}
	var found []ConnectedClient
	for _, node := range nodes {
		text, err := node.Do(ctx, node.B().ClientList().Build()).ToString()
		if forbidden(err) {
			continue // some services forbid CLIENT
		}
		if err != nil {
			return nil, err
		}
		found = append(found, readClients(text, match)...)
	}
	return found, nil
}

// readClients reads the answer to CLIENT LIST, a line for each client: name=value
// name=value …
func readClients(text string, match func(name string) (string, bool)) (found []ConnectedClient) {
	for line := range strings.Lines(text) {
		fields := map[string]string{}
		for _, pair := range strings.Split(strings.TrimRight(line, "\r\n"), " ") {
			name, value, _ := strings.Cut(pair, "=")
			fields[name] = value
		}
		if name, ok := match(fields["name"]); ok {
			found = append(found, ConnectedClient{Name: name, Fields: fields})
		}
	}
	return found
}
