package bullmqhttp

import (
	"context"
	"sync"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

const (
	countInterval = 250 * time.Millisecond // between two reads of the number of waiting jobs
	ageInterval   = time.Second            // between two reads of the age of the oldest one
	loadTimeout   = 2 * time.Second        // of such a read, if Options.Timeout is not shorter
	longestPause  = 30 * time.Second       // the longest Retry-After
)

// load is what a Server knows of the load of its queue. It reads seldom, however many requests there
// are.
type load struct {
	queue   *bullmq.Queue
	timeout time.Duration // of a read

	mu      sync.Mutex
	count   int // of jobs that have not started, and those that this process has added since
	counted time.Time
	age     time.Duration // of the oldest job that is ready
	aged    time.Time
}

// waiting returns about how many jobs are ready or delayed.
func (l *load) waiting(ctx context.Context) (int, error) {
	l.mu.Lock()
	due := time.Since(l.counted) >= countInterval
	if due {
		l.counted = time.Now() // others use the last number meanwhile
	}
	l.mu.Unlock()
	if due {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.timeout)
		defer cancel()
		counts, err := l.queue.Counts(ctx, bullmq.StateWaiting, bullmq.StatePrioritized, bullmq.StateDelayed)
		if err != nil {
			return 0, err
		}
		count := 0
		for _, n := range counts {
			count += n
		}
		l.mu.Lock()
		l.count = count
		l.mu.Unlock()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count, nil
}

// added counts a job that was added.
func (l *load) added() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count++
}

// pause returns when a client should ask for a job that is ready again: after the age of the oldest
// one, from 1 to 30 seconds.
func (l *load) pause(ctx context.Context) time.Duration {
	l.mu.Lock()
	due := time.Since(l.aged) >= ageInterval
	if due {
		l.aged = time.Now()
	}
	l.mu.Unlock()
	if due {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.timeout)
		defer cancel()
		if ages, err := l.queue.Ages(ctx, bullmq.StateWaiting, bullmq.StatePrioritized); err == nil {
			l.mu.Lock()
			l.age = max(ages[bullmq.StateWaiting], ages[bullmq.StatePrioritized])
			l.mu.Unlock()
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return withinPauses(l.age)
}

func withinPauses(wait time.Duration) time.Duration { return min(max(wait, time.Second), longestPause) }
