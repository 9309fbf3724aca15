package backend

import (
	"errors"
	"fmt"
)

var (
	// ErrClosed is returned by calls on something that was closed before.
	ErrClosed = errors.New("bullmq: closed")
	// ErrCutOff is returned by calls that were in flight when something was closed.
	ErrCutOff = fmt.Errorf("%w while the call was in flight", ErrClosed)
	// ErrNoConnection is returned by a wait for which there is no connection at
	// present. The caller has to poll.
	ErrNoConnection = errors.New("no connection of the client's pool is free")
	// ErrSilent is returned by a wait that the store has not ended in time.
	ErrSilent = errors.New("no reply from Redis in time")
)

// Failure is what the error of a call means for the call.
type Failure int

// The kinds of failures. Only after Lost, Aborted and ClientClosed may the call have
// been carried out, or a part of it.
const (
	// Lost means that no reply came, for instance because the connection broke.
	Lost Failure = iota
	// Aborted means that the store replied with an error that may have ended the
	// call halfway.
	Aborted
	// ClientClosed means that the caller has closed the client of its own.
	ClientClosed
	// NotSent means that nothing was sent.
	NotSent
	// Refused means that the store refused the call before it ran.
	Refused
	// Forbidden is like Refused, because the user may not make such a call.
	Forbidden
	// Exhausted is like Refused, for want of memory, disk or replicas.
	Exhausted
	// Unavailable is like Refused, because the store can't serve for now.
	Unavailable
)

// MayHaveRun reports whether the call may have been carried out, or a part of it.
func (f Failure) MayHaveRun() bool { return f == Lost || f == Aborted || f == ClientClosed }

// Replied reports whether the store has replied.
func (f Failure) Replied() bool {
	return f == Unavailable || f.Lasting()
}

// Lasting reports whether the store has replied, and is likely to give the same reply
// to another such call.
func (f Failure) Lasting() bool {
	return f == Aborted || f == Refused || f == Forbidden || f == Exhausted
}
