package bullmqhttp_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmqhttp"
	"github.com/17a2ac88/bullmq-go/internal/testkit/faultproxy"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

// change is a call of a Manager that changes a job.
type change struct {
	// prepare adds a job, and returns its id and the call.
	prepare func(m *managed) (id string, call func(*bullmqhttp.Manager) error)
	// step is a part of the command to Redis that fails: "" for the first command, and theID for one
	// about the job.
	step string
	// state is that of the job afterwards; "" if there is none.
	state    bullmqhttp.State
	attempts int
	// repeated is the error of a call that has been made already, or nil.
	repeated error
}

const theID = "id"

const outOfPaper = "the printer is out of paper" // the reason of failures

// onClaim returns a prepare for a call that uses a claim.
func onClaim(o bullmq.JobOptions, call func(context.Context, *bullmqhttp.Manager, *bullmqhttp.Claim) error) func(*managed) (string, func(*bullmqhttp.Manager) error) {
	return func(m *managed) (string, func(*bullmqhttp.Manager) error) {
		m.add(1, &o)
		claim := m.claim("anna")
		return claim.JobID, func(m *bullmqhttp.Manager) error { return call(context.Background(), m, claim) }
	}
}

// onJob returns a prepare for a call about a job.
func onJob(o bullmq.JobOptions, call func(context.Context, *bullmqhttp.Manager, string) error) func(*managed) (string, func(*bullmqhttp.Manager) error) {
	return func(m *managed) (string, func(*bullmqhttp.Manager) error) {
		id := m.add(1, &o).ID
		return id, func(m *bullmqhttp.Manager) error { return call(context.Background(), m, id) }
	}
}

func failing(f bullmqhttp.Failure) func(context.Context, *bullmqhttp.Manager, *bullmqhttp.Claim) error {
	return func(ctx context.Context, m *bullmqhttp.Manager, claim *bullmqhttp.Claim) error {
		_, err := m.Fail(ctx, claim, f)
		return err
	}
}

func extending(ctx context.Context, m *bullmqhttp.Manager, claim *bullmqhttp.Claim) error {
	_, err := m.Extend(ctx, claim, time.Minute, "half of it")
	return err
}

// changes are the calls of a Manager that change jobs, by the words for them in the title of a spec.
var changes = map[string]change{
	"a submit": {
		prepare: func(m *managed) (string, func(*bullmqhttp.Manager) error) {
			return "invoice-7", func(m *bullmqhttp.Manager) error {
				_, err := m.Submit(context.Background(), "report", 1, &bullmq.JobOptions{JobID: "invoice-7"})
				return err
			}
		},
		state: bullmqhttp.Queued, repeated: bullmqhttp.ErrJobExists,
	},
	"a claim": {
		prepare: onJob(bullmq.JobOptions{}, func(ctx context.Context, m *bullmqhttp.Manager, _ string) error {
			_, err := m.Claim(ctx, "anna", 1, 0)
			return err
		}),
		state: bullmqhttp.Running,
	},
	"an extension":                 {prepare: onClaim(bullmq.JobOptions{}, extending), state: bullmqhttp.Running},
	"the progress of an extension": {prepare: onClaim(bullmq.JobOptions{}, extending), step: "half of it", state: bullmqhttp.Running},
	"a success": {
		prepare: onClaim(bullmq.JobOptions{}, func(ctx context.Context, m *bullmqhttp.Manager, claim *bullmqhttp.Claim) error {
			_, err := m.Succeed(ctx, claim, "the result of the report")
			return err
		}),
		step: "the result of the report", state: bullmqhttp.Succeeded, attempts: 1, repeated: bullmqhttp.ErrWrongStatus,
	},
	"the check before a failure": {
		prepare: onClaim(bullmq.JobOptions{}, failing(bullmqhttp.Failure{Reason: outOfPaper, Permanent: true})),
		state:   bullmqhttp.Failed, attempts: 1, repeated: bullmqhttp.ErrWrongStatus,
	},
	"a failure": {
		prepare: onClaim(bullmq.JobOptions{Attempts: 1}, failing(bullmqhttp.Failure{Reason: outOfPaper})),
		step:    outOfPaper, state: bullmqhttp.Failed, attempts: 1, repeated: bullmqhttp.ErrWrongStatus,
	},
	"a failure with a later retry": {
		prepare: onClaim(bullmq.JobOptions{Attempts: 2}, failing(bullmqhttp.Failure{Reason: outOfPaper, RetryAfter: time.Hour})),
		step:    outOfPaper, state: bullmqhttp.Retrying, attempts: 1, repeated: bullmqhttp.ErrRetryDelay,
	},
	"a failure with a retry at once": {
		prepare: onClaim(bullmq.JobOptions{Attempts: 2, Backoff: bullmq.FixedBackoff(0)}, failing(bullmqhttp.Failure{Reason: outOfPaper})),
		step:    outOfPaper, state: bullmqhttp.Retrying, attempts: 1, repeated: bullmqhttp.ErrWrongStatus,
	},
	"a release": {
		prepare: onClaim(bullmq.JobOptions{}, func(ctx context.Context, m *bullmqhttp.Manager, claim *bullmqhttp.Claim) error {
			return m.Release(ctx, claim, 0)
		}),
		state: bullmqhttp.Queued, repeated: bullmqhttp.ErrWrongStatus,
	},
	"a release until later": {
		prepare: onClaim(bullmq.JobOptions{}, func(ctx context.Context, m *bullmqhttp.Manager, claim *bullmqhttp.Claim) error {
			return m.Release(ctx, claim, time.Hour)
		}),
		state: bullmqhttp.Retrying, repeated: bullmqhttp.ErrRetryDelay,
	},
	"a cancellation": {
		prepare: onJob(bullmq.JobOptions{}, func(ctx context.Context, m *bullmqhttp.Manager, id string) error { return m.Cancel(ctx, id, "") }),
		state:   bullmqhttp.Queued,
	},
	"a removal": {
		prepare:  onJob(bullmq.JobOptions{}, func(ctx context.Context, m *bullmqhttp.Manager, id string) error { return m.Remove(ctx, id) }),
		repeated: bullmqhttp.ErrJobNotFound,
	},
	"a start of due jobs": {
		prepare: onJob(bullmq.JobOptions{Delay: time.Minute}, func(ctx context.Context, m *bullmqhttp.Manager, _ string) error {
			_, err := m.StartDue(ctx, 10)
			return err
		}),
		step: theID, state: bullmqhttp.Queued,
	},
	"a clean-up": {
		prepare: func(m *managed) (string, func(*bullmqhttp.Manager) error) {
			id := m.add(1, nil).ID
			m.succeed("anna")
			return id, func(m *bullmqhttp.Manager) error {
				_, err := m.CleanUp(context.Background(), bullmqhttp.Succeeded, 0)
				return err
			}
		},
	},
}

// lines are the lines of a log.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// eachChange returns the entries of a table with all changes.
func eachChange() (entries []TableEntry) {
	for name, c := range changes {
		entries = append(entries, Entry(name, c))
	}
	return entries
}

// aside returns a Manager of a queue over a connection without faults.
func aside(queue string) *managed {
	GinkgoHelper()
	return manageAs(queue, bullmqhttp.ManagerOptions{PollInterval: 10 * time.Millisecond, Fetcher: bullmq.FetcherOptions{
		LockDuration: time.Minute, StalledInterval: 50 * time.Millisecond, MaxStalledCount: 1000,
	}})
}

// through returns a Manager of the same queue over a proxy.
func (m *managed) through(o bullmqhttp.ManagerOptions) (*faultproxy.Proxy, *managed) {
	GinkgoHelper()
	proxy, options := proxied(redis)
	o.Fetcher.URL = options.URL
	if o.Fetcher.LockDuration == 0 {
		o.Fetcher.LockDuration = time.Minute
	}
	o.Schedule = bullmqhttp.DueWithin(time.Hour)
	return proxy, manageAs(m.queue.Name(), o)
}

// sound checks that the queue has one job in one state as the change leaves it, or none. The lock of a
// job that does not run must be gone.
func (c change) sound(m *managed, id string) {
	GinkgoHelper()
	ctx := context.Background()
	Expect(m.queue.FindStrandedJobs(ctx)).To(BeEmpty())
	Expect(m.queue.FindOrphanedJobs(ctx)).To(BeEmpty())
	if c.state == "" {
		Expect(m.jobs()).To(BeZero())
		return
	}
	Expect(m.jobs()).To(Equal(1))
	job := m.get(id)
	Expect(job.State).To(Equal(c.state))
	Expect(job.Attempts).To(Equal(c.attempts))
	if c.state == bullmqhttp.Running {
		Expect(m.m.StaleClaims(ctx, 1)).To(BeEmpty())
	} else {
		Expect(m.m.Remove(ctx, id)).To(Succeed())
	}
}

// done repeats the call until Redis has replied.
func (c change) done(m *managed, call func(*bullmqhttp.Manager) error) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		if err := call(m.m); err != nil {
			g.Expect(c.repeated).NotTo(BeNil(), "%v", err)
			g.Expect(err).To(MatchError(c.repeated))
		}
	}, "20s").Should(Succeed())
}

var _ = Describe("A call of a manager", func() {
	ctx := context.Background()
	newName := func() string { return fmt.Sprint("manager-", queues.Add(1)) }

	for _, fault := range []struct {
		title string
		lose  func(*faultproxy.Proxy, string) <-chan struct{}
	}{
		{"whose reply is lost", (*faultproxy.Proxy).LoseReply},
		{"whose command is lost", (*faultproxy.Proxy).LoseCommand},
	} {
		DescribeTable(fault.title+" is made once, however often it is repeated:", func(c change) {
			// The scripts are loaded. Otherwise the first command would have no effect in any case.
			other := manage(bullmqhttp.ManagerOptions{Schedule: bullmqhttp.DueWithin(time.Hour)})
			_, load := c.prepare(other)
			Expect(load(other.m)).To(Succeed())

			direct := aside(newName())
			proxy, m := direct.through(bullmqhttp.ManagerOptions{})
			id, call := c.prepare(direct)
			step := cmp.Or(c.step, "evalsha")
			if step == theID {
				step = id
			}
			lost := fault.lose(proxy, step)
			err := call(m.m)
			Eventually(lost, "20s").Should(BeClosed())
			Expect(err).To(Or(BeNil(), MatchError(bullmqhttp.ErrUnavailable), MatchError(bullmqhttp.ErrMaybeAdded)))
			c.done(m, call)
			c.sound(direct, id)
		}, eachChange())
	}

	It("is refused while Redis can't be reached, has no effect, and is made afterwards", func() {
		var all sync.WaitGroup
		for name, c := range changes {
			direct := aside(newName())
			proxy, m := direct.through(bullmqhttp.ManagerOptions{})
			id, call := c.prepare(direct)
			before, _ := direct.m.Get(ctx, id)
			Expect(proxy.Set(faultproxy.Faults{Refuse: true})).To(Succeed())
			proxy.CutAll()
			all.Go(func() {
				defer GinkgoRecover()
				Expect(call(m.m)).To(Or(MatchError(bullmqhttp.ErrUnavailable), MatchError(bullmqhttp.ErrMaybeAdded)), name)
				after, _ := direct.m.Get(ctx, id)
				Expect(after).To(Equal(before), name)
				Expect(proxy.Set(faultproxy.Faults{})).To(Succeed())
				c.done(m, call)
				c.sound(direct, id)
			})
		}
		direct := aside(newName())
		proxy, m := direct.through(bullmqhttp.ManagerOptions{})
		direct.add(1, nil)
		Expect(proxy.Set(faultproxy.Faults{Refuse: true})).To(Succeed())
		proxy.CutAll()
		for name, read := range map[string]func() (any, error){
			"Get":          func() (any, error) { return m.m.Get(ctx, "a") },
			"List":         func() (any, error) { return m.m.List(ctx, bullmqhttp.Queued, 1) },
			"Due":          func() (any, error) { return m.m.Due(ctx, 1) },
			"Stats":        func() (any, error) { return m.m.Stats(ctx) },
			"StaleClaims":  func() (any, error) { return m.m.StaleClaims(ctx, 1) },
			"RecoverStale": func() (any, error) { return m.m.RecoverStale(ctx) },
		} {
			all.Go(func() {
				defer GinkgoRecover()
				_, err := read()
				Expect(err).To(MatchError(bullmqhttp.ErrUnavailable), name)
			})
		}
		all.Wait()
	})

	It("is made or refused as a whole if Redis is full, and is made when there is space", func() {
		own, err := redisserver.Start(redisserver.Options{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(own.Close)
		for name, c := range changes {
			m := manageAs(newName(), bullmqhttp.ManagerOptions{
				Fetcher: bullmq.FetcherOptions{URL: own.URL(), LockDuration: time.Minute}, Schedule: bullmqhttp.DueWithin(time.Hour), PollInterval: 10 * time.Millisecond,
			})
			id, call := c.prepare(m)
			before, _ := m.m.Get(ctx, id)
			fill(own)
			if err := call(m.m); err != nil {
				Expect(err).To(MatchError(bullmqhttp.ErrUnavailable), name)
				after, _ := m.m.Get(ctx, id)
				Expect(after).To(Equal(before), name)
			}
			command(own, "CONFIG", "SET", "maxmemory", "0")
			c.done(m, call)
			c.sound(m, id)
		}
	})

	It("that claims several jobs loses none if the connection fails in the middle", func() {
		const jobs = 12
		direct := aside(newName())
		proxy, m := direct.through(bullmqhttp.ManagerOptions{Fetcher: bullmq.FetcherOptions{
			LockDuration: 2 * time.Second, StalledInterval: 50 * time.Millisecond, MaxStalledCount: 1000,
		}})
		for range jobs {
			direct.add(strings.Repeat("x", 6000), nil)
		}
		cut := proxy.CutAfter(20_000) // within the fourth job
		go func() {
			defer GinkgoRecover()
			Eventually(cut, "20s").Should(BeClosed())
			Expect(proxy.Set(faultproxy.Faults{Refuse: true})).To(Succeed())
			proxy.CutAll()
		}()
		seen := map[string]bool{}
		end := func(claims []*bullmqhttp.Claim) {
			for _, claim := range claims {
				if _, err := direct.m.Succeed(ctx, claim, nil); err == nil {
					Expect(seen[claim.JobID]).To(BeFalse())
					seen[claim.JobID] = true
				} else { // on a slow machine
					Expect(err).To(Or(MatchError(bullmqhttp.ErrClaimExpired), MatchError(bullmqhttp.ErrWrongStatus)))
				}
			}
		}
		claims, err := m.m.Claim(ctx, "anna", 10, 0)
		Expect(err).To(Or(BeNil(), MatchError(bullmqhttp.ErrUnavailable)))
		end(claims)
		Eventually(cut, "20s").Should(BeClosed())
		Eventually(func(g Gomega) {
			_, err := direct.m.RecoverStale(ctx)
			g.Expect(err).NotTo(HaveOccurred())
			claims, err := direct.m.Claim(ctx, "berta", 10, 0)
			g.Expect(err).NotTo(HaveOccurred())
			end(claims)
			g.Expect(seen).To(HaveLen(jobs))
		}, "20s").Should(Succeed())
		Expect(direct.m.List(ctx, bullmqhttp.Succeeded, 100)).To(And(HaveLen(jobs), HaveEach(HaveField("Attempts", 1))))
	})

	It("that can't fail a job on the way returns the jobs that it has claimed, and loses none", func() {
		direct := aside(newName())
		var log lines
		proxy, m := direct.through(bullmqhttp.ManagerOptions{
			Fetcher: bullmq.FetcherOptions{LockDuration: 2 * time.Second}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		good, bad := direct.add(1, nil), direct.add(2, nil)
		direct.add(3, nil)
		command(redis, "EVAL", "redis.call('HSET', KEYS[1], 'data', '{') return 'done'", "1", "bull:"+m.queue.Name()+":"+bad.ID)
		lost := proxy.LoseCommand("data is not JSON")
		claims, err := m.m.Claim(ctx, "anna", 3, 0)
		Expect(err).NotTo(HaveOccurred())
		Eventually(lost, "20s").Should(BeClosed())
		Expect(claims).To(HaveLen(1))
		Expect(claims[0].JobID).To(Equal(good.ID))
		Expect(log.String()).To(And(ContainSubstring("a fetch failed"), ContainSubstring("worker=anna")))
		Expect(direct.get(bad.ID).State).To(Equal(bullmqhttp.Running))
		Eventually(func(g Gomega) { // when its lock has expired
			_, err := direct.m.RecoverStale(ctx)
			g.Expect(err).NotTo(HaveOccurred())
			_, err = direct.m.Claim(ctx, "berta", 1, 0)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(direct.get(bad.ID).State).To(Equal(bullmqhttp.Failed))
		}, "20s").Should(Succeed())
	})

	It("that checks for stale claims again and again logs an outage, and the jobs that it has found later", func() {
		direct := aside(newName())
		var log lines
		proxy, m := direct.through(bullmqhttp.ManagerOptions{
			Fetcher: bullmq.FetcherOptions{StalledInterval: 20 * time.Millisecond}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		job := direct.add(1, nil)
		_, err := direct.m.Extend(ctx, direct.claim("anna"), time.Millisecond, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(proxy.Set(faultproxy.Faults{Refuse: true})).To(Succeed())
		proxy.CutAll()
		ended := make(chan struct{})
		go func() { m.m.Run(ctx); close(ended) }()
		Eventually(log.String, "20s").Should(ContainSubstring("the check for stale claims failed"))
		Expect(direct.get(job.ID).State).To(Equal(bullmqhttp.Running))
		Expect(proxy.Set(faultproxy.Faults{})).To(Succeed())
		Eventually(log.String, "20s").Should(And(ContainSubstring("claims were stale"), ContainSubstring(job.ID)))
		Expect(direct.get(job.ID).State).To(Equal(bullmqhttp.Queued))
		Expect(m.m.Close()).To(Succeed())
		Eventually(ended, "20s").Should(BeClosed())
	})
})
