package bullmq_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("The events of a sharded queue", func() {
	var (
		name string
		ctx  context.Context
	)
	BeforeEach(func() { name, ctx = newQueueName(), specContext() })
	events := func(sharded *bullmq.ShardedQueue, options *bullmq.ShardedEventsOptions) *bullmq.ShardedEvents {
		GinkgoHelper()
		e, err := sharded.Events(ctx, options)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(e.Close)
		return e
	}
	add := func(sharded *bullmq.ShardedQueue, count int) {
		GinkgoHelper()
		for range count {
			_, err := sharded.Add(ctx, "paint", nil, nil)
			Expect(err).NotTo(HaveOccurred())
		}
	}
	// next returns the shard and the job of so many added events.
	next := func(e *bullmq.ShardedEvents, count int) (seen []string) {
		GinkgoHelper()
		for event, err := range e.All(ctx) {
			Expect(err).NotTo(HaveOccurred())
			if event.Type == bullmq.EventAdded {
				if seen = append(seen, event.QueueName+event.JobID); len(seen) == count {
					return seen
				}
			}
		}
		return seen
	}

	It("that are in the streams are in the order of their times, without gaps when a second loop continues", func() {
		sharded := newSharded(name, 3, bullmq.ShardedQueueOptions{})
		var want []string
		for i := range 60 {
			want = append(want, fmt.Sprintf("{%s-%d}%d", name, i%3, i/3+1))
		}
		ofOther := func(shard int) func(string) bool {
			return func(job string) bool { return !strings.HasPrefix(job, fmt.Sprintf("{%s-%d}", name, shard)) }
		}
		for range 60 {
			add(sharded, 1)
			time.Sleep(2 * time.Millisecond) // for another time of Redis
		}
		var e *bullmq.ShardedEvents
		Eventually(func() []string { // a stall of more than 20 ms may change the order
			e = events(sharded, &bullmq.ShardedEventsOptions{LastEventID: "0-0"})
			var seen []string
			for range 6 {
				seen = append(seen, next(e, 10)...)
			}
			Expect(seen).To(ConsistOf(want))
			for i := range 3 {
				Expect(slices.DeleteFunc(slices.Clone(seen), ofOther(i))).To(Equal(slices.DeleteFunc(slices.Clone(want), ofOther(i))))
			}
			return seen
		}, "30s").Should(Equal(want))

		ids := e.LastEventIDs()
		Expect(ids).To(HaveLen(3))
		add(sharded, 3)
		Expect(next(events(sharded, &bullmq.ShardedEventsOptions{LastEventIDs: ids}), 3)).To(HaveLen(3))
	})

	It("are read from the call of Events on, and soon after they were written", func() {
		sharded := newSharded(name, 3, bullmq.ShardedQueueOptions{})
		add(sharded, 3)
		e := events(sharded, nil)
		add(sharded, 4)
		seen := next(e, 4)
		Expect(seen).To(ConsistOf("{"+name+"-0}2", "{"+name+"-1}2", "{"+name+"-2}2", "{"+name+"-0}3"))
	})

	It("are read quickly even if most shards are idle", func() {
		sharded := newSharded(name, 4, bullmq.ShardedQueueOptions{})
		e := events(sharded, nil)
		_, err := sharded.Shards()[1].AddBulk(ctx, slices.Repeat([]bullmq.BulkJob{{Name: "paint"}}, 3000))
		Expect(err).NotTo(HaveOccurred())
		begun := time.Now()
		Expect(next(e, 3000)).To(HaveLen(3000))
		Expect(time.Since(begun)).To(BeNumerically("<", 20*time.Second)) // a minute with a wait for each
	})

	It("include those of a generation that begins while they are read", Label("slow"), func() {
		sharded := newSharded(name, 2, bullmq.ShardedQueueOptions{})
		e := events(sharded, nil)
		var mu sync.Mutex
		var seen []string
		var reading sync.WaitGroup
		reading.Go(func() {
			for event, err := range e.All(ctx) {
				if err == nil && event.Type == bullmq.EventAdded {
					mu.Lock()
					seen = append(seen, event.QueueName)
					mu.Unlock()
				}
			}
		})
		add(sharded, 2)
		Expect(sharded.Resize(ctx, 2)).To(Succeed())
		Expect(sharded.Resize(ctx, 3)).To(Succeed())
		add(sharded, 3)
		Eventually(func() []string {
			mu.Lock()
			defer mu.Unlock()
			return slices.Sorted(slices.Values(seen))
		}, "20s").Should(Equal([]string{"{" + name + "-0}", "{" + name + "-1}", "{" + name + ".1-0}", "{" + name + ".1-1}", "{" + name + ".1-2}"}))
		Expect(e.Close()).To(Succeed())
		reading.Wait()
	})

	It("are read on while a shard is down, with an error that names it", Label("slow"), func() {
		servers, connections := shardServers(2)
		sharded := newSharded(name, 2, bullmq.ShardedQueueOptions{Connections: connections})
		e := events(sharded, nil)
		servers[1].Kill()
		_, err := sharded.Shards()[0].Add(ctx, "paint", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		var failed []string
		found, restarted, after := false, false, 0
		for event, err := range e.All(ctx) {
			switch {
			case err != nil:
				failed = failedShards(err)
			case event.Type == bullmq.EventAdded && event.QueueName == "{"+name+"-0}":
				found = true
			case event.Type == bullmq.EventAdded:
				after++
			}
			if found && failed != nil && !restarted {
				restarted = true
				Expect(servers[1].Start()).To(Succeed())
				Eventually(func() error { _, err := sharded.Shards()[1].Add(ctx, "paint", nil, nil); return err }, "20s").Should(Succeed())
			}
			if after > 0 {
				break
			}
		}
		Expect(found).To(BeTrue())
		Expect(failed).To(Equal([]string{"{" + name + "-1}"}))
		Expect(after).To(Equal(1))
	})
})
