package scripts

// All specs share one redis-server. Each spec has its own queue, made by newFixture.

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/internal/testkit/leaks"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
	"github.com/17a2ac88/bullmq-go/internal/testkit/suite"
)

var (
	client  rueidis.Client
	address string
	queues  atomic.Int64
)

func TestScripts(t *testing.T) {
	RegisterFailHandler(ginkgo.Fail)
	suite.RunWhole(t, "bullmq/scripts")
}

var _ = ginkgo.BeforeEach(leaks.Check)

var _ = ginkgo.BeforeSuite(func() {
	leaks.Check()
	server, err := redisserver.Start(redisserver.Options{})
	Expect(err).NotTo(HaveOccurred())
	ginkgo.DeferCleanup(server.Close)
	address = server.Addr()
	client, err = rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{address}, DisableCache: true, AlwaysPipelining: true, PipelineMultiplex: -1, // opens everything at the start
	})
	Expect(err).NotTo(HaveOccurred())
	ginkgo.DeferCleanup(client.Close)
})

// rounds returns how often a spec with random contents repeats: n times, or less often with go test -short.
func rounds(n int) int {
	if testing.Short() {
		return n / 5
	}
	return n
}

const nowMs = 1700000000000

var now = time.UnixMilli(nowMs)

// fixture is a queue whose keys a spec sets by hand.
type fixture struct {
	*Store
	ctx context.Context
}

func newFixture(client rueidis.Client) *fixture {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	ginkgo.DeferCleanup(cancel)
	base := fmt.Sprintf("bull:scripts-%d:", queues.Add(1))
	return &fixture{NewStore(client, base, func(suffix string) string { return base + suffix }), ctx}
}

func (f *fixture) do(words ...string) rueidis.RedisResult {
	return f.client.Do(f.ctx, f.client.B().Arbitrary(words...).Build())
}

// set writes something under a key of the queue: set("HSET", "1", "name", "paint").
func (f *fixture) set(command, suffix string, arguments ...string) {
	ginkgo.GinkgoHelper()
	Expect(f.do(append([]string{command, f.base + suffix}, arguments...)...).Error()).To(Succeed())
}

// wake fetches a job as after a blocking wait.
func (f *fixture) wake(aheadUs int64, before time.Time, worker backend.Worker) (backend.Fetched, error) {
	answer := f.client.Do(f.ctx, f.WhenWoken(f.client.B(), false, aheadUs, before, worker, "t"))
	if IsNoScript(answer.Error()) {
		answer = f.client.Do(f.ctx, f.WhenWoken(f.client.B(), true, aheadUs, before, worker, "t"))
	}
	return f.ReadWhenWoken(answer, worker)
}

// take fetches one job with the token t.
func (f *fixture) take(now time.Time, worker backend.Worker) (backend.Fetched, error) {
	taken, err := f.MoveToActive(f.ctx, now, worker, "t")
	if err != nil {
		return backend.Fetched{}, err
	}
	return taken[0], nil
}

// idOf returns the id of the job that was fetched; "" for none.
func idOf(taken backend.Fetched) string {
	if taken.Job == nil {
		return ""
	}
	return taken.Job.ID
}

// finish ends one job.
func (f *fixture) finish(end backend.End, worker backend.Worker) (backend.Fetched, error) {
	ended, err := f.MoveToFinished(f.ctx, backend.Finish{Now: now, MetricsPoints: 5, Worker: worker, Ends: []*backend.End{&end}})()
	if err != nil {
		return backend.Fetched{}, err
	}
	return ended[0].Next, ended[0].Err
}

// add adds one job.
func (f *fixture) add(a backend.Add) (backend.AddResult, error) {
	result := f.addAll(a)[0]
	err := result.Err
	result.Err = nil
	return result, err
}

// addAll adds jobs together.
func (f *fixture) addAll(adds ...backend.Add) []backend.AddResult {
	jobs := make([]*backend.Add, len(adds))
	for i := range adds {
		jobs[i] = &adds[i]
	}
	return f.AddBatch(f.ctx, jobs)
}

// ref names a job of the queue.
func (f *fixture) ref(id string) backend.JobRef { return backend.ParseJobRef(f.base + id) }

// running adds a job that a worker holds with the token.
func (f *fixture) running(id, token string) {
	ginkgo.GinkgoHelper()
	f.set("HSET", id, "name", "paint", "data", "{}", "opts", "{}", "timestamp", "1", "delay", "0", "priority", "0")
	f.set("LPUSH", "active", id)
	f.set("SET", id+":lock", token)
	f.set("SADD", "stalled", id)
}

// state returns everything that the queue holds, by key.
func (f *fixture) state() map[string]string {
	ginkgo.GinkgoHelper()
	keys, err := f.do("KEYS", f.base+"*").AsStrSlice()
	Expect(err).NotTo(HaveOccurred())
	state := map[string]string{}
	for _, key := range keys {
		kind, err := f.do("TYPE", key).ToString()
		Expect(err).NotTo(HaveOccurred())
		words := map[string][]string{
			"string": {"GET", key}, "hash": {"HGETALL", key}, "list": {"LRANGE", key, "0", "-1"},
			"set": {"SMEMBERS", key}, "zset": {"ZRANGE", key, "0", "-1", "WITHSCORES"}, "stream": {"XRANGE", key, "-", "+"},
		}[kind]
		answer, err := f.do(words...).ToAny()
		Expect(err).NotTo(HaveOccurred())
		if members, is := answer.([]any); is && kind == "set" {
			slices.SortFunc(members, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		}
		state[strings.TrimPrefix(key, f.base)] = fmt.Sprint(answer)
	}
	return state
}
