package scripts

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

var _ = ginkgo.Describe("Calls about several queues", func() {
	ginkgo.It("renew locks as the call for one queue does", func() {
		arrange := func() *fixture {
			f := newFixture(client)
			for _, id := range []string{"kept", "told", "other", "gone"} {
				f.running(id, "t-"+id)
			}
			f.set("HSET", "told", "defa", "cancelled")
			f.set("SET", "other:lock", "another")
			f.set("DEL", "gone:lock")
			return f
		}
		locks := []backend.Lock{{JobID: "kept", Token: "t-kept"}, {JobID: "told", Token: "t-told"}, {JobID: "other", Token: "t-other"}, {JobID: "gone", Token: "t-gone"}}
		a, b, one := arrange(), arrange(), arrange()
		broken := newFixture(client)
		broken.running("x", "t")
		broken.set("DEL", "stalled")
		broken.set("SET", "stalled", "no set")
		renewals, err := a.group().ExtendLocksOf(a.ctx, []backend.QueueLocks{
			{Queue: a.base, Locks: locks}, {Queue: broken.base, Locks: []backend.Lock{{JobID: "x", Token: "t"}}}, {Queue: b.base, Locks: locks[:2]},
		}, 30*time.Second)
		Expect(err).NotTo(HaveOccurred())
		want, err := one.ExtendLocks(one.ctx, locks, 30*time.Second)
		Expect(err).NotTo(HaveOccurred())
		Expect(renewals[0]).To(Equal(backend.QueueRenewal{Renewal: want}))
		Expect(renewals[1].Err).To(MatchError(ContainSubstring("WRONGTYPE")))
		Expect(renewals[2]).To(Equal(backend.QueueRenewal{Renewal: backend.Renewal{Lost: []string{}, Cancelled: want.Cancelled}}))
		Expect(a.named()).To(Equal(one.named()))
		Expect(a.do("PTTL", a.base+"told:lock").AsInt64()).To(BeNumerically("~", 30000, 5000))
	})

	ginkgo.It("check for stalled jobs as the call for one queue does", func() {
		arrange := func(dialect Dialect) *fixture {
			f := newFixture(client)
			f.Dialect = dialect
			for _, id := range []string{"kept", "lost", "lost-again", "new"} {
				f.running(id, "t")
			}
			f.set("SREM", "stalled", "new")
			f.set("HSET", "lost-again", "stc", "1")
			f.set("DEL", "lost:lock")
			f.set("DEL", "lost-again:lock")
			return f
		}
		for _, dialect := range []Dialect{V6, V5} {
			a, b, one, broken := arrange(dialect), arrange(dialect), arrange(dialect), newFixture(client)
			b.set("SET", "stalled-check", "1")
			before := b.named()
			broken.set("SET", "active", "no list")
			moved, err := a.group().MoveStalledJobsOf(a.ctx, []string{a.base, b.base, broken.base}, now, 1, time.Minute)
			Expect(err).NotTo(HaveOccurred())
			want, err := one.MoveStalledJobsToWait(one.ctx, now, 1, time.Minute)
			Expect(err).NotTo(HaveOccurred())
			Expect(want).To(ConsistOf("lost", "lost-again"))
			Expect(moved[0]).To(Equal(backend.QueueStalled{JobIDs: want}))
			Expect(moved[1]).To(Equal(backend.QueueStalled{JobIDs: []string{}}))
			Expect(moved[2].Err).To(MatchError(ContainSubstring("WRONGTYPE")))
			Expect(a.named()).To(Equal(one.named()))
			Expect(b.named()).To(Equal(before))
		}
	})

	ginkgo.It("find the jobs that a lost call has locked", func() {
		a, b, c, broken := newFixture(client), newFixture(client), newFixture(client), newFixture(client)
		broken.set("SET", "active", "no list")
		a.running("1", "other")
		c.running("1", "t1")
		c.running("2", "t")
		c.running("3", "t3")
		c.set("DEL", "2:lock")
		c.set("SADD", "2:lock", "no text")
		locked, err := a.group().ResolveFetches(a.ctx, []string{a.base, b.base, broken.base, c.base}, []string{"t1", "t2", "t3"})
		Expect(err).NotTo(HaveOccurred())
		Expect(locked).To(HaveLen(2))
		for i, id := range []string{"3", "1"} {
			Expect(locked[i].Queue).To(Equal(c.base))
			Expect(locked[i].Token).To(Equal("t" + id))
			Expect(locked[i].Job.ID).To(Equal(id))
			Expect(locked[i].Job.Name).To(Equal("paint"))
		}
	})

	ginkgo.It("read cancellations and what determines the dialect", func() {
		a, b, c := newFixture(client), newFixture(client), newFixture(client)
		a.running("1", "t")
		_, err := a.Cancel(a.ctx, "1", "cancelled: no", "no", "")
		Expect(err).NotTo(HaveOccurred())
		b.set("HSET", "meta", "version", "bullmq:5.1.0")
		c.set("LPUSH", "paused", "1")
		queues := []string{a.base, b.base, c.base}
		var after []backend.QueuePosition
		for _, queue := range queues {
			after = append(after, backend.QueuePosition{Queue: queue, After: "0-0"})
		}
		requests, err := a.group().CancelRequestsOf(a.ctx, after)
		Expect(err).NotTo(HaveOccurred())
		one, err := a.CancelRequests(a.ctx, "0-0")
		Expect(err).NotTo(HaveOccurred())
		Expect(one).To(HaveLen(1))
		Expect(requests).To(Equal([][]backend.CancelRequest{one, nil, nil}))
		after[0].After = one[0].ID
		Expect(a.group().CancelRequestsOf(a.ctx, after)).To(Equal(make([][]backend.CancelRequest, 3)))
		Expect(a.group().DialectHintsOf(a.ctx, queues)).To(Equal([]backend.QueueDialect{{}, {Version: "bullmq:5.1.0"}, {Paused: true}}))
	})
})

var _ = ginkgo.Describe("A look at queues", func() {
	// A queue in each state, with what a look sees.
	later := time.UnixMilli(nowMs + 60001)
	delay := func(f *fixture) {
		f.set("HSET", "later", "name", "later")
		f.set("ZADD", "delayed", fmt.Sprint((nowMs+60001)*4096+3), "later")
		f.set("ZADD", "marker", fmt.Sprint(nowMs+60001, ".5"), "1")
	}
	states := []struct {
		arrange     func(f *fixture)
		full, quick backend.Seen
	}{
		{func(*fixture) {}, backend.Seen{}, backend.Seen{}},
		{func(f *fixture) { f.set("ZADD", "marker", "0", "0") }, backend.Seen{}, backend.Seen{Ready: true}},
		{func(f *fixture) { f.wait("a") }, backend.Seen{Ready: true}, backend.Seen{}},
		{func(f *fixture) { f.set("ZADD", "prioritized", "5", "a") }, backend.Seen{Ready: true}, backend.Seen{}},
		{func(f *fixture) { f.wait("a"); f.set("HSET", "meta", "paused", "1") }, backend.Seen{}, backend.Seen{}},
		{delay, backend.Seen{NextDue: later}, backend.Seen{NextDue: later}},
		{func(f *fixture) { delay(f); f.wait("a"); f.set("ZADD", "marker", "0", "0") }, backend.Seen{Ready: true, NextDue: later}, backend.Seen{Ready: true, NextDue: later}},
		{func(f *fixture) { f.running("a", "t") }, backend.Seen{Running: true}, backend.Seen{}},
		{func(f *fixture) { f.set("SADD", "stalled", "a") }, backend.Seen{}, backend.Seen{}},
		{func(f *fixture) {
			f.running("a", "t")
			_, err := f.Cancel(f.ctx, "a", "cancelled", "", "")
			Expect(err).NotTo(HaveOccurred())
		}, backend.Seen{Running: true, Cancelled: true}, backend.Seen{}},
		{func(f *fixture) { f.set("ZADD", "failed", "1", "a") }, backend.Seen{}, backend.Seen{}},
		{func(f *fixture) {
			f.set("SET", "wait", "x")
			f.set("SET", "delayed", "no set")
			f.set("SET", "marker", "x")
		}, backend.Seen{Ready: true}, backend.Seen{Ready: true}},
	}
	arrange := func(client rueidis.Client) (all []*fixture, queues []string) {
		for _, state := range states {
			f := newFixture(client)
			state.arrange(f)
			all, queues = append(all, f), append(queues, f.base)
		}
		return all, queues
	}
	for where, connect := range map[string]func() rueidis.Client{"Redis": func() rueidis.Client { return client }, "an in-process Redis": inProcess} {
		ginkgo.It("sees what needs attention, and writes nothing, on "+where, func() {
			all, queues := arrange(connect())
			before := make([]map[string]string, len(all))
			for i, f := range all {
				before[i] = f.state()
			}
			var full, quick []backend.Seen
			for i, state := range states {
				state.full.Index, state.quick.Index = i, i
				if state.full != (backend.Seen{Index: i}) {
					full = append(full, state.full)
				}
				if state.quick != (backend.Seen{Index: i}) {
					quick = append(quick, state.quick)
				}
			}
			group := all[0].group()
			Expect(group.LookAtQueues(all[0].ctx, queues, backend.Look{})).To(Equal(full))
			Expect(group.LookAtQueues(all[0].ctx, queues, backend.Look{Quick: true})).To(Equal(quick))
			for i, f := range all {
				Expect(f.state()).To(Equal(before[i]))
			}
		})
	}

	ginkgo.It("sees the same of a queue among many", func() {
		all, queues := arrange(client)
		ctx, group := all[0].ctx, all[0].group()
		for _, l := range []backend.Look{{}, {Quick: true}, {Failed: true}, {Vanished: true}, {Failed: true, Vanished: true}} {
			few, err := group.LookAtQueues(ctx, queues, l)
			Expect(err).NotTo(HaveOccurred())
			for _, step := range []int{1, 7, 40} {
				var many []string
				var want []backend.Seen
				for i, queue := range queues {
					for n := range step {
						many = append(many, fmt.Sprintf("%sno-%d:", queue, n))
						if l.Vanished {
							want = append(want, backend.Seen{Index: len(many) - 1, Vanished: true})
						}
					}
					many = append(many, queue)
					for _, seen := range few {
						if seen.Index == i {
							seen.Index = len(many) - 1
							want = append(want, seen)
						}
					}
				}
				Expect(group.LookAtQueues(ctx, many, l)).To(Equal(want), "%+v, step %d", l, step)
			}
		}
		Expect(group.LookAtQueues(ctx, make([]string, 100), backend.Look{})).To(BeEmpty())
	})

	ginkgo.It("reports queues with failed jobs, and those that do not exist, if asked for", func() {
		all, queues := arrange(client)
		ctx, group := all[0].ctx, all[0].group()
		for _, f := range all[1:] {
			f.set("HSET", "meta", "version", "bullmq:6.7.0")
		}
		which := func(l backend.Look, is func(backend.Seen) bool) (found []int) {
			seen, err := group.LookAtQueues(ctx, queues, l)
			Expect(err).NotTo(HaveOccurred())
			for _, one := range seen {
				if is(one) {
					found = append(found, one.Index)
				}
			}
			return found
		}
		failed := func(s backend.Seen) bool { return s.Failed }
		vanished := func(s backend.Seen) bool { return s.Vanished }
		Expect(which(backend.Look{Failed: true}, failed)).To(Equal([]int{10}))
		Expect(which(backend.Look{Vanished: true}, vanished)).To(Equal([]int{0}))
		Expect(which(backend.Look{}, failed)).To(BeEmpty())
		Expect(which(backend.Look{}, vanished)).To(BeEmpty())
	})

	ginkgo.DescribeTable("can claim the times of delayed jobs, which can be returned", func(quick bool) {
		all, queues := arrange(client)
		ctx, group := all[0].ctx, all[0].group()
		marker := func(n int) (map[string]float64, error) {
			scores, err := all[n].do("ZRANGE", queues[n]+"marker", "0", "-1", "WITHSCORES").AsZScores()
			members := map[string]float64{}
			for _, score := range scores {
				members[score.Member] = score.Score
			}
			return members, err
		}
		plain, err := group.LookAtQueues(ctx, queues, backend.Look{Quick: quick})
		Expect(err).NotTo(HaveOccurred())
		Expect(group.LookAtQueues(ctx, queues, backend.Look{Quick: quick, Claim: true})).To(Equal(plain))
		Expect(marker(5)).To(BeEmpty())
		Expect(marker(6)).To(Equal(map[string]float64{"0": 0}))

		all[6].set("ZADD", "marker", "5", "1") // an earlier one
		Expect(group.ReturnDues(ctx, []backend.QueueDue{{Queue: queues[5], At: later}, {Queue: queues[6], At: later}})).To(Succeed())
		Expect(marker(5)).To(Equal(map[string]float64{"1": nowMs + 60001}))
		Expect(marker(6)).To(Equal(map[string]float64{"0": 0, "1": 5}))
		Expect(group.ReturnDues(ctx, []backend.QueueDue{{Queue: queues[11], At: later}})).To(MatchError(ContainSubstring("the marker on " + shown(queues[11]) + ": WRONGTYPE")))
	}, ginkgo.Entry("when it looks at everything", false), ginkgo.Entry("when it looks at the markers only", true))
})

var _ = ginkgo.Describe("A command of several queues", func() {
	ginkgo.It("has functions that refer to the keys of one of them", func(ctx context.Context) {
		f := form{keys: []string{"wait", "metrics:completed"}}
		text := "local call, try = redis.call, redis.pcall\n" + f.perQueue(1) +
			f.resolve("local function lists()\n  return waitKey .. ' ' .. metricsCompletedKey\nend\n"+
				"local a = useQueue(2) .. lists()\nlocal b = useQueue(1) .. lists()\nreturn { a, b, useQueue(2) .. lists(), #queues .. '' }")
		for _, client := range []rueidis.Client{client, inProcess()} {
			Expect(client.Do(ctx, client.B().Eval().Script(text).Numkeys(3).Key("a:", "b:", "a:meta").Build()).AsStrSlice()).
				To(Equal([]string{"b:b:wait b:metrics:completed", "a:a:wait a:metrics:completed", "b:b:wait b:metrics:completed", "3"}))
		}
	})

	ginkgo.It("declares the bases of the queues, and one key", func() {
		var sent []string
		spy := &spying{Client: client, sent: func(words []string) { sent = words }}
		_, err := NewGroup(spy, V6).LookAtQueues(context.Background(), []string{"bull:a:", "bull:b:"}, backend.Look{})
		Expect(err).NotTo(HaveOccurred())
		Expect(sent[2:6]).To(Equal([]string{"3", "bull:a:", "bull:b:", "bull:a:meta"}))
	})

	ginkgo.It("is marked as such in its file, and its queues have no other argument", func() {
		several := slices.Sorted(maps.Keys(commands))
		several = slices.DeleteFunc(several, func(name string) bool { return !commands[name].several })
		Expect(several).To(Equal([]string{
			"addPlainJobsTo", "estimateMemory", "extendLocksOf", "flowAncestors", "forwardJob", "lastEvents", "lookAtQueues", "moveStalledJobsOf", "moveWaiting",
			"readFlow", "resolveFetches", "serveQueues", "summarizeQueues",
		}))
		for _, name := range several {
			Expect(commands[name].args).NotTo(ContainElement("base"))
		}
	})
})

// spying is a client that reports each command.
type spying struct {
	rueidis.Client
	sent func(words []string)
}

func (s *spying) Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	s.sent(slices.Clone(command.Commands()))
	return s.Client.Do(ctx, command)
}
