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
	change func(f *fixture, id string, end *End)
}

var traits = []trait{
	{"nothing", 0, func(*fixture, string, *End) {}},
	{"an attempt before", 0, func(f *fixture, id string, _ *End) { f.set("HSET", id, "atm", "2") }},
	{"nothing, and never had", 0, func(f *fixture, id string, end *End) {
		f.set("HSET", id, "processedOn", "1", "pb", "blue")
		end.Bare = true
	}},
	{"a parent since its start", 3, func(f *fixture, id string, end *End) {
		f.set("HSET", id, "processedOn", "1", "pb", "blue", "parentKey", f.base+"p"+id, "parent", "{}")
		end.Bare = true
	}},
	{"removed at once", 0, func(f *fixture, id string, end *End) {
		f.set("RPUSH", id+":logs", "line")
		end.Keep = Keep{Count: "0"}
	}},
	{"the newest two kept", 1, func(_ *fixture, _ string, end *End) { end.Keep = Keep{Count: "2"} }},
	{"kept by age", 2, func(_ *fixture, _ string, end *End) { end.Keep = Keep{Age: "1000", Limit: "1"} }},
	{"failed", 3, func(_ *fixture, _ string, end *End) {
		end.Failed, end.Attempts, end.Fields = true, 1, []string{"stacktrace", `["a"]`}
	}},
	{"failed, and the newest kept", 3, func(_ *fixture, _ string, end *End) {
		end.Failed, end.Attempts, end.Keep = true, 3, Keep{Count: "1"}
	}},
	{"failed for a reason without words", 3, func(_ *fixture, _ string, end *End) { end.Failed, end.Attempts, end.Value = true, 1, "" }},
	{"a parent", 3, func(f *fixture, id string, _ *End) {
		f.set("HSET", id, "parentKey", f.base+"p"+id, "parent", fmt.Sprintf(`{"id":"p%s","queueKey":%q}`, id, f.base[:len(f.base)-1]))
		f.set("HSET", "p"+id, "name", "parent")
		f.set("ZADD", "waiting-children", "1", "p"+id)
		f.set("SADD", "p"+id+":dependencies", f.base+id)
	}},
	{"a deduplication id", 3, func(f *fixture, id string, _ *End) {
		f.set("HSET", id, "deid", "d"+id)
		f.set("SET", "de:d"+id, id)
	}},
	{"no lock", 3, func(f *fixture, id string, _ *End) { f.set("DEL", id+":lock") }},
	{"another's lock", 3, func(f *fixture, id string, _ *End) { f.set("SET", id+":lock", "other") }},
	{"no hash", 3, func(f *fixture, id string, _ *End) { f.set("DEL", id) }},
	{"no place in active", 3, func(f *fixture, id string, _ *End) { f.set("LREM", "active", "1", id) }},
	{"a list where its hash should be", 3, func(f *fixture, id string, _ *End) {
		f.set("DEL", id)
		f.set("RPUSH", id, "x")
	}},
	{"a pending child", 3, func(f *fixture, id string, _ *End) { f.set("SADD", id+":dependencies", f.base+"child") }},
	{"a failed child", 3, func(f *fixture, id string, _ *End) { f.set("ZADD", id+":unsuccessful", "1", f.base+"child") }},
}

var _ = ginkgo.Describe("Jobs that are ended or added in one call", func() {
	worker := Worker{LockMs: 30000, Name: "blue"}

	ginkgo.It("are written as if ended one by one, each with its own outcome", func() {
		seed := rand.Uint64()
		ginkgo.By(fmt.Sprint("seed ", seed))
		for round := range 150 {
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
			waiting, delayed, points, dialect := random.IntN(3), random.IntN(2) == 0, int64(random.IntN(2)*5), Dialect(random.IntN(2))
			arrange := func() (*fixture, []*End) {
				f := newFixture(client)
				f.Dialect = dialect
				ends := make([]*End, len(chosen))
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
					ends[i] = &End{JobID: id, Token: "t" + id[3:], Value: fmt.Sprintf(`"of %s"`, id)}
					if shareValue {
						ends[i].Value = "null"
					}
					t.change(f, id, ends[i])
				}
				return f, ends
			}

			together, ends := arrange()
			ends[len(ends)-1].Fetch = true
			all, err := together.Finish(together.ctx, Finish{NowMs: nowMs, Points: points, Worker: worker, Ends: ends})()
			Expect(err).NotTo(HaveOccurred())
			oneByOne, ends := arrange()
			ends[len(ends)-1].Fetch = true
			for i, end := range ends {
				one, err := oneByOne.Finish(oneByOne.ctx, Finish{NowMs: nowMs, Points: points, Worker: worker, Ends: []*End{end}})()
				Expect(err).NotTo(HaveOccurred())
				about := fmt.Sprintf("round %d of seed %d: job %d of %d, %s", round, seed, i, len(ends), chosen[i].name)
				Expect(unnamed(all[i].Err, together)).To(Equal(unnamed(one[0].Err, oneByOne)), about)
				if i == len(ends)-1 {
					Expect(all[i].Taken.JobID).To(Equal(one[0].Taken.JobID), about)
				}
			}
			left, want := together.named(), oneByOne.named()
			Expect(left).To(Equal(want), "round %d of seed %d: %v", round, seed, chosen)
		}
	})

	ginkgo.It("are followed by a next job for each that asks for one", func() {
		f := newFixture(client)
		var ends []*End
		for i := range 4 {
			f.running(fmt.Sprint("job", i), fmt.Sprint("t", i))
			f.set("HSET", fmt.Sprint("job", i), "ats", "1")
			ends = append(ends, &End{JobID: fmt.Sprint("job", i), Token: fmt.Sprint("t", i), Value: "1", Fetch: i != 1})
		}
		f.set("DEL", "job0:lock")
		for n := range 3 {
			f.set("HSET", fmt.Sprint("next", n), "name", "next")
			f.set("LPUSH", "wait", fmt.Sprint("next", n))
		}
		ended, err := f.Finish(f.ctx, Finish{NowMs: nowMs, Worker: worker, Ends: ends})()
		Expect(err).NotTo(HaveOccurred())
		Expect(ended[0].Err).To(MatchError(backend.LockNotFound))
		taken := func(i int) string { return ended[i].Taken.JobID }
		Expect([]string{taken(0), taken(1), taken(2), taken(3)}).To(Equal([]string{"", "", "next0", "next1"}))
		Expect(f.do("MGET", f.base+"next0:lock", f.base+"next1:lock").AsStrSlice()).To(Equal([]string{"t2", "t3"}))
		Expect(f.do("LRANGE", f.base+"active", "0", "-1").AsStrSlice()).To(Equal([]string{"next1", "next0", "job0"}))
	})

	ginkgo.It("can be a thousand", func() {
		const many = 1000 // the largest BatchSize
		f := newFixture(client)
		tokens, ends, adds := make([]string, many), make([]*End, many), make([]*backend.Add, many)
		for i := range adds {
			tokens[i] = fmt.Sprint("t", i)
			adds[i] = &backend.Add{State: backend.Waiting, Name: "paint", Data: fmt.Sprint(i), Opts: "{}", Timestamp: time.UnixMilli(1)}
		}
		for range 2 {
			Expect(idsOf(f.AddBatch(f.ctx, adds))[many-1]).To(HaveSuffix("000"))
		}
		taken, err := f.Take(f.ctx, nowMs, worker, tokens...)
		Expect(err).NotTo(HaveOccurred())
		for i, t := range taken {
			Expect(t.JobID).To(Equal(fmt.Sprint(i + 1)))
			Expect(t.Hash[3]).To(Equal(fmt.Sprint(i))) // its data
			ends[i] = &End{JobID: t.JobID, Token: tokens[i], Value: fmt.Sprint(i), Bare: t.Bare, Fetch: true}
		}
		ended, err := f.Finish(f.ctx, Finish{NowMs: nowMs, Worker: worker, Ends: ends})()
		Expect(err).NotTo(HaveOccurred())
		for i, e := range ended {
			Expect(e.Err).NotTo(HaveOccurred())
			Expect(e.Taken.JobID).To(Equal(fmt.Sprint(many + i + 1)))
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
		for round := range 100 {
			random := rand.New(rand.NewPCG(seed, uint64(round)))
			waiting, ranked, due, later := random.IntN(4), random.IntN(3), random.IntN(3), random.IntN(2)
			worker := Worker{LockMs: 30000}
			if random.IntN(3) == 0 {
				worker.Limit, worker.LimitMs = int64(1+random.IntN(4)), 30000
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
			all, err := together.Take(together.ctx, nowMs, worker, tokens...)
			Expect(err).NotTo(HaveOccurred())
			oneByOne := arrange()
			about := fmt.Sprintf("round %d of seed %d", round, seed)
			for i, token := range tokens {
				one, err := oneByOne.Take(oneByOne.ctx, nowMs, worker, token)
				Expect(err).NotTo(HaveOccurred())
				Expect(all[i].JobID).To(Equal(one[0].JobID), about)
				Expect(all[i].Hash).To(Equal(one[0].Hash), about)
				if one[0].JobID == "" {
					Expect(all[i].Shared).To(Equal(i > 0), about)
					if i == 0 {
						Expect(all[i].NextDueMs).To(Equal(one[0].NextDueMs), about)
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
		all, err := f.Take(f.ctx, nowMs, Worker{LockMs: 30000}, "a", "b", "c")
		Expect(err).NotTo(HaveOccurred())
		Expect([]string{all[0].JobID, all[1].JobID, all[2].JobID}).To(Equal([]string{"j0", "j1", ""}))
		Expect(all[2].Shared).To(BeTrue())
	})
})
