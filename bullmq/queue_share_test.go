package bullmq_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/faultproxy"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

// connectTo returns a Connection with one socket, which is closed when the spec ends.
func connectTo(addr string) *bullmq.Connection {
	GinkgoHelper()
	conn, err := bullmq.ConnectOption(context.Background(), rueidis.ClientOption{InitAddress: []string{addr}, PipelineMultiplex: -1})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(conn.Close)
	return conn
}

// sharing returns queues of a connection that share calls.
func sharing(conn *bullmq.Connection, count int, options bullmq.QueueOptions) (all []*bullmq.Queue) {
	GinkgoHelper()
	options.Connection, options.ShareCalls = conn, true
	for range count {
		all = append(all, newQueue(newQueueName(), &options))
	}
	return all
}

// addTogether adds jobs to each queue at the same time, while a link is held, so that they
// share calls. The first add to the first queue comes before all others, and finds no call
// to share. It returns the errors by queue.
func addTogether(ctx context.Context, queues []*bullmq.Queue, each int, hold, release func()) [][]error {
	GinkgoHelper()
	hold()
	errs := make([][]error, len(queues))
	var begun, ended sync.WaitGroup
	add := func(i, n int) {
		begun.Add(1)
		ended.Go(func() {
			begun.Done()
			_, errs[i][n] = queues[i].Add(ctx, "shared", fmt.Sprint(n), nil)
		})
	}
	settle := func() {
		begun.Wait()
		time.Sleep(50 * time.Millisecond) // to let each of them reach its call
	}
	for i := range queues {
		errs[i] = make([]error, each)
	}
	add(0, 0)
	settle()
	for i := range queues {
		for n := range each {
			if i+n > 0 {
				add(i, n)
			}
		}
	}
	settle()
	release()
	ended.Wait()
	return errs
}

var _ = Describe("Adds to several queues with ShareCalls", func() {
	var ctx context.Context
	var server *redisserver.Server
	var proxy *faultproxy.Proxy
	var hold, release func()
	BeforeEach(func() {
		ctx, server = specContext(), startRedis(redisserver.Options{})
		proxy = proxied(server.Addr())
		hold = func() { Expect(proxy.Set(faultproxy.Faults{BlackHole: true})).To(Succeed()) }
		release = func() { Expect(proxy.Set(faultproxy.Faults{})).To(Succeed()) }
	})

	// calls returns how many scripts the server has run.
	calls := func() (count int) {
		GinkgoHelper()
		client := clientOf(server)
		text, err := client.Do(ctx, client.B().Info().Section("commandstats").Build()).ToString()
		Expect(err).NotTo(HaveOccurred())
		for line := range strings.Lines(text) {
			for _, name := range []string{"eval", "evalsha"} {
				if rest, found := strings.CutPrefix(line, "cmdstat_"+name+":calls="); found {
					var n int
					_, _ = fmt.Sscan(strings.Split(rest, ",")[0], &n)
					count += n
				}
			}
		}
		return count
	}

	It("make one call for many queues", func() {
		queues := sharing(connectTo(proxy.Addr()), 60, bullmq.QueueOptions{})
		addTogether(ctx, queues, 1, func() {}, func() {}) // loads the scripts
		before := calls()
		for _, of := range addTogether(ctx, queues, 3, hold, release) {
			Expect(of).To(HaveEach(BeNil()))
		}
		Expect(calls()-before).To(BeNumerically("<", 60), "for 180 jobs of 60 queues")
		for _, queue := range queues {
			jobs, err := queue.Jobs(ctx, bullmq.Page{Ascending: true}, bullmq.StateWaiting)
			Expect(err).NotTo(HaveOccurred())
			Expect(jobs).To(HaveLen(4))
			data := []string{}
			for i, job := range jobs {
				Expect(job.ID).To(Equal(fmt.Sprint(i + 1)))
				data = append(data, string(job.Data))
			}
			Expect(data).To(ConsistOf(`"0"`, `"0"`, `"1"`, `"2"`))
		}
	})

	It("keep their own results, also of jobs that share no call", func() {
		queues := sharing(connectTo(proxy.Addr()), 2, bullmq.QueueOptions{})
		for _, queue := range queues {
			job, err := queue.Add(ctx, "a", nil, &bullmq.JobOptions{JobID: "own"})
			Expect(err).NotTo(HaveOccurred())
			Expect(job.AddOutcome()).To(Equal(bullmq.Added))
			job, err = queue.Add(ctx, "a", nil, &bullmq.JobOptions{JobID: "own"})
			Expect(err).NotTo(HaveOccurred())
			Expect(job.AddOutcome()).To(Equal(bullmq.AlreadyExists))
			job, err = queue.Add(ctx, "a", nil, &bullmq.JobOptions{Delay: time.Hour})
			Expect(err).NotTo(HaveOccurred())
			Expect(job.State(ctx)).To(Equal(bullmq.StateDelayed))
		}
	})

	It("fail for a broken queue alone", func() {
		queues := sharing(connectTo(proxy.Addr()), 12, bullmq.QueueOptions{})
		client := clientOf(server)
		Expect(client.Do(ctx, client.B().Set().Key(keyOf(queues[7].Name(), "wait")).Value("no list").Build()).Error()).To(Succeed())
		for i, of := range addTogether(ctx, queues, 2, hold, release) {
			if i != 7 {
				Expect(of).To(HaveEach(BeNil()))
				Expect(countOf(queues[i], bullmq.StateWaiting)()).To(Equal(2))
				continue
			}
			for _, err := range of {
				Expect(err).To(MatchError(And(ContainSubstring("WRONGTYPE"), ContainSubstring(queues[7].Name()))))
				Expect(err).To(MatchError(bullmq.ErrMaybeAdded), "a part of the job was written")
			}
		}
	})

	It("return ErrMaybeAdded for all jobs of a call whose reply was lost", func() {
		queues := sharing(connectTo(proxy.Addr()), 40, bullmq.QueueOptions{})
		addTogether(ctx, queues, 1, func() {}, func() {}) // loads the scripts
		of := queues[9]
		reply := proxy.LoseReply(" bull:" + of.Name() + ": ")
		lost := map[*bullmq.Queue]bool{}
		for i, errs := range addTogether(ctx, queues, 1, hold, release) {
			if errs[0] == nil {
				Expect(countOf(queues[i], bullmq.StateWaiting)()).To(Equal(2))
				continue
			}
			Expect(errs[0]).To(MatchError(bullmq.ErrMaybeAdded))
			lost[queues[i]] = true
		}
		Eventually(reply).Should(BeClosed())
		Expect(lost).To(HaveKey(of))
		Expect(countOf(of, bullmq.StateWaiting)()).To(Equal(2), "the call was carried out")
		Expect(len(lost)).To(BeNumerically(">", 1), "they shared the call")
	})

	It("are retried within AddWait while Redis is down, and each queue reports the outage", func() {
		queues := sharing(connectTo(server.Addr()), 8, bullmq.QueueOptions{AddWait: time.Minute})
		errs := make(chan [][]error, 1)
		server.Stop()
		Eventually(func() error { return queues[0].Ping(ctx) }).Should(MatchError(ContainSubstring("refused")))
		go func() {
			defer GinkgoRecover()
			errs <- addTogether(ctx, queues, 1, func() {}, func() {})
		}()
		for _, queue := range queues {
			Eventually(func() bool { return queue.Health().Reachable }, "20s").Should(BeFalse())
		}
		Expect(server.Start()).To(Succeed())
		var all [][]error
		Eventually(errs, "30s").Should(Receive(&all))
		for i, of := range all {
			Expect(of).To(HaveEach(BeNil()))
			Eventually(func() bool { return queues[i].Health().Reachable }, "20s").Should(BeTrue())
		}
	})

	It("go on for other queues when one of them is closed", func() {
		queues := sharing(connectTo(proxy.Addr()), 3, bullmq.QueueOptions{})
		Expect(queues[0].Close()).To(Succeed())
		_, err := queues[0].Add(ctx, "a", nil, nil)
		Expect(err).To(MatchError(bullmq.ErrClosed))
		Expect(err).NotTo(MatchError(bullmq.ErrMaybeAdded))
		for _, of := range addTogether(ctx, queues[1:], 5, hold, release) {
			Expect(of).To(HaveEach(BeNil()))
		}
	})

	It("return ErrClosed when the connection is closed", func() {
		conn := connectTo(proxy.Addr())
		queues := sharing(conn, 2, bullmq.QueueOptions{})
		Expect(conn.Close()).To(Succeed())
		for _, queue := range queues {
			_, err := queue.Add(ctx, "a", nil, nil)
			Expect(err).To(MatchError(bullmq.ErrClosed))
			Expect(err).NotTo(MatchError(bullmq.ErrMaybeAdded))
		}
	})

	It("are denied for those queues alone that the user may not use", func() {
		admin := clientOf(server)
		names := []string{newQueueName(), newQueueName(), newQueueName()}
		Expect(admin.Do(ctx, admin.B().Arbitrary("ACL", "SETUSER", "u", "on", ">secret", "~bull:*", "+@all").Build()).Error()).To(Succeed())
		conn, err := bullmq.Connect(ctx, "redis://u:secret@"+proxy.Addr())
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(conn.Close)
		var queues []*bullmq.Queue
		for _, name := range names {
			queues = append(queues, newQueue(name, &bullmq.QueueOptions{Connection: conn, ShareCalls: true}))
		}
		Expect(admin.Do(ctx, admin.B().Arbitrary("ACL", "SETUSER", "u", "resetkeys", "~bull:"+names[0]+":*", "~bull:"+names[2]+":*").Build()).Error()).To(Succeed())
		for i, of := range addTogether(ctx, queues, 4, hold, release) {
			for _, err := range of {
				if i == 1 {
					Expect(isDenied(err)).To(BeTrue(), fmt.Sprint(err))
					Expect(err).NotTo(MatchError(bullmq.ErrMaybeAdded))
				} else {
					Expect(err).NotTo(HaveOccurred())
				}
			}
		}
		for _, i := range []int{0, 2} {
			count, err := admin.Do(ctx, admin.B().Llen().Key(keyOf(names[i], "wait")).Build()).AsInt64()
			Expect(err).NotTo(HaveOccurred())
			Expect(count).To(BeEquivalentTo(4), "each was added once")
		}
	})

	It("share calls on a cluster only with queues of the same slot", Label("slow"), func() {
		clustered()
		conn, err := bullmq.Connect(ctx, cluster.URL())
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(conn.Close)
		var queues []*bullmq.Queue
		for n := range 6 {
			name := fmt.Sprintf("{%s-%d}", newQueueName(), n)
			options := bullmq.QueueOptions{Connection: conn, ShareCalls: true}
			queues = append(queues, newQueue(name, &options), newQueue(name+"-b", &options))
		}
		for _, of := range addTogether(ctx, queues, 10, func() {}, func() {}) {
			Expect(of).To(HaveEach(BeNil()))
		}
		for _, queue := range queues {
			Expect(countOf(queue, bullmq.StateWaiting)()).To(Equal(10))
		}
	})
})
