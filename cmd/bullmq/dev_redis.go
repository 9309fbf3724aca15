package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2"
	miniserver "github.com/alicebob/miniredis/v2/server"
)

// startInProcess starts a Redis in the process, on a port of the loopback address; 0 selects a
// free one. It looks like a single server, so that other commands and programs can use it.
func startInProcess(port int) (*processRedis, error) {
	redis := &processRedis{Miniredis: miniredis.NewMiniRedis(), end: make(chan struct{}), ended: make(chan struct{})}
	if err := redis.StartAddr(net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err != nil {
		return nil, fmt.Errorf("bullmq: start Redis in the process: %w", err)
	}
	go redis.expire()
	redis.Server().SetPreHook(func(peer *miniserver.Peer, command string, arguments ...string) bool {
		switch {
		case strings.EqualFold(command, "CLUSTER"): // miniredis looks like a cluster with one node
			peer.WriteError("ERR This instance has cluster support disabled")
			return true
		case strings.EqualFold(command, "INFO"):
			peer.WriteBulk("# Server\r\nredis_version:7.2.0\r\nserver_name:miniredis\r\nredis_mode:standalone\r\n# Memory\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n# Replication\r\nrole:master\r\n")
			return true
		}
		return false
	})
	return redis, nil
}

// processRedis is a Redis in the process.
type processRedis struct {
	*miniredis.Miniredis
	end, ended chan struct{}
}

const (
	leastTick = 100 * time.Millisecond
	mostTick  = time.Second
	tickShare = 20 // a pass over the keys takes at most one of this number of parts of the time
)

// expire makes keys expire, up to a tick too early or too late. Miniredis.ClockTTL would do so
// exactly, but it sorts all keys at each access, also at each command of a script.
func (r *processRedis) expire() {
	defer close(r.ended)
	last := time.Now()
	for tick := leastTick; ; {
		select {
		case <-r.end:
			return
		case <-time.After(tick):
		}
		began := time.Now()
		r.FastForward(began.Sub(last))
		last = began
		tick = min(max(leastTick, tickShare*time.Since(began)), mostTick)
	}
}

// Close ends the Redis.
func (r *processRedis) Close() {
	close(r.end)
	<-r.ended
	r.Miniredis.Close()
}

// redisServer is a redis-server that this process has started.
type redisServer struct {
	command   *exec.Cmd
	directory string
	port      int
	ended     chan struct{}
}

// startServer starts a redis-server or valkey-server that is on the path, without persistence,
// on a port of the loopback address.
func startServer(ctx context.Context, port int) (*redisServer, error) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		if program, err = exec.LookPath("valkey-server"); err != nil {
			return nil, errors.New("bullmq: start redis-server: neither redis-server nor valkey-server is on the PATH; install one, or leave out --redis-server")
		}
	}
	if port == 0 {
		if port, err = freePort(); err != nil {
			return nil, fmt.Errorf("bullmq: start redis-server: %w", err)
		}
	}
	s := &redisServer{port: port, ended: make(chan struct{})}
	if s.directory, err = os.MkdirTemp("", "bullmq-dev-"); err != nil {
		return nil, fmt.Errorf("bullmq: start redis-server: %w", err)
	}
	log := filepath.Join(s.directory, "log")
	s.command = exec.Command(program, "--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", s.directory, "--save", "", "--appendonly", "no", "--logfile", log)
	detach(s.command) // so that Ctrl-C does not reach it before the workers have stopped
	if err := s.command.Start(); err != nil {
		_ = os.RemoveAll(s.directory)
		return nil, fmt.Errorf("bullmq: start redis-server: %w", err)
	}
	go func() { _ = s.command.Wait(); close(s.ended) }()
	if err := s.ready(ctx, log); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// ready waits until the server takes connections.
func (s *redisServer) ready(ctx context.Context, log string) error {
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port))
	for deadline := time.Now().Add(10 * time.Second); ; {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			_ = conn.Close()
			return nil
		}
		select {
		case <-s.ended:
			text, _ := os.ReadFile(log)
			return fmt.Errorf("bullmq: start redis-server on %s: it has ended: %s", address, printable(string(text), 2000))
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("bullmq: start redis-server on %s: it takes no connections: %w", address, err)
		}
	}
}

// stop ends the server and removes its files.
func (s *redisServer) stop() {
	if s.command.Process.Signal(syscall.SIGTERM) != nil {
		_ = s.command.Process.Kill() // not every system has signals
	}
	select {
	case <-s.ended:
	case <-time.After(5 * time.Second):
		_ = s.command.Process.Kill()
		<-s.ended
	}
	_ = os.RemoveAll(s.directory)
}

// freePort returns a port that nobody uses now.
func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}
