// Package bullmq is a job queue compatible with BullMQ, the job queue of Node.js. Go
// and Node.js programs can share the same queues in Redis, as producers, workers and
// event readers.
//
// # Adding jobs
//
// A [Queue] adds jobs with [Queue.Add] and [Queue.AddBulk]. Data is any value that
// encoding/json can encode. [JobOptions] set the delay, the priority, the number of
// attempts and more. With an id, JobOptions.JobID, an add can be repeated safely. A
// [Deduplication] drops adds while another job owns the same deduplication id.
//
// # Running jobs
//
// A [Worker] calls a [Handler] for each job, several at the same time if
// WorkerOptions.Concurrency is set. [Worker.Run] runs jobs until its context ends, and
// then waits for running handlers.
//
// The value that a handler returns is stored with the job as JSON. If it returns an
// error, the job is retried while attempts are left. Some errors have other effects:
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
// A [Mux] runs each job by the handler of its name. [Handle] registers the handler of a
// JobType, [Mux.HandleFunc] that of a name or a prefix. [Mux.ServeJob] is the Handler to
// give to [NewWorker] or [Server.Handle].
//
// In a handler, [JobFromContext] returns the job, [QueueFromContext] a queue to add jobs
// to, and [LoggerFromContext] a logger whose lines WorkerOptions.JobLog stores with the
// job.
//
// # Middleware
//
// A [Middleware] wraps handlers, by [Mux.Use], ServerOptions.Middleware or [Wrap]. An
// [AddMiddleware] wraps adds, by ServerOptions.AddMiddleware, QueueOptions.Middleware or
// FlowProducerOptions.Middleware. Package bullmq/middleware has some of both: logs,
// timing, request ids, encryption.
//
// # Server
//
// A [Server] runs the jobs of several queues in one process, over one connection, until
// its context ends or the process receives a signal. [Server.Queue] and
// [Server.FlowProducer] open what the process adds jobs with. [Server.Live] and
// [Server.Ready] are the handlers of probes, and [Server.HandleHTTP] serves them.
//
// # Cancelling
//
// [Queue.Cancel] cancels a job in any process. A job that runs gets a [*CancelledError] as
// the cause of its context. A job that does not run fails without a call of its handler.
// [Worker.CancelJob] cancels the context of a handler in the same process.
//
// # Dead letters
//
// With WorkerOptions.DeadLetters a worker moves jobs that failed for good to another
// queue. [Queue.MoveFailed] does so once. [Queue.DeadLetter] finds the letter of a job,
// and [Queue.ReplayDeadLetter] puts the job back.
//
// # Results and events
//
// [Job.Wait] and [Queue.WaitForJob] wait until a job has finished and return its
// result. [QueueEvents.All] iterates over the events of a queue, which all clients of
// the queue write, and [Queue.WatchJob] over those of one job. [WorkerEvents] are
// functions that a Worker calls for its own jobs.
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
// of a cron pattern.
// Schedulers are stored in Redis, and a scheduler's id identifies it, so every instance
// of a program can upsert the same one when it starts.
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
// A call about one thing that does not exist returns an error: [ErrJobNotFound],
// [ErrSchedulerNotFound] or [ErrDeduplicationNotFound]. A call that lists or counts
// returns an empty result instead. If a reply was lost, an add returns
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
