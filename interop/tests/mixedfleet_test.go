package tests

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
	"github.com/17a2ac88/bullmq-go/interop/nodeprobe"
)

// In this fleet bullmq 5.81.5, bullmq 6.7.0 and this SDK share one queue. Each of them pauses, adds, retries
// and resumes, in every order of four such steps. Only bullmq 5 may lose jobs, because it renames one list
// over another. RepairPaused recovers them.
//
// A run checks a thirteenth of the orders, which differs with the random seed. With EVERY_ORDER=1 it checks all,
// as make chaos does.

var (
	fleetActors = []string{"Node 5", "Node 6", "Go"}
	fleetCalls  = []string{"pause", "add", "retry", "resume"}
)

const (
	fleetSteps  = 4
	fleetSample = 13
)

// fleetStep is the number of one call of one member.
type fleetStep int

func (s fleetStep) actor() string  { return fleetActors[int(s)/len(fleetCalls)] }
func (s fleetStep) call() string   { return fleetCalls[int(s)%len(fleetCalls)] }
func (s fleetStep) String() string { return s.actor() + " " + s.call() }

// fleetLane runs orders one after the other on its own queue.
type fleetLane struct {
	ctx   context.Context
	name  string
	redis rueidis.Client
	nodes map[string]*probe
	queue *bullmq.Queue
}

func (l *fleetLane) key(suffix string) string { return "bull:" + l.name + ":" + suffix }

func (l *fleetLane) ask(words ...string) rueidis.RedisResult {
	return l.redis.Do(l.ctx, l.redis.B().Arbitrary(words...).Build())
}

// lists returns the lists wait and paused.
func (l *fleetLane) lists() (wait, paused []string) {
	GinkgoHelper()
	var lists [2][]string
	for i, result := range l.redis.DoMulti(l.ctx,
		l.redis.B().Lrange().Key(l.key("wait")).Start(0).Stop(-1).Build(), l.redis.B().Lrange().Key(l.key("paused")).Start(0).Stop(-1).Build()) {
		var err error
		lists[i], err = result.AsStrSlice()
		Expect(err).NotTo(HaveOccurred())
	}
	return lists[0], lists[1]
}

// begin creates three waiting jobs and one failed job per step.
func (l *fleetLane) begin() {
	GinkgoHelper()
	var keys []string
	for _, suffix := range []string{"id", "wait", "paused", "failed", "events", "marker", "meta", "prioritized", "delayed", "pc"} {
		keys = append(keys, l.key(suffix))
	}
	commands := []rueidis.Completed{}
	add := func(words ...string) { commands = append(commands, l.redis.B().Arbitrary(words...).Build()) }
	for n := range fleetSteps {
		keys = append(keys, l.key(fmt.Sprint("w", n)), l.key(fmt.Sprint("f", n)), l.key(fmt.Sprint("a", n)))
	}
	add(append([]string{"DEL"}, keys...)...)
	job := func(id string, at int) {
		add("HSET", l.key(id), "name", "a", "data", "{}", "opts", `{"attempts":0}`, "timestamp", strconv.Itoa(at), "delay", "0", "priority", "0")
	}
	for n := range 3 {
		job(fmt.Sprint("w", n), 100+n)
		add("LPUSH", l.key("wait"), fmt.Sprint("w", n))
	}
	for n := range fleetSteps {
		job(fmt.Sprint("f", n), 200+n)
		add("HSET", l.key(fmt.Sprint("f", n)), "failedReason", "boom", "finishedOn", "300", "atm", "1")
		add("ZADD", l.key("failed"), strconv.Itoa(300+n), fmt.Sprint("f", n))
	}
	for _, result := range l.redis.DoMulti(l.ctx, commands...) {
		Expect(result.Error()).NotTo(HaveOccurred())
	}
}

// do performs the n-th step and reports whether bullmq 5 overwrote a list.
func (l *fleetLane) do(n int, step fleetStep) (overwrites bool) {
	GinkgoHelper()
	failed, added := fmt.Sprint("f", n), fmt.Sprint("a", n)
	if step.actor() == "Go" {
		var err error
		switch step.call() {
		case "pause":
			err = l.queue.Pause(l.ctx)
		case "resume":
			err = l.queue.Resume(l.ctx)
		case "add":
			_, err = l.queue.Add(l.ctx, "a", nil, &bullmq.JobOptions{JobID: added})
		case "retry":
			var job *bullmq.Job
			if job, err = l.queue.Job(l.ctx, failed); err == nil {
				err = job.Retry(l.ctx, bullmq.StateFailed, nil)
			}
		}
		Expect(err).NotTo(HaveOccurred())
		return false
	}
	if step.actor() == "Node 5" && (step.call() == "pause" || step.call() == "resume") {
		both, err := l.ask("EXISTS", l.key("wait"), l.key("paused")).AsInt64()
		Expect(err).NotTo(HaveOccurred())
		overwrites = both == 2
	}
	args := object{"queue": l.name}
	switch step.call() {
	case "add":
		args["name"], args["data"], args["opts"] = "a", object{}, object{"jobId": added}
	case "retry":
		args["id"] = failed
	}
	l.nodes[step.actor()].Do(step.call(), args, nil)
	return overwrites
}

// check runs an order and checks the state of every job. It returns the number of lost jobs.
func (l *fleetLane) check(order []fleetStep) (lost int) {
	GinkgoHelper()
	l.begin()
	excused := false
	toRun := []string{"w0", "w1", "w2"}
	for n, step := range order {
		excused = l.do(n, step) || excused
		switch step.call() {
		case "add":
			toRun = append(toRun, fmt.Sprint("a", n))
		case "retry":
			toRun = append(toRun, fmt.Sprint("f", n))
		}
	}
	slices.Sort(toRun)
	// expectToRun expects that these jobs are the ones to run. It is faster than ConsistOf.
	expectToRun := func(jobs ...string) {
		GinkgoHelper()
		Expect(slices.Sorted(slices.Values(jobs))).To(Equal(toRun), "%v", order)
	}
	stranded, err := l.queue.FindStrandedJobs(l.ctx)
	Expect(err).NotTo(HaveOccurred())
	Expect(len(stranded) == 0 || excused).To(BeTrue(), "%v lost %v although bullmq 5 overwrote nothing", order, stranded)
	wait, paused := l.lists()
	expectToRun(slices.Concat(wait, paused, stranded)...)

	repaired, err := l.queue.RepairPaused(l.ctx)
	Expect(err).NotTo(HaveOccurred())
	Expect(repaired).To(HaveExactElements(stranded), "%v", order)
	wait, paused = l.lists()
	expectToRun(slices.Concat(wait, paused)...)
	Expect(l.queue.Resume(l.ctx)).To(Succeed())
	waiting, paused := l.lists()
	expectToRun(waiting...)
	Expect(paused).To(BeEmpty())
	Expect(l.ask("ZCARD", l.key("marker")).AsInt64()).To(BeEquivalentTo(1))
	if !excused {
		// Jobs that were not lost have kept their order.
		slices.Reverse(waiting)
		Expect(slices.DeleteFunc(waiting, func(id string) bool { return id[0] != 'w' })).To(Equal([]string{"w0", "w1", "w2"}), "%v", order)
	}
	return len(stranded)
}

var _ = Describe("A fleet of bullmq 5, bullmq 6 and this SDK", func() {
	It("loses no job because of this SDK in any order of four calls, and RepairPaused recovers what bullmq 5 loses", func() {
		own, err := redisserver.Start(redisserver.Options{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(own.Close)
		client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{own.Addr()}, DisableCache: true})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(client.Close)
		nodes := map[string]*probe{"Node 5": nodeprobe.Start(own.Addr(), "-bullmq", "5"), "Node 6": nodeprobe.Start(own.Addr(), "-bullmq", "6")}
		ctx, stop := context.WithTimeout(context.Background(), 6*time.Minute)
		DeferCleanup(stop)

		orders := make(chan []fleetStep)
		var lanes sync.WaitGroup
		var mu sync.Mutex
		seen, lossy := 0, 0
		for n := range 8 {
			// Half of the fleets are migrating from bullmq 5, and half no longer use it.
			dialect := []bullmq.Dialect{bullmq.V6, bullmq.V5}[n%2]
			name := fmt.Sprint("fleet-", n)
			queue, err := bullmq.NewQueue(ctx, name, &bullmq.QueueOptions{Connection: connectClient(client), Dialect: dialect})
			Expect(err).NotTo(HaveOccurred())
			lane := &fleetLane{ctx: ctx, name: name, redis: client, nodes: nodes, queue: queue}
			lanes.Go(func() {
				defer GinkgoRecover()
				finished := false
				defer func() {
					if !finished {
						stop()
					}
				}()
				for order := range orders {
					lost := lane.check(order)
					mu.Lock()
					seen++
					if lost > 0 {
						lossy++
					}
					mu.Unlock()
				}
				finished = true
			})
		}
		kinds := len(fleetActors) * len(fleetCalls)
		total := kinds * kinds * kinds * kinds
		first, every := int(GinkgoRandomSeed()%fleetSample), fleetSample
		if os.Getenv("EVERY_ORDER") != "" {
			first, every = 0, 1
		}
		given := 0
		for n := first; n < total; n += every {
			given++
			order := make([]fleetStep, fleetSteps)
			for i, rest := 0, n; i < fleetSteps; i++ {
				order[i] = fleetStep(rest % kinds)
				rest /= kinds
			}
			select {
			case orders <- order:
			case <-ctx.Done(): // also if a lane has failed
				Fail(fmt.Sprintf("only %d of %d orders finished in time", n, total))
			}
		}
		close(orders)
		lanes.Wait()
		Expect(seen).To(Equal(given))
		Expect(lossy).To(BeNumerically(">", 100/every), "orders with a loss to repair")
	})
})
