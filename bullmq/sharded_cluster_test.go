package bullmq_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

// startCluster starts a cluster of masters and returns it when it serves all slots.
func startCluster(masters int) (nodes []*redisserver.Server, clients []rueidis.Client) {
	GinkgoHelper()
	do := func(client rueidis.Client, words ...string) string {
		GinkgoHelper()
		text, err := client.Do(specContext(), client.B().Arbitrary(words...).Build()).ToString()
		Expect(err).NotTo(HaveOccurred())
		return text
	}
	for i := range masters {
		server := startRedis(redisserver.Options{Cluster: true})
		client := clientOf(server)
		nodes, clients = append(nodes, server), append(clients, client)
		do(client, "CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(16384*i/masters), strconv.Itoa(16384*(i+1)/masters-1))
		do(client, "CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(nodes[0].Port()))
	}
	for _, client := range clients {
		Eventually(func() string { return do(client, "CLUSTER", "INFO") }, "30s", "50ms").Should(And(
			ContainSubstring("cluster_state:ok"), ContainSubstring("cluster_known_nodes:"+strconv.Itoa(masters))))
	}
	return nodes, clients
}

var _ = Describe("A sharded queue on a cluster", Label("slow"), func() {
	It("spreads its shards over the masters, and every call works", func() {
		nodes, clients := startCluster(3)
		link, err := bullmq.ConnectOption(context.Background(), rueidis.ClientOption{InitAddress: []string{nodes[0].Addr()}})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(link.Close)
		name, ctx := newQueueName(), specContext()
		sharded := newSharded(name, 12, bullmq.ShardedQueueOptions{Connections: []*bullmq.Connection{link}, Choose: bullmq.LeastLoaded})

		for i := range 60 {
			_, err := sharded.Add(ctx, "paint", i, nil)
			Expect(err).NotTo(HaveOccurred())
			_, err = sharded.Add(ctx, "paint", i, &bullmq.JobOptions{JobID: fmt.Sprint("job-", i)})
			Expect(err).NotTo(HaveOccurred())
		}
		_, err = sharded.AddFlow(ctx, bullmq.Flow{Name: "wall", Children: []bullmq.Flow{{Name: "brick"}, {Name: "brick"}}})
		Expect(err).NotTo(HaveOccurred())
		for i := range 5 {
			_, err = sharded.UpsertScheduler(ctx, fmt.Sprint("daily-", i), bullmq.Repeat{Every: time.Hour, StartDate: time.Now().Add(time.Hour)}, nil)
			Expect(err).NotTo(HaveOccurred())
		}
		Expect(sharded.Counts(ctx, bullmq.StateWaiting, bullmq.StateWaitingChildren, bullmq.StateDelayed)).To(Equal(map[bullmq.State]int{
			bullmq.StateWaiting: 122, bullmq.StateWaitingChildren: 1, bullmq.StateDelayed: 5,
		}))
		Expect(sharded.Find(ctx, "job-7")).To(HaveLen(1))
		for _, client := range clients {
			keys, err := client.Do(ctx, client.B().Keys().Pattern("bull:{"+name+"*:meta").Build()).AsStrSlice()
			Expect(err).NotTo(HaveOccurred())
			Expect(keys).NotTo(BeEmpty(), "each master has shards")
		}
		Expect(sharded.SetGlobalConcurrency(ctx, 24)).To(Succeed())
		Expect(sharded.Pause(ctx)).To(Succeed())
		Expect(sharded.Resize(ctx, 13)).To(Succeed())
		Expect(sharded.GlobalConcurrency(ctx)).To(Equal(24))
		Expect(sharded.IsPaused(ctx)).To(BeTrue())
		Expect(sharded.Schedulers(ctx, bullmq.AllEntries())).To(HaveLen(5))
		Expect(sharded.Shards()).To(HaveLen(25))
		job, err := sharded.Add(ctx, "paint", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(job.QueueName()).To(HavePrefix("{" + name + ".1-"))

		events, err := sharded.Events(ctx, &bullmq.ShardedEventsOptions{LastEventID: "0-0"})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(events.Close)
		added := 0
		for event, err := range events.All(ctx) {
			Expect(err).NotTo(HaveOccurred())
			if event.Type == bullmq.EventAdded && !strings.HasPrefix(event.JobID, "repeat:") {
				if added++; added == 124 {
					break
				}
			}
		}
		Expect(events.Close()).To(Succeed())

		Expect(sharded.Resume(ctx)).To(Succeed())
		worker := runSharded(sharded, doNothing, &bullmq.WorkerOptions{Concurrency: 24})
		Eventually(func() (map[bullmq.State]int, error) { return sharded.Counts(ctx, bullmq.StateCompleted) }, "30s").
			Should(HaveKeyWithValue(bullmq.StateCompleted, 124))
		Expect(worker.Close()).To(Succeed())

		Expect(sharded.Obliterate(ctx, nil)).To(Succeed())
		for _, client := range clients {
			Expect(client.Do(ctx, client.B().Keys().Pattern("*").Build()).AsStrSlice()).To(BeEmpty())
		}
	})
})
