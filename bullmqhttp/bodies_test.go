package bullmqhttp_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmqhttp"
)

// shelf is a BodyStore in memory.
type shelf struct {
	mu     sync.Mutex
	bodies map[string]string
	infos  []bullmqhttp.BodyInfo
	store  func(ctx context.Context, body io.Reader) (string, error) // instead of Store, unless nil
	open   func(ctx context.Context, ref string) (io.ReadCloser, error)
}

// setStore replaces Store, also while requests run. nil restores it.
func (s *shelf) setStore(store func(ctx context.Context, body io.Reader) (string, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store = store
}

func (s *shelf) setOpen(open func(ctx context.Context, ref string) (io.ReadCloser, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = open
}

func (s *shelf) Store(ctx context.Context, info bullmqhttp.BodyInfo, body io.Reader) (string, error) {
	s.mu.Lock()
	s.infos = append(s.infos, info)
	store := s.store
	s.mu.Unlock()
	if store != nil {
		return store(ctx, body)
	}
	text, err := io.ReadAll(body)
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bodies == nil {
		s.bodies = map[string]string{}
	}
	ref := fmt.Sprint("body-", len(s.infos))
	s.bodies[ref] = string(text)
	return ref, nil
}

func (s *shelf) Open(ctx context.Context, ref string) (io.ReadCloser, error) {
	s.mu.Lock()
	open := s.open
	body, found := s.bodies[ref]
	s.mu.Unlock()
	if open != nil {
		return open(ctx, ref)
	}
	if !found {
		return nil, fmt.Errorf("%s: %w", ref, fs.ErrNotExist)
	}
	return io.NopCloser(strings.NewReader(body)), nil
}

// kept returns how many bodies the store has.
func (s *shelf) kept() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.bodies)
}

// seen returns the bodies that Store was called for.
func (s *shelf) seen() []bullmqhttp.BodyInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.infos)
}

// clear removes all bodies.
func (s *shelf) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.bodies)
}

// storing and serving return options with a store for bodies of more than 10 bytes.
func storing(in bullmqhttp.BodyStore) *bullmqhttp.Options {
	return &bullmqhttp.Options{Bodies: in, StoreAbove: 10}
}

func serving(from bullmqhttp.BodyStore) bullmqhttp.ServeOptions {
	return bullmqhttp.ServeOptions{Bodies: from, StoreAbove: 10}
}

// echo replies with the body of the request.
func echo(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
	if _, err := io.Copy(w, r.Body); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

const largeText = "a text of more than ten bytes"

// upload posts a text that is kept in a store.
func (s *service) upload(headers ...string) answer {
	GinkgoHelper()
	return s.do("POST", "/reports/7", largeText, append([]string{"Content-Type", "text/plain"}, headers...)...)
}

// pattern is an endless body whose parts differ.
type pattern struct {
	block []byte
	read  int
}

func newPattern() *pattern {
	block := make([]byte, 65521)
	for i := range block {
		block[i] = byte(i + i/251)
	}
	return &pattern{block: block}
}

func (p *pattern) Read(part []byte) (int, error) {
	n := copy(part, p.block[p.read%len(p.block):])
	p.read += n
	return n, nil
}

var _ = Describe("A large body", func() {
	It("of 100 MB reaches the handler, and the response the client, without being held in memory", func() {
		const size = 100 << 20
		root, err := os.OpenRoot(GinkgoT().TempDir())
		Expect(err).NotTo(HaveOccurred())
		defer root.Close()
		bodies := directory{root}
		s := start(&bullmqhttp.Options{Bodies: bodies, MaxBody: size}, bullmqhttp.Route{}, nil)
		s.work(echo, bullmqhttp.ServeOptions{Bodies: bodies, MaxResponse: size})
		sent, got := sha256.New(), sha256.New()
		var location string
		exchange := func() {
			r, err := http.NewRequest("POST", s.url+"/reports/7", io.TeeReader(io.LimitReader(newPattern(), size), sent))
			Expect(err).NotTo(HaveOccurred())
			r.Header.Set("Content-Type", "video/mp4")
			a := s.send(r)
			Expect(a.status).To(Equal(http.StatusAccepted), a.body)
			location = a.header.Get("Location")
			var status bullmqhttp.Status
			Eventually(func() bullmqhttp.State {
				status = s.get(location, "?wait=20").job()
				return status.State
			}, "120s").Should(Equal(bullmqhttp.Succeeded), func() string { return status.Error })
			reply, err := s.client.Get(s.url + location + "/result")
			Expect(err).NotTo(HaveOccurred())
			defer reply.Body.Close()
			Expect(reply.StatusCode).To(Equal(http.StatusOK))
			Expect(reply.ContentLength).To(Equal(int64(size)))
			Expect(reply.Header.Get("Content-Type")).To(Equal("video/mp4"))
			Expect(io.Copy(got, reply.Body)).To(Equal(int64(size)))
		}
		Expect(allocated(exchange)).To(BeNumerically("<", 32<<20))
		Expect(got.Sum(nil)).To(Equal(sent.Sum(nil)))
		job, err := s.queue.Job(context.Background(), location[len("/jobs/"):])
		Expect(err).NotTo(HaveOccurred())
		Expect(len(job.Data) + len(job.ReturnValue)).To(BeNumerically("<", 2000))
		stored, err := bullmqhttp.ReadRequest(job)
		Expect(err).NotTo(HaveOccurred())
		Expect(stored.BodySize).To(Equal(int64(size)))
		Expect(stored.Body).To(BeNil())
		files, err := os.ReadDir(root.Name())
		Expect(err).NotTo(HaveOccurred())
		Expect(files).To(HaveLen(2)) // of the request and the response
	})

	It("of 100 MB is refused with 413 if there is no store, and no part of it is sent", func() {
		s := start(nil, bullmqhttp.Route{}, nil)
		s.client.Transport.(*http.Transport).ExpectContinueTimeout = time.Minute
		body := newPattern()
		r, err := http.NewRequest("POST", s.url+"/reports/7", io.LimitReader(body, 100<<20))
		Expect(err).NotTo(HaveOccurred())
		r.ContentLength = 100 << 20
		a := s.send(r, "Expect", "100-continue")
		Expect(a.status).To(Equal(http.StatusRequestEntityTooLarge))
		Expect(a.code()).To(Equal(bullmqhttp.CodeTooLarge))
		Expect(body.read).To(BeZero())
	})

	It("is refused with 413 if it exceeds MaxBody, and the store keeps nothing", func() {
		bodies := &shelf{}
		s := start(&bullmqhttp.Options{Bodies: bodies, StoreAbove: 10, MaxBody: 1000}, bullmqhttp.Route{}, nil)
		r, err := http.NewRequest("POST", s.url+"/reports/7", io.MultiReader(strings.NewReader(strings.Repeat("a", 1001)))) // of unknown length
		Expect(err).NotTo(HaveOccurred())
		a := s.send(r)
		Expect(a.status).To(Equal(http.StatusRequestEntityTooLarge))
		Expect(a.code()).To(Equal(bullmqhttp.CodeTooLarge))
		Expect(a.body).To(ContainSubstring("1000 bytes"))
		Expect(bodies.seen()).To(HaveLen(1)) // it has seen the begin
		Expect(bodies.kept()).To(BeZero())
		Expect(s.jobs()).To(BeZero())
	})

	It("in a response fails the job if it exceeds MaxResponse, and the store keeps nothing", func() {
		bodies := &shelf{}
		s := start(storing(bodies), bullmqhttp.Route{Job: bullmq.JobOptions{Attempts: 3}}, nil)
		s.work(func(w http.ResponseWriter, _ *http.Request) {
			for range 11 {
				_, _ = io.WriteString(w, strings.Repeat("a", 100))
			}
		}, bullmqhttp.ServeOptions{Bodies: bodies, StoreAbove: 10, MaxResponse: 1000})
		status := s.ended(s.submit().header.Get("Location"))
		Expect(status.State).To(Equal(bullmqhttp.Failed))
		Expect(status.Attempts).To(Equal(1))
		Expect(bodies.kept()).To(Equal(1)) // that of the request
	})

	It("is in the store only if it is larger than StoreAbove", func() {
		bodies := &shelf{}
		s := start(storing(bodies), bullmqhttp.Route{}, nil)
		s.work(echo, serving(bodies))
		small := s.do("POST", "/reports/7", "ten bytes.", "Content-Type", "text/plain", "Prefer", "wait=20")
		Expect(small.body).To(Equal("ten bytes."))
		Expect(bodies.seen()).To(BeEmpty())
		large := s.do("POST", "/reports/7", "ten bytes..", "Content-Type", "text/plain", "Prefer", "wait=20")
		Expect(large.body).To(Equal("ten bytes.."))
		Expect(large.header.Get("Content-Length")).To(Equal("11"))
		id := strings.TrimSuffix(strings.TrimPrefix(large.header.Get("Content-Location"), "/jobs/"), "/result")
		Expect(bodies.seen()).To(Equal([]bullmqhttp.BodyInfo{
			{JobID: id, ContentType: "text/plain", Size: 11}, {JobID: id, Response: true, ContentType: "text/plain", Size: -1},
		}))
		head := s.do("HEAD", "/jobs/"+id+"/result", "")
		Expect(head.status).To(Equal(http.StatusOK))
		Expect(head.header.Get("Content-Length")).To(Equal("11"))
		Expect(head.body).To(BeEmpty())
	})

	It("of a failed attempt is not stored, and its begin is the reason", func() {
		bodies := &shelf{}
		s := start(storing(bodies), bullmqhttp.Route{}, nil)
		s.work(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadGateway)
			for range 100 {
				_, _ = io.WriteString(w, "0123456789")
			}
		}, serving(bodies))
		location := s.do("POST", "/reports/7", "").header.Get("Location")
		Expect(s.ended(location).Error).To(Equal("HTTP 502 Bad Gateway: 0123456789"))
		Expect(bodies.seen()).To(BeEmpty())
	})

	It("of a repeated request with a key is not stored again, but must be the same", func() {
		bodies := &shelf{}
		s := start(storing(bodies), bullmqhttp.Route{}, nil)
		first := s.upload("Idempotency-Key", "a")
		again := s.upload("Idempotency-Key", "a")
		Expect(again.status).To(Equal(http.StatusAccepted))
		Expect(again.job().ID).To(Equal(first.job().ID))
		Expect(again.header.Get("Idempotency-Replayed")).To(Equal("true"))
		other := s.do("POST", "/reports/7", largeText+".", "Content-Type", "text/plain", "Idempotency-Key", "a")
		Expect(other.code()).To(Equal(bullmqhttp.CodeKeyReused))
		Expect(bodies.kept()).To(Equal(1))
	})

	It("is not stored while too many jobs wait", func() {
		bodies := &shelf{}
		s := start(&bullmqhttp.Options{Bodies: bodies, StoreAbove: 10, MaxWaiting: 1}, bullmqhttp.Route{}, nil)
		Expect(s.upload().status).To(Equal(http.StatusAccepted))
		Expect(s.upload().code()).To(Equal(bullmqhttp.CodeTooManyWaiting))
		Expect(bodies.seen()).To(HaveLen(1))
	})

	It("that was removed fails the job of a request without a retry", func() {
		bodies := &shelf{}
		s := start(storing(bodies), bullmqhttp.Route{Job: bullmq.JobOptions{Attempts: 3}}, nil)
		a := s.upload()
		bodies.clear()
		s.work(func(http.ResponseWriter, *http.Request) { Fail("the handler was called") }, serving(bodies))
		status := s.ended(a.header.Get("Location"))
		Expect(status.State).To(Equal(bullmqhttp.Failed))
		Expect(status.Attempts).To(Equal(1))
		Expect(s.get(a.header.Get("Location"), "/result").code()).To(Equal(bullmqhttp.CodeJobFailed))
		job, err := s.queue.Job(context.Background(), status.ID)
		Expect(err).NotTo(HaveOccurred())
		Expect(job.FailedReason).To(And(ContainSubstring(`"body-1"`), ContainSubstring("does not exist")))
	})

	It("that was removed makes the result 410, and leaves the status as it was", func() {
		bodies := &shelf{}
		s := start(storing(bodies), bullmqhttp.Route{}, nil)
		s.work(echo, serving(bodies))
		location := s.upload().header.Get("Location")
		before := s.ended(location)
		Expect(before.State).To(Equal(bullmqhttp.Succeeded))
		Expect(s.get(location, "/result").body).To(Equal(largeText))
		bodies.clear()
		a := s.get(location, "/result")
		Expect(a.status).To(Equal(http.StatusGone))
		Expect(a.code()).To(Equal(bullmqhttp.CodeResultGone))
		Expect(a.body).To(ContainSubstring(before.ID))
		after := s.get(location, "")
		Expect(after.status).To(Equal(http.StatusOK))
		Expect(after.job()).To(Equal(before))
		Expect(before.ResponseStatus).To(Equal(http.StatusOK))
	})

	It("can be read from the job only by its reference", func() {
		bodies := &shelf{}
		s := start(storing(bodies), bullmqhttp.Route{}, nil)
		s.work(echo, serving(bodies))
		location := s.upload().header.Get("Location")
		id := s.ended(location).ID
		job, err := s.queue.Job(context.Background(), id)
		Expect(err).NotTo(HaveOccurred())
		request, err := bullmqhttp.ReadRequest(job)
		Expect(err).NotTo(HaveOccurred())
		_, err = request.NewHTTPRequest(context.Background())
		Expect(err).To(MatchError(ContainSubstring("ServeOptions.Bodies")))
		response, err := bullmqhttp.ReadResponse(job)
		Expect(err).NotTo(HaveOccurred())
		_, err = response.Bytes()
		Expect(err).To(MatchError(ContainSubstring(`"body-2"`)))
		Expect([]any{request.BodyRef, request.BodySize, response.BodyRef, response.BodySize}).
			To(Equal([]any{"body-1", int64(len(largeText)), "body-2", int64(len(largeText))}))
		Expect(bytes.Contains(job.Data, []byte(largeText))).To(BeFalse())
	})
})
