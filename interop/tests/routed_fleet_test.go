package tests

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/nodeprocess/childprocess"
)

// routedVariable makes the test binary run a member of routedFleet. Its arguments are the address of Redis, the
// queue, and the index of the member. It prints a line when it is ready, runs jobs once it has got a line, and then prints
// the id of each job.
const routedVariable = "INTEROP_ROUTED_WORKER"

func workForRoutes() {
	index, err := strconv.Atoi(os.Args[3])
	if err == nil {
		var worker *bullmq.MultiWorker
		if worker, err = newRoutedMember(os.Args[1], os.Args[2], index, func(job *bullmq.Job) { fmt.Println(job.ID) }); err == nil {
			fmt.Println("ready")
			if _, err = bufio.NewReader(os.Stdin).ReadString('\n'); err == nil {
				err = worker.Run(context.Background())
			}
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

const (
	routedWorkers  = 12
	routedSlots    = 2 // of a worker
	shortestRouted = 30 * time.Millisecond
	longestRouted  = 50 * time.Millisecond
)

// dyingMembers are killed while they run jobs. For each capability and region another worker stays.
var dyingMembers = []int{1, 5, 9}

var (
	routedCapabilities = []string{"gpu", "avx", "big", "disk", "ssl", "ocr"}
	routedRegions      = []string{"eu", "us", "as"}
	routedStacks       = []string{"go", "go-cuda"}
)

// routedMember returns what a member of the fleet has.
func routedMember(index int) bullmq.Target {
	return bullmq.Target{
		Server: fmt.Sprint("w", index), Region: routedRegions[index%3], Stack: routedStacks[index/6],
		Capabilities: []string{routedCapabilities[index%6], routedCapabilities[(index+1)%6], routedCapabilities[(index+3)%6]},
	}
}

// newRoutedMember returns a worker whose jobs take some time and return its index. In its turn a route starts one job,
// so that turns are short.
func newRoutedMember(url, queue string, index int, started func(*bullmq.Job)) (*bullmq.MultiWorker, error) {
	has := routedMember(index)
	return bullmq.NewRoutedWorker(context.Background(), queue, func(_ context.Context, job *bullmq.Job) (any, error) {
		started(job)
		time.Sleep(shortestRouted + rand.N(longestRouted-shortestRouted))
		return index, nil
	}, &bullmq.RoutedWorkerOptions{Server: has.Server, Burst: 1, Worker: bullmq.WorkerOptions{
		URL: url, Concurrency: routedSlots, LockDuration: shortLock, StalledInterval: frequentCheck,
		Registration: &bullmq.RegistrationOptions{Stack: has.Stack, Region: has.Region, Capabilities: has.Capabilities},
	}})
}

// satisfies reports whether a member may run a job, without the code that decides it.
func satisfies(index int, t bullmq.Target) bool {
	has := routedMember(index)
	if t.Server != "" {
		return t.Server == has.Server
	}
	met := []bool{}
	if t.Region != "" {
		met = append(met, t.Region == has.Region)
	}
	if t.Stack != "" {
		met = append(met, t.Stack == has.Stack)
	}
	for _, capability := range t.Capabilities {
		met = append(met, slices.Contains(has.Capabilities, capability))
	}
	if t.Mode == bullmq.MatchAny && len(met) > 0 {
		return slices.Contains(met, true)
	}
	return !slices.Contains(met, false)
}

// someTarget returns a target that a member satisfies who is not killed.
func someTarget() bullmq.Target {
	for {
		var t bullmq.Target
		switch rand.IntN(7) {
		case 0:
			t.Region = routedRegions[rand.IntN(3)]
		case 1:
			t.Server = fmt.Sprint("w", rand.IntN(routedWorkers))
		case 2:
			t.Mode, t.Region = bullmq.MatchAny, routedRegions[rand.IntN(3)]
		case 3:
			t.Stack = routedStacks[rand.IntN(2)]
		case 4:
			t.Mode, t.Stack = bullmq.MatchAny, routedStacks[rand.IntN(2)]
		}
		for range rand.IntN(3) {
			t.Capabilities = append(t.Capabilities, routedCapabilities[rand.IntN(6)])
		}
		if t.Server == "" && t.Region == "" && t.Stack == "" && len(t.Capabilities) == 0 {
			continue
		}
		for index := range routedWorkers {
			if satisfies(index, t) && !slices.Contains(dyingMembers, index) {
				return t
			}
		}
	}
}

var _ = Describe("Jobs with 40 different targets for 12 workers, three of which are killed,", Label("slow"), func() {
	It("complete once each, on a worker that satisfies the target, and no route has to wait for others", func() {
		const jobs, targets = 3000, 40
		name := newQueueName()
		queue := newGoQueue(name)
		byRoute := map[string]bullmq.Target{}
		for len(byRoute) < targets {
			t := someTarget()
			route, err := t.Route(name)
			Expect(err).NotTo(HaveOccurred())
			byRoute[route] = t
		}
		var routes []string
		for route := range byRoute {
			routes = append(routes, route)
		}
		slices.Sort(routes)
		var bulk []bullmq.BulkJob
		for i := range jobs {
			t := byRoute[routes[i%targets]]
			bulk = append(bulk, bullmq.BulkJob{Name: "a", Options: &bullmq.JobOptions{JobID: fmt.Sprint("job-", i), Target: &t}})
		}
		_, err := queue.AddBulk(soon(), bulk)
		Expect(err).NotTo(HaveOccurred())

		// The members in processes start first. On a slow machine the others might finish all jobs meanwhile.
		var dying []*routedProcess
		for _, index := range dyingMembers {
			dying = append(dying, startRoutedProcess(name, index))
		}
		begun, stalls := time.Now(), watchStalls()
		for _, member := range dying {
			member.run()
		}
		for index := range routedWorkers {
			if slices.Contains(dyingMembers, index) {
				continue
			}
			worker, err := newRoutedMember(server.URL(), name, index, func(*bullmq.Job) {})
			Expect(err).NotTo(HaveOccurred())
			ended := make(chan error, 1)
			go func() { ended <- worker.Run(context.Background()) }()
			DeferCleanup(func() { Expect(worker.Close()).To(Succeed()); Eventually(ended).Should(Receive()) })
		}
		for _, member := range dying {
			member.Kill()
		}
		all := time.Since(begun)
		Eventually(func() (completed int, err error) {
			found, err := queue.Routes(soon())
			for _, route := range found {
				completed += route.Counts[bullmq.StateCompleted]
			}
			return completed, err
		}, "90s", "100ms").Should(Equal(jobs))
		lasted, stalled := time.Since(begun), stalls()

		completed, recovered := map[string]int{}, 0
		for _, route := range routes {
			var waits []time.Duration
			found, err := newGoQueue(route).Jobs(soon(), bullmq.Page{Limit: jobs}, bullmq.StateCompleted)
			Expect(err).NotTo(HaveOccurred())
			for _, job := range found {
				completed[job.ID]++
				Expect(job.AttemptsMade).To(Equal(1))
				Expect(job.AttemptsStarted).To(Equal(1+job.StalledCounter), "only a job whose worker was killed runs again")
				by, err := strconv.Atoi(string(job.ReturnValue))
				Expect(err).NotTo(HaveOccurred())
				Expect(satisfies(by, byRoute[route])).To(BeTrue(), "%s ran on %v", route, routedMember(by))
				// A recovered job has the time of its second start, which depends on when its lock expired.
				if job.StalledCounter > 0 {
					recovered++
					continue
				}
				// Without the jobs that killed members ran, the rate of a route never falls.
				if slices.Contains(dyingMembers, by) {
					continue
				}
				waits = append(waits, job.ProcessedOn.Sub(begun))
			}
			// A member has fewer routes the more of them are done, so that the others have their turns more often. So the
			// jobs of a route start at a constant or rising rate, and its last job waits at most twice as long as the mean.
			// To this comes the time between two turns, and the time in which the machine was held up.
			Expect(waits).NotTo(BeEmpty(), route)
			var sum time.Duration
			for _, wait := range waits {
				sum += wait
			}
			mean := sum / time.Duration(len(waits))
			longest, cycle := slices.Max(waits), cycleOf(byRoute, route)
			GinkgoWriter.Println(route, "longest wait", longest, "mean", mean, "over", longest-2*mean, "cycle", cycle, "stalled", stalled)
			Expect(longest).To(BeNumerically("<=", 2*mean+cycle+stalled), "the longest wait in %s, with the mean %v", route, mean)
			Expect(slices.Min(waits)).To(BeNumerically("<=", all+(lasted-all)/2), "the first start in %s of %v, with all workers after %v", route, lasted, all)
		}
		Expect(completed).To(HaveLen(jobs))
		Expect(completed).To(HaveEach(1))
		Expect(recovered).To(BeNumerically(">", 0), "the workers were killed while they ran jobs")
	})
})

// cycleOf returns the time between two turns of a route, on the member with the most routes among those that stay.
func cycleOf(all map[string]bullmq.Target, route string) (longest time.Duration) {
	for index := range routedWorkers {
		if slices.Contains(dyingMembers, index) || !satisfies(index, all[route]) {
			continue
		}
		served := 0
		for _, t := range all {
			if satisfies(index, t) {
				served++
			}
		}
		longest = max(longest, time.Duration(served)*longestRouted/routedSlots)
	}
	return longest
}

// watchStalls measures for how long in total this process or Redis is held up, until total is called. It ignores what
// lasts for less than longestRouted.
func watchStalls() (total func() time.Duration) {
	const step = 10 * time.Millisecond
	var sum time.Duration
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			begun := time.Now()
			select {
			case <-stop:
				return
			case <-time.After(step):
			}
			redis.Do(context.Background(), redis.B().Ping().Build())
			if stall := time.Since(begun) - step; stall > longestRouted {
				sum += stall
			}
		}
	}()
	total = sync.OnceValue(func() time.Duration {
		close(stop)
		<-stopped
		return sum
	})
	DeferCleanup(func() { total() })
	return total
}

// routedProcess is a member of the fleet in a process.
type routedProcess struct {
	*childprocess.Child
	stdin  *os.File
	stdout chan string // its lines; the process never waits for their reader
}

// startRoutedProcess starts a member of the fleet, and waits until it is ready.
func startRoutedProcess(queue string, index int) *routedProcess {
	GinkgoHelper()
	command := exec.Command(os.Args[0], server.URL(), queue, strconv.Itoa(index))
	command.Env = append(os.Environ(), routedVariable+"=1")
	theirIn, in, err := os.Pipe()
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(in.Close)
	out, theirOut, err := os.Pipe()
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(out.Close)
	command.Stdin, command.Stdout, command.Stderr = theirIn, theirOut, os.Stderr
	child, err := childprocess.Start(command)
	Expect(err).NotTo(HaveOccurred())
	Expect(errors.Join(theirIn.Close(), theirOut.Close())).To(Succeed())
	DeferCleanup(child.Kill)
	p := &routedProcess{child, in, make(chan string, 2)}
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			select {
			case p.stdout <- lines.Text():
			default:
			}
		}
	}()
	Eventually(p.stdout, "60s").Should(Receive(Equal("ready")))
	return p
}

// run makes the member run jobs, and waits until it has started one.
func (p *routedProcess) run() {
	GinkgoHelper()
	_, err := p.stdin.WriteString("run\n")
	Expect(err).NotTo(HaveOccurred())
	Eventually(p.stdout, "60s").Should(Receive(HavePrefix("job-")))
}
