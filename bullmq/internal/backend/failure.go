package backend

import (
	"errors"
	"fmt"
)

var (
	// ErrClosed is returned by calls on an object that is closed.
	ErrClosed = errors.New("bullmq: closed")
	// ErrCutOff is returned by calls that were in flight when the object was closed.
	ErrCutOff = fmt.Errorf("%w while the call was in flight", ErrClosed)
	// ErrNoConnection is returned by a wait if no connection is available for it at
	// present. The caller has to poll.
	ErrNoConnection = errors.New("no connection of the client's pool is free")
	// ErrSilent is returned by a wait if the store has not replied in time.
	ErrSilent = errors.New("no reply from Redis in time")
)

// Failure is the kind of a call's error. It determines whether the call may have run.
type Failure int

// The kinds of failures. After Lost, Aborted and ClientClosed the call may have been
// carried out, in full or in part.
const (
	// Lost means that no reply came, for instance because the connection broke.
	Lost Failure = iota
	// Aborted means that the store replied with an error after it may have carried out
	// a part of the call.
	Aborted
	// ClientClosed means that the caller has closed its own client.
	ClientClosed
	// NotSent means that nothing was sent.
	NotSent
	// Refused means that the store refused the call before it ran.
	Refused
	// Forbidden is like Refused: the user lacks the permission for the call.
	Forbidden
	// Exhausted is like Refused: memory, disk space or replicas are insufficient.
	Exhausted
	// Unavailable is like Refused: the store can't serve at present.
	Unavailable
)

// MayHaveRun reports whether the call may have been carried out, in full or in part.
func (f Failure) MayHaveRun() bool { return f == Lost || f == Aborted || f == ClientClosed }

// Replied reports whether the store has replied.
func (f Failure) Replied() bool {
	return f == Unavailable || f.Lasting()
}

// Lasting reports whether the store has replied and would probably reply the same to
// another such call.
func (f Failure) Lasting() bool {
	return f == Aborted || f == Refused || f == Forbidden || f == Exhausted
}
