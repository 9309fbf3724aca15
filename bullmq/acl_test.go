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

	try := func(t task, rights []string) error { return attempt(t, rights, server.Addr(), client) }
	but := func(rights []string, one string) []string {
		return slices.DeleteFunc(slices.Clone(rights), func(other string) bool { return other == one })
	}
	// isNeeded expects that some task of a role is denied without a right, and all before it succeed.
	isNeeded := func(r role, right string) {
		GinkgoHelper()
		rights := but(rightsOf(r.name), right)
		for _, t := range r.tasks {
			if err := try(t, rights); err != nil {
				Expect(isDenied(err)).To(BeTrue(), "%s without %s %s: %v", r.name, right, t.does, err)
				return
			}
		}
		Fail(fmt.Sprintf("%s needs no %s", r.name, right))
	}

	for _, r := range roles {
		Describe("are enough for the role "+r.name+", which", func() {
			for _, t := range r.tasks {
				It(t.does, func() { Expect(try(t, rightsOf(r.name))).To(Succeed()) })
			}
		})

		It("are all needed for the role "+r.name, func() {
			// With all rights the scripts are loaded, so that the right to load them is needed once.
			for _, t := range r.tasks {
				Expect(try(t, rightsOf(r.name))).To(Succeed())
			}
			missing := make(chan string)
			var tries sync.WaitGroup
			for range 6 {
				tries.Go(func() {
					for right := range missing {
						func() {
							defer GinkgoRecover()
							isNeeded(r, right)
						}()
					}
				})
			}
			for _, right := range rightsOf(r.name) {
				if right != "+eval" {
					missing <- right
				}
			}
			close(missing)
			tries.Wait()
			if slices.Contains(rightsOf(r.name), "+eval") { // needed if the server does not know a script yet
				Expect(client.Do(specContext(), client.B().ScriptFlush().Build()).Error()).To(Succeed())
				isNeeded(r, "+eval")
			}
		})
	}

	// allow gives a user the rights of a producer to some keys.
	allow := func(user, keys string) {
		GinkgoHelper()
		words := append([]string{"ACL", "SETUSER", user, "on", ">secret", keys}, rightsOf("producer")...)
		Expect(client.Do(specContext(), client.B().Arbitrary(words...).Build()).Error()).To(Succeed())
	}

	It("do not reach beyond the keys of one queue", func() {
		allow("producer", "~bull:orders:*")
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
		allow(name, "~bull:"+name+":*")
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
