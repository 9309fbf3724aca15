package redisserver

import (
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Options configures a server. The zero value starts a plain server: no password, no persistence, no cluster,
// any free port.
type Options struct {
	// Binary is the program to run. Defaults to the result of [Find].
	Binary string
	// Port is the port to listen on. Defaults to a free port.
	Port int
	// AppendOnly persists every write, so that the data survives Stop and Kill.
	AppendOnly bool
	// Password is the default user's password (requirepass).
	Password string
	// ACL holds rules of additional users or of the default user: "worker on >secret ~bull:* +@all".
	ACL []string
	// Cluster starts a cluster node. It serves no keys until slots are assigned to it.
	Cluster bool
	// Sentinel starts a Sentinel. Config must name the server that it monitors: "sentinel monitor …".
	Sentinel bool
	// Config holds additional lines of redis.conf: "maxmemory-policy allkeys-lru".
	Config []string
	// StartTimeout is how long [Start] waits for the first reply. Defaults to 10 seconds.
	StartTimeout time.Duration
}

func (o Options) startTimeout() time.Duration {
	if o.StartTimeout > 0 {
		return o.StartTimeout
	}
	return 10 * time.Second
}

// file returns the text of redis.conf. Options.Config comes last, because Redis uses the last line of a kind.
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
		// A write is then in the file before its reply is sent and survives a kill. Syncing would only matter
		// if the whole machine failed.
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

// url returns the address as a redis:// URL with the default user's password.
func (o Options) url(addr string) string {
	address := url.URL{Scheme: "redis", Host: addr}
	if o.Password != "" {
		address.User = url.UserPassword("", o.Password)
	}
	return address.String()
}
