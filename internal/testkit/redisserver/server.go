// Package redisserver runs a real redis-server for tests, demos and benchmarks: on a free loopback
// port, in a directory of its own that goes away with it.
//
//	server, err := redisserver.Start(redisserver.Options{AppendOnly: true})
//	if err != nil { … }
//	defer server.Close()
//	… server.Addr() …
package redisserver

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/17a2ac88/bullmq-go/internal/testkit/nodeprocess/childprocess"
)

// stopGrace is how long a server may take to end after it was asked to.
const stopGrace = 5 * time.Second

// Server is one redis-server. It can be stopped, killed and started again, and comes back on the
// same port each time.
type Server struct {
	options   Options
	binary    string
	port      int
	directory *directory

	mu    sync.Mutex
	child *childprocess.Child // nil while it isn't running
}

// Start runs a server and returns once it answers PING.
func Start(options Options) (*Server, error) {
	sweep()
	binary := options.Binary
	if binary == "" {
		found, err := Find()
		if err != nil {
			return nil, err
		}
		binary = found
	}
	for attempt := 1; ; attempt++ {
		server, err := startOnPort(options, binary)
		// Between the choice of a free port and the server's own bind somebody else may take it.
		if err != nil && options.Port == 0 && attempt < 5 && errors.Is(err, errPortTaken) {
			continue
		}
		return server, err
	}
}

func startOnPort(options Options, binary string) (*Server, error) {
	server := &Server{options: options, binary: binary, port: options.Port}
	if server.port == 0 {
		port, err := FreePort()
		if err != nil {
			return nil, err
		}
		server.port = port
	}
	directory, err := newDirectory()
	if err != nil {
		return nil, err
	}
	server.directory = directory
	config := options.file(directory.path, server.port)
	if err := os.WriteFile(server.configPath(), []byte(config), 0o600); err != nil {
		directory.remove()
		return nil, err
	}
	if err := server.Start(); err != nil {
		directory.remove()
		return nil, err
	}
	return server, nil
}

// Addr is the server's host:port.
func (s *Server) Addr() string { return loopback(s.port) }

// Port is the server's TCP port.
func (s *Server) Port() int { return s.port }

// URL is the server's address as a redis:// URL, with the default user's password.
func (s *Server) URL() string { return s.options.url(s.Addr()) }

// Directory is where the server keeps its files until Close.
func (s *Server) Directory() string { return s.directory.path }

// Log is what the server has logged so far.
func (s *Server) Log() string {
	text, _ := os.ReadFile(s.logPath())
	return string(text)
}

// Start runs a stopped or killed server again, on the same port and in the same directory, and
// returns once it answers PING. A running server stays as it is.
func (s *Server) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running() {
		return nil
	}
	_ = os.Remove(socketPath(s.directory.path)) // a killed server leaves it behind
	logged := len(s.Log())
	log, err := os.OpenFile(s.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	command := exec.Command(s.binary, s.configPath())
	if s.options.Sentinel {
		command.Args = append(command.Args, "--sentinel")
	}
	command.Dir = s.directory.path
	command.Stdout, command.Stderr = log, log
	child, err := childprocess.Start(command)
	if err != nil {
		return err
	}
	if err := s.waitUntilReady(child, logged); err != nil {
		child.Kill()
		return err
	}
	s.child = child
	return nil
}

// Stop asks the server to end, as a service manager would, and waits until it has. What it holds is
// gone unless Options.AppendOnly is set.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running() {
		_ = s.child.Thaw() // a frozen one wouldn't hear
		s.child.Stop(stopGrace)
	}
	s.child = nil
}

// Kill ends the server without a chance to finish anything.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running() {
		s.child.Kill()
	}
	s.child = nil
}

// Restart stops the server and starts it again.
func (s *Server) Restart() error {
	s.Stop()
	return s.Start()
}

// Freeze keeps the server from answering anything while its connections stay open, as with a
// machine that hangs; Thaw ends that.
func (s *Server) Freeze() error { return s.withChild((*childprocess.Child).Freeze) }

// Thaw lets a frozen server go on; it then answers what was sent to it meanwhile.
func (s *Server) Thaw() error { return s.withChild((*childprocess.Child).Thaw) }

// Close kills the server and removes its directory. It may be called more than once.
func (s *Server) Close() {
	s.Kill()
	s.directory.remove()
}

func (s *Server) withChild(do func(*childprocess.Child) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.running() {
		return fmt.Errorf("redis-server on %s isn't running", s.Addr())
	}
	return do(s.child)
}

func (s *Server) running() bool {
	if s.child == nil {
		return false
	}
	select {
	case <-s.child.Done():
		return false
	default:
		return true
	}
}

func (s *Server) configPath() string { return filepath.Join(s.directory.path, "redis.conf") }
func (s *Server) logPath() string    { return filepath.Join(s.directory.path, "redis.log") }

// errPortTaken marks a start that failed because another program listens on the port.
var errPortTaken = errors.New("port in use")

// waitUntilReady asks over the socket file in the server's own directory: an answer on the TCP port
// could come from another program that was faster to take it. Redis opens the file after the port.
func (s *Server) waitUntilReady(child *childprocess.Child, logged int) error {
	deadline := time.Now().Add(s.options.startTimeout())
	for {
		if answersPing(socketPath(s.directory.path)) {
			return nil
		}
		select {
		case <-child.Done():
			return s.startError("ended at once", logged)
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return s.startError(fmt.Sprintf("gave no answer within %v", s.options.startTimeout()), logged)
		}
	}
}

// answersPing tells whether a server at path serves commands. One that wants a password first does;
// one that still loads its data doesn't.
func answersPing(path string) bool {
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err != nil {
		return false
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	answer := make([]byte, 64)
	n, err := conn.Read(answer)
	if err != nil {
		return false
	}
	text := string(answer[:n])
	return strings.HasPrefix(text, "+PONG") || strings.HasPrefix(text, "-NOAUTH") || strings.HasPrefix(text, "-NOPERM")
}

// startError tells what the server said since byte logged of its log, at most its last lines.
func (s *Server) startError(what string, logged int) error {
	said := s.Log()[logged:]
	kind := fmt.Errorf("redis-server on %s %s", s.Addr(), what)
	if strings.Contains(said, "Address already in use") {
		kind = fmt.Errorf("redis-server on %s %s: %w", s.Addr(), what, errPortTaken)
	}
	lines := strings.Split(strings.TrimSpace(said), "\n")
	return fmt.Errorf("%w; its log ends:\n%s", kind, strings.Join(lines[max(0, len(lines)-8):], "\n"))
}
