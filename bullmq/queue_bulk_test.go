package bullmq_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("Queue.AddBulk", func() {
	var (
		name  string
		queue *bullmq.Queue
		ctx   context.Context
	)
	BeforeEach(func() {
		name, ctx = newQueueName(), specContext()
		queue = newQueue(name, nil)
	})
	ids := func(jobs []*bullmq.Job) []string {
		all := make([]string, len(jobs))
		for i, job := range jobs {
			all[i] = job.ID
		}
		return all
	}
	numbers := func(n int) []string {
		all := make([]string, n)
		for i := range all {
			all[i] = strconv.Itoa(i + 1)
		}
		return all
	}
	// mixed returns jobs of all kinds in turn.
	mixed := func(n int) []bullmq.BulkJob {
		kinds := []*bullmq.JobOptions{nil, {Delay: time.Hour}, {Priority: 1}}
		bulk := make([]bullmq.BulkJob, n)
		for i := range bulk {
			bulk[i] = bullmq.BulkJob{Name: fmt.Sprint("job-", i+1), Data: i + 1, Options: kinds[i%len(kinds)]}
		}
		return bulk
	}

	It("adds nothing for an empty list", func() {
		jobs, err := queue.AddBulk(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(jobs).To(BeEmpty())
		Expect(keysOf(name)).To(Equal([]string{keyOf(name, "meta")}))
	})

	It("reports for each job whether it was added, and the error of each that was not", func() {
		jobs, err := queue.AddBulk(ctx, []bullmq.BulkJob{
			{Name: "paint", Options: &bullmq.JobOptions{JobID: "a"}},
			{Name: "paint", Options: &bullmq.JobOptions{JobID: "a"}},
			{Name: "paint", Options: &bullmq.JobOptions{Deduplication: &bullmq.Deduplication{ID: "d"}}},
			{Name: "paint", Options: &bullmq.JobOptions{Deduplication: &bullmq.Deduplication{ID: "d"}}},
			{Name: "paint", Options: &bullmq.JobOptions{Parent: &bullmq.ParentRef{QueueKey: "bull:" + name, ID: "none"}}},
			{Name: "paint"},
		})
		var bulk *bullmq.BulkError
		Expect(errors.As(err, &bulk)).To(BeTrue())
		for i, outcome := range []bullmq.AddOutcome{bullmq.Added, bullmq.AlreadyExists, bullmq.Added, bullmq.Deduplicated, "", bullmq.Added} {
			Expect(jobs[i].AddOutcome()).To(Equal(outcome), "job %d", i)
			if outcome == "" {
				Expect(bulk.Of(i)).To(MatchError(bullmq.ErrParentNotFound))
			} else {
				Expect(bulk.Of(i)).NotTo(HaveOccurred())
			}
		}
		Expect(err).To(MatchError(bullmq.ErrParentNotFound))
		Expect([]string{jobs[1].ID, jobs[3].ID}).To(Equal([]string{"a", jobs[2].ID}))

		read, err := queue.Job(ctx, "a")
		Expect(err).NotTo(HaveOccurred())
		Expect(read.AddOutcome()).To(BeEmpty(), "of a job that was read")
		again, err := queue.Add(ctx, "paint", nil, &bullmq.JobOptions{JobID: "a"})
		Expect(err).NotTo(HaveOccurred())
		Expect(again.AddOutcome()).To(Equal(bullmq.AlreadyExists))
	})

	It("numbers 3000 jobs in their order", func() {
		bulk := make([]bullmq.BulkJob, 3000)
		for i := range bulk {
			bulk[i] = bullmq.BulkJob{Name: "paint", Data: i + 1}
		}
		jobs, err := queue.AddBulk(ctx, bulk)
		Expect(err).NotTo(HaveOccurred())
		Expect(ids(jobs)).To(Equal(numbers(3000)))
		waiting := listAt(keyOf(name, "wait"))
		Expect(waiting).To(HaveLen(3000))
		Expect(waiting[0]).To(Equal("3000"), "the last is the last in line")
		Expect(hashAt(keyOf(name, "1234"))).To(HaveKeyWithValue("data", "1234"))
	})

	It("keeps the order among jobs of all kinds, even if the server knows only some of the scripts", func() {
		redisDo("SCRIPT", "FLUSH")
		_, err := queue.Add(ctx, "job-0", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		jobs, err := queue.AddBulk(ctx, mixed(9))
		Expect(err).NotTo(HaveOccurred())
		Expect(ids(jobs)).To(Equal([]string{"2", "3", "4", "5", "6", "7", "8", "9", "10"}))
		for i, job := range jobs {
			Expect(hashAt(job.Key())).To(HaveKeyWithValue("name", fmt.Sprint("job-", i+1)))
		}
	})

	It("accepts a job of the bulk as the parent of a later one, whatever their kinds", func() {
		redisDo("SCRIPT", "FLUSH")
		_, err := queue.Add(ctx, "before", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		jobs, err := queue.AddBulk(ctx, []bullmq.BulkJob{
			{Name: "wall", Options: &bullmq.JobOptions{JobID: "wall", Delay: time.Hour}},
			{Name: "brick", Options: &bullmq.JobOptions{Parent: &bullmq.ParentRef{ID: "wall", QueueKey: "bull:" + name}}},
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(setAt(keyOf(name, "wall:dependencies"))).To(Equal([]string{jobs[1].Key()}))
	})

	It("neither loses nor duplicates jobs when the server loses its scripts meanwhile", func() {
		const rounds, each = 20, 30
		flushing, flushed := context.WithCancel(ctx)
		var times atomic.Int64
		done := make(chan struct{})
		go func() {
			defer close(done)
			for ; flushing.Err() == nil; times.Add(1) {
				redisDo("SCRIPT", "FLUSH")
			}
		}()
		seen := map[string]bool{}
		for round := range rounds {
			Eventually(times.Load).Should(BeNumerically(">", round))
			jobs, err := queue.AddBulk(ctx, mixed(each))
			Expect(err).NotTo(HaveOccurred())
			for _, id := range ids(jobs) {
				Expect(seen).NotTo(HaveKey(id))
				seen[id] = true
			}
		}
		flushed()
		<-done
		Expect(seen).To(HaveLen(rounds * each))
		counts, err := queue.Counts(ctx, bullmq.StateWaiting, bullmq.StateDelayed, bullmq.StatePrioritized)
		Expect(err).NotTo(HaveOccurred())
		Expect(counts).To(HaveEach(BeEquivalentTo(rounds * each / 3)))
		Expect(stringAt(keyOf(name, "id"))).To(Equal(strconv.Itoa(rounds * each)))
	})

	It("adds nothing and names the job if the options of one are invalid", func() {
		before := snapshot(name)
		jobs, err := queue.AddBulk(ctx, []bullmq.BulkJob{{Name: "good"}, {Name: "bad", Options: &bullmq.JobOptions{JobID: "77"}}, {Name: "good"}})
		Expect(err).To(MatchError(And(ContainSubstring("none of 3 jobs"), ContainSubstring(`job 1, "bad"`), ContainSubstring(`"77"`))))
		Expect(jobs).To(BeNil())
		Expect(snapshot(name)).To(Equal(before))
	})

	It("adds the other jobs and names the refused one when Redis refuses one", func() {
		orphan := &bullmq.JobOptions{Parent: &bullmq.ParentRef{ID: "gone", QueueKey: "bull:" + name}}
		jobs, err := queue.AddBulk(ctx, []bullmq.BulkJob{{Name: "a"}, {Name: "b", Options: orphan}, {Name: "c"}})
		Expect(err).To(MatchError(bullmq.ErrParentNotFound))
		Expect(err).To(MatchError(And(ContainSubstring("job 1"), ContainSubstring(":gone"))))
		Expect(ids(jobs)).To(Equal([]string{"1", "", "2"}))
		Expect(listAt(keyOf(name, "wait"))).To(Equal([]string{"2", "1"}))
	})

	It("returns the existing job for an id that exists and for a deduplicated job", func() {
		once := &bullmq.JobOptions{Deduplication: &bullmq.Deduplication{ID: "d"}}
		jobs, err := queue.AddBulk(ctx, []bullmq.BulkJob{
			{Name: "a", Options: &bullmq.JobOptions{JobID: "own"}}, {Name: "b", Options: &bullmq.JobOptions{JobID: "own"}},
			{Name: "c", Options: once}, {Name: "d", Options: once},
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(ids(jobs)).To(Equal([]string{"own", "own", "3", "3"}))
		Expect(listAt(keyOf(name, "wait"))).To(Equal([]string{"3", "own"}))
	})
})
