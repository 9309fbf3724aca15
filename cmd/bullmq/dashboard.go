package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/17a2ac88/bullmq-go/dashboard"
)

// The variables of the environment that bullmq dashboard reads.
const (
	passwordVariable = "BULLMQ_DASHBOARD_PASSWORD"
	userVariable     = "BULLMQ_DASHBOARD_USER"
)

// webSite is what bullmq dashboard serves, and to whom.
type webSite struct {
	listen       string
	hosts        []string
	user         string
	passwordFile string
	proxyHeader  string
	proxies      []string
	noAuth       bool
	readOnly     bool
	cert, key    string
}

func newDashboard(c *client) *cobra.Command {
	var s webSite
	command := &cobra.Command{
		Use:   "dashboard",
		Short: "Show queues, jobs and workers in the browser",
		Long: "Show queues, jobs and workers in the browser.\n\n" +
			"Without further flags only browsers on this machine are served. To listen on an address that others reach,\n" +
			"give a password, or tell who else authenticates users:\n\n" +
			"  " + passwordVariable + " or --password-file  users give this password (basic authentication)\n" +
			"  --trust-proxy-auth HEADER                     a proxy in front has authenticated them\n" +
			"  --no-auth                                     whoever reaches the address may use the dashboard\n\n" +
			"Requests are served under localhost, IP addresses, and the names of --host. Each action is logged to the\n" +
			"standard error, with its user.",
		Example: "  bullmq dashboard\n" +
			"  " + passwordVariable + "=… bullmq dashboard --listen :3000 --host queues.example.org\n" +
			"  bullmq dashboard --listen :3000 --trust-proxy-auth X-Forwarded-User --trust-proxy-from 10.0.0.7 --host queues.example.org",
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return s.serve(c, command) },
	}
	flags := command.Flags()
	flags.StringVar(&s.listen, "listen", defaultListen, "address of the dashboard; without a host, all addresses of this machine")
	flags.StringSliceVar(&s.hosts, "host", nil, "a name under which browsers reach the dashboard, besides localhost and IP addresses; may be repeated")
	flags.StringVar(&s.user, "user", "", "name of the user who gives the password (default "+userVariable+", then admin)")
	flags.StringVar(&s.passwordFile, "password-file", "", "file with the password that users give (default the variable "+passwordVariable+")")
	flags.StringVar(&s.proxyHeader, "trust-proxy-auth", "", "a proxy in front authenticates users and sends their name in this header; requests without it are refused")
	flags.StringSliceVar(&s.proxies, "trust-proxy-from", nil, "addresses or networks of that proxy, such as 10.0.0.0/8; may be repeated (default any)")
	flags.BoolVar(&s.noAuth, "no-auth", false, "serve everyone who reaches the address, without authentication")
	flags.BoolVar(&s.readOnly, "read-only", false, "refuse all actions")
	flags.StringVar(&s.cert, "https-cert", "", "file with the certificate of the dashboard, to serve it by HTTPS; it is read again after it has changed")
	flags.StringVar(&s.key, "https-key", "", "file with the key of --https-cert")
	return command
}

// serve serves the dashboard until it is interrupted.
func (s *webSite) serve(c *client, command *cobra.Command) error {
	ctx := command.Context()
	logger := c.logger(command)
	g, address, err := s.guard(logger)
	if err != nil {
		return err
	}
	certificate, err := newCertificate(s.cert, s.key, logger)
	if err != nil {
		return err
	}
	connection, err := c.open(ctx, command)
	if err != nil {
		return err
	}
	defer connection.Close()
	options := &dashboard.Options{Prefix: c.prefix, ReadOnly: s.readOnly, User: g.userOf, Audit: g.audit}
	if !g.local {
		options.Authorize = func(*http.Request) error { return nil } // g has decided
	}
	pages, err := dashboard.New(connection, options)
	if err != nil {
		return err
	}
	g.next = pages
	listener, err := net.Listen("tcp", address.String())
	if err != nil {
		return fmt.Errorf("bullmq: serve the dashboard: %w; choose another address with --listen", err)
	}
	server := &http.Server{
		Handler: g, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelWarn), // such as failed handshakes
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	scheme := "http"
	serve := server.Serve
	if certificate != nil {
		scheme, server.TLSConfig = "https", certificate.config()
		serve = func(listener net.Listener) error { return server.ServeTLS(listener, "", "") }
	}
	s.introduce(command, scheme, listener.Addr())
	if err := serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("bullmq: serve the dashboard: %w", err)
	}
	return nil
}

// introduce tells where the dashboard is, and warns of what others could do.
func (s *webSite) introduce(command *cobra.Command, scheme string, address net.Addr) {
	out := command.ErrOrStderr()
	at, _ := address.(*net.TCPAddr)
	loopback := at == nil || at.IP.IsLoopback()
	if s.noAuth {
		_, _ = fmt.Fprintln(out, "Warning: --no-auth lets everyone who reaches this address see and change all jobs. Let only those reach it who may, or give a password.")
	}
	if s.proxyHeader != "" && len(s.proxies) == 0 {
		_, _ = fmt.Fprintf(out, "Warning: whoever reaches this address can claim to be any user by the header %s. Let only the proxy reach it, or name the proxy with --trust-proxy-from.\n", http.CanonicalHeaderKey(s.proxyHeader))
	}
	if s.passwordFile != "" && checkPrivate(s.passwordFile, 0o004, "") != nil {
		_, _ = fmt.Fprintf(out, "Warning: all users of this machine may read %s.\n", shown(s.passwordFile))
	}
	if scheme == "http" && !loopback && s.proxyHeader == "" && !s.noAuth {
		_, _ = fmt.Fprintln(out, "Warning: passwords and jobs are sent as plain text. Use --https-cert and --https-key, or a proxy with HTTPS in front.")
	}
	where := address.String()
	if at != nil && at.IP.IsUnspecified() {
		where = fmt.Sprint("localhost:", at.Port)
	}
	_, _ = fmt.Fprintf(out, "The dashboard is at %s://%s/\n", scheme, where)
}

// logger returns the logger of a command that runs until it is interrupted. Like other output,
// a line is JSON unless a terminal shows it.
func (c *client) logger(command *cobra.Command) *slog.Logger {
	out := command.ErrOrStderr()
	if c.table || !c.json && isTerminal(out) {
		return slog.New(slog.NewTextHandler(out, nil))
	}
	return slog.New(slog.NewJSONHandler(out, nil))
}

// resolveListen returns the address of --listen.
func resolveListen(listen string) (*net.TCPAddr, error) {
	address, err := net.ResolveTCPAddr("tcp", listen)
	if err != nil {
		return nil, usageError{fmt.Errorf("--listen must look like %s or :3000: %w", defaultListen, err)}
	}
	return address, nil
}

// guard returns what decides who is served, and the address to listen on. Errors are those of
// the flags.
func (s *webSite) guard(logger *slog.Logger) (*guard, *net.TCPAddr, error) {
	address, err := resolveListen(s.listen)
	if err != nil {
		return nil, nil, err
	}
	password, err := s.password()
	if err != nil {
		return nil, nil, err
	}
	methods := 0
	for _, given := range []bool{password != "", s.proxyHeader != "", s.noAuth} {
		if given {
			methods++
		}
	}
	loopback := address.IP.IsLoopback()
	switch {
	case methods > 1:
		return nil, nil, usageError{fmt.Errorf("give one of a password (--password-file, %s), --trust-proxy-auth and --no-auth", passwordVariable)}
	case methods == 0 && !loopback:
		return nil, nil, usageError{fmt.Errorf("others could reach the dashboard at %s: give a password with --password-file or %s, or --trust-proxy-auth if a proxy in front authenticates users, or --no-auth", shown(s.listen), passwordVariable)}
	case methods == 0 && len(s.hosts) > 0:
		return nil, nil, usageError{fmt.Errorf("--host needs a password (--password-file, %s), --trust-proxy-auth or --no-auth; without them the dashboard serves only localhost", passwordVariable)}
	case password == "" && s.user != "":
		return nil, nil, usageError{fmt.Errorf("--user needs a password: give --password-file or %s", passwordVariable)}
	case s.proxyHeader == "" && len(s.proxies) > 0:
		return nil, nil, usageError{errors.New("--trust-proxy-from needs --trust-proxy-auth")}
	case (s.cert == "") != (s.key == ""):
		return nil, nil, usageError{errors.New("--https-cert and --https-key belong together")}
	}
	g := &guard{local: methods == 0, secure: s.cert != "", hosts: map[string]bool{}, logger: logger, tries: newTries()}
	if password != "" {
		g.login = newLogin(cmp.Or(s.user, os.Getenv(userVariable), "admin"), password)
		if g.login == nil {
			return nil, nil, usageError{errors.New("the name of the user must not be empty, or contain a colon or control characters")}
		}
	}
	if g.header, g.proxies, err = proxySettings(s.proxyHeader, s.proxies); err != nil {
		return nil, nil, err
	}
	for _, name := range s.hosts {
		host, ok := hostName(name)
		if !ok {
			return nil, nil, usageError{fmt.Errorf("--host %s must be a name such as queues.example.org, without a scheme and a port", shown(name))}
		}
		g.hosts[host] = true
	}
	return g, address, nil
}
