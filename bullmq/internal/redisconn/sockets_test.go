package redisconn

import (
	"context"
	"net"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/rueidis"
)

var _ = Describe("A connection to a server that refuses it before the first request", func() {
	const refusal = "-ERR max number of clients reached\r\n"

	It("delivers the refusal only after the first request", func() {
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

	DescribeTable("does not crash the program when a call has no deadline", func(own bool) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(listener.Close)
		go func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				_, _ = conn.Write([]byte(refusal))
				time.AfterFunc(5*time.Millisecond, func() { _ = conn.Close() })
			}
		}()
		option := rueidis.ClientOption{InitAddress: []string{listener.Addr().String()}, DisableCache: true, DisableRetry: true, ForceSingleClient: true}
		open := newSockets()
		if own {
			open.track(&option)
		}
		client, err := rueidis.NewClient(option) // it opens a connection for each call
		Expect(err).To(HaveOccurred())
		Expect(client).NotTo(BeNil())
		DeferCleanup(client.Close)
		conn := &Conn{client: client, sockets: open, users: map[*Client]struct{}{}}
		if own {
			conn.option = func() rueidis.ClientOption { return option }
		}
		user := conn.NewClient("bull:q:meta", false)
		DeferCleanup(user.Close)
		ctx, cancel := context.WithCancel(context.Background())
		DeferCleanup(cancel)
		for range 300 {
			Expect(user.Do(ctx, user.B().Ping().Build()).Error()).To(HaveOccurred())
		}
	},
		Entry("over a connection of the SDK", true),
		Entry("over the caller's own client", false))
})
