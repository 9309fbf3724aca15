package backend

import (
	"context"
	"strings"
	"time"
)

// Group makes calls about several queues at once. It is optional: without it, the caller
// makes one call for each queue. A Group has no queues of its own. Each call names them.
// On a cluster, the queues of a call must be in one hash slot. A Group on Redis uses one
// dialect for all its queues. It is safe for concurrent use.
//
// The field Queue of the types here is the prefix of a queue's keys, including the last
// colon, such as bull:orders:.
//
// The queues of a call are independent. If one queue contains values that the call can't
// process, the result of that queue is a [*QueueError]. The results of the other queues are
// not affected. The error of a call as a whole concerns all its queues.
type Group interface {
	// AddPlainJobs adds plain jobs (see [Add.IsPlain]) to several queues, in one call. The
	// results are in the order of the argument. If the call as a whole fails, the error
	// tells whether it may have run, as that of an add to one queue does.
	AddPlainJobs(ctx context.Context, adds []QueueAdds) ([][]AddResult, error)

	// ServeQueues first ends jobs and then fetches jobs, in one call. It returns when the
	// call has ended, so that the caller can make the next call before it decodes the reply.
	// read decodes the reply. If read returns an error, none, some or all of the call may
	// have been carried out.
	ServeQueues(ctx context.Context, s Serve) (read func() (Served, error))
	// ResolveFetches determines the outcome of a call of ServeQueues, with these queues and
	// tokens, whose reply was lost. It returns the running jobs whose locks have one of the
	// tokens. It changes nothing; [Group.ExtendLocksOf] renews the locks.
	ResolveFetches(ctx context.Context, queues, tokens []string) ([]LockedJob, error)

	// LookAtQueues returns the queues that need attention, in the order of the argument, and
	// what it finds in each. It fetches no jobs, and creates no keys. A queue that needs no
	// attention costs little. The caller should divide a long list, so that other calls run
	// in between.
	LookAtQueues(ctx context.Context, queues []string, l Look) ([]Seen, error)
	// ReturnDues puts back wake-ups with the time of a delayed job. The caller has claimed
	// or received them, and no longer uses them. If a wake-up for an earlier time was set
	// in the meantime, that wake-up stays.
	ReturnDues(ctx context.Context, dues []QueueDue) error

	// ExtendLocksOf extends locks. The results are in the order of the argument.
	ExtendLocksOf(ctx context.Context, locks []QueueLocks, duration time.Duration) ([]QueueRenewal, error)
	// MoveStalledJobsOf makes the check of [Consumer.MoveStalledJobsToWait] in each queue.
	// The results are in the order of the queues.
	MoveStalledJobsOf(ctx context.Context, queues []string, now time.Time, maxStalled int, interval time.Duration) ([]QueueStalled, error)

	// CancelRequestsOf returns the requests of each queue after a position. The results are
	// in the order of the argument.
	CancelRequestsOf(ctx context.Context, after []QueuePosition) ([][]CancelRequest, error)
	// DialectHintsOf returns what determines the dialect of each queue, see
	// [Dialects.DialectHints]. The results are in the order of the queues.
	DialectHintsOf(ctx context.Context, queues []string) ([]QueueDialect, error)
}

// QueueAdds are plain jobs to add to a queue.
type QueueAdds struct {
	Queue string
	Jobs  []*Add
}

// Serve is the request of [Group.ServeQueues].
type Serve struct {
	Now           time.Time
	MetricsPoints int    // minutes of metrics to keep; 0 collects none
	Worker        Worker // its Limit is not used, each Take has its own

	// Ends are the jobs to end, at most one element for each queue.
	Ends []QueueEnds
	// Takes are made in order, at most one for each queue. A take uses the tokens that the
	// takes before it have left.
	Takes []Take
	// Tokens are the tokens for the locks of the jobs to fetch. No other call may have used
	// them.
	Tokens []string
}

// QueueEnds are jobs of a queue that end. The field Fetch of Ends is not used.
type QueueEnds struct {
	Queue string
	Ends  []*End
}

// Take fetches jobs of a queue.
type Take struct {
	Queue string
	Most  int       // the maximum number of jobs, at least 1
	Limit RateLimit // the worker's limiter; zero for none
}

// Served is the result of [Group.ServeQueues].
type Served struct {
	Ends []QueueEnded // one for each element of Serve.Ends
	// Takes are the results of the takes that were made, in the order of Serve.Takes. The
	// call stops when no token is left, or when the reply has become large. The last takes
	// may then have no result.
	Takes []Taken
}

// QueueEnded is the result of a [QueueEnds].
type QueueEnded struct {
	// Errs has, in the order of QueueEnds.Ends, the reason why a job was not finished, and
	// nil for a job that was.
	Errs []error
	// Err is set if the outcome is unknown: none, some or all of the jobs may have been
	// finished. Errs is nil then.
	Err error
	// Waiting reports that jobs of the queue wait, if the call has not fetched from it. The
	// queue may be paused or at its global concurrency.
	Waiting bool
}

// Taken is the result of a [Take]. If Jobs is empty, and neither Dry nor LimitedFor is
// set, the queue is paused or at its global concurrency.
type Taken struct {
	Jobs []TakenJob
	// Dry reports that no further job of the queue is ready. The call has then also removed
	// the wake-up for ready jobs.
	Dry bool
	// LimitedFor is how long the rate limit is still in effect. It is 0 if there are jobs.
	LimitedFor time.Duration
	// NextDue is when the first delayed job is due. It is zero if there is no delayed job,
	// or if Dry is false.
	NextDue time.Time

	// Err is set if the take has failed. The take may have locked jobs with Tokens.
	Err    error
	Tokens []string
}

// TakenJob is a job that was fetched, with the token of its lock.
type TakenJob struct {
	Job   *JobRecord
	Hint  Hint // for the [End] of the job
	Token string
}

// LockedJob is a running job and the token of its lock.
type LockedJob struct {
	Queue string
	Job   *JobRecord
	Token string
}

// Look configures [Group.LookAtQueues].
type Look struct {
	// Quick looks for wake-ups only. It costs less, and sets only Ready and NextDue of
	// [Seen]. A look that is not quick also finds ready jobs that have no wake-up.
	Quick bool
	// Claim removes wake-ups with the time of a delayed job, so that they wake no other
	// worker; see [Group.ReturnDues].
	Claim bool
	// Failed also reports queues with failed jobs. Vanished also reports queues that do not
	// exist.
	Failed, Vanished bool
}

// Seen is a queue that needs attention.
type Seen struct {
	Index int // of the queue, in the argument of [Group.LookAtQueues]

	Ready     bool      // a job may be ready, and the queue is not paused
	NextDue   time.Time // when the first delayed job is due; zero for none
	Running   bool      // jobs are active
	Cancelled bool      // there are entries that notify workers of cancellations
	Failed    bool      // there are failed jobs; only with Look.Failed
	Vanished  bool      // the queue does not exist; only with Look.Vanished
}

// QueueDue is when the first delayed job of a queue is due.
type QueueDue struct {
	Queue string
	At    time.Time
}

// QueueLocks are locks of a queue.
type QueueLocks struct {
	Queue string
	Locks []Lock
}

// QueueRenewal is the result of extending the locks of a queue.
type QueueRenewal struct {
	Renewal
	Err error
}

// QueueStalled is the result of a check for stalled jobs.
type QueueStalled struct {
	JobIDs []string // of the jobs that were moved back to wait
	Err    error
}

// QueuePosition is a position in the requests of a queue. After is the id of the last
// [CancelRequest] before it.
type QueuePosition struct{ Queue, After string }

// QueueDialect is what determines the dialect of a queue.
type QueueDialect struct {
	Version string // that another client has written; "" for none
	Paused  bool   // whether jobs are in the list "paused"
	Err     error
}

// QueueError is the server's error for one queue of a call about several queues. The call
// may have been carried out in part for this queue.
type QueueError struct {
	Queue string
	Text  string
}

func (e *QueueError) Error() string {
	return "queue " + strings.TrimSuffix(e.Queue, ":") + ": " + e.Text
}
