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
	// ReadRetryPause is by how much the pause before a read is repeated grows.
	ReadRetryPause = 20 * time.Millisecond
	// CallTimeout limits a call that has no context of a user's.
	CallTimeout = 10 * time.Second
	// LastRenewal is the least time that a call may take to renew locks which are
	// about to expire.
	LastRenewal = 100 * time.Millisecond
	// TimerDelay is how late the timer for a delayed job may be.
	TimerDelay = 20 * time.Millisecond
	// LongestRerunPause is the longest pause before a job runs again that its handler
	// has sent back without using an attempt.
	LongestRerunPause = time.Second

	// ResultPollInterval is how often a wait for a result asks whether its job is
	// still there. Drain and obliterate publish no event for the jobs they remove.
	ResultPollInterval = 5 * time.Second
	// ResultCheckInterval is the least time between two times at which all waits for
	// results ask for the states of their jobs because events were missed.
	ResultCheckInterval = time.Second

	// FaultLogInterval is the least time between two faults of a worker in the log.
	FaultLogInterval = time.Second
	// OutageLogInterval is the same while Redis can't be reached.
	OutageLogInterval = 10 * time.Second

	// HandlerGrace is how long before its deadline a worker that stops ends the
	// contexts of its handlers. It is less if the whole time is short.
	HandlerGrace = time.Second
	// FirstStalledCheckPatience is how much longer a worker that stops waits for its
	// first stalled check.
	FirstStalledCheckPatience = time.Second
	// ClosePatience is how long a network connection may take to close in order,
	// with the replies to what was sent before. It is cut off then.
	ClosePatience = 200 * time.Millisecond
	// AbandonedCall is how long a call over a caller's client may continue after its
	// context has ended. Nobody waits for it.
	AbandonedCall = time.Second
	// ClosingTime is how much longer than ShutdownTimeout a worker may take to end,
	// so that its connections can be closed.
	ClosingTime = ClosePatience + 150*time.Millisecond

	// ShortestBlock is the shortest wait that a server may be asked for. Redis
	// before 7.0.8 takes a millisecond for no limit.
	ShortestBlock = 2 * time.Millisecond
	// LongestBlock is the longest wait that a server is asked for, so that a broken
	// connection is noticed.
	LongestBlock = 10 * time.Second
	// BlockMargin is how late the reply to a wait may come. The server is taken to
	// be silent then.
	BlockMargin = time.Second
	// UnblockTimeout limits the time in which a wait is interrupted.
	UnblockTimeout = time.Second

	// PoolPatience is how long a user of a caller's client waits for a connection
	// of its own. It polls then.
	PoolPatience = 100 * time.Millisecond
	// PollInterval is the time between two polls in place of a wait.
	PollInterval = 200 * time.Millisecond
	// ShortageWarning is how long a user of a caller's client waits for a
	// connection before the shortage is logged.
	ShortageWarning = time.Second
	// DedicatedPause is how long no dedicated connection is used after one failed,
	// since it may not be possible to open another.
	DedicatedPause = time.Second

	// ProbeTimeout limits a call that asks whether the server can serve.
	ProbeTimeout = 2 * time.Second
	// BrokenFor is how long connections may break, one after the other, before that
	// is an outage.
	BrokenFor = time.Second
	// ShortestAbsence is for how long a reader of events must not have read before
	// it asks whether events were removed. Too little is added in less time.
	ShortestAbsence = 250 * time.Microsecond

	// LastQuickPause is the longest pause of a loop that still counts as one of its
	// first. A client has up to four connections that may have broken.
	LastQuickPause = 8 * ShortestPause
)
