// Package fakeredis provides an in-process server that replies to every Redis command with whatever a test
// scripts, including replies that no real Redis sends. It is used to test and fuzz code that parses replies.
package fakeredis

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/rueidis"
)

// Server sends the replies set by [Server.Script] one after the other, whatever the commands are. When none
// are left it replies with an error.
type Server struct {
	mu     sync.Mutex
	script reader
	calls  int
}

// Script sets the replies, encoded by [Encode], and resets the number of calls.
func (s *Server) Script(replies []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script, s.calls = reader{rest: replies}, 0
}

// Calls returns the number of commands received since the last call of [Server.Script].
func (s *Server) Calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

// Option returns the options with which a rueidis client connects to the server.
func (s *Server) Option() rueidis.ClientOption {
	return rueidis.ClientOption{
		InitAddress: []string{"any:1"}, DisableCache: true, ForceSingleClient: true, DisableRetry: true,
		PipelineMultiplex: -1, RingScaleEachConn: 8, ReadBufferEachConn: 1 << 14, WriteBufferEachConn: 1 << 14,
		DialCtxFn: func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
			here, there := net.Pipe()
			go s.serve(there)
			return here, nil
		},
	}
}

// Client returns a rueidis client of the server.
func (s *Server) Client() (rueidis.Client, error) { return rueidis.NewClient(s.Option()) }

// serve reads and writes in separate goroutines: a client may send many commands before it reads replies, and
// a net.Pipe does not buffer.
func (s *Server) serve(conn net.Conn) {
	replies := make(chan []byte, 1<<12)
	defer close(replies)
	go func() {
		defer conn.Close()
		for reply := range replies {
			if _, err := conn.Write(reply); err != nil {
				break
			}
		}
		for range replies {
		}
	}()
	from := bufio.NewReader(conn)
	for {
		words, err := readCommand(from)
		if err != nil {
			return
		}
		replies <- s.reply(words)
	}
}

// reply returns the fixed replies that a rueidis client needs to connect, or else the next scripted reply.
func (s *Server) reply(words []string) []byte {
	switch strings.ToUpper(words[0]) {
	case "HELLO":
		return []byte("%3\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n$5\r\nproto\r\n:3\r\n")
	case "PING":
		return []byte("+PONG\r\n")
	case "CLIENT":
		if sub := strings.ToUpper(words[1]); sub == "SETINFO" || sub == "SETNAME" {
			return []byte("+OK\r\n")
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if len(s.script.rest) == 0 {
		return []byte("-ERR no scripted reply is left\r\n")
	}
	var out bytes.Buffer
	s.script.left = maxElements
	s.script.reply(&out, 0)
	return out.Bytes()
}

func readCommand(from *bufio.Reader) ([]string, error) {
	count, err := readLength(from)
	if err != nil {
		return nil, err
	}
	words := make([]string, count)
	for i := range words {
		length, err := readLength(from)
		if err != nil {
			return nil, err
		}
		text := make([]byte, length+2)
		if _, err := io.ReadFull(from, text); err != nil {
			return nil, err
		}
		words[i] = string(text[:length])
	}
	return words, nil
}

func readLength(from *bufio.Reader) (int, error) {
	line, err := from.ReadString('\n')
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(line[1:]))
}
