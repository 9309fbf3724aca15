package bullmqhttp_test

// A BodyStore that fails, hangs or panics, for requests and for responses.

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmqhttp"
)

// storeFunc is a Store of a shelf, and openFunc an Open.
type (
	storeFunc = func(ctx context.Context, body io.Reader) (string, error)
	openFunc  = func(ctx context.Context, ref string) (io.ReadCloser, error)
)

// Stores that do not keep a body.
var badStores = []TableEntry{
	Entry("fails", storeFunc(func(context.Context, io.Reader) (string, error) { return "", errors.New("no disk") }), "no disk"),
	Entry("panics", storeFunc(func(context.Context, io.Reader) (string, error) { panic("a nil bucket") }), "panic: a nil bucket"),
	Entry("panics in the middle", storeFunc(func(_ context.Context, body io.Reader) (string, error) {
		_, _ = body.Read(make([]byte, 3))
		panic(http.ErrAbortHandler)
	}), "panic: "),
	Entry("returns no reference", storeFunc(func(_ context.Context, body io.Reader) (string, error) {
		_, err := io.Copy(io.Discard, body)
		return "", err
	}), "that is not empty"),
	Entry("returns a reference that is not UTF-8", storeFunc(func(_ context.Context, body io.Reader) (string, error) {
		_, err := io.Copy(io.Discard, body)
		return "\xff", err
	}), "that is not empty"),
	Entry("does not read the body to its end", storeFunc(func(_ context.Context, body io.Reader) (string, error) {
		_, err := io.CopyN(io.Discard, body, 3)
		return "a", err
	}), "to its end"),
}

// logged returns options whose log is a buffer.
func logged(o *bullmqhttp.Options) (*bullmqhttp.Options, *gbytes.Buffer) {
	log := gbytes.NewBuffer()
	o.Logger = slog.New(slog.NewTextHandler(log, nil))
	return o, log
}

// reader is a body of a store, made of a function.
type reader func([]byte) (int, error)

func (r reader) Read(part []byte) (int, error) { return r(part) }
func (reader) Close() error                    { return nil }

// then returns a body that has a text, and then what a function does.
func then(text string, rest reader) io.ReadCloser {
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(strings.NewReader(text), rest), rest}
}

var _ = Describe("A store of the bodies of requests", func() {
	DescribeTable("makes the reply 503, and loses nothing, if it", func(store storeFunc, cause string) {
		bodies := &shelf{store: store}
		o, log := logged(storing(bodies))
		s := start(o, bullmqhttp.Route{}, nil)
		for range 2 { // the key is not used
			a := s.upload("Idempotency-Key", "a")
			Expect(a.status).To(Equal(http.StatusServiceUnavailable))
			Expect(a.code()).To(Equal(bullmqhttp.CodeUnavailable))
			Expect(a.header.Get("Retry-After")).NotTo(BeEmpty())
			Expect(a.body).NotTo(ContainSubstring(cause))
			Expect(string(log.Contents())).To(ContainSubstring(cause))
		}
		Expect(s.jobs()).To(BeZero())
		bodies.setStore(nil)
		s.work(echo, serving(bodies))
		a := s.upload("Idempotency-Key", "a", "Prefer", "wait=20")
		Expect(a.status).To(Equal(http.StatusOK))
		Expect(a.body).To(Equal(largeText))
		Expect(a.header).NotTo(HaveKey("Idempotency-Replayed"))
	}, badStores)

	It("may refuse one with its own problem", func() {
		bodies := &shelf{store: func(context.Context, io.Reader) (string, error) {
			return "", fmt.Errorf("a virus: %w", &bullmqhttp.Problem{Status: http.StatusUnprocessableEntity, Code: "VIRUS"})
		}}
		s := start(storing(bodies), bullmqhttp.Route{}, nil)
		a := s.upload()
		Expect(a.status).To(Equal(http.StatusUnprocessableEntity))
		Expect(a.code()).To(Equal("VIRUS"))
		bodies.setStore(func(context.Context, io.Reader) (string, error) { return "", &bullmqhttp.Problem{} }) // without a status
		Expect(s.upload().status).To(Equal(http.StatusServiceUnavailable))
	})

	It("is ended by StoreTimeout if it hangs, before it has read the body or after", func() {
		bodies := &shelf{}
		o, log := logged(storing(bodies))
		o.StoreTimeout = 300 * time.Millisecond
		s := start(o, bullmqhttp.Route{}, nil)
		for _, read := range []int64{3, 1000} {
			bodies.setStore(func(ctx context.Context, body io.Reader) (string, error) {
				_, _ = io.CopyN(io.Discard, body, read)
				<-ctx.Done()
				return "", ctx.Err()
			})
			a := s.upload()
			Expect(a.status).To(Equal(http.StatusServiceUnavailable))
			Expect(a.code()).To(Equal(bullmqhttp.CodeUnavailable))
			Eventually(log).Should(gbytes.Say("has exceeded Options.StoreTimeout"))
		}
		Expect(s.jobs()).To(BeZero())
	})

	It("has time while the client sends slowly", func() {
		bodies := &shelf{store: func(ctx context.Context, body io.Reader) (string, error) {
			_, err := io.Copy(io.Discard, body)
			return "a", errors.Join(err, ctx.Err())
		}}
		o := storing(bodies)
		o.StoreTimeout = 2 * time.Second
		s := start(o, bullmqhttp.Route{}, nil)
		connection := s.dial()
		_, err := io.WriteString(connection, "POST /reports/7 HTTP/1.1\r\nHost: a\r\nContent-Length: 29\r\n\r\n"+largeText[:15])
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() int { return waiting("bullmqhttp.(*meter).Read") }).Should(Equal(1))
		time.Sleep(2500 * time.Millisecond) // longer than StoreTimeout
		_, err = io.WriteString(connection, largeText[15:])
		Expect(err).NotTo(HaveOccurred())
		reply, err := http.ReadResponse(bufio.NewReader(connection), nil)
		Expect(err).NotTo(HaveOccurred())
		defer reply.Body.Close()
		Expect(reply.StatusCode).To(Equal(http.StatusAccepted))
	})

	It("is ended when the client leaves", func() {
		ended := make(chan error, 1)
		entered := make(chan bool, 1)
		bodies := &shelf{store: func(ctx context.Context, body io.Reader) (string, error) {
			_, _ = io.Copy(io.Discard, body)
			entered <- true
			<-ctx.Done()
			ended <- ctx.Err()
			return "", ctx.Err()
		}}
		s := start(storing(bodies), bullmqhttp.Route{}, nil)
		ctx, leave := context.WithCancel(context.Background())
		defer leave()
		go func() {
			<-entered
			leave()
		}()
		r, err := http.NewRequestWithContext(ctx, "POST", s.url+"/reports/7", strings.NewReader(largeText))
		Expect(err).NotTo(HaveOccurred())
		_, err = s.client.Do(r)
		Expect(err).To(MatchError(context.Canceled))
		Eventually(ended, "20s").Should(Receive(MatchError(context.Canceled)))
		Eventually(func() int { return waiting("bullmqhttp.") }, "20s").Should(BeZero())
		Expect(s.jobs()).To(BeZero())
	})

	DescribeTable("makes an attempt of a job fail, and the next one succeed, if it", func(open openFunc, cause string) {
		bodies := &shelf{}
		s := start(storing(bodies), bullmqhttp.Route{Job: bullmq.JobOptions{Attempts: 2}}, nil)
		reasons := make(chan string, 1)
		var calls atomic.Int64
		bodies.setOpen(func(ctx context.Context, ref string) (io.ReadCloser, error) {
			if calls.Add(1) == 1 {
				return open(ctx, ref)
			}
			return io.NopCloser(strings.NewReader(largeText)), nil
		})
		serve := bullmqhttp.Serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			text, _ := io.ReadAll(r.Body) // a handler that ignores the error
			fmt.Fprint(w, len(text))
		}), bullmqhttp.ServeOptions{Bodies: bodies})
		s.workWith(func(ctx context.Context, job *bullmq.Job) (any, error) {
			value, err := serve(ctx, job)
			if err != nil {
				reasons <- err.Error()
			}
			return value, err
		}, &bullmq.WorkerOptions{})
		a := s.upload("Prefer", "wait=20")
		Expect(a.status).To(Equal(http.StatusOK), a.body)
		Expect(a.body).To(Equal(fmt.Sprint(len(largeText))))
		Expect(reasons).To(Receive(ContainSubstring(cause)))
	},
		Entry("can't open its body", openFunc(func(context.Context, string) (io.ReadCloser, error) { return nil, errors.New("no network") }), "no network"),
		Entry("panics as it opens it", openFunc(func(context.Context, string) (io.ReadCloser, error) { panic("a nil bucket") }), "panic: a nil bucket"),
		Entry("returns no body", openFunc(func(context.Context, string) (io.ReadCloser, error) { return nil, nil }), "returned nil"),
		Entry("can't read all of it", openFunc(func(context.Context, string) (io.ReadCloser, error) {
			return then("a text", func([]byte) (int, error) { return 0, errors.New("no network") }), nil
		}), "no network"),
		Entry("panics as it reads it", openFunc(func(context.Context, string) (io.ReadCloser, error) {
			return then("a text", func([]byte) (int, error) { panic("a nil bucket") }), nil
		}), "panic: a nil bucket"),
		Entry("has less than was stored", openFunc(func(context.Context, string) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(largeText[1:])), nil
		}), "29 bytes"),
		Entry("has more than was stored", openFunc(func(context.Context, string) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(largeText + ".")), nil
		}), "29 bytes"),
	)

	DescribeTable("is ended by the end of the job if it hangs as it", func(open openFunc) {
		bodies := &shelf{}
		s := start(storing(bodies), bullmqhttp.Route{Job: bullmq.JobOptions{Attempts: 3}}, nil)
		entered := make(chan bool, 1)
		bodies.setOpen(func(ctx context.Context, ref string) (io.ReadCloser, error) {
			entered <- true
			return open(ctx, ref)
		})
		s.work(echo, serving(bodies))
		location := s.upload().header.Get("Location")
		Eventually(entered, "20s").Should(Receive())
		Expect(s.do("DELETE", location, "").status).To(Equal(http.StatusAccepted))
		status := s.ended(location)
		Expect(status.State).To(Equal(bullmqhttp.Cancelled))
		Expect(entered).To(BeEmpty())
	},
		Entry("opens a body", openFunc(func(ctx context.Context, _ string) (io.ReadCloser, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})),
		Entry("reads a body", openFunc(func(ctx context.Context, _ string) (io.ReadCloser, error) {
			return then("a text", func([]byte) (int, error) {
				<-ctx.Done()
				return 0, ctx.Err()
			}), nil
		})),
	)

	It("may need longer than the timeouts of the http.Server, as may that of a response", func() {
		bodies := &shelf{}
		slowly := func(ctx context.Context) error {
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
			return ctx.Err()
		}
		bodies.setStore(func(ctx context.Context, body io.Reader) (string, error) {
			_, err := io.Copy(io.Discard, body)
			return "a", errors.Join(err, slowly(ctx))
		})
		bodies.setOpen(func(ctx context.Context, _ string) (io.ReadCloser, error) {
			err, delayed := slowly(ctx), false
			return then(largeText[:5], func(part []byte) (int, error) {
				if delayed {
					return 0, io.EOF
				}
				delayed = true
				return copy(part, largeText[5:]), slowly(ctx)
			}), err
		})
		s := start(storing(bodies), bullmqhttp.Route{}, nil)
		mux := http.NewServeMux()
		mux.Handle("POST /slow/{id}", s.server.Async("slow", bullmqhttp.Route{}))
		mux.Handle("/jobs/", s.server)
		web := httptest.NewUnstartedServer(mux)
		web.Config.ReadTimeout, web.Config.WriteTimeout = 300*time.Millisecond, 300*time.Millisecond
		web.Start()
		defer web.Close()
		s.url = web.URL
		s.workWith(func(context.Context, *bullmq.Job) (any, error) {
			return map[string]any{"status": 200, "contentType": "text/plain", "bodyRef": "a", "bodySize": len(largeText)}, nil
		}, &bullmq.WorkerOptions{})
		a := s.do("POST", "/slow/7", largeText, "Content-Type", "text/plain")
		Expect(a.status).To(Equal(http.StatusAccepted), a.body)
		Expect(s.get(a.header.Get("Location"), "/result?wait=20").body).To(Equal(largeText))
	})

	It("is missed by a worker that has none", func() {
		s := start(storing(&shelf{}), bullmqhttp.Route{}, nil)
		s.work(echo)
		id := s.ended(s.upload().header.Get("Location")).ID
		job, err := s.queue.Job(context.Background(), id)
		Expect(err).NotTo(HaveOccurred())
		Expect(job.FailedReason).To(ContainSubstring("there is no BodyStore; set Bodies"))
	})
})

var _ = Describe("A store of the bodies of responses", func() {
	DescribeTable("makes an attempt fail, and the next one succeed, if it", func(store storeFunc, cause string) {
		bodies := &shelf{store: store}
		s := start(&bullmqhttp.Options{Bodies: bodies}, bullmqhttp.Route{Job: bullmq.JobOptions{Attempts: 2}}, nil)
		serve := bullmqhttp.Serve(http.HandlerFunc(echo), serving(bodies))
		reasons := make(chan string, 1)
		s.workWith(func(ctx context.Context, job *bullmq.Job) (any, error) {
			value, err := serve(ctx, job)
			if err != nil {
				bodies.setStore(nil)
				reasons <- err.Error()
			}
			return value, err
		}, &bullmq.WorkerOptions{})
		a := s.upload("Prefer", "wait=20")
		Expect(a.status).To(Equal(http.StatusOK), a.body)
		Expect(a.body).To(Equal(largeText))
		Expect(reasons).To(Receive(ContainSubstring(cause)))
		Expect(bodies.kept()).To(Equal(1))
	}, badStores)

	It("is ended by the end of the job if it hangs", func() {
		entered, ended := make(chan bool, 1), make(chan bool, 1)
		bodies := &shelf{store: func(ctx context.Context, body io.Reader) (string, error) {
			entered <- true
			<-ctx.Done()
			ended <- true
			return "", ctx.Err()
		}}
		s := start(nil, bullmqhttp.Route{Job: bullmq.JobOptions{Attempts: 3}}, nil)
		s.work(echo, serving(bodies))
		location := s.upload().header.Get("Location")
		Eventually(entered, "20s").Should(Receive())
		Expect(s.do("DELETE", location, "").status).To(Equal(http.StatusAccepted))
		Expect(s.ended(location).State).To(Equal(bullmqhttp.Cancelled))
		Expect(ended).To(Receive())
	})

	DescribeTable("makes the result 503, and lets a client try again, if it", func(open openFunc, cause string) {
		bodies := &shelf{}
		o, log := logged(&bullmqhttp.Options{Bodies: bodies, StoreTimeout: 300 * time.Millisecond})
		s := start(o, bullmqhttp.Route{}, nil)
		s.work(echo, serving(bodies))
		location := s.upload().header.Get("Location")
		Expect(s.ended(location).State).To(Equal(bullmqhttp.Succeeded))
		bodies.setOpen(open)
		a := s.get(location, "/result")
		Expect(a.status).To(Equal(http.StatusServiceUnavailable))
		Expect(a.code()).To(Equal(bullmqhttp.CodeUnavailable))
		Expect(a.header.Get("Retry-After")).NotTo(BeEmpty())
		Expect(a.header).NotTo(HaveKey("Etag"))
		Expect(string(log.Contents())).To(ContainSubstring(cause))
		Expect(s.get(location, "").job().State).To(Equal(bullmqhttp.Succeeded))
		bodies.setOpen(nil)
		Expect(s.get(location, "/result").body).To(Equal(largeText))
	},
		Entry("can't open it", openFunc(func(context.Context, string) (io.ReadCloser, error) { return nil, errors.New("no network") }), "no network"),
		Entry("panics", openFunc(func(context.Context, string) (io.ReadCloser, error) { panic("a nil bucket") }), "panic: a nil bucket"),
		Entry("returns no body", openFunc(func(context.Context, string) (io.ReadCloser, error) { return nil, nil }), "returned nil"),
		Entry("hangs", openFunc(func(ctx context.Context, _ string) (io.ReadCloser, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}), "StoreTimeout"),
	)

	DescribeTable("aborts the connection, so that the client notices, if it", func(open openFunc, cause string) {
		bodies := &shelf{}
		o, log := logged(&bullmqhttp.Options{Bodies: bodies, StoreTimeout: 300 * time.Millisecond})
		s := start(o, bullmqhttp.Route{}, nil)
		s.work(echo, serving(bodies))
		location := s.upload().header.Get("Location")
		Expect(s.ended(location).State).To(Equal(bullmqhttp.Succeeded))
		bodies.setOpen(open)
		reply, err := s.client.Get(s.url + location + "/result")
		if err == nil {
			_, err = io.Copy(io.Discard, reply.Body)
			_ = reply.Body.Close()
		}
		Expect(err).To(HaveOccurred())
		Eventually(log).Should(gbytes.Say("can't be read to its end"))
		Expect(string(log.Contents())).To(ContainSubstring(cause))
	},
		Entry("can't read all of it", openFunc(func(context.Context, string) (io.ReadCloser, error) {
			return then("a text", func([]byte) (int, error) { return 0, errors.New("no network") }), nil
		}), "no network"),
		Entry("panics as it reads it", openFunc(func(context.Context, string) (io.ReadCloser, error) {
			return then("a text", func([]byte) (int, error) { panic("a nil bucket") }), nil
		}), "panic: a nil bucket"),
		Entry("hangs as it reads it", openFunc(func(ctx context.Context, _ string) (io.ReadCloser, error) {
			return then("a text", func([]byte) (int, error) {
				<-ctx.Done()
				return 0, ctx.Err()
			}), nil
		}), "StoreTimeout"),
		Entry("has less than was stored", openFunc(func(context.Context, string) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(largeText[1:])), nil
		}), "29 bytes"),
		Entry("has more than was stored", openFunc(func(context.Context, string) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(largeText + ".")), nil
		}), "29 bytes"),
	)
})
