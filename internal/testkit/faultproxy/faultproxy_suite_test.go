package faultproxy

import (
	"bufio"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/internal/testkit/leaks"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
	"github.com/17a2ac88/bullmq-go/internal/testkit/suite"
)

func TestFaultProxy(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(10 * time.Second)
	suite.RunWhole(t, "faultproxy")
}

var _ = BeforeEach(leaks.Check)

// timeout limits the wait for something that should happen at once.
const timeout = 10 * time.Second

// link starts a server and a proxy in front of it. Both end with the spec.
func link() (*Proxy, *redisserver.Server) {
	GinkgoHelper()
	server, err := redisserver.Start(redisserver.Options{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(server.Close)
	proxy, err := Start(server.Addr())
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(proxy.Close)
	return proxy, server
}

// client is a plain TCP connection that exposes every byte and retries nothing.
type client struct {
	net.Conn
	replies *bufio.Reader
}

func dial(addr string) *client {
	GinkgoHelper()
	conn, err := net.DialTimeout("tcp", addr, timeout)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { _ = conn.Close() })
	Expect(conn.SetDeadline(time.Now().Add(timeout))).To(Succeed())
	return &client{Conn: conn, replies: bufio.NewReader(conn)}
}

func encode(words ...string) string {
	var text strings.Builder
	text.WriteString("*" + strconv.Itoa(len(words)) + "\r\n")
	for _, word := range words {
		text.WriteString("$" + strconv.Itoa(len(word)) + "\r\n" + word + "\r\n")
	}
	return text.String()
}

func (c *client) send(commands ...string) {
	GinkgoHelper()
	var text strings.Builder
	for _, command := range commands {
		text.WriteString(encode(strings.Fields(command)...))
	}
	_, err := io.WriteString(c, text.String())
	Expect(err).NotTo(HaveOccurred())
}

// reply returns the bytes of the next reply.
func (c *client) reply() string {
	GinkgoHelper()
	frame, err := readFrame(c.replies)
	Expect(err).NotTo(HaveOccurred())
	return string(frame)
}

func (c *client) do(command string) string {
	GinkgoHelper()
	c.send(command)
	return c.reply()
}

// rest returns what arrives until the connection closes.
func (c *client) rest() string {
	GinkgoHelper()
	text, err := io.ReadAll(c.replies)
	if !errors.Is(err, syscall.ECONNRESET) { // reported when the server closes with unread commands
		Expect(err).NotTo(HaveOccurred())
	}
	return string(text)
}

// receives reports whether data arrives within a short time.
func (c *client) receives() bool {
	GinkgoHelper()
	Expect(c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))).To(Succeed())
	_, err := c.replies.Peek(1)
	Expect(c.SetReadDeadline(time.Now().Add(timeout))).To(Succeed())
	return err == nil
}
