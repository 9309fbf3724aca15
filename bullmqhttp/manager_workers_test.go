package bullmqhttp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmqhttp"
)

// use calls each method that uses a claim, and returns the errors.
func (m *managed) use(claim *bullmqhttp.Claim) []error {
	ctx := context.Background()
	_, extend := m.m.Extend(ctx, claim, 0, nil)
	_, succeed := m.m.Succeed(ctx, claim, nil)
	_, fail := m.m.Fail(ctx, claim, bullmqhttp.Failure{Reason: "x"})
	return []error{extend, succeed, fail, m.m.Release(ctx, claim, 0), m.m.Release(ctx, claim, time.Minute)}
}

var _ = Describe("The identity of a worker", func() {
	ctx := context.Background()

	DescribeTable("is refused if it", func(worker string) {
		m := manage(bullmqhttp.ManagerOptions{})
		m.add(1, nil)
		_, err := m.m.Claim(ctx, worker, 1, 0)
		Expect(err).To(MatchError(bullmqhttp.ErrInvalidWorker))
		claim := m.claim("anna")
		claim.Worker = worker
		for _, err := range m.use(claim) {
			Expect(err).To(MatchError(bullmqhttp.ErrInvalidWorker))
		}
	},
		Entry("is empty", ""),
		Entry("is longer than 100 bytes", strings.Repeat("w", 101)),
		Entry("has a control character", "an\nna"),
		Entry("is not UTF-8", "ann\xff"),
	)

	It("may be any other text", func() {
		m := manage(bullmqhttp.ManagerOptions{})
		for _, worker := range []string{"a", "süd.werk 7/β", `"quoted", {json}`, strings.Repeat("w", 100), "a.b.c", "..", "0"} {
			job := m.add(1, nil)
			claim := m.claim(worker)
			Expect(claim.JobID).To(Equal(job.ID))
			Expect(m.get(job.ID).Worker).To(Equal(worker))
			_, err := m.m.Extend(ctx, claim, 0, nil)
			Expect(err).NotTo(HaveOccurred())
			_, err = m.m.Succeed(ctx, claim, nil)
			Expect(err).NotTo(HaveOccurred())
		}
	})

	It("is checked in each call, with the error of the check", func() {
		var refuse error
		asked := 0
		m := manage(bullmqhttp.ManagerOptions{CheckWorker: func(_ context.Context, worker string) error {
			Expect(worker).To(Equal("anna"))
			asked++
			return refuse
		}})
		m.add(1, nil)
		claim := m.claim("anna")
		refuse = errors.New("the certificate has expired")
		for _, err := range m.use(claim) {
			Expect(err).To(And(MatchError(bullmqhttp.ErrForbidden), MatchError(refuse)))
			Expect(err.Error()).NotTo(ContainSubstring("certificate"))
		}
		refuse = &bullmqhttp.Problem{Status: http.StatusUnauthorized, Code: "LOGIN"}
		for _, err := range m.use(claim) {
			Expect(err).To(Equal(refuse))
		}
		Expect(asked).To(Equal(11))
		refuse = nil
		_, err := m.m.Succeed(ctx, claim, nil)
		Expect(err).NotTo(HaveOccurred())
	})

	It("of many workers is stored in their jobs, over one connection", func() {
		m := manage(bullmqhttp.ManagerOptions{})
		before := 0
		for i := range 300 { // more than the Manager keeps
			job := m.add(i, nil)
			worker := fmt.Sprint("worker-", i)
			_, err := m.m.Succeed(ctx, m.claim(worker), nil)
			Expect(err).NotTo(HaveOccurred())
			Expect(m.get(job.ID).Worker).To(Equal(worker))
			if i == 0 {
				before = connections()
			}
		}
		Expect(connections()).To(BeNumerically("<=", before))
	})
})

var _ = Describe("A claim", func() {
	ctx := context.Background()

	It("is used in any process, over HTTP too, and after the end of the one that made it", func() {
		first := manage(bullmqhttp.ManagerOptions{})
		second := manageAs(first.queue.Name(), bullmqhttp.ManagerOptions{})
		first.add(1, nil)
		claim := first.claim("anna")
		Expect(first.m.Close()).To(Succeed())
		stored := &bullmqhttp.Claim{JobID: claim.JobID, Token: claim.Token, Worker: claim.Worker} // what a client keeps
		_, err := second.m.Extend(ctx, stored, time.Minute, "half")
		Expect(err).NotTo(HaveOccurred())
		a := second.post("anna", "/jobs/"+claim.JobID+"/succeed", `{"token":"`+claim.Token+`","result":"done"}`)
		Expect(a.status).To(Equal(http.StatusOK), a.body)
		Expect(string(second.get(claim.JobID).Result)).To(Equal(`"done"`))
		_, err = first.m.Claim(ctx, "anna", 1, 0)
		Expect(err).To(And(MatchError(bullmqhttp.ErrUnavailable), MatchError(bullmq.ErrClosed)))
	})

	It("is refused if it is of another job, or of a worker of BullMQ", func() {
		m := manage(bullmqhttp.ManagerOptions{})
		m.add(1, nil)
		m.add(2, nil)
		first, second := m.claim("anna"), m.claim("anna")
		swapped := *first
		swapped.Token = second.Token
		for _, err := range m.use(&swapped) {
			Expect(err).To(MatchError(bullmqhttp.ErrAlreadyAssigned))
		}
		_, err := m.m.Succeed(ctx, nil, nil)
		Expect(err).To(MatchError(bullmqhttp.ErrInvalidRequest))
		nameless := *first
		nameless.JobID = ""
		for _, err := range m.use(&nameless) {
			Expect(err).To(MatchError(bullmqhttp.ErrInvalidJobID))
		}

		started, finish := make(chan *bullmq.Job, 1), make(chan struct{})
		m.add(3, nil)
		m.workWith(func(_ context.Context, job *bullmq.Job) (any, error) {
			started <- job
			<-finish
			return "by the worker", nil
		}, &bullmq.WorkerOptions{})
		var job *bullmq.Job
		Eventually(started, "20s").Should(Receive(&job))
		for _, err := range m.use(&bullmqhttp.Claim{JobID: job.ID, Token: first.Token, Worker: "anna"}) {
			Expect(err).To(MatchError(bullmqhttp.ErrAlreadyAssigned))
		}
		for _, err := range m.use(&bullmqhttp.Claim{JobID: job.ID, Token: job.Token(), Worker: "anna"}) {
			Expect(err).To(MatchError(bullmqhttp.ErrAlreadyAssigned))
		}
		Expect(m.m.Remove(ctx, job.ID)).To(MatchError(bullmqhttp.ErrAlreadyAssigned))
		close(finish)
		Eventually(func() string { return string(m.get(job.ID).Result) }, "20s").Should(Equal(`"by the worker"`))
		Expect(m.get(first.JobID).State).To(Equal(bullmqhttp.Running))
		Expect(m.get(second.JobID).State).To(Equal(bullmqhttp.Running))
	})

	It("whose lock is lost is refused, and its job is run by the next worker", func() {
		m := manage(bullmqhttp.ManagerOptions{Fetcher: bullmq.FetcherOptions{StalledInterval: 50 * time.Millisecond}})
		m.add(1, nil)
		claim := m.claim("anna")
		lock := "bull:" + m.queue.Name() + ":" + claim.JobID + ":lock"
		Expect(command(redis, "GETDEL", lock)).To(Equal(claim.Token))
		for _, err := range m.use(claim) {
			Expect(err).To(And(MatchError(bullmqhttp.ErrClaimExpired), MatchError(bullmq.ErrLockNotFound)))
		}
		stale, err := m.m.StaleClaims(ctx, 1)
		Expect(err).NotTo(HaveOccurred())
		Expect(idsOf(stale)).To(Equal([]string{claim.JobID}))
		var recovered []string
		Eventually(func() []string {
			ids, err := m.m.RecoverStale(ctx)
			Expect(err).NotTo(HaveOccurred())
			recovered = append(recovered, ids...)
			return recovered
		}, "20s").Should(Equal([]string{claim.JobID}))
		for _, err := range m.use(claim) {
			Expect(err).To(MatchError(bullmqhttp.ErrWrongStatus))
		}
		again := m.claim("berta")
		Expect(again.JobID).To(Equal(claim.JobID))
		for _, err := range m.use(claim) {
			Expect(err).To(MatchError(bullmqhttp.ErrAlreadyAssigned))
		}
		Expect(m.m.StaleClaims(ctx, 10)).To(BeEmpty())
		job, err := m.m.Succeed(ctx, again, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect([]any{job.Worker, job.Attempts}).To(Equal([]any{"berta", 1}))
	})

	for name, dialect := range map[string]bullmq.Dialect{"BullMQ 6": bullmq.V6, "BullMQ 5": bullmq.V5} {
		It("whose worker is gone is given to the next one, until its job fails, in a queue of "+name, func() {
			m := manage(bullmqhttp.ManagerOptions{Fetcher: bullmq.FetcherOptions{
				Dialect: dialect, LockDuration: 100 * time.Millisecond, StalledInterval: 20 * time.Millisecond, MaxStalledCount: 2,
			}})
			running, stop := context.WithCancel(ctx)
			defer stop()
			ended := make(chan struct{}, 2)
			for range 2 {
				go func() { m.m.Run(running); ended <- struct{}{} }()
			}
			job := m.add(1, &bullmq.JobOptions{Attempts: 5})
			for _, worker := range []string{"anna", "berta", "carla"} {
				Expect(m.claim(worker).JobID).To(Equal(job.ID))
			}
			Eventually(func() bullmqhttp.State {
				m.none("dora") // fails the job
				return m.get(job.ID).State
			}, "20s").Should(Equal(bullmqhttp.Failed))
			last := m.get(job.ID)
			Expect(last.Error).To(ContainSubstring("stalled"))
			Expect(m.jobs()).To(Equal(1))
			stop()
			for range 2 {
				Eventually(ended, "20s").Should(Receive())
			}
		})
	}

	It("stays as it is if a call has invalid arguments", func() {
		m := manage(bullmqhttp.ManagerOptions{})
		m.add(1, nil)
		_, err := m.m.Claim(ctx, "anna", 0, 0)
		Expect(err).To(MatchError(bullmqhttp.ErrInvalidRequest))
		_, err = m.m.Claim(ctx, "anna", 1, -time.Second)
		Expect(err).To(MatchError(bullmqhttp.ErrInvalidRequest))
		claim := m.claim("anna")
		for _, wait := range []time.Duration{-time.Second, 2 * time.Hour, time.Microsecond} {
			_, err := m.m.Extend(ctx, claim, wait, nil)
			Expect(err).To(MatchError(bullmqhttp.ErrInvalidRequest))
		}
		Expect(m.m.Release(ctx, claim, -1)).To(MatchError(bullmqhttp.ErrInvalidRequest))
		_, err = m.m.Fail(ctx, claim, bullmqhttp.Failure{RetryAfter: -1})
		Expect(err).To(MatchError(bullmqhttp.ErrInvalidRequest))
		_, err = m.m.Succeed(ctx, claim, func() {})
		Expect(err).To(MatchError(bullmqhttp.ErrInvalidRequest))
		Expect(m.get(claim.JobID).State).To(Equal(bullmqhttp.Running))
	})
})

var _ = Describe("The options of a manager", func() {
	DescribeTable("are refused if they", func(o bullmqhttp.ManagerOptions, detail string) {
		o.Fetcher.URL = redis.URL()
		_, err := bullmqhttp.NewManager(context.Background(), "unused", &o)
		Expect(err).To(MatchError(And(HavePrefix("bullmqhttp: manager of queue unused: "), ContainSubstring(detail))))
	},
		Entry("set the token", bullmqhttp.ManagerOptions{Fetcher: bullmq.FetcherOptions{Token: func() string { return "t" }}}, "Token"),
		Entry("set a name", bullmqhttp.ManagerOptions{Fetcher: bullmq.FetcherOptions{Name: "n"}}, "Name"),
		Entry("renew locks", bullmqhttp.ManagerOptions{Fetcher: bullmq.FetcherOptions{RenewLocks: true}}, "RenewLocks"),
		Entry("set the id of jobs", bullmqhttp.ManagerOptions{Job: &bullmq.JobOptions{JobID: "a"}}, "JobID"),
		Entry("have a number less than 0", bullmqhttp.ManagerOptions{MaxClaim: -1}, "MaxClaim"),
		Entry("have a base without a slash", bullmqhttp.ManagerOptions{Base: "manage"}, "slash"),
	)

	It("may be left out, and the connection is then made and closed by the manager", func() {
		before := connections()
		m, err := bullmqhttp.NewManager(context.Background(), fmt.Sprint("manager-", queues.Add(1)), &bullmqhttp.ManagerOptions{
			Fetcher: bullmq.FetcherOptions{URL: redis.URL()},
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(m.Stats(context.Background())).To(BeZero())
		Expect(m.Close()).To(Succeed())
		Expect(m.Close()).To(Succeed())
		Eventually(connections, "20s").Should(BeNumerically("<=", before))
	})
})
