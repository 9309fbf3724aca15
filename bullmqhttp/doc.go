// Package bullmqhttp runs HTTP requests as jobs, and serves jobs over HTTP.
//
// [Server.Async] is an http.Handler that adds a request to a queue and replies 202 at once. [Serve]
// makes a job's handler of any http.Handler, so that a worker runs the request later, in any
// process. [Server] itself serves the status, the result and the cancellation of these jobs.
//
// The job is a plain BullMQ job. Its data is a [Request] and its return value is a [Response],
// which Node reads and writes too.
package bullmqhttp
