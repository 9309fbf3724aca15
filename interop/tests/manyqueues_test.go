package tests

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/rs/zerolog"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// runMultiWorker runs a worker over many queues until it is stopped or the spec ends.
func runMultiWorker(handler bullmq.Handler, options bullmq.MultiWorkerOptions, queues ...string) (stop func()) {
	GinkgoHelper()
	options.Worker.URL, options.Worker.BatchSize = server.URL(), batchSize
	options.Worker.Logger = bullmq.Zerolog(zerolog.New(GinkgoWriter).Level(zerolog.WarnLevel).With().Timestamp().Logger())
	for _, name := range queues {
		options.Queues = append(options.Queues, bullmq.ServedQueue{Name: name})
	}
	worker, err := bullmq.NewMultiWorker(context.Background(), handler, &options)
	Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			Fail(fmt.Sprintf("the worker over many queues returned %v", err))
		}
	})
	DeferCleanup(stop)
	return stop
}

// workInMany runs a worker over the queues of some ledgers that behaves like worker.mjs.
func workInMany(ledgers []*ledger, name string, options bullmq.MultiWorkerOptions) (stop func()) {
	GinkgoHelper()
	of, names := map[string]*ledger{}, make([]string, len(ledgers))
	for i, l := range ledgers {
		of[l.queue], names[i] = l, l.queue
	}
	end := func(job *bullmq.Job, failed bool, value string) {
		of[job.QueueName()].noteEnded(job.ID, ended{by: name, failed: failed, value: value})
	}
	options.Worker.Name = name
	options.Worker.Events = bullmq.WorkerEvents{
		Completed: func(job *bullmq.Job, _ any) { end(job, false, string(job.ReturnValue)) },
		Failed: func(job *bullmq.Job, err error) {
			if job.AttemptsMade >= job.Options.Attempts {
				end(job, true, err.Error())
			}
		},
		Error: func(err error) { ledgers[0].noteFault(err.Error()) },
	}
	return runMultiWorker(func(_ context.Context, job *bullmq.Job) (any, error) {
		return of[job.QueueName()].runAs(name, job)
	}, options, names...)
}

var _ = Describe("A Go worker over many queues", func() {
	It("shares queues with workers of one queue in Go and in both Node versions, and each job runs exactly once", func() {
		const each = 200
		ledgers := make([]*ledger, 20)
		for i := range ledgers {
			ledgers[i] = newLedger(newQueueName())
		}
		// Node's workers take some time for each job, so that they can't run all jobs of their queues alone.
		stops := []func(){
			workInMany(ledgers, "multi", bullmq.MultiWorkerOptions{Worker: bullmq.WorkerOptions{Concurrency: 10}}),
			workInNode(ledgers[0], "noddy6", "6", "-concurrency", "2", "-sleep", "40").stop,
			workInNode(ledgers[1], "noddy5", "5", "-concurrency", "2", "-sleep", "40").stop,
			workInGo(ledgers[2], "gopher", bullmq.WorkerOptions{Concurrency: 5}).stop,
		}
		var adding sync.WaitGroup
		for i, l := range ledgers {
			line := []string{"6", "5"}[i%2]
			produce := func() { produceFromGo(l, mixOfJobs(each, uint64(i))) }
			if i < 6 {
				produce = func() { produceThroughNode(l, line, mixOfJobs(each, uint64(i))) }
			}
			adding.Go(func() {
				defer GinkgoRecover()
				produce()
			})
		}
		adding.Wait()
		for _, l := range ledgers {
			l.waitForEnds(each)
		}
		for _, stop := range stops {
			stop()
		}
		for _, l := range ledgers {
			l.settle(each)
		}
		for i, other := range []string{"noddy6", "noddy5", "gopher"} {
			Expect(ledgers[i].startsBy()).To(And(HaveKeyWithValue("multi", BeNumerically(">", 5)), HaveKeyWithValue(other, BeNumerically(">", 5))))
		}
	})

	for _, line := range []string{"6", "5"} {
		It("is woken at once for every job that Node "+line+" makes ready, in any of its queues", func() {
			other := node
			if line == "5" {
				other = startProbe("-bullmq", "5")
			}
			names := make([]string, 10)
			for i := range names {
				names[i] = newQueueName()
				other.Do("openQueue", object{"queue": names[i]}, nil)
			}
			var mu sync.Mutex
			var ran []string
			runMultiWorker(func(_ context.Context, job *bullmq.Job) (any, error) {
				mu.Lock()
				defer mu.Unlock()
				ran = append(ran, job.QueueName()+" "+job.Name)
				return nil, nil
			}, bullmq.MultiWorkerOptions{Worker: bullmq.WorkerOptions{DrainDelay: time.Minute}}, names...)
			has := func(what string) func() bool {
				return func() bool {
					mu.Lock()
					defer mu.Unlock()
					return slices.Contains(ran, what)
				}
			}
			later := object{"delay": 3600000}
			for i, name := range names {
				for kind, add := range map[string]func(job string){
					"plain":       func(job string) { other.Add(name, job, object{}, object{}) },
					"prioritized": func(job string) { other.Add(name, job, object{}, object{"priority": 3}) },
					"delayed":     func(job string) { other.Add(name, job, object{}, object{"delay": 30}) },
					"promoted": func(job string) {
						other.Do("promote", object{"queue": name, "id": other.Add(name, job, object{}, later)}, nil)
					},
					"sooner": func(job string) {
						other.Do("changeDelay", object{"queue": name, "id": other.Add(name, job, object{}, later), "delay": 30}, nil)
					},
					"paused": func(job string) {
						other.Do("pause", object{"queue": name}, nil)
						other.Add(name, job, object{}, object{})
						other.Do("resume", object{"queue": name}, nil)
					},
					"all promoted": func(job string) {
						other.Add(name, job, object{}, later)
						other.Do("promoteJobs", object{"queue": name}, nil)
					},
				} {
					job := fmt.Sprint(kind, i)
					add(job)
					Eventually(has(name + " " + job)).WithTimeout(4 * time.Second).Should(BeTrue())
				}
			}
		})

		It("leaves queues intact that Node "+line+" pauses, drains, cleans, retries and obliterates", func() {
			other := node
			if line == "5" {
				other = startProbe("-bullmq", "5")
			}
			names := []string{newQueueName(), newQueueName(), newQueueName()}
			for _, name := range names {
				other.Do("openQueue", object{"queue": name}, nil)
			}
			var fails atomic.Bool
			var runs atomic.Int64
			fails.Store(true)
			stop := runMultiWorker(func(context.Context, *bullmq.Job) (any, error) {
				runs.Add(1)
				if fails.Load() {
					return nil, errorText("not yet")
				}
				return nil, nil
			}, bullmq.MultiWorkerOptions{Worker: bullmq.WorkerOptions{Concurrency: 5}}, names...)
			const each = 10
			for _, name := range names {
				for range each {
					other.Add(name, "a", object{}, object{})
				}
			}
			state := func(name, state string) func() int {
				return func() (count int) {
					var ids []string
					other.Do("ids", object{"queue": name, "types": []string{state}, "start": 0, "end": -1}, &ids)
					return len(ids)
				}
			}
			for _, name := range names {
				Eventually(state(name, "failed")).Should(Equal(each))
			}
			fails.Store(false)
			other.Do("retryJobs", object{"queue": names[0], "state": "failed", "count": 100}, nil)
			Eventually(state(names[0], "completed")).Should(Equal(each))
			other.Do("pause", object{"queue": names[1]}, nil)
			other.Do("retryJobs", object{"queue": names[1], "state": "failed", "count": 100}, nil)
			Consistently(state(names[1], "failed")).WithTimeout(100 * time.Millisecond).Should(BeZero())
			other.Do("drain", object{"queue": names[1], "delayed": true}, nil)
			other.Do("resume", object{"queue": names[1]}, nil)
			other.Do("clean", object{"queue": names[2], "grace": 0, "limit": 100, "type": "failed"}, nil)
			Eventually(state(names[2], "failed")).Should(BeZero())
			var orphaned int
			other.Do("removeOrphanedJobs", object{"queue": names[0], "count": 100, "limit": 0}, &orphaned)
			Expect(orphaned).To(BeZero())
			for _, name := range names {
				other.Add(name, "a", object{}, object{})
			}
			Eventually(runs.Load).Should(BeEquivalentTo(3*each + each + 3))
			other.Do("obliterate", object{"queue": names[2], "force": true}, nil)
			other.Add(names[2], "a", object{}, object{})
			Eventually(runs.Load).Should(BeEquivalentTo(3*each + each + 4))
			stop()
			for _, name := range names {
				Expect(locks(name)).To(BeEmpty())
				Expect(state(name, "active")()).To(BeZero())
			}
		})
	}
})
