package bullmqhttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"time"
	"unicode/utf8"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// BodyStore keeps large bodies outside Redis, such as in a bucket or a directory. A job then has a
// reference to the body. Options.Bodies and ServeOptions.Bodies select the store. Its methods are called
// by several goroutines at once.
//
// The context of a call is that of the request, or of the job. Both methods must return soon after it has
// ended, and so must Read of a body that Open has returned. Until then, the goroutine of the request, or
// the slot of the worker, is blocked. Options.StoreTimeout ends the context of a request if the store
// stalls. A panic of the store has the effect of an error.
//
// This package never removes a body. The store removes bodies by their age, for instance by a rule of
// the bucket. They must outlast the longest time from a request to the end of its job, and then
// Options.KeepFor. Bodies without a job remain after a failed add or attempt, and after one of several
// requests at the same time with the same Idempotency-Key.
type BodyStore interface {
	// Store keeps a body and returns a reference to it, such as its name in a bucket. The reference
	// is text that is not empty. Each call returns another one.
	//
	// Store reads the body until io.EOF. If the body returns another error, or ctx ends, Store keeps
	// nothing and returns an error.
	Store(ctx context.Context, info BodyInfo, body io.Reader) (ref string, err error)
	// Open returns the body of a reference. ctx ends when the body is closed, if not before. An error that is [fs.ErrNotExist] means that the body was
	// removed, and that another attempt can't find it either.
	Open(ctx context.Context, ref string) (io.ReadCloser, error)
}

// BodyInfo describes a body to store.
type BodyInfo struct {
	// JobID is the id of the job.
	JobID string
	// Response reports that it is the body of the job's response, and not of its request.
	Response bool
	// ContentType is the type of the body, with its parameters.
	ContentType string
	// Size is the number of bytes, or -1 if it is unknown.
	Size int64
}

// defaultStoreAbove is the default of Options.StoreAbove and ServeOptions.StoreAbove.
const defaultStoreAbove = 64 << 10

// storeBody calls Store and checks what it has done.
func storeBody(ctx context.Context, store BodyStore, info BodyInfo, body io.Reader) (ref string, err error) {
	defer recovered("Store", &err)
	ref, err = store.Store(ctx, info, body)
	switch {
	case err != nil:
		return "", err
	case ref == "" || !utf8.ValidString(ref):
		return "", fmt.Errorf("BodyStore.Store returned the reference %.80q: return text that is not empty", ref)
	}
	var one [1]byte
	switch _, err := io.ReadFull(body, one[:]); err {
	case io.EOF:
		return ref, nil
	case nil:
		return "", errors.New("BodyStore.Store has not read the body to its end")
	default:
		return "", err
	}
}

// recovered is deferred by calls of a BodyStore. It makes a panic an error. Otherwise, one in a goroutine
// of a handler or of this package would end the process.
func recovered(call string, err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("BodyStore.%s: %w", call, &bullmq.PanicError{Value: p, Stack: string(debug.Stack())})
	}
}

// stall ends a context if a store takes too long. A nil stall has no limit.
type stall struct {
	limit time.Duration
	timer *time.Timer
}

// errStalled is the cause of the end of the context.
var errStalled = errors.New("the BodyStore has exceeded Options.StoreTimeout")

// startStall starts to count. A limit of 0 is none.
func startStall(limit time.Duration, cancel context.CancelCauseFunc) *stall {
	if limit == 0 {
		return nil
	}
	return &stall{limit, time.AfterFunc(limit, func() { cancel(errStalled) })}
}

func (s *stall) stop() {
	if s != nil {
		s.timer.Stop()
	}
}

func (s *stall) restart() {
	if s != nil {
		s.timer.Reset(s.limit)
	}
}

// stalled adds the cause of the end of a context to an error of a store.
func stalled(ctx context.Context, err error) error {
	if err != nil && context.Cause(ctx) == errStalled {
		return fmt.Errorf("%w: %w", errStalled, err)
	}
	return err
}
