package bullmq_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// idsOf returns the ids of a page of jobs.
func idsOf(page *bullmq.JobPage) []string {
	var ids []string
	for _, job := range page.Jobs {
		ids = append(ids, job.ID)
	}
	return ids
}

var _ = Describe("A search for jobs", func() {
	var ctx context.Context
	var queue *bullmq.Queue
	var name string
	BeforeEach(func() {
		ctx, name = specContext(), newQueueName()
		queue = newQueue(name, nil)
	})
	add := func(count int, job string, data any, options *bullmq.JobOptions) {
		GinkgoHelper()
		jobs := make([]bullmq.BulkJob, count)
		for i := range jobs {
			jobs[i] = bullmq.BulkJob{Name: job, Data: data, Options: options}
		}
		_, err := queue.AddBulk(ctx, jobs)
		Expect(err).NotTo(HaveOccurred())
	}
	// everything reads all pages of a search.
	everything := func(search bullmq.JobSearch) (ids []string, pages int) {
		GinkgoHelper()
		for {
			page, err := queue.Search(ctx, search)
			Expect(err).NotTo(HaveOccurred())
			ids, pages = append(ids, idsOf(page)...), pages+1
			if search.After = page.Next; page.Next == "" {
				return ids, pages
			}
		}
	}

	It("finds jobs by name, by text in their data and by the time of the add, newest first, in any state", func() {
		add(2, "paint", map[string]string{"color": "Grün & <b>"}, nil)
		add(1, "sand", map[string]string{"color": "none"}, nil)
		add(1, "paint", map[string]string{"color": "blue"}, &bullmq.JobOptions{Delay: time.Hour})
		add(1, "paint", map[string]string{"color": "blue"}, &bullmq.JobOptions{Priority: 3})

		page, err := queue.Search(ctx, bullmq.JobSearch{})
		Expect(err).NotTo(HaveOccurred())
		Expect(idsOf(page)).To(ConsistOf("1", "2", "3", "4", "5"))
		Expect(page.Next).To(BeEmpty())
		Expect(page.Read).To(Equal(5))

		Expect(queue.Search(ctx, bullmq.JobSearch{Name: "paint"})).To(WithTransform(idsOf, ConsistOf("1", "2", "4", "5")))
		Expect(queue.Search(ctx, bullmq.JobSearch{Name: "pain"})).To(WithTransform(idsOf, BeEmpty()))
		Expect(queue.Search(ctx, bullmq.JobSearch{Data: "grÜn & <B>", States: []bullmq.State{bullmq.StateWaiting}})).To(WithTransform(idsOf, Equal([]string{"2", "1"})))
		page, err = queue.Search(ctx, bullmq.JobSearch{Data: "BLUE", Name: "paint"})
		Expect(err).NotTo(HaveOccurred())
		Expect(page.States).To(Equal([]bullmq.State{bullmq.StateDelayed, bullmq.StatePrioritized}))

		third, err := queue.Job(ctx, "3")
		Expect(err).NotTo(HaveOccurred())
		Expect(queue.Search(ctx, bullmq.JobSearch{AddedBefore: third.Timestamp.Add(time.Hour), AddedAfter: third.Timestamp.Add(-time.Hour)})).To(HaveField("Jobs", HaveLen(5)))
		Expect(queue.Search(ctx, bullmq.JobSearch{AddedAfter: third.Timestamp.Add(time.Hour)})).To(HaveField("Jobs", BeEmpty()))
		Expect(queue.Search(ctx, bullmq.JobSearch{AddedBefore: third.Timestamp.Add(-time.Hour)})).To(HaveField("Jobs", BeEmpty()))
	})

	It("finds failed jobs by a text of their error", func() {
		add(10, "paint", nil, nil)
		runWorker(name, func(_ context.Context, job *bullmq.Job) (any, error) {
			if job.ID == "3" || job.ID == "7" {
				return nil, errors.New("no Paint left: bucket 12")
			}
			return nil, errors.New("timeout")
		}, nil)
		Eventually(countOf(queue, bullmq.StateFailed), "20s").Should(Equal(10))
		Expect(queue.Search(ctx, bullmq.JobSearch{States: []bullmq.State{bullmq.StateFailed}, Error: "paint LEFT"})).To(WithTransform(idsOf, ConsistOf("3", "7")))
	})

	It("finds jobs by the time at which they finished, which it also counts without reading them", func() {
		add(4, "paint", nil, nil)
		finished := time.Now().Add(-time.Hour)
		for id := range 3 {
			at := fmt.Sprint(finished.Add(time.Duration(id) * time.Minute).UnixMilli())
			Expect(redisDo("LREM", keyOf(name, "wait"), "1", fmt.Sprint(id+1)).Error()).To(Succeed())
			Expect(redisDo("HSET", keyOf(name, fmt.Sprint(id+1)), "finishedOn", at).Error()).To(Succeed())
			Expect(redisDo("ZADD", keyOf(name, "failed"), at, fmt.Sprint(id+1)).Error()).To(Succeed())
		}
		after := finished.Add(90 * time.Second)
		before, _ := everything(bullmq.JobSearch{FinishedBefore: after})
		Expect(before).To(Equal([]string{"2", "1"}))
		later, _ := everything(bullmq.JobSearch{FinishedAfter: after})
		Expect(later).To(Equal([]string{"3"}))
		Expect(queue.CountFinishedBefore(ctx, bullmq.StateFailed, after)).To(Equal(2))
		Expect(queue.CountFinishedBefore(ctx, bullmq.StateCompleted, after)).To(BeZero())
		Expect(queue.CountFinishedBefore(ctx, bullmq.StateFailed, finished)).To(BeZero())
		_, err := queue.CountFinishedBefore(ctx, bullmq.StateDelayed, after)
		Expect(err).To(MatchError(ContainSubstring(`jobs do not finish in the state "delayed"`)))
	})

	It("continues after a page, over all states, and finds each job once", func() {
		add(230, "paint", nil, nil)
		add(130, "paint", nil, &bullmq.JobOptions{Delay: time.Hour})
		ids, pages := everything(bullmq.JobSearch{Limit: 37})
		Expect(ids).To(HaveLen(360))
		Expect(slices.Compact(slices.Sorted(slices.Values(ids)))).To(HaveLen(360))
		Expect(pages).To(Equal(360/37 + 1))
	})

	It("reads no more jobs than MaxRead in one page, and ends after MaxTime", func() {
		add(1000, "paint", nil, nil)
		add(1, "sand", nil, &bullmq.JobOptions{LIFO: false})
		page, err := queue.Search(ctx, bullmq.JobSearch{Name: "none", MaxRead: 250})
		Expect(err).NotTo(HaveOccurred())
		Expect(page).To(And(HaveField("Jobs", BeEmpty()), HaveField("Read", 250), HaveField("Next", Not(BeEmpty()))))
		ids, pages := everything(bullmq.JobSearch{Name: "sand", MaxRead: 250})
		Expect(ids).To(Equal([]string{"1001"}))
		Expect(pages).To(Equal(5))
		add(20_000, "paint", nil, nil)
		page, err = queue.Search(ctx, bullmq.JobSearch{Name: "none", MaxTime: time.Millisecond, MaxRead: 1_000_000})
		Expect(err).NotTo(HaveOccurred())
		Expect(page).To(And(HaveField("Read", BeNumerically("<", 15_000)), HaveField("Next", Not(BeEmpty()))))
	})

	// delayed adds jobs with the same time, so that only their ids give them an order.
	sameScore := func(count int) {
		GinkgoHelper()
		add(count, "paint", nil, nil)
		words := []string{"ZADD", keyOf(name, "completed")}
		for i := range count {
			words = append(words, "1700000000000", fmt.Sprint(i+1))
		}
		Expect(redisDo(words...).Error()).To(Succeed())
		Expect(redisDo("DEL", keyOf(name, "wait")).Error()).To(Succeed())
	}

	It("misses no job that stays while others leave the state between two pages", func() {
		for state, fill := range map[bullmq.State]func(){
			bullmq.StateWaiting:   func() { add(300, "paint", nil, nil) },
			bullmq.StateDelayed:   func() { add(300, "paint", nil, &bullmq.JobOptions{Delay: time.Hour}) },
			bullmq.StateCompleted: func() { sameScore(300) },
		} {
			Expect(queue.Obliterate(ctx, &bullmq.ObliterateOptions{Force: true})).To(Succeed())
			Expect(queue.Resume(ctx)).To(Succeed())
			fill()
			all, err := queue.JobIDs(ctx, bullmq.AllEntries(), state)
			Expect(err).NotTo(HaveOccurred())
			search := bullmq.JobSearch{States: []bullmq.State{state}, Limit: 20}
			found, gone := map[string]int{}, map[string]bool{}
			for n := 0; ; n++ {
				page, err := queue.Search(ctx, search)
				Expect(err).NotTo(HaveOccurred())
				for _, job := range page.Jobs {
					found[job.ID]++
				}
				if search.After = page.Next; page.Next == "" {
					break
				}
				ids := idsOf(page)
				removed := ids[len(ids)/2:] // also the last ones, which the position names
				if n%3 == 0 {
					removed = ids
				}
				for _, id := range removed {
					gone[id] = true
					Expect(queue.Remove(ctx, id, nil)).To(Succeed())
				}
				if state == bullmq.StateWaiting {
					add(7, "late", nil, nil)
				}
			}
			for _, id := range all {
				Expect(found).To(HaveKey(id), "%s in %s", id, state)
				if state != bullmq.StateWaiting {
					Expect(found[id]).To(Equal(1), "%s in %s", id, state)
				}
			}
			Expect(len(gone)).To(BeNumerically(">", 100))
		}
	})

	It("skips a job whose record is gone or is no hash", func() {
		add(4, "paint", nil, nil)
		Expect(redisDo("DEL", keyOf(name, "2")).Error()).To(Succeed())
		Expect(redisDo("DEL", keyOf(name, "3")).Error()).To(Succeed())
		Expect(redisDo("SET", keyOf(name, "3"), "text").Error()).To(Succeed())
		Expect(queue.Search(ctx, bullmq.JobSearch{})).To(WithTransform(idsOf, Equal([]string{"4", "1"})))
	})

	It("is refused with what is wrong", func() {
		for text, search := range map[string]bullmq.JobSearch{
			"there is no state \"done\"":                {States: []bullmq.State{"done"}},
			"JobSearch.Limit -1 is less than 0":         {Limit: -1},
			"JobSearch.MaxRead -1 is less than 0":       {MaxRead: -1},
			"JobSearch.MaxTime 5ns":                     {MaxTime: 5},
			"JobSearch.After is \"failed\"":             {After: "failed"},
			"JobSearch.After is \"done:3\"":             {After: "done:3"},
			"JobSearch.After is \"failed:-3\"":          {After: "failed:-3"},
			"JobSearch.After is \"eyJz":                 {After: base64.RawURLEncoding.EncodeToString([]byte(`{"s":"failed","i":["1"],"z":"NaN"}`))},
			"use the Next of a page of the same search": {After: base64.RawURLEncoding.EncodeToString([]byte(`{"s":"failed"}`)), States: []bullmq.State{bullmq.StateActive}},
		} {
			_, err := queue.Search(ctx, search)
			Expect(err).To(MatchError(ContainSubstring(text)))
			_, err = queue.EachMatch(ctx, search, nil)
			Expect(err).To(MatchError(ContainSubstring(text)))
		}
	})

	It("counts the jobs that match, and handles each that still matches", func() {
		add(500, "paint", map[string]int{"size": 3}, nil)
		add(300, "sand", nil, nil)
		search := bullmq.JobSearch{Name: "paint"}
		Expect(queue.EachMatch(ctx, search, nil)).To(HaveValue(Equal(bullmq.MatchResult{Matched: 500})))
		Expect(queue.Counts(ctx, bullmq.StateWaiting)).To(HaveKeyWithValue(bullmq.StateWaiting, 800))

		first := true
		result, err := queue.EachMatch(ctx, search, func(ctx context.Context, job *bullmq.Job) error {
			Expect(job.Name).To(Equal("paint"))
			if first { // the job with the smallest id is handled last
				first = false
				Expect(queue.Remove(ctx, "1", nil)).To(Succeed())
				return errors.New("not this one")
			}
			return job.Remove(ctx)
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(result).To(HaveValue(And(
			HaveField("Matched", 500), HaveField("Done", 498), HaveField("Gone", 1),
			HaveField("Failed", Equal(map[string]error{"500": errors.New("not this one")})),
		)))
		Expect(queue.Counts(ctx, bullmq.StateWaiting)).To(HaveKeyWithValue(bullmq.StateWaiting, 301))
	})

	It("retries the failed jobs that match, and leaves those of another state", func() {
		add(20, "paint", nil, nil)
		var again bool
		worker := runWorker(name, func(_ context.Context, job *bullmq.Job) (any, error) {
			if again {
				return nil, nil
			}
			return nil, fmt.Errorf("error %d", len(job.ID))
		}, nil)
		Eventually(countOf(queue, bullmq.StateFailed), "20s").Should(Equal(20))
		Expect(worker.Pause(ctx)).To(Succeed())
		again = true
		worker.Resume()
		search := bullmq.JobSearch{States: []bullmq.State{bullmq.StateFailed}, Error: "error 2"}
		result, err := queue.EachMatch(ctx, search, func(ctx context.Context, job *bullmq.Job) error { return job.Retry(ctx, bullmq.StateFailed, nil) })
		Expect(err).NotTo(HaveOccurred())
		Expect(result).To(HaveValue(Equal(bullmq.MatchResult{Matched: 11, Done: 11})))
		Eventually(countOf(queue, bullmq.StateCompleted), "20s").Should(Equal(11))
		Expect(queue.Counts(ctx, bullmq.StateFailed)).To(HaveKeyWithValue(bullmq.StateFailed, 9))
	})

	It("handles each job once over several calls, whether they move the jobs or leave them", func() {
		for state, options := range map[bullmq.State]*bullmq.JobOptions{
			bullmq.StateWaiting: nil, bullmq.StateDelayed: {Delay: time.Hour}, bullmq.StatePrioritized: {Priority: 3},
		} {
			Expect(queue.Obliterate(ctx, &bullmq.ObliterateOptions{Force: true})).To(Succeed())
			Expect(queue.Resume(ctx)).To(Succeed())
			for range 100 {
				add(2, "paint", nil, options)
				add(1, "sand", nil, options)
			}
			for _, do := range []func(context.Context, *bullmq.Job) error{
				func(context.Context, *bullmq.Job) error { return nil },
				func(ctx context.Context, job *bullmq.Job) error {
					if len(job.ID) == 2 && job.ID[1] == '5' {
						return errors.New("not this one")
					}
					return job.Remove(ctx)
				},
			} {
				handled, calls := map[string]int{}, 0
				search := bullmq.JobSearch{Name: "paint", MaxRead: 37}
				for {
					result, err := queue.EachMatch(ctx, search, func(ctx context.Context, job *bullmq.Job) error {
						handled[job.ID]++
						return do(ctx, job)
					})
					Expect(err).NotTo(HaveOccurred())
					Expect(result.Gone).To(BeZero())
					if search.After = result.Next; result.Next == "" {
						break
					}
					calls++
					Expect(calls).To(BeNumerically("<", 30))
				}
				Expect(handled).To(HaveLen(200), string(state))
				Expect(handled).To(HaveEach(1), string(state))
			}
		}
	})

	It("searches no list for each job that it handles", func() {
		add(2000, "paint", nil, nil)
		before := commandCalls()
		result, err := queue.EachMatch(ctx, bullmq.JobSearch{Name: "paint"}, func(_ context.Context, job *bullmq.Job) error {
			if job.ID == "1500" { // the position of the others changes
				Expect(redisDo("LTRIM", keyOf(name, "wait"), "300", "-1").Error()).To(Succeed())
			}
			return nil
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(result).To(HaveValue(Equal(bullmq.MatchResult{Matched: 2000, Done: 2000})))
		calls := commandCalls()
		Expect(calls["lpos"] - before["lpos"]).To(BeNumerically("<", 10))
		Expect(calls["evalsha"] - before["evalsha"]).To(BeNumerically("<", 150))
	})

	It("returns what it has done when its context ends", func() {
		add(20, "paint", nil, nil)
		ending, end := context.WithCancel(ctx)
		defer end()
		result, err := queue.EachMatch(ending, bullmq.JobSearch{}, func(_ context.Context, job *bullmq.Job) error {
			if job.ID == "11" {
				end()
			}
			return nil
		})
		Expect(err).To(MatchError(context.Canceled))
		Expect(result).To(HaveValue(And(HaveField("Matched", 20), HaveField("Done", 10))))
	})
})
