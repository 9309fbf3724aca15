// Package backend is the interface between package bullmq and the server that
// stores the queues. Package bullmq decides what happens to jobs and when. A backend
// executes these decisions and reads stored data. Package bullmq/scripts is the
// backend for Redis. Package backendtest has the conformance suite of a backend.
//
// The choice of a backend is in package bullmq: core.go makes stores, waiters and event
// streams (newStore, dedicated, newWaiter and newEventStream), and connection.go makes
// connections.
//
// A [Store] is one queue. It consists of smaller interfaces. Each interface is in a file
// of its own, together with its types. Interfaces that only Redis needs are optional, such
// as [Repairer]. Package bullmq finds them by a type assertion.
//
// Times are a [time.Time], durations a [time.Duration]. On the wire both are in
// milliseconds. A backend uses the clock of its caller: every call that needs the time
// has it as an argument.
//
// Calls are never repeated after they may have reached the server.
//
// The API is not stable. Do not implement it outside this module.
package backend

// Store is one queue. It is safe for concurrent use.
type Store interface {
	Producer
	Consumer
	Jobs
	Children
	Reading
	Administration
	Cancelling
	Schedulers
	Events
}
