// Package redisserver runs a real redis-server for tests, demos and benchmarks. The server listens on a free
// loopback port and keeps its files in a temporary directory.
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

// stopGrace limits how long a server may take to shut down before it is killed.
const stopGrace = 5 * time.Second

// Server is a redis-server process. It can be stopped, killed and started again, and keeps its port.
type Server struct {
	options   Options
	binary    string
	port      int
	directory *directory

	mu    sync.Mutex
	child *childprocess.Child // nil while the server is not running
}

// Start runs a server and returns once it replies to PING.
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
		// Another program may bind the free port before the server does.
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

// Addr returns the server's host:port.
func (s *Server) Addr() string { return loopback(s.port) }

// Port returns the server's TCP port.
func (s *Server) Port() int { return s.port }

// URL returns the server's address as a redis:// URL that includes the default user's password.
func (s *Server) URL() string { return s.options.url(s.Addr()) }

// Directory returns the directory that holds the server's files until [Server.Close].
func (s *Server) Directory() string { return s.directory.path }

// Log returns the server's log.
func (s *Server) Log() string {
	text, _ := os.ReadFile(s.logPath())
	return string(text)
}

// Start restarts a stopped or killed server on the same port and in the same directory. It returns once the
// server replies to PING. It does nothing if the server is running.
func (s *Server) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running() {
		return nil
	}
	_ = os.Remove(socketPath(s.directory.path)) // a killed server does not remove it
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

// Stop sends SIGTERM, as a service manager would, and waits for the server to exit. The data is lost unless
// Options.AppendOnly is set.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running() {
		_ = s.child.Thaw() // a frozen process does not receive signals
		s.child.Stop(stopGrace)
	}
	s.child = nil
}

// Kill ends the server at once (SIGKILL).
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running() {
		s.child.Kill()
	}
	s.child = nil
}

// Restart calls [Server.Stop] and [Server.Start].
func (s *Server) Restart() error {
	s.Stop()
	return s.Start()
}

// Freeze suspends the server while its connections stay open, like a machine that hangs. [Server.Thaw]
// resumes it.
func (s *Server) Freeze() error { return s.withChild((*childprocess.Child).Freeze) }

// Thaw resumes a frozen server, which then processes the commands sent meanwhile.
func (s *Server) Thaw() error { return s.withChild((*childprocess.Child).Thaw) }

// Close kills the server and removes its directory. It is safe to call it more than once.
func (s *Server) Close() {
	s.Kill()
	s.directory.remove()
}

func (s *Server) withChild(do func(*childprocess.Child) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.running() {
		return fmt.Errorf("redis-server on %s is not running", s.Addr())
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

// errPortTaken is returned when another program already listens on the port.
var errPortTaken = errors.New("port in use")

// waitUntilReady pings the server over its Unix socket, because another program may have taken the TCP port.
// Redis opens the socket after the port.
func (s *Server) waitUntilReady(child *childprocess.Child, logged int) error {
	deadline := time.Now().Add(s.options.startTimeout())
	for {
		if repliesToPing(socketPath(s.directory.path)) {
			return nil
		}
		select {
		case <-child.Done():
			return s.startError("exited at once", logged)
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return s.startError(fmt.Sprintf("did not reply within %v", s.options.startTimeout()), logged)
		}
	}
}

// repliesToPing reports whether the server at path serves commands. It returns true if the server requires a
// password, and false if the server is still loading its data.
func repliesToPing(path string) bool {
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err != nil {
		return false
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	reply := make([]byte, 64)
	n, err := conn.Read(reply)
	if err != nil {
		return false
	}
	text := string(reply[:n])
	return strings.HasPrefix(text, "+PONG") || strings.HasPrefix(text, "-NOAUTH") || strings.HasPrefix(text, "-NOPERM")
}

// startError returns an error with the last lines of the server's log. It ignores the first logged bytes of the
// log.
func (s *Server) startError(what string, logged int) error {
	output := s.Log()[logged:]
	kind := fmt.Errorf("redis-server on %s %s", s.Addr(), what)
	if strings.Contains(output, "Address already in use") {
		kind = fmt.Errorf("redis-server on %s %s: %w", s.Addr(), what, errPortTaken)
	}
	lines := strings.Split(strings.TrimSpace(output), "\n")
	return fmt.Errorf("%w; its log ends:\n%s", kind, strings.Join(lines[max(0, len(lines)-8):], "\n"))
}
