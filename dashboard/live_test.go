package dashboard_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/dashboard"
)

// stream opens a stream of changes until the spec ends, or close is called. The channel
// receives a time for each event, and is closed at the end of the stream.
func (s *site) stream(path string) (changes <-chan time.Time, closeIt func()) {
	GinkgoHelper()
	ctx, cancel := context.WithCancel(context.Background())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.web.URL+path, nil)
	Expect(err).NotTo(HaveOccurred())
	response, err := s.web.Client().Do(request)
	Expect(err).NotTo(HaveOccurred())
	Expect(response.StatusCode).To(Equal(http.StatusOK))
	Expect(response.Header.Get("Content-Type")).To(Equal("text/event-stream"))
	out, ended := make(chan time.Time, 1000), make(chan struct{})
	go func() {
		defer close(ended)
		defer close(out)
		defer response.Body.Close()
		for lines := bufio.NewScanner(response.Body); lines.Scan(); {
			if lines.Text() == "event: change" {
				out <- time.Now()
			}
		}
	}()
	closeIt = sync.OnceFunc(func() { cancel(); <-ended })
	DeferCleanup(closeIt)
	return out, closeIt
}

// asUpdate marks a request as that of a page that is updated.
func asUpdate(r *http.Request) { r.Header.Set("HX-Request", "true") }

var _ = Describe("The stream of the dashboard", func() {
	ctx := context.Background()

	It("tells that a queue has changed, at most twice a second, and nothing of other queues", func() {
		s := open(&dashboard.Options{Timeout: time.Second})
		orders := s.queue("orders")
		s.queue("mails")
		s.page("/")
		all, _ := s.stream("/live")
		mine, _ := s.stream("/live?queue=orders")
		others, _ := s.stream("/live?queue=mails")
		for _, changes := range []<-chan time.Time{all, mine, others} {
			Eventually(changes).Should(Receive(), "the beginning")
		}
		Consistently(others, "1500ms").ShouldNot(Receive())
		for len(all)+len(mine) > 0 {
			select {
			case <-all:
			case <-mine:
			}
		}
		begun := time.Now()
		for ; time.Since(begun) < 2*time.Second; time.Sleep(time.Millisecond) { // longer than Options.Timeout
			_, err := orders.Add(ctx, "paint", nil, nil)
			Expect(err).NotTo(HaveOccurred())
		}
		Eventually(all).Should(Receive())
		Eventually(mine).Should(Receive())
		time.Sleep(time.Second)
		Expect(len(mine)).To(BeNumerically("<=", 6))
		Expect(others).NotTo(Receive())
	})

	It("watches queues with one connection for all streams, and with none while nobody looks", func() {
		s := open(nil)
		for i := range 20 {
			s.queue(fmt.Sprint("queue-", i))
		}
		s.page("/")
		watchers := func() int { return strings.Count(s.redisText("CLIENT", "LIST"), "@x:watch") }
		Expect(watchers()).To(BeZero())
		_, closeFirst := s.stream("/live")
		_, closeSecond := s.stream("/live?queue=queue-1")
		Eventually(watchers).Should(Equal(1))
		closeFirst()
		Consistently(watchers, "300ms").Should(Equal(1))
		closeSecond()
		Eventually(watchers).Should(BeZero())
		_, closeThird := s.stream("/live?queue=queue-1")
		Eventually(watchers).Should(Equal(1))
		closeThird()
	})

	It("is refused with a clear text when too many pages are open", func() {
		s := open(&dashboard.Options{MaxStreams: 3, MaxStreamsPerUser: 2, User: func(r *http.Request) string { return r.Header.Get("User") }})
		_, closeFirst := s.stream("/live")
		s.stream("/live")
		response, text := s.get("/live")
		Expect(response.StatusCode).To(Equal(http.StatusServiceUnavailable))
		Expect(response.Header.Get("Retry-After")).To(Equal("30"))
		Expect(text).To(ContainSubstring("too many pages are open"))
		asAda := func(r *http.Request) { r.Header.Set("User", "ada") }
		limited, cancel := context.WithCancel(ctx)
		request, err := http.NewRequestWithContext(limited, http.MethodGet, s.web.URL+"/live", nil)
		Expect(err).NotTo(HaveOccurred())
		asAda(request)
		third, err := s.web.Client().Do(request)
		Expect(err).NotTo(HaveOccurred())
		Expect(third.StatusCode).To(Equal(http.StatusOK), "another user")
		response, _ = s.get("/live", asAda)
		Expect(response.StatusCode).To(Equal(http.StatusServiceUnavailable), "the limit of the process")
		cancel()
		Expect(third.Body.Close()).To(Succeed())
		closeFirst()
		Eventually(func() int {
			request, stop := context.WithTimeout(ctx, 300*time.Millisecond)
			defer stop()
			r, err := http.NewRequestWithContext(request, http.MethodGet, s.web.URL+"/live", nil)
			Expect(err).NotTo(HaveOccurred())
			response, err := s.web.Client().Do(r)
			if err != nil {
				return 0
			}
			defer response.Body.Close()
			return response.StatusCode
		}).Should(Equal(http.StatusOK), "one has ended")
	})

	It("is refused for a queue that its user may not read", func() {
		s := open(&dashboard.Options{Queues: []string{"orders", "mails"}, Access: func(_ *http.Request, use dashboard.Use) error {
			if use.Queue == "mails" {
				return errors.New("mails are secret")
			}
			return nil
		}})
		response, text := s.get("/live?queue=mails")
		Expect(response.StatusCode).To(Equal(http.StatusForbidden))
		Expect(text).To(ContainSubstring("mails are secret"))
		response, _ = s.get("/live?queue=secret")
		Expect(response.StatusCode).To(Equal(http.StatusNotFound))
		s.stream("/live?queue=orders")
	})

	It("ends when the server shuts down", func() {
		s := open(nil)
		changes, _ := s.stream("/live")
		Eventually(func() error {
			limited, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			return s.web.Config.Shutdown(limited)
		}).Should(Succeed())
		Eventually(changes).Should(BeClosed())
	})

	It("ends once when the server is told to shut down several times", func() {
		s := open(nil)
		var changes <-chan time.Time
		for range 15 {
			changes, _ = s.stream("/live")
		}
		var shutdowns sync.WaitGroup
		for range 20 {
			shutdowns.Go(func() {
				defer GinkgoRecover()
				limited, cancel := context.WithTimeout(ctx, 5*time.Second)
				defer cancel()
				_ = s.web.Config.Shutdown(limited)
			})
		}
		shutdowns.Wait()
		Eventually(changes).Should(BeClosed())
	})

	It("continues a panic of a shared read in the requests that wait for it, and does not end the process", func() {
		s := open(nil)
		pages, err := dashboard.New(s.connection, nil)
		Expect(err).NotTo(HaveOccurred())
		request := httptest.NewRequest(http.MethodGet, "/", nil)
		asUpdate(request)
		read := func() {
			_, _ = pages.SharedRead(request, func(context.Context) (string, error) { panic("the read is broken") })
		}
		Expect(read).To(PanicWith(SatisfyAll(ContainSubstring("the read is broken"), ContainSubstring("live_test.go"))))
	})

	It("tells of changes again after Redis was away", func() {
		s := open(nil)
		s.queue("orders")
		changes, _ := s.stream("/live?queue=orders")
		Eventually(changes).Should(Receive())
		s.redis.Kill()
		Eventually(changes).Should(Receive(), "so that pages show the error")
		Expect(s.redis.Start()).To(Succeed())
		queue, err := bullmq.NewQueue(ctx, "orders", &bullmq.QueueOptions{Connection: s.connection})
		Expect(err).NotTo(HaveOccurred())
		defer queue.Close()
		Eventually(func() error { _, err := queue.Add(ctx, "paint", nil, nil); return err }).Should(Succeed())
		Eventually(changes).Should(Receive())
	})

	It("makes all viewers share a read, at most one each second, which sees the last change", func() {
		s := open(nil)
		orders := s.queue("orders")
		s.page("/")
		s.stream("/live")
		reads := func() int { return s.calls("client|list") } // one for each read
		begun, before := time.Now(), reads()
		var viewers sync.WaitGroup
		for range 20 {
			viewers.Go(func() {
				defer GinkgoRecover()
				for time.Since(begun) < 3*time.Second {
					response, _ := s.get("/", asUpdate)
					Expect(response.StatusCode).To(Equal(http.StatusOK))
				}
			})
		}
		added := 0
		for ; time.Since(begun) < 3*time.Second; added++ {
			_, err := orders.Add(ctx, "paint", nil, nil)
			Expect(err).NotTo(HaveOccurred())
			time.Sleep(20 * time.Millisecond)
		}
		viewers.Wait()
		Expect(reads() - before).To(BeNumerically("~", 3, 1))
		Eventually(func() string { _, text := s.get("/", asUpdate); return text }, "3s").Should(ContainSubstring(fmt.Sprintf(`<td class="number">%d</td>`, added)))
	})
})
