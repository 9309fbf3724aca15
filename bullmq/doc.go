// Package bullmq is a job queue compatible with BullMQ, the job queue of Node.js. Go
// and Node.js programs can share the same queues in Redis, as producers, workers and
// event readers.
//
// A [Queue] adds and manages jobs, a [Worker] runs them, and [QueueEvents] reports
// events. A call ends when its context ends. Errors can be inspected with errors.Is and
// errors.As. Nothing is logged unless a Logger is set.
//
// A call about one thing that does not exist returns an error: [ErrJobNotFound],
// [ErrSchedulerNotFound] or [ErrDeduplicationNotFound]. A call that lists or counts
// returns an empty result instead.
package bullmq
