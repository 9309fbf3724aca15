// Package fakeredis is a server within the process that answers every command of Redis with what a
// test says, be it what no Redis would answer: for tests of all that reads answers.
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

// Server answers, one after the other, what Say has told it, whatever it is asked; then errors.
type Server struct {
	mu    sync.Mutex
	said  reader
	asked int
}

// Say sets the answers, made of bytes as Written makes them.
func (s *Server) Say(answers []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said, s.asked = reader{rest: answers}, 0
}

// Asked is how many commands have come since Say.
func (s *Server) Asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// Option is how a rueidis client reaches the server.
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

// Client is a rueidis client of the server.
func (s *Server) Client() (rueidis.Client, error) { return rueidis.NewClient(s.Option()) }

// serve reads beside writing: the client may send many commands before it reads their answers, and
// a pipe keeps nothing.
func (s *Server) serve(conn net.Conn) {
	answers := make(chan []byte, 1<<12)
	defer close(answers)
	go func() {
		defer conn.Close()
		for answer := range answers {
			if _, err := conn.Write(answer); err != nil {
				break
			}
		}
		for range answers {
		}
	}()
	from := bufio.NewReader(conn)
	for {
		words, err := readCommand(from)
		if err != nil {
			return
		}
		answers <- s.answer(words)
	}
}

// answer is what the client's own questions need, or else the next that was told.
func (s *Server) answer(words []string) []byte {
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
	s.asked++
	if len(s.said.rest) == 0 {
		return []byte("-ERR nothing more was told\r\n")
	}
	var out bytes.Buffer
	s.said.left = most
	s.said.answer(&out, 0)
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
