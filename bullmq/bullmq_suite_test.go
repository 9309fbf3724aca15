package bullmq_test

// The suite runs one redis-server for all specs; each spec takes a queue name that no other has.
//
//	name := newQueueName()                     // "queue-17"
//	queue := newQueue(name, options)           // closed when the spec ends; options may be nil
//	worker := runWorker(name, handler, options) // runs until the spec ends or worker.Close(); Run must answer nil
//	ctx := specContext()                       // ends with the spec, at the latest after 20 s
//	redis.URL(), redis.Addr(), connection()    // the server; the Connection to it
//	restricted("~bull:* +@all -info")          // the Connection of a user with these rights
//	clustered()                                // the Connection to a cluster of one node, for queues with braces
//	raw, do("HSET", key, …)                    // a rueidis client, and one command through it
//
// Keys: key(name, "wait"), keysOf(name) all of a queue, sorted, snapshot(name) what they hold.
// Contents: text(k) of a string, hash(k), list(k), set(k) sorted, zset(k) in order, scores(k),
// stream(k) each entry as field, value, …, and events(name), each as "waiting jobId=1 prev=delayed".
// By hand, under the token "token": take(worker) a job, nil where there is none, and end(worker, job, value, reason).
// For Eventually: state(queue, id), count(queue, bullmq.Completed). A tally's handler counts the runs of each job.
//
// newQueue, newWorker and runWorker fill in the Connection where it isn't given. After each spec no
// goroutine or connection of it may be left, so every spec closes what it opens, by DeferCleanup at best.
// Eventually waits up to 5 s and looks every 5 ms. Files whose specs take more than a few seconds have the
// label slow: go test -short leaves them out.

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/leaks"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
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
	suite, reporter := GinkgoConfiguration()
	if testing.Short() {
		suite.LabelFilter = "!slow"
	}
	RunSpecs(t, "bullmq", suite, reporter)
}

var _ = BeforeSuite(func() {
	leaks.Check()
	var err error
	redis, err = redisserver.Start(redisserver.Options{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(redis.Close)
	// With AlwaysPipelining all its goroutines are there from the start: the leak check knows them.
	raw, err = rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{redis.Addr()}, DisableCache: true, AlwaysPipelining: true, PipelineMultiplex: -1,
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(raw.Close)

	// A cluster is of use two seconds after its start only: it is started here, once.
	cluster, err = redisserver.Start(redisserver.Options{Cluster: true})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(cluster.Close)
	Expect(onCluster("CLUSTER", "ADDSLOTSRANGE", "0", "16383").Error()).To(Succeed())
})

// restricted is the Connection of a user of its own, with the rights that the
// rules give.
func restricted(rules string) bullmq.Connection {
	GinkgoHelper()
	user := fmt.Sprint("user-", queues.Add(1))
	Expect(do(append([]string{"ACL", "SETUSER", user, "on", ">secret"}, strings.Fields(rules)...)...).Error()).To(Succeed())
	DeferCleanup(func() { do("ACL", "DELUSER", user) })
	return bullmq.URL("redis://" + user + ":secret@" + redis.Addr())
}

// onCluster sends one command to the cluster's node.
func onCluster(words ...string) rueidis.RedisResult {
	GinkgoHelper()
	node, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{cluster.Addr()}, DisableCache: true, ForceSingleClient: true})
	Expect(err).NotTo(HaveOccurred())
	defer node.Close()
	return node.Do(context.Background(), node.B().Arbitrary(words...).Build())
}

func clustered() bullmq.Connection {
	GinkgoHelper()
	Eventually(func() (string, error) { return onCluster("CLUSTER", "INFO").ToString() }, "10s", "50ms").Should(ContainSubstring("cluster_state:ok"))
	return bullmq.URL(cluster.URL())
}

var _ = BeforeEach(leaks.Check)

func newQueueName() string { return fmt.Sprintf("queue-%d", queues.Add(1)) }

func connection() bullmq.Connection { return bullmq.URL(redis.URL()) }

func specContext() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	DeferCleanup(cancel)
	return ctx
}

func newQueue(name string, options *bullmq.QueueOptions) *bullmq.Queue {
	GinkgoHelper()
	var o bullmq.QueueOptions
	if options != nil {
		o = *options
	}
	if o.Connection == (bullmq.Connection{}) {
		o.Connection = connection()
	}
	queue, err := bullmq.NewQueue(name, &o)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(queue.Close)
	return queue
}

func newWorker(name string, handler bullmq.Handler, options *bullmq.WorkerOptions) *bullmq.Worker {
	GinkgoHelper()
	var o bullmq.WorkerOptions
	if options != nil {
		o = *options
	}
	if o.Connection == (bullmq.Connection{}) {
		o.Connection = connection()
	}
	worker, err := bullmq.NewWorker(name, handler, &o)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(worker.Close)
	return worker
}

func runWorker(name string, handler bullmq.Handler, options *bullmq.WorkerOptions) *bullmq.Worker {
	GinkgoHelper()
	worker := newWorker(name, handler, options)
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(context.Background()) }()
	DeferCleanup(func() {
		Expect(worker.Close()).To(Succeed())
		Eventually(ended).Should(Receive(BeNil()))
	})
	return worker
}

func take(worker *bullmq.Worker) *bullmq.Job {
	GinkgoHelper()
	job, err := worker.GetNextJob(specContext(), "token", 0)
	Expect(err).NotTo(HaveOccurred())
	return job
}

// end completes a job, or fails it where there is a reason.
func end(worker *bullmq.Worker, job *bullmq.Job, value any, reason error) {
	GinkgoHelper()
	Expect(job).NotTo(BeNil(), "there is no job to end")
	var err error
	if reason == nil {
		_, err = worker.Complete(specContext(), job, "token", value, false)
	} else {
		_, err = worker.Fail(specContext(), job, "token", reason, false)
	}
	Expect(err).NotTo(HaveOccurred())
}

func do(words ...string) rueidis.RedisResult {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return raw.Do(ctx, raw.B().Arbitrary(words...).Build())
}

func key(queue, suffix string) string { return "bull:" + queue + ":" + suffix }

func keysOf(queue string) []string {
	GinkgoHelper()
	keys, err := do("KEYS", key(queue, "*")).AsStrSlice()
	Expect(err).NotTo(HaveOccurred())
	slices.Sort(keys)
	return keys
}

// snapshot is all that a queue holds, key by key, to show that nothing was written.
func snapshot(queue string) map[string]any {
	GinkgoHelper()
	state := map[string]any{}
	for _, k := range keysOf(queue) {
		kind, err := do("TYPE", k).ToString()
		Expect(err).NotTo(HaveOccurred())
		switch kind {
		case "string":
			state[k] = text(k)
		case "hash":
			state[k] = hash(k)
		case "list":
			state[k] = list(k)
		case "set":
			state[k] = set(k)
		case "zset":
			state[k] = scores(k)
		case "stream":
			state[k] = stream(k)
		}
	}
	return state
}

// text is a string key's value; "" where there is none.
func text(key string) string {
	GinkgoHelper()
	value, err := do("GET", key).ToString()
	if !rueidis.IsRedisNil(err) {
		Expect(err).NotTo(HaveOccurred())
	}
	return value
}

func hash(key string) map[string]string {
	GinkgoHelper()
	fields, err := do("HGETALL", key).AsStrMap()
	Expect(err).NotTo(HaveOccurred())
	return fields
}

func list(key string) []string { GinkgoHelper(); return strs("LRANGE", key, "0", "-1") }

func zset(key string) []string { GinkgoHelper(); return strs("ZRANGE", key, "0", "-1") }

func set(key string) []string {
	GinkgoHelper()
	members := strs("SMEMBERS", key)
	slices.Sort(members)
	return members
}

func strs(words ...string) []string {
	GinkgoHelper()
	values, err := do(words...).AsStrSlice()
	Expect(err).NotTo(HaveOccurred())
	return values
}

func scores(key string) map[string]float64 {
	GinkgoHelper()
	pairs, err := do("ZRANGE", key, "0", "-1", "WITHSCORES").AsZScores()
	Expect(err).NotTo(HaveOccurred())
	byMember := map[string]float64{}
	for _, pair := range pairs {
		byMember[pair.Member] = pair.Score
	}
	return byMember
}

func stream(key string) [][]string {
	GinkgoHelper()
	entries, err := do("XRANGE", key, "-", "+").AsXRangeSlices()
	Expect(err).NotTo(HaveOccurred())
	all := make([][]string, 0, len(entries))
	for _, entry := range entries {
		var fields []string
		for _, pair := range entry.FieldValues {
			fields = append(fields, pair.Field, pair.Value)
		}
		all = append(all, fields)
	}
	return all
}

func events(queue string) []string {
	GinkgoHelper()
	entries := stream(key(queue, "events"))
	lines := make([]string, 0, len(entries))
	for _, fields := range entries {
		var line strings.Builder
		line.WriteString(fields[1])
		for i := 2; i+1 < len(fields); i += 2 {
			fmt.Fprintf(&line, " %s=%s", fields[i], fields[i+1])
		}
		lines = append(lines, line.String())
	}
	return lines
}

func state(queue *bullmq.Queue, id string) func() bullmq.State {
	return func() bullmq.State {
		s, err := queue.JobState(context.Background(), id)
		if err != nil {
			return bullmq.State(err.Error())
		}
		return s
	}
}

func count(queue *bullmq.Queue, state bullmq.State) func() (int, error) {
	return func() (int, error) {
		counts, err := queue.Counts(context.Background(), state)
		return int(counts[state]), err
	}
}

// tally is how often each job has run.
type tally struct {
	mu   sync.Mutex
	runs map[string]int
}

func (t *tally) handle(_ context.Context, job *bullmq.Job) (any, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.runs == nil {
		t.runs = map[string]int{}
	}
	t.runs[job.ID]++
	return nil, nil
}

// once expects that so many jobs have run, and each of them once.
func (t *tally) once(jobs int) {
	GinkgoHelper()
	t.mu.Lock()
	defer t.mu.Unlock()
	Expect(t.runs).To(HaveLen(jobs))
	for id, runs := range t.runs {
		Expect(runs).To(Equal(1), "job "+id)
	}
}
