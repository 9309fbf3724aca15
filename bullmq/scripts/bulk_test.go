package scripts

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

func plain(n int, lifo bool) backend.Add {
	return backend.Add{State: backend.Waiting, Name: fmt.Sprint("job ", n), Data: fmt.Sprintf(`{"n":%d}`, n), Opts: `{"attempts":0}`, Timestamp: now, LIFO: lifo}
}

// plainAdds returns random plain jobs.
func plainAdds(random *rand.Rand) (adds []*backend.Add) {
	for n := range 1 + random.IntN(12) {
		add := plain(n, random.IntN(4) == 0)
		if random.IntN(3) > 0 { // values shared with the previous job are not sent again
			add.Name = "job"
		}
		if random.IntN(8) == 0 {
			add.Opts = `{"attempts":3}`
		}
		if random.IntN(8) == 0 {
			add.Timestamp = now.Add(time.Millisecond)
		}
		switch random.IntN(6) {
		case 0:
			add.State, add.Priority = backend.Prioritized, 1+random.IntN(3)
		case 1:
			add.State, add.Delay = backend.Delayed, 100*time.Millisecond*time.Duration(1+random.IntN(3))
		case 2:
			add.State, add.Delay, add.Priority = backend.Delayed, 500*time.Microsecond, 2
		}
		adds = append(adds, &add)
	}
	return adds
}

var _ = ginkgo.Describe("A bulk", func() {
	ginkgo.DescribeTable("of plain jobs writes the same as single adds", func(prepare func(f *fixture)) {
		seed := rand.Uint64()
		for round := range uint64(40) {
			random := rand.New(rand.NewPCG(seed, round))
			adds := plainAdds(random)
			one, many := newFixture(client), newFixture(client)
			one.Dialect = Dialect(round % 2)
			many.Dialect = one.Dialect
			prepare(one)
			prepare(many)
			var want []string
			for _, add := range adds {
				message, err := one.run(one.ctx, addCommand(add), encodeAdd(one.base, add, false)...)
				Expect(err).NotTo(HaveOccurred())
				want = append(want, text(message))
			}
			about := fmt.Sprintf("round %d of seed %d", round, seed)
			Expect(idsOf(many.AddBatch(many.ctx, adds))).To(Equal(want), about)
			Expect(many.named()).To(Equal(one.named()), about)
		}
	},
		ginkgo.Entry("in a new queue", func(*fixture) {}),
		ginkgo.Entry("in a paused queue", func(f *fixture) { f.set("HSET", "meta", "paused", "1") }),
		ginkgo.Entry("in a queue at its concurrency", func(f *fixture) {
			f.set("HSET", "meta", "concurrency", "1")
			f.running("x", "t")
		}),
		ginkgo.Entry("after other jobs and with large numbers", func(f *fixture) {
			f.set("SET", "id", "99999999999990")
			f.set("ZADD", "delayed", "6963200000819200", "first") // due at the same time as the first job to be added
		}),
	)

	ginkgo.It("of all kinds keeps the order of its jobs", func() {
		f := newFixture(client)
		results := f.addAll(
			plain(1, false), plain(2, false),
			backend.Add{State: backend.Prioritized, Name: "p", Data: "{}", Opts: "{}", Timestamp: now, Priority: 3},
			backend.Add{State: backend.Waiting, ID: "own", Name: "o", Data: "{}", Opts: "{}", Timestamp: now},
			plain(3, false), plain(4, false), plain(5, false),
		)
		Expect(idsOf(results)).To(Equal([]string{"1", "2", "3", "own", "5", "6", "7"}))
		Expect(f.do("LRANGE", f.base+"wait", "0", "-1").AsStrSlice()).To(Equal([]string{"7", "6", "5", "own", "2", "1"}))
	})

	ginkgo.It("that needs several calls keeps the order of its jobs", func() {
		f := newFixture(client)
		var adds []backend.Add
		var want []string
		for n := range 2*maxPlain + 7 {
			adds = append(adds, plain(n, false))
			want = append([]string{fmt.Sprint(n + 1)}, want...)
		}
		Expect(idsOf(f.addAll(adds...))).To(HaveLen(len(adds)))
		Expect(f.do("LRANGE", f.base+"wait", "0", "-1").AsStrSlice()).To(Equal(want))
		Expect(f.do("HGET", f.base+"257", "name").ToString()).To(Equal("job 256"))
	})
})

// told returns the events without their ids.
func (f *fixture) told() string {
	ginkgo.GinkgoHelper()
	entries, err := f.do("XRANGE", f.base+"events", "-", "+").AsXRangeSlices()
	Expect(err).NotTo(HaveOccurred())
	var told []any
	for _, entry := range entries {
		told = append(told, entry.FieldValues)
	}
	return fmt.Sprint(told...)
}

// named returns the state with the events, to compare it with that of another fixture.
func (f *fixture) named() map[string]string {
	ginkgo.GinkgoHelper()
	state := f.state()
	state["events"] = f.told()
	for suffix, value := range state {
		state[suffix] = strings.ReplaceAll(value, strings.TrimSuffix(f.base, ":"), "queue")
	}
	return state
}
