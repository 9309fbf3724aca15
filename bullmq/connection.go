package bullmq

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/redis/rueidis"
	"github.com/rs/zerolog"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
)

// DefaultURL is where Redis is looked for when no Connection is given.
const DefaultURL = "redis://127.0.0.1:6379"

// connectTimeout bounds the first contact, whatever the address does.
const connectTimeout = 4 * time.Second

// Connection says how to reach Redis, Valkey or a compatible server. Make one
// with URL, Options or Client; the zero Connection is DefaultURL. Printed, it
// shows where that is, and never a password.
type Connection struct{ way *way }

// way is a function where it knows a password, so that nothing that prints
// values by reflection finds one.
type way struct {
	shown  string
	option func() (rueidis.ClientOption, error)
	client rueidis.Client
}

// URL connects to redis://, rediss:// (TLS) or unix:// addresses, with user,
// password and database in the address; "" is DefaultURL.
func URL(url string) Connection {
	if url == "" {
		return Connection{}
	}
	return Connection{&way{shown: hidePassword(url), option: func() (rueidis.ClientOption, error) { return parseURL(url) }}}
}

// Options connects as rueidis is told to, for sentinels, clusters or a TLS
// configuration of one's own. The name of the connection and the settings
// that a blocking connection needs are set by this SDK.
func Options(option rueidis.ClientOption) Connection {
	return Connection{&way{
		shown:  strings.Join(option.InitAddress, ","),
		option: func() (rueidis.ClientOption, error) { return option, nil },
	}}
}

// Client uses a client that exists already, which stays the caller's to close.
// Each Worker, each QueueEvents, each Queue on which WaitForJob is called, and
// each call of GetNextJob that waits, holds a connection of the client's pool to
// block on (BlockingPoolSize). Those that find none free poll five times a second
// until there is one, and a warning is logged that names the number needed. A
// client of a cluster needs them on each node.
func Client(client rueidis.Client) Connection {
	return Connection{&way{
		shown: "the given client's address", client: client,
		option: func() (option rueidis.ClientOption, err error) {
			return option, errors.New("bullmq: Client was given nil: give it a client, or use URL or Options")
		},
	}}
}

// String is the address, without user and password.
func (c Connection) String() string {
	if c.way == nil {
		return DefaultURL
	}
	return c.way.shown
}

// GoString is String, for %#v.
func (c Connection) GoString() string { return fmt.Sprintf("bullmq.Connection(%s)", c) }

// link is a Connection in use.
type link struct {
	client  *closable
	option  func() rueidis.ClientOption // nil for a caller's own client
	address string
	health  *healthWatch
}

func parseURL(address string) (rueidis.ClientOption, error) {
	err := checkAt(address)
	var option rueidis.ClientOption
	if err == nil {
		option, err = rueidis.ParseURL(address)
	}
	if err != nil {
		return option, fmt.Errorf("bullmq: the Redis address %q can't be read: %w; it should look like redis://user:password@host:6379/0", hidePassword(address), withoutURL(err))
	}
	return option, nil
}

// open makes first contact, checks what the server is, and fails within 5
// seconds with an error that names the address.
func (c Connection) open(ctx context.Context, k *keys, log zerolog.Logger) (*link, error) {
	if c.way == nil {
		c = URL(DefaultURL)
	}
	l := &link{address: c.String()}
	client, open := c.way.client, newSockets()
	if client == nil {
		option, err := c.way.option()
		if err != nil {
			return nil, err
		}
		if len(option.InitAddress) == 0 {
			return nil, errors.New("bullmq: Options name no server: give InitAddress, such as 127.0.0.1:6379")
		}
		option.DisableCache = true
		if option.Dialer.Timeout == 0 {
			option.Dialer.Timeout = connectTimeout
		}
		if option.WriteBufferEachConn == 0 {
			option.WriteBufferEachConn = writeBuffer
		}
		if option.RetryDelay == nil {
			option.RetryDelay = retryReads
		}
		l.option, l.address = func() rueidis.ClientOption { return option }, strings.Join(option.InitAddress, ",")
		if client, err = dial(ctx, option, open); err != nil {
			if ctx.Err() != nil {
				return nil, fmt.Errorf("bullmq: connect to Redis at %s: %w", l.address, err)
			}
			return nil, fmt.Errorf("bullmq: can't reach Redis at %s: %w; %s", l.address, err, advice(err, option.TLSConfig != nil))
		}
	}
	l.health = newHealthWatch(probe(client, k), hidesPasswords(l.option), log)
	l.client = &closable{Client: client, owned: l.option != nil, sockets: open, health: l.health}
	if err := l.inspect(ctx, k, log); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// advice is what to look at after first contact has failed.
func advice(err error, overTLS bool) string {
	var refused *rueidis.RedisError
	var unknownAuthority x509.UnknownAuthorityError
	var otherName x509.HostnameError
	hungUp := errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
	switch {
	case errors.As(err, &refused) && (strings.Contains(refused.Error(), "DB index") || strings.Contains(refused.Error(), "SELECT")):
		return "check the database, the number at the end of the address: the server has no such one"
	case refusedAs(err, "max number of clients"):
		return "the server has as many connections as it allows (maxclients): close some, or raise it"
	case refusedAs(err, cantServe...):
		return "the server runs but can't serve commands now: try again later"
	case errors.As(err, &refused):
		return "check user, password and what the user may do"
	case errors.As(err, &unknownAuthority):
		return "give the certificate of the authority that signed the server's, as RootCAs of a TLSConfig in bullmq.Options"
	case errors.As(err, &otherName):
		return "use a name that is in the server's certificate, or give one as ServerName of a TLSConfig in bullmq.Options"
	case overTLS && (hungUp || strings.Contains(err.Error(), "remote error: tls")):
		return "the server may ask for a certificate of the client: give one that it knows, in a TLSConfig in bullmq.Options"
	case overTLS && isSlow(err):
		return "the server may speak no TLS there: use redis://, or its port for TLS"
	case hungUp:
		return "the server hung up: where it speaks TLS, use rediss://; or it has as many connections as it allows (maxclients)"
	}
	return "check the address, and that the server runs and takes connections from here"
}

func isSlow(err error) bool {
	var timeout net.Error
	return errors.Is(err, errNoAnswer) || errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}

var errNoAnswer = errors.New("no answer within 4.5 s")

// writeBuffer lets Redis begin with a bulk while the rest of it is being written:
// rueidis would send half a megabyte at once, which took 5 % longer.
const writeBuffer = 16 << 10

// dial is rueidis.NewClient with a timeout, which also ends with ctx.
func dial(ctx context.Context, option rueidis.ClientOption, open *sockets) (rueidis.Client, error) {
	type result struct {
		client rueidis.Client
		err    error
	}
	done := make(chan result, 1)
	open.track(&option)
	go func() {
		client, err := rueidis.NewClient(option)
		done <- result{client, err}
	}()
	timer := time.NewTimer(connectTimeout + 500*time.Millisecond)
	defer timer.Stop()
	select {
	case r := <-done:
		if r.err != nil && r.client != nil {
			r.client.Close()
		}
		return r.client, r.err
	case <-ctx.Done():
	case <-timer.C:
	}
	open.cut()
	go func() { // it may still come; nobody would close it then
		if r := <-done; r.client != nil {
			r.client.Close()
		}
	}()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return nil, errNoAnswer
}

// retryReads lets rueidis repeat commands that only read, a few times; what
// may write is never repeated. Without an end they would hang for as long as
// an outage lasts.
func retryReads(attempts int, _ rueidis.Completed, _ error) time.Duration {
	if attempts > 5 {
		return -1
	}
	return time.Duration(attempts) * 20 * time.Millisecond
}

// inspect refuses a server that can't hold a queue, and warns of one that
// should not.
func (l *link) inspect(ctx context.Context, k *keys, log zerolog.Logger) error {
	if l.client.Mode() == rueidis.ClientModeCluster && !k.hashTagged() {
		return fmt.Errorf("bullmq: on a cluster all keys of a queue must fall into one slot: put braces around the prefix ({%s}) or the queue's name ({%s}), on every client of the queue", k.prefix, k.queue)
	}
	bounded, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	text, err := l.client.Do(bounded, l.client.B().Info().Build()).ToString()
	if err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("bullmq: connect to Redis at %s: %w", l.address, context.Cause(ctx))
		}
		var netErr net.Error
		if _, refused := answered(err); !refused && (errors.As(err, &netErr) || errors.Is(err, context.DeadlineExceeded)) {
			return fmt.Errorf("bullmq: Redis at %s doesn't answer: %w", l.address, err)
		}
		return nil // INFO may be forbidden; that alone is no reason not to work
	}
	info := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[name] = value
		}
	}
	isRedis := info["redis_version"] != "" && info["valkey_version"] == "" && info["dragonfly_version"] == ""
	if isRedis && olderThan(info["redis_version"], 6, 2) {
		return fmt.Errorf("bullmq: Redis %s at %s is too old: 6.2 or later is needed", info["redis_version"], l.address)
	}
	if policy := info["maxmemory_policy"]; policy != "" && policy != "noeviction" {
		log.Warn().Str("address", l.address).Str("maxmemory_policy", policy).
			Msg("Redis may evict keys of the queue when memory runs short, locks first; set maxmemory-policy noeviction")
	}
	return nil
}

func olderThan(version string, major, minor int64) bool {
	first, rest, _ := strings.Cut(version, ".")
	second, _, _ := strings.Cut(rest, ".")
	a, ok := wire.ParseNumber(first)
	b, _ := wire.ParseNumber(second)
	return ok && (a < major || a == major && b < minor)
}

func (l *link) close() {
	l.health.close()
	l.client.close()
}

// blocking opens a client of its own for commands that wait; with a caller's
// client, that one is used. The name by which BullMQ finds workers and event
// readers is for the connection that waits alone: a client has others beside
// it, and each named one would count as a worker. So whoever takes that
// connection names it; only on a cluster, where rueidis takes it, all are named.
func (l *link) blocking(name string, open *sockets) (rueidis.Client, error) {
	if l.option == nil {
		return l.client, nil
	}
	option := l.option()
	if l.client.Mode() == rueidis.ClientModeCluster {
		option.ClientName = name
	}
	option.DisableRetry = true // a reconnect has to be seen, or events would be lost
	option.RingScaleEachConn = 8
	option.ReadBufferEachConn, option.WriteBufferEachConn = 32<<10, 32<<10
	option.PipelineMultiplex = -1
	client, err := dial(context.Background(), option, open)
	if err != nil {
		return nil, fmt.Errorf("bullmq: can't reach Redis at %s: %w", l.address, err)
	}
	return client, nil
}

// checkAt refuses an address whose password was cut short by a character that
// ends the host: what is left of it would be taken, and shown, as a host.
func checkAt(address string) error {
	_, rest, _ := strings.Cut(address, "://")
	if end := strings.IndexAny(rest, "/?#"); end >= 0 && strings.Contains(rest[end:], "@") {
		return errors.New("an @ comes after /, ? or #; write those as %2F, %3F and %23 in a password")
	}
	return nil
}

func hidePassword(address string) string {
	at := strings.LastIndexByte(address, '@')
	scheme := strings.Index(address, "://")
	switch {
	case at < 0:
		return address
	case scheme < 0 || scheme+3 > at:
		return "***" + address[at:]
	}
	return address[:scheme+3] + "***" + address[at:]
}

// withoutURL drops what url.Parse quotes of the address, for it may hold the
// password or a part of it.
func withoutURL(err error) error {
	var escape url.EscapeError
	if errors.As(err, &escape) {
		return errors.New("a % in it begins no escape; write %25 for a percent sign")
	}
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}
