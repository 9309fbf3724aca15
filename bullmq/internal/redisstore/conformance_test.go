package redisstore

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/alicebob/miniredis/v2"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/backendtest"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/redisconn"
	"github.com/17a2ac88/bullmq-go/bullmq/scripts"
	"github.com/17a2ac88/bullmq-go/internal/testkit/leaks"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

var queues atomic.Int64

// conforming returns a new queue for the conformance suite.
func conforming(option rueidis.ClientOption, dialect scripts.Dialect) backendtest.Queue {
	GinkgoHelper()
	ctx := context.Background()
	conn, err := redisconn.Dial(ctx, option)
	Expect(err).NotTo(HaveOccurred())
	prefix, name := "bull", fmt.Sprint("conformance-", queues.Add(1))
	key := func(suffix string) string { return prefix + ":" + name + ":" + suffix }
	client := conn.NewClient(key("meta"), true)
	DeferCleanup(client.Close)
	open := func(name string) *scripts.Store {
		base := prefix + ":" + name + ":"
		store := scripts.NewStore(client, base, func(suffix string) string { return base + suffix })
		store.Dialect = dialect
		return store
	}
	store := open(name)
	blocking := func() *redisconn.Blocking { return client.NewBlocking(name, func(int) {}) }
	return backendtest.Queue{
		Store: store, Prefix: prefix, Name: name, Elapse: time.Sleep,
		Another:      func(name string) backend.Store { return open(name) },
		EventStream:  func() backend.EventStream { return NewEventStream(client, blocking(), key("events")) },
		Waiter:       func() backend.Waiter { return NewWaiter(store, blocking(), key("marker"), true) },
		Group:        scripts.NewGroup(client, dialect),
		Workers:      scripts.NewWorkerRegistry(client),
		Queues:       scripts.NewQueueFinder(client),
		Flows:        scripts.NewFlowReader(client),
		Registry:     func(name string) backend.Registry { return scripts.NewRegistry(client, prefix, name) },
		GroupWaiter:  func() backend.GroupWaiter { return NewGroupWaiter(client, blocking()) },
		EventsWaiter: func() backend.EventsWaiter { return NewEventsWaiter(client, blocking()) },
		Marker:       func(name string) string { return prefix + ":" + name + ":marker" },
		Unlist: func(jobID string) {
			var commands []rueidis.Completed
			for _, list := range []string{"wait", "paused", "active"} {
				commands = append(commands, client.B().Lrem().Key(key(list)).Count(0).Element(jobID).Build())
			}
			for _, set := range []string{"delayed", "prioritized", "completed", "failed"} {
				commands = append(commands, client.B().Zrem().Key(key(set)).Member(jobID).Build())
			}
			for _, result := range client.DoMulti(ctx, append(commands, client.B().Del().Key(key("marker")).Build())...) {
				Expect(result.Error()).NotTo(HaveOccurred())
			}
		},
	}
}

var server *redisserver.Server

var _ = BeforeSuite(func() {
	leaks.Check()
	var err error
	server, err = redisserver.Start(redisserver.Options{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(server.Close)
})

var _ = BeforeEach(leaks.Check)

var _ = Describe("The store in Redis", func() {
	for version, dialect := range map[int]scripts.Dialect{6: scripts.V6, 5: scripts.V5} {
		labels := Label()
		if version == 5 {
			labels = Label("slow") // since it repeats all specs
		}
		Context(fmt.Sprint("in the dialect of BullMQ ", version), labels, func() {
			backendtest.Exercise(func() backendtest.Queue {
				return conforming(rueidis.ClientOption{InitAddress: []string{server.Addr()}}, dialect)
			})
		})
	}
})

var _ = Describe("The store in an in-process Redis", Label("slow"), func() {
	backendtest.Exercise(func() backendtest.Queue {
		server := miniredis.RunT(GinkgoT())
		q := conforming(rueidis.ClientOption{InitAddress: []string{server.Addr()}, ForceSingleClient: true}, scripts.V6)
		q.Elapse = server.FastForward
		q.Unsupported = map[backendtest.Feature]string{
			backendtest.MissedEvents: "its XINFO STREAM does not count the added entries",
			backendtest.Memory:       "its MEMORY USAGE has no SAMPLES",
		}
		return q
	})
})
