package redisstore

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/redisconn"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

var _ = Describe("A wait for many markers", func() {
	for _, protocol := range []int{2, 3} {
		Context(fmt.Sprint("over RESP", protocol), func() {
			var (
				ctx    context.Context
				option rueidis.ClientOption
				client *redisconn.Client
				waiter *GroupWaiter
				keys   []string
			)
			BeforeEach(func() {
				ctx = context.Background()
				option = rueidis.ClientOption{InitAddress: []string{server.Addr()}, AlwaysRESP2: protocol == 2, DisableCache: protocol == 2}
				keys = nil
				for i := range 10_000 {
					keys = append(keys, fmt.Sprintf("many-%d:%d:marker", queues.Load(), i))
				}
				queues.Add(1)
			})
			open := func() {
				GinkgoHelper()
				conn, err := redisconn.Dial(ctx, option)
				Expect(err).NotTo(HaveOccurred())
				client = conn.NewClient(keys[0], true)
				DeferCleanup(client.Close)
				waiter = NewGroupWaiter(client, client.NewBlocking("many", func(int) {}))
				DeferCleanup(waiter.Close)
			}

			set := func(key, member string, score float64) {
				GinkgoHelper()
				Expect(client.Do(ctx, client.B().Zadd().Key(key).ScoreMember().ScoreMember(score, member).Build()).Error()).To(Succeed())
			}
			// wait waits in the background.
			wait := func(keys ...string) <-chan backend.GroupWake {
				ended := make(chan backend.GroupWake, 1)
				waiter.Begin()
				go func() {
					wake := waiter.Wait(10*time.Second, keys)
					waiter.End()
					ended <- wake
				}()
				return ended
			}
			ended := func(by <-chan backend.GroupWake) (wake backend.GroupWake) {
				GinkgoHelper()
				Eventually(by, "15s").Should(Receive(&wake))
				return wake
			}

			It("returns each of 10,000 keys", func() {
				open()
				for _, i := range []int{0, 1, 4999, 9999} {
					by := wait(keys...)
					set(keys[i], "0", 0)
					Expect(ended(by)).To(Equal(backend.GroupWake{Wake: backend.Wake{Woken: true}, Marker: keys[i], Member: "0"}))
				}
			})

			It("serves all keys if it begins behind the one that was served last", func() {
				open()
				keys = keys[:20]
				served := map[string]int{}
				for range 60 {
					for _, key := range keys {
						set(key, "0", 0)
					}
					wake := ended(wait(keys...))
					served[wake.Marker]++
					i := slices.Index(keys, wake.Marker)
					keys = append(slices.Clone(keys[i+1:]), keys[:i+1]...)
				}
				Expect(served).To(HaveLen(20))
				Expect(served).To(HaveEach(3))
			})

			It("takes any member of a key, such as a name, and puts it back", func() {
				open()
				set(keys[7], "queue with a name", 0)
				wake := ended(wait(keys[5:9]...))
				Expect(wake.Member).To(Equal("queue with a name"))
				Expect(waiter.Return(wake)).To(Succeed())
				Expect(ended(wait(keys[5:9]...))).To(Equal(wake))
			})

			It("puts back no later time than one that was set since", func() {
				open()
				set(keys[1], "1", 2e12)
				wake := ended(wait(keys[:3]...))
				Expect(wake.NextDue).To(BeTemporally("==", time.UnixMilli(2e12)))
				set(keys[1], "1", 1.5e12)
				Expect(waiter.Return(wake)).To(Succeed())
				Expect(ended(wait(keys[:3]...)).NextDue).To(BeTemporally("==", time.UnixMilli(1.5e12)))
			})

			It("loses no marker that is set while it is interrupted", func() {
				open()
				keys = keys[:100]
				rounds := 300
				if testing.Short() {
					rounds = 50
				}
				for round := range rounds {
					by := wait(keys...)
					key := keys[round*7%100]
					go waiter.Interrupt()
					set(key, "0", 0)
					wake := ended(by)
					Expect(wake.Err).NotTo(HaveOccurred())
					left, err := client.Do(ctx, client.B().Zcard().Key(key).Build()).AsInt64()
					Expect(err).NotTo(HaveOccurred())
					Expect(wake.Woken).To(Equal(left == 0), "the marker was taken in round %d", round)
					if wake.Woken {
						Expect(wake.Marker).To(Equal(key))
					} else {
						Expect(client.Do(ctx, client.B().Del().Key(key).Build()).Error()).To(Succeed())
					}
				}
			})

			It("reports a key that is no marker", func() {
				open()
				Expect(client.Do(ctx, client.B().Set().Key(keys[1]).Value("text").Build()).Error()).To(Succeed())
				Expect(ended(wait(keys[:3]...)).Err).To(MatchError(ContainSubstring("WRONGTYPE")))
				wake := backend.GroupWake{Wake: backend.Wake{Woken: true}, Marker: keys[1], Member: "0"}
				other := backend.GroupWake{Wake: backend.Wake{Woken: true}, Marker: keys[2], Member: "0"}
				Expect(waiter.Return(wake, other)).To(MatchError(ContainSubstring("put back 1 of 2 markers: WRONGTYPE")))
				Expect(ended(wait(keys[2:3]...)).Marker).To(Equal(keys[2]))
			})

			It("is ended by closing its connection if CLIENT is forbidden", func() {
				server, err := redisserver.Start(redisserver.Options{ACL: []string{"default on nopass ~* &* +@all -client"}})
				Expect(err).NotTo(HaveOccurred())
				DeferCleanup(server.Close)
				option.InitAddress = []string{server.Addr()}
				option.DisableCache, option.ForceSingleClient = true, true
				open()
				for range 3 {
					by := wait(keys...)
					Consistently(by, "20ms").ShouldNot(Receive())
					waiter.Interrupt()
					Expect(ended(by)).To(Equal(backend.GroupWake{Cut: true}))
				}
				set(keys[3], "0", 0)
				Expect(ended(wait(keys...)).Marker).To(Equal(keys[3]))
			})

			It("ends with an error when it is closed", func() {
				open()
				by := wait(keys...)
				Consistently(by, "20ms").ShouldNot(Receive())
				waiter.Close()
				wake := ended(by)
				Expect(wake.Err).To(HaveOccurred())
				Expect(wake.Woken).To(BeFalse())
			})
		})
	}
})
