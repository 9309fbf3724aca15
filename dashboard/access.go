package dashboard

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
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
