// Package bullmqhttp puts a queue behind an HTTP API: it adds jobs for requests, runs HTTP requests as jobs,
// and serves jobs over HTTP.
//
// [Post] is an http.Handler that adds a typed job for each request and replies 202. The body of the request
// is the data of the job. [Server] serves its status, its result, its events and its cancellation.
//
// [Server.Async] is an http.Handler that adds a request to a queue and replies 202 at once. [Serve]
// makes a job's handler of any http.Handler, so that a worker runs the request later, in any
// process. [Server] serves these jobs too.
//
// The job is a plain BullMQ job. Its data is a [Request] and its return value is a [Response],
// which Node reads and writes too.
//
// A [Manager] is for jobs of any kind, and for workers without a client of BullMQ. It submits jobs, lets
// named workers claim them, extend their claims and end them, and lists, counts, cancels and removes
// jobs. Programs call it in Go, or over HTTP.
package bullmqhttp
