package redisconn

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
)

// serverInfo is the part of a server's INFO that the SDK needs.
type serverInfo struct {
	evictionPolicy string // "" if the server does not evict keys
}

// inspect returns an error if the server is too old for BullMQ.
func (c *Conn) inspect(ctx context.Context) error {
	call, cancel := context.WithTimeout(ctx, timing.ConnectTimeout)
	defer cancel()
	lasting, end, _ := c.outlasting(call)
	text, err := inTime(call, rueidis.NewErrorResult, func() rueidis.RedisResult {
		defer end()
		return c.client.Do(lasting, c.client.B().Info().Build())
	}).ToString()
	if err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("bullmq: connect to Redis at %s: %w", c.address, context.Cause(ctx))
		}
		var network net.Error
		if _, replied := reply(err); !replied && (errors.As(err, &network) || errors.Is(err, context.DeadlineExceeded)) {
			return fmt.Errorf("bullmq: connect: Redis at %s doesn't reply: %w", c.address, err)
		}
		return nil // INFO may be forbidden, but the queue may still work
	}
	info := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[name] = value
		}
	}
	isRedis := info["redis_version"] != "" && info["valkey_version"] == "" && info["dragonfly_version"] == ""
	if isRedis && olderThan(info["redis_version"], 6, 2) {
		return fmt.Errorf("bullmq: connect: Redis %s at %s is too old: 6.2 or later is needed", info["redis_version"], c.address)
	}
	if policy := info["maxmemory_policy"]; policy != "noeviction" {
		c.server.evictionPolicy = policy
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

// advice returns what to check after the first contact has failed.
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
	case refusedAs(err, unavailable...):
		return "the server runs but can't serve commands now: try again later"
	case errors.As(err, &refused):
		return "check user, password and what the user may do"
	case errors.As(err, &unknownAuthority):
		return "give the certificate of the authority that signed the server's, as RootCAs of the TLSConfig in bullmq.ConnectOption"
	case errors.As(err, &otherName):
		return "use a name that is in the server's certificate, or give one as ServerName of the TLSConfig in bullmq.ConnectOption"
	case overTLS && (hungUp || strings.Contains(err.Error(), "remote error: tls")):
		return "the server may ask for a certificate of the client: give one that it knows, in the TLSConfig in bullmq.ConnectOption"
	case overTLS && isTimeout(err):
		return "the server may not speak TLS there: use redis://, or its port for TLS"
	case hungUp:
		return "the server hung up: if it speaks TLS, use rediss://; or it has as many connections as it allows (maxclients)"
	}
	return "check the address, and that the server runs and takes connections from here"
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.Is(err, errNoReply) || errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}

var errNoReply = errors.New("no reply within 4.5 s")
