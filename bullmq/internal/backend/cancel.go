package backend

import "context"

// Cancelling cancels jobs, and tells workers of it.
type Cancelling interface {
	// Cancel cancels a job that has not finished. failure is the reason with which it
	// fails, which is "cancelled" or begins with "cancelled: ". reason is what its
	// worker is told. request is the id of the [CancelRequest] that the call carries
	// out, or "". It returns an [*Error] with the code [JobNotFound] if there is no such
	// job.
	Cancel(ctx context.Context, jobID, failure, reason, request string) (CancelOutcome, error)
	// CancelRequests returns what was told to workers after a request, given by its id.
	CancelRequests(ctx context.Context, after string) ([]CancelRequest, error)
	// Cancellations returns those of the jobs that are cancelled and have not finished.
	Cancellations(ctx context.Context, jobIDs []string) ([]Cancellation, error)
}

// CancelOutcome is what a cancellation found.
type CancelOutcome int

// The outcomes of a cancellation.
const (
	CancelRepeated CancelOutcome = iota // another call has carried out the request
	CancelQueued                        // the job wasn't running; the next worker that fetches it fails it
	CancelRunning                       // the job is running; its worker is told
	CancelFinished                      // the job has finished; nothing was changed
)

// Cancellation is a job that is cancelled, with the reason with which it fails.
type Cancellation struct{ JobID, Failure string }

// CancelRequest is an entry that tells workers of a cancellation.
type CancelRequest struct {
	ID, JobID, Reason string
	// Recorded means that the job itself says that it is cancelled. Otherwise a client
	// asks for it that can only write the entry.
	Recorded bool
}
