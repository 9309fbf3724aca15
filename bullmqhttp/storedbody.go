package bullmqhttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"sync"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// storedBody reads a body of a store, and checks its size.
type storedBody struct {
	from   io.ReadCloser
	size   int64           // 0 if it is unknown
	ctx    context.Context // of Open
	cancel context.CancelCauseFunc
	stall  *stall

	mu     sync.Mutex // a handler may read in a goroutine of its own
	read   int64
	closed bool
	err    error // that a read has returned, other than io.EOF
}

// openBody opens a stored body. size is 0 if it is unknown. timeout is the longest time for Open and for
// each read, or 0. If the body is gone, the error is both fs.ErrNotExist and bullmq.ErrUnrecoverable.
func openBody(ctx context.Context, store BodyStore, ref string, size int64, timeout time.Duration) (*storedBody, error) {
	if store == nil {
		return nil, fmt.Errorf("bullmqhttp: open the stored body %.80q: there is no BodyStore; set Bodies", ref)
	}
	b := &storedBody{size: size}
	b.ctx, b.cancel = context.WithCancelCause(ctx)
	b.stall = startStall(timeout, b.cancel)
	err := b.open(store, ref)
	b.stall.stop()
	if err == nil {
		return b, nil
	}
	err = fmt.Errorf("bullmqhttp: open the stored body %.80q: %w", ref, stalled(b.ctx, err))
	b.cancel(nil)
	if errors.Is(err, fs.ErrNotExist) {
		err = bullmq.Unrecoverable(err)
	}
	return nil, err
}

func (b *storedBody) open(store BodyStore, ref string) (err error) {
	defer recovered("Open", &err)
	b.from, err = store.Open(b.ctx, ref)
	if err == nil && b.from == nil {
		err = errors.New("BodyStore.Open returned nil")
	}
	return err
}

func (b *storedBody) Read(part []byte) (int, error) {
	b.mu.Lock()
	closed := b.closed
	b.mu.Unlock()
	if closed {
		return 0, http.ErrBodyReadAfterClose
	}
	b.stall.restart()
	n, err := b.readPart(part)
	b.stall.stop()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.read += int64(n)
	if b.size > 0 && (err == io.EOF && b.read < b.size || b.read > b.size) {
		err = fmt.Errorf("bullmqhttp: the stored body does not have its %d bytes: %w", b.size, io.ErrUnexpectedEOF)
	}
	if err != nil && err != io.EOF && !b.closed {
		err = stalled(b.ctx, err)
		b.err = err
	}
	return n, err
}

func (b *storedBody) readPart(part []byte) (n int, err error) {
	defer recovered("Open: Read", &err)
	return b.from.Read(part)
}

func (b *storedBody) Close() (err error) {
	b.mu.Lock()
	closed := b.closed
	b.closed = true
	b.mu.Unlock()
	if closed {
		return nil
	}
	defer b.cancel(nil)
	defer recovered("Open: Close", &err)
	return b.from.Close()
}

// failure returns the error of a read of the store.
func (b *storedBody) failure() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}
