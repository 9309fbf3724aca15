package backend

import "context"

// Cancelling cancels jobs and notifies their workers.
type Cancelling interface {
	// Cancel cancels a job that has not finished. failure is the reason with which the job
	// fails: "cancelled", or a text that begins with "cancelled: ". reason is what the
	// worker that runs the job receives. If the call carries out a [CancelRequest], request
	// is the id of that request, otherwise "". Cancel returns an [*Error] with the code
	// [JobNotFound] if there is no such job.
	Cancel(ctx context.Context, jobID, failure, reason, request string) (CancelOutcome, error)
	// CancelRequests returns the requests after the one with the given id.
	CancelRequests(ctx context.Context, after string) ([]CancelRequest, error)
	// Cancellations returns those of the given jobs that are cancelled and have not
	// finished.
	Cancellations(ctx context.Context, jobIDs []string) ([]Cancellation, error)
}

// CancelOutcome is the outcome of a cancellation.
type CancelOutcome int

// The outcomes of a cancellation.
const (
	CancelRepeated CancelOutcome = iota // another call has carried out the request
	CancelQueued                        // the job wasn't running; the worker that fetches it next will fail it
	CancelRunning                       // the job is running; its worker is notified
	CancelFinished                      // the job has finished; nothing was changed
)

// Cancellation is a cancelled job, and the reason with which it fails.
type Cancellation struct{ JobID, Failure string }

// CancelRequest is an entry that notifies workers of a cancellation.
type CancelRequest struct {
	ID, JobID, Reason string
	// Recorded means that the cancellation is also stored with the job. Otherwise a client
	// that can write only such entries requests a cancellation.
	Recorded bool
}
