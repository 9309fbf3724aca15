package bullmq_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

// rightsOf returns the commands that docs/security.md gives to a role.
func rightsOf(role string) []string {
	GinkgoHelper()
	page, err := os.ReadFile("../docs/security.md")
	Expect(err).NotTo(HaveOccurred())
	text := strings.ReplaceAll(string(page), "\\\n", " ")
	line := regexp.MustCompile("(?m)^redis-cli ACL SETUSER " + role + " .*$").FindString(text)
	Expect(line).To(ContainSubstring("'~bull:orders:*'"), role)
	return regexp.MustCompile(`\+[a-z|]+`).FindAllString(line, -1)
}

var _ = Describe("The rights in docs/security.md", Label("slow"), func() {
	var server *redisserver.Server
	var client rueidis.Client
	BeforeEach(func() {
		server = startRedis(redisserver.Options{})
		var err error
		client, err = rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(client.Close)
	})

	// try does a role's work as a user with the given rights on one queue.
	try := func(r role, rights []string) error {
		name := newQueueName()
		queue, err := bullmq.NewQueue(context.Background(), name, &bullmq.QueueOptions{Connection: bullmq.Client(client)})
		if err != nil {
			return err
		}
		defer queue.Close()
		others := &bystander{address: server.Addr(), client: client, Queue: queue}
		if others.flows, err = bullmq.NewFlowProducer(context.Background(), &bullmq.FlowProducerOptions{Connection: bullmq.Client(client)}); err != nil {
			return err
		}
		defer others.flows.Close()
		if err := others.do(append([]string{"ACL", "SETUSER", name, "on", ">secret", "~bull:" + name + ":*"}, rights...)...); err != nil {
			return err
		}
		return r.work(specContext(), func(address string) *bullmq.Connection { return bullmq.URL("redis://" + name + ":secret@" + address) }, others, name)
	}
	but := func(rights []string, one string) []string {
		return slices.DeleteFunc(slices.Clone(rights), func(other string) bool { return other == one })
	}

	for _, r := range roles {
		It("are enough for the "+r.name+", and each of them is needed", func() {
			rights := rightsOf(r.name)
			Expect(try(r, rights)).To(Succeed())

			var mu sync.Mutex
			var unneeded []string
			missing := make(chan string)
			var tries sync.WaitGroup
			for range 6 {
				tries.Go(func() {
					defer GinkgoRecover()
					for right := range missing {
						if err := try(r, but(rights, right)); !isDenied(err) {
							mu.Lock()
							unneeded = append(unneeded, fmt.Sprint(right, ": ", err))
							mu.Unlock()
						}
					}
				})
			}
			for _, right := range rights {
				if right != "+eval" {
					missing <- right
				}
			}
			close(missing)
			tries.Wait()
			if slices.Contains(rights, "+eval") { // needed if the server does not know a script yet
				Expect(client.Do(specContext(), client.B().ScriptFlush().Build()).Error()).To(Succeed())
				Expect(isDenied(try(r, but(rights, "+eval")))).To(BeTrue())
			}
			Expect(unneeded).To(BeEmpty())
		})
	}

	It("do not reach beyond the keys of one queue", func() {
		others := &bystander{address: server.Addr(), client: client}
		Expect(others.do(append([]string{"ACL", "SETUSER", "producer", "on", ">secret", "~bull:orders:*"}, rightsOf("producer")...)...)).To(Succeed())
		link := bullmq.URL("redis://producer:secret@" + server.Addr())
		_, err := newQueue("orders", &bullmq.QueueOptions{Connection: link}).Add(specContext(), "paint", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		_, err = bullmq.NewQueue(context.Background(), "invoices", &bullmq.QueueOptions{Connection: link})
		Expect(err).To(MatchError(And(ContainSubstring("NOPERM"), ContainSubstring("bull:invoices:meta"))))
		_, err = newQueue("invoices", &bullmq.QueueOptions{Connection: link, SkipMetaUpdate: true}).Add(specContext(), "paint", nil, nil)
		Expect(err).To(MatchError(And(ContainSubstring("NOPERM"), ContainSubstring("bull:invoices"))))
	})

	It("cover an idle second without PING", func() {
		name := newQueueName()
		others := &bystander{address: server.Addr(), client: client}
		Expect(others.do(append([]string{"ACL", "SETUSER", name, "on", ">secret", "~bull:" + name + ":*"}, rightsOf("producer")...)...)).To(Succeed())
		queue := newQueue(name, &bullmq.QueueOptions{Connection: bullmq.URL("redis://" + name + ":secret@" + server.Addr())})
		time.Sleep(2500 * time.Millisecond) // longer than the client's interval between pings
		_, err := queue.Add(specContext(), "paint", nil, nil)
		Expect(err).NotTo(HaveOccurred())
	})
})

var _ = DescribeTable("A missing right is recognized in the error of", Label("slow"), func(text string) {
	Expect(isDenied(errors.New(text))).To(BeTrue())
},
	Entry("Redis 6.2", "ERR Error running script (call to f_1): @user_script:4: @user_script: 4: The user executing the script can't run this command or subcommand"),
	Entry("Redis 7.0", "ERR The user executing the script can't run this command or subcommand script: f_1, on @user_script:4."),
	Entry("Redis 7.2 and 8, and Valkey", "ERR ACL failure in script: User worker has no permissions to run the 'zadd' command script: f_1, on @user_script:4."),
	Entry("a command outside of scripts", "NOPERM User worker has no permissions to run the 'evalsha' command"),
)

var _ = Describe("A worker without a right that finishing a job needs", Label("slow"), func() {
	It("leaves the job in no state, where FindOrphanedJobs finds it", func() {
		name, ctx := newQueueName(), specContext()
		queue := newQueue(name, nil)
		_, err := queue.Add(ctx, "paint", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		rights := slices.DeleteFunc(rightsOf("worker"), func(right string) bool { return right == "+zadd" })
		fetcher := newFetcher(name, &bullmq.FetcherOptions{Connection: restricted("~bull:" + name + ":* " + strings.Join(rights, " "))})
		job := takeJob(fetcher)
		err = fetcher.Complete(ctx, job, nil)
		Expect(isDenied(err)).To(BeTrue(), "%v", err)
		Expect(queue.FindOrphanedJobs(ctx)).To(Equal([]string{job.ID}))
	})
})
