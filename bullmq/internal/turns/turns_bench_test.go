package turns

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkTurns measures a call for 100 jobs that comes to 25 queues, with all that
// happens to them: the jobs end, and the queues become ready again.
func BenchmarkTurns(b *testing.B) {
	for _, queues := range []int{100, 1_000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("%d_queues", queues), func(b *testing.B) {
			turns := New[int, string](4)
			for queue := range queues {
				turns.Add(queue, Share[string]{Weight: 1 + queue%7})
				turns.Ready(queue)
			}
			for b.Loop() {
				for _, call := range turns.Take(100) {
					left := call.Jobs
					for _, quota := range call.Quotas {
						got := min(left, quota.Jobs)
						left -= got
						reason := More
						if got == 0 {
							reason = Unvisited
						}
						turns.Settle(quota, got, End{Reason: reason})
						for range got {
							turns.Done(quota.Queue)
						}
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100, "ns/job")
		})
	}
}

// BenchmarkReady measures a wake-up of a queue and the call that finds it empty.
func BenchmarkReady(b *testing.B) {
	for _, queues := range []int{100, 10_000} {
		b.Run(fmt.Sprintf("%d_queues", queues), func(b *testing.B) {
			turns := New[int, string](4)
			for queue := range queues {
				turns.Add(queue, Share[string]{})
			}
			for i := 0; b.Loop(); i++ {
				turns.Ready(i % queues)
				for _, call := range turns.Take(1) {
					for _, quota := range call.Quotas {
						turns.Settle(quota, 0, End{Reason: Dry})
					}
				}
			}
		})
	}
}

// BenchmarkStates measures how long it takes to find the queues to wait for.
func BenchmarkStates(b *testing.B) {
	turns := New[int, string](4)
	for queue := range 10_000 {
		turns.Add(queue, Share[string]{})
		turns.Due(queue, time.UnixMilli(int64(queue)))
	}
	for b.Loop() {
		n := 0
		for _, state := range turns.States() {
			if state.Waits() {
				n++
			}
		}
		if n != 10_000 {
			b.Fatal(n)
		}
	}
}
