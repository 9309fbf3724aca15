package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

// routed adds jobs of a queue with random targets. Half of the jobs for a GPU may run without it if there is none.
type routed struct{ *bullmq.Queue }

func (r routed) Add(ctx context.Context, name string, data any, options *bullmq.JobOptions) (*bullmq.Job, error) {
	options.Target = randomTarget()
	return r.Queue.Add(ctx, name, data, options)
}

func (r routed) AddBulk(ctx context.Context, jobs []bullmq.BulkJob) ([]*bullmq.Job, error) {
	for i := range jobs {
		jobs[i].Options.Target = randomTarget()
	}
	return r.Queue.AddBulk(ctx, jobs)
}

func needs(capability string, fallback *bullmq.Target) *bullmq.Target {
	return &bullmq.Target{Capabilities: []string{capability}, Fallback: fallback}
}

func randomTarget() *bullmq.Target {
	return []*bullmq.Target{nil, needs("cpu", nil), needs("gpu", nil), needs("gpu", needs("cpu", nil))}[rand.IntN(4)]
}

// beginRoutes starts the load on a queue with two routes. Two workers serve the queue itself and the route for cpu, and
// one serves the queue and the route for gpu.
func beginRoutes(fault string, l load) (t *trial, gpu *Member) {
	GinkgoHelper()
	return beginRoutesAt(startServer(), fault, l)
}

func beginRoutesAt(server *redisserver.Server, fault string, l load) (t *trial, gpu *Member) {
	GinkgoHelper()
	ctx := within(30 * time.Second)
	t = &trial{fault: "routes: " + fault, begun: time.Now(), queue: fmt.Sprintf("orders-%d", trials.Add(1)), ledger: &Ledger{}}
	t.site = at(server)
	t.names = []string{t.queue + "@gpu", t.queue, t.queue + "@cpu"} // jobs may move from the first to the last
	var err error
	t.admin, err = t.site.open()
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(t.admin.Close)
	l.nodeWorkers = 0
	t.startFleet(ctx, l, "-capabilities", "cpu")
	gpu, err = t.fleet.Start(ctx, Go, "-capabilities", "gpu")
	Expect(err).NotTo(HaveOccurred())
	for i, wait := range []time.Duration{0, 2 * time.Minute} {
		queue, err := bullmq.NewQueue(ctx, t.queue, &bullmq.QueueOptions{Connection: connect(t.site), AddWait: wait})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(queue.Close)
		producer := produceInGo(t.ledger, []adder{routed{queue}}, l.pace, 3*i)
		DeferCleanup(producer.Kill)
		t.queues, t.inGo = append(t.queues, queue), append(t.inGo, producer)
	}
	t.waitForProgress()
	return t, gpu
}

// addFor adds a job with a target and returns its number in the ledger.
func (t *trial) addFor(target *bullmq.Target) int {
	GinkgoHelper()
	sequence := t.ledger.Offer(Go, 1, 0)
	_, err := t.queues[0].Add(soon(), "work", payload{Sequence: sequence}, &bullmq.JobOptions{Target: target})
	Expect(err).NotTo(HaveOccurred())
	t.ledger.Added(sequence)
	return sequence
}

// isServed reports whether a worker serves the route for gpu.
func (t *trial) isServed() (bool, error) {
	routes, err := t.queues[0].Routes(soon())
	for _, route := range routes {
		if route.Name == t.queue+"@gpu" {
			return route.IsServed(), err
		}
	}
	return false, fmt.Errorf("the route is not listed: %w", err)
}

var _ = Describe("A route whose only worker", func() {
	It("is killed keeps its jobs for the next one, and jobs with a fallback run elsewhere", func() {
		t, gpu := beginRoutes("the only worker of a route is killed", lightLoad(time.Second))
		Expect(t.isServed()).To(BeTrue())
		t.fleet.Remove(gpu, func(m *Member) { m.Kill() })
		Eventually(t.isServed).Should(BeFalse())
		kept, moved := t.addFor(needs("gpu", nil)), t.addFor(needs("gpu", needs("cpu", nil)))
		// The other workers move jobs every few seconds. In the short form this process does so too.
		Eventually(func() (bool, error) {
			if *full {
				return t.ledger.HasEnded(moved), nil
			}
			_, err := t.queues[1].MoveUnserved(soon())
			return t.ledger.HasEnded(moved), err
		}).WithPolling(200 * time.Millisecond).Should(BeTrue())
		Expect(t.ledger.HasEnded(kept)).To(BeFalse())
		_, err := t.fleet.Start(within(30*time.Second), Go, "-capabilities", "gpu")
		Expect(err).NotTo(HaveOccurred())
		t.faultEnded()
		Eventually(t.ledger.HasEnded).WithArguments(kept).Should(BeTrue())
		t.settle(tolerance{reruns: true})
	})

	It("is killed and replaced again and again loses no job, nor does one that is stopped", func() {
		onlyInFull()
		for _, end := range []struct {
			how     string
			end     func(*Member)
			granted tolerance
		}{
			{"killed (SIGKILL)", func(m *Member) { m.Kill() }, tolerance{reruns: true}},
			{"stopped (SIGTERM)", func(m *Member) { Expect(m.Stop()).To(Equal(0), m.Stderr()) }, tolerance{}},
		} {
			lock := time.Second
			if !end.granted.reruns {
				lock = 10 * time.Second
			}
			t, gpu := beginRoutes("the only worker of a route is "+end.how+", 6 times, with pauses", lightLoad(lock))
			ctx := within(2 * time.Minute)
			for range 6 {
				t.fleet.Remove(gpu, end.end)
				time.Sleep(rand.N(4 * time.Second)) // the lease of a killed worker lasts for 2 s
				_, err := t.queues[1].MoveUnserved(ctx)
				Expect(err).NotTo(HaveOccurred())
				gpu, err = t.fleet.Start(ctx, Go, "-capabilities", "gpu")
				Expect(err).NotTo(HaveOccurred())
			}
			t.faultEnded()
			t.settle(end.granted)
		}
	})
})

var _ = Describe("A queue with routes", func() {
	It("loses no job when Redis is stopped for a while", func() {
		onlyInFull()
		server := startServer()
		t, _ := beginRoutesAt(server, "Redis is stopped for 4 s", lightLoad(10*time.Second))
		server.Stop()
		time.Sleep(4 * time.Second)
		Expect(server.Start()).To(Succeed())
		t.faultEnded()
		t.settle(tolerance{nodeErrs: true})
	})
})
