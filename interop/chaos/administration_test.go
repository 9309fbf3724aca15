package chaos

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

var _ = Describe("The administration of many jobs", func() {
	It("blocks Redis for less than a second at a time", func() {
		jobs, limit := 20_000, 400*time.Millisecond
		if *full {
			jobs, limit = 100_000, time.Second
		}
		server, err := redisserver.Start(redisserver.Options{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(server.Close)
		site, ctx := at(server), within(3*time.Minute)
		admin, err := site.open()
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(admin.Close)
		Expect(ask(ctx, admin, "CONFIG", "SET", "slowlog-log-slower-than", "1000", "slowlog-max-len", "100000")).To(Succeed())
		queue, err := bullmq.NewQueue(ctx, "administered", &bullmq.QueueOptions{Connection: connect(site)})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(queue.Close)

		// briefly makes a call and checks the duration of Redis's longest command. If other processes kept
		// the server from the CPU, the CPU time that the server used counts.
		briefly := func(title string, call func() error) {
			GinkgoHelper()
			Expect(ask(ctx, admin, "SLOWLOG", "RESET")).To(Succeed())
			before := serverCPU(ctx, admin)
			Expect(call()).To(Succeed(), title)
			took, command := slowest(ctx, admin)
			took = min(took, serverCPU(ctx, admin)-before)
			report.Note("    %s of %d jobs: longest command %v", title, jobs, took)
			Expect(took).To(BeNumerically("<", limit), "%s: %s", title, command)
		}
		left := func(state bullmq.State, want int) {
			GinkgoHelper()
			Expect(queue.Counts(ctx, state)).To(HaveKeyWithValue(state, BeEquivalentTo(want)))
		}
		add := func(options *bullmq.JobOptions) func() error {
			return func() error {
				bulk := make([]bullmq.BulkJob, jobs)
				for i := range bulk {
					bulk[i] = bullmq.BulkJob{Name: "a", Options: options}
				}
				_, err := queue.AddBulk(ctx, bulk)
				return err
			}
		}

		briefly("AddBulk of delayed jobs", add(&bullmq.JobOptions{Delay: time.Hour}))
		left(bullmq.StateDelayed, jobs)
		briefly("PromoteJobs", func() error { return queue.PromoteJobs(ctx, nil) })
		left(bullmq.StateWaiting, jobs)
		briefly("Jobs", func() error {
			all, err := queue.Jobs(ctx, bullmq.AllEntries(), bullmq.StateWaiting)
			if err == nil && len(all) != jobs {
				err = fmt.Errorf("%d jobs were listed", len(all))
			}
			return err
		})

		var ran atomic.Int64
		done := make(chan struct{})
		worker, err := bullmq.NewWorker(ctx, "administered", func(context.Context, *bullmq.Job) (any, error) {
			if ran.Add(1) == int64(jobs)*45/100 {
				close(done)
			}
			return nil, nil
		}, &bullmq.WorkerOptions{Connection: connect(site), Concurrency: 100})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(worker.Close)
		ended := make(chan error, 1)
		go func() { ended <- worker.Run(ctx) }()
		Eventually(done, "60s").Should(BeClosed())
		Expect(worker.Close()).To(Succeed())
		Expect(<-ended).To(Succeed())
		briefly("Clean of completed", func() error {
			_, err := queue.Clean(ctx, nil)
			return err
		})
		left(bullmq.StateCompleted, 0)
		briefly("Clean of waiting", func() error {
			_, err := queue.Clean(ctx, &bullmq.CleanOptions{State: bullmq.StateWaiting})
			return err
		})
		left(bullmq.StateWaiting, 0)
		briefly("AddBulk", add(nil))
		briefly("Drain", func() error { return queue.Drain(ctx, &bullmq.DrainOptions{Delayed: true}) })
		left(bullmq.StateWaiting, 0)
		Expect(add(nil)()).To(Succeed())
		briefly("Obliterate", func() error { return queue.Obliterate(ctx, nil) })
		keys, err := admin.Do(ctx, admin.B().Dbsize().Build()).AsInt64()
		Expect(err).NotTo(HaveOccurred())
		Expect(keys).To(BeZero())
	})
})

// slowest returns the longest command of the server's slow log.
func slowest(ctx context.Context, admin rueidis.Client) (took time.Duration, command string) {
	GinkgoHelper()
	entries, err := admin.Do(ctx, admin.B().Arbitrary("SLOWLOG", "GET", "-1").Build()).ToArray()
	Expect(err).NotTo(HaveOccurred())
	for _, entry := range entries {
		fields, err := entry.ToArray()
		Expect(err).NotTo(HaveOccurred())
		micros, err := fields[2].AsInt64()
		Expect(err).NotTo(HaveOccurred())
		if d := time.Duration(micros) * time.Microsecond; d > took {
			words, err := fields[3].AsStrSlice()
			Expect(err).NotTo(HaveOccurred())
			took, command = d, strings.Join(words[:min(len(words), 5)], " ")
		}
	}
	return took, command
}

// serverCPU returns the CPU time used by the server.
func serverCPU(ctx context.Context, admin rueidis.Client) time.Duration {
	GinkgoHelper()
	info, err := admin.Do(ctx, admin.B().Info().Section("cpu").Build()).ToString()
	Expect(err).NotTo(HaveOccurred())
	var used float64
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_user" || name == "used_cpu_sys" {
			seconds, err := strconv.ParseFloat(value, 64)
			Expect(err).NotTo(HaveOccurred())
			used += seconds
		}
	}
	return time.Duration(used * float64(time.Second))
}
