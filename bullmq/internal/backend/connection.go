package backend

import "context"

// Connection is the connection of one user, such as a Queue or a Worker, to the store.
// Users may share network connections.
type Connection interface {
	// Health returns the watch that reports whether the store can be reached.
	Health() HealthWatch
	// Ping checks whether the store can serve now.
	Ping(ctx context.Context) error
	// Clients lists the clients that are connected to the store. The list is empty if
	// the store's account may not list them.
	Clients(ctx context.Context) ([]ConnectedClient, error)
	// Close ends all calls of the user.
	Close()
}

// ConnectedClient is a client that is connected to the store.
type ConnectedClient struct {
	Name   string
	Fields map[string]string // all fields that the store reports
}
