package timing

import "time"

// The time limits of the SDK that no option sets.
const (
	// ConnectTimeout limits the first contact with a server, and each of the calls
	// that prepare a connection.
	ConnectTimeout = 4 * time.Second
	// DialTimeout limits the time until a client is connected. It is longer than
	// ConnectTimeout, so that a network connection can report its own error first.
	DialTimeout = ConnectTimeout + 500*time.Millisecond
	// ReadRetryPause is the amount by which the pause between two attempts of a read
	// grows.
	ReadRetryPause = 20 * time.Millisecond
	// CallTimeout limits a call without a user's context.
	CallTimeout = 10 * time.Second
	// LastRenewal is the minimum timeout of a call that renews locks shortly before they
	// expire.
	LastRenewal = 100 * time.Millisecond
	// CancelPollInterval is how often a worker that runs jobs asks which of them were
	// cancelled.
	CancelPollInterval = 500 * time.Millisecond
	// IdleCancelPollInterval replaces CancelPollInterval in a worker that runs only short
	// jobs.
	IdleCancelPollInterval = 5 * time.Second
	// TimerDelay is how late the timer for a delayed job may be.
	TimerDelay = 20 * time.Millisecond
	// LongestRerunPause is the longest pause before a job is requeued without
	// consuming an attempt.
	LongestRerunPause = time.Second
	// ShortestLimitPause and LongestLimitPause bound the pause of a job that may not start
	// under the limit of its name.
	ShortestLimitPause = 20 * time.Millisecond
	LongestLimitPause  = 30 * time.Second
	// DeduplicationMargin is for the retries of an add. The deduplication of the job must
	// last longer than the retries, by at least this time.
	DeduplicationMargin = time.Second

	// ResultPollInterval is the interval at which a wait for a result checks that its
	// job still exists. Drain and obliterate publish no event for the jobs they remove.
	ResultPollInterval = 5 * time.Second
	// EventLag is for a watch that has read that its job has ended. It is how long the
	// watch waits for earlier events of the job.
	EventLag = 2 * time.Second
	// ResultCheckInterval is the minimum interval between two polls of all waits for
	// results. They poll if events were missed.
	ResultCheckInterval = time.Second

	// FaultLogInterval is the minimum interval between two log lines about failures of
	// a worker.
	FaultLogInterval = time.Second
	// OutageLogInterval replaces FaultLogInterval while Redis is unreachable.
	OutageLogInterval = 10 * time.Second

	// DeadLetterPause is how long a worker waits after a failure before it moves failed
	// jobs, so that one call moves the jobs that fail at about the same time.
	DeadLetterPause = 100 * time.Millisecond
	// DeadLetterOverlap is how far a worker looks back beyond its last look for failed
	// jobs. It allows for clocks of other clients that differ by less than this.
	DeadLetterOverlap = time.Minute
	// DeadLetterReview is how often a worker looks at all failed jobs.
	DeadLetterReview = 10 * time.Minute

	// RefusedRegistrationPause is how long a worker waits before it tries again to register
	// itself, after Redis has refused it.
	RefusedRegistrationPause = 5 * time.Minute
	// RegistrationDelay is how long a worker waits after its queues have changed before it
	// registers for them.
	RegistrationDelay = 100 * time.Millisecond
	// UnregisterTimeout limits the calls that remove a stopping worker from those that are
	// registered.
	UnregisterTimeout = 500 * time.Millisecond

	// RegistryLease is how long a listener of a registry of queues is woken without
	// renewing its lease.
	RegistryLease = 30 * time.Second
	// RegistryInterval is how often a listener renews its lease.
	RegistryInterval = 10 * time.Second
	// RegistryReview is how often a listener reads all queues of its registry.
	RegistryReview = time.Minute
	// RegistrationAge is the age from which on a producer renews the registration of a
	// queue, with its next add.
	RegistrationAge = 5 * time.Minute
	// RegistrationTimeout limits the renewal of a registration. An add waits for it.
	RegistrationTimeout = time.Second
	// RegistrationRetry is the pause after a renewal that has failed.
	RegistrationRetry = 30 * time.Second
	// VanishedAge is the age from which on the registration of a queue without keys is
	// removed.
	VanishedAge = time.Hour
	// VanishedInterval is how often a registry is searched for queues without keys.
	VanishedInterval = 10 * time.Minute

	// AdmissionWait is how long the upkeep of a MultiWorker waits for its first queues, if
	// some of them are on a node of a cluster that can't be reached.
	AdmissionWait = time.Second

	// FallbackInterval is how often a worker looks for jobs of routes that no worker serves.
	FallbackInterval = 5 * time.Second
	// LiveWorkersAge is how old the answer may be by which an add that requires a worker is
	// decided.
	LiveWorkersAge = time.Second
	// RouteRetryPause is how long a job is delayed if its route could not be registered.
	RouteRetryPause = time.Second
	// HandlerGrace is how long before the deadline of its shutdown a worker cancels the
	// contexts of its handlers. The worker uses less if little time is left.
	HandlerGrace = time.Second
	// RequestGrace is how long a Server waits for HTTP requests when it stops.
	RequestGrace = 5 * time.Second
	// FirstStalledCheckWait is how much longer a stopping worker waits for its first
	// stalled check.
	FirstStalledCheckWait = time.Second
	// CloseTimeout is how long a network connection that is to be closed may take to
	// receive outstanding replies.
	CloseTimeout = 200 * time.Millisecond
	// AbandonedCall is how long a call over a caller's client may continue after its
	// context has ended. Nothing waits for such a call.
	AbandonedCall = time.Second
	// ClosingTime is how much longer than ShutdownTimeout a worker may take to end,
	// so that its connections can be closed.
	ClosingTime = CloseTimeout + 150*time.Millisecond
	// LastTries is for how long a worker that stops repeats what has failed at once, such as a
	// look for the jobs of a lost reply.
	LastTries = 200 * time.Millisecond
	// BackgroundWait is how long closing waits for a background goroutine.
	BackgroundWait = time.Second

	// ShortestBlock is the shortest timeout of a blocking command. Redis before 7.0.8
	// takes a timeout of one millisecond as no timeout.
	ShortestBlock = 2 * time.Millisecond
	// LongestBlock is the longest timeout of a blocking command, so that a broken
	// connection is noticed.
	LongestBlock = 10 * time.Second
	// BlockMargin is how late the reply to a blocking command may be. If it is later, the
	// server is considered silent.
	BlockMargin = time.Second
	// UnblockTimeout limits the calls that interrupt a blocking command.
	UnblockTimeout = time.Second
	// UnblockRetryPause is the pause between attempts to interrupt a blocking command that
	// has not reached the server yet.
	UnblockRetryPause = time.Millisecond

	// PoolWait is how long a user of a caller's client waits for a connection before
	// it polls.
	PoolWait = 100 * time.Millisecond
	// PollInterval is the interval between polls that replace a blocking wait.
	PollInterval = 200 * time.Millisecond
	// ShortageWarning is how long a user of a caller's client waits for a
	// connection before the shortage is logged.
	ShortageWarning = time.Second
	// DedicatedPause is how long no dedicated connection is used after one has failed,
	// because it may be impossible to open another one.
	DedicatedPause = time.Second

	// ProbeTimeout limits a call that checks whether the server can serve.
	ProbeTimeout = 2 * time.Second
	// BrokenFor is how long connections may keep failing before Redis is considered
	// unreachable.
	BrokenFor = time.Second
	// ShortestAbsence is for a reader of events. If it has not read for longer, it checks
	// whether events were removed. In less time, too few events are added.
	ShortestAbsence = 250 * time.Microsecond

	// LastQuickPause is the longest pause of a loop that still counts as short. It allows
	// for a client whose connections, up to four, are all broken.
	LastQuickPause = 8 * ShortestPause

	// ShardReview is how often a ShardedQueue that is used reads the number of its
	// shards.
	ShardReview = time.Second
	// ShardPatience is the age of the last reading after which an add waits for another.
	ShardPatience = 2 * time.Second
	// ShardExpiry is the age of the last reading after which an add fails. It is shorter
	// than ShardGrace.
	ShardExpiry = 30 * time.Minute
	// ShardGrace is how long an older generation of shards is kept at least.
	ShardGrace = time.Hour
	// ShardLoadInterval is how often the jobs of the shards are counted to find the one
	// with the fewest.
	ShardLoadInterval = 100 * time.Millisecond
	// ShardEventLag is how long an event of one shard waits for earlier events of others.
	ShardEventLag = 20 * time.Millisecond
)
