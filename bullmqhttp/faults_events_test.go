package bullmqhttp_test

// Server-sent events while Redis restarts, loses its data, or is replaced by a replica.

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"unicode/utf8"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmqhttp"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

// viewer is a client that follows the progress of a job, which counts from 0 on.
type viewer struct {
	s        *service
	location string
	events   chan sent
	leave    func()
	last     string // Last-Event-ID
	seen     int    // the last progress; -1 before the first
	restarts int    // how often the events have begun with the status
	fresh    bool   // no progress has come since then
}

func (s *service) view(location string) *viewer {
	GinkgoHelper()
	v := &viewer{s: s, location: location, seen: -1}
	v.connect()
	v.next()
	Expect(v.restarts).To(Equal(1))
	return v
}

func (v *viewer) connect() {
	GinkgoHelper()
	Eventually(func() int { // while Redis is down
		r, err := http.NewRequest("GET", v.s.url+v.location, nil)
		Expect(err).NotTo(HaveOccurred())
		return v.s.send(r).status
	}, boundary).Should(Equal(http.StatusOK))
	v.events, v.leave = v.s.listen(v.location, v.last)
}

// next reads an event. It fails if a progress was missed, unless the status came in between.
func (v *viewer) next() {
	GinkgoHelper()
	var event sent
	Eventually(v.events, boundary).Should(Receive(&event), "after progress %d", v.seen)
	if event.id != "" {
		v.last = event.id
	}
	switch {
	case event.name == "progress":
		var data struct{ Progress int }
		Expect(json.Unmarshal([]byte(event.data), &data)).To(Succeed())
		if !v.fresh || data.Progress > v.seen+1 { // the status may be newer than the first events after it
			Expect(data.Progress).To(Equal(v.seen+1), "an event is missing or comes twice")
		}
		v.seen, v.fresh = data.Progress, false
	case event.name == "status" && event.id == "": // a new begin
		v.restarts, v.fresh = v.restarts+1, true
		if text := event.job().Progress; len(text) > 0 {
			var err error
			v.seen, err = strconv.Atoi(string(text))
			Expect(err).NotTo(HaveOccurred())
		}
	case event.name == "status":
	default:
		Fail(fmt.Sprint("unexpected: ", event))
	}
}

// see reads events until a progress was seen.
func (v *viewer) see(progress int) {
	GinkgoHelper()
	for v.seen != progress {
		v.next()
	}
}

// advance reports progress, once Redis can be reached.
func (s *service) advance(id string, from, to int) {
	GinkgoHelper()
	for step := from; step <= to; step++ {
		Eventually(func() error { return s.queue.UpdateJobProgress(context.Background(), id, step) }, boundary).Should(Succeed())
	}
}

var _ = Describe("Server-sent events", func() {
	It("have no gap over a restart of Redis, on an open connection and after Last-Event-ID", func() {
		s, own := alone(redisserver.Options{AppendOnly: true})
		submitted := s.submit()
		location, id := submitted.header.Get("Location"), submitted.job().ID
		open, again := s.view(location), s.view(location)
		s.advance(id, 0, 4)
		open.see(4)
		again.see(4)
		again.leave()
		s.advance(id, 5, 9) // again does not see these
		own.Kill()
		Expect(own.Start()).To(Succeed())
		s.advance(id, 10, 14)
		open.see(14)
		again.connect()
		begun := again.restarts
		again.see(14)
		Expect(again.restarts).To(Equal(begun), "the events are still in the stream")
	})

	It("end with removed, and are not found again, if Redis restarts without its data", func() {
		s, own := alone(redisserver.Options{})
		location := s.submit().header.Get("Location")
		v := s.view(location)
		own.Kill()
		Expect(own.Start()).To(Succeed())
		Eventually(func() string { // the status may come first
			var event sent
			Eventually(v.events, boundary).Should(Receive(&event))
			return event.name
		}).Should(Equal("removed"))
		Eventually(v.events).Should(BeClosed())
		Expect(s.get(location, "/events", "Last-Event-ID", "1-0").code()).To(Equal(bullmqhttp.CodeJobNotFound))
		Expect(s.get(location, "?wait=5").code()).To(Equal(bullmqhttp.CodeJobNotFound))
		Expect(s.get(location, "/result?wait=5").code()).To(Equal(bullmqhttp.CodeResultGone))
	})

	It("begin with the status again if a replica takes over that lacks the last event", func() {
		primary, replica, s := replicated()
		submitted := s.submit()
		location, id := submitted.header.Get("Location"), submitted.job().ID
		v := s.view(location)
		s.advance(id, 0, 2)
		primary.synchronize(replica, s.queue.Name(), id, "2")
		command(replica.Server, "REPLICAOF", "NO", "ONE")
		s.advance(id, 3, 3) // the replica never gets it
		v.see(3)
		v.leave()
		primary.failOver(replica)
		v.connect()
		v.next()
		Expect(v.restarts).To(Equal(2))
		Expect(v.seen).To(Equal(2))
		s.advance(id, 3, 4)
		v.see(4)
	})

	It("and the status show a progress that is not UTF-8 as text", func() {
		s := start(nil, bullmqhttp.Route{}, nil)
		submitted := s.submit()
		location, id := submitted.header.Get("Location"), submitted.job().ID
		v := s.view(location)
		command(redis, "EVAL", "redis.call('hset', KEYS[1], 'progress', ARGV[1]) return ''", "1", "bull:"+s.queue.Name()+":"+id, "\"\xff\"")
		_, err := s.queue.Publish(context.Background(), "progress", nil, "jobId", id, "data", "\"\xff\"")
		Expect(err).NotTo(HaveOccurred())
		a := s.get(location, "")
		Expect(a.status).To(Equal(http.StatusOK))
		Expect(utf8.ValidString(a.body)).To(BeTrue())
		Expect(a.job().Progress).To(MatchJSON(`"\"\ufffd\""`))
		var event sent
		Eventually(v.events, boundary).Should(Receive(&event))
		Expect(event.data).To(MatchJSON(`{"progress":"\"\ufffd\""}`))
		s.advance(id, 0, 0)
		v.see(0)
	})
})
