package scripts

import (
	"fmt"
	"strings"

	"github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = ginkgo.Describe("A bulk", func() {
	plain := func(n int, lifo bool) Add {
		return Add{Name: fmt.Sprint("job ", n), Data: fmt.Sprintf(`{"n":%d}`, n), Opts: `{"attempts":0}`, Timestamp: "1700000000000", Delay: "0", Priority: "0", LIFO: lifo}
	}

	ginkgo.DescribeTable("leaves what as many adds leave one by one", func(prepare func(f *fixture), adds ...Add) {
		one, many := newFixture(client), newFixture(client)
		prepare(one)
		prepare(many)
		var want []string
		for _, add := range adds {
			id, err := one.Add(one.ctx, add)
			Expect(err).NotTo(HaveOccurred())
			want = append(want, id)
		}
		Expect(many.AddMany(many.ctx, adds)).To(Equal(want))
		left, right := one.state(), many.state()
		left["events"], right["events"] = one.told(), many.told()
		Expect(right).To(Equal(left))
	},
		ginkgo.Entry("in a queue that is new", func(*fixture) {}, plain(1, false), plain(2, true), plain(3, false), plain(4, true)),
		ginkgo.Entry("in a paused queue", func(f *fixture) { f.set("HSET", "meta", "paused", "1") }, plain(1, false), plain(2, false)),
		ginkgo.Entry("in a queue at its concurrency", func(f *fixture) {
			f.set("HSET", "meta", "concurrency", "1")
			f.running("x", "t")
		}, plain(1, false), plain(2, false)),
		ginkgo.Entry("among jobs of other kinds, and with numbers far on", func(f *fixture) { f.set("SET", "id", "99999999999") },
			plain(1, false), plain(2, false),
			Add{Kind: Prioritized, Name: "p", Data: "{}", Opts: "{}", Timestamp: "1700000000000", Delay: "0", Priority: "3"},
			Add{ID: "own", Name: "o", Data: "{}", Opts: "{}", Timestamp: "1700000000000", Delay: "0", Priority: "0"},
			plain(3, false), plain(4, false), plain(5, false)),
	)

	ginkgo.It("of more jobs than one call takes keeps their order", func() {
		f := newFixture(client)
		var adds []Add
		var want []string
		for n := range 2*plainAtOnce + 7 {
			adds = append(adds, plain(n, false))
			want = append([]string{fmt.Sprint(n + 1)}, want...)
		}
		Expect(f.AddMany(f.ctx, adds)).To(HaveLen(len(adds)))
		Expect(f.do("LRANGE", f.base+"wait", "0", "-1").AsStrSlice()).To(Equal(want))
		Expect(f.do("HGET", f.base+"257", "name").ToString()).To(Equal("job 256"))
	})
})

// told are the events, without their ids.
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

// named is state with the events, for comparing with another fixture's.
func (f *fixture) named() map[string]string {
	ginkgo.GinkgoHelper()
	state := f.state()
	state["events"] = f.told()
	for suffix, value := range state {
		state[suffix] = strings.ReplaceAll(value, strings.TrimSuffix(f.base, ":"), "queue")
	}
	return state
}
