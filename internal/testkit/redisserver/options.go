package redisserver

import (
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Options says how a server differs from the plain one: no password, nothing kept on disk, one
// database node, any free port.
type Options struct {
	// Binary is the program to run; empty for what Find returns.
	Binary string
	// Port is the port to listen on; 0 for a free one.
	Port int
	// AppendOnly keeps every write in a file, so that the data is there again after Stop or Kill and
	// Start.
	AppendOnly bool
	// Password is what the default user must give (requirepass).
	Password string
	// ACL holds rules for further users, or for the default one: "worker on >secret ~bull:* +@all".
	ACL []string
	// Cluster makes it a cluster node. It serves no key until it has been given slots.
	Cluster bool
	// Sentinel makes it a Sentinel; Config says what it watches: "sentinel monitor …".
	Sentinel bool
	// Config holds further lines of redis.conf: "maxmemory-policy allkeys-lru".
	Config []string
	// StartTimeout is how long Start waits for the first answer; 10 s when zero.
	StartTimeout time.Duration
}

func (o Options) startTimeout() time.Duration {
	if o.StartTimeout > 0 {
		return o.StartTimeout
	}
	return 10 * time.Second
}

// file is the text of redis.conf. Own lines come last, since the last line of a kind wins.
func (o Options) file(directory string, port int) string {
	lines := []string{
		"bind 127.0.0.1",
		"port " + strconv.Itoa(port),
		"unixsocket " + strconv.Quote(socketPath(directory)),
		"unixsocketperm 700",
		"dir " + strconv.Quote(directory),
		"daemonize no",
		"loglevel notice",
	}
	if !o.Sentinel {
		lines = append(lines, `save ""`)
	}
	if o.AppendOnly {
		// Unlike with everysec, a write is then always in the file before it is answered, and that
		// outlives the server; syncing matters only where the whole machine fails.
		lines = append(lines, "appendonly yes", "appendfsync no")
	}
	if o.Password != "" {
		lines = append(lines, "requirepass "+strconv.Quote(o.Password))
	}
	for _, rule := range o.ACL {
		lines = append(lines, "user "+rule)
	}
	if o.Cluster {
		lines = append(lines, "cluster-enabled yes", "cluster-config-file nodes.conf")
	}
	lines = append(lines, o.Config...)
	return strings.Join(lines, "\n") + "\n"
}

// url is the address as clients take it, the default user's password included.
func (o Options) url(addr string) string {
	address := url.URL{Scheme: "redis", Host: addr}
	if o.Password != "" {
		address.User = url.UserPassword("", o.Password)
	}
	return address.String()
}
