// Package telemetry_test compares the traces and metrics of this SDK with those of
// Node's bullmq-otel, and follows traces from one to the other. It is a module of its
// own, so that the SDK doesn't depend on OpenTelemetry.
package telemetry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/rueidis"
	"github.com/rs/zerolog"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/leaks"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
	"github.com/17a2ac88/bullmq-go/internal/testkit/suite"
	"github.com/17a2ac88/bullmq-go/interop/nodeprobe"
)

func TestTelemetry(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(20 * time.Second)
	SetDefaultEventuallyPollingInterval(5 * time.Millisecond)
	suite.RunWhole(t, "Telemetry of Node and Go")
}

var (
	server *redisserver.Server
	redis  rueidis.Client
	queues atomic.Int64
)

var _ = BeforeEach(leaks.Check)

var _ = BeforeSuite(func() {
	leaks.Check()
	var err error
	server, err = redisserver.Start(redisserver.Options{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(server.Close)
	// With AlwaysPipelining all its goroutines are there from the start: the leak check knows them.
	redis, err = rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{server.Addr()}, DisableCache: true, AlwaysPipelining: true, PipelineMultiplex: -1,
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(redis.Close)
})

// object is a JSON object of no fixed shape.
type object = map[string]any

func startProbe(arguments ...string) *nodeprobe.Probe {
	GinkgoHelper()
	return nodeprobe.Start(server.Addr(), arguments...)
}

// newQueueName returns a name that no other spec has.
func newQueueName() string { return fmt.Sprintf("orders-%d", queues.Add(1)) }

// soon returns a context that ends with the spec, after 20 seconds at the latest.
func soon() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	DeferCleanup(cancel)
	return ctx
}

// ask sends one command to Redis.
func ask(words ...string) rueidis.RedisResult {
	return redis.Do(soon(), redis.B().Arbitrary(words...).Build())
}

// missing is what stored returns if there is no such field.
const missing = "\x00missing"

// stored returns a field of a job's hash, byte for byte.
func stored(queue, id, field string) string {
	GinkgoHelper()
	text, err := ask("HGET", "bull:"+queue+":"+id, field).ToString()
	if rueidis.IsRedisNil(err) {
		return missing
	}
	Expect(err).NotTo(HaveOccurred())
	return text
}

func readJob(queue *bullmq.Queue, id string) *bullmq.Job {
	GinkgoHelper()
	job, err := queue.Job(soon(), id)
	Expect(err).NotTo(HaveOccurred())
	return job
}

// runGoWorker runs a worker until the spec ends or stop is called. Its Run must
// return nil.
func runGoWorker(queue string, handler bullmq.Handler, options bullmq.WorkerOptions) (stop func()) {
	GinkgoHelper()
	options.URL = server.URL()
	options.Logger = bullmq.Zerolog(zerolog.New(GinkgoWriter).Level(zerolog.WarnLevel).With().Timestamp().Logger())
	worker, err := bullmq.NewWorker(soon(), queue, handler, &options)
	Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		Expect(<-ended).To(Succeed(), queue)
	})
	DeferCleanup(stop)
	return stop
}

// returning returns a handler that always returns the value.
func returning(value any) bullmq.Handler {
	return func(context.Context, *bullmq.Job) (any, error) { return value, nil }
}

// failing returns a handler that always fails.
func failing(reason string) bullmq.Handler {
	return func(context.Context, *bullmq.Job) (any, error) { return nil, errors.New(reason) }
}

// plain returns a value as JSON has it.
func plain(value any) (out any) {
	GinkgoHelper()
	text, err := json.Marshal(value)
	Expect(err).NotTo(HaveOccurred())
	Expect(json.Unmarshal(text, &out)).To(Succeed())
	return out
}
