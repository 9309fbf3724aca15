package dashboard

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

var errRemote = errors.New("this dashboard is only for browsers on the machine on which it runs; set Options.Authorize to decide who may use it")

// authorize returns an error if the request is refused.
func (d *Dashboard) authorize(r *http.Request) error {
	if d.o.Authorize != nil {
		return d.o.Authorize(r)
	}
	if !isLoopback(r.RemoteAddr) || !isLocalName(r.Host) || isForwarded(r) {
		return errRemote
	}
	return nil
}

// isLoopback reports whether an address with a port is on this machine.
func isLoopback(address string) bool {
	at, err := netip.ParseAddrPort(address)
	return err == nil && at.Addr().Unmap().IsLoopback()
}

// isLocalName reports whether the host of a request names this machine. Otherwise a page of
// another site could read the dashboard, under a name that resolves to a loopback address.
func isLocalName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	at, err := netip.ParseAddr(host)
	return err == nil && at.Unmap().IsLoopback()
}

// isForwarded reports whether a proxy has forwarded the request.
func isForwarded(r *http.Request) bool {
	return r.Header.Get("X-Forwarded-For") != "" || r.Header.Get("Forwarded") != "" || r.Header.Get("X-Real-Ip") != ""
}

// ActionRead is the Use.Action of a page.
const ActionRead = "read"

// Use is what a request asks for.
type Use struct {
	// Action is [ActionRead] for a page, otherwise the name of an action, such as "retry".
	Action string
	// Queue is the name of the queue, or "" for a page about all queues.
	Queue string
	// Job is the id of the job, or "" if the request is not about one job.
	Job string
}

// Record tells what became of an action.
type Record struct {
	Use
	// Form is what the action was asked to do, as sent.
	Form url.Values
	// Done says what was done; "" if Err is set.
	Done string
	// Err is why the action was refused, or has failed.
	Err error
}

// mayRead returns an error if a request for a page is refused.
func (d *Dashboard) mayRead(r *http.Request) error {
	return d.mayUse(r, Use{Action: ActionRead, Queue: r.PathValue("queue"), Job: r.PathValue("job")})
}

// mayUse returns an error if a use is refused.
func (d *Dashboard) mayUse(r *http.Request, use Use) error {
	if d.o.ReadOnly && use.Action != ActionRead {
		return refused{errors.New("this dashboard is read-only")}
	}
	if d.o.Access == nil {
		return nil
	}
	if err := d.o.Access(r, use); err != nil {
		return refused{err}
	}
	return nil
}
