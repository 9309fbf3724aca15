// Package bullmqpush runs jobs by HTTP: it sends each job as a signed POST request to an
// endpoint, which may be written in any language. A service without a BullMQ client can so
// process a queue.
//
// [Handler] returns a [bullmq.Handler] for a Worker, a Mux or a Server. The body of a
// request is the data of the job. The answer decides about the job:
//
//   - 2xx completes it. A JSON body becomes its return value.
//   - 429 and 503 with Retry-After run it again later without consuming an attempt.
//     The host gets no other request until then.
//   - 410 and 422 fail it without a retry.
//   - Any other answer, no answer within the timeout, or a failed connection is a
//     failed attempt.
//
// With [Options.CallbackURL], 202 means that the endpoint works on the job for longer, and ends
// it by a request to [Callbacks].
//
// Requests are signed as Standard Webhooks specifies. A [Receiver] verifies and decodes
// them in Go. The page docs/push.md of the repository has receivers for Node and Python.
//
// Requests go to public addresses only, unless [Options.AllowedNetworks] has the address.
package bullmqpush
