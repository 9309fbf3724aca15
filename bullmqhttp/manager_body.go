package bullmqhttp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/17a2ac88/bullmq-go/internal/jsontext"
)

// seconds is a duration in JSON, such as 2 or 0.5.
type seconds time.Duration

// UnmarshalJSON implements [json.Unmarshaler].
func (s *seconds) UnmarshalJSON(text []byte) error {
	var n float64
	err := json.Unmarshal(text, &n)
	ms := math.Round(n * 1000)
	if err != nil || n < 0 || n > 1e9 || ms == 0 && n != 0 { // 0 has a meaning of its own
		return errors.New("a duration is a number of seconds, 0 or from 0.001 to 1000000000")
	}
	*s = seconds(ms) * seconds(time.Millisecond)
	return nil
}

// decode decodes the body. Without a body, into stays as it is. code is that of a problem.
func (m *Manager) decode(c *call, code string, into any) error {
	body, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, m.o.MaxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return problem(http.StatusRequestEntityTooLarge, CodeTooLarge, "the body has more than %d bytes", m.o.MaxBody)
	case err != nil:
		return problem(http.StatusBadRequest, CodeInvalidRequest, "the body can't be read")
	case len(body) == 0:
		return nil
	case !isJSON(mediaType(c.r.Header.Get("Content-Type"))):
		return problem(http.StatusUnsupportedMediaType, CodeUnsupportedType, "the body must have the type application/json")
	}
	decoder := json.NewDecoder(strings.NewReader(string(body)))
	decoder.DisallowUnknownFields()
	if err = decoder.Decode(into); err == nil {
		if _, more := decoder.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("there is more than one value")
		}
	}
	if err == nil && (!utf8.Valid(body) || jsontext.IsDeep(body)) { // other readers of a job could not parse it
		err = fmt.Errorf("it is not UTF-8, or nested more than %d deep", jsontext.MaxDepth)
	}
	if err != nil {
		return problem(http.StatusBadRequest, code, "the body is not valid: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}

// endTimeout is the time for a call that adds a job or ends a claim.
const endTimeout = 15 * time.Second

// detached returns a context for a call that goes on when the client is gone.
func detached(r *http.Request) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(r.Context()), endTimeout)
}

// answer replies with a value, unless there is an error.
func (c *call) answer(value any, err error) error {
	if err == nil {
		reply(c.w, http.StatusOK, "application/json", value)
	}
	return err
}

// limit returns the limit in the query.
func (c *call) limit() (int, error) {
	text := c.r.URL.Query().Get("limit")
	if text == "" {
		return 100, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 1000 {
		return 0, problem(http.StatusBadRequest, CodeInvalidRequest, "the limit must be a number from 1 to 1000")
	}
	return n, nil
}
