package batch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("A Batcher", func() {
	numbers := func(all []*int) (n []int) {
		for _, one := range all {
			n = append(n, *one)
		}
		return n
	}
	newBatcher := func(maxSize int, sizeOf func(*int) int, send func(context.Context, []*int) func() ([]string, error)) *Batcher[int, string] {
		return New(Options[int, string]{MaxSize: maxSize, Timeout: 10 * time.Second, SizeOf: sizeOf, Send: send})
	}
	// gated returns a batcher whose calls wait for the gate, and the requests of each call.
	gated := func(maxSize int) (b *Batcher[int, string], gate chan struct{}, calls chan []int) {
		gate, calls = make(chan struct{}), make(chan []int, 100)
		send := func(ctx context.Context, all []int) ([]string, error) {
			calls <- all
			select {
			case <-gate:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			answers := make([]string, len(all))
			for i, n := range all {
				if n == 13 {
					return nil, errors.New("unlucky")
				}
				answers[i] = fmt.Sprint(n)
			}
			return answers, nil
		}
		b = newBatcher(maxSize, func(n *int) int { return *n }, func(ctx context.Context, all []*int) func() ([]string, error) {
			answers, err := send(ctx, numbers(all))
			return func() ([]string, error) { return answers, err }
		})
		return b, gate, calls
	}
	one := func(*int) int { return 1 }
	waiting := func(b *Batcher[int, string]) func() int {
		return func() int {
			b.mu.Lock()
			defer b.mu.Unlock()
			return len(b.waiting)
		}
	}

	inFlight := func(b *Batcher[int, string]) func() int {
		return func() int {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.inFlight
		}
	}

	It("combines the requests that arrive while a call is in flight, in order, and gives each its own reply", func() {
		b, gate, calls := gated(10)
		var all sync.WaitGroup
		ask := func(n int) {
			all.Go(func() {
				defer GinkgoRecover()
				Expect(b.Do(context.Background(), n)).To(Equal(fmt.Sprint(n)))
			})
		}
		ask(1)
		Eventually(calls).Should(Receive(Equal([]int{1})), "the first one is sent at once")
		for n := 2; n <= 4; n++ {
			ask(n)
			Eventually(waiting(b)).Should(Equal(n - 1))
		}
		Consistently(calls, 50*time.Millisecond).ShouldNot(Receive())
		gate <- struct{}{}
		Eventually(calls).Should(Receive(Equal([]int{2, 3, 4})))
		gate <- struct{}{}
		all.Wait()
		Eventually(inFlight(b)).Should(BeZero())
		ask(5)
		Eventually(calls).Should(Receive(Equal([]int{5})))
		gate <- struct{}{}
		all.Wait()
	})

	It("makes a second call, which may end before the first, when enough requests wait, and never a third", func() {
		b, gate, calls := gated(100)
		var all sync.WaitGroup
		ask := func(n int) { all.Go(func() { _, _ = b.Do(context.Background(), n) }) }
		ask(1)
		Eventually(calls).Should(Receive(Equal([]int{1})))
		for n := 2; n <= minParallel; n++ {
			ask(n)
			Eventually(waiting(b)).Should(Equal(n - 1))
		}
		Consistently(calls, 50*time.Millisecond).ShouldNot(Receive(), "fewer wait for the first to end")
		ask(6)
		Eventually(calls).Should(Receive(Equal([]int{2, 3, 4, 5, 6})))
		for n := 7; n < 7+2*minParallel; n++ {
			ask(n)
			Eventually(waiting(b)).Should(Equal(n - 6))
		}
		Consistently(calls, 50*time.Millisecond).ShouldNot(Receive())
		gate <- struct{}{} // either ends
		Eventually(calls).Should(Receive(HaveLen(2 * minParallel)))
		gate <- struct{}{}
		for n := 1; n < 2*minParallel; n++ {
			ask(100)
			Eventually(waiting(b)).Should(Equal(n))
		}
		Consistently(calls, 50*time.Millisecond).ShouldNot(Receive(), "fewer than there are in the other call aren't enough")
		ask(100)
		Eventually(calls).Should(Receive(HaveLen(2*minParallel)), "as many are")
		ask(101)
		Eventually(waiting(b)).Should(Equal(1))
		gate <- struct{}{}
		Consistently(calls, 50*time.Millisecond).ShouldNot(Receive(), "one isn't enough beside another call")
		gate <- struct{}{}
		Eventually(calls).Should(Receive(Equal([]int{101})), "but is not left behind")
		gate <- struct{}{}
		all.Wait()
	})

	// numbered returns a batcher whose calls are answered by the first request in them.
	numbered := func() (b *Batcher[int, string], calls chan []int, answer func(first int)) {
		var gates sync.Map
		calls = make(chan []int, 100)
		b = newBatcher(100, one, func(_ context.Context, all []*int) func() ([]string, error) {
			gate := make(chan struct{})
			gates.Store(*all[0], gate)
			calls <- numbers(all)
			<-gate
			return func() ([]string, error) { return make([]string, len(all)), nil }
		})
		return b, calls, func(first int) {
			gate, _ := gates.Load(first)
			close(gate.(chan struct{}))
		}
	}
	It("delays the second call for callers that have just been answered, but not for those of long ago", func() {
		b, calls, answer := numbered()
		var all sync.WaitGroup
		ask := func(from, to, before int) {
			for n := from; n <= to; n++ {
				all.Go(func() { _, _ = b.Do(context.Background(), n) })
				if before >= 0 {
					Eventually(waiting(b)).Should(Equal(before + n - from + 1))
				}
			}
		}
		ask(1, 1, -1)
		Eventually(calls).Should(Receive(Equal([]int{1})))
		ask(2, 5, 0)
		ask(6, 6, -1)
		Eventually(calls).Should(Receive(Equal([]int{2, 3, 4, 5, 6})))
		ask(7, 10, 0)
		answer(2)
		Eventually(inFlight(b)).Should(Equal(1))
		ask(11, 12, 4)
		Consistently(calls, 50*time.Millisecond).ShouldNot(Receive(), "6 are more than there are in the other call, but three of five haven't come back")
		ask(13, 13, -1)
		Eventually(calls).Should(Receive(Equal([]int{7, 8, 9, 10, 11, 12, 13})))
		ask(14, 25, 0)
		answer(1)
		Eventually(calls).Should(Receive(HaveLen(12)))
		answer(7)
		Eventually(inFlight(b)).Should(Equal(1))
		answer(14)
		all.Wait()
		Eventually(inFlight(b)).Should(BeZero(), "12 have been answered, and none comes back")

		ask(31, 31, -1)
		Eventually(calls).Should(Receive(Equal([]int{31})))
		ask(32, 35, 0)
		ask(36, 36, -1)
		Eventually(calls).Should(Receive(Equal([]int{32, 33, 34, 35, 36})))
		answer(31)
		answer(32)
		all.Wait()
	})

	It("limits a call in number and in bytes", func() {
		b, gate, calls := gated(3)
		var all sync.WaitGroup
		ask := func(n int) { all.Go(func() { _, _ = b.Do(context.Background(), n) }) }
		ask(1)
		Eventually(calls).Should(Receive(Equal([]int{1})))
		for i := range 3 {
			ask(2 + i)
			if i < 2 {
				Eventually(waiting(b)).Should(Equal(i + 1))
			}
		}
		Eventually(calls).Should(Receive(Equal([]int{2, 3, 4})))
		for i, n := range []int{5, maxBytes, 6, 7, 8, 9} {
			ask(n)
			Eventually(waiting(b)).Should(Equal(i + 1))
		}
		for _, want := range [][]int{{5, maxBytes}, {6, 7, 8}, {9}} {
			gate <- struct{}{}
			if want[0] == 9 {
				gate <- struct{}{} // too few for a second call
			}
			Eventually(calls).Should(Receive(Equal(want)))
		}
		gate <- struct{}{}
		all.Wait()
	})

	It("returns the failure of a shared call to all its requests, and to none that has a call of its own", func() {
		b, gate, calls := gated(10)
		var all sync.WaitGroup
		var errs [3]error // which of them returns first is open
		for i, n := range []int{1, 13, 3} {
			all.Go(func() { _, errs[i] = b.Do(context.Background(), n) })
			if i == 0 {
				Eventually(calls).Should(Receive())
			} else {
				Eventually(waiting(b)).Should(Equal(i))
			}
		}
		close(gate)
		all.Wait()
		Expect(errs[:]).To(HaveExactElements(BeNil(), MatchError("unlucky"), MatchError("unlucky")))
		Expect(b.DoAlone(context.Background(), 3)).To(Equal("3"))
	})

	It("tells a caller whose context ends whether the request was sent", func() {
		b, gate, calls := gated(10)
		first, second := make(chan error, 1), make(chan error, 1)
		busy := make(chan struct{})
		go func() { defer close(busy); _, _ = b.Do(context.Background(), 1) }()
		Eventually(calls).Should(Receive())
		ctx, cancel := context.WithCancel(context.Background())
		go func() { _, err := b.Do(ctx, 2); first <- err }()
		Eventually(waiting(b)).Should(Equal(1))
		cancel()
		var err error
		Eventually(first).Should(Receive(&err))
		Expect(err).To(MatchError(context.Canceled))
		Expect(err).To(MatchError(ContainSubstring("not sent")))
		var notSent *NotSentError
		Expect(errors.As(err, &notSent)).To(BeTrue())

		ctx, cancel = context.WithCancel(context.Background())
		go func() { _, err := b.Do(ctx, 3); second <- err }()
		Eventually(waiting(b)).Should(Equal(1))
		gate <- struct{}{}
		Eventually(calls).Should(Receive(Equal([]int{3})), "2 was withdrawn")
		cancel()
		Eventually(second).Should(Receive(&err))
		Expect(err).To(MatchError(context.Canceled))
		Expect(errors.As(err, &notSent)).To(BeFalse())
		gate <- struct{}{}
		<-busy
	})

	It("makes a call for each request with a MaxSize of 1", func() {
		b, gate, calls := gated(1)
		var all sync.WaitGroup
		for n := range 5 {
			all.Go(func() { _, _ = b.Do(context.Background(), n) })
		}
		for range 5 {
			Eventually(calls).Should(Receive(HaveLen(1)))
		}
		close(gate)
		all.Wait()
	})

	It("gives each caller its own reply under load", func() {
		var calls atomic.Int64
		b := newBatcher(7, one, func(_ context.Context, all []*int) func() ([]string, error) {
			calls.Add(1)
			return func() ([]string, error) {
				answers := make([]string, len(all))
				for i, n := range all {
					answers[i] = fmt.Sprint(*n)
				}
				return answers, nil
			}
		})
		var all sync.WaitGroup
		for g := range 50 {
			all.Go(func() {
				defer GinkgoRecover()
				for i := range 200 {
					Expect(b.Do(context.Background(), g*1000+i)).To(Equal(fmt.Sprint(g*1000 + i)))
				}
			})
		}
		all.Wait()
		Expect(b.inFlight).To(BeZero())
		Expect(b.waiting).To(BeEmpty())
		Expect(calls.Load()).To(BeNumerically("<=", 10000))
	})
})
