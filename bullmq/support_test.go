package bullmq_test

// Helpers that the specs share. Functions named new… and run… fill in the Connection if it isn't given.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

// specContext returns a context that ends with the spec, after a minute at the latest.
func specContext() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	DeferCleanup(cancel)
	return ctx
}

// newQueueName returns a unique name, such as "queue-17".
func newQueueName() string { return fmt.Sprintf("queue-%d", queues.Add(1)) }

// connection returns the Connection to the suite's server.
func connection() *bullmq.Connection { return bullmq.URL(redis.URL()) }

// restricted returns the Connection of a new user with the rights that the
// rules give, such as "~bull:* +@all -info".
func restricted(rules string) *bullmq.Connection {
	GinkgoHelper()
	user := fmt.Sprint("user-", queues.Add(1))
	Expect(redisDo(append([]string{"ACL", "SETUSER", user, "on", ">secret"}, strings.Fields(rules)...)...).Error()).To(Succeed())
	DeferCleanup(func() { redisDo("ACL", "DELUSER", user) })
	return bullmq.URL("redis://" + user + ":secret@" + redis.Addr())
}

// clustered returns the Connection to a cluster of one node, for queues whose
// names have a hash tag.
func clustered() *bullmq.Connection {
	GinkgoHelper()
	Eventually(func() (string, error) { return onCluster("CLUSTER", "INFO").ToString() }, "10s", "50ms").Should(ContainSubstring("cluster_state:ok"))
	return bullmq.URL(cluster.URL())
}

// onCluster sends one command to the cluster's node.
func onCluster(words ...string) rueidis.RedisResult {
	GinkgoHelper()
	node, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{cluster.Addr()}, DisableCache: true, ForceSingleClient: true})
	Expect(err).NotTo(HaveOccurred())
	defer node.Close()
	return node.Do(context.Background(), node.B().Arbitrary(words...).Build())
}

// startRedis starts a server of its own for the spec.
func startRedis(options redisserver.Options) *redisserver.Server {
	GinkgoHelper()
	server, err := redisserver.Start(options)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(server.Close)
	return server
}

// clientOf returns a client of a server that the spec has started.
func clientOf(server *redisserver.Server) rueidis.Client {
	GinkgoHelper()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true, ForceSingleClient: true})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(client.Close)
	return client
}

// ownClient returns a client of the suite's server, as a program may already have.
// It is closed when the spec ends.
func ownClient(change func(*rueidis.ClientOption)) rueidis.Client {
	GinkgoHelper()
	option := rueidis.ClientOption{InitAddress: []string{redis.Addr()}}
	if change != nil {
		change(&option)
	}
	client, err := rueidis.NewClient(option)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(client.Close)
	return client
}

// newQueue returns a queue that is closed when the spec ends. The options may be
// nil.
func newQueue(name string, options *bullmq.QueueOptions) *bullmq.Queue {
	GinkgoHelper()
	var o bullmq.QueueOptions
	if options != nil {
		o = *options
	}
	if o.Connection == nil && o.URL == "" {
		o.Connection = connection()
	}
	queue, err := bullmq.NewQueue(context.Background(), name, &o)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(queue.Close)
	return queue
}

// newEvents returns a reader of events that is closed when the spec ends.
func newEvents(name string, o bullmq.QueueEventsOptions) *bullmq.QueueEvents {
	GinkgoHelper()
	if o.Connection == nil && o.URL == "" {
		o.Connection = connection()
	}
	e, err := bullmq.NewQueueEvents(context.Background(), name, &o)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(e.Close)
	return e
}

// newWorker returns a worker that is closed when the spec ends. The options may
// be nil.
func newWorker(name string, handler bullmq.Handler, options *bullmq.WorkerOptions) *bullmq.Worker {
	GinkgoHelper()
	var o bullmq.WorkerOptions
	if options != nil {
		o = *options
	}
	if o.Connection == nil && o.URL == "" {
		o.Connection = connection()
	}
	worker, err := bullmq.NewWorker(context.Background(), name, handler, &o)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(worker.Close)
	return worker
}

// runWorker runs a worker until the spec ends or the worker is closed. Its Run
// must return nil.
func runWorker(name string, handler bullmq.Handler, options *bullmq.WorkerOptions) *bullmq.Worker {
	GinkgoHelper()
	worker := newWorker(name, handler, options)
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(context.Background()) }()
	DeferCleanup(func() {
		Expect(worker.Close()).To(Succeed())
		// A short spec can end before the worker has begun to run.
		Eventually(ended).Should(Receive(Or(BeNil(), MatchError(ContainSubstring("has been run or closed")))))
	})
	return worker
}

// startWorker runs a worker until stop is called. The spec receives what Run
// returns from ended.
func startWorker(name string, handler bullmq.Handler, options *bullmq.WorkerOptions) (worker *bullmq.Worker, stop context.CancelFunc, ended <-chan error) {
	GinkgoHelper()
	worker = newWorker(name, handler, options)
	run, stop := context.WithCancel(context.Background())
	DeferCleanup(stop)
	answer := make(chan error, 1)
	go func() { answer <- worker.Run(run) }()
	return worker, stop, answer
}

// doNothing is a handler that completes its job at once.
func doNothing(context.Context, *bullmq.Job) (any, error) { return nil, nil }

// tally counts the runs of each job.
type tally struct {
	mu   sync.Mutex
	runs map[string]int
}

// handle is the handler that counts.
func (t *tally) handle(_ context.Context, job *bullmq.Job) (any, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.runs == nil {
		t.runs = map[string]int{}
	}
	t.runs[job.ID]++
	return nil, nil
}

// once expects that so many jobs have run, each of them once.
func (t *tally) once(jobs int) {
	GinkgoHelper()
	t.mu.Lock()
	defer t.mu.Unlock()
	Expect(t.runs).To(HaveLen(jobs))
	for id, runs := range t.runs {
		Expect(runs).To(Equal(1), "job "+id)
	}
}

// newFetcher returns a Fetcher that is closed when the spec ends. Its token is "token"
// unless the options say otherwise.
func newFetcher(name string, options *bullmq.FetcherOptions) *bullmq.Fetcher {
	GinkgoHelper()
	var o bullmq.FetcherOptions
	if options != nil {
		o = *options
	}
	if o.Connection == nil && o.URL == "" {
		o.Connection = connection()
	}
	if o.Token == nil {
		o.Token = func() string { return "token" }
	}
	fetcher, err := bullmq.NewFetcher(context.Background(), name, &o)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(fetcher.Close)
	return fetcher
}

// takeJob fetches a job. It returns nil if there is none.
func takeJob(fetcher *bullmq.Fetcher) *bullmq.Job {
	GinkgoHelper()
	job, err := fetcher.TryFetch(specContext())
	if !errors.Is(err, bullmq.ErrNoJob) {
		Expect(err).NotTo(HaveOccurred())
	}
	return job
}

// endJob completes a job of takeJob, or fails it if there is a reason.
func endJob(fetcher *bullmq.Fetcher, job *bullmq.Job, value any, reason error) {
	GinkgoHelper()
	Expect(job).NotTo(BeNil(), "there is no job to end")
	if reason == nil {
		Expect(fetcher.Complete(specContext(), job, value)).To(Succeed())
		return
	}
	Expect(fetcher.Fail(specContext(), job, reason)).To(Succeed())
}

// failedJob adds a job that fails.
func failedJob(ctx context.Context, queue *bullmq.Queue) *bullmq.Job {
	GinkgoHelper()
	job, err := queue.Add(ctx, "a", nil, nil)
	Expect(err).NotTo(HaveOccurred())
	fetcher := newFetcher(queue.Name(), nil)
	endJob(fetcher, takeJob(fetcher), nil, context.Canceled)
	return job
}

// waitUntilIdle waits until every worker of the queue is blocked on the marker
// and no marker is left to wake one.
func waitUntilIdle(queue *bullmq.Queue) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		workers, err := queue.ConnectedWorkers(context.Background())
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(workers).NotTo(BeEmpty())
		for _, worker := range workers {
			g.Expect(worker.Fields["cmd"]).To(Equal("bzpopmin"))
			g.Expect(worker.Fields["flags"]).To(ContainSubstring("b"))
		}
		g.Expect(redisDo("EXISTS", keyOf(queue.Name(), "marker")).AsInt64()).To(BeZero())
	}).Should(Succeed())
}

// stateOf returns a job's state for Eventually.
func stateOf(queue *bullmq.Queue, id string) func() bullmq.State {
	return func() bullmq.State {
		s, err := queue.JobState(context.Background(), id)
		if err != nil {
			return bullmq.State(err.Error())
		}
		return s
	}
}

// countOf returns the number of jobs in a state for Eventually.
func countOf(queue *bullmq.Queue, state bullmq.State) func() (int, error) {
	return func() (int, error) {
		counts, err := queue.Counts(context.Background(), state)
		return counts[state], err
	}
}

// redisDo sends one command to the suite's server.
func redisDo(words ...string) rueidis.RedisResult {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return raw.Do(ctx, raw.B().Arbitrary(words...).Build())
}

// redisText sends one command and returns its reply as text.
func redisText(words ...string) string {
	GinkgoHelper()
	text, err := redisDo(words...).ToString()
	Expect(err).NotTo(HaveOccurred())
	return text
}

// redisStrings sends one command and returns its reply as a list.
func redisStrings(words ...string) []string {
	GinkgoHelper()
	values, err := redisDo(words...).AsStrSlice()
	Expect(err).NotTo(HaveOccurred())
	return values
}

// commandCalls returns how often each command has been called since CONFIG RESETSTAT.
func commandCalls() map[string]int {
	GinkgoHelper()
	info, err := redisDo("INFO", "commandstats").ToString()
	Expect(err).NotTo(HaveOccurred())
	calls := map[string]int{}
	for line := range strings.Lines(info) {
		name, stats, _ := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":")
		var n int
		if _, err := fmt.Sscanf(stats, "calls=%d", &n); err == nil {
			calls[name] = n
		}
	}
	return calls
}

// clientList returns the server's list of connections.
func clientList() string {
	text, _ := redisDo("CLIENT", "LIST").ToString()
	return text
}

// keyOf returns the key with a suffix of a queue under the default prefix.
func keyOf(queue, suffix string) string { return "bull:" + queue + ":" + suffix }

// keysOf returns all keys of a queue, sorted.
func keysOf(queue string) []string {
	GinkgoHelper()
	keys, err := redisDo("KEYS", keyOf(queue, "*")).AsStrSlice()
	Expect(err).NotTo(HaveOccurred())
	slices.Sort(keys)
	return keys
}

// snapshot returns the contents of all keys of a queue, to show that nothing was written.
func snapshot(queue string) map[string]any {
	GinkgoHelper()
	state := map[string]any{}
	for _, k := range keysOf(queue) {
		kind, err := redisDo("TYPE", k).ToString()
		Expect(err).NotTo(HaveOccurred())
		switch kind {
		case "string":
			state[k] = stringAt(k)
		case "hash":
			state[k] = hashAt(k)
		case "list":
			state[k] = listAt(k)
		case "set":
			state[k] = setAt(k)
		case "zset":
			state[k] = scoresAt(k)
		case "stream":
			state[k] = streamAt(k)
		}
	}
	return state
}

// stringAt returns the value of a string, or "" if there is none.
func stringAt(key string) string {
	GinkgoHelper()
	value, err := redisDo("GET", key).ToString()
	if !rueidis.IsRedisNil(err) {
		Expect(err).NotTo(HaveOccurred())
	}
	return value
}

// hashAt returns the fields of a hash.
func hashAt(key string) map[string]string {
	GinkgoHelper()
	fields, err := redisDo("HGETALL", key).AsStrMap()
	Expect(err).NotTo(HaveOccurred())
	return fields
}

// listAt returns the elements of a list.
func listAt(key string) []string { GinkgoHelper(); return redisStrings("LRANGE", key, "0", "-1") }

// setAt returns the members of a set, sorted.
func setAt(key string) []string {
	GinkgoHelper()
	members := redisStrings("SMEMBERS", key)
	slices.Sort(members)
	return members
}

// zsetAt returns the members of a sorted set in its order.
func zsetAt(key string) []string { GinkgoHelper(); return redisStrings("ZRANGE", key, "0", "-1") }

// scoresAt returns the score of each member of a sorted set.
func scoresAt(key string) map[string]float64 {
	GinkgoHelper()
	pairs, err := redisDo("ZRANGE", key, "0", "-1", "WITHSCORES").AsZScores()
	Expect(err).NotTo(HaveOccurred())
	byMember := map[string]float64{}
	for _, pair := range pairs {
		byMember[pair.Member] = pair.Score
	}
	return byMember
}

// streamAt returns each entry of a stream as field, value, field, value and so on.
func streamAt(key string) [][]string {
	GinkgoHelper()
	entries, err := redisDo("XRANGE", key, "-", "+").AsXRangeSlices()
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

// eventsOf returns the events of a queue, each as "waiting jobId=1 prev=delayed".
func eventsOf(queue string) []string {
	GinkgoHelper()
	entries := streamAt(keyOf(queue, "events"))
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

// rawJSON returns text as JSON that is sent as it is.
func rawJSON(text string) json.RawMessage { return json.RawMessage(text) }

// fixedClock returns a clock that stands still.
func fixedClock(ms int64) func() time.Time { return func() time.Time { return time.UnixMilli(ms) } }

// fixedNow is the time in milliseconds that most fixed clocks show.
const fixedNow = 1700000000000

// roundTrip adds a job, runs it, waits for its result and reads an event over one connection.
func roundTrip(name, prefix string, link *bullmq.Connection) {
	GinkgoHelper()
	ctx := specContext()
	reader := newEvents(name, bullmq.QueueEventsOptions{Connection: link, Prefix: prefix})
	queue := newQueue(name, &bullmq.QueueOptions{Connection: link, Prefix: prefix})
	runWorker(name, func(_ context.Context, job *bullmq.Job) (any, error) { return job.Name, nil }, &bullmq.WorkerOptions{Connection: link, Prefix: prefix})
	jobs, err := queue.AddBulk(ctx, []bullmq.BulkJob{{Name: "now"}, {Name: "later", Options: &bullmq.JobOptions{Delay: 20 * time.Millisecond}}})
	Expect(err).NotTo(HaveOccurred())
	for _, job := range jobs {
		Expect(job.Wait(ctx, queue)).To(MatchJSON(fmt.Sprintf("%q", job.Name)))
	}
	Expect(queue.Counts(ctx, bullmq.StateCompleted)).To(HaveKeyWithValue(bullmq.StateCompleted, BeEquivalentTo(2)))
	for event, err := range reader.All(ctx) {
		Expect(err).NotTo(HaveOccurred())
		Expect(event.Type).To(Equal(bullmq.EventAdded))
		break
	}
}
