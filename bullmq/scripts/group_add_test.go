package scripts

import (
	"fmt"
	"math/rand/v2"

	"github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/redisconn"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

// addAlike compares one call that adds jobs to several queues with one call for each queue.
func addAlike(client rueidis.Client, rounds int) {
	ginkgo.GinkgoHelper()
	seed := rand.Uint64()
	ginkgo.By(fmt.Sprint("seed ", seed))
	for round := range rounds {
		random := rand.New(rand.NewPCG(seed, uint64(round)))
		about := fmt.Sprintf("round %d of seed %d", round, seed)
		dialect := Dialect(random.IntN(2))
		var together, apart []*fixture
		var adds []backend.QueueAdds
		var want [][]backend.AddResult
		for range 1 + random.IntN(4) {
			setting, before, jobs := random.IntN(6), random.IntN(2)*99, plainAdds(random)
			arrange := func() *fixture {
				f := newFixture(client)
				f.Dialect = dialect
				f.set("SET", "id", fmt.Sprint(before))
				switch setting {
				case 0:
					f.set("HSET", "meta", "paused", "1")
				case 1:
					f.set("HSET", "meta", "concurrency", "1")
					f.running("x", "t")
				case 2:
					f.set("HSET", "meta", "opts.maxLenEvents", "5")
				}
				return f
			}
			one, of := arrange(), arrange()
			together, apart = append(together, one), append(apart, of)
			adds = append(adds, backend.QueueAdds{Queue: one.base, Jobs: jobs})
			want = append(want, of.AddBatch(of.ctx, jobs))
		}
		results, err := together[0].group().AddPlainJobs(together[0].ctx, adds)
		Expect(err).NotTo(HaveOccurred(), about)
		Expect(results).To(Equal(want), about)
		for n := range together {
			Expect(together[n].named()).To(Equal(apart[n].named()), "%s: queue %d", about, n)
		}
	}
}

var _ = ginkgo.Describe("A call that adds jobs to several queues", func() {
	ginkgo.It("writes and returns the same as a call for each queue", func() { addAlike(client, rounds(100)) })
	ginkgo.It("writes the same on an in-process Redis", func() { addAlike(inProcess(), rounds(25)) })

	ginkgo.DescribeTable("fails for a broken queue alone, which is", func(at int) {
		var queues []*fixture
		var adds []backend.QueueAdds
		for n := range 3 {
			f := newFixture(client)
			if n == at {
				f.set("SET", "wait", "no list")
			}
			job, other := plain(1, false), plain(2, false)
			queues, adds = append(queues, f), append(adds, backend.QueueAdds{Queue: f.base, Jobs: []*backend.Add{&job, &other}})
		}
		results, err := queues[0].group().AddPlainJobs(queues[0].ctx, adds)
		Expect(err).NotTo(HaveOccurred())
		for n, of := range results {
			if n != at {
				Expect(of).To(Equal([]backend.AddResult{{JobID: "1"}, {JobID: "2"}}))
				Expect(queues[n].do("LRANGE", queues[n].base+"wait", "0", "-1").AsStrSlice()).To(Equal([]string{"2", "1"}))
				continue
			}
			for _, result := range of {
				Expect(result.Err).To(MatchError("bullmq: addPlainJobsTo: queue " + shown(queues[n].base) + ": " + textOf(result.Err)))
				Expect(result.Err).To(MatchError(ContainSubstring("WRONGTYPE")))
				Expect(redisconn.Classify(result.Err)).To(Equal(backend.Aborted), "since a part of it was written")
			}
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
		f, other := newFixture(client), newFixture(client)
		job := plain(1, false)
		adds := []backend.QueueAdds{{Queue: f.base, Jobs: []*backend.Add{&job}}, {Queue: other.base, Jobs: []*backend.Add{&job}}}
		for _, refusal := range []struct {
			set, unset []string
			kind       backend.Failure
		}{
			{[]string{"CONFIG", "SET", "min-replicas-to-write", "1"}, []string{"CONFIG", "SET", "min-replicas-to-write", "0"}, backend.Exhausted},
			{[]string{"CONFIG", "SET", "maxmemory", "1"}, []string{"CONFIG", "SET", "maxmemory", "0"}, backend.Exhausted},
			{[]string{"REPLICAOF", "127.0.0.1", "1"}, []string{"REPLICAOF", "NO", "ONE"}, backend.Unavailable},
		} {
			Expect(f.do(refusal.set...).Error()).To(Succeed())
			_, err = f.group().AddPlainJobs(f.ctx, adds)
			Expect(f.do(refusal.unset...).Error()).To(Succeed())
			Expect(redisconn.Classify(err)).To(Equal(refusal.kind), fmt.Sprint(err))
			Expect(err).To(MatchError(ContainSubstring("addPlainJobsTo on " + shown(f.base) + " and 1 more queues: ")))
			Expect(f.do("DBSIZE").AsInt64()).To(BeZero())
		}
	})

	ginkgo.It("can concern 500 queues and 1,000 jobs", func() {
		var queues []*fixture
		var adds []backend.QueueAdds
		for n := range 500 {
			f, job, other := newFixture(client), plain(2*n, false), plain(2*n+1, true)
			queues, adds = append(queues, f), append(adds, backend.QueueAdds{Queue: f.base, Jobs: []*backend.Add{&job, &other}})
		}
		results, err := queues[0].group().AddPlainJobs(queues[0].ctx, adds)
		Expect(err).NotTo(HaveOccurred())
		for n, f := range queues {
			Expect(idsOf(results[n])).To(Equal([]string{"1", "2"}))
			Expect(f.do("HGET", f.base+"2", "data").ToString()).To(Equal(fmt.Sprintf(`{"n":%d}`, 2*n+1)))
			Expect(f.do("LRANGE", f.base+"wait", "0", "-1").AsStrSlice()).To(Equal([]string{"1", "2"}))
		}
	})
})
