package bullmqhttp

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"
)

// recorder is the http.ResponseWriter of a job.
type recorder struct {
	ctx    context.Context
	o      *ServeOptions
	jobID  string
	header http.Header
	sent   http.Header // as it was when the status was written
	status int         // 0 before
	failed bool        // as ServeOptions.Fails reports

	body     bytes.Buffer // the begin of the body; all of it without an upload
	size     int64        // of the whole body
	tooLarge bool

	upload      *upload // nil unless the body is large
	contentType string  // of the upload
}

// Header implements [http.ResponseWriter].
func (w *recorder) Header() http.Header { return w.header }

// WriteHeader implements [http.ResponseWriter]. It ignores statuses below 200.
func (w *recorder) WriteHeader(status int) {
	if status < 100 || status > 999 {
		panic(fmt.Sprintf("bullmqhttp: invalid status %d", status))
	}
	if w.status == 0 && status >= 200 {
		w.status, w.sent = status, w.header.Clone()
		w.failed = w.o.Fails(status)
	}
}

// Write implements [http.ResponseWriter].
func (w *recorder) Write(part []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	switch {
	case w.status == http.StatusNoContent || w.status == http.StatusNotModified:
		return 0, http.ErrBodyNotAllowed
	case w.tooLarge || w.size+int64(len(part)) > int64(w.o.MaxResponse):
		w.tooLarge = true
		return 0, ErrResponseTooLarge
	}
	w.size += int64(len(part))
	switch {
	case w.upload != nil:
		return w.upload.Write(part)
	case w.o.Bodies == nil || w.size <= int64(w.o.StoreAbove):
		return w.body.Write(part)
	case w.failed: // Its body is not stored. The begin is enough for the error.
		w.body.Write(part[:min(len(part), max(0, w.o.StoreAbove-w.body.Len()))])
		return len(part), nil
	}
	return w.startUpload(part)
}

// startUpload gives the body to the store, from its begin on.
func (w *recorder) startUpload(part []byte) (int, error) {
	begin := append(w.body.Bytes(), part[:min(len(part), sniffed)]...)
	w.contentType = w.typeOf(begin)
	w.upload = startUpload(w.ctx, w.o.Bodies, BodyInfo{JobID: w.jobID, Response: true, ContentType: w.contentType, Size: -1})
	first := w.body.Bytes()
	w.body = bytes.Buffer{}
	if len(first) > 0 {
		if _, err := w.upload.Write(first); err != nil {
			return 0, err
		}
	}
	return w.upload.Write(part)
}

// sniffed is how much of a body determines its type, if the handler sets none.
const sniffed = 512

// typeOf returns the type of the body.
func (w *recorder) typeOf(begin []byte) string {
	if _, set := w.sent["Content-Type"]; !set && len(begin) > 0 && w.sent.Get("Content-Encoding") == "" {
		return http.DetectContentType(begin)
	}
	return w.sent.Get("Content-Type")
}

// Flush implements [http.Flusher]. The response is stored when the handler has returned.
func (w *recorder) Flush() { w.WriteHeader(http.StatusOK) }

// response returns the response as it is stored.
func (w *recorder) response(headers []string) (*Response, error) {
	stored := &Response{Status: w.status, Headers: allowed(w.sent, headers)}
	if w.upload != nil {
		ref, err := w.upload.finish()
		if err != nil {
			return nil, fmt.Errorf("bullmqhttp: store the response: %w", err)
		}
		stored.ContentType, stored.BodyRef, stored.BodySize = w.contentType, ref, w.size
		return stored, nil
	}
	body := w.body.Bytes()
	stored.ContentType = w.typeOf(body)
	stored.Body, stored.Encoding = encodeBody(body, isJSON(mediaType(stored.ContentType)) && w.sent.Get("Content-Encoding") == "")
	return stored, nil
}

// abort drops a body that is not stored yet.
func (w *recorder) abort() {
	if w.upload != nil {
		w.upload.abort()
	}
}

// statusError returns the error of a response that is a failure.
func (w *recorder) statusError() *StatusError {
	failed := &StatusError{Status: w.status, RetryAfter: retryAfter(w.sent.Get("Retry-After"), time.Now())}
	text := w.body.Bytes()
	if whole := len(text); whole > maxMessage || int64(whole) < w.size {
		text = text[:min(whole, maxMessage)]
		for cut := 0; cut < utf8.UTFMax-1 && !utf8.Valid(text); cut++ { // in the middle of a character
			text = text[:max(0, len(text)-1)]
		}
	}
	if utf8.Valid(text) {
		failed.Message = strings.TrimSpace(string(text))
	}
	return failed
}
