package tests

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/nodeprocess"
	"github.com/17a2ac88/bullmq-go/interop/nodeprobe"
)

// newShardedQueue returns a sharded queue on the suite's server that is closed when the spec ends.
func newShardedQueue(name string, shards int, options bullmq.QueueOptions) *bullmq.ShardedQueue {
	GinkgoHelper()
	options.URL, options.BatchSize = server.URL(), batchSize
	sharded, err := bullmq.NewShardedQueue(context.Background(), name, shards, &bullmq.ShardedQueueOptions{Queue: options})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(sharded.Close)
	return sharded
}

var _ = Describe("A shard", func() {
	DescribeTable("is added to, worked on and paused by Node like any queue", func(line string, dialect bullmq.Dialect) {
		const shards, perProducer = 3, 60
		name := newQueueName()
		sharded := newShardedQueue(name, shards, bullmq.QueueOptions{Dialect: dialect})
		own := nodeprobe.Start(server.Addr(), "-bullmq", line)
		// The shard in the middle belongs to Node, the others to Go.
		ledgers := map[string]*ledger{}
		for i, shard := range sharded.Shards() {
			l := newLedger(shard.Name())
			ledgers[shard.Name()] = l
			if i == 1 {
				noddy := workInNode(l, "noddy", line)
				DeferCleanup(noddy.stop)
			} else {
				workInGo(l, fmt.Sprint("gopher-", i), bullmq.WorkerOptions{Dialect: dialect})
			}
		}

		own.Do("pause", object{"queue": sharded.Shards()[1].Name()}, nil)
		Expect(sharded.IsPaused(soon())).To(BeFalse())
		Expect(sharded.Pause(soon())).To(Succeed())
		var paused bool
		own.Do("isPaused", object{"queue": sharded.Shards()[2].Name()}, &paused)
		Expect(paused).To(BeTrue())
		for i := range perProducer {
			data := object{"sequence": i}
			job, err := sharded.Add(soon(), "paint", data, nil)
			Expect(err).NotTo(HaveOccurred())
			ledgers[job.QueueName()].noteAdded(job.ID, job.Name, string(job.Data), job.RawOptions)
			to := sharded.Shards()[i%shards].Name()
			id := own.Add(to, "paint", data, nil)
			stored, err := sharded.Job(soon(), to, id)
			Expect(err).NotTo(HaveOccurred())
			ledgers[to].noteAdded(id, stored.Name, string(stored.Data), stored.RawOptions)
		}
		counts, err := sharded.Counts(soon(), bullmq.StateWaiting, bullmq.StatePaused)
		Expect(err).NotTo(HaveOccurred())
		Expect(counts[bullmq.StateWaiting] + counts[bullmq.StatePaused]).To(Equal(2 * perProducer))
		Expect(sharded.Resume(soon())).To(Succeed())
		for _, l := range ledgers {
			l.waitForEnds(2 * perProducer / shards)
			l.settle(2 * perProducer / shards)
		}
		Expect(sharded.Counts(soon(), bullmq.StateCompleted)).To(HaveKeyWithValue(bullmq.StateCompleted, 2*perProducer))
	},
		Entry("of bullmq 6.7.0", "6", bullmq.V6),
		Entry("of bullmq 5.81.5", "5", bullmq.V5),
	)

	It("is worked on by Node beside a ShardedWorker, while the number of shards changes, and each job runs exactly once", func() {
		name := newQueueName()
		sharded := newShardedQueue(name, 3, bullmq.QueueOptions{})
		var mu sync.Mutex
		ledgers := map[string]*ledger{}
		of := func(queueName string) *ledger {
			mu.Lock()
			defer mu.Unlock()
			if ledgers[queueName] == nil {
				ledgers[queueName] = newLedger(queueName)
			}
			return ledgers[queueName]
		}
		for i, line := range []string{"6", "5"} {
			noddy := workInNode(of(sharded.Shards()[i].Name()), "noddy-"+line, line, "-concurrency", "5")
			DeferCleanup(noddy.stop)
		}
		end := func(job *bullmq.Job, failed bool, value string) {
			of(job.QueueName()).noteEnded(job.ID, ended{by: "gopher", failed: failed, value: value})
		}
		worker, err := bullmq.NewShardedWorker(context.Background(), sharded, func(_ context.Context, job *bullmq.Job) (any, error) {
			return of(job.QueueName()).runAs("gopher", job)
		}, &bullmq.WorkerOptions{Concurrency: 15, BatchSize: batchSize, Name: "gopher", Events: bullmq.WorkerEvents{
			Completed: func(job *bullmq.Job, _ any) { end(job, false, string(job.ReturnValue)) },
			Failed: func(job *bullmq.Job, err error) {
				if job.AttemptsMade >= job.Options.Attempts {
					end(job, true, err.Error())
				}
			},
		}})
		Expect(err).NotTo(HaveOccurred())
		stopped := make(chan error, 1)
		go func() { stopped <- worker.Run(context.Background()) }()
		DeferCleanup(func() {
			Expect(worker.Close()).To(Succeed())
			Expect(<-stopped).To(Succeed())
		})

		count := 0
		ctx := within(90 * time.Second)
		for round, shards := range []int{3, 4} {
			Expect(sharded.Resize(ctx, shards)).To(Succeed())
			mix := mixOfJobs(400, uint64(60+round))
			for from := 0; from < len(mix); from += 40 {
				batch := mix[from : from+40]
				made, err := sharded.AddBulk(ctx, batch)
				Expect(err).NotTo(HaveOccurred())
				for i, job := range made {
					of(job.QueueName()).noteAdded(job.ID, batch[i].Name, stringified(batch[i].Data), job.RawOptions)
				}
				count += len(batch)
			}
		}
		Eventually(func() int {
			mu.Lock()
			defer mu.Unlock()
			ends := 0
			for _, l := range ledgers {
				ends += l.endedCount()
			}
			return ends
		}, "60s").Should(Equal(count))
		Expect(ledgers).To(HaveLen(7))
		byNode := 0
		for _, l := range ledgers {
			l.settle(len(l.added))
			byNode += l.startsBy()["noddy-6"] + l.startsBy()["noddy-5"]
		}
		Expect(byNode).To(BeNumerically(">", 0))
	})

	It("of a key is the same in Node, by the function in the docs", func() {
		node, err := nodeprocess.Find()
		Expect(err).NotTo(HaveOccurred())
		page, err := os.ReadFile("../../docs/scaling.md")
		Expect(err).NotTo(HaveOccurred())
		function := regexp.MustCompile("(?s)```js\n(.*?\n}\n)").FindStringSubmatch(string(page))
		Expect(function).NotTo(BeNil())
		keys := []string{"a", "customer-17", "ä", "日本語 🎉", strings.Repeat("long ", 100)}
		list, err := json.Marshal(keys)
		Expect(err).NotTo(HaveOccurred())
		output, err := exec.Command(node.Node, "-e", function[1]+"console.log(JSON.stringify("+string(list)+".map(shardOf)))").Output()
		Expect(err).NotTo(HaveOccurred())
		var inNode []string
		Expect(json.Unmarshal(output, &inNode)).To(Succeed())

		name := newQueueName()
		sharded := newShardedQueue(name, 8, bullmq.QueueOptions{})
		var inGo []string
		for _, key := range keys {
			job, err := sharded.Add(soon(), "paint", nil, &bullmq.JobOptions{JobID: key})
			Expect(err).NotTo(HaveOccurred())
			inGo = append(inGo, strings.Replace(job.QueueName(), name, "orders", 1))
		}
		Expect(inGo).To(Equal(inNode))
		Expect(slices.Compact(slices.Sorted(slices.Values(inGo)))).NotTo(HaveLen(1))
	})
})
