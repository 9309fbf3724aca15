package bullmqhttp

import (
	"bytes"
	"context"
	"errors"
	"hash"
	"io"
	"net/http"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/jsontext"
)

// meter reads the body of a request. It has the size and the hash of what was read, and the error that
// ended it.
type meter struct {
	from  io.Reader
	hash  hash.Hash
	size  int64
	err   error  // other than io.EOF
	stall *stall // of the store that reads
	ended func() // called at the end; may be nil
}

func (m *meter) Read(part []byte) (int, error) {
	m.stall.stop() // the client may take its time
	n, err := m.from.Read(part)
	m.stall.restart()
	m.size += int64(n)
	m.hash.Write(part[:n])
	switch {
	case err == io.EOF && m.ended != nil:
		m.ended()
	case err != nil && err != io.EOF:
		m.err = err
	}
	return n, err
}

// firstRead is how much memory a body gets before it has arrived, whatever its length is said to be.
const firstRead = 16 << 10

// readBody reads the body into a stored request, or gives it to the store. known reports that a job with
// the idempotency key exists already, so that it has done neither.
func (a *async) readBody(r *http.Request, id string, keyed bool, stored *Request, body *meter) (known bool, err error) {
	o := &a.server.o
	from := io.Reader(body)
	if o.Bodies != nil {
		from = io.LimitReader(body, int64(o.StoreAbove)+1)
	}
	var begin bytes.Buffer
	if r.ContentLength > 0 {
		begin.Grow(int(min(r.ContentLength, firstRead)) + bytes.MinRead) // and room to find the end
	}
	if _, err := begin.ReadFrom(from); err != nil {
		return false, unreadable(err)
	}
	text, media := begin.Bytes(), mediaType(stored.ContentType)
	if err := a.checkType(media, len(text)); err != nil {
		return false, err
	}
	if o.Bodies != nil && len(text) > o.StoreAbove {
		return a.storeBody(r, id, keyed, stored, text, body)
	}
	isJSON := len(text) > 0 && isJSON(media) && len(r.Header["Content-Encoding"]) == 0
	if isJSON && !jsontext.Valid(text) {
		return false, problem(http.StatusBadRequest, CodeInvalidRequest, "the body is not valid JSON, or is nested more than %d deep", jsontext.MaxDepth)
	}
	if isJSON && !a.route.RawBody {
		stored.Body = compact(text)
	} else {
		stored.Body, stored.Encoding = encodeBody(text, false)
	}
	return false, nil
}

// storeBody gives a large body to the store, unless a job with the idempotency key exists already. begin
// is what was read of it.
func (a *async) storeBody(r *http.Request, id string, keyed bool, stored *Request, begin []byte, body *meter) (known bool, err error) {
	if keyed {
		err := a.server.inTime(r.Context(), func(ctx context.Context) error {
			_, err := a.server.queue.Job(ctx, id)
			return err
		})
		switch {
		case err == nil: // only the digest is needed
			if _, err := io.Copy(io.Discard, body); err != nil {
				return false, unreadable(err)
			}
			return true, nil
		case !errors.Is(err, bullmq.ErrJobNotFound):
			return false, err
		}
	}
	if err := a.server.checkLoad(r.Context()); err != nil {
		return false, err
	}
	return false, a.keep(r, id, stored, begin, body)
}

// tooLarge is the reply to a body that is larger than a limit.
func tooLarge(limit int64) *Problem {
	return problem(http.StatusRequestEntityTooLarge, CodeTooLarge, "the body is larger than %d bytes", limit)
}

// unreadable returns the problem for an error of reading a body.
func unreadable(err error) *Problem {
	var exceeded *http.MaxBytesError
	if errors.As(err, &exceeded) {
		return tooLarge(exceeded.Limit)
	}
	return problem(http.StatusBadRequest, CodeInvalidRequest, "the body could not be read")
}

// keep gives the rest of the body of a request to the store. begin is what was read of it.
func (a *async) keep(r *http.Request, id string, stored *Request, begin []byte, body *meter) error {
	o := &a.server.o
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	body.stall = startStall(o.StoreTimeout, cancel)
	defer body.stall.stop()
	info := BodyInfo{JobID: id, ContentType: stored.ContentType, Size: r.ContentLength}
	ref, err := storeBody(ctx, o.Bodies, info, io.MultiReader(bytes.NewReader(begin), body))
	err = stalled(ctx, err)
	var own *Problem
	switch {
	case body.err != nil: // of the client
		return unreadable(body.err)
	case errors.As(err, &own) && own.isValid():
		return own
	case err != nil:
		if r.Context().Err() == nil {
			o.Logger.ErrorContext(r.Context(), "the body of a request was not stored", "job", id, "route", a.name, "error", err)
		}
		return problem(http.StatusServiceUnavailable, CodeUnavailable, "the body can't be stored; try again later").after(outagePause)
	}
	stored.BodyRef, stored.BodySize = ref, body.size
	return nil
}
