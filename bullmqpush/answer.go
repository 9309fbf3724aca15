package bullmqpush

import (
	"context"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/jsontext"
)

// minRetryAfter is the shortest wait after an answer with Retry-After.
const minRetryAfter = time.Second

// StatusError is the error of an attempt whose endpoint returned a status that does not
// complete the job.
type StatusError struct {
	Status int
	Body   string // the first 200 bytes of the answer, if it is text
}

func (e *StatusError) Error() string {
	text := fmt.Sprintf("the endpoint returned %d", e.Status)
	if name := http.StatusText(e.Status); name != "" {
		text += " " + name
	}
	if e.Body != "" {
		text += ": " + e.Body
	}
	return text
}

// answer is the answer of an endpoint.
type answer struct {
	status   int
	header   http.Header
	body     []byte
	tooLarge bool          // body is only the begin
	wait     time.Duration // that the endpoint asks for; 0 for none
}

// outcome returns the outcome of the attempt, as a handler returns it.
func (p *pusher) outcome(ctx context.Context, from *url.URL, a *answer) (any, error) {
	var err error
	switch {
	case a.wait > 0:
		return nil, snooze(a.wait)
	case a.status/100 != 2:
		err = fmt.Errorf("bullmqpush: POST %s: %w", place(from), a.failure())
		if slices.Contains(p.client.options.FailStatuses, a.status) {
			err = bullmq.Unrecoverable(err)
		}
		return nil, err
	case a.tooLarge: // another attempt would repeat work that is done
		return nil, bullmq.Unrecoverable(fmt.Errorf("bullmqpush: POST %s: the endpoint returned %d and more than MaxAnswer, %d bytes",
			place(from), a.status, p.client.options.MaxAnswer))
	case !isJSON(a.header.Get("Content-Type")) || len(a.body) == 0:
		return nil, nil
	case !jsontext.Valid(a.body): // other readers of the job could not parse it
		bullmq.LoggerFromContext(ctx).Warn("the endpoint returned a body that is not JSON in UTF-8, or is nested too deep; the job completes without a return value", "endpoint", place(from))
		return nil, nil
	}
	return json.RawMessage(a.body), nil
}

// snooze returns an error that runs the job again after wait. A worker rounds both the wait and
// its clock down to milliseconds. The job must not be due before the pause of its host has ended.
func snooze(wait time.Duration) error {
	return bullmq.Snooze(wait + 2*time.Millisecond)
}

func isJSON(contentType string) bool {
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && (media == "application/json" || strings.HasSuffix(media, "+json"))
}

// failure returns the answer as an error.
func (a *answer) failure() *StatusError {
	begin := a.body[:min(len(a.body), 200)]
	for len(begin) > 0 && len(begin) < len(a.body) && !utf8.RuneStart(a.body[len(begin)]) {
		begin = begin[:len(begin)-1] // not within a character
	}
	e := &StatusError{Status: a.status}
	if utf8.Valid(begin) {
		printable := strings.Map(func(r rune) rune {
			if unicode.IsPrint(r) {
				return r
			}
			return ' '
		}, string(begin))
		e.Body = strings.Join(strings.Fields(printable), " ")
	}
	return e
}

// verdict returns what the answer tells about its host.
func (a *answer) verdict() (verdict, time.Duration) {
	switch {
	case a.wait > 0:
		return overloaded, a.wait
	case a.status >= 500:
		return failing, 0
	}
	return healthy, 0
}

// askedWait returns the wait of a 429 or 503 with Retry-After, or 0.
func (p *pusher) askedWait(a *answer) time.Duration {
	overload := a.status == http.StatusTooManyRequests || a.status == http.StatusServiceUnavailable
	if !overload || slices.Contains(p.client.options.FailStatuses, a.status) {
		return 0
	}
	longest := p.client.options.MaxRetryAfter
	wait, ok := retryAfter(a.header.Get("Retry-After"), time.Now(), longest)
	if !ok {
		return 0
	}
	return min(max(wait, minRetryAfter), longest)
}

// retryAfter parses the header Retry-After: seconds or a date. A wait may be less than 0, and
// is at most longest.
func retryAfter(text string, now time.Time, longest time.Duration) (time.Duration, bool) {
	if text != "" && strings.Trim(text, "0123456789") == "" {
		seconds, err := strconv.ParseInt(text, 10, 64)
		if err != nil || seconds > int64(longest/time.Second) {
			return longest, true
		}
		return time.Duration(seconds) * time.Second, true
	}
	at, err := http.ParseTime(text)
	return min(at.Sub(now), longest), err == nil
}
