package backend

import (
	"context"
	"time"
)

// Waiter waits for work over a separate connection. One goroutine waits, between
// Begin and End. Any other may interrupt it.
type Waiter interface {
	// Begin announces a wait. From then on Interrupt ends it, even before it has
	// reached the server.
	Begin()
	// End must be called after the wait.
	End()
	// Waiting reports whether there is a wait to interrupt.
	Waiting() bool
	// Interrupt ends the wait that has begun, if any.
	Interrupt()

	// WaitAndFetch waits for work for at most block. If possible, it fetches a job as soon
	// as the wait ends. Otherwise it sets fetched.Unknown. now is the time by the clock of
	// the queue. err is the error of the fetch. wake.Err is the error of the wait.
	WaitAndFetch(block time.Duration, now time.Time, worker Worker, token string) (wake Wake, fetched Fetched, err error)
	// WaitWithin waits for work until limit has passed or ctx ends. It may return earlier
	// if the caller has to poll.
	WaitWithin(ctx context.Context, limit time.Duration) error
	// Return puts back a wake-up that the caller does not use, so that it wakes
	// another worker.
	Return(wake Wake) error

	// Close closes the connection.
	Close()
}

// GroupWaiter waits for work in any of many queues, over one separate connection. One
// goroutine waits, between Begin and End. Any other may interrupt it.
type GroupWaiter interface {
	// Begin, End, Waiting and Interrupt are like the methods of a [Waiter].
	Begin()
	End()
	Waiting() bool
	Interrupt()

	// Wait waits for a wake-up of any of the queues, for at most block. The queues are
	// given by the keys of their markers. If several queues have a wake-up, Wait takes that
	// of the first one, so a caller should begin with another queue each time. The slice
	// may be used again when Wait has returned.
	Wait(block time.Duration, markers []string) GroupWake
	// Return puts back wake-ups that the caller does not use, so that they wake other
	// workers.
	Return(wakes ...GroupWake) error

	// Close closes the connection.
	Close()
}

// GroupWake is the result of a wait for work in many queues.
type GroupWake struct {
	Wake
	// Marker is the key that the wake-up was taken from; "" if there was no wake-up.
	Marker string
	// Member and Score are the entry that was taken from the key. A key that is not a
	// queue's marker may have any members.
	Member string
	Score  float64
	// Cut reports that the wait was ended without the server. A wake-up may have been lost.
	Cut bool
}

// Wake is the result of a wait for work.
type Wake struct {
	// Woken reports whether there was a wake-up. No other worker receives it unless it
	// is returned.
	Woken bool
	// NextDue is when the first delayed job is due. It is zero if a job may be ready.
	NextDue time.Time
	// Err is the error of the wait.
	Err error
}
