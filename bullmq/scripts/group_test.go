package scripts

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/redisconn"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

// group returns a Group of the dialect of a queue.
func (f *fixture) group() *Group { return NewGroup(f.client, f.Dialect) }

// serve makes a call of serveQueues.
func (f *fixture) serve(s backend.Serve) (backend.Served, error) {
	return f.group().ServeQueues(f.ctx, s)()
}

// takenIDs returns the ids of the jobs of each take, with their tokens.
func takenIDs(takes []backend.Taken) (ids [][]string) {
	for _, taken := range takes {
		of := []string{}
		for _, job := range taken.Jobs {
			of = append(of, job.Job.ID+" "+job.Token)
		}
		ids = append(ids, of)
	}
	return ids
}

// wait adds waiting jobs of these names to a queue.
func (f *fixture) wait(ids ...string) {
	ginkgo.GinkgoHelper()
	for _, id := range ids {
		f.set("HSET", id, "name", "paint", "data", "{}", "opts", "{}", "timestamp", "1", "delay", "0", "priority", "0")
		f.set("LPUSH", "wait", id)
	}
}

// A mix is a random queue, with jobs that end and jobs to fetch.
type mix struct {
	traits                      []trait
	waiting, ranked, due, later int
	setting, odd, marked        int
	most                        int // of its take; 0 for none
	limit                       backend.RateLimit
	sharedValue                 bool
}

func newMix(random *rand.Rand) mix {
	m := mix{
		waiting: random.IntN(4), ranked: random.IntN(3), due: random.IntN(3), later: random.IntN(2),
		setting: random.IntN(9), odd: random.IntN(8), marked: random.IntN(3),
		most: random.IntN(5), sharedValue: random.IntN(2) == 0,
	}
	common := traits
	if random.IntN(2) == 0 { // since a child makes all jobs end one by one
		common = traits[:len(traits)-2]
	}
	for range random.IntN(5) {
		m.traits = append(m.traits, common[random.IntN(len(common))])
	}
	slices.SortStableFunc(m.traits, func(a, b trait) int { return a.turn - b.turn })
	if random.IntN(4) == 0 {
		m.limit = backend.RateLimit{Max: 1 + random.IntN(4), Duration: 30 * time.Second}
	}
	return m
}

// arrange makes the queue, and returns the ends of its jobs.
func (m mix) arrange(client rueidis.Client, dialect Dialect) (*fixture, []*backend.End) {
	f := newFixture(client)
	f.Dialect = dialect
	put := func(kind string, n int, place func(id string)) {
		for i := range n {
			id := fmt.Sprint(kind, i)
			f.set("HSET", id, "name", kind, "data", "{}", "opts", "{}", "timestamp", "11", "delay", "0", "priority", "0")
			place(id)
		}
	}
	for i := range m.traits {
		f.running(fmt.Sprint("job", i), fmt.Sprint("t", i))
		f.set("HSET", fmt.Sprint("job", i), "ats", "1")
	}
	put("old", 2, func(id string) { f.set("ZADD", "completed", "1"+id[3:], id) })
	put("w", m.waiting, func(id string) { f.set("LPUSH", "wait", id) })
	put("r", m.ranked, func(id string) { f.set("ZADD", "prioritized", "5", id) })
	put("d", m.due, func(id string) { f.set("ZADD", "delayed", fmt.Sprint(nowMs*4096), id) })
	put("l", m.later, func(id string) { f.set("ZADD", "delayed", fmt.Sprint((nowMs+60001)*4096), id) })
	settings := [][]string{{"paused", "1"}, {"concurrency", "2"}, {"max", "2", "duration", "30000"}}
	if m.setting < len(settings) {
		f.set("HSET", "meta", settings[m.setting]...)
	}
	switch m.odd {
	case 0:
		f.set("RPUSH", "wait", "0:3") // from BullMQ 4
	case 1:
		put("defa", 1, func(id string) { f.set("HSET", id, "defa", "a child failed"); f.set("LPUSH", "wait", id) })
	case 2:
		f.set("SET", "s", "no hash")
		f.set("RPUSH", "wait", "s")
	}
	if m.marked > 0 {
		f.set("ZADD", "marker", "0", "0")
	}
	if m.marked > 1 {
		f.set("ZADD", "marker", fmt.Sprint(nowMs+5), "1")
	}
	var ends []*backend.End
	for i, t := range m.traits {
		id := fmt.Sprint("job", i)
		end := &backend.End{JobID: id, Token: fmt.Sprint("t", i), ReturnValue: fmt.Sprintf(`"of %s"`, id)}
		if m.sharedValue {
			end.ReturnValue = "null"
		}
		t.change(f, id, end)
		ends = append(ends, end)
	}
	return f, ends
}

// withoutDrained returns the state without the event drained.
func withoutDrained(state map[string]string) map[string]string {
	state["events"] = strings.Join(strings.Fields(strings.ReplaceAll(state["events"], "[{event drained}]", "")), " ")
	return state
}

// sameAsOneByOne compares one call of serveQueues with those of moveToFinished and
// moveToActive on each queue.
func sameAsOneByOne(client rueidis.Client, rounds int) {
	ginkgo.GinkgoHelper()
	seed := rand.Uint64()
	ginkgo.By(fmt.Sprint("seed ", seed))
	worker := backend.Worker{LockDuration: 30 * time.Second, Name: "blue"}
	for round := range rounds {
		random := rand.New(rand.NewPCG(seed, uint64(round)))
		dialect, points := Dialect(random.IntN(2)), random.IntN(2)*5
		var mixes []mix
		for range 1 + random.IntN(4) {
			mixes = append(mixes, newMix(random))
		}
		about := fmt.Sprintf("round %d of seed %d", round, seed)
		s := backend.Serve{Now: now, MetricsPoints: points, Worker: worker}
		for i := range 1 + random.IntN(8) {
			s.Tokens = append(s.Tokens, fmt.Sprint("new", i))
		}
		together, apart := make([]*fixture, len(mixes)), make([]*fixture, len(mixes))
		var alone [][]error
		for n, m := range mixes {
			f, ends := m.arrange(client, dialect)
			together[n] = f
			if len(ends) > 0 {
				s.Ends = append(s.Ends, backend.QueueEnds{Queue: f.base, Ends: ends})
			}
			apart[n], ends = m.arrange(client, dialect)
			if len(ends) > 0 {
				ended, err := apart[n].MoveToFinished(f.ctx, backend.Finish{Now: now, MetricsPoints: points, Worker: worker, Ends: ends})()
				Expect(err).NotTo(HaveOccurred(), about)
				var errs []error
				for _, one := range ended {
					errs = append(errs, one.Err)
				}
				alone = append(alone, errs)
			}
		}
		order := random.Perm(len(mixes))
		order = slices.DeleteFunc(order, func(n int) bool { return mixes[n].most == 0 })
		for _, n := range order {
			s.Takes = append(s.Takes, backend.Take{Queue: together[n].base, Most: mixes[n].most, Limit: mixes[n].limit})
		}

		if len(s.Ends)+len(s.Takes) == 0 {
			continue
		}
		served, err := together[0].serve(s)
		Expect(err).NotTo(HaveOccurred(), about)
		Expect(served.Ends).To(HaveLen(len(s.Ends)), about)
		for i, ended := range served.Ends {
			Expect(ended.Err).NotTo(HaveOccurred(), about)
			for j, why := range ended.Errs {
				Expect(codeOf(why)).To(Equal(codeOf(alone[i][j])), about)
			}
		}

		tokens, made := s.Tokens, map[int]backend.Taken{}
		for i, n := range order {
			if len(tokens) == 0 {
				Expect(served.Takes).To(HaveLen(i), about)
				break
			}
			taken := served.Takes[i]
			made[n] = taken
			Expect(taken.Err).NotTo(HaveOccurred(), about)
			w := worker
			w.Limit = mixes[n].limit
			one, err := apart[n].MoveToActive(apart[n].ctx, now, w, tokens[:min(mixes[n].most, len(tokens))]...)
			Expect(err).NotTo(HaveOccurred(), about)
			var want []backend.TakenJob
			for j, fetched := range one {
				if fetched.Job != nil {
					want = append(want, backend.TakenJob{Job: fetched.Job, Hint: fetched.Hint, Token: tokens[j]})
				}
			}
			for _, job := range append(slices.Clone(taken.Jobs), want...) {
				job.Job.Parent = backend.JobRef{}
			}
			Expect(taken.Jobs).To(Equal(want), about)
			if len(want) == 0 {
				Expect(taken.LimitedFor.Round(10*time.Second)).To(Equal(one[0].LimitedFor.Round(10*time.Second)), about)
				Expect(taken.NextDue).To(Equal(one[0].NextDue), about)
			}
			tokens = tokens[len(want):]
			left, err := apart[n].do("EVAL", "return redis.call('LLEN', KEYS[1]) + redis.call('ZCARD', KEYS[2])", "2", apart[n].base+"wait", apart[n].base+"prioritized").AsInt64()
			Expect(err).NotTo(HaveOccurred(), about)
			if taken.Dry {
				Expect(left).To(BeZero(), about)
				Expect(apart[n].do("ZREM", apart[n].base+"marker", "0").Error()).To(Succeed())
			}
		}
		for n := range mixes {
			got, want := together[n].named(), apart[n].named()
			if _, took := made[n]; took {
				got, want = withoutDrained(got), withoutDrained(want)
			}
			Expect(got).To(Equal(want), "%s: queue %d, %+v", about, n, mixes[n])
		}
	}
}

// codeOf returns the code of a refused job, 0 for none, and 1 for another error.
func codeOf(err error) backend.Code {
	var refused *backend.Error
	switch {
	case err == nil:
		return 0
	case errors.As(err, &refused):
		return refused.Code
	}
	return 1
}

// inProcess returns a client of an in-process Redis.
func inProcess() rueidis.Client {
	ginkgo.GinkgoHelper()
	mini := miniredis.RunT(ginkgo.GinkgoT())
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{mini.Addr()}, DisableCache: true, ForceSingleClient: true})
	Expect(err).NotTo(HaveOccurred())
	ginkgo.DeferCleanup(client.Close)
	return client
}

var _ = ginkgo.Describe("A call that serves several queues", func() {
	worker := backend.Worker{LockDuration: 30 * time.Second, Name: "blue"}

	ginkgo.It("writes and returns the same as calls of each queue", func() { sameAsOneByOne(client, rounds(150)) })
	ginkgo.It("does so on an in-process Redis", func() { sameAsOneByOne(inProcess(), rounds(25)) })

	ginkgo.It("writes and returns the same for one queue as the call that finishes jobs and fetches the next", func() {
		seed := rand.Uint64()
		ginkgo.By(fmt.Sprint("seed ", seed))
		for round := range rounds(100) {
			random := rand.New(rand.NewPCG(seed, uint64(round)))
			dialect, m := Dialect(random.IntN(2)), newMix(random)
			m.traits = append(m.traits, traits[0]) // which is not refused, so that moveToFinished fetches
			about := fmt.Sprintf("round %d of seed %d: %+v", round, seed, m)
			f, ends := m.arrange(client, dialect)
			last := ends[len(ends)-1]
			served, err := f.serve(backend.Serve{
				Now: now, Worker: worker, Ends: []backend.QueueEnds{{Queue: f.base, Ends: ends}},
				Takes: []backend.Take{{Queue: f.base, Most: 3, Limit: m.limit}}, Tokens: []string{last.Token},
			})
			Expect(err).NotTo(HaveOccurred(), about)
			one, ends := m.arrange(client, dialect)
			ends[len(ends)-1].Fetch = true
			w := worker
			w.Limit = m.limit
			ended, err := one.MoveToFinished(one.ctx, backend.Finish{Now: now, Worker: w, Ends: ends})()
			Expect(err).NotTo(HaveOccurred(), about)
			Expect(ended[len(ends)-1].Err).NotTo(HaveOccurred(), about)
			taken := served.Takes[0]
			if next := ended[len(ends)-1].Next; next.Job == nil {
				Expect(taken.Jobs).To(BeEmpty(), about)
				Expect(taken.NextDue).To(Equal(next.NextDue), about)
			} else {
				Expect(taken.Jobs).To(HaveLen(1), about)
				Expect(taken.Jobs[0].Job.ID).To(Equal(next.Job.ID), about)
			}
			if taken.Dry {
				Expect(one.do("ZREM", one.base+"marker", "0").Error()).To(Succeed())
			}
			Expect(f.named()).To(Equal(one.named()), about)
		}
	})

	ginkgo.It("leaves the tokens that a queue does not use to the next ones", func() {
		var queues []*fixture
		s := backend.Serve{Now: now, Worker: worker, Tokens: []string{"t1", "t2", "t3", "t4"}}
		for n := range 4 {
			f := newFixture(client)
			queues = append(queues, f)
			s.Takes = append(s.Takes, backend.Take{Queue: f.base, Most: 4})
			for i := range n {
				f.wait(fmt.Sprintf("q%d-%d", n, i))
			}
		}
		queues[2].set("HSET", "meta", "paused", "1")
		served, err := queues[0].serve(s)
		Expect(err).NotTo(HaveOccurred())
		Expect(takenIDs(served.Takes)).To(Equal([][]string{{}, {"q1-0 t1"}, {}, {"q3-0 t2", "q3-1 t3", "q3-2 t4"}}))
		Expect([]bool{served.Takes[0].Dry, served.Takes[1].Dry, served.Takes[2].Dry, served.Takes[3].Dry}).To(Equal([]bool{true, true, false, false}))
		Expect(queues[3].do("GET", queues[3].base+"q3-2:lock").ToString()).To(Equal("t4"))

		s.Tokens, s.Takes = []string{"t5"}, []backend.Take{{Queue: queues[3].base, Most: 1}, {Queue: queues[0].base, Most: 1}}
		queues[3].wait("last")
		served, err = queues[0].serve(s)
		Expect(err).NotTo(HaveOccurred())
		Expect(takenIDs(served.Takes)).To(Equal([][]string{{"last t5"}}), "no token is left for the other")
	})

	ginkgo.It("removes the marker of a queue that is dry, but not the time of a delayed job, which it returns", func() {
		f := newFixture(client)
		f.wait("a", "b")
		f.set("HSET", "later", "name", "later")
		f.set("ZADD", "delayed", fmt.Sprint((nowMs+60001)*4096), "later")
		f.set("ZADD", "marker", "0", "0", fmt.Sprint(nowMs+60001), "1")
		take := func(tokens ...string) backend.Taken {
			served, err := f.serve(backend.Serve{Now: now, Worker: worker, Tokens: tokens, Takes: []backend.Take{{Queue: f.base, Most: len(tokens)}}})
			Expect(err).NotTo(HaveOccurred())
			return served.Takes[0]
		}
		marker := func() ([]string, error) { return f.do("ZRANGE", f.base+"marker", "0", "-1").AsStrSlice() }
		first := take("t1")
		Expect(first.Jobs).To(HaveLen(1))
		Expect(first.Dry).To(BeFalse())
		Expect(marker()).To(Equal([]string{"0", "1"}))
		second := take("t2", "t3")
		Expect(second.Jobs).To(HaveLen(1))
		Expect(second.Dry).To(BeTrue())
		Expect(second.NextDue).To(Equal(time.UnixMilli(nowMs + 60001)))
		Expect(marker()).To(Equal([]string{"1"}))
		f.set("HSET", "meta", "paused", "1")
		f.set("ZADD", "marker", "0", "0")
		Expect(take("t4")).To(Equal(backend.Taken{}), "the queue is paused")
		Expect(marker()).To(Equal([]string{"0", "1"}))
	})

	ginkgo.It("emits drained once its last job has ended, unless it fetches one", func() {
		f, other := newFixture(client), newFixture(client)
		serve := func(id string, takes ...backend.Take) string {
			f.set("DEL", "events")
			_, err := f.serve(backend.Serve{
				Now: now, Worker: worker, Tokens: []string{"t"}, Takes: takes,
				Ends: []backend.QueueEnds{{Queue: f.base, Ends: []*backend.End{{JobID: id, Token: "t", ReturnValue: "1"}}}},
			})
			Expect(err).NotTo(HaveOccurred())
			return f.told()
		}
		const drained = "[{event drained}]"
		f.running("a", "t")
		Expect(serve("a")).To(HaveSuffix(drained))
		f.running("b", "t")
		Expect(serve("b", backend.Take{Queue: other.base, Most: 1}, backend.Take{Queue: f.base, Most: 1})).To(HaveSuffix(drained))
		f.running("c", "t")
		f.wait("next")
		Expect(serve("c", backend.Take{Queue: f.base, Most: 1})).NotTo(ContainSubstring(drained))
		f.running("d", "t")
		Expect(serve("d", backend.Take{Queue: other.base, Most: 1})).NotTo(ContainSubstring(drained), "a job is active")
		Expect(serve("nobody")).To(BeEmpty())
	})

	ginkgo.It("fails for a queue of which it can't read whether jobs wait, as moveToFinished does", func() {
		f := newFixture(client)
		f.running("a", "t")
		f.set("SET", "wait", "no list")
		served, err := f.serve(backend.Serve{
			Now: now, Worker: worker, Ends: []backend.QueueEnds{{Queue: f.base, Ends: []*backend.End{{JobID: "a", Token: "t", ReturnValue: "1"}}}},
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(served.Ends[0].Err).To(MatchError(ContainSubstring("WRONGTYPE")))
	})

	ginkgo.DescribeTable("fails for a broken queue alone, which is", func(at int) {
		var queues []*fixture
		s := backend.Serve{Now: now, Worker: worker, Tokens: []string{"n1", "n2", "n3", "n4", "n5", "n6"}}
		for n := range 3 {
			f := newFixture(client)
			queues = append(queues, f)
			f.running("a", "t")
			f.wait("b", "c")
			s.Ends = append(s.Ends, backend.QueueEnds{Queue: f.base, Ends: []*backend.End{{JobID: "a", Token: "t", ReturnValue: "1"}}})
			s.Takes = append(s.Takes, backend.Take{Queue: f.base, Most: 2})
			if n == at {
				f.set("SET", "active", "no list")
				f.set("SET", "wait", "no list")
			}
		}
		served, err := queues[0].serve(s)
		Expect(err).NotTo(HaveOccurred())
		for n := range 3 {
			ended, taken := served.Ends[n], served.Takes[n]
			if n == at {
				Expect(errors.Join(append(ended.Errs, ended.Err)...)).To(MatchError(ContainSubstring("WRONGTYPE")))
				Expect(taken.Err).To(MatchError("bullmq: serveQueues: queue " + shown(queues[n].base) + ": " + textOf(taken.Err)))
				Expect(taken.Err).To(MatchError(ContainSubstring("WRONGTYPE")))
				Expect(redisconn.Classify(taken.Err)).To(Equal(backend.Aborted))
				Expect(taken.Tokens).To(Equal(s.Tokens[2*n:2*n+2]), "which it may have used")
				continue
			}
			Expect(ended).To(Equal(backend.QueueEnded{Errs: []error{nil}}))
			Expect(takenIDs([]backend.Taken{taken})).To(Equal([][]string{{"b " + s.Tokens[2*n], "c " + s.Tokens[2*n+1]}}))
			Expect(queues[n].do("LRANGE", queues[n].base+"active", "0", "-1").AsStrSlice()).To(Equal([]string{"c", "b"}))
		}
	},
		ginkgo.Entry("the first", 0), ginkgo.Entry("in the middle", 1), ginkgo.Entry("the last", 2))

	ginkgo.It("fails as a whole if the server refuses all writes, and then nothing was written", func() {
		server, err := redisserver.Start(redisserver.Options{})
		Expect(err).NotTo(HaveOccurred())
		ginkgo.DeferCleanup(server.Close)
		client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true, AlwaysPipelining: true, PipelineMultiplex: -1})
		Expect(err).NotTo(HaveOccurred())
		ginkgo.DeferCleanup(client.Close)
		paused, f := newFixture(client), newFixture(client)
		paused.set("HSET", "meta", "paused", "1")
		f.running("a", "t")
		f.wait("b")
		before := f.state()
		for _, refusal := range []struct {
			words []string
			kind  backend.Failure
		}{
			{[]string{"CONFIG", "SET", "min-replicas-to-write", "1"}, backend.Exhausted},
			{[]string{"REPLICAOF", "127.0.0.1", "1"}, backend.Unavailable},
		} {
			Expect(f.do(refusal.words...).Error()).To(Succeed())
			_, err = f.serve(backend.Serve{
				Now: now, Worker: worker, Tokens: []string{"n1"},
				Takes: []backend.Take{{Queue: paused.base, Most: 1}, {Queue: f.base, Most: 1}},
			})
			Expect(redisconn.Classify(err)).To(Equal(refusal.kind), fmt.Sprint(err))
			Expect(err).To(MatchError(ContainSubstring("serveQueues on " + shown(paused.base) + " and 1 more queues: ")))
			Expect(f.state()).To(Equal(before))
		}
	})

	ginkgo.It("makes no more fetches once the jobs are large", func() {
		large := strings.Repeat("x", 600000)
		s := backend.Serve{Now: now, Worker: worker}
		var f *fixture
		for n := range 4 {
			f = newFixture(client)
			f.wait("a")
			f.set("HSET", "a", "data", large)
			s.Takes = append(s.Takes, backend.Take{Queue: f.base, Most: 2})
			s.Tokens = append(s.Tokens, fmt.Sprint("n", n))
		}
		served, err := f.serve(s)
		Expect(err).NotTo(HaveOccurred())
		Expect(takenIDs(served.Takes)).To(Equal([][]string{{"a n0"}, {"a n1"}}))
	})

	ginkgo.It("can concern 500 queues and 1,000 jobs", func() {
		const many = 500
		queues, s := make([]*fixture, many), backend.Serve{Now: now, Worker: worker}
		for n := range queues {
			queues[n] = newFixture(client)
			queues[n].wait("a", "b", "c")
			s.Takes = append(s.Takes, backend.Take{Queue: queues[n].base, Most: 2})
			s.Tokens = append(s.Tokens, fmt.Sprint("x", n), fmt.Sprint("y", n))
		}
		served, err := queues[0].serve(s)
		Expect(err).NotTo(HaveOccurred())
		Expect(served.Takes).To(HaveLen(many))
		for n, taken := range served.Takes {
			ends := []*backend.End{}
			for _, job := range taken.Jobs {
				ends = append(ends, &backend.End{JobID: job.Job.ID, Token: job.Token, ReturnValue: fmt.Sprint(n), Hint: job.Hint})
			}
			Expect(ends).To(HaveLen(2))
			s.Ends = append(s.Ends, backend.QueueEnds{Queue: queues[n].base, Ends: ends})
			s.Tokens[2*n] = fmt.Sprint("z", n)
		}
		s.Tokens = slices.DeleteFunc(s.Tokens, func(token string) bool { return token[0] == 'y' })
		served, err = queues[0].serve(s)
		Expect(err).NotTo(HaveOccurred())
		for n, taken := range served.Takes {
			Expect(served.Ends[n]).To(Equal(backend.QueueEnded{Errs: []error{nil, nil}}))
			Expect(takenIDs([]backend.Taken{taken})).To(Equal([][]string{{fmt.Sprint("c z", n)}}))
			Expect(queues[n].do("HGET", queues[n].base+"b", "returnvalue").ToString()).To(Equal(fmt.Sprint(n)))
		}
	})
})

// textOf returns the text of the server's error.
func textOf(err error) string {
	var of *backend.QueueError
	Expect(errors.As(err, &of)).To(BeTrue())
	return of.Text
}
