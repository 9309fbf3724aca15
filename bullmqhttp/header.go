package bullmqhttp

import (
	"encoding/json"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
)

// Header is the stored headers of a request or a response. In JSON the names are in lower case, and
// a single value is a string: {"accept-language": "de"}. Several values are an array.
type Header http.Header

// MarshalJSON implements [json.Marshaler].
func (h Header) MarshalJSON() ([]byte, error) {
	stored := make(map[string]any, len(h))
	for name, values := range h {
		if len(values) == 1 {
			stored[strings.ToLower(name)] = values[0]
		} else {
			stored[strings.ToLower(name)] = values
		}
	}
	return json.Marshal(stored)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (h *Header) UnmarshalJSON(text []byte) error {
	var stored map[string]json.RawMessage
	if err := json.Unmarshal(text, &stored); err != nil {
		return err
	}
	*h = Header{}
	for name, value := range stored {
		var one string
		var several []string
		if err := json.Unmarshal(value, &one); err == nil {
			several = []string{one}
		} else if err := json.Unmarshal(value, &several); err != nil {
			return err
		}
		name = textproto.CanonicalMIMEHeaderKey(name)
		(*h)[name] = append((*h)[name], several...)
	}
	return nil
}

// size returns the number of bytes of all names and values.
func (h Header) size() int {
	size := 0
	for name, values := range h {
		for _, value := range values {
			size += len(name) + len(value)
		}
	}
	return size
}

// requestHeaders are the headers of a request that are stored by default. Content-Type is
// Request.ContentType.
var requestHeaders = []string{
	"Accept", "Accept-Language", "Content-Encoding", "Content-Language", "Traceparent", "Tracestate", "X-Request-Id",
}

// responseHeaders are the headers of a response that are stored by default. Content-Type is
// Response.ContentType.
var responseHeaders = []string{
	"Cache-Control", "Content-Disposition", "Content-Encoding", "Content-Language", "Etag", "Last-Modified", "Link", "Location", "Retry-After",
}

// connectionHeaders describe a connection or a message rather than its content. They are never stored.
var connectionHeaders = []string{
	"Connection", "Content-Length", "Content-Type", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// allowList returns the names of headers in their canonical form.
func allowList(defaults, more []string) []string {
	names := slices.Clone(defaults)
	for _, name := range more {
		names = append(names, textproto.CanonicalMIMEHeaderKey(name))
	}
	return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(connectionHeaders, name) })
}

// allowed returns the headers that a list has. It is nil if there are none.
func allowed(all http.Header, names []string) Header {
	var stored Header
	for _, name := range names {
		if values := all[name]; len(values) > 0 {
			if stored == nil {
				stored = Header{}
			}
			stored[name] = slices.Clone(values)
		}
	}
	return stored
}
