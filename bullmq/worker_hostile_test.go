package bullmq_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// badJob is arbitrary content in place of a job.
type badJob struct {
	what  string
	write func(key string)
	// ends is the expected result when the handler returns nil: completed, or a
	// part of the failure reason.
	ends string
	// homeless reports that the key holds no hash, so the job cannot be in a state.
	homeless bool
}

const completes = "completed"

// storedWith stores a valid job with the given fields replaced: name, value, name, value and so on.
// The value without omits the field.
func storedWith(fields ...string) func(key string) {
	return func(key string) {
		job := map[string]string{"name": "paint", "data": "{}", "opts": "{}", "timestamp": "1", "delay": "0", "priority": "0"}
		for i := 0; i < len(fields); i += 2 {
			job[fields[i]] = fields[i+1]
			if fields[i+1] == without {
				delete(job, fields[i])
			}
		}
		words := []string{"HSET", key}
		for field, value := range job {
			words = append(words, field, value)
		}
		Expect(redisDo(words...).Error()).To(Succeed())
	}
}

const without = "\x00without"

// besideKey stores a valid job whose key <job>:<suffix> has a wrong type.
func besideKey(suffix string, command string, arguments ...string) func(key string) {
	return func(key string) {
		storedWith()(key)
		Expect(redisDo(append([]string{command, key + suffix}, arguments...)...).Error()).To(Succeed())
	}
}

// insteadOfKey stores a value of a wrong type at the key of a job.
func insteadOfKey(command string, arguments ...string) func(key string) {
	return func(key string) {
		Expect(redisDo(append([]string{command, key}, arguments...)...).Error()).To(Succeed())
	}
}

var badJobs = []badJob{
	{"a list", insteadOfKey("RPUSH", "a"), "holds no hash, but a list", true},
	{"a string", insteadOfKey("SET", "a"), "holds no hash, but a string", true},
	{"a sorted set", insteadOfKey("ZADD", "1", "a"), "holds no hash, but a zset", true},
	{"a stream", insteadOfKey("XADD", "*", "name", "a"), "holds no hash, but a stream", true},
	{"nothing", func(string) {}, "is missing or incomplete", false},
	{"a hash without a name", storedWith("name", without), "is missing or incomplete", false},

	{"opts that are no JSON", storedWith("opts", "{nonsense"), completes, false},
	{"opts that are a list", storedWith("opts", "[1]"), completes, false},
	{"opts with words for numbers", storedWith("opts", `{"attempts":"many","backoff":"soon","delay":"x","removeOnComplete":"yes",`+
		`"removeOnFail":{"age":"old","count":"x"},"kl":"x","de":5,"parent":"x","stackTraceLimit":"x","priority":"x","tm":5,"omc":"x"}`), completes, false},
	{"opts with numbers beyond all counting", storedWith("opts", `{"removeOnComplete":{"count":1e400,"age":1e300,"limit":-1e300},`+
		`"removeOnFail":1e400,"attempts":1e300,"backoff":{"type":"exponential","delay":1e400,"jitter":1e308}}`), completes, false},
	{"opts with fractions", storedWith("opts", `{"removeOnComplete":{"count":1000000.5},"removeOnFail":-5.5,"attempts":1.5}`), completes, false},
	{"opts nested deeper than anybody reads", storedWith("opts", strings.Repeat(`{"a":`, 20000)+"1"+strings.Repeat("}", 20000)), completes, false},

	{"data that are no JSON", storedWith("data", "{nonsense"), "not JSON", false},
	{"data that are bytes", storedWith("data", "\xff\x00\xfe"), "not JSON", false},
	{"data nested deeper than anybody reads", storedWith("data", strings.Repeat(`[`, 20000)+strings.Repeat("]", 20000)), "not JSON", false},
	{"empty data", storedWith("data", ""), completes, false},
	{"no data", storedWith("data", without), completes, false},
	{"a megabyte of data", storedWith("data", `"`+strings.Repeat("x", 1<<20)+`"`), completes, false},
	{"a name of bytes", storedWith("name", "\xff\x00\xfe\r\n"), completes, false},
	{"an empty name", storedWith("name", ""), completes, false},
	{"a name of a megabyte", storedWith("name", strings.Repeat("x", 1<<20)), completes, false},
	{"twenty thousand fields", func(key string) {
		storedWith()(key)
		words := []string{"HSET", key}
		for i := range 20000 {
			words = append(words, fmt.Sprint("f", i), "v")
		}
		Expect(redisDo(words...).Error()).To(Succeed())
	}, completes, false},

	{"a word for its attempts", storedWith("atm", "many"), completes, false},
	{"a fraction of attempts", storedWith("atm", "1.5"), completes, false},
	{"as many attempts as can be counted", storedWith("atm", "9223372036854775807"), completes, false},
	{"more attempts than can be counted", storedWith("atm", "1e400"), completes, false},
	{"a word for its starts", storedWith("ats", "many"), completes, false},
	{"no number of starts", storedWith("ats", "nan"), completes, false},
	{"endless starts", storedWith("ats", "1e400"), completes, false},
	{"a word for its stalls", storedWith("stc", "many"), completes, false},
	{"a word for BullMQ 4's attempts", storedWith("attemptsMade", "many"), completes, false},
	{"as many of BullMQ 4's attempts as can be counted", storedWith("attemptsMade", "9223372036854775807"), completes, false},

	{"a word for its priority", storedWith("priority", "high"), completes, false},
	{"no number for its priority", storedWith("priority", "nan"), completes, false},
	{"an endless priority", storedWith("priority", "1e400"), completes, false},
	{"a priority below zero", storedWith("priority", "-1"), completes, false},
	{"a fraction of a priority", storedWith("priority", "1.5"), completes, false},
	{"no number for its delay", storedWith("delay", "NaN"), completes, false},
	{"an endless delay", storedWith("delay", "Infinity"), completes, false},
	{"a delay below zero", storedWith("delay", "-1"), completes, false},
	{"a delay beyond all numbers", storedWith("delay", "1e400"), completes, false},
	{"words for its times", storedWith("timestamp", "yesterday", "processedOn", "now", "finishedOn", "never"), completes, false},
	{"times beyond all numbers", storedWith("timestamp", "1e400", "processedOn", "-1e400", "finishedOn", "nan"), completes, false},

	{"a word for its stack traces", storedWith("stacktrace", "boom"), completes, false},
	{"an object for its stack traces", storedWith("stacktrace", `{"a":1}`), completes, false},
	{"stack traces of all kinds", storedWith("stacktrace", `["a",1,null]`), completes, false},
	{"words for progress and result", storedWith("progress", "half", "returnvalue", "half"), completes, false},
	{"a context of bytes", storedWith("tm", "\xff"), completes, false},
	{"a parent's key that is none", storedWith("parentKey", "nobody", "parent", "word"), completes, false},
	{"an empty parent", storedWith("parentKey", "", "parent", ""), completes, false},
	{"a parent of other types", storedWith("parentKey", "bull:nobody:1", "parent", `{"id":5,"queueKey":[]}`), completes, false},
	{"a parent of bytes", storedWith("parentKey", "\xff", "parent", `{"id":"\u0000","queueKey":"x","fpof":true}`), completes, false},
	{"a scheduler that isn't there", storedWith("rjk", "nobody"), completes, false},
	{"a scheduler, and a repetition that can't be read", storedWith("rjk", "nobody", "opts", `{"repeat":{"pattern":"* * *","count":"x"}}`), completes, false},
	{"a scheduler of BullMQ 4", storedWith("rjk", "a:b:1:c:* * * * *"), completes, false},
	{"a deduplication id of bytes", storedWith("deid", "\xff\x00:"), completes, false},
	{"a reason to fail", storedWith("defa", "because"), "because", false},
	{"an empty reason to fail", storedWith("defa", ""), completes, false},

	{"a list of pending children", besideKey(":dependencies", "RPUSH", "x"), completes, false},
	{"a string of failed children", besideKey(":unsuccessful", "SET", "x"), completes, false},
	{"a string of results of children", besideKey(":processed", "SET", "x"), completes, false},
	{"a string for its log", besideKey(":logs", "SET", "x"), completes, false},
}

// jobSet is a queue with alternating valid and bad jobs in each of three lists.
type jobSet struct {
	name string
	good []string
	bad  map[string]badJob

	mu     sync.Mutex
	runs   map[string]int
	errors []error
}

func newJobSet() *jobSet {
	return &jobSet{name: newQueueName(), bad: map[string]badJob{}, runs: map[string]int{}}
}

// gather puts a bad job of each kind before a valid one, with place.
func (c *jobSet) gather(line string, place func(id string, n int)) {
	GinkgoHelper()
	for i, kind := range badJobs {
		id, next := fmt.Sprintf("%s-bad-%d", line, i), fmt.Sprintf("%s-good-%d", line, i)
		c.bad[id], c.good = kind, append(c.good, next)
		kind.write(keyOf(c.name, id))
		storedWith()(keyOf(c.name, next))
		place(id, 2*i+1)
		place(next, 2*i+2)
	}
}

func (c *jobSet) gatherAll() {
	GinkgoHelper()
	c.gather("wait", func(id string, _ int) { redisDo("LPUSH", keyOf(c.name, "wait"), id) })
	c.gather("delayed", func(id string, n int) { redisDo("ZADD", keyOf(c.name, "delayed"), fmt.Sprint(n), id) })
	c.gather("prioritized", func(id string, n int) { redisDo("ZADD", keyOf(c.name, "prioritized"), fmt.Sprint(n), id) })
}

// run starts a worker for all jobs. Failing jobs fail at their first two starts.
func (c *jobSet) run(failing bool, options bullmq.WorkerOptions) {
	GinkgoHelper()
	options.Events.Error = func(err error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.errors = append(c.errors, err)
	}
	worker := runWorker(c.name, func(_ context.Context, job *bullmq.Job) (any, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.runs[job.ID]++
		if failing && strings.Contains(job.ID, "bad") && c.runs[job.ID] < 3 {
			return nil, errors.New("boom")
		}
		return nil, nil
	}, &options)
	queue := newQueue(c.name, &bullmq.QueueOptions{Dialect: options.Dialect})
	// All jobs must finish long before a lock or the stalled interval expires.
	Eventually(func() (map[bullmq.State]int, error) { return queue.Counts(specContext()) }).Within(45 * time.Second).
		ProbeEvery(20 * time.Millisecond).Should(And(
		HaveKeyWithValue(bullmq.StateWaiting, BeZero()), HaveKeyWithValue(bullmq.StateDelayed, BeZero()),
		HaveKeyWithValue(bullmq.StatePrioritized, BeZero()), HaveKeyWithValue(bullmq.StateActive, BeZero())))
	Expect(worker.Close()).To(Succeed())
	for _, id := range c.good {
		Expect(stateOf(queue, id)()).To(Equal(bullmq.StateCompleted), id)
	}
	// A missing scheduler is the only error that the worker may report.
	for _, err := range c.errors {
		Expect(err).To(MatchError(ContainSubstring("scheduler")))
	}
	Expect(len(c.errors)).To(BeNumerically("<=", 3*3*3)) // schedulers, lines, tries
}

// reasons returns the failure reasons in the events.
func (c *jobSet) reasons() map[string]string {
	GinkgoHelper()
	reasons := map[string]string{}
	for _, fields := range streamAt(keyOf(c.name, "events")) {
		entry := map[string]string{}
		for i := 0; i+1 < len(fields); i += 2 {
			entry[fields[i]] = fields[i+1]
		}
		if entry["event"] == "failed" {
			reasons[entry["jobId"]] = entry["failedReason"]
		}
	}
	return reasons
}

var _ = Describe("A job with arbitrary content", Label("slow"), func() {
	for dialect, version := range map[bullmq.Dialect]string{bullmq.V6: "6", bullmq.V5: "5"} {
		Describe("of BullMQ "+version, func() {
			var c *jobSet
			options := bullmq.WorkerOptions{Dialect: dialect, LockDuration: time.Minute, StalledInterval: time.Minute}
			BeforeEach(func() { c = newJobSet() })

			It("finishes without blocking other jobs, and reports the reason if it fails", func() {
				c.gatherAll()
				c.run(false, options)
				queue := newQueue(c.name, &bullmq.QueueOptions{Dialect: dialect})
				reasons := c.reasons()
				for id, kind := range c.bad {
					about := id + ": " + kind.what
					switch {
					case kind.ends == completes:
						Expect(stateOf(queue, id)()).To(Equal(bullmq.StateCompleted), about)
						Expect(c.runs[id]).To(Equal(1), about)
						continue
					case kind.homeless:
						Expect(queue.JobState(specContext(), id)).Error().To(MatchError(bullmq.ErrJobNotFound), about)
					default:
						Expect(stateOf(queue, id)()).To(Equal(bullmq.StateFailed), about)
						Expect(hashAt(keyOf(c.name, id))["failedReason"]).To(Equal(reasons[id]), about)
					}
					Expect(reasons[id]).To(ContainSubstring(kind.ends), about)
					Expect(c.runs[id]).To(BeZero(), about)
				}
				Expect(redisDo("KEYS", keyOf(c.name, "*:lock")).AsStrSlice()).To(BeEmpty())
			})

			It("is not retried endlessly when its handler fails", func() {
				c.gatherAll()
				tries := []string{`{"attempts":3}`, `{"attempts":3,"backoff":1}`, "{}"}
				for id := range c.bad {
					if opts, err := redisDo("HGET", keyOf(c.name, id), "opts").ToString(); err == nil && opts == "{}" {
						Expect(redisDo("HSET", keyOf(c.name, id), "opts", tries[len(id)%len(tries)]).Error()).To(Succeed())
					}
				}
				c.run(true, options)
				for id, kind := range c.bad {
					Expect(c.runs[id]).To(BeNumerically("<=", 3), id+": "+kind.what)
				}
			})

			It("is recovered by the stalled check, together with others, when its worker is gone", func() {
				c.gather("active", func(id string, _ int) {
					redisDo("LPUSH", keyOf(c.name, "active"), id)
					redisDo("SADD", keyOf(c.name, "stalled"), id)
				})
				c.run(false, options)
				for id, kind := range c.bad {
					if kind.ends == completes {
						Expect(c.runs[id]).To(Equal(1), id+": "+kind.what)
					}
				}
			})
		})
	}
})

var _ = Describe("A queue with arbitrary content", Label("slow"), func() {
	var name string
	var queue *bullmq.Queue
	BeforeEach(func() {
		name = newQueueName()
		queue = newQueue(name, nil)
	})
	ctx := specContext

	// fill puts every bad job into a state, with its number as the score in a set.
	fill := func(state string) (ids []string) {
		GinkgoHelper()
		for i, kind := range badJobs {
			id := fmt.Sprint(state, "-", i)
			kind.write(keyOf(name, id))
			switch state {
			case "wait", "active", "paused":
				Expect(redisDo("LPUSH", keyOf(name, state), id).Error()).To(Succeed())
			default:
				Expect(redisDo("ZADD", keyOf(name, state), fmt.Sprint(i+1), id).Error()).To(Succeed())
			}
			ids = append(ids, id)
		}
		return ids
	}
	homeless := 0
	for _, kind := range badJobs {
		if kind.homeless || kind.what == "nothing" {
			homeless++
		}
	}

	It("is listed without jobs that have no hash, and written as JSON", func() {
		states := []bullmq.State{bullmq.StateWaiting, bullmq.StateActive, bullmq.StateDelayed, bullmq.StatePrioritized, bullmq.StateCompleted, bullmq.StateFailed, bullmq.StateWaitingChildren}
		for _, s := range states {
			suffix := string(s)
			if s == bullmq.StateWaiting {
				suffix = "wait"
			}
			fill(suffix)
			jobs, err := queue.Jobs(ctx(), bullmq.AllEntries(), s)
			Expect(err).NotTo(HaveOccurred())
			Expect(jobs).To(HaveLen(len(badJobs)-homeless), suffix)
			for _, job := range jobs {
				_, err := job.MarshalJSON()
				Expect(err).NotTo(HaveOccurred())
			}
			Expect(queue.JobIDs(ctx(), bullmq.AllEntries(), s)).To(HaveLen(len(badJobs)))
		}
	})

	DescribeTable("can be cleaned of jobs that are", func(suffix string, s bullmq.State) {
		fill(suffix)
		Expect(queue.Clean(ctx(), &bullmq.CleanOptions{State: s})).To(HaveLen(len(badJobs)))
		Expect(queue.JobIDs(ctx(), bullmq.AllEntries(), s)).To(BeEmpty())
	},
		Entry("waiting", "wait", bullmq.StateWaiting), Entry("active", "active", bullmq.StateActive), Entry("delayed", "delayed", bullmq.StateDelayed),
		Entry("prioritized", "prioritized", bullmq.StatePrioritized), Entry("completed", "completed", bullmq.StateCompleted), Entry("failed", "failed", bullmq.StateFailed),
	)

	It("can be drained and obliterated", func() {
		fill("wait")
		fill("prioritized")
		fill("delayed")
		Expect(queue.Drain(ctx(), &bullmq.DrainOptions{Delayed: true})).To(Succeed())
		Expect(queue.Count(ctx())).To(BeZero())
		for _, suffix := range []string{"wait", "active", "delayed", "prioritized", "completed", "failed", "paused"} {
			fill(suffix)
		}
		Expect(queue.Obliterate(ctx(), &bullmq.ObliterateOptions{Force: true})).To(Succeed())
		Expect(keysOf(name)).To(BeEmpty())
	})

	It("lets its jobs be removed one by one", func() {
		for _, id := range append(fill("wait"), fill("failed")...) {
			Expect(queue.Remove(ctx(), id, nil)).To(Succeed(), id)
			Expect(queue.JobState(ctx(), id)).Error().To(MatchError(bullmq.ErrJobNotFound))
		}
	})

	It("lets its jobs be promoted and retried, one by one or together", func() {
		fill("failed")
		Expect(queue.RetryJobs(ctx(), nil)).To(Succeed())
		Expect(countOf(queue, bullmq.StateWaiting)()).To(Equal(len(badJobs)))
		fill("delayed")
		Expect(queue.PromoteJobs(ctx(), nil)).To(Succeed())
		Expect(countOf(queue, bullmq.StateWaiting)()).To(Equal(2 * len(badJobs)))
		for _, id := range fill("delayed") {
			Expect(queue.JobRef(id).Promote(ctx())).To(Succeed(), id)
		}
		for i, id := range fill("completed") {
			err := queue.JobRef(id).Retry(ctx(), bullmq.StateCompleted, nil)
			switch {
			case badJobs[i].what == "nothing":
				Expect(err).To(MatchError(bullmq.ErrJobNotFound))
			case badJobs[i].homeless:
				Expect(err).To(MatchError(ContainSubstring("WRONGTYPE")))
			default:
				Expect(err).NotTo(HaveOccurred(), badJobs[i].what)
			}
		}
	})

	It("is trimmed to the newest jobs when a job finishes", func() {
		fill("completed")
		add, err := queue.Add(ctx(), "paint", nil, &bullmq.JobOptions{KeepCompleted: bullmq.KeepLast(1)})
		Expect(err).NotTo(HaveOccurred())
		runWorker(name, func(context.Context, *bullmq.Job) (any, error) { return nil, nil }, nil)
		Eventually(stateOf(queue, add.ID)).Should(Equal(bullmq.StateCompleted))
		Expect(zsetAt(keyOf(name, "completed"))).To(Equal([]string{add.ID}))
	})

	It("lets orphaned jobs be found and requeued", func() {
		for i, kind := range badJobs {
			kind.write(keyOf(name, fmt.Sprint("lost-", i)))
		}
		found, err := queue.FindStrandedJobs(ctx())
		Expect(err).NotTo(HaveOccurred())
		Expect(queue.RepairPaused(ctx())).To(ConsistOf(found))
		Expect(queue.Count(ctx())).To(BeEquivalentTo(len(found)))
	})
})

var _ = Describe("A worker of a broken queue", Label("slow"), func() {
	var name string
	BeforeEach(func() { name = newQueueName() })
	ctx := specContext

	work := func(options bullmq.WorkerOptions) (*bullmq.Queue, func() []error) {
		GinkgoHelper()
		var mu sync.Mutex
		var errs []error
		options.Events.Error = func(err error) {
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		}
		runWorker(name, func(context.Context, *bullmq.Job) (any, error) { return nil, nil }, &options)
		return newQueue(name, nil), func() []error {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(errs)
		}
	}

	DescribeTable("idles without load and runs new jobs if", func(write ...string) {
		write[1] = keyOf(name, write[1])
		Expect(redisDo(write...).Error()).To(Succeed())
		storedWith()(keyOf(name, "late"))
		queue, faults := work(bullmq.WorkerOptions{})
		for range 3 {
			job, err := queue.Add(ctx(), "paint", nil, nil)
			Expect(err).NotTo(HaveOccurred())
			Eventually(stateOf(queue, job.ID)).Should(Equal(bullmq.StateCompleted))
		}
		before := commandCalls()
		time.Sleep(300 * time.Millisecond)
		calls := 0
		for command, n := range commandCalls() {
			if command == "evalsha" || command == "bzpopmin" {
				calls += n - before[command]
			}
		}
		Expect(calls).To(BeNumerically("<", 20), "calls of an idle worker")
		Expect(faults()).To(BeEmpty())
	},
		Entry("a job is delayed forever", "ZADD", "delayed", "inf", "late"),
		Entry("a job was due at minus infinity", "ZADD", "delayed", "-inf", "late"),
		Entry("a job was due before 1970", "ZADD", "delayed", "-1", "late"),
		Entry("a job is due beyond every number", "ZADD", "delayed", "1e300", "late"),
		Entry("the marker is due beyond every number", "ZADD", "marker", "inf", "1"),
		Entry("the marker is invalid", "ZADD", "marker", "-inf", "\xff"),
		Entry("the concurrency is a word", "HSET", "meta", "concurrency", "many"),
		Entry("the rate limit is a word", "HSET", "meta", "max", "many", "duration", "long"),
		Entry("the rate limit has no duration", "HSET", "meta", "max", "1000"),
		Entry("the number of events to keep is a word", "HSET", "meta", "opts.maxLenEvents", "many"),
		Entry("the version is invalid", "HSET", "meta", "version", "\xff"),
		Entry("the count of starts is a word", "SET", "limiter", "many"),
	)

	It("runs all jobs that are due next to one that cannot run", func() {
		for i, kind := range badJobs {
			kind.write(keyOf(name, fmt.Sprint("bad-", i)))
			storedWith()(keyOf(name, fmt.Sprint("good-", i)))
			Expect(redisDo("ZADD", keyOf(name, "delayed"), "-inf", fmt.Sprint("bad-", i), fmt.Sprint(i+1), fmt.Sprint("good-", i)).Error()).To(Succeed())
		}
		queue, _ := work(bullmq.WorkerOptions{})
		Eventually(countOf(queue, bullmq.StateDelayed)).Should(BeZero())
		for i := range badJobs {
			Eventually(stateOf(queue, fmt.Sprint("good-", i))).Should(Equal(bullmq.StateCompleted))
		}
	})

	// A child whose parent, or a key of that parent, has a wrong type.
	DescribeTable("finishes a child and reports the error if its family has", func(policy string, attempts string, spoil ...string) {
		parent := keyOf(name, "parent")
		storedWith()(parent)
		spoil[1] = parent + spoil[1]
		Expect(redisDo("DEL", spoil[1]).Error()).To(Succeed())
		Expect(redisDo(spoil...).Error()).To(Succeed())
		if !strings.HasSuffix(spoil[1], ":dependencies") {
			Expect(redisDo("SADD", parent+":dependencies", keyOf(name, "child")).Error()).To(Succeed())
		}
		Expect(redisDo("ZADD", keyOf(name, "waiting-children"), "1", "parent").Error()).To(Succeed())
		data := "{}"
		if policy != "" {
			data = "{nonsense" // it fails for good
		}
		storedWith("data", data, "parentKey", parent, "parent", fmt.Sprintf(`{"id":"parent","queueKey":"bull:%s"%s}`, name, policy))(keyOf(name, "child"))
		Expect(redisDo("LPUSH", keyOf(name, "wait"), "child").Error()).To(Succeed())
		queue, faults := work(bullmq.WorkerOptions{LockDuration: time.Minute})
		wanted := bullmq.StateCompleted
		if policy != "" {
			wanted = bullmq.StateFailed
		}
		Eventually(stateOf(queue, "child")).Should(Equal(wanted))
		Eventually(func() []string { return listAt(keyOf(name, "active")) }).Should(BeEmpty())
		job, err := queue.Add(ctx(), "paint", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		Eventually(stateOf(queue, job.ID)).Should(Equal(bullmq.StateCompleted))
		if attempts == "reasons" {
			Expect(faults()).To(ContainElement(MatchError(ContainSubstring("WRONGTYPE"))))
		}
	},
		Entry("a parent that is a string", "", "", "SET", "", "x"),
		Entry("pending children that are a list", "", "reasons", "RPUSH", ":dependencies", "x"),
		Entry("results that are a list", "", "reasons", "RPUSH", ":processed", "x"),
		Entry("a parent that is a string, and the child fails", `,"fpof":true`, "reasons", "SET", "", "x"),
		Entry("failed children that are a list", `,"fpof":true`, "reasons", "RPUSH", ":unsuccessful", "x"),
		Entry("ignored failures that are a list", `,"idof":true`, "reasons", "RPUSH", ":failed", "x"),
		Entry("failures to continue without that are a list", `,"cpof":true`, "reasons", "RPUSH", ":failed", "x"),
	)

	DescribeTable("finishes the owner of a deduplication id if the kept next job has", func(write ...string) {
		storedWith("deid", "d")(keyOf(name, "owner"))
		Expect(redisDo("SET", keyOf(name, "de:d"), "owner").Error()).To(Succeed())
		write[1] = keyOf(name, write[1])
		Expect(redisDo(write...).Error()).To(Succeed())
		Expect(redisDo("LPUSH", keyOf(name, "wait"), "owner").Error()).To(Succeed())
		queue, _ := work(bullmq.WorkerOptions{LockDuration: time.Minute})
		Eventually(stateOf(queue, "owner")).Should(Equal(bullmq.StateCompleted))
		Eventually(countOf(queue, bullmq.StateActive)).Should(BeZero())
	},
		Entry("a list instead of a record", "RPUSH", "dn:d", "x"),
		Entry("opts that are not JSON", "HSET", "dn:d", "name", "a", "data", "{}", "opts", "{nonsense"),
		Entry("opts that are a number", "HSET", "dn:d", "name", "a", "data", "{}", "opts", "5"),
		Entry("opts of other types", "HSET", "dn:d", "name", "a", "data", "{}", "opts", `{"delay":{},"priority":[],"de":{"id":{},"ttl":"x"}}`),
		Entry("a delay beyond every number", "HSET", "dn:d", "name", "a", "data", "{}", "opts", `{"delay":1e300}`),
		Entry("opts only", "HSET", "dn:d", "opts", "{}"),
		Entry("half a parent", "HSET", "dn:d", "name", "a", "data", "{}", "opts", "{}", "pk", "x", "pdk", "y"),
	)

	DescribeTable("runs the job of a scheduler whose record has", func(opts string, write ...string) {
		producer := "repeat:s:1000"
		storedWith("rjk", "s", "opts", opts)(keyOf(name, producer))
		Expect(redisDo("ZADD", keyOf(name, "repeat"), "1000", "s").Error()).To(Succeed())
		Expect(redisDo("HSET", keyOf(name, "repeat:s"), "name", "s", "every", "60000", "ic", "1").Error()).To(Succeed())
		if len(write) > 0 {
			write[1] = keyOf(name, write[1])
			if write[0] == "RPUSH" {
				redisDo("DEL", write[1])
			}
			Expect(redisDo(write...).Error()).To(Succeed())
		}
		Expect(redisDo("LPUSH", keyOf(name, "wait"), producer).Error()).To(Succeed())
		queue, _ := work(bullmq.WorkerOptions{LockDuration: time.Minute})
		Eventually(stateOf(queue, producer)).Should(Equal(bullmq.StateCompleted))
		_, err := queue.Schedulers(ctx(), bullmq.AllEntries())
		Expect(err).To(Or(BeNil(), MatchError(ContainSubstring("WRONGTYPE"))))
		_, err = queue.UpsertScheduler(ctx(), "s", bullmq.Repeat{Every: time.Hour}, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(queue.RemoveScheduler(ctx(), "s")).To(Succeed())
	},
		Entry("valid fields", `{"repeat":{"every":60000,"count":1}}`),
		Entry("a list instead of a record", `{"repeat":{"every":60000,"count":1}}`, "RPUSH", "repeat:s", "x"),
		Entry("no name", `{"repeat":{"every":60000,"count":1}}`, "HDEL", "repeat:s", "name"),
		Entry("an interval that is a word", `{"repeat":{"every":60000,"count":1}}`, "HSET", "repeat:s", "every", "often"),
		Entry("an interval of 0", `{"repeat":{"every":60000,"count":1}}`, "HSET", "repeat:s", "every", "0"),
		Entry("an interval of NaN", `{"repeat":{"every":60000,"count":1}}`, "HSET", "repeat:s", "every", "nan"),
		Entry("an infinite interval", `{"repeat":{"every":60000,"count":1}}`, "HSET", "repeat:s", "every", "inf"),
		Entry("a negative interval", `{"repeat":{"every":60000,"count":1}}`, "HSET", "repeat:s", "every", "-5"),
		Entry("an infinite offset", `{"repeat":{"every":60000,"count":1}}`, "HSET", "repeat:s", "offset", "inf"),
		Entry("iterations that are a word", `{"repeat":{"every":60000,"count":1}}`, "HSET", "repeat:s", "ic", "many"),
		Entry("data that are not JSON", `{"repeat":{"every":60000,"count":1}}`, "HSET", "repeat:s", "data", "{nonsense"),
		Entry("a next time beyond every number", `{"repeat":{"every":60000,"count":1}}`, "ZADD", "repeat", "inf", "s"),
		Entry("numbers beyond every number", `{"repeat":{"every":1e400,"count":1e400,"limit":1e300,"offset":-1e300,"endDate":1e300}}`),
		Entry("an interval and a pattern", `{"repeat":{"every":60000,"pattern":"* * * * *"}}`),
		Entry("an invalid pattern", `{"repeat":{"pattern":"61 * * * *"},"prevMillis":"x"}`),
		Entry("a pattern that never matches", `{"repeat":{"pattern":"0 0 31 2 *"}}`),
		Entry("an invalid time zone", `{"repeat":{"pattern":"* * * * *","tz":"Mars/Olympus"}}`),
		Entry("options of other types", `{"repeat":{"every":60000,"count":1},"priority":{"a":1},"de":{"id":[]},"lifo":{},"backoff":[],"attempts":"x"}`),
		Entry("options that are nested too deeply", `{"repeat":{"every":60000,"count":1},"deep":`+strings.Repeat("[", 5000)+strings.Repeat("]", 5000)+`}`),
	)
})
