package backendtest

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

// member is one of several queues.
type member struct {
	backend.Store
	key string // by which a Group knows it
}

var lastMember atomic.Int64

// members returns count queues.
func (s *suite) members(count int) (all []member) {
	for n := range count {
		name := fmt.Sprint(s.Name, "-", n, "-", lastMember.Add(1))
		all = append(all, member{s.Another(name), s.Prefix + ":" + name + ":"})
	}
	return all
}

func keysOf(queues []member) (keys []string) {
	for _, q := range queues {
		keys = append(keys, q.key)
	}
	return keys
}

// fill adds jobs to a queue.
func (s *suite) fill(q member, jobs ...*backend.Add) {
	ginkgo.GinkgoHelper()
	for _, result := range q.AddBatch(s.ctx, jobs) {
		Expect(result.Err).NotTo(HaveOccurred())
	}
}

// start adds jobs to a queue and fetches them, each with its id as the token.
func (s *suite) start(q member, ids ...string) {
	ginkgo.GinkgoHelper()
	for _, id := range ids {
		s.fill(q, named(id))
		taken, err := q.MoveToActive(s.ctx, now, worker, id)
		Expect(err).NotTo(HaveOccurred())
		Expect(idOf(taken[0])).To(Equal(id))
	}
}

// serve makes one call for several queues.
func (s *suite) serve(tokens []string, ends []backend.QueueEnds, takes ...backend.Take) backend.Served {
	ginkgo.GinkgoHelper()
	served, err := s.Group.ServeQueues(s.ctx, backend.Serve{Now: now, Worker: worker, Tokens: tokens, Ends: ends, Takes: takes})()
	Expect(err).NotTo(HaveOccurred())
	Expect(served.Ends).To(HaveLen(len(ends)))
	for _, taken := range served.Takes {
		Expect(taken.Err).NotTo(HaveOccurred())
	}
	return served
}

// owned returns the jobs of a take, each with the token of its lock.
func owned(taken backend.Taken) (all []string) {
	for _, job := range taken.Jobs {
		all = append(all, job.Job.ID+" by "+job.Token)
	}
	return all
}

// seenBy returns what a call sees of one queue.
func (s *suite) seenBy(look backend.Look, q member) backend.Seen {
	ginkgo.GinkgoHelper()
	seen, err := s.Group.LookAtQueues(s.ctx, []string{q.key}, look)
	Expect(err).NotTo(HaveOccurred())
	if len(seen) == 0 {
		return backend.Seen{}
	}
	Expect(seen).To(HaveLen(1))
	return seen[0]
}

func (s *suite) group() {
	ginkgo.Describe("A call about several queues", func() {
		ginkgo.BeforeEach(func() {
			if s.Group == nil {
				ginkgo.Skip("the backend makes no calls about several queues")
			}
		})
		s.addingToMany()
		s.serving()
		s.servingAlike()
		s.upkeepOfMany()
		s.looks()
	})
}

func (s *suite) addingToMany() {
	ginkgo.It("adds plain jobs to each as an add to that queue does", func() {
		seed := rand.Uint64()
		ginkgo.By(fmt.Sprint("seed ", seed))
		for round := range 15 {
			random := rand.New(rand.NewPCG(seed, uint64(round)))
			about := fmt.Sprintf("round %d of seed %d", round, seed)
			count := 1 + random.IntN(4)
			together, apart := s.members(count), s.members(count)
			var adds []backend.QueueAdds
			var want [][]backend.AddResult
			for n := range count {
				var jobs []*backend.Add
				for i := range 1 + random.IntN(6) {
					job := plain(fmt.Sprint("job ", random.IntN(3)))
					job.Data, job.LIFO = fmt.Sprint(i), random.IntN(4) == 0
					switch random.IntN(4) {
					case 0:
						job.State, job.Priority = backend.Prioritized, 1+random.IntN(3)
					case 1:
						job.State, job.Delay = backend.Delayed, time.Duration(1+random.IntN(3))*time.Hour
					}
					jobs = append(jobs, job)
				}
				if random.IntN(4) == 0 {
					Expect(together[n].Pause(s.ctx)).To(Succeed())
					Expect(apart[n].Pause(s.ctx)).To(Succeed())
				}
				adds = append(adds, backend.QueueAdds{Queue: together[n].key, Jobs: jobs})
				want = append(want, apart[n].AddBatch(s.ctx, jobs))
			}
			results, err := s.Group.AddPlainJobs(s.ctx, adds)
			Expect(err).NotTo(HaveOccurred(), about)
			Expect(results).To(Equal(want), about)
			for n := range count {
				Expect(s.contentsOf(together[n])).To(Equal(s.contentsOf(apart[n])), "%s: queue %d", about, n)
				look := backend.Look{Quick: true}
				Expect(s.seenBy(look, together[n])).To(Equal(s.seenBy(look, apart[n])), "%s: queue %d", about, n)
			}
		}
	})
}
