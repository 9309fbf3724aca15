package bullmq_test

// Helpers for specs of workers over many queues.

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

// newMultiWorker returns a worker that is closed when the spec ends.
func newMultiWorker(handler bullmq.Handler, o bullmq.MultiWorkerOptions) *bullmq.MultiWorker {
	GinkgoHelper()
	if o.Worker.Connection == nil && o.Worker.URL == "" {
		o.Worker.Connection = connection()
	}
	worker, err := bullmq.NewMultiWorker(context.Background(), handler, &o)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(worker.Close)
	return worker
}

// runMultiWorker runs a worker until the spec ends or the worker is closed. Its Run must
// return nil.
func runMultiWorker(handler bullmq.Handler, o bullmq.MultiWorkerOptions) *bullmq.MultiWorker {
	GinkgoHelper()
	worker := newMultiWorker(handler, o)
	run(worker)
	return worker
}

func run(worker *bullmq.MultiWorker) {
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(context.Background()) }()
	DeferCleanup(func() {
		Expect(worker.Close()).To(Succeed())
		Eventually(ended).Should(Receive(Or(BeNil(), MatchError(ContainSubstring("has been run or closed")))))
	})
}

// newQueueNames returns so many unique names.
func newQueueNames(n int) (names []string) {
	for range n {
		names = append(names, newQueueName())
	}
	return names
}

// served returns queues with the default options.
func served(names ...string) (all []bullmq.ServedQueue) {
	for _, name := range names {
		all = append(all, bullmq.ServedQueue{Name: name})
	}
	return all
}

// sharedConnection returns a Connection for many queues. It is closed when the spec ends.
func sharedConnection() *bullmq.Connection {
	GinkgoHelper()
	conn, err := bullmq.Connect(context.Background(), redis.URL())
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(conn.Close)
	return conn
}

// openQueues opens queues over one connection. They are closed when the spec ends.
func openQueues(names ...string) (all []*bullmq.Queue) {
	GinkgoHelper()
	conn := sharedConnection()
	for _, name := range names {
		all = append(all, newQueue(name, &bullmq.QueueOptions{Connection: conn}))
	}
	return all
}

// addMany adds so many jobs to each of some queues. Their names are those of the queues.
func addMany(queues []*bullmq.Queue, jobs int) {
	GinkgoHelper()
	for _, queue := range queues {
		bulk := make([]bullmq.BulkJob, jobs)
		for i := range bulk {
			bulk[i] = bullmq.BulkJob{Name: queue.Name()}
		}
		_, err := queue.AddBulk(specContext(), bulk)
		Expect(err).NotTo(HaveOccurred())
	}
}

// startLog notes which jobs start, in order.
type startLog struct {
	mu     sync.Mutex
	queues []string
	runs   map[string]int // by queue and id
}

// handle is a handler that notes its job.
func (s *startLog) handle(_ context.Context, job *bullmq.Job) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queues = append(s.queues, job.QueueName())
	if s.runs == nil {
		s.runs = map[string]int{}
	}
	s.runs[job.QueueName()+" "+job.ID]++
	return nil, nil
}

// count returns the number of startLog, for Eventually.
func (s *startLog) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queues)
}

// order returns the queue of each start.
func (s *startLog) order() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.queues)
}

// each returns the startLog of each queue among the first ones.
func (s *startLog) each(first int) map[string]int {
	by := map[string]int{}
	for _, queue := range s.order()[:first] {
		by[queue]++
	}
	return by
}

// once expects that so many jobs have run, each of them once.
func (s *startLog) once(jobs int) {
	GinkgoHelper()
	s.mu.Lock()
	defer s.mu.Unlock()
	Expect(s.runs).To(HaveLen(jobs))
	for job, runs := range s.runs {
		Expect(runs).To(Equal(1), fmt.Sprint("job ", job))
	}
}

// blockedClients returns the connections that wait for markers under the name of a queue.
func blockedClients(queue *bullmq.Queue) []bullmq.ConnectedClient {
	GinkgoHelper()
	workers, err := queue.ConnectedWorkers(context.Background())
	Expect(err).NotTo(HaveOccurred())
	return slices.DeleteFunc(workers, func(w bullmq.ConnectedClient) bool { return w.Fields["cmd"] != "bzpopmin" })
}

var usedCPU = regexp.MustCompile(`used_cpu_(?:user|sys):([\d.]+)`)

// cpuOf returns the CPU time that a server has used.
func cpuOf(server *redisserver.Server) (used time.Duration) {
	GinkgoHelper()
	client := clientOf(server)
	info, err := client.Do(context.Background(), client.B().Info().Section("cpu").Build()).ToString()
	Expect(err).NotTo(HaveOccurred())
	for _, found := range usedCPU.FindAllStringSubmatch(info, -1) {
		seconds, err := strconv.ParseFloat(found[1], 64)
		Expect(err).NotTo(HaveOccurred())
		used += time.Duration(seconds * float64(time.Second))
	}
	return used
}
