package dashboard

import (
	"sync"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// rates knows how many jobs are added to queues and end, from what earlier reads have found.
// Redis has no such figures. What is older than a minute is forgotten.
type rates struct {
	mu     sync.Mutex
	queues map[string][]sample
	swept  time.Time
}

// sample is what a read has found in a queue.
type sample struct {
	at              time.Time
	added, finished int
}

const (
	sampleEvery = 5 * time.Second
	rateOver    = time.Minute
)

// add remembers what a read has found.
func (r *rates) add(summaries []bullmq.QueueSummary) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.queues == nil {
		r.queues = map[string][]sample{}
	}
	for _, summary := range summaries {
		if summary.Err != nil {
			continue
		}
		samples := r.queues[summary.Name]
		if n := len(samples); n > 0 && now.Sub(samples[n-1].at) < sampleEvery {
			continue
		}
		for len(samples) > 0 && now.Sub(samples[0].at) > rateOver {
			samples = samples[1:]
		}
		r.queues[summary.Name] = append(samples, sample{now, summary.Added, finished(summary)})
	}
	if now.Sub(r.swept) > rateOver {
		r.swept = now
		for name, samples := range r.queues {
			if now.Sub(samples[len(samples)-1].at) > rateOver {
				delete(r.queues, name)
			}
		}
	}
}

// finished returns how many jobs have ended, with an unknown constant: those that workers have
// counted, or else those that were added and are not there any more.
func finished(summary bullmq.QueueSummary) int {
	if counted := summary.Completed.Total + summary.Failed.Total; counted > 0 {
		return counted
	}
	ended := summary.Added
	for state, n := range summary.Counts {
		if state != bullmq.StateCompleted && state != bullmq.StateFailed {
			ended -= n
		}
	}
	return ended
}

// of returns how many jobs were added to a queue and have ended, in a minute; -1 if that is
// unknown.
func (r *rates) of(summary bullmq.QueueSummary) (in, out float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	in, out = -1, -1
	if row := (queueRow{QueueSummary: summary}); len(summary.Completed.Points)+len(summary.Failed.Points) > 0 {
		out = float64(sum(row.Done()[:min(1, len(row.Done()))]) + sum(row.Lost()[:min(1, len(row.Lost()))])) // of the last minute that has ended
	}
	samples := r.queues[summary.Name]
	if len(samples) == 0 || summary.Err != nil {
		return in, out
	}
	passed := time.Since(samples[0].at)
	if passed < sampleEvery {
		return in, out
	}
	each := float64(time.Minute) / float64(passed)
	return max(float64(summary.Added-samples[0].added), 0) * each, max(float64(finished(summary)-samples[0].finished), 0) * each
}
