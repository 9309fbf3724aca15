package bullmqhttp

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// preferences are the preferences of a request that this package knows (RFC 7240).
type preferences struct {
	respondAsync bool
	wait         time.Duration
	hasWait      bool
	result       bool // return=representation
}

// preferencesOf parses the Prefer headers of a request. The first of several values counts. Unknown
// and malformed preferences are ignored, as the RFC demands.
func preferencesOf(r *http.Request) preferences {
	var p preferences
	headers := r.Header.Values("Prefer")
	if len(headers) == 0 {
		return p
	}
	seen := make(map[string]bool, 3) // only the known ones: a client may send any number of names
	for _, header := range headers {
		for preference := range strings.SplitSeq(header, ",") {
			preference, _, _ = strings.Cut(preference, ";") // without its parameters
			name, value, _ := strings.Cut(preference, "=")
			name, value = strings.ToLower(strings.TrimSpace(name)), strings.Trim(strings.TrimSpace(value), `"`)
			if seen[name] {
				continue
			}
			switch name {
			case "respond-async":
				p.respondAsync = true
			case "wait":
				if wait, ok := parseSeconds(value); ok {
					p.wait, p.hasWait = wait, true
				}
			case "return":
				p.result = value == "representation"
			default:
				continue
			}
			seen[name] = true
		}
	}
	return p
}

// parseSeconds parses a number of whole seconds. A number that is too large is the largest one.
func parseSeconds(text string) (time.Duration, bool) {
	seconds, err := strconv.ParseUint(text, 10, 31)
	return time.Duration(seconds) * time.Second, err == nil || errors.Is(err, strconv.ErrRange)
}

// apply names a preference that the reply obeys.
func apply(h http.Header, preference string) {
	if before := h.Get("Preference-Applied"); before != "" {
		preference = before + ", " + preference
	}
	h.Set("Preference-Applied", preference)
}

// applyWait names the wait that a request had, in whole seconds.
func applyWait(h http.Header, wait time.Duration) { apply(h, fmt.Sprintf("wait=%d", wait/time.Second)) }

// waitOf returns how long a request for a job waits: as the parameter wait or the preference says, or
// not at all if too many requests are held. leave must be called at the end, unless there is an error.
func (s *Server) waitOf(w http.ResponseWriter, r *http.Request) (wait time.Duration, leave func(), err error) {
	if text := r.URL.Query().Get("wait"); text != "" {
		wait, ok := parseSeconds(text)
		if !ok {
			return 0, nil, problem(http.StatusBadRequest, CodeInvalidRequest, "wait=%.20s is not a number of whole seconds", text)
		}
		wait, leave = s.enterWait(min(wait, s.o.MaxWait))
		return wait, leave, nil
	}
	p := preferencesOf(r)
	wait, leave = s.enterWait(min(p.wait, s.o.MaxWait))
	if p.hasWait && (wait > 0 || p.wait == 0) {
		applyWait(w.Header(), wait)
	}
	return wait, leave, nil
}
