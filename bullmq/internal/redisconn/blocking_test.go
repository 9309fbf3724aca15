package redisconn

import (
	"bytes"
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

// loadingConn replaces a value among the replies by an error that makes rueidis repeat reads.
type loadingConn struct {
	net.Conn
	times *atomic.Int32 // how often to replace it
}

func (c loadingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if at := bytes.Index(p[:n], []byte("$7\r\nLOADING\r\n")); at >= 0 && c.times.Add(-1) >= 0 {
		copy(p[at:], "-LOADING ..\r\n")
	}
	return n, err
}

var _ = Describe("A wait over a caller's client", func() {
	It("survives that rueidis repeats its reads after one of them has succeeded", func(ctx context.Context) {
		server, err := redisserver.Start(redisserver.Options{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(server.Close)
		var times atomic.Int32
		caller, err := rueidis.NewClient(rueidis.ClientOption{
			InitAddress: []string{server.Addr()}, DisableCache: true,
			DialCtxFn: func(ctx context.Context, address string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
				conn, err := d.DialContext(ctx, "tcp", address)
				return loadingConn{conn, &times}, err
			},
		})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(caller.Close)
		conn, err := Wrap(ctx, caller)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(conn.Close)
		client := conn.NewClient("key", true)
		DeferCleanup(client.Close)
		Expect(client.Do(ctx, client.B().Set().Key("a").Value("first").Build()).Error()).To(Succeed())
		Expect(client.Do(ctx, client.B().Set().Key("b").Value("LOADING").Build()).Error()).To(Succeed())
		blocking := client.NewBlocking("name", func(int) {})
		DeferCleanup(blocking.Close)

		Eventually(func() error { return blocking.Connect(ctx) }, "10s").Should(Succeed()) // on a busy machine it may take more than one wait

		times.Store(2)
		results := blocking.Wait(ctx, 0, func(b rueidis.Builder) []rueidis.Completed {
			return []rueidis.Completed{b.Get().Key("a").Build(), b.Get().Key("b").Build()}
		})
		Expect(times.Load()).To(BeNumerically("<", 0), "the reads were repeated")
		Expect(results[0].ToString()).To(Equal("first"))
		Expect(results[1].ToString()).To(Equal("LOADING"))
	})
})

var _ = Describe("A wait that is closed while it connects", func() {
	It("returns ErrClosed", func(ctx context.Context) {
		server, err := redisserver.Start(redisserver.Options{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(server.Close)
		var dials atomic.Int32
		dialing := make(chan struct{})
		conn, err := Dial(ctx, rueidis.ClientOption{
			InitAddress: []string{server.Addr()}, DisableCache: true,
			DialCtxFn: func(ctx context.Context, address string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
				if dials.Add(1) > 1 { // the first connection is for other calls
					close(dialing)
					<-ctx.Done()
					return nil, &net.OpError{Op: "dial", Err: ctx.Err()}
				}
				return d.DialContext(ctx, "tcp", address)
			},
		})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(conn.Close)
		client := conn.NewClient("key", true)
		DeferCleanup(client.Close)
		blocking := client.NewBlocking("name", func(int) {})

		connected := make(chan error, 1)
		go func() { connected <- blocking.Connect(ctx) }()
		Eventually(dialing).Should(BeClosed())
		blocking.Close()
		Eventually(connected, "2s").Should(Receive(MatchError(backend.ErrClosed)))
	})
})
