package bullmqhttp_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmqhttp"
)

// connections returns the number of connections to the suite's server, without those that ask for it.
func connections() int {
	GinkgoHelper()
	list := command(redis, "CLIENT", "LIST")
	return strings.Count(list, "\n") - strings.Count(list, "cmd=client")
}

var _ = Describe("Many clients", func() {
	It("have one job for each request that is not a repetition", Label("slow"), func() {
		const clients = 100
		requests := 2000
		if os.Getenv("BULLMQ_LONG") != "" { // in make test-long
			requests = 10_000
		}
		repeated := requests / 5
		s := start(nil, bullmqhttp.Route{}, nil)
		var keys []string // half of the requests that are not repeated have none
		for n := range requests - repeated {
			key := ""
			if n%2 == 0 {
				key = fmt.Sprint("key-", n)
			}
			if keys = append(keys, key); n%4 == 0 {
				keys = append(keys, key)
			}
		}
		Expect(keys).To(HaveLen(requests))
		rand.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })

		next := make(chan string)
		var mu sync.Mutex
		locations, replayed, other := map[string]int{}, 0, 0
		var all sync.WaitGroup
		for range clients {
			all.Go(func() {
				defer GinkgoRecover()
				for key := range next {
					r, err := http.NewRequest("POST", s.url+"/reports/7", strings.NewReader(`{"year":2026}`))
					if err != nil {
						panic(err)
					}
					r.Header.Set("Content-Type", "application/json")
					if key != "" {
						r.Header.Set("Idempotency-Key", key)
					}
					reply, err := s.client.Do(r)
					status := 0
					if err == nil {
						status = reply.StatusCode
						_, _ = io.Copy(io.Discard, reply.Body)
						_ = reply.Body.Close()
					}
					mu.Lock()
					if status != http.StatusAccepted {
						other++
					} else if locations[reply.Header.Get("Location")]++; reply.Header.Get("Idempotency-Replayed") != "" {
						replayed++
					}
					mu.Unlock()
				}
			})
		}
		for _, key := range keys {
			next <- key
		}
		close(next)
		all.Wait()
		Expect(other).To(BeZero())
		Expect(replayed).To(Equal(repeated))
		Expect(locations).To(HaveLen(requests - repeated))
		counts, err := s.queue.Counts(context.Background())
		Expect(err).NotTo(HaveOccurred())
		Expect(counts[bullmq.StateWaiting]).To(Equal(requests - repeated))
		Expect(s.jobs()).To(Equal(requests - repeated))
	})

	It("that poll 1,000 jobs wait on one connection to Redis", func() {
		const clients = 1000
		s := start(nil, bullmqhttp.Route{}, nil)
		var locations []string
		for range clients {
			locations = append(locations, s.submit().header.Get("Location"))
		}
		before := connections()
		Expect(reading()).To(BeZero())
		var waits sync.WaitGroup
		for _, location := range locations {
			waits.Go(func() {
				defer GinkgoRecover()
				Expect(s.get(location, "?wait=25").job().State).To(Equal(bullmqhttp.Succeeded))
			})
		}
		// Each request that has begun to wait has a goroutine in Queue.WaitForJob.
		Eventually(func() int { return waiting("bullmq.(*Queue).WaitForJob") }).Should(Equal(clients))
		Expect(reading()).To(Equal(1))
		Expect(connections()).To(BeNumerically("<=", before+2)) // the client of the wait has a second one, which is idle
		s.workWith(bullmqhttp.Serve(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})), &bullmq.WorkerOptions{Concurrency: 100})
		waits.Wait()
	})

	It("that leave while they wait, or get events, leave nothing behind", func() {
		s := start(nil, bullmqhttp.Route{}, nil)
		location := s.submit().header.Get("Location")
		etag := s.get(location, "").header.Get("ETag")
		ctx, leave := context.WithCancel(context.Background())
		defer leave()
		const clients = 50
		var requests sync.WaitGroup
		for range clients {
			for _, request := range [][]string{
				{"POST", "/reports/7", "Prefer", "wait=25"}, {"GET", location + "?wait=25", "", ""}, {"GET", location + "?wait=25", "If-None-Match", etag},
				{"GET", location + "/result?wait=25", "", ""}, {"GET", location + "/events", "", ""},
			} {
				requests.Go(func() {
					defer GinkgoRecover()
					r, err := http.NewRequestWithContext(ctx, request[0], s.url+request[1], nil)
					Expect(err).NotTo(HaveOccurred())
					if request[2] != "" {
						r.Header.Set(request[2], request[3])
					}
					reply, err := s.client.Do(r)
					if err == nil { // events
						_, err = io.Copy(io.Discard, reply.Body)
						_ = reply.Body.Close()
					}
					Expect(err).To(MatchError(context.Canceled))
				})
			}
		}
		Eventually(func() int { return waiting("bullmq.(*Queue).WaitForJob") }).Should(Equal(3 * clients))
		Eventually(func() int { return waiting("bullmq.(*Queue).yieldEvents") }).Should(Equal(2 * clients))
		leave()
		requests.Wait()
		Eventually(func() int { return waiting("bullmqhttp.") }).Should(BeZero())
		Expect(s.jobs()).To(Equal(1 + clients)) // those that were submitted stay
	})

	It("that leave while they submit have one job at most", func() {
		s := start(nil, bullmqhttp.Route{}, nil)
		const clients = 100
		for n := range clients {
			connection := s.dial()
			body := `{"year":2026}`
			if n%2 == 0 {
				body = body[:5] // the rest is never sent
			}
			_, err := fmt.Fprintf(connection, "POST /reports/7 HTTP/1.1\r\nHost: a\r\nIdempotency-Key: key-%d\r\nContent-Type: application/json\r\nContent-Length: 13\r\n\r\n%s", n, body)
			Expect(err).NotTo(HaveOccurred())
			Expect(connection.Close()).To(Succeed())
		}
		Eventually(func() int { return waiting("bullmqhttp.") }).Should(BeZero())
		Expect(s.jobs()).To(BeNumerically("<=", clients/2))
		for n := range clients {
			Expect(s.submit("Idempotency-Key", fmt.Sprint("key-", n)).status).To(Equal(http.StatusAccepted))
		}
		Expect(s.jobs()).To(Equal(clients))
	})
})

// waiting returns the number of goroutines of the Server in which a function of the project is called.
func waiting(function string) int {
	stacks := make([]byte, 1<<20)
	for {
		n := runtime.Stack(stacks, true)
		if n < len(stacks) {
			stacks = stacks[:n]
			break
		}
		stacks = make([]byte, 2*len(stacks))
	}
	count := 0
	for stack := range strings.SplitSeq(string(stacks), "\n\n") {
		if strings.Contains(stack, "bullmq-go/bullmqhttp.(*") && strings.Contains(stack, function) {
			count++
		}
	}
	return count
}

var _ = Describe("A request that is held", func() {
	It("outlasts the timeouts of the http.Server", func() {
		s, g := start(nil, bullmqhttp.Route{}, nil), newGate()
		mux := http.NewServeMux()
		mux.Handle("POST /held/{id}", s.server.Async("held", bullmqhttp.Route{}))
		mux.Handle("/jobs/", s.server)
		web := httptest.NewUnstartedServer(mux)
		web.Config.ReadTimeout, web.Config.WriteTimeout = 300*time.Millisecond, 300*time.Millisecond
		web.Start()
		defer web.Close()
		s.url = web.URL
		location := s.do("POST", "/held/7", "").header.Get("Location")
		answers := make(chan answer, 4)
		for _, request := range [][]string{{"POST", "/held/7"}, {"GET", location}, {"GET", location + "/result"}, {"GET", location + "/events"}} {
			go func() {
				defer GinkgoRecover()
				answers <- s.do(request[0], request[1], "", "Prefer", "wait=25")
			}()
		}
		time.Sleep(time.Second) // longer than the timeouts
		Expect(answers).To(BeEmpty())
		s.work(g.ServeHTTP)
		g.pass()
		for range 4 {
			var a answer
			Eventually(answers, "20s").Should(Receive(&a))
			Expect(a.status).To(BeElementOf(http.StatusOK, http.StatusCreated))
			Expect(a.body).To(Or(Equal("done"), ContainSubstring(`"succeeded"`)))
		}
	})
})
