package backend

import (
	"context"
	"time"
)

// WorkerRegistry records which workers serve which queues. It is optional: without one,
// workers are known by their connections only. Each call names its queues by the prefix
// of their keys, including the last colon, such as bull:orders:. On a cluster, the queues
// of one [WorkerLease] must be in one hash slot. The clock of the server decides when a
// lease ends. A WorkerRegistry is safe for concurrent use.
type WorkerRegistry interface {
	// RegisterWorker records a worker, or renews its lease. When the lease has ended, the
	// worker is no longer recorded.
	RegisterWorker(ctx context.Context, w WorkerLease) error
	// UnregisterWorker removes a worker from the workers of some queues. If ended is set, it
	// also deletes the record of the worker.
	UnregisterWorker(ctx context.Context, w WorkerLease, ended bool) error
	// RegisteredWorkers returns the workers of some queues, each once.
	RegisteredWorkers(ctx context.Context, queues []string) ([]RegisteredWorker, error)
	// QueuesWithWorkers returns the queues with a prefix, such as bull, that have workers.
	// It reads the names of all keys of the server.
	QueuesWithWorkers(ctx context.Context, prefix string) ([]string, error)
}

// WorkerLease is a worker that serves queues for a limited time.
type WorkerLease struct {
	ID string
	// Home is the queue whose keys include the record of the worker. It is the same in all
	// calls about a worker.
	Home   string
	Queues []string
	Lease  time.Duration // at least a millisecond
	Record string        // a description of the worker; the registry does not interpret it
}

// RegisteredWorker is a worker whose lease has not ended.
type RegisteredWorker struct {
	Queues []string // the queues of the call that the worker serves, in the order of the argument
	Record string
	Until  time.Time // end of the lease, by the clock of the server
}

// Identified is a waiter that can return its own id among the clients of
// [Connection.Clients]. It is optional.
type Identified interface {
	// ClientID returns the value of the field id of the client. It is 0 if the waiter has no
	// connection at present, or if the store does not report the id.
	ClientID() int64
}
