// Package bullmq is a job queue compatible with BullMQ, the job queue of Node.js. Go
// and Node.js programs can share the same queues in Redis, as producers, workers and
// event readers.
//
// # Adding jobs
//
// A [Queue] adds jobs with [Queue.Add] and [Queue.AddBulk]. Data is any value that
// encoding/json can encode. [JobOptions] set the delay, the priority, the number of
// attempts and more. While a job with the same JobOptions.JobID exists, nothing is added,
// so you can repeat an add. A [Deduplication] drops adds while another job owns the same
// deduplication id.
//
// # Running jobs
//
// A [Worker] calls a [Handler] for each job. WorkerOptions.Concurrency is the number of
// jobs that it runs at the same time. [Worker.Run] runs jobs until its context ends, and
// then waits for running handlers.
//
// The value that a handler returns is stored with the job as JSON. If the handler returns
// an error, the job is retried while attempts are left. Some errors have other effects:
//
//   - [Unrecoverable] fails the job without a retry.
//   - [Snooze] and [SnoozeUntil] run the job again later without consuming an attempt.
//   - [ErrWaitForChildren] runs the job again when its children have finished.
//   - [RateLimit] stops the whole queue for a while.
//
// A handler's context is cancelled when its job must stop. [context.Cause] returns
// the reason: [ErrLockLost], [ErrShutdown] or a [*CancelledError].
//
// A program with its own loop uses a [Fetcher] instead of a Worker.
//
// # Job types and mux
//
// A [JobType], made by [Define], is a name with the Go types of the data and the result,
// and with default options. [JobType.Add] adds a job, [JobType.Wait] returns its result.
//
// A [Mux] runs each job by the handler that is registered for the job's name. [Handle]
// registers a handler for a JobType. [Mux.HandleFunc] registers a handler for a name or
// for a prefix of names. Pass [Mux.ServeJob] to [NewWorker] or [Server.Handle].
//
// In a handler, [JobFromContext] returns the job, and [QueueFromContext] returns a queue
// to add jobs to. [LoggerFromContext] returns a logger. If WorkerOptions.JobLog is set,
// the lines of this logger are also stored with the job.
//
// # Middleware
//
// A [Middleware] wraps handlers. Set it with [Mux.Use], ServerOptions.Middleware or
// [Wrap]. An [AddMiddleware] wraps adds. Set it with ServerOptions.AddMiddleware,
// QueueOptions.Middleware or FlowProducerOptions.Middleware. Package bullmq/middleware has
// middleware of both kinds, for logs, timing, request ids and encryption.
//
// # Server
//
// A [Server] runs the jobs of several queues in one process, over one connection, until
// its context ends or the process receives a signal. [Server.Queue] and
// [Server.FlowProducer] open a Queue and a FlowProducer on the same connection.
// [Server.Live] and [Server.Ready] return the handlers of probes. [Server.HandleHTTP]
// serves HTTP in the same process.
//
// # Cancelling
//
// [Queue.Cancel] cancels a job, in whichever process it runs. If the job is running, the
// context of its handler is cancelled with a [*CancelledError] as the cause. If it is not
// running, it fails without a call of its handler. [Worker.CancelJob] cancels the context
// of a handler in the same process.
//
// # Dead letters
//
// With WorkerOptions.DeadLetters a worker moves jobs that failed for good to another
// queue. There they are called dead letters. [Queue.MoveFailed] moves the jobs that have
// failed so far. [Queue.DeadLetter] finds the dead letter of a job, and
// [Queue.ReplayDeadLetter] puts the job back into its queue.
//
// # Results and events
//
// [Job.Wait] and [Queue.WaitForJob] wait until a job has finished and return its
// result. [QueueEvents.All] iterates over the events of a queue, which all clients of
// the queue write. [Queue.WatchJob] iterates over the events of one job. [WorkerEvents]
// are functions that a Worker calls for its own jobs.
//
// # Flows
//
// A [FlowProducer] adds a job together with its children, which run before it. [Chain]
// runs steps one after the other, and [FanOut] runs branches at the same time. A
// parent reads the results of its children with [Children] or [ChildValue].
//
// # Schedulers
//
// [JobType.Schedule] and [Queue.UpsertScheduler] add jobs at an interval or at the times
// of a cron pattern. A scheduler is stored in Redis under its id. If the id exists, the
// scheduler is updated, so every instance of a program can upsert it when the program
// starts.
//
// # Managing a queue
//
// [Queue.Pause] stops all workers of a queue, [Worker.Pause] stops one.
// [Queue.SetGlobalConcurrency] and [Queue.SetGlobalRateLimit] limit all workers
// together. [Queue.Jobs] and [Queue.Counts] read jobs by state. [Queue.Clean],
// [Queue.Drain], [Queue.RetryJobs] and [Queue.PromoteJobs] change many jobs at once.
//
// # Connections
//
// Each Queue, Worker, QueueEvents and FlowProducer connects to [DefaultURL] unless its
// options have a URL or a Connection. A program with several of them should share a
// [Connection], made by [Connect], [ConnectOption] or [ConnectClient].
//
// While Redis is unreachable, Workers, QueueEvents and calls that wait for a result
// continue to wait. Other calls fail, except that [Queue.Add] retries for up to
// QueueOptions.AddWait.
// [Queue.Health] reports whether Redis is reachable.
//
// # Errors
//
// Errors can be inspected with [errors.Is] and [errors.As]. A call ends when its
// context ends, and then returns the context's error or cause.
//
// A call that names a job, a scheduler or a deduplication id that does not exist returns
// [ErrJobNotFound], [ErrSchedulerNotFound] or [ErrDeduplicationNotFound]. A call that
// lists or counts returns an empty result instead. If a reply was lost, an add returns
// [ErrMaybeAdded]: the job may or may not have been added.
//
// Nothing is logged unless a [Logger] is set.
//
// # Guarantees
//
// A job runs at least once. A worker holds a lock for each job that it runs, and renews
// it. If the worker dies, the lock expires and the job runs again on another worker, so
// handlers should be idempotent. A handler whose lock was lost can't finish the job.
//
// The page docs/guarantees.md of the repository lists all guarantees, and
// docs/compatibility.md lists the counterpart of each call of BullMQ.
package bullmq
