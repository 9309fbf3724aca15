package bullmqpush

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
)

// ErrAddressRefused means that the name of a host has an address that is not public and is
// not in Options.AllowedNetworks.
var ErrAddressRefused = errors.New("the address is not public; add its network to AllowedNetworks if it is intended")

// ErrHostRefused means that the host of an endpoint or a redirect is not in
// Options.AllowedHosts.
var ErrHostRefused = errors.New("the host is not allowed; add it to AllowedHosts if it is intended")

// addressGuard checks the addresses of connections. It holds the networks that are allowed
// although they are not public.
type addressGuard []netip.Prefix

// control is the Control of a [net.Dialer]. It is called with each address that is tried.
func (g addressGuard) control(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil || !g.allows(to.Addr()) {
		return ErrAddressRefused
	}
	return nil
}

func (g addressGuard) allows(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("")
	for _, network := range g {
		if network.Contains(ip) {
			return true
		}
	}
	return isPublic(ip)
}

// reserved4 are the networks of IPv4 that are not public, and reserved6 those within
// publicIPv6. They are from IANA's registries of special-purpose addresses. 168.63.129.16 is
// the address at which Azure's machines reach its platform.
var (
	reserved4 = prefixes(
		"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "168.63.129.16/32", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24",
		"192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24",
		"203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
	)
	reserved6  = prefixes("2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20")
	publicIPv6 = netip.MustParsePrefix("2000::/3")
	nat64      = netip.MustParsePrefix("64:ff9b::/96") // an IPv4 address in the last four bytes
)

func prefixes(texts ...string) (parsed []netip.Prefix) {
	for _, text := range texts {
		parsed = append(parsed, netip.MustParsePrefix(text))
	}
	return parsed
}

func isPublic(ip netip.Addr) bool {
	reserved := reserved4
	if ip.Is6() {
		if nat64.Contains(ip) {
			all := ip.As16()
			return isPublic(netip.AddrFrom4([4]byte(all[12:])))
		}
		if !publicIPv6.Contains(ip) {
			return false
		}
		reserved = reserved6
	}
	for _, network := range reserved {
		if network.Contains(ip) {
			return false
		}
	}
	return ip.IsValid()
}

// hostPattern is an element of AllowedHosts.
type hostPattern struct {
	name       string // in lower case
	subdomains bool   // of name, without name itself
	port       string // empty for all ports
}

func parseHosts(texts []string) ([]hostPattern, error) {
	var patterns []hostPattern
	for _, text := range texts {
		name, subdomains := strings.CutPrefix(text, "*.")
		to, err := url.Parse("//" + name)
		if err != nil || to.Hostname() == "" || to.Host != name || strings.ContainsAny(name, "*") {
			return nil, fmt.Errorf("AllowedHosts has %q; use a host like api.example.com, api.example.com:8443 or *.example.com", text)
		}
		patterns = append(patterns, hostPattern{hostname(to), subdomains, to.Port()})
	}
	return patterns, nil
}

func (p hostPattern) matches(to *url.URL) bool {
	name := hostname(to)
	if p.port != "" && p.port != portOf(to) {
		return false
	}
	if p.subdomains {
		return strings.HasSuffix(name, "."+p.name)
	}
	return name == p.name
}

// checkTarget returns an error if no request may be sent to the URL.
func checkTarget(to *url.URL, allowed []hostPattern, allowHTTP bool) error {
	switch {
	case to.Scheme != "https" && to.Scheme != "http" || to.Hostname() == "":
		return errors.New("it is not an absolute URL with https")
	case !isPrintable(to.Host):
		return errors.New("its host is not ASCII; write it as Punycode")
	case to.Scheme == "http" && !allowHTTP:
		return errors.New("it has no TLS; use https, or set AllowHTTP")
	case to.User != nil:
		return errors.New("it has a user; set Header instead")
	}
	for _, pattern := range allowed {
		if pattern.matches(to) {
			return nil
		}
	}
	return ErrHostRefused
}

func hostname(to *url.URL) string { return strings.ToLower(strings.TrimSuffix(to.Hostname(), ".")) }

func portOf(to *url.URL) string {
	if port := to.Port(); port != "" {
		return port
	}
	if to.Scheme == "http" {
		return "80"
	}
	return "443"
}

// place returns the URL for errors, without its user and its query, which may be secret.
func place(to *url.URL) string {
	return (&url.URL{Scheme: to.Scheme, Host: to.Host, Path: to.Path, RawPath: to.RawPath}).String()
}
