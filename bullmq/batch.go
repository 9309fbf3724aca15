package bullmq

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// batcher makes few calls of what is asked for at the same time. What is asked
// for alone is sent at once, by the goroutine that asks; what comes while that is
// under way travels together in the next call, which waits for the first to be
// answered, or for as many companions as the first has and for those to come back
// that have just been answered: with the second at hand, the server goes on while
// the answers of the first are on their way, and calls of one size keep it busy
// with the fewest of them.
type batcher[Q, A any] struct {
	most   int                                                            // how many travel together; with 1 none does, and none waits
	weight func(*Q) int                                                   // about how many bytes one is
	send   func(ctx context.Context, all []*Q) (read func() ([]A, error)) // what all points to is others' once read has answered

	mu      sync.Mutex
	flying  int // calls under way, two at most
	aboard  int // how many travel in the last of them
	away    int // of those that were answered last, how many have had no successor yet: most ask again at once
	waiting []*passenger[Q, A]
	spare   sync.Pool // passengers that have arrived
}

type passenger[Q, A any] struct {
	ask    Q
	sent   bool // of the batcher's mu
	answer A
	err    error
	done   chan struct{} // of one place: told once the answer is there
}

const (
	defaultBatch = 100 // calls stay short for the other clients of the server
	companions   = 5   // fewer aren't worth a second call at the same time

	batchBytes = 1 << 20 // beyond that, sharing a call saves nothing
)

// checkBatch puts in the default.
func checkBatch(most *int) error {
	if *most == 0 {
		*most = defaultBatch
	}
	if *most < 1 || *most > 1000 {
		return fmt.Errorf("BatchSize %d is not between 1 and 1000", *most)
	}
	return nil
}

// do answers what became of ask. When ctx ends before that, ask has not been
// sent, which the error tells (notSent), or it may be carried out.
func (b *batcher[Q, A]) do(ctx context.Context, ask Q) (A, error) {
	if b.most == 1 {
		return b.alone(ctx, ask)
	}
	b.mu.Lock()
	if b.flying == 0 {
		b.flying, b.aboard, b.away = 1, 1, 0
		b.mu.Unlock()
		defer b.next()
		return b.alone(ctx, ask)
	}
	b.away = max(0, b.away-1)
	p := b.passenger(ask)
	b.waiting = append(b.waiting, p)
	if b.flying == 1 && b.enough() {
		b.flying++
		go b.run()
	}
	b.mu.Unlock()
	select {
	case <-p.done:
		return b.arrived(p)
	case <-ctx.Done():
	}
	b.mu.Lock()
	select {
	case <-p.done: // both at once: the answer tells more
		b.mu.Unlock()
		return b.arrived(p)
	default:
	}
	sent := p.sent
	if !sent {
		b.waiting = slices.DeleteFunc(b.waiting, func(o *passenger[Q, A]) bool { return o == p })
	}
	b.mu.Unlock()
	err := ctx.Err()
	if !sent {
		err = notSent{err}
	}
	var none A
	return none, err
}

func (b *batcher[Q, A]) passenger(ask Q) *passenger[Q, A] {
	p, _ := b.spare.Get().(*passenger[Q, A])
	if p == nil {
		p = &passenger[Q, A]{done: make(chan struct{}, 1)}
	}
	p.ask = ask
	return p
}

// arrived takes the answer from a passenger that nobody else holds any more.
func (b *batcher[Q, A]) arrived(p *passenger[Q, A]) (A, error) {
	answer, err := p.answer, p.err
	*p = passenger[Q, A]{done: p.done}
	b.spare.Put(p)
	return answer, err
}

// alone is for what can't share a call, or did so in vain.
func (b *batcher[Q, A]) alone(ctx context.Context, ask Q) (answer A, err error) {
	answers, err := b.send(ctx, []*Q{&ask})()
	if err == nil {
		answer = answers[0]
	}
	return answer, err
}

// next sees to those that have come meanwhile.
func (b *batcher[Q, A]) next() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) == 0 {
		b.flying--
		return
	}
	go b.run()
}

// run sends until too few wait. Answers are read and handed out beside that, for
// the server would have nothing to do meanwhile.
func (b *batcher[Q, A]) run() {
	for {
		all := b.board()
		if len(all) == 0 {
			return
		}
		asked := make([]*Q, len(all))
		for i, p := range all {
			asked[i] = &p.ask
		}
		ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
		read := b.send(ctx, asked)
		cancel()
		b.mu.Lock()
		b.away = len(all)
		b.mu.Unlock()
		go handOut(all, read)
	}
}

func handOut[Q, A any](all []*passenger[Q, A], read func() ([]A, error)) {
	answers, err := read()
	for i, p := range all {
		if p.err = err; err == nil {
			p.answer = answers[i]
		}
		p.done <- struct{}{}
	}
}

// board is who travels in the next call.
func (b *batcher[Q, A]) board() []*passenger[Q, A] {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, bytes := 0, 0
	if b.flying == 2 && !b.enough() {
		b.flying--
		return nil
	}
	for n < len(b.waiting) && n < b.most && (n == 0 || bytes < batchBytes) {
		b.waiting[n].sent = true
		bytes += b.weight(&b.waiting[n].ask)
		n++
	}
	b.aboard = n
	all := slices.Clone(b.waiting[:n])
	b.waiting = slices.Delete(b.waiting, 0, n)
	if n == 0 {
		b.flying--
	}
	return all
}

// enough says whether those who wait are worth a second call beside the first.
func (b *batcher[Q, A]) enough() bool {
	return len(b.waiting) >= min(max(companions, b.aboard+b.away), b.most)
}

// notSent is why something was not sent, and so has not happened.
type notSent struct{ error }

func (e notSent) Error() string { return "bullmq: not sent: " + e.error.Error() }

func (e notSent) Unwrap() error { return e.error }
