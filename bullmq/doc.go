// Package bullmq shares job queues with BullMQ, the queue of Node.js: a
// producer, worker or event reader of this package and one of npm bullmq work
// on one queue in Redis, and neither can tell.
//
// A Queue adds jobs and looks after them, a Worker runs them, and QueueEvents
// tells what happens. Contexts end calls, errors can be told apart with
// errors.Is and errors.As, and nothing is logged unless a logger is given.
//
// A call about one thing that does not exist returns an error: [ErrJobNotFound],
// [ErrSchedulerNotFound] or [ErrDeduplicationNotFound]. A call that lists or counts
// returns an empty result instead.
package bullmq
