package main

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/17a2ac88/bullmq-go/dashboard"
)

const (
	shortestPassword = 8               // characters
	longestPassword  = 4 << 10         // bytes
	longestUser      = 200             // characters of a name in the log
	deviceCookie     = "bullmq_device" // name of the cookie of browsers that have given the password
	deviceAge        = 365 * 24 * time.Hour
)

// password returns the password that users give; "" if there is none.
func (s *webSite) password() (string, error) {
	from, password := passwordVariable, os.Getenv(passwordVariable)
	_ = os.Unsetenv(passwordVariable)
	if s.passwordFile != "" {
		if password != "" {
			return "", usageError{fmt.Errorf("give --password-file or %s, not both", passwordVariable)}
		}
		file, err := os.Open(s.passwordFile)
		if err != nil {
			return "", fmt.Errorf("bullmq: read the password of the dashboard: %w", err)
		}
		defer file.Close()
		text, err := io.ReadAll(io.LimitReader(file, longestPassword+3))
		if err != nil {
			return "", fmt.Errorf("bullmq: read the password of the dashboard: %w", err)
		}
		from, password = shown(s.passwordFile), strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
	} else if password == "" {
		return "", nil
	}
	switch {
	case len([]rune(password)) < shortestPassword:
		return "", fmt.Errorf("bullmq: the password of the dashboard in %s has fewer than %d characters", from, shortestPassword)
	case len(password) > longestPassword:
		return "", fmt.Errorf("bullmq: the password of the dashboard in %s has more than %d bytes", from, longestPassword)
	case strings.ContainsFunc(password, unicode.IsControl):
		return "", fmt.Errorf("bullmq: the password of the dashboard in %s has control characters or several lines", from)
	}
	return password, nil
}

// login is the user and the password of basic authentication.
type login struct {
	name           string
	user, password [sha256.Size]byte
	deviceKey      []byte // signs the cookies of browsers that have given the password
}

func newLogin(user, password string) *login {
	if user == "" || strings.ContainsFunc(user, func(r rune) bool { return r == ':' || unicode.IsControl(r) }) {
		return nil
	}
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	return &login{user, sha256.Sum256([]byte(user)), sha256.Sum256([]byte(password)), key}
}

// matches reports whether a user and a password are right. The time it takes does not depend on
// how much of them is.
func (l *login) matches(user, password string) bool {
	u, p := sha256.Sum256([]byte(user)), sha256.Sum256([]byte(password))
	return subtle.ConstantTimeCompare(u[:], l.user[:])&subtle.ConstantTimeCompare(p[:], l.password[:]) == 1
}

// newDevice returns the value of a cookie for a browser that has given the password.
func (l *login) newDevice() string {
	id := make([]byte, 16)
	_, _ = rand.Read(id)
	return base64.RawURLEncoding.EncodeToString(append(id, l.sign(id)...))
}

func (l *login) sign(id []byte) []byte {
	mac := hmac.New(sha256.New, l.deviceKey)
	mac.Write(id)
	return mac.Sum(nil)
}

// device returns the id of the browser of a request; "" if it has no valid cookie.
func (l *login) device(r *http.Request) string {
	cookie, err := r.Cookie(deviceCookie)
	if err != nil {
		return ""
	}
	value, err := base64.RawURLEncoding.DecodeString(cookie.Value)
	if err != nil || len(value) != 16+sha256.Size || !hmac.Equal(value[16:], l.sign(value[:16])) {
		return ""
	}
	return string(value[:16])
}

// guard decides who is served the dashboard. It is safe for concurrent use.
type guard struct {
	next    http.Handler
	local   bool // the dashboard itself serves only this machine
	secure  bool // by HTTPS
	hosts   map[string]bool
	login   *login // nil without a password
	header  string // of a proxy, with the name of the user; "" without a proxy
	proxies []netip.Prefix
	tries   *tries
	logger  *slog.Logger
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case g.local:
	case !g.servesHost(r.Host):
		g.refuse(w, r, http.StatusForbidden, "forbidden", "this dashboard does not serve this host name: start it with --host and the name")
		return
	case g.header != "":
		if err := g.checkProxy(r); err != nil {
			g.refuse(w, r, http.StatusForbidden, "forbidden", err.Error())
			return
		}
	case g.login != nil:
		if !g.authenticate(w, r) {
			return
		}
	}
	g.next.ServeHTTP(w, r)
}

// authenticate reports whether a request has the password. Otherwise it replies.
//
// Failed tries are counted by address. Whoever shares an address with an attacker, such as all
// users behind a proxy, must not be locked out: a browser that has given the password before has
// a cookie, and is counted by itself.
func (g *guard) authenticate(w http.ResponseWriter, r *http.Request) bool {
	device := g.login.device(r)
	key := "device " + device
	if device == "" {
		key = "address " + network(r.RemoteAddr)
	}
	user, password, given := r.BasicAuth()
	if given {
		ok, wait := g.tries.try(key, func() bool { return g.login.matches(user, password) })
		switch {
		case wait > 0:
			w.Header().Set("Retry-After", strconv.Itoa(int(wait/time.Second)+1))
			g.refuse(w, r, http.StatusTooManyRequests, "too_many_requests", "too many wrong passwords: wait a minute")
			return false
		case ok && device == "":
			http.SetCookie(w, &http.Cookie{
				Name: deviceCookie, Value: g.login.newDevice(), Path: "/", MaxAge: int(deviceAge / time.Second),
				HttpOnly: true, Secure: g.secure, SameSite: http.SameSiteStrictMode,
			})
			return true
		case ok:
			return true
		}
		// The name is not logged, because it may be a password in the wrong field.
		g.logger.Warn("wrong user or password", "address", r.RemoteAddr)
	}
	w.Header().Set("WWW-Authenticate", `Basic realm="bullmq dashboard", charset="UTF-8"`)
	g.refuse(w, r, http.StatusUnauthorized, "unauthorized", "give the user and the password of the dashboard")
	return false
}

// checkProxy returns an error if a request does not come from the proxy with a user.
func (g *guard) checkProxy(r *http.Request) error {
	if len(g.proxies) > 0 {
		from, err := netip.ParseAddrPort(r.RemoteAddr)
		trusted := false
		for _, proxy := range g.proxies {
			trusted = trusted || err == nil && proxy.Contains(from.Addr().Unmap().WithZone(""))
		}
		if !trusted {
			return errors.New("this address is not one of --trust-proxy-from: use the proxy in front of the dashboard")
		}
	}
	if names := r.Header.Values(g.header); len(names) != 1 || strings.TrimSpace(names[0]) == "" {
		return fmt.Errorf("the request has no user in the header %s, or several: use the proxy in front of the dashboard", g.header)
	}
	return nil
}

// userOf returns the user of a request; its address if there is no authentication.
func (g *guard) userOf(r *http.Request) string {
	switch {
	case g.login != nil:
		return g.login.name
	case g.header != "":
		return printable(strings.ToValidUTF8(strings.TrimSpace(r.Header.Get(g.header)), "\uFFFD"), longestUser)
	}
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	return host
}

// audit logs an action. What was sent is left out, because it may contain the data of jobs.
func (g *guard) audit(r *http.Request, done dashboard.Record) {
	const mostJobs = 20
	attributes := []any{"user", g.userOf(r), "address", r.RemoteAddr, "action", printable(done.Action, longestUser), "queue", printable(done.Queue, longestRow)}
	if len(done.Jobs) > 0 {
		var ids []string
		for _, id := range done.Jobs[:min(len(done.Jobs), mostJobs)] {
			ids = append(ids, printable(id, longestUser))
		}
		attributes = append(attributes, "jobs", ids)
	}
	if len(done.Jobs) > mostJobs {
		attributes = append(attributes, "otherJobs", len(done.Jobs)-mostJobs)
	}
	if done.Err != nil {
		g.logger.Warn("action refused or failed", append(attributes, "error", printable(done.Err.Error(), longestRow))...)
		return
	}
	g.logger.Info("action", append(attributes, "done", printable(done.Done, longestRow))...)
}

// refuse replies to a request that is not served.
func (g *guard) refuse(w http.ResponseWriter, r *http.Request, status int, code, message string) {
	head := w.Header()
	head.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Cache-Control", "no-store")
	if r.Body != nil && r.Body != http.NoBody { // which is not read
		head.Set("Connection", "close")
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(time.Second))
	}
	text := []byte(message + "\n")
	head.Set("Content-Type", "text/plain; charset=utf-8")
	if strings.HasPrefix(r.URL.Path, "/api/") {
		head.Set("Content-Type", "application/json")
		text, _ = json.Marshal(map[string]any{"error": map[string]string{"code": code, "message": message}}) // can't fail
	}
	w.WriteHeader(status)
	_, _ = w.Write(text)
}

// servesHost reports whether the dashboard is served under the host of a request. Another name may
// be that of an attacker's page which resolves to this address (DNS rebinding).
func (g *guard) servesHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	host, ok := hostName(host)
	return ok && (host == "localhost" || strings.HasSuffix(host, ".localhost") || g.hosts[host])
}

// hostName returns the form of a name in which names are compared, and whether it is one.
func hostName(name string) (string, bool) {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	valid := name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '.' && r != '_'
	})
	return name, valid
}

// proxySettings returns the header and the addresses of a proxy that authenticates users.
func proxySettings(header string, addresses []string) (string, []netip.Prefix, error) {
	header = http.CanonicalHeaderKey(header)
	if strings.ContainsFunc(header, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`()<>@,;:\"/[]?={}`, r) }) {
		return "", nil, usageError{fmt.Errorf("--trust-proxy-auth %s is not the name of a header, such as X-Forwarded-User", shown(header))}
	}
	var proxies []netip.Prefix
	for _, text := range addresses {
		proxy, err := netip.ParsePrefix(text)
		if err != nil {
			var address netip.Addr
			if address, err = netip.ParseAddr(text); err == nil {
				proxy = netip.PrefixFrom(address.Unmap().WithZone(""), address.Unmap().BitLen())
			}
		}
		if err != nil {
			return "", nil, usageError{fmt.Errorf("--trust-proxy-from %s is neither an address nor a network such as 10.0.0.0/8", shown(text))}
		}
		proxies = append(proxies, proxy)
	}
	return header, proxies, nil
}
