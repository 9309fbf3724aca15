package redisconn

import (
	"context"
	"net"
	"os"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("A network connection", func() {
	const refusal = "-ERR max number of clients reached\r\n"

	It("delivers a refusal that precedes the first request only after that request", func() {
		client, server := net.Pipe()
		DeferCleanup(server.Close)
		conn, err := newSockets().add(context.Background(), client)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(conn.Close)
		go func() { _, _ = server.Write([]byte(refusal)) }()
		received := make(chan string, 1)
		go func() {
			text := make([]byte, len(refusal))
			n, _ := conn.Read(text)
			received <- string(text[:n])
		}()
		Consistently(received, "50ms").ShouldNot(Receive())
		go func() { _, _ = conn.Write([]byte("PING\r\n")) }()
		Eventually(received).Should(Receive(Equal(refusal)))
	})

	It("ends a read that waits for the first request when it is closed", func() {
		client, server := net.Pipe()
		DeferCleanup(server.Close)
		conn, err := newSockets().add(context.Background(), client)
		Expect(err).NotTo(HaveOccurred())
		ended := make(chan error, 1)
		go func() {
			_, err := conn.Read(make([]byte, 1))
			ended <- err
		}()
		Expect(conn.Close()).To(Succeed())
		Eventually(ended).Should(Receive(HaveOccurred()))
	})

	It("delivers nothing after a read has timed out", func() {
		client, server := net.Pipe()
		DeferCleanup(server.Close)
		conn, err := newSockets().add(context.Background(), client)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(conn.Close)
		go func() { _, _ = server.Read(make([]byte, 10)) }()
		Expect(conn.Write([]byte("PING\r\n"))).To(Equal(6))
		Expect(conn.SetReadDeadline(time.Now().Add(time.Millisecond))).To(Succeed())
		_, err = conn.Read(make([]byte, 1))
		Expect(err).To(MatchError(os.ErrDeadlineExceeded))
		Expect(conn.SetReadDeadline(time.Time{})).To(Succeed())
		go func() { _, _ = server.Write([]byte(refusal)) }()
		_, err = conn.Read(make([]byte, 1))
		Expect(err).To(MatchError(os.ErrDeadlineExceeded))
	})
})
