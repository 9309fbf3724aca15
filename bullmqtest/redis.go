package bullmqtest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// Redis is the Redis of a [Kit].
type Redis struct {
	kit    *Kit
	server *miniredis.Miniredis // nil for a real Redis
	base   rueidis.ClientOption
	client rueidis.Client // of the Kit; Down does not affect it

	mu   sync.Mutex
	down bool
	open map[net.Conn]bool
}

// startRedis connects to a real Redis, or starts one within the process if url is empty.
func startRedis(k *Kit, url string) (*Redis, error) {
	r := &Redis{kit: k, open: map[net.Conn]bool{}}
	var err error
	if url != "" {
		if r.base, err = rueidis.ParseURL(url); err != nil {
			return nil, fmt.Errorf("the address of Redis: %w", err)
		}
	} else {
		if r.server, err = miniredis.Run(); err != nil {
			return nil, err
		}
		// miniredis reports that it is a cluster.
		r.base = rueidis.ClientOption{InitAddress: []string{r.server.Addr()}, ForceSingleClient: true}
	}
	option := r.base
	option.DisableCache = true // which miniredis does not support
	if r.client, err = rueidis.NewClient(option); err != nil {
		if r.server != nil {
			r.server.Close()
		}
		return nil, fmt.Errorf("connect to Redis at %s: %w", strings.Join(r.base.InitAddress, ","), err)
	}
	return r, nil
}

// start sets the clock of a Redis within the process.
func (r *Redis) start(c *clock) {
	if r.server == nil {
		return
	}
	if c.runs {
		r.server.ClockTTL(true) // otherwise only advance makes keys expire
	} else {
		r.server.SetTime(c.time())
	}
}

func (r *Redis) close() {
	r.client.Close()
	if r.server != nil {
		r.server.Close()
	}
}

// prefix returns the default prefix of a Kit. On a real Redis it is unique, with braces,
// so that it can be used on a cluster.
func (r *Redis) prefix() string {
	if r.server != nil {
		return bullmq.DefaultPrefix
	}
	return fmt.Sprintf("{bullmqtest-%016x}", rand.Uint64())
}

// Addr returns the address of Redis, as host and port, for connections other than
// [Kit.Conn].
func (r *Redis) Addr() string { return strings.Join(r.base.InitAddress, ",") }

// InProcess reports whether Redis runs within the process.
func (r *Redis) InProcess() bool { return r.server != nil }

// Down makes Redis unreachable over [Kit.Conn]: all its connections break, and no new one
// can be opened. Redis keeps its data, and the Kit itself still reaches it.
func (r *Redis) Down() {
	r.mu.Lock()
	r.down = true
	open := slices.Collect(maps.Keys(r.open))
	r.mu.Unlock()
	for _, conn := range open {
		_ = conn.Close()
	}
}

// Up ends what [Redis.Down] began. It returns when Redis can be reached over [Kit.Conn]. If
// that takes longer than 10 seconds, it fails the test.
func (r *Redis) Up() {
	r.kit.t.Helper()
	r.end()
	deadline := time.Now().Add(10 * time.Second)
	for {
		ctx, cancel := context.WithTimeout(r.kit.t.Context(), time.Second)
		err := r.kit.conn.Ping(ctx)
		cancel()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			r.kit.t.Fatalf("bullmqtest: Redis.Up: Redis can't be reached again: %v", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// end is like Up, but does not wait.
func (r *Redis) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down = false
}

var errDown = errors.New("bullmqtest: Redis is down, by Redis.Down")

// option returns the options of a client whose connections Down breaks.
func (r *Redis) option() rueidis.ClientOption {
	option := r.base
	option.PipelineMultiplex = -1 // one connection, so that Up can wait for it
	dial := option.DialCtxFn      // set for a unix:// address
	if dial == nil {
		dial = func(ctx context.Context, address string, d *net.Dialer, config *tls.Config) (net.Conn, error) {
			if config != nil {
				return (&tls.Dialer{NetDialer: d, Config: config}).DialContext(ctx, "tcp", address)
			}
			return d.DialContext(ctx, "tcp", address)
		}
	}
	option.DialCtxFn = func(ctx context.Context, address string, d *net.Dialer, config *tls.Config) (net.Conn, error) {
		if r.isDown() {
			return nil, errDown
		}
		conn, err := dial(ctx, address, d, config)
		if err != nil {
			return nil, err
		}
		return r.track(conn)
	}
	return option
}

func (r *Redis) isDown() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.down
}

// track registers a connection, so that Down can break it.
func (r *Redis) track(conn net.Conn) (net.Conn, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.down {
		_ = conn.Close()
		return nil, errDown
	}
	tracked := &trackedConn{Conn: conn, redis: r}
	r.open[tracked] = true
	return tracked, nil
}

// trackedConn is a connection that [Redis.Down] breaks.
type trackedConn struct {
	net.Conn
	redis *Redis
}

// Close implements [net.Conn].
func (c *trackedConn) Close() error {
	c.redis.mu.Lock()
	delete(c.redis.open, c)
	c.redis.mu.Unlock()
	return c.Conn.Close()
}

// shortenScript makes a key expire sooner, if it expires at all. Its argument is a time in
// milliseconds.
const shortenScript = `
local left = redis.call('PTTL', KEYS[1])
if left < 0 then return 0 end
if left <= tonumber(ARGV[1]) then return redis.call('DEL', KEYS[1]) end
return redis.call('PEXPIRE', KEYS[1], left - ARGV[1])`

// advance moves the time of Redis forward. The keys that match a pattern expire sooner,
// except the locks of jobs.
func (r *Redis) advance(ctx context.Context, c *clock, d time.Duration, pattern string) error {
	if r.server != nil && !c.runs {
		r.server.SetTime(c.time())
	}
	keys, err := r.keys(ctx, pattern)
	for _, key := range keys {
		if err == nil && !strings.HasSuffix(key, ":lock") {
			command := r.client.B().Eval().Script(shortenScript).Numkeys(1).Key(key).Arg(strconv.FormatInt(d.Milliseconds(), 10)).Build()
			err = r.client.Do(ctx, command).Error()
		}
	}
	return err
}

// keys returns the keys that match a pattern. A cluster is searched on each node.
func (r *Redis) keys(ctx context.Context, pattern string) ([]string, error) {
	found := map[string]bool{}
	for _, node := range r.client.Nodes() {
		for cursor := uint64(0); ; {
			entry, err := node.Do(ctx, node.B().Scan().Cursor(cursor).Match(pattern).Count(1000).Build()).AsScanEntry()
			if err != nil {
				return nil, err
			}
			for _, key := range entry.Elements {
				found[key] = true
			}
			if cursor = entry.Cursor; cursor == 0 {
				break
			}
		}
	}
	return slices.Collect(maps.Keys(found)), nil
}

func (r *Redis) removeKeys(ctx context.Context, pattern string) error {
	keys, err := r.keys(ctx, pattern)
	for _, key := range keys {
		if err == nil {
			err = r.client.Do(ctx, r.client.B().Del().Key(key).Build()).Error()
		}
	}
	return err
}
