package timing

import "time"

// The time limits of the SDK that no option sets.
const (
	// ConnectTimeout limits the first contact with a server, and each of the calls
	// that prepare a connection.
	ConnectTimeout = 4 * time.Second
	// DialTimeout limits the time until a client is connected. It is longer than
	// ConnectTimeout, so that the error of a network connection is reported.
	DialTimeout = ConnectTimeout + 500*time.Millisecond
	// ReadRetryPause is the amount by which the pause between two attempts of a read
	// grows.
	ReadRetryPause = 20 * time.Millisecond
	// CallTimeout limits a call without a user's context.
	CallTimeout = 10 * time.Second
	// LastRenewal is the minimum timeout of a call that renews locks which are about
	// to expire.
	LastRenewal = 100 * time.Millisecond
	// CancelPollInterval is how often a worker that runs jobs asks which of them were
	// cancelled.
	CancelPollInterval = 500 * time.Millisecond
	// IdleCancelPollInterval is how often a worker does so that runs only short jobs.
	IdleCancelPollInterval = 5 * time.Second
	// TimerDelay is how late the timer for a delayed job may be.
	TimerDelay = 20 * time.Millisecond
	// LongestRerunPause is the longest pause before a job is requeued without
	// consuming an attempt.
	LongestRerunPause = time.Second
	// DeduplicationMargin is how much longer than the retries of an add its
	// deduplication must last.
	DeduplicationMargin = time.Second

	// ResultPollInterval is the interval at which a wait for a result checks that its
	// job still exists. Drain and obliterate publish no event for the jobs they remove.
	ResultPollInterval = 5 * time.Second
	// EventLag is how long a watch that reads the end of its job waits at most for the
	// events before it.
	EventLag = 2 * time.Second
	// ResultCheckInterval is the minimum interval between two polls of all waits for
	// results. They poll if events were missed.
	ResultCheckInterval = time.Second

	// FaultLogInterval is the minimum interval between two log lines about failures of
	// a worker.
	FaultLogInterval = time.Second
	// OutageLogInterval is the same while Redis is unreachable.
	OutageLogInterval = 10 * time.Second

	// DeadLetterPause is how long a worker waits after a failure before it moves failed
	// jobs, so that one call moves those that fail together.
	DeadLetterPause = 100 * time.Millisecond
	// DeadLetterOverlap is how far back a worker looks for failed jobs before its last
	// look. Other clients may write times of clocks that differ by less.
	DeadLetterOverlap = time.Minute
	// DeadLetterReview is how often a worker looks at all failed jobs nevertheless.
	DeadLetterReview = 10 * time.Minute

	// HandlerGrace is how long before its deadline a stopping worker cancels the
	// contexts of its handlers. It is less if the time until the deadline is short.
	HandlerGrace = time.Second
	// RequestGrace is how long a Server that stops waits for HTTP requests.
	RequestGrace = 5 * time.Second
	// FirstStalledCheckWait is how much longer a stopping worker waits for its first
	// stalled check.
	FirstStalledCheckWait = time.Second
	// CloseTimeout is how long a network connection may take to receive the
	// outstanding replies before it is closed.
	CloseTimeout = 200 * time.Millisecond
	// AbandonedCall is how long a call over a caller's client may continue after its
	// context has ended. Nothing waits for it.
	AbandonedCall = time.Second
	// ClosingTime is how much longer than ShutdownTimeout a worker may take to end,
	// so that its connections can be closed.
	ClosingTime = CloseTimeout + 150*time.Millisecond
	// BackgroundWait is how long closing waits for a background goroutine.
	BackgroundWait = time.Second

	// ShortestBlock is the shortest timeout of a blocking command. Redis before 7.0.8
	// treats a millisecond as no timeout.
	ShortestBlock = 2 * time.Millisecond
	// LongestBlock is the longest timeout of a blocking command, so that a broken
	// connection is noticed.
	LongestBlock = 10 * time.Second
	// BlockMargin is how late the reply to a blocking command may be. After that, the
	// server is considered silent.
	BlockMargin = time.Second
	// UnblockTimeout limits the calls that interrupt a blocking command.
	UnblockTimeout = time.Second
	// UnblockRetryPause is the pause before a blocking command that has not reached
	// the server yet is interrupted again.
	UnblockRetryPause = time.Millisecond

	// PoolWait is how long a user of a caller's client waits for a connection before
	// it polls.
	PoolWait = 100 * time.Millisecond
	// PollInterval is the interval between two polls that replace a blocking wait.
	PollInterval = 200 * time.Millisecond
	// ShortageWarning is how long a user of a caller's client waits for a
	// connection before the shortage is logged.
	ShortageWarning = time.Second
	// DedicatedPause is how long no dedicated connection is used after one failed,
	// because it may be impossible to open another.
	DedicatedPause = time.Second

	// ProbeTimeout limits a call that checks whether the server can serve.
	ProbeTimeout = 2 * time.Second
	// BrokenFor is how long connections may keep failing before Redis is considered
	// unreachable.
	BrokenFor = time.Second
	// ShortestAbsence is the shortest pause of a reader of events after which it
	// checks whether events were removed. Fewer events are added in less time.
	ShortestAbsence = 250 * time.Microsecond

	// LastQuickPause is the longest pause of a loop that still counts as short. A
	// client has up to four connections that may be broken.
	LastQuickPause = 8 * ShortestPause
)
