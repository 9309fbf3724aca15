package chaos

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

var _ = Describe("A large number", func() {
	var (
		site   Site
		admin  rueidis.Client
		queue  *bullmq.Queue
		ledger *Ledger
		begun  time.Time
	)
	BeforeEach(func() {
		onlyInFull()
		server, err := redisserver.Start(redisserver.Options{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(server.Close)
		site, ledger, begun = at(server), &Ledger{}, time.Now()
		admin, err = site.open()
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(admin.Close)
		queue, err = bullmq.NewQueue(context.Background(), "volume", &bullmq.QueueOptions{Connection: connect(site)})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(queue.Close)
	})
	fleet := func(s Settings) *Fleet {
		f := &Fleet{site: site, queue: "volume", ledger: ledger, settings: s}
		DeferCleanup(f.Kill)
		return f
	}
	// add adds the given number of jobs in batches of a thousand.
	add := func(count int, options *bullmq.JobOptions) {
		GinkgoHelper()
		for from := 0; from < count; from += 1000 {
			bulk := make([]bullmq.BulkJob, min(1000, count-from))
			first := 0
			for i := range bulk {
				sequence := ledger.Offer(Go, 1, 0)
				if i == 0 {
					first = sequence
				}
				bulk[i] = bullmq.BulkJob{Name: "work", Data: payload{Sequence: sequence}, Options: options}
			}
			_, err := queue.AddBulk(within(time.Minute), bulk)
			Expect(err).NotTo(HaveOccurred())
			for i := range bulk {
				ledger.Added(first + i)
			}
		}
	}
	settle := func(fault string, f *Fleet) Account {
		GinkgoHelper()
		ctx := within(5 * time.Minute)
		Expect(drained(ctx, queueKeys{admin, site.base("volume")})).To(Succeed())
		Expect(f.Stop()).To(Succeed())
		account, err := ledger.Settle(ctx, queueKeys{admin, site.base("volume")})
		Expect(err).NotTo(HaveOccurred())
		report.Add(Row{Fault: fault, Account: account, Took: time.Since(begun)})
		Expect(account.Wrong).To(BeEmpty())
		Expect(account.Left + account.Refused + account.Doubtful).To(BeZero())
		return account
	}

	It("of jobs whose worker dies runs again", func() {
		const count = 10_000
		f := fleet(Settings{Lock: 2 * time.Second, Stalled: 500 * time.Millisecond, Concurrency: 50})
		add(count, nil)
		doomed, err := f.Start(within(20*time.Second), Go, "-concurrency", fmt.Sprint(count), "-sleep", "120000", "-lock-duration", "20000")
		Expect(err).NotTo(HaveOccurred())
		Eventually(ledger.StartedSoFar).WithTimeout(time.Minute).Should(Equal(count))
		f.Remove(doomed, func(m *Member) { m.Kill() })
		Expect(f.StartAll(within(20*time.Second), 1, 1)).To(Succeed())
		account := settle("10,000 jobs stall at once, with locks of 20 s", f)
		Expect(account.Stalls).To(Equal(count))
		Expect(account.Reruns[Go]).To(Equal(count))
	})

	It("of jobs that remove themselves runs once despite frequent stalled checks", func() {
		const count = 5000
		f := fleet(Settings{Lock: 30 * time.Second, Stalled: 50 * time.Millisecond, Concurrency: 10})
		Expect(f.StartAll(within(20*time.Second), 2, 2)).To(Succeed())
		add(count, &bullmq.JobOptions{KeepCompleted: bullmq.KeepNone()})
		Eventually(ledger.EndedSoFar).WithTimeout(time.Minute).Should(Equal(count))
		Expect(drained(within(time.Minute), queueKeys{admin, site.base("volume")})).To(Succeed())
		time.Sleep(300 * time.Millisecond) // a few more checks
		Expect(f.Stop()).To(Succeed())
		for sequence, e := range ledger.jobs {
			Expect([]int{int(e.starts), int(e.ends)}).To(Equal([]int{1, 1}), "starts and ends of job %d", sequence)
		}
		report.Note("%d jobs that remove themselves, 4 workers with a stalled check every 50 ms: each job ran once", count)
	})

	It("of delayed jobs that are due in the same second runs no earlier than that", func() {
		f := fleet(Settings{Lock: 30 * time.Second, Stalled: 10 * time.Second, Concurrency: 50})
		Expect(f.StartAll(within(20*time.Second), 2, 1)).To(Succeed())
		delay := (5*time.Second + time.Duration(*delayed)*time.Second/8000).Round(time.Millisecond)
		now := time.Now()
		due := now.Add(delay)
		add(*delayed, &bullmq.JobOptions{Timestamp: now, Delay: delay})
		added := time.Since(now)
		Expect(time.Now()).To(BeTemporally("<", due), "adding took too long for a meaningful result")
		time.Sleep(time.Until(due.Add(-50 * time.Millisecond)))
		Expect(ledger.StartedSoFar()).To(BeZero())
		Eventually(ledger.EndedSoFar).WithTimeout(5 * time.Minute).WithPolling(100 * time.Millisecond).Should(Equal(*delayed))
		report.Note("    %d delayed jobs: added in %.1f s, all finished %.1f s after the second in which they were due", *delayed, added.Seconds(), time.Since(due).Seconds())
		account := settle(fmt.Sprintf("%d delayed jobs are due in the same second", *delayed), f)
		Expect(account.Stalls).To(BeZero())
	})

	It("of sizes from 1 byte to 50 MB arrives unchanged in both libraries", func() {
		f := fleet(Settings{Lock: 30 * time.Second, Stalled: 10 * time.Second, Concurrency: 2})
		type big struct {
			payload
			Text string `json:"text"`
		}
		ctx := within(3 * time.Minute)
		for _, library := range []Library{Go, Node} {
			worker, err := f.Start(ctx, library)
			Expect(err).NotTo(HaveOccurred())
			for _, size := range []int{1, 1000, 100_000, 1_000_000, 10_000_000, 50_000_000} {
				sequence := ledger.Offer(Go, 1, 0)
				data := big{payload{Sequence: sequence}, strings.Repeat("é", size/2) + strings.Repeat("x", size%2)}
				job, err := queue.Add(ctx, "work", data, nil)
				Expect(err).NotTo(HaveOccurred())
				ledger.Added(sequence)
				length, err := admin.Do(ctx, admin.B().Hstrlen().Key(job.Key()).Field("data").Build()).AsInt64()
				Expect(err).NotTo(HaveOccurred())
				Expect(length).To(BeEquivalentTo(len(fmt.Sprintf(`{"sequence":%d,"text":""}`, sequence)) + size))
			}
			Expect(drained(ctx, queueKeys{admin, site.base("volume")})).To(Succeed())
			f.Remove(worker, func(m *Member) { Expect(m.Stop()).To(Equal(0)) })
		}
		account := settle("jobs of 1 byte to 50 MB", f)
		Expect(account.Stalls).To(BeZero())
	})

	It("of queues shares one client", func() {
		const count = 10_000
		client, err := rueidis.NewClient(site.option())
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(client.Close)
		heap := func() float64 {
			runtime.GC()
			var memory runtime.MemStats
			runtime.ReadMemStats(&memory)
			return float64(memory.HeapAlloc)
		}
		ctx := within(2 * time.Minute)
		heapBefore, goroutinesBefore := heap(), runtime.NumGoroutine()
		queues := make([]*bullmq.Queue, count)
		for i := range queues {
			queues[i], err = bullmq.NewQueue(ctx, fmt.Sprint("queue-", i), &bullmq.QueueOptions{Connection: connectClient(client)})
			Expect(err).NotTo(HaveOccurred())
			_, err = queues[i].Add(ctx, "work", nil, nil)
			Expect(err).NotTo(HaveOccurred())
		}
		opened := time.Since(begun)
		perQueue, goroutines := (heap()-heapBefore)/count, runtime.NumGoroutine()-goroutinesBefore
		for _, queue := range queues {
			counts, err := queue.Counts(ctx, bullmq.StateWaiting)
			Expect(err).NotTo(HaveOccurred())
			Expect(counts[bullmq.StateWaiting]).To(BeEquivalentTo(1))
			Expect(queue.Close()).To(Succeed())
		}
		report.Note("%d queues on one client: opened with one job each in %.1f s; %.1f KiB and %.3f goroutines each", count, opened.Seconds(), perQueue/1024, float64(goroutines)/count)
		Expect(perQueue).To(BeNumerically("<", 16<<10), "bytes of heap per queue")
		Expect(goroutines).To(BeNumerically("<", 100), "goroutines of all queues")
	})
})
