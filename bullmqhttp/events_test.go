package bullmqhttp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmqhttp"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

// sent is a server-sent event.
type sent struct{ name, id, data string }

// listen reads the events of a job until the stream ends or leave is called. events is closed at the end.
func (s *service) listen(location, last string) (events chan sent, leave func()) {
	GinkgoHelper()
	ctx, cancel := context.WithCancel(context.Background())
	r, err := http.NewRequestWithContext(ctx, "GET", s.url+location+"/events", nil)
	Expect(err).NotTo(HaveOccurred())
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	reply, err := s.client.Do(r)
	Expect(err).NotTo(HaveOccurred())
	Expect(reply.StatusCode).To(Equal(http.StatusOK))
	Expect(reply.Header.Get("Content-Type")).To(Equal("text/event-stream"))
	events = make(chan sent, 1000)
	go func() {
		defer close(events)
		defer reply.Body.Close()
		var event sent
		for lines := bufio.NewScanner(reply.Body); lines.Scan(); {
			name, value, _ := strings.Cut(lines.Text(), ": ")
			switch name {
			case "event":
				event.name = value
			case "id":
				event.id = value
			case "data":
				event.data = value
			case "":
				if event.name != "" {
					events <- event
				}
				event = sent{}
			}
		}
	}()
	DeferCleanup(cancel)
	return events, cancel
}

func (e sent) job() (status bullmqhttp.Status) {
	GinkgoHelper()
	Expect(json.Unmarshal([]byte(e.data), &status)).To(Succeed(), e.data)
	return status
}

var _ = Describe("The events of a job", func() {
	receive := func(events chan sent) (event sent) {
		GinkgoHelper()
		Eventually(events).Should(Receive(&event))
		return event
	}

	It("are its status, each change, the progress, and its end", func() {
		s, g := start(nil, bullmqhttp.Route{Job: bullmq.JobOptions{Attempts: 2, Backoff: bullmq.FixedBackoff(time.Millisecond)}}, nil), newGate()
		location := s.submit().header.Get("Location")
		events, _ := s.listen(location, "")
		first := receive(events)
		Expect(first.name).To(Equal("status"))
		Expect(first.id).To(BeEmpty())
		Expect(first.job().State).To(Equal(bullmqhttp.Queued))
		var failed sync.Once
		s.work(func(w http.ResponseWriter, r *http.Request) {
			failed.Do(func() { w.WriteHeader(http.StatusBadGateway) })
			Expect(bullmq.UpdateProgress(r.Context(), map[string]string{"step": "a\nb"})).To(Succeed())
			g.ServeHTTP(w, r)
		})
		g.pass()
		var all []string
		for event := range events {
			Expect(event.id).NotTo(BeEmpty())
			all = append(all, event.name+" "+string(event.job().State))
			switch event.name {
			case "progress":
				Expect(event.data).To(MatchJSON(`{"progress":{"step":"a\nb"}}`))
			case "end":
				Expect(event.id).To(Equal("end"))
				Expect(event.job().ResponseStatus).To(Equal(http.StatusCreated))
			}
		}
		Expect(all).To(Equal([]string{
			"status running", "progress ", "status retrying", "status retrying", "status running", "progress ", "end succeeded",
		}))
	})

	It("continue after Last-Event-ID without a gap and without a repetition", func() {
		s, g := start(nil, bullmqhttp.Route{}, nil), newGate()
		s.work(g.ServeHTTP)
		submitted := s.submit()
		location, id := submitted.header.Get("Location"), submitted.job().ID
		Eventually(g.started).Should(Receive())
		const steps = 200
		done := make(chan bool)
		go func() {
			defer GinkgoRecover()
			defer close(done)
			for step := range steps {
				Expect(s.queue.UpdateJobProgress(context.Background(), id, step)).To(Succeed())
				// Another job, whose events must not be seen.
				_, err := s.queue.Publish(context.Background(), "progress", nil, "jobId", "other", "data", "-1")
				Expect(err).NotTo(HaveOccurred())
			}
			g.pass()
		}()
		var seen []string
		last, ended := "", false
		for connections := 0; !ended; connections++ {
			Expect(connections).To(BeNumerically("<", 1000))
			events, leave := s.listen(location, last)
			count := 0
			for event := range events {
				if event.id != "" {
					last = event.id
				}
				if event.name == "progress" {
					var data struct{ Progress int }
					Expect(json.Unmarshal([]byte(event.data), &data)).To(Succeed())
					seen = append(seen, fmt.Sprint(data.Progress))
				}
				ended = event.name == "end"
				// The connection breaks after a few events. What the client has not read yet is lost.
				if count++; count == 7 && !ended {
					leave()
					break
				}
			}
		}
		<-done
		var missed []string
		first := 0
		if len(seen) > 0 { // those before the first event belong to the present state
			_, err := fmt.Sscan(seen[0], &first)
			Expect(err).NotTo(HaveOccurred())
		}
		for step := first; step < steps; step++ {
			missed = append(missed, fmt.Sprint(step))
		}
		Expect(seen).To(Equal(missed))
	})

	It("end for a client that has seen the last one", func() {
		s := start(nil, bullmqhttp.Route{}, nil)
		s.work(func(http.ResponseWriter, *http.Request) {})
		location := s.submit().header.Get("Location")
		s.ended(location)
		events, _ := s.listen(location, "")
		Expect(receive(events).name).To(Equal("end"))
		Eventually(events).Should(BeClosed())
		a := s.get(location, "/events", "Last-Event-ID", "end")
		Expect(a.status).To(Equal(http.StatusNoContent))
	})

	It("begin with the status again if those after Last-Event-ID were trimmed", func() {
		s := start(nil, bullmqhttp.Route{}, nil)
		location := s.submit().header.Get("Location")
		events, leave := s.listen(location, "1-0")
		event := receive(events)
		Expect(event.name).To(Equal("status"))
		Expect(event.job().State).To(Equal(bullmqhttp.Queued))
		leave()
	})

	It("tell that the job was removed", func() {
		s := start(nil, bullmqhttp.Route{}, nil)
		submitted := s.submit()
		events, _ := s.listen(submitted.header.Get("Location"), "")
		receive(events)
		Expect(s.queue.Remove(context.Background(), submitted.job().ID, nil)).To(Succeed())
		Expect(receive(events)).To(Equal(sent{"removed", "end", "{}"}))
		Eventually(events).Should(BeClosed())
	})

	It("show a cancellation", func() {
		s, g := start(nil, bullmqhttp.Route{}, nil), newGate()
		location := s.submit().header.Get("Location")
		events, _ := s.listen(location, "")
		receive(events)
		s.work(g.ServeHTTP)
		Expect(receive(events).job().State).To(Equal(bullmqhttp.Running))
		Expect(s.do("DELETE", location, "").status).To(Equal(http.StatusAccepted))
		Expect(receive(events).job().State).To(Equal(bullmqhttp.Cancelled))
	})

	It("continue after a restart of Redis", func() {
		own, err := redisserver.Start(redisserver.Options{AppendOnly: true})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(own.Close)
		s := start(nil, bullmqhttp.Route{}, &bullmq.QueueOptions{URL: own.URL()})
		location := s.submit().header.Get("Location")
		events, _ := s.listen(location, "")
		receive(events)
		own.Kill()
		Expect(own.Start()).To(Succeed())
		s.workWith(bullmqhttp.Serve(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})), &bullmq.WorkerOptions{URL: own.URL()})
		Eventually(func() string { return receive(events).name }).Should(Equal("end"))
	})

	It("end when the server is closed, and share one connection to Redis", func() {
		s := start(nil, bullmqhttp.Route{}, nil)
		location := s.submit().header.Get("Location")
		var all []chan sent
		for range 100 {
			events, _ := s.listen(location, "")
			receive(events)
			all = append(all, events)
		}
		Eventually(reading).Should(Equal(1))
		s.server.Close()
		for _, events := range all {
			Eventually(events).Should(BeClosed())
		}
	})

	It("are refused for an invalid Last-Event-ID, another owner and an unknown job", func() {
		s := start(&bullmqhttp.Options{Owner: func(r *http.Request) (string, error) { return r.Header.Get("X-User"), nil }}, bullmqhttp.Route{}, nil)
		location := s.submit("X-User", "ann").header.Get("Location")
		Expect(s.get(location, "/events", "Last-Event-ID", "1\u00a0", "X-User", "ann").code()).To(Equal(bullmqhttp.CodeInvalidRequest))
		Expect(s.get(location, "/events", "X-User", "bob").code()).To(Equal(bullmqhttp.CodeJobNotFound))
		Expect(s.get("/jobs/rq-bbbbbbbbbbbbbbbbbbbbbb", "/events", "X-User", "ann").code()).To(Equal(bullmqhttp.CodeJobNotFound))
	})
})
