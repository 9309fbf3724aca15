package dashboard

import (
	"context"
	"net/http"
)

// Patterns returns the patterns of all addresses.
func (d *Dashboard) Patterns() []string { return d.patterns }

// SharedRead shares a read between the requests that update a page.
func (d *Dashboard) SharedRead(r *http.Request, read func(context.Context) (string, error)) (string, error) {
	return sharedRead(d, r, "", "key", read)
}
