package main

import (
	"context"
	"maps"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bench/contender"
	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/nodeprocess"
)

// asynq is left out: building it would download modules.
var _ = Describe("A contender", func() {
	var h *harness

	BeforeEach(func() {
		node, err := nodeprocess.Find()
		Expect(err).NotTo(HaveOccurred())
		h = &harness{rivals: bullmqRivals(node)}
		h.redis, err = startRedis()
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(h.redis.close)
	})

	for i, name := range []string{nodeName, ownName} {
		for _, s := range throughput {
			if !slices.Contains([]string{"add-100", "addbulk-1000", "process-100", "events"}, s.name) { // one scenario for each part
				continue
			}
			It("plays "+s.name+": "+name, func() {
				s.count, s.warm = 2_000, 1_000
				t, err := h.measure(s, h.rivals[i])
				Expect(err).NotTo(HaveOccurred())
				Expect(t.perSecond).To(BeNumerically(">", 0))
				Expect(t.redisCPU).To(BeNumerically(">", 0))
				Expect(t.clientCPU).To(BeNumerically(">", 0))

				connection, err := bullmq.ConnectClient(context.Background(), h.redis.client)
				Expect(err).NotTo(HaveOccurred())
				defer connection.Close()
				q, err := bullmq.NewQueue(context.Background(), contender.Queue, &bullmq.QueueOptions{Connection: connection})
				Expect(err).NotTo(HaveOccurred())
				defer q.Close()
				counts, err := q.Counts(context.Background(), bullmq.StateWaiting, bullmq.StateActive, bullmq.StateCompleted)
				Expect(err).NotTo(HaveOccurred())
				want := map[bullmq.State]int{bullmq.StateWaiting: 0, bullmq.StateActive: 0, bullmq.StateCompleted: 0}
				switch s.part {
				case "add", "bulk":
					want[bullmq.StateWaiting] = 2_000
				case "process":
					want[bullmq.StateCompleted] = 2_000
				}
				Expect(counts).To(Equal(want))
			})
		}

		It("reports its latency: "+name, func() {
			pair, err := startPair(h.rivals[i], h.redis.Addr())
			Expect(err).NotTo(HaveOccurred())
			defer pair.close()
			samples, err := pair.jobs([]int{0, 0, 200}, 1)
			Expect(err).NotTo(HaveOccurred())
			Expect(samples).To(HaveLen(3))
			for _, s := range samples {
				Expect(s.whole).To(BeNumerically(">", 0))
				Expect(s.pickup).To(BeNumerically("<", s.whole))
			}
			Expect(samples[2].whole).To(BeNumerically(">", 190), "the third job is delayed")
		})
	}
})

var _ = Describe("The baseline", func() {
	It("leaves the same data as the SDK", func() {
		server, err := startRedis()
		Expect(err).NotTo(HaveOccurred())
		defer server.close()
		const jobs = 2 * baselineCall

		Expect(server.addJobs(contender.Queue, jobs)).To(Succeed())
		added := look(server, baselineKeys[0])
		Expect(processed(server, jobs)).To(Succeed())
		done := look(server, baselineKeys[0])
		for _, checks := range []string{"0", "1"} {
			Expect(server.flush()).To(Succeed())
			Expect(server.baselineAdd(jobs)).To(Succeed())
			Expect(look(server, baselineKeys[0])).To(Equal(added))
			Expect(server.baselineProcess(jobs, checks)).To(Succeed())
			doneByBaseline := look(server, baselineKeys[0])
			Expect(doneByBaseline.Events).To(HaveLen(jobs))
			Expect(doneByBaseline).To(Equal(done))
		}
	})

	It("of adding to many queues leaves the same data in each", func() {
		server, err := startRedis()
		Expect(err).NotTo(HaveOccurred())
		defer server.close()
		Expect(server.addJobs(contender.Queue, 2)).To(Succeed())
		added := look(server, baselineKeys[0])
		Expect(server.baselineAddTo(baselineCall, 2*baselineCall)).To(Succeed())
		for _, queue := range []string{"bull:baseline-0:", "bull:baseline-49:"} {
			Expect(look(server, queue)).To(Equal(added))
		}
	})

	DescribeTable("with its checks detects",
		func(what string, change func(r *redis) error) {
			server, err := startRedis()
			Expect(err).NotTo(HaveOccurred())
			defer server.close()
			for _, checks := range []string{"0", "1"} {
				Expect(server.flush()).To(Succeed())
				Expect(server.baselineAdd(2 * baselineCall)).To(Succeed())
				Expect(change(server)).To(Succeed())
				err := server.baselineProcess(2*baselineCall, checks)
				if checks == "0" {
					Expect(err).NotTo(HaveOccurred())
				} else {
					Expect(err).To(MatchError(ContainSubstring(what)))
				}
			}
		},
		Entry("a child", "has children", func(r *redis) error {
			return r.client.Do(context.Background(), r.client.B().Sadd().Key(baselineKeys[0]+"7:dependencies").Member("child").Build()).Error()
		}),
		Entry("another field", "is not a plain job", func(r *redis) error {
			return r.client.Do(context.Background(), r.client.B().Hset().Key(baselineKeys[0]+"7").FieldValue().FieldValue("parentKey", "p").Build()).Error()
		}),
	)
})

// seen is the data left in Redis, without times.
type seen struct {
	Keys   []string
	Hashes []map[string]string
	Events map[string][]string // by job
}

func look(r *redis, base string) seen {
	GinkgoHelper()
	ctx := context.Background()
	keys, err := r.client.Do(ctx, r.client.B().Keys().Pattern(base+"*").Build()).AsStrSlice()
	Expect(err).NotTo(HaveOccurred())
	s := seen{Events: map[string][]string{}}
	for _, key := range slices.Sorted(slices.Values(keys)) {
		switch suffix := strings.TrimPrefix(key, base); {
		case suffix == "meta" || suffix == "stalled-check": // written by a queue and a worker themselves
		case strings.Trim(suffix, "0123456789") == "":
			hash, err := r.client.Do(ctx, r.client.B().Hgetall().Key(key).Build()).AsStrMap()
			Expect(err).NotTo(HaveOccurred())
			for field := range maps.Keys(hash) {
				if field == "timestamp" || field == "processedOn" || field == "finishedOn" {
					hash[field] = "ms"
				}
			}
			s.Hashes = append(s.Hashes, hash)
			s.Keys = append(s.Keys, suffix)
		default:
			s.Keys = append(s.Keys, suffix)
		}
	}
	entries, err := r.client.Do(ctx, r.client.B().Xrange().Key(base+"events").Start("-").End("+").Build()).AsXRangeSlices()
	Expect(err).NotTo(HaveOccurred())
	for _, entry := range entries {
		var id, text string
		for _, pair := range entry.FieldValues {
			text += " " + pair.Field + "=" + pair.Value
			if pair.Field == "jobId" {
				id = pair.Value
			}
		}
		if id != "" {
			s.Events[id] = append(s.Events[id], text)
		}
	}
	return s
}

// processed runs all jobs with a worker.
func processed(r *redis, jobs int) error {
	done := make(chan string, jobs)
	consumer, err := own.Consumer(r.Addr(), contender.Queue, 10, func(id string) { done <- id })
	if err != nil {
		return err
	}
	if err := consumer.Start(); err != nil {
		return err
	}
	for range jobs {
		<-done
	}
	return consumer.Stop()
}
