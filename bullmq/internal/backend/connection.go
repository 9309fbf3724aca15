package backend

import "context"

// Connection is how one user reaches the store. It may share the network connections
// with others.
type Connection interface {
	// Health watches whether the store can be reached.
	Health() HealthWatch
	// Ping asks whether the store can serve now.
	Ping(ctx context.Context) error
	// Clients lists the clients that are connected to the store. It lists none where
	// the user may not do so.
	Clients(ctx context.Context) ([]ConnectedClient, error)
	// Close ends all calls of the user.
	Close()
}

// ConnectedClient is a client that is connected to the store.
type ConnectedClient struct {
	Name   string
	Fields map[string]string // all that the store reports
}
