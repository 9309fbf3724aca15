package backend

import (
	"context"
	"strings"
	"time"
)

// Group makes calls about several queues at once. It is optional: a backend that lacks it
// makes one call for each queue. A Group has no queues of its own, each call names them. On
// a cluster they must be in one slot. A Group of Redis writes one dialect. It is safe for
// concurrent use.
//
// Queue, in all types here, is the prefix of a queue's keys, such as bull:orders: with the
// last colon.
//
// The queues of a call are independent. If one of them contains values that the call
// can't process, its result is a [*QueueError], and the others have theirs. The error of a
// call as a whole concerns all queues.
type Group interface {
	// ServeQueues first ends jobs and then fetches others, in one call. It returns after
	// the call, so that the next one can be made. read then reads the reply. If read
	// returns an error, none, some or all of it may have been carried out.
	ServeQueues(ctx context.Context, s Serve) (read func() (Served, error))
	// ResolveFetches returns the running jobs whose locks have one of the tokens, after the
	// reply to a call of ServeQueues with these queues and tokens was lost. It changes
	// nothing; [Group.ExtendLocksOf] renews the locks.
	ResolveFetches(ctx context.Context, queues, tokens []string) ([]LockedJob, error)

	// LookAtQueues returns what it finds in those queues that need attention, in their
	// order. It fetches nothing, and creates no keys. It is cheap for queues that do not.
	// The caller divides a long list, so that other calls run in between.
	LookAtQueues(ctx context.Context, queues []string, l Look) ([]Seen, error)
	// ReturnDues puts back the wake-ups with the time of a delayed job that the caller has
	// claimed or received, and does not use any more. One that was set since then, for an
	// earlier time, stays.
	ReturnDues(ctx context.Context, dues []QueueDue) error

	// ExtendLocksOf extends locks. The results are in the order of the argument.
	ExtendLocksOf(ctx context.Context, locks []QueueLocks, duration time.Duration) ([]QueueRenewal, error)
	// MoveStalledJobsOf makes the check of [Consumer.MoveStalledJobsToWait] in each queue.
	// The results are in the order of the queues.
	MoveStalledJobsOf(ctx context.Context, queues []string, now time.Time, maxStalled int, interval time.Duration) ([]QueueStalled, error)

	// CancelRequestsOf returns what was told to workers of each queue after a request. The
	// results are in the order of the argument.
	CancelRequestsOf(ctx context.Context, after []QueuePosition) ([][]CancelRequest, error)
	// DialectHintsOf returns what determines the dialect of each queue, see
	// [Dialects.DialectHints]. The results are in the order of the queues.
	DialectHintsOf(ctx context.Context, queues []string) ([]QueueDialect, error)
}

// Serve is the request of [Group.ServeQueues].
type Serve struct {
	Now           time.Time
	MetricsPoints int    // minutes of metrics to keep; 0 collects none
	Worker        Worker // its Limit is not used, each Take has its own

	// Ends are the jobs to end, at most one element for each queue.
	Ends []QueueEnds
	// Takes are made in their order, at most one for each queue. Each gets the next tokens, and
	// those that it does not use are left to the takes after it.
	Takes []Take
	// Tokens are the locks of the jobs to fetch. No other call may have used them.
	Tokens []string
}

// QueueEnds are jobs of a queue that end. Their Fetch is not used.
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
	// Takes are the results of those that were made: the first of Serve.Takes. No more are
	// made once no token is left, or the reply has become large.
	Takes []Taken
}

// QueueEnded is the result of a [QueueEnds].
type QueueEnded struct {
	// Errs are the reasons why jobs were not finished, in the order of QueueEnds.Ends; nil
	// for each that was.
	Errs []error
	// Err is set if none, some or all of the jobs may have been finished. Errs is nil then.
	Err error
}

// Taken is the result of a [Take]. If it has no job and is neither dry nor limited, the
// queue is paused, or has reached its global concurrency.
type Taken struct {
	Jobs []TakenJob
	// Dry reports that no job of the queue is ready any more. Then there is no wake-up for a
	// ready job left.
	Dry bool
	// LimitedFor is how long the rate limit is still in effect, if there is no job.
	LimitedFor time.Duration
	// NextDue is when the first delayed job is due. It is zero if there is none, or if the
	// queue is not dry.
	NextDue time.Time

	// Err is set if the take has failed. Jobs may have been locked with Tokens.
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
	// Quick looks for wake-ups only. It costs less, and sets no other fields of [Seen] than
	// Ready and NextDue. Otherwise the look finds ready jobs for which there is no wake-up,
	// too.
	Quick bool
	// Claim takes the wake-ups with the time of a delayed job, so that they wake no other
	// worker; see [Group.ReturnDues].
	Claim bool
	// Failed also reports queues with failed jobs, and Vanished those that do not exist.
	Failed, Vanished bool
}

// Seen is a queue that needs attention.
type Seen struct {
	Index int // of the queue, in the argument of [Group.LookAtQueues]

	Ready     bool      // a job may be ready, and the queue is not paused
	NextDue   time.Time // when the first delayed job is due; zero for none
	Running   bool      // jobs are active
	Cancelled bool      // cancellations were told to workers
	Failed    bool      // there are failed jobs; only if asked for
	Vanished  bool      // the queue does not exist; only if asked for
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

// QueuePosition is a position in the requests of a queue: the id of the last
// [CancelRequest].
type QueuePosition struct{ Queue, After string }

// QueueDialect is what determines the dialect of a queue.
type QueueDialect struct {
	Version string // that another client has written; "" for none
	Paused  bool   // whether jobs are in the list paused
	Err     error
}

// QueueError is the server's error for one queue of a call about several. The call may
// have been carried out in part for this queue.
type QueueError struct {
	Queue string
	Text  string
}

func (e *QueueError) Error() string {
	return "queue " + strings.TrimSuffix(e.Queue, ":") + ": " + e.Text
}
