package bullmq_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/rueidis"
	"github.com/rs/zerolog"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

var _ = Describe("A connection", Label("slow"), func() {
	// openWithin opens a queue, a worker and an event reader at once. It returns their errors and the longest time.
	openWithin := func(ctx context.Context, link *bullmq.Connection) (errs []error, longest time.Duration) {
		var mu sync.Mutex
		var tries sync.WaitGroup
		for _, try := range []func() error{
			func() error {
				_, err := bullmq.NewQueue(ctx, "q", &bullmq.QueueOptions{Connection: link})
				return err
			},
			func() error {
				_, err := bullmq.NewWorker(ctx, "q", doNothing, &bullmq.WorkerOptions{Connection: link})
				return err
			},
			func() error {
				_, err := bullmq.NewQueueEvents(ctx, "q", &bullmq.QueueEventsOptions{Connection: link})
				return err
			},
		} {
			tries.Go(func() {
				begun := time.Now()
				err := try()
				mu.Lock()
				defer mu.Unlock()
				errs, longest = append(errs, err), max(longest, time.Since(begun))
			})
		}
		tries.Wait()
		return errs, longest
	}
	open := func(link *bullmq.Connection) (errs []error, longest time.Duration) {
		return openWithin(context.Background(), link)
	}

	Describe("that cannot be made", func() {
		It("returns an error with the address at once if nothing listens there", func() {
			port, err := redisserver.FreePort()
			Expect(err).NotTo(HaveOccurred())
			address := fmt.Sprint("127.0.0.1:", port)
			errs, longest := open(bullmq.URL("redis://user:s3cret@" + address))
			Expect(errs).To(HaveEach(MatchError(And(ContainSubstring(address), ContainSubstring("refused"), ContainSubstring("check the address"), Not(ContainSubstring("s3cret"))))))
			Expect(longest).To(BeNumerically("<", 3*time.Second))
		})

		It("returns an error with the address within 5 seconds if nothing replies to the first or second command", func() {
			mute, err := net.Listen("tcp", "127.0.0.1:0")
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(mute.Close)
			var accepted sync.Map
			go func() {
				for {
					conn, err := mute.Accept()
					if err != nil {
						return
					}
					accepted.Store(conn, true)
				}
			}()
			DeferCleanup(func() { accepted.Range(func(conn, _ any) bool { conn.(net.Conn).Close(); return true }) })

			gaveUp := errors.New("the caller gave up")
			ctx, cancel := context.WithTimeoutCause(context.Background(), 100*time.Millisecond, gaveUp)
			defer cancel()
			errs, longest := openWithin(ctx, bullmq.URL("redis://"+mute.Addr().String()))
			Expect(errs).To(HaveEach(And(MatchError(gaveUp), MatchError(ContainSubstring(mute.Addr().String())))))
			Expect(longest).To(BeNumerically("<", 3*time.Second), "at the end of the context")

			halfMute := miniredis.RunT(GinkgoT())
			halfMute.Server().SetPreHook(func(_ *server.Peer, command string, _ ...string) bool { return command == "INFO" })

			steadily(func(g Gomega) {
				var tries sync.WaitGroup
				var took [2]time.Duration
				for i, address := range []string{mute.Addr().String(), halfMute.Addr()} {
					tries.Go(func() {
						defer GinkgoRecover()
						errs, longest := open(bullmq.Options(rueidis.ClientOption{InitAddress: []string{address}, ForceSingleClient: true}))
						Expect(errs).To(HaveEach(MatchError(ContainSubstring(address))))
						took[i] = longest
					})
				}
				tries.Wait()
				g.Expect(took).To(HaveEach(BeNumerically("<", 5*time.Second)))
			})
		})

		DescribeTable("returns an error with the remedy for", func(connection func() *bullmq.Connection, hints ...string) {
			errs, longest := open(connection())
			for _, hint := range hints {
				Expect(errs).To(HaveEach(MatchError(ContainSubstring(hint))))
			}
			Expect(longest).To(BeNumerically("<", 3*time.Second))
		},
			Entry("a database that the server lacks", func() *bullmq.Connection { return bullmq.URL("redis://" + redis.Addr() + "/9999") },
				"DB index is out of range", "check the database, the number at the end of the address"),
			Entry("options without an address", func() *bullmq.Connection { return bullmq.Options(rueidis.ClientOption{}) }, "set InitAddress"),
			Entry("a missing client", func() *bullmq.Connection { return bullmq.Client(nil) }, "the client is nil"),
			Entry("an address with a leading space", func() *bullmq.Connection { return bullmq.URL(" redis://" + redis.Addr()) }, `address " redis://`),
		)

		DescribeTable("hides the password in the error for an address with", func(address, shown string) {
			errs, _ := open(bullmq.URL(address))
			for _, secret := range []string{"s3", "cret", "%zz", "777"} {
				Expect(errs).To(HaveEach(MatchError(Not(ContainSubstring(secret)))))
			}
			Expect(errs).To(HaveEach(MatchError(And(ContainSubstring(fmt.Sprintf("Redis address %q", shown)), ContainSubstring("redis://user:password@host:6379/0")))))
		},
			Entry("an unknown scheme", "http://user:s3cret@localhost:6379", "http://***@localhost:6379"),
			Entry("a bad port", "redis://user:s3cret@localhost:port", "redis://***@localhost:port"),
			Entry("a bad database", "redis://user:s3cret@localhost:6379/first", "redis://***@localhost:6379/first"),
			Entry("a bad escape in the password", "redis://user:s3%zzcret@localhost:6379", "redis://***@localhost:6379"),
			Entry("a slash in the password", "redis://user:s3/cret@localhost:6379", "redis://***@localhost:6379"),
			Entry("a slash after digits in the password", "redis://user:777/cret@localhost:6379", "redis://***@localhost:6379"),
			Entry("a number sign in the password", "redis://:777#cret@localhost:6379", "redis://***@localhost:6379"),
			Entry("a question mark in the password", "redis://:s3?cret@localhost:6379", "redis://***@localhost:6379"),
			Entry("a missing scheme", "user:s3cret@localhost:6379", "***@localhost:6379"),
		)
	})

	It("accepts a user and a password with escaped characters", func() {
		secured := startRedis(redisserver.Options{Password: "s3/c#r?t@%", ACL: []string{"paint on >blue ~bull:* &* +@all"}})
		roundTrip(newQueueName(), "", bullmq.URL(secured.URL()))
		roundTrip(newQueueName(), "", bullmq.URL("redis://paint:blue@"+secured.Addr()))
	})

	It("returns an error with the address and without the password if that is wrong or missing", func() {
		secured := startRedis(redisserver.Options{Password: "right"})
		errs, _ := open(bullmq.URL("redis://:s3cret@" + secured.Addr()))
		Expect(errs).To(HaveEach(MatchError(And(ContainSubstring(secured.Addr()), ContainSubstring("WRONGPASS"), Not(ContainSubstring("s3cret"))))))
		errs, _ = open(bullmq.URL("redis://" + secured.Addr()))
		Expect(errs).To(HaveEach(MatchError(And(ContainSubstring(secured.Addr()), ContainSubstring("NOAUTH")))))
	})

	It("returns an error that names maxclients if the server has too many clients", func() {
		full := startRedis(redisserver.Options{})
		admin := clientOf(full)
		Expect(admin.Do(specContext(), admin.B().ConfigSet().ParameterValue().ParameterValue("maxclients", "1").Build()).Error()).To(Succeed())
		errs, _ := open(bullmq.URL(full.URL()))
		Expect(admin.Do(specContext(), admin.B().ConfigSet().ParameterValue().ParameterValue("maxclients", "100").Build()).Error()).To(Succeed())
		Expect(errs).To(HaveEach(MatchError(And(ContainSubstring(full.Addr()), ContainSubstring("maxclients")))))
	})

	DescribeTable("works", func(link func() *bullmq.Connection) { roundTrip(newQueueName(), "", link()) },
		Entry("with an address", func() *bullmq.Connection { return bullmq.URL(redis.URL()) }),
		Entry("with a socket file", func() *bullmq.Connection {
			return bullmq.URL("unix://" + filepath.Join(redis.Directory(), "redis.sock"))
		}),
		Entry("over RESP2", func() *bullmq.Connection {
			return bullmq.Options(rueidis.ClientOption{InitAddress: []string{redis.Addr()}, AlwaysRESP2: true})
		}),
		Entry("with the caller's client", func() *bullmq.Connection {
			client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{redis.Addr()}, DisableCache: true})
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(client.Close)
			return bullmq.Client(client)
		}),
		Entry("with the caller's client that caches and speaks RESP3", func() *bullmq.Connection {
			client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{redis.Addr()}})
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(client.Close)
			return bullmq.Client(client)
		}),
	)

	It("uses the database in its address", func() {
		name := newQueueName()
		queue := newQueue(name, &bullmq.QueueOptions{Connection: bullmq.URL(redis.URL() + "/3")})
		_, err := queue.Add(specContext(), "paint", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(keysOf(name)).To(BeEmpty())
	})

	Describe("with the caller's client", func() {
		newClient := func(option rueidis.ClientOption) rueidis.Client {
			GinkgoHelper()
			option.InitAddress, option.DisableCache = []string{redis.Addr()}, true
			client, err := rueidis.NewClient(option)
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(client.Close)
			return client
		}

		It("leaves the client open and usable when a queue, a worker or a reader is closed", func() {
			name, client := newQueueName(), newClient(rueidis.ClientOption{})
			link := bullmq.Client(client)
			queue := newQueue(name, &bullmq.QueueOptions{Connection: link})
			other := newQueue(name, &bullmq.QueueOptions{Connection: link})
			Expect(queue.Close()).To(Succeed())
			Expect(newWorker(name, doNothing, &bullmq.WorkerOptions{Connection: link}).Close()).To(Succeed())
			Expect(newEvents(name, bullmq.QueueEventsOptions{Connection: link}).Close()).To(Succeed())
			_, err := queue.Add(specContext(), "paint", nil, nil)
			Expect(err).To(MatchError(bullmq.ErrClosed))
			_, err = other.Add(specContext(), "paint", nil, nil)
			Expect(err).NotTo(HaveOccurred())
			Expect(client.Do(specContext(), client.B().Ping().Build()).ToString()).To(Equal("PONG"))
		})

		It("does not delay an add while an idle worker and a reader block on it", func() {
			name := newQueueName()
			link := bullmq.Client(newClient(rueidis.ClientOption{PipelineMultiplex: -1}))
			queue := newQueue(name, &bullmq.QueueOptions{Connection: link})
			runWorker(name, func(context.Context, *bullmq.Job) (any, error) { return nil, nil }, &bullmq.WorkerOptions{Connection: link})
			ending, end := context.WithCancel(specContext())
			reader := newEvents(name, bullmq.QueueEventsOptions{Connection: link})
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				for range reader.All(ending) {
				}
			}()
			Eventually(clientList).Should(And(ContainSubstring("cmd=bzpopmin"), ContainSubstring("cmd=xread")))
			for range 5 {
				begun := time.Now()
				_, err := queue.Add(specContext(), "paint", nil, nil)
				Expect(err).NotTo(HaveOccurred())
				Expect(time.Since(begun)).To(BeNumerically("<", 4*time.Second), "both block for longer")
			}
			end()
			Eventually(ended).Should(BeClosed())
		})
	})

	Describe("to a server", func() {
		// pretending starts an in-process server with the given INFO.
		pretending := func(info string) *bullmq.Connection {
			GinkgoHelper()
			mini := miniredis.RunT(GinkgoT())
			mini.Server().SetPreHook(func(c *server.Peer, command string, _ ...string) bool {
				if command == "INFO" {
					c.WriteBulk(strings.ReplaceAll(info, "\n", "\r\n"))
					return true
				}
				return false
			})
			return bullmq.Options(rueidis.ClientOption{InitAddress: []string{mini.Addr()}, ForceSingleClient: true})
		}

		It("is refused if the server is too old", func() {
			errs, _ := open(pretending("# Server\nredis_version:6.0.16\n"))
			Expect(errs).To(HaveEach(MatchError(And(ContainSubstring("Redis 6.0.16"), ContainSubstring("127.0.0.1:"), ContainSubstring("6.2 or later")))))
		})

		DescribeTable("is accepted if the server is new enough or of another kind:", func(info string) {
			newQueue(newQueueName(), &bullmq.QueueOptions{Connection: pretending(info)})
		},
			Entry("Redis 6.2", "redis_version:6.2.0\n"),
			Entry("Redis 10", "redis_version:10.0.0\n"),
			Entry("an invalid version", "redis_version:unstable\n"),
			Entry("Valkey, whatever Redis version it claims", "redis_version:5.0.0\nvalkey_version:8.0.1\n"),
			Entry("Dragonfly", "redis_version:5.0.0\ndragonfly_version:df-v1.20\n"),
			Entry("a server without INFO", ""),
		)

		DescribeTable("works with one warning if the server may evict keys,", func(policy string, use func(name string, link *bullmq.Connection, log bullmq.Logger)) {
			evicting := startRedis(redisserver.Options{Config: []string{"maxmemory-policy " + policy}})
			var log bytes.Buffer
			use("q", bullmq.URL(evicting.URL()), bullmq.Zerolog(zerolog.New(&log).Level(zerolog.WarnLevel)))
			lines := strings.Split(strings.TrimSpace(log.String()), "\n")
			Expect(lines).To(HaveLen(1))
			Expect(lines[0]).To(And(ContainSubstring(`"level":"warn"`), ContainSubstring(policy), ContainSubstring("noeviction"), ContainSubstring(evicting.Addr())))
		},
			Entry("locks first, by a queue", "volatile-lru", func(name string, link *bullmq.Connection, log bullmq.Logger) {
				_, err := newQueue(name, &bullmq.QueueOptions{Connection: link, Logger: log}).Add(specContext(), "paint", nil, nil)
				Expect(err).NotTo(HaveOccurred())
			}),
			Entry("any keys, by a worker that starts, runs and stops", "allkeys-random", func(name string, link *bullmq.Connection, log bullmq.Logger) {
				queue := newQueue(name, &bullmq.QueueOptions{Connection: link})
				_, err := queue.Add(specContext(), "paint", nil, nil)
				Expect(err).NotTo(HaveOccurred())
				worker := runWorker(name, doNothing, &bullmq.WorkerOptions{Connection: link, Logger: log})
				Eventually(countOf(queue, bullmq.StateCompleted)).Should(Equal(1))
				Expect(worker.Close()).To(Succeed())
			}),
			Entry("locks first, by an event reader", "volatile-ttl", func(name string, link *bullmq.Connection, log bullmq.Logger) {
				_, err := newQueue(name, &bullmq.QueueOptions{Connection: link}).Publish(specContext(), "dried", nil)
				Expect(err).NotTo(HaveOccurred())
				for _, err := range newEvents(name, bullmq.QueueEventsOptions{Connection: link, Logger: log, LastEventID: "0"}).All(specContext()) {
					Expect(err).NotTo(HaveOccurred())
					break
				}
			}),
		)

		It("logs nothing about a suitable server", func() {
			var log bytes.Buffer
			newQueue(newQueueName(), &bullmq.QueueOptions{Logger: bullmq.Zerolog(zerolog.New(&log))})
			Expect(log.String()).To(BeEmpty())
		})
	})

	Describe("of a user with few rights", func() {
		var name string
		BeforeEach(func() { name = newQueueName() })

		It("works without INFO, CONFIG, CLIENT and XINFO", func() {
			roundTrip(name, "", restricted("~bull:* +@all -info -config -client -xinfo -@dangerous -@admin"))
		})

		It("returns an error that names the command which a call needs", func() {
			queue := newQueue(name, &bullmq.QueueOptions{Connection: restricted("~bull:* +@all -eval -evalsha")})
			_, err := queue.Add(specContext(), "paint", nil, nil)
			Expect(err).To(MatchError(And(ContainSubstring("NOPERM"), ContainSubstring("evalsha"), ContainSubstring("bull:"+name))))
			Expect(err).NotTo(MatchError(bullmq.ErrMaybeAdded))
			_, err = queue.AddBulk(specContext(), []bullmq.BulkJob{{Name: "paint"}})
			Expect(err).To(MatchError(And(ContainSubstring("NOPERM"), ContainSubstring("evalsha"))))
		})

		It("returns ErrMaybeAdded for a flow that could not be added in one transaction", func() {
			producer, err := bullmq.NewFlowProducer(context.Background(), &bullmq.FlowProducerOptions{Connection: restricted("~bull:* +@all -multi")})
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(producer.Close)
			_, err = producer.Add(specContext(), bullmq.Flow{Name: "paint", QueueName: name})
			Expect(err).To(And(MatchError(ContainSubstring("NOPERM")), MatchError(bullmq.ErrMaybeAdded)))
			Expect(newQueue(name, nil).Counts(specContext(), bullmq.StateWaiting)).To(HaveKeyWithValue(bullmq.StateWaiting, BeEquivalentTo(1)))
		})

		It("returns another error for a flow of which nothing was added", func() {
			producer, err := bullmq.NewFlowProducer(context.Background(), &bullmq.FlowProducerOptions{Connection: restricted("~bull:* +@all -eval")})
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(producer.Close)
			_, err = producer.Add(specContext(), bullmq.Flow{Name: "paint", QueueName: name})
			Expect(err).To(And(MatchError(ContainSubstring("NOPERM")), Not(MatchError(bullmq.ErrMaybeAdded))))
			Expect(newQueue(name, nil).Counts(specContext(), bullmq.StateWaiting)).To(HaveKeyWithValue(bullmq.StateWaiting, BeZero()))
		})

		It("returns an error in the loop that reads events", func() {
			for _, err := range newEvents(name, bullmq.QueueEventsOptions{Connection: restricted("~bull:* +@all -xread")}).All(specContext()) {
				Expect(err).To(MatchError(And(ContainSubstring("NOPERM"), ContainSubstring("xread"), ContainSubstring("events of "+name))))
				break
			}
		})

		It("returns an error when a queue opens that cannot be written", func() {
			_, err := bullmq.NewQueue(context.Background(), name, &bullmq.QueueOptions{Connection: restricted("~bull:* +@all -hset")})
			Expect(err).To(MatchError(And(ContainSubstring("bull:"+name+":meta"), ContainSubstring("hset"))))
			_, err = bullmq.NewQueue(context.Background(), name, &bullmq.QueueOptions{Connection: restricted("~other:* +@all")})
			Expect(err).To(MatchError(And(ContainSubstring("bull:"+name+":meta"), ContainSubstring("NOPERM"), ContainSubstring("right to write its keys"))))
		})
	})

	It("to a cluster needs braces around the queue's name or in the prefix, so that all keys share a slot", func() {
		cluster := clustered()
		name := newQueueName()

		errs, _ := open(cluster)
		Expect(errs).To(HaveEach(MatchError(And(ContainSubstring("{bull}"), ContainSubstring("{q}"), ContainSubstring("on every client")))))
		roundTrip("{"+name+"}", "", cluster)
		roundTrip(name, "{bull}", cluster)
		queue := newQueue(name, &bullmq.QueueOptions{Connection: cluster, Prefix: "{bull}"})
		Expect(queue.Obliterate(specContext(), nil)).To(Succeed())
		Expect(onCluster("KEYS", "{bull}:"+name+":*").AsStrSlice()).To(BeEmpty())
	})
})

// connectionsOf returns connections to an address by URL, by options and by the caller's client.
func connectionsOf(addr string, option rueidis.ClientOption) []*bullmq.Connection {
	GinkgoHelper()
	option.InitAddress, option.PipelineMultiplex, option.DisableCache = []string{addr}, -1, true
	client, err := rueidis.NewClient(option)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(client.Close)
	return []*bullmq.Connection{bullmq.URL("redis://" + addr), bullmq.Options(option), bullmq.Client(client)}
}

var _ = Describe("A connection over time", Label("slow"), func() {
	It("survives idle times beyond the server's and its client's timeout without an error or a reconnect", func() {
		ctx := specContext()
		faults, changes := make(chan error, 100), make(chan bullmq.Health, 100)
		var runs []func()
		var closed []func() int // numbers of connections that have ended
		behind := func(timeout string, connections func(addr string) []*bullmq.Connection) {
			GinkgoHelper()
			server := startRedis(redisserver.Options{Config: []string{"timeout " + timeout}})
			proxy := proxied(server.Addr())
			closed = append(closed, func() int { return proxy.Accepted() - proxy.Connections() })
			for _, via := range connections(proxy.Addr()) {
				name, done := newQueueName(), make(chan string, 1)
				queue := newQueue(name, &bullmq.QueueOptions{Connection: via, OnHealth: func(h bullmq.Health) { changes <- h }})
				runWorker(name, doNothing, &bullmq.WorkerOptions{Connection: via, Events: bullmq.WorkerEvents{
					Error: func(err error) { faults <- err }, Completed: func(job *bullmq.Job, _ any) { done <- job.ID },
				}})
				runs = append(runs, func() {
					GinkgoHelper()
					_, err := queue.Add(ctx, "paint", nil, nil)
					Expect(err).NotTo(HaveOccurred())
					Eventually(done).Should(Receive())
				})
			}
		}
		behind("5", func(addr string) []*bullmq.Connection { return []*bullmq.Connection{bullmq.URL("redis://" + addr)} })
		behind("4", func(addr string) []*bullmq.Connection {
			short := rueidis.ClientOption{ConnWriteTimeout: 3 * time.Second, Dialer: net.Dialer{KeepAlive: 300 * time.Millisecond}}
			return connectionsOf(addr, short)[1:]
		})
		for _, run := range runs {
			run()
		}
		before := []int{closed[0](), closed[1]()}
		time.Sleep(7 * time.Second) // longer than the timeouts
		for _, run := range runs {
			run()
		}
		Expect([]int{closed[0](), closed[1]()}).To(Equal(before), "connections closed")
		Expect(faults).To(BeEmpty())
		Expect(changes).To(BeEmpty())
	})

	It("that the other side has closed accepts adds or returns ErrMaybeAdded, and accepts each two seconds later", func() {
		steadily(func(g Gomega) {
			proxy := proxied(redis.Addr())
			ctx := specContext()
			var queues []*bullmq.Queue
			for _, via := range connectionsOf(proxy.Addr(), rueidis.ClientOption{}) {
				queue := newQueue(newQueueName(), &bullmq.QueueOptions{Connection: via})
				_, err := queue.Add(ctx, "paint", nil, nil)
				Expect(err).NotTo(HaveOccurred())
				queues = append(queues, queue)
			}
			proxy.CutAll()
			closed := time.Now()
			var added, doubtful [3]int
			for time.Since(closed) < 2500*time.Millisecond {
				late := time.Since(closed) > 2*time.Second
				for i, queue := range queues {
					switch _, err := queue.Add(ctx, "paint", nil, nil); {
					case err == nil:
						added[i]++
					case late:
						g.Expect(err).NotTo(HaveOccurred())
					default:
						Expect(err).To(MatchError(bullmq.ErrMaybeAdded))
						doubtful[i]++
					}
				}
				time.Sleep(50 * time.Millisecond)
			}
			for i, queue := range queues {
				there := len(listAt(keyOf(queue.Name(), "wait")))
				Expect(there).To(And(BeNumerically(">=", 1+added[i]), BeNumerically("<=", 1+added[i]+doubtful[i])))
			}
		})
	})

	DescribeTable("works", func(option rueidis.ClientOption) {
		secured := startRedis(redisserver.Options{Password: "s3/c#r?t@%"})
		option.InitAddress, option.Password, option.SelectDB = []string{secured.Addr()}, "s3/c#r?t@%", 5
		roundTrip(newQueueName(), "", bullmq.Options(option))
		admin, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: option.InitAddress, Password: option.Password, DisableCache: true, ForceSingleClient: true})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(admin.Close)
		Expect(admin.Do(specContext(), admin.B().Dbsize().Build()).AsInt64()).To(BeZero(), "keys of database 0")
	},
		Entry("with a password, on another database", rueidis.ClientOption{}),
		Entry("with pools of one connection", rueidis.ClientOption{BlockingPoolSize: 1, PipelineMultiplex: -1}),
		Entry("with pipelining at all times", rueidis.ClientOption{AlwaysPipelining: true}),
		Entry("without pipelining", rueidis.ClientOption{DisableAutoPipelining: true}),
		Entry("over RESP2", rueidis.ClientOption{AlwaysRESP2: true, DisableCache: true}),
	)

	It("carries megabytes intact and returns an error beyond the server's limit", func() {
		server := startRedis(redisserver.Options{})
		own, name, ctx := bullmq.URL(server.URL()), newQueueName(), specContext()
		queue := newQueue(name, &bullmq.QueueOptions{Connection: own})
		runWorker(name, func(_ context.Context, job *bullmq.Job) (any, error) { return job.Data, nil }, &bullmq.WorkerOptions{Connection: own})
		for _, size := range []int{1 << 20, 12 << 20} {
			data := `"` + strings.Repeat("a ", size/2) + `"`
			job, err := queue.Add(ctx, "paint", json.RawMessage(data), nil)
			Expect(err).NotTo(HaveOccurred())
			result, err := job.Wait(ctx, queue)
			Expect(err).NotTo(HaveOccurred())
			Expect(string(result) == data).To(BeTrue(), "of %d bytes", size)
		}
		admin := clientOf(server)
		Expect(admin.Do(ctx, admin.B().ConfigSet().ParameterValue().ParameterValue("proto-max-bulk-len", "1mb").Build()).Error()).To(Succeed())
		_, err := queue.Add(ctx, "paint", strings.Repeat("a", 3<<20), nil)
		Expect(err).To(HaveOccurred())
		// The server has reset the connection, which the next call may notice first.
		Eventually(countOf(queue, bullmq.StateWaiting)).Should(BeZero())
	})
})
