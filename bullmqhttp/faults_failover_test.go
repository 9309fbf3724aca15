package bullmqhttp_test

// A replica takes over.

import (
	"net/http"
	"strconv"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmqhttp"
	"github.com/17a2ac88/bullmq-go/internal/testkit/faultproxy"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

// member is one of two servers.
type member struct {
	*redisserver.Server
	proxy *faultproxy.Proxy // of the primary, through which the service reaches Redis
}

// replicated starts a primary, a second server that may become its replica, and a service.
func replicated() (primary, replica member, s *service) {
	GinkgoHelper()
	for _, m := range []*member{&primary, &replica} {
		server, err := redisserver.Start(redisserver.Options{Config: []string{"repl-diskless-sync-delay 0"}})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(server.Close)
		m.Server = server
	}
	proxy, options := proxied(primary.Server)
	primary.proxy = proxy
	return primary, replica, start(nil, bullmqhttp.Route{}, options)
}

// synchronize makes the other server a replica, and waits until it has the progress of a job.
func (m member) synchronize(replica member, queue, id, progress string) {
	GinkgoHelper()
	command(replica.Server, "REPLICAOF", "127.0.0.1", strconv.Itoa(m.Port()))
	Eventually(func() string {
		return command(replica.Server, "EVAL_RO", "return redis.call('hget', KEYS[1], 'progress') or ''", "1", "bull:"+queue+":"+id)
	}, boundary).Should(Equal(progress))
}

// failOver stops the primary and leads its clients to the other server.
func (m member) failOver(replica member) {
	m.Stop()
	m.proxy.Forward(replica.Addr())
	m.proxy.CutAll()
}

var _ = Describe("When a replica takes over", func() {
	It("reads are answered before it accepts writes, and waits and submits go on then", func() {
		primary, replica, s := replicated()
		submitted := s.submit()
		location, id := submitted.header.Get("Location"), submitted.job().ID
		s.advance(id, 0, 0)
		primary.synchronize(replica, s.queue.Name(), id, "0")
		answers := make(chan map[string]answer, 1)
		waits := waits(location, s.get(location, "").header.Get("ETag"))[1:] // without the submit
		go func() {
			defer GinkgoRecover()
			answers <- s.all(waits)
		}()
		Eventually(held).Should(Equal(len(waits)))
		primary.failOver(replica)
		Eventually(func() int { return s.get(location, "").status }, boundary).Should(Equal(http.StatusOK))
		unavailable(s.all(append(withKeys(3), asked{"a cancellation", "DELETE", location, nil})), bullmqhttp.CodeUnavailable)

		command(replica.Server, "REPLICAOF", "NO", "ONE")
		s.acceptAgain(withKeys(3))
		Expect(s.jobs()).To(Equal(1 + 3))
		Eventually(func() int { return s.do("DELETE", location, "").status }, boundary).Should(Equal(http.StatusAccepted))
		s.workWithURL("redis://" + replica.Addr())
		Eventually(answers, boundary).Should(Receive())
		Expect(s.ended(location).State).To(Equal(bullmqhttp.Cancelled))
	})
})
