package bullmqhttp

import (
	"context"
	"errors"
	"io"
)

// upload gives the body of a response to a store while a handler writes it.
type upload struct {
	pipe   *io.PipeWriter
	cancel context.CancelFunc
	done   chan struct{} // closed when Store has returned; ref and err are then set
	ref    string
	err    error
}

var errAborted = errors.New("bullmqhttp: the response is dropped")

// startUpload calls Store in a goroutine that ends with finish or abort.
func startUpload(ctx context.Context, store BodyStore, info BodyInfo) *upload {
	body, pipe := io.Pipe()
	ctx, cancel := context.WithCancel(ctx)
	u := &upload{pipe: pipe, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(u.done)
		u.ref, u.err = storeBody(ctx, store, info, body)
		_ = body.CloseWithError(u.err) // of nil too: a write after the end fails
	}()
	return u
}

// Write blocks until the store has read the part, or has failed.
func (u *upload) Write(part []byte) (int, error) { return u.pipe.Write(part) }

// finish ends the body and returns its reference.
func (u *upload) finish() (ref string, err error) {
	_ = u.pipe.Close()
	<-u.done
	u.cancel()
	return u.ref, u.err
}

// abort makes the store drop the body. It has no effect after finish.
func (u *upload) abort() {
	_ = u.pipe.CloseWithError(errAborted)
	u.cancel()
	<-u.done
}
