// Package tests contains the suites in which Node.js processes with the npm package bullmq share queues with
// this SDK on a real Redis. Each spec has its own queues. Node means bullmq 6.7.0 unless a spec names
// 5.81.5.
package tests

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/leaks"
	"github.com/17a2ac88/bullmq-go/internal/testkit/nodeprocess"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
	"github.com/17a2ac88/bullmq-go/internal/testkit/suite"
	"github.com/17a2ac88/bullmq-go/interop/nodeprobe"
)

func TestMain(m *testing.M) {
	if os.Getenv(doomedVariable) != "" {
		workUntilKilled()
		return
	}
	if os.Getenv(moverVariable) != "" {
		moveUntilKilled()
		return
	}
	if os.Getenv(routedVariable) != "" {
		workForRoutes()
		return
	}
	os.Exit(m.Run())
}

func TestInterop(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(20 * time.Second)
	SetDefaultEventuallyPollingInterval(5 * time.Millisecond)
	suite.Run(t, "Node and Go on one queue")
}

var (
	server *redisserver.Server
	redis  rueidis.Client // inspects the contents of Redis
	node   *probe         // bullmq 6.7.0, for single calls

	// batchSize is the BatchSize of Go's queues and workers. BATCH_SIZE=1 disables batching.
	batchSize, _ = strconv.Atoi(os.Getenv("BATCH_SIZE"))
)

var (
	_ = BeforeEach(suite.Select)
	_ = BeforeEach(leaks.Check)
)

var _ = BeforeSuite(func() {
	leaks.Check()
	var err error
	server, err = redisserver.Start(redisserver.Options{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(server.Close)
	redis, err = rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{server.Addr()}, DisableCache: true, AlwaysPipelining: true, PipelineMultiplex: -1, // all connections are open from the start
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(redis.Close)
	node = startProbe()
})

var queues atomic.Int64

// newQueueName returns a name that no other spec uses.
func newQueueName() string { return fmt.Sprintf("orders-%d", queues.Add(1)) }

// within returns a context that ends with the spec or after limit.
func within(limit time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	DeferCleanup(cancel)
	return ctx
}

// soon returns a context for calls that should return at once.
func soon() context.Context { return within(20 * time.Second) }

// object is a JSON object of no fixed shape.
type object = map[string]any

type probe = nodeprobe.Probe

func startProbe(arguments ...string) *probe {
	GinkgoHelper()
	return nodeprobe.Start(server.Addr(), arguments...)
}

// startNode starts a program of interop/node.
func startNode(script string, arguments ...string) *nodeprocess.Process {
	GinkgoHelper()
	return nodeprobe.StartScript(server.Addr(), script, arguments...)
}

// ask sends one command to Redis.
func ask(words ...string) rueidis.RedisResult {
	return redis.Do(soon(), redis.B().Arbitrary(words...).Build())
}

// stored returns a field of a job's hash byte for byte, or missing.
func stored(queue, id, field string) string {
	GinkgoHelper()
	text, err := ask("HGET", "bull:"+queue+":"+id, field).ToString()
	if rueidis.IsRedisNil(err) {
		return missing
	}
	Expect(err).NotTo(HaveOccurred())
	return text
}

const missing = "\x00missing"

// locks returns the keys of the locks left in a queue.
func locks(queue string) []string {
	GinkgoHelper()
	keys, err := ask("KEYS", "bull:"+queue+":*:lock").AsStrSlice()
	Expect(err).NotTo(HaveOccurred())
	return keys
}

// lastEvent returns the id of the last entry of a queue's events stream.
func lastEvent(queue string) string {
	GinkgoHelper()
	entries, err := redis.Do(soon(), redis.B().Xrevrange().Key("bull:"+queue+":events").End("+").Start("-").Count(1).Build()).AsXRange()
	Expect(err).NotTo(HaveOccurred())
	Expect(entries).To(HaveLen(1), "the events stream of %s is empty", queue)
	return entries[0].ID
}

// connectClient returns a Connection of a client, closed when the spec ends.
func connectClient(client rueidis.Client) *bullmq.Connection {
	GinkgoHelper()
	connection, err := bullmq.ConnectClient(context.Background(), client)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(connection.Close)
	return connection
}
