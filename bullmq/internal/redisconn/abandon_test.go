package redisconn

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/internal/testkit/faultproxy"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

var _ = Describe("A call over a caller's client", func() {
	It("may end while the server refuses the connection that it opens", func(ctx context.Context) {
		server, err := redisserver.Start(redisserver.Options{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(server.Close)
		proxy, err := faultproxy.Start(server.Addr())
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(proxy.Close)

		var whenOpened atomic.Pointer[func()] // called when a connection has been opened
		caller, err := rueidis.NewClient(rueidis.ClientOption{
			InitAddress: []string{proxy.Addr()}, DisableCache: true,
			DialCtxFn: func(ctx context.Context, address string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
				conn, err := d.DialContext(ctx, "tcp", address)
				if call := whenOpened.Load(); call != nil {
					(*call)()
				}
				return conn, err
			},
		})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(caller.Close)
		conn, err := Wrap(ctx, caller)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(conn.Close)
		client := conn.NewClient("key", true)
		DeferCleanup(client.Close)

		only, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true, ForceSingleClient: true})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(only.Close)
		Expect(only.Do(ctx, only.B().ConfigSet().ParameterValue().ParameterValue("maxclients", "1").Build()).Error()).To(Succeed())
		proxy.CutAll()

		for range 5 {
			call, cancel := context.WithCancel(ctx)
			end := func() {
				time.Sleep(20 * time.Millisecond) // the refusal arrives
				cancel()
			}
			whenOpened.Store(&end)
			for call.Err() == nil {
				_ = client.Do(call, client.noop(client.B())).Error()
			}
			Expect(client.Do(call, client.noop(client.B())).Error()).To(MatchError(context.Canceled))
		}
	})

	It("ends with its context, though the server does not reply", func(ctx context.Context) {
		server, err := redisserver.Start(redisserver.Options{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(server.Close)
		caller, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(caller.Close)
		conn, err := Wrap(ctx, caller)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(conn.Close)
		client := conn.NewClient("key", true)
		DeferCleanup(client.Close)

		Expect(server.Freeze()).To(Succeed())
		DeferCleanup(server.Thaw)
		call, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		begun := time.Now()
		for _, result := range client.DoMulti(call, client.noop(client.B()), client.noop(client.B())) {
			Expect(result.Error()).To(MatchError(context.DeadlineExceeded))
		}
		Expect(time.Since(begun)).To(BeNumerically("<", 10*time.Second))
	})

	stop := func(server *redisserver.Server) error { server.Stop(); return nil }

	DescribeTable("ends, even if its context does not, when", func(ctx context.Context, end func(*Conn, *Client), fail func(*redisserver.Server) error) {
		server, err := redisserver.Start(redisserver.Options{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(server.Close)
		caller, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(caller.Close)
		conn, err := Wrap(ctx, caller)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(conn.Close)
		client := conn.NewClient("key", false)
		DeferCleanup(client.Close)

		Expect(fail(server)).To(Succeed())
		ended := make(chan error, 2)
		go func() { ended <- client.Do(context.Background(), client.B().Get().Key("a").Build()).Error() }()
		go func() {
			b := client.B()
			ended <- client.DoMulti(context.Background(), b.Get().Key("a").Build(), b.Get().Key("b").Build())[1].Error()
		}()
		Consistently(ended, "300ms").ShouldNot(Receive())
		end(conn, client)
		for range 2 {
			Eventually(ended).Should(Receive(MatchError(backend.ErrCutOff)))
		}
	},
		Entry("its Client is closed in an outage", func(_ *Conn, client *Client) { client.Close() }, stop),
		Entry("its Conn is closed in an outage", func(conn *Conn, _ *Client) { conn.Close() }, stop),
		Entry("its Client is closed and the server does not reply", func(_ *Conn, client *Client) { client.Close() }, (*redisserver.Server).Freeze),
	)
})
