package batch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// A call is a call that a Batcher has made. Its requests are numbers.
type call struct {
	requests []int
	reply    chan error // the call fails if it receives an error
}

// succeed ends the call. The reply to each request is its number as text.
func (c *call) succeed() { c.fail(nil) }

// fail ends the call with an error.
func (c *call) fail(err error) {
	c.reply <- err
	settle()
}

// A server receives the calls of a Batcher. They last until the spec ends them.
type server struct {
	*Batcher[int, string]
	maxSize int
	sizeOf  func(int) int

	mu       sync.Mutex
	received []*call
	inFlight []*call
	asking   sync.WaitGroup
}

func newServer(maxSize int) *server {
	s := &server{maxSize: maxSize, sizeOf: func(int) int { return 1 }}
	s.Batcher = New(Options[int, string]{
		MaxSize: maxSize, Timeout: time.Minute, SizeOf: func(n *int) int { return s.sizeOf(*n) },
		Send: func(ctx context.Context, requests []*int) func() ([]string, error) {
			c := &call{reply: make(chan error)}
			for _, n := range requests {
				c.requests = append(c.requests, *n)
			}
			s.note(c)
			var err error
			select {
			case err = <-c.reply:
			case <-ctx.Done():
				err = ctx.Err()
			}
			s.ended(c)
			return func() ([]string, error) { return texts(c.requests), err }
		},
	})
	return s
}

func (s *server) note(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.received, s.inFlight = append(s.received, c), append(s.inFlight, c)
}

func (s *server) ended(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight = slices.DeleteFunc(s.inFlight, func(other *call) bool { return other == c })
}

// An asked is the outcome of a request. It is written before settle returns.
type asked struct {
	Reply    string
	Err      error
	Returned bool
}

// ask makes a request in a separate goroutine, and returns when it is in flight or waits.
func (s *server) ask(n int) *asked { return s.askWithin(context.Background(), n) }

func (s *server) askWithin(ctx context.Context, n int) *asked {
	var a asked
	s.asking.Go(func() {
		a.Reply, a.Err = s.Do(ctx, n)
		a.Returned = true
	})
	settle()
	return &a
}

// askMany makes the requests from, from+1 and so on.
func (s *server) askMany(from, count int) (all []*asked) {
	for n := range count {
		all = append(all, s.ask(from+n))
	}
	return all
}

// calls returns the requests of each call in flight, the oldest first.
func (s *server) calls() (all [][]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.inFlight {
		all = append(all, c.requests)
	}
	return all
}

// oldest returns the oldest call in flight, and newest the latest one.
func (s *server) oldest() *call { return s.inFlight[0] }
func (s *server) newest() *call { return s.inFlight[len(s.inFlight)-1] }

// finish ends calls until none is in flight.
func (s *server) finish() {
	for len(s.calls()) > 0 {
		s.oldest().succeed()
	}
	s.asking.Wait()
}

// share puts one call of so many requests in flight. Their numbers begin with from.
func (s *server) share(from, count int) {
	GinkgoHelper()
	const other = -1
	s.ask(other)
	for range minParallel {
		s.ask(other)
	}
	s.askMany(from, count)
	s.oldest().succeed()
	s.oldest().succeed()
	Expect(s.calls()).To(Equal([][]int{numbers(from, count)}))
}

// texts returns the replies to requests.
func texts(requests []int) (replies []string) {
	for _, n := range requests {
		replies = append(replies, fmt.Sprint(n))
	}
	return replies
}

// numbers returns from, from+1 and so on.
func numbers(from, count int) (all []int) {
	for n := range count {
		all = append(all, from+n)
	}
	return all
}

var _ = Describe("A Batcher", func() {
	It("sends a request at once, alone, if no call is in flight", inBubble(func() {
		s := newServer(10)
		for n := range 3 {
			a := s.ask(n)
			Expect(s.calls()).To(Equal([][]int{{n}}))
			s.oldest().succeed()
			Expect(*a).To(Equal(asked{Reply: fmt.Sprint(n), Returned: true}))
		}
	}))

	It("sends the requests that arrive while a call is in flight in the next call, in their order", inBubble(func() {
		s := newServer(10)
		s.ask(1)
		s.askMany(2, 3)
		Expect(s.calls()).To(Equal([][]int{{1}}))
		s.oldest().succeed()
		Expect(s.calls()).To(Equal([][]int{{2, 3, 4}}))
		s.finish()
	}))

	It("gives each request of a shared call its own reply", inBubble(func() {
		s := newServer(10)
		s.ask(1)
		all := s.askMany(2, 3)
		s.oldest().succeed()
		s.oldest().succeed()
		for i, a := range all {
			Expect(*a).To(Equal(asked{Reply: fmt.Sprint(2 + i), Returned: true}))
		}
	}))

	It("sends the next request at once after shared calls have ended", inBubble(func() {
		s := newServer(10)
		s.share(1, 8)
		s.finish()
		s.ask(100)
		Expect(s.calls()).To(Equal([][]int{{100}}))
		s.finish()
	}))

	Describe("with a call in flight", func() {
		It("makes a second call when a minimum of requests wait", inBubble(func() {
			s := newServer(100)
			s.ask(1)
			s.askMany(2, minParallel-1)
			Expect(s.calls()).To(HaveLen(1))
			s.ask(1 + minParallel)
			Expect(s.calls()).To(Equal([][]int{{1}, numbers(2, minParallel)}))
			s.finish()
		}))

		It("makes a second call only when as many requests wait as the first one has", inBubble(func() {
			s := newServer(100)
			const many = 3 * minParallel
			s.share(1, many)
			s.askMany(1000, many-1)
			Expect(s.calls()).To(HaveLen(1))
			s.ask(2000)
			Expect(s.calls()).To(HaveLen(2))
			Expect(s.calls()[1]).To(HaveLen(many))
			s.finish()
		}))

		// replied returns a server on which a call of minParallel requests has just ended
		// beside another one, while one less waits.
		replied := func(maxSize int) *server {
			s := newServer(maxSize)
			s.ask(1)
			s.askMany(2, minParallel)
			s.askMany(100, minParallel-1)
			s.newest().succeed()
			Expect(s.calls()).To(Equal([][]int{{1}}))
			return s
		}

		It("waits with the second call for the callers of the last reply, who mostly make further requests", inBubble(func() {
			s := replied(100)
			s.ask(200)
			Expect(s.calls()).To(HaveLen(1))
			s.askMany(201, minParallel-1)
			Expect(s.calls()).To(HaveLen(2))
			s.finish()
		}))

		It("does not wait for them if enough requests for a call of the maximum size wait", inBubble(func() {
			s := replied(minParallel)
			s.ask(200)
			Expect(s.calls()).To(Equal([][]int{{1}, append(numbers(100, minParallel-1), 200)}))
			s.finish()
		}))

		It("does not wait for them after a time without calls", inBubble(func() {
			s := newServer(100)
			s.share(1, 10*minParallel)
			s.finish()
			s.ask(1000)
			s.askMany(1001, minParallel)
			Expect(s.calls()).To(Equal([][]int{{1000}, numbers(1001, minParallel)}))
			s.finish()
		}))

		It("never makes a third call", inBubble(func() {
			s := newServer(minParallel)
			for n := range 20 * minParallel {
				s.ask(n)
				Expect(len(s.calls())).To(BeNumerically("<=", 2))
			}
			Expect(s.calls()).To(HaveLen(2))
			s.finish()
			Expect(len(s.received)).To(BeNumerically("<", 20*minParallel), "requests have shared calls")
		}))

		It("makes the next call whichever of two calls ends first", inBubble(func() {
			for _, first := range []func(*server) *call{(*server).oldest, (*server).newest} {
				s := newServer(100)
				s.ask(1)
				second := s.askMany(2, minParallel)
				waiting := s.askMany(100, 2*minParallel)
				Expect(s.calls()).To(HaveLen(2))
				first(s).succeed()
				Expect(s.calls()).To(ContainElement(numbers(100, 2*minParallel)))
				s.finish()
				Expect(append(second, waiting...)).To(HaveEach(HaveField("Returned", true)))
			}
		}))

		It("does not leave few requests behind that wait while two calls end", inBubble(func() {
			s := newServer(100)
			s.ask(1)
			s.askMany(2, minParallel)
			Expect(s.calls()).To(HaveLen(2))
			last := s.ask(100)
			s.newest().succeed()
			Expect(s.calls()).To(Equal([][]int{{1}}), "one request is not worth a call beside another")
			s.oldest().succeed()
			Expect(s.calls()).To(Equal([][]int{{100}}))
			s.finish()
			Expect(last.Reply).To(Equal("100"))
		}))

		It("shares requests between few calls while callers make one after the other", inBubble(func() {
			const callers, rounds = 40, 50
			var mu sync.Mutex
			var inFlight, atMost int
			var sizes []int
			b := New(Options[int, string]{
				MaxSize: 100, Timeout: time.Minute, SizeOf: func(*int) int { return 1 },
				Send: func(_ context.Context, requests []*int) func() ([]string, error) {
					mu.Lock()
					inFlight++
					atMost, sizes = max(atMost, inFlight), append(sizes, len(requests))
					mu.Unlock()
					time.Sleep(time.Millisecond)
					mu.Lock()
					inFlight--
					mu.Unlock()
					return func() ([]string, error) { return make([]string, len(requests)), nil }
				},
			})
			var all sync.WaitGroup
			for caller := range callers {
				all.Go(func() {
					for range rounds {
						_, _ = b.Do(context.Background(), caller)
						time.Sleep(time.Duration(caller) * time.Microsecond) // they do not all come back in the same moment
					}
				})
			}
			all.Wait()
			Expect(atMost).To(Equal(2))
			// Two equal calls in flight carry half of the callers each.
			Expect(len(sizes)).To(BeNumerically("<=", 3*rounds), "%v", sizes)
		}))
	})

	Describe("limits a call", func() {
		It("in the number of requests", inBubble(func() {
			s := newServer(3)
			s.askMany(1, 20)
			s.finish()
			var order []int
			for _, c := range s.received {
				Expect(len(c.requests)).To(BeNumerically("<=", 3))
				order = append(order, c.requests...)
			}
			Expect(order).To(Equal(numbers(1, 20)))
		}))

		It("in bytes, and sends a larger request nevertheless", inBubble(func() {
			s := newServer(100)
			s.sizeOf = func(n int) int { return n }
			s.ask(1)
			for _, size := range []int{maxBytes / 2, maxBytes / 2, 5, 3 * maxBytes} {
				s.ask(size)
			}
			s.oldest().succeed()
			Expect(s.calls()).To(Equal([][]int{{maxBytes / 2, maxBytes / 2}}))
			s.oldest().succeed()
			Expect(s.calls()).To(Equal([][]int{{5, 3 * maxBytes}}))
			s.ask(7)
			s.oldest().succeed()
			Expect(s.calls()).To(Equal([][]int{{7}}))
			s.finish()
		}))

		It("to one request with a MaxSize of 1, and lets none wait", inBubble(func() {
			s := newServer(1)
			s.askMany(1, 5)
			Expect(s.calls()).To(ConsistOf([]int{1}, []int{2}, []int{3}, []int{4}, []int{5}))
			s.finish()
		}))

		It("in the time that sending a shared call takes", inBubble(func() {
			s := newServer(10)
			s.ask(1)
			shared := s.ask(2)
			s.oldest().succeed()
			time.Sleep(time.Minute)
			settle()
			Expect(shared.Err).To(MatchError(context.DeadlineExceeded))
			Expect(s.calls()).To(BeEmpty())
		}))
	})

	Describe("returns the failure of a call", func() {
		It("to all requests that shared it, and to no other", inBubble(func() {
			s := newServer(10)
			alone := s.ask(1)
			shared := s.askMany(2, 2)
			s.oldest().succeed()
			later := s.ask(4)
			s.oldest().fail(errors.New("refused"))
			s.finish()
			Expect(shared).To(HaveEach(HaveField("Err", MatchError("refused"))))
			Expect(alone.Err).NotTo(HaveOccurred())
			Expect(later.Err).NotTo(HaveOccurred())
		}))

		It("to the request that had it alone, and sends those that waited", inBubble(func() {
			s := newServer(10)
			alone, waiting := s.ask(1), s.ask(2)
			s.oldest().fail(errors.New("refused"))
			Expect(alone.Err).To(MatchError("refused"))
			s.finish()
			Expect(waiting.Reply).To(Equal("2"))
		}))
	})

	Describe("when the context of a request ends", func() {
		It("returns a NotSentError if the request still waits, and does not send it", inBubble(func() {
			s := newServer(10)
			s.ask(1)
			ctx, cancel := context.WithCancel(context.Background())
			withdrawn := s.askWithin(ctx, 2)
			s.ask(3)
			cancel()
			settle()
			Expect(withdrawn.Err).To(And(MatchError(context.Canceled), MatchError(ContainSubstring("not sent"))))
			Expect(withdrawn.Err).To(BeAssignableToTypeOf(&NotSentError{}))
			s.oldest().succeed()
			Expect(s.calls()).To(Equal([][]int{{3}}))
			s.finish()
		}))

		It("returns the error of the context alone if the request is in flight", inBubble(func() {
			s := newServer(10)
			s.ask(1)
			ctx, cancel := context.WithCancel(context.Background())
			sent := s.askWithin(ctx, 2)
			s.oldest().succeed()
			Expect(s.calls()).To(Equal([][]int{{2}}))
			cancel()
			settle()
			Expect(sent.Err).To(Equal(context.Canceled))
			s.finish()
		}))

		It("does not affect the requests that share its call", inBubble(func() {
			s := newServer(10)
			s.ask(1)
			ctx, cancel := context.WithCancel(context.Background())
			s.askWithin(ctx, 2)
			beside := s.ask(3)
			s.oldest().succeed()
			cancel()
			settle()
			s.finish()
			Expect(beside.Reply).To(Equal("3"))
		}))
	})

	It("sends a request separately on demand, beside the calls in flight", inBubble(func() {
		s := newServer(10)
		s.ask(1)
		s.ask(2)
		var reply string
		s.asking.Go(func() { reply, _ = s.DoAlone(context.Background(), 3) })
		settle()
		Expect(s.calls()).To(Equal([][]int{{1}, {3}}))
		s.finish()
		Expect(reply).To(Equal("3"))
	}))

	It("gives each of many concurrent callers its own replies", func() {
		var inFlight, atMost, sent atomic.Int64
		b := New(Options[int, string]{
			MaxSize: 7, Timeout: time.Minute, SizeOf: func(*int) int { return 1 },
			Send: func(_ context.Context, requests []*int) func() ([]string, error) {
				defer inFlight.Add(-1)
				if n := inFlight.Add(1); n > 2 {
					atMost.Store(n)
				}
				sent.Add(int64(len(requests)))
				return func() (replies []string, err error) {
					for _, n := range requests {
						replies = append(replies, fmt.Sprint(*n))
					}
					return replies, nil
				}
			},
		})
		var all sync.WaitGroup
		for caller := range 50 {
			all.Go(func() {
				defer GinkgoRecover()
				for i := range 200 {
					Expect(b.Do(context.Background(), caller*1000+i)).To(Equal(fmt.Sprint(caller*1000 + i)))
				}
			})
		}
		all.Wait()
		Expect(sent.Load()).To(BeEquivalentTo(50*200), "each request is sent once")
		Expect(atMost.Load()).To(BeZero(), "more than two calls were in flight")
	})
})
