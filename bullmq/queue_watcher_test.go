package bullmq_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

// watched is a running QueueWatcher, and what it has reported.
type watched struct {
	*bullmq.QueueWatcher
	stop  context.CancelFunc
	ended chan struct{}

	mu      sync.Mutex
	reports map[string][]time.Time
	errs    []error
}

func watchQueues(link *bullmq.Connection, options *bullmq.QueueWatcherOptions, names ...string) *watched {
	GinkgoHelper()
	watcher, err := bullmq.NewQueueWatcher(link, options)
	Expect(err).NotTo(HaveOccurred())
	Expect(watcher.Watch(names...)).To(Succeed())
	ctx, stop := context.WithCancel(context.Background())
	w := &watched{QueueWatcher: watcher, stop: stop, ended: make(chan struct{}), reports: map[string][]time.Time{}}
	go func() {
		defer close(w.ended)
		for names, err := range watcher.Changes(ctx) {
			w.mu.Lock()
			if err != nil {
				w.errs = append(w.errs, err)
			}
			for _, name := range names {
				w.reports[name] = append(w.reports[name], time.Now())
			}
			w.mu.Unlock()
		}
	}()
	DeferCleanup(w.end)
	return w
}

func (w *watched) end() {
	GinkgoHelper()
	w.stop()
	Eventually(w.ended, "5s").Should(BeClosed())
}

func (w *watched) count(name string) func() int {
	return func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.reports[name])
	}
}

func (w *watched) times(name string) []time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.reports[name])
}

func (w *watched) errors() []error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.errs)
}

func openConnection(url string) *bullmq.Connection {
	GinkgoHelper()
	link, err := bullmq.Connect(specContext(), url)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(link.Close)
	return link
}

var _ = Describe("A watcher of queues", func() {
	var ctx context.Context
	var link *bullmq.Connection
	quick := &bullmq.QueueWatcherOptions{Interval: 50 * time.Millisecond}
	BeforeEach(func() { ctx, link = specContext(), sharedConnection() })
	add := func(queue *bullmq.Queue) {
		GinkgoHelper()
		_, err := queue.Add(ctx, "paint", nil, nil)
		Expect(err).NotTo(HaveOccurred())
	}
	open := func(n int) (names []string, queues []*bullmq.Queue) {
		GinkgoHelper()
		for range n {
			names = append(names, newQueueName())
			queues = append(queues, newQueue(names[len(names)-1], &bullmq.QueueOptions{Connection: link}))
		}
		return names, queues
	}

	It("reports each queue at the beginning, and then those with events", func() {
		names, queues := open(3)
		add(queues[0])
		w := watchQueues(link, quick, names...)
		for _, name := range names {
			Eventually(w.count(name), "5s").Should(Equal(1))
		}
		add(queues[1])
		Eventually(w.count(names[1]), "5s").Should(Equal(2))
		add(queues[1])
		Eventually(w.count(names[1]), "5s").Should(Equal(3))
		add(queues[2])
		Eventually(w.count(names[2]), "5s").Should(Equal(2))
		Expect(w.count(names[0])()).To(Equal(1))
		Expect(w.errors()).To(BeEmpty())
	})

	It("reports a queue that does not exist yet when it has its first job", func() {
		name := newQueueName()
		w := watchQueues(link, quick, name)
		Eventually(w.count(name), "5s").Should(Equal(1))
		queue := newQueue(name, &bullmq.QueueOptions{Connection: link})
		add(queue)
		Eventually(w.count(name), "5s").Should(BeNumerically(">", 1))
	})

	It("reports a busy queue once in an interval, reads one event of it, and reports its last change", func() {
		const interval = 200 * time.Millisecond
		names, queues := open(1)
		w := watchQueues(link, &bullmq.QueueWatcherOptions{Interval: interval}, names...)
		Eventually(w.count(names[0]), "5s").Should(Equal(1))
		before := commandCalls()
		began := time.Now()
		for time.Since(began) < time.Second {
			_, err := queues[0].AddBulk(ctx, make([]bullmq.BulkJob, 50))
			Expect(err).NotTo(HaveOccurred())
		}
		last := time.Now()
		Eventually(func() bool {
			times := w.times(names[0])
			return times[len(times)-1].After(last)
		}, "5s").Should(BeTrue())
		times := w.times(names[0])
		for i, at := range times[1:] {
			Expect(at.Sub(times[i])).To(BeNumerically(">", interval-10*time.Millisecond))
		}
		calls := commandCalls()
		Expect(calls["xread"] - before["xread"]).To(BeNumerically("<=", len(times)+1))
		n := len(times)
		Consistently(w.count(names[0]), 3*interval).Should(BeNumerically("<=", n+1), "it does not report the events before the last report again")
	})

	It("misses no change that happens while a report is handled", func() {
		names, queues := open(1)
		watcher, err := bullmq.NewQueueWatcher(link, quick)
		Expect(err).NotTo(HaveOccurred())
		Expect(watcher.Watch(names...)).To(Succeed())
		seen := 0
		for range watcher.Changes(ctx) {
			counts, err := queues[0].Counts(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(counts[bullmq.StateWaiting]).To(BeNumerically(">=", seen))
			if seen = counts[bullmq.StateWaiting]; seen == 20 {
				break
			}
			add(queues[0]) // without it, the loop would end here
		}
		Expect(seen).To(Equal(20))
	})

	It("watches other queues as soon as it is told to", func() {
		names, queues := open(2)
		w := watchQueues(link, quick, names[0])
		Eventually(w.count(names[0]), "5s").Should(Equal(1))
		Expect(w.Watch(names[1])).To(Succeed())
		Eventually(w.count(names[1]), "5s").Should(Equal(1))
		add(queues[0])
		add(queues[1])
		Eventually(w.count(names[1]), "5s").Should(Equal(2))
		Expect(w.count(names[0])()).To(Equal(1))
		Expect(w.Watch()).To(Succeed())
		add(queues[1])
		Consistently(w.count(names[1]), "200ms").Should(Equal(2))
		Expect(w.Watch(names...)).To(Succeed())
		Eventually(w.count(names[0]), "5s").Should(Equal(2))
		Expect(w.errors()).To(BeEmpty())
	})

	It("sends Redis nothing while thousands of queues are idle, and uses one connection", func() {
		names := make([]string, 3000)
		for i := range names {
			names[i] = newQueueName()
		}
		w := watchQueues(link, nil, names...)
		Eventually(w.count(names[len(names)-1]), "10s").Should(Equal(1))
		Eventually(func() int { return strings.Count(clientList(), "@x:watch") }, "5s").Should(Equal(1))
		time.Sleep(600 * time.Millisecond) // the interval after the first report
		before := commandCalls()
		Consistently(func() int {
			calls := commandCalls()
			return calls["xread"] - before["xread"] + calls["evalsha"] - before["evalsha"]
		}, "1s").Should(BeNumerically("<=", 1)) // the review of the queues
		queue := newQueue(names[1234], &bullmq.QueueOptions{Connection: link})
		began := time.Now()
		add(queue)
		Eventually(w.count(names[1234]), "5s").Should(Equal(2))
		steadily(func(g Gomega) { g.Expect(time.Since(began)).To(BeNumerically("<", 5*time.Second)) })
	})

	It("reports the other queues if the events of one can't be read, and that one when they can be read again", func() {
		names, queues := open(2)
		w := watchQueues(link, quick, names...)
		Eventually(w.count(names[1]), "5s").Should(Equal(1))
		Expect(redisDo("DEL", keyOf(names[0], "events")).Error()).To(Succeed())
		Expect(redisDo("SET", keyOf(names[0], "events"), "text").Error()).To(Succeed())
		add(queues[1])
		Eventually(w.count(names[1]), "15s").Should(Equal(2))
		add(queues[1])
		Eventually(w.count(names[1]), "5s").Should(Equal(3))
		Expect(redisDo("DEL", keyOf(names[0], "events")).Error()).To(Succeed())
		had := w.count(names[0])()
		add(queues[0])
		Eventually(w.count(names[0]), "15s").Should(BeNumerically(">", had))
		Expect(w.errors()).To(BeEmpty())
	}, Label("slow"))

	It("reports all queues after it has lost its connection", func() {
		names, queues := open(2)
		proxy := proxied(redis.Addr())
		w := watchQueues(openConnection("redis://"+proxy.Addr()), quick, names...)
		Eventually(w.count(names[1]), "5s").Should(Equal(1))
		Eventually(clientList, "5s").Should(MatchRegexp(`name=bull:@x:watch .*cmd=xread `))
		proxy.CutAll()
		for _, name := range names {
			Eventually(w.count(name), "10s").Should(Equal(2))
		}
		Expect(w.errors()).NotTo(BeEmpty())
		add(queues[1])
		Eventually(w.count(names[1]), "5s").Should(Equal(3))
	})

	It("goes on with a server that was started again without its data", func() {
		server := startRedis(redisserver.Options{})
		own := openConnection(server.URL())
		name := newQueueName()
		queue := newQueue(name, &bullmq.QueueOptions{Connection: own})
		add(queue)
		w := watchQueues(own, quick, name)
		Eventually(w.count(name), "5s").Should(Equal(1))
		server.Kill()
		Expect(server.Restart()).To(Succeed())
		Eventually(w.count(name), "10s").Should(Equal(2))
		Eventually(func() error { // the connection may be broken
			_, err := queue.Publish(ctx, "custom", nil)
			return err
		}, "5s").Should(Succeed())
		Eventually(w.count(name), "5s").Should(Equal(3))
	}, Label("slow"))

	It("polls while a client's pool has no free connection", func() {
		client := ownClient(nil)
		own, err := bullmq.ConnectClient(ctx, client)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(own.Close)
		names, queues := open(1)
		w := watchQueues(own, quick, names...)
		Eventually(w.count(names[0]), "10s").Should(Equal(1))
		for n := range 3 {
			add(queues[0])
			Eventually(w.count(names[0]), "5s").Should(Equal(n + 2))
		}
	})

	It("ends with its context, when the connection is closed, and when the loop is left", func() {
		names, _ := open(1)
		goroutines := runtime.NumGoroutine()
		w := watchQueues(link, quick, names...)
		Eventually(w.count(names[0]), "5s").Should(Equal(1))
		w.end()
		for range w.Changes(ctx) {
			break
		}
		Eventually(runtime.NumGoroutine, "5s").Should(BeNumerically("<=", goroutines+1))
		own := openConnection(redis.URL())
		w = watchQueues(own, quick, names...)
		Eventually(w.count(names[0]), "5s").Should(Equal(1))
		Expect(own.Close()).To(Succeed())
		Eventually(w.ended, "5s").Should(BeClosed())
		Expect(errors.Join(w.errors()...)).To(MatchError(bullmq.ErrClosed))
	})

	It("refuses a missing connection, names that no queue has, and a fraction of a millisecond", func() {
		_, err := bullmq.NewQueueWatcher(nil, nil)
		Expect(err).To(MatchError(ContainSubstring("there is no Connection")))
		_, err = bullmq.NewQueueWatcher(link, &bullmq.QueueWatcherOptions{Interval: time.Microsecond})
		Expect(err).To(MatchError(ContainSubstring("Interval")))
		watcher, err := bullmq.NewQueueWatcher(link, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(watcher.Watch("a:b")).To(MatchError(ContainSubstring("a:b")))
	})
})

var _ = Describe("A watcher of queues on a cluster", Label("slow"), func() {
	It("watches the queues of all slots", func() {
		clustered()
		ctx, link := specContext(), openConnection(cluster.URL())
		names := make([]string, 20)
		for i := range names {
			names[i] = fmt.Sprintf("{%s}", newQueueName())
		}
		w := watchQueues(link, &bullmq.QueueWatcherOptions{Interval: 50 * time.Millisecond}, names...)
		for _, name := range names {
			Eventually(w.count(name), "10s").Should(Equal(1))
		}
		for i, name := range names {
			_, err := newQueue(name, &bullmq.QueueOptions{Connection: link}).Add(ctx, "paint", nil, nil)
			Expect(err).NotTo(HaveOccurred())
			Eventually(w.count(name), "10s").Should(BeNumerically(">=", 2), fmt.Sprint(i))
		}
		Expect(w.Watch(names[3:5]...)).To(Succeed())
		Expect(w.Watch(names...)).To(Succeed())
		Expect(w.Watch("plain")).To(MatchError(ContainSubstring("braces")))
		Expect(w.errors()).To(BeEmpty())
	})
})
