package scripts

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

// A trait is a special property of a job that ends.
type trait struct {
	name   string
	turn   int // order of ending, in which jobs that affect others come later
	change func(f *fixture, id string, end *backend.End)
}

var traits = []trait{
	{"nothing", 0, func(*fixture, string, *backend.End) {}},
	{"an attempt before", 0, func(f *fixture, id string, _ *backend.End) { f.set("HSET", id, "atm", "2") }},
	{"nothing, and never had", 0, func(f *fixture, id string, end *backend.End) {
		f.set("HSET", id, "processedOn", "1", "pb", "blue")
		end.Hint = onlyBaseFields
	}},
	{"a parent since its start", 3, func(f *fixture, id string, end *backend.End) {
		f.set("HSET", id, "processedOn", "1", "pb", "blue", "parentKey", f.base+"p"+id, "parent", "{}")
		end.Hint = onlyBaseFields
	}},
	{"removed at once", 0, func(f *fixture, id string, end *backend.End) {
		f.set("RPUSH", id+":logs", "line")
		end.Keep = backend.Keep{Count: backend.Int(0)}
	}},
	{"the newest two kept", 1, func(_ *fixture, _ string, end *backend.End) { end.Keep = backend.Keep{Count: backend.Int(2)} }},
	{"kept by age", 2, func(_ *fixture, _ string, end *backend.End) {
		end.Keep = backend.Keep{Age: backend.Int(1000), Removals: backend.Int(1)}
	}},
	{"failed", 3, func(_ *fixture, _ string, end *backend.End) {
		end.Failure, end.Attempts = &backend.FailedAttempt{Reason: end.ReturnValue, StackTrace: `["a"]`}, 1
	}},
	{"failed, and the newest kept", 3, func(_ *fixture, _ string, end *backend.End) {
		end.Failure, end.Attempts = &backend.FailedAttempt{Reason: end.ReturnValue}, 3
		end.Keep = backend.Keep{Count: backend.Int(1)}
	}},
	{"failed for a reason without words", 3, func(_ *fixture, _ string, end *backend.End) { end.Failure, end.Attempts = &backend.FailedAttempt{}, 1 }},
	{"a parent", 3, func(f *fixture, id string, _ *backend.End) {
		f.set("HSET", id, "parentKey", f.base+"p"+id, "parent", fmt.Sprintf(`{"id":"p%s","queueKey":%q}`, id, f.base[:len(f.base)-1]))
		f.set("HSET", "p"+id, "name", "parent")
		f.set("ZADD", "waiting-children", "1", "p"+id)
		f.set("SADD", "p"+id+":dependencies", f.base+id)
	}},
	{"a deduplication id", 3, func(f *fixture, id string, _ *backend.End) {
		f.set("HSET", id, "deid", "d"+id)
		f.set("SET", "de:d"+id, id)
	}},
	{"no lock", 3, func(f *fixture, id string, _ *backend.End) { f.set("DEL", id+":lock") }},
	{"another's lock", 3, func(f *fixture, id string, _ *backend.End) { f.set("SET", id+":lock", "other") }},
	{"no hash", 3, func(f *fixture, id string, _ *backend.End) { f.set("DEL", id) }},
	{"no place in active", 3, func(f *fixture, id string, _ *backend.End) { f.set("LREM", "active", "1", id) }},
	{"a list where its hash should be", 3, func(f *fixture, id string, _ *backend.End) {
		f.set("DEL", id)
		f.set("RPUSH", id, "x")
	}},
	{"a pending child", 3, func(f *fixture, id string, _ *backend.End) { f.set("SADD", id+":dependencies", f.base+"child") }},
	{"a failed child", 3, func(f *fixture, id string, _ *backend.End) { f.set("ZADD", id+":unsuccessful", "1", f.base+"child") }},
}

var _ = ginkgo.Describe("Jobs that are ended or added in one call", func() {
	worker := backend.Worker{LockDuration: 30 * time.Second, Name: "blue"}

	ginkgo.It("are written as if ended one by one, each with its own outcome", func() {
		seed := rand.Uint64()
		ginkgo.By(fmt.Sprint("seed ", seed))
		for round := range rounds(150) {
			random := rand.New(rand.NewPCG(seed, uint64(round)))
			shuffle := random.Perm(9)[:1+random.IntN(9)]
			common := traits
			if round%2 == 0 { // since a child makes all jobs end one by one
				common = traits[:len(traits)-2]
			}
			var chosen []trait
			for range shuffle {
				chosen = append(chosen, common[random.IntN(len(common))])
			}
			slices.SortStableFunc(chosen, func(a, b trait) int { return a.turn - b.turn })
			shareValue := random.IntN(2) == 0
			waiting, delayed, points, dialect := random.IntN(3), random.IntN(2) == 0, random.IntN(2)*5, Dialect(random.IntN(2))
			arrange := func() (*fixture, []*backend.End) {
				f := newFixture(client)
				f.Dialect = dialect
				ends := make([]*backend.End, len(chosen))
				for n := range 3 {
					f.set("HSET", fmt.Sprint("old", n), "name", "old")
					f.set("ZADD", "completed", fmt.Sprint(n+1), fmt.Sprint("old", n))
				}
				for i := range shuffle { // so that the order in active differs from the order of ending
					f.running(fmt.Sprint("job", i), fmt.Sprint("t", i))
					f.set("HSET", fmt.Sprint("job", i), "ats", "1")
				}
				for n := range waiting {
					f.set("HSET", fmt.Sprint("next", n), "name", "next")
					f.set("LPUSH", "wait", fmt.Sprint("next", n))
				}
				if delayed {
					f.set("HSET", "later", "name", "later")
					f.set("ZADD", "delayed", fmt.Sprint((nowMs+60000)*4096), "later")
				}
				for i, t := range chosen {
					id := fmt.Sprint("job", slices.Index(slices.Sorted(slices.Values(shuffle)), shuffle[i]))
					ends[i] = &backend.End{JobID: id, Token: "t" + id[3:], ReturnValue: fmt.Sprintf(`"of %s"`, id)}
					if shareValue {
						ends[i].ReturnValue = "null"
					}
					t.change(f, id, ends[i])
				}
				return f, ends
			}

			together, ends := arrange()
			ends[len(ends)-1].Fetch = true
			all, err := together.MoveToFinished(together.ctx, backend.Finish{Now: now, MetricsPoints: points, Worker: worker, Ends: ends})()
			Expect(err).NotTo(HaveOccurred())
			oneByOne, ends := arrange()
			ends[len(ends)-1].Fetch = true
			for i, end := range ends {
				one, err := oneByOne.MoveToFinished(oneByOne.ctx, backend.Finish{Now: now, MetricsPoints: points, Worker: worker, Ends: []*backend.End{end}})()
				Expect(err).NotTo(HaveOccurred())
				about := fmt.Sprintf("round %d of seed %d: job %d of %d, %s", round, seed, i, len(ends), chosen[i].name)
				Expect(unnamed(all[i].Err, together)).To(Equal(unnamed(one[0].Err, oneByOne)), about)
				if i == len(ends)-1 {
					Expect(all[i].Next).To(Equal(one[0].Next), about)
				}
			}
			left, want := together.named(), oneByOne.named()
			Expect(left).To(Equal(want), "round %d of seed %d: %v", round, seed, chosen)
		}
	})

	ginkgo.It("are followed by a next job for each that asks for one", func() {
		f := newFixture(client)
		var ends []*backend.End
		for i := range 4 {
			f.running(fmt.Sprint("job", i), fmt.Sprint("t", i))
			f.set("HSET", fmt.Sprint("job", i), "ats", "1")
			ends = append(ends, &backend.End{JobID: fmt.Sprint("job", i), Token: fmt.Sprint("t", i), ReturnValue: "1", Fetch: i != 1})
		}
		f.set("DEL", "job0:lock")
		for n := range 3 {
			f.set("HSET", fmt.Sprint("next", n), "name", "next")
			f.set("LPUSH", "wait", fmt.Sprint("next", n))
		}
		ended, err := f.MoveToFinished(f.ctx, backend.Finish{Now: now, Worker: worker, Ends: ends})()
		Expect(err).NotTo(HaveOccurred())
		Expect(ended[0].Err).To(MatchError(backend.LockNotFound))
		taken := func(i int) string { return idOf(ended[i].Next) }
		Expect([]string{taken(0), taken(1), taken(2), taken(3)}).To(Equal([]string{"", "", "next0", "next1"}))
		Expect(f.do("MGET", f.base+"next0:lock", f.base+"next1:lock").AsStrSlice()).To(Equal([]string{"t2", "t3"}))
		Expect(f.do("LRANGE", f.base+"active", "0", "-1").AsStrSlice()).To(Equal([]string{"next1", "next0", "job0"}))
	})

	ginkgo.It("can be a thousand", func() {
		const many = 1000 // the largest BatchSize
		f := newFixture(client)
		tokens, ends, adds := make([]string, many), make([]*backend.End, many), make([]*backend.Add, many)
		for i := range adds {
			tokens[i] = fmt.Sprint("t", i)
			adds[i] = &backend.Add{State: backend.Waiting, Name: "paint", Data: fmt.Sprint(i), Opts: "{}", Timestamp: time.UnixMilli(1)}
		}
		for range 2 {
			Expect(idsOf(f.AddBatch(f.ctx, adds))[many-1]).To(HaveSuffix("000"))
		}
		taken, err := f.MoveToActive(f.ctx, now, worker, tokens...)
		Expect(err).NotTo(HaveOccurred())
		for i, t := range taken {
			Expect(idOf(t)).To(Equal(fmt.Sprint(i + 1)))
			Expect(string(t.Job.Data)).To(Equal(fmt.Sprint(i)))
			ends[i] = &backend.End{JobID: t.Job.ID, Token: tokens[i], ReturnValue: fmt.Sprint(i), Hint: t.Hint, Fetch: true}
		}
		ended, err := f.MoveToFinished(f.ctx, backend.Finish{Now: now, Worker: worker, Ends: ends})()
		Expect(err).NotTo(HaveOccurred())
		for i, e := range ended {
			Expect(e.Err).NotTo(HaveOccurred())
			Expect(idOf(e.Next)).To(Equal(fmt.Sprint(many + i + 1)))
			Expect(f.do("HGET", f.base+fmt.Sprint(i+1), "returnvalue").ToString()).To(Equal(fmt.Sprint(i)))
		}
		Expect(f.do("ZCARD", f.base+"completed").AsInt64()).To(BeEquivalentTo(many))
		Expect(f.do("LLEN", f.base+"active").AsInt64()).To(BeEquivalentTo(many))
	})

	ginkgo.It("have the ids that are returned, even beyond the precision of Lua numbers", func() {
		for _, before := range []string{"0", "8", "99", "19999", "99999999999998"} {
			f := newFixture(client)
			f.set("SET", "id", before)
			add := &backend.Add{State: backend.Waiting, Name: "paint", Data: "{}", Opts: "{}", Timestamp: time.UnixMilli(1)}
			ids := idsOf(f.AddBatch(f.ctx, []*backend.Add{add, add}))
			Expect(f.do("LRANGE", f.base+"wait", "0", "-1").AsStrSlice()).To(Equal([]string{ids[1], ids[0]}), before)
			Expect(f.do("EXISTS", f.base+ids[0], f.base+ids[1]).AsInt64()).To(BeEquivalentTo(2), before)
		}
	})
})

func unnamed(err error, f *fixture) string {
	var refused *backend.Error
	if errors.As(err, &refused) {
		return strings.ReplaceAll(err.Error(), refused.QueueName, "queue")
	}
	return strings.ReplaceAll(fmt.Sprint(err), f.base, "queue:")
}

var _ = ginkgo.Describe("A fetch of several jobs", func() {
	ginkgo.It("writes the same as several fetches of one job", func() {
		seed := rand.Uint64()
		for round := range rounds(100) {
			random := rand.New(rand.NewPCG(seed, uint64(round)))
			waiting, ranked, due, later := random.IntN(4), random.IntN(3), random.IntN(3), random.IntN(2)
			worker := backend.Worker{LockDuration: 30 * time.Second}
			if random.IntN(3) == 0 {
				worker.Limit = backend.RateLimit{Max: 1 + random.IntN(4), Duration: 30 * time.Second}
			}
			settings := [][]string{{"paused", "1"}, {"concurrency", "2"}, {"max", "2", "duration", "30000"}}
			setting := random.IntN(8)
			odd, dialect := random.IntN(4), Dialect(random.IntN(2))
			arrange := func() *fixture {
				f := newFixture(client)
				f.Dialect = dialect
				f.set("SET", "pc", "7")
				if setting < len(settings) {
					f.set("HSET", "meta", settings[setting]...)
				}
				put := func(kind string, n int, change func(id string)) {
					for i := range n {
						id := fmt.Sprint(kind, i)
						f.set("HSET", id, "name", kind, "data", "{}")
						change(id)
					}
				}
				put("w", waiting, func(id string) { f.set("LPUSH", "wait", id) })
				put("r", ranked, func(id string) { f.set("ZADD", "prioritized", "5", id) })
				put("d", due, func(id string) { f.set("ZADD", "delayed", fmt.Sprint(nowMs*4096), id) })
				put("l", later, func(id string) { f.set("ZADD", "delayed", fmt.Sprint((nowMs+60000)*4096), id) })
				switch odd {
				case 0:
					f.set("RPUSH", "wait", "0:3") // from BullMQ 4
				case 1:
					put("w", 1, func(id string) { f.set("HSET", id, "defa", "a child failed") })
				case 2:
					f.set("SET", "s", "no hash")
					f.set("RPUSH", "wait", "s")
				}
				return f
			}
			const most = 6
			tokens := make([]string, most)
			for i := range tokens {
				tokens[i] = fmt.Sprint("t", i)
			}
			together := arrange()
			all, err := together.MoveToActive(together.ctx, now, worker, tokens...)
			Expect(err).NotTo(HaveOccurred())
			oneByOne := arrange()
			about := fmt.Sprintf("round %d of seed %d", round, seed)
			for i, token := range tokens {
				one, err := oneByOne.MoveToActive(oneByOne.ctx, now, worker, token)
				Expect(err).NotTo(HaveOccurred())
				Expect(all[i].Job).To(Equal(one[0].Job), about)
				if one[0].Job == nil {
					Expect(all[i].Unknown).To(Equal(i > 0), about)
					if i == 0 {
						Expect(all[i]).To(Equal(one[0]), about)
					}
					break
				}
			}
			Expect(together.named()).To(Equal(oneByOne.named()), about)
		}
	})

	ginkgo.It("ends early after large jobs and reports that there may be more", func() {
		f := newFixture(client)
		large := make([]byte, 600000)
		for i := range 3 {
			f.set("HSET", fmt.Sprint("j", i), "name", "n", "data", string(large))
			f.set("LPUSH", "wait", fmt.Sprint("j", i))
		}
		all, err := f.MoveToActive(f.ctx, now, backend.Worker{LockDuration: 30 * time.Second}, "a", "b", "c")
		Expect(err).NotTo(HaveOccurred())
		Expect([]string{idOf(all[0]), idOf(all[1]), idOf(all[2])}).To(Equal([]string{"j0", "j1", ""}))
		Expect(all[2].Unknown).To(BeTrue())
	})
})
