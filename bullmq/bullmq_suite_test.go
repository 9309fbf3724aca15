package bullmq_test

// The suite runs one redis-server for all specs. Each spec takes a queue name that no other has and
// uses the functions of support_test.go. After each spec none of its goroutines and connections may be left, so every
// spec closes what it opens, best with DeferCleanup. Eventually waits up to 5 s and polls every 5 ms.
// Specs that take more than a second and show nothing basic have the label slow: go test -short leaves them out. For
// specs with tight time limits see steadily.

import (
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/internal/testkit/leaks"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
	"github.com/17a2ac88/bullmq-go/internal/testkit/suite"
)

var (
	redis   *redisserver.Server
	cluster *redisserver.Server
	raw     rueidis.Client

	queues atomic.Int64
)

func TestBullMQ(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(5 * time.Second)
	SetDefaultEventuallyPollingInterval(5 * time.Millisecond)
	SetDefaultConsistentlyPollingInterval(5 * time.Millisecond)
	suite.Run(t, "bullmq")
}

var _ = BeforeSuite(func() {
	leaks.Check()
	var err error
	redis, err = redisserver.Start(redisserver.Options{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(redis.Close)
	// With AlwaysPipelining all goroutines run from the start, so the leak check knows them.
	raw, err = rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{redis.Addr()}, DisableCache: true, AlwaysPipelining: true, PipelineMultiplex: -1,
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(raw.Close)

	// A cluster needs two seconds to become usable, so it is started once.
	cluster, err = redisserver.Start(redisserver.Options{Cluster: true})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(cluster.Close)
	Expect(onCluster("CLUSTER", "ADDSLOTSRANGE", "0", "16383").Error()).To(Succeed())
})

var (
	_ = BeforeEach(suite.Select)
	_ = BeforeEach(leaks.Check)
)
