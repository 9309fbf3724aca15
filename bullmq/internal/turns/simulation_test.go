package turns

import (
	"slices"
	"time"
)

// A fleet is a set of queues with jobs, and the slots of a worker that fetches from
// them. Time passes only when a spec says so.
type fleet struct {
	*Turns[int, string]
	slots   int
	now     time.Time
	jobs    map[int]int // waiting jobs, by queue
	paused  map[int]bool
	running []int // queues of the running jobs, the oldest first
	most    map[int]int
	starts  []int // queues of all started jobs, in order
	visits  int   // queues that calls came to
	calls   int
}

func newFleet(slots, burst int) *fleet {
	return &fleet{
		Turns: New[int, string](burst), slots: slots, now: time.UnixMilli(1_700_000_000_000),
		jobs: map[int]int{}, paused: map[int]bool{}, most: map[int]int{},
	}
}

// endless is more jobs than a spec starts.
const endless = 1 << 40

// serve adds a queue with jobs.
func (f *fleet) serve(queue, jobs int, share Share[string]) {
	f.Add(queue, share)
	f.put(queue, jobs)
}

// put adds jobs to a queue, whose marker wakes the worker.
func (f *fleet) put(queue, jobs int) {
	if jobs > 0 {
		f.jobs[queue] += jobs
		f.Ready(queue)
	}
}

// take makes the calls that Take chooses for the free slots.
func (f *fleet) take() []Call[int, string] {
	calls := f.Take(f.slots - len(f.running))
	f.calls += len(calls)
	return calls
}

// run makes the call at the server, and returns what it brought.
func (f *fleet) run(call Call[int, string]) (settle func()) {
	type outcome struct {
		got int
		end End
	}
	outcomes := make([]outcome, len(call.Quotas))
	left := call.Jobs
	for i, quota := range call.Quotas {
		if left == 0 {
			break
		}
		f.visits++
		most := min(quota.Jobs, left)
		got := min(most, f.jobs[quota.Queue])
		end := End{Reason: More}
		switch {
		case f.paused[quota.Queue]:
			got, end = 0, End{Reason: Paused, Until: f.now.Add(time.Minute)}
		case got < most:
			end = End{Reason: Dry}
		}
		outcomes[i] = outcome{got, end}
		f.jobs[quota.Queue] -= got
		left -= got
		for range got {
			f.starts = append(f.starts, quota.Queue)
		}
	}
	return func() {
		for i, quota := range call.Quotas {
			f.Settle(quota, outcomes[i].got, outcomes[i].end)
			for range outcomes[i].got {
				f.begin(quota.Queue)
			}
		}
	}
}

func (f *fleet) begin(queue int) {
	f.running = append(f.running, queue)
	of := 0
	for _, other := range f.running {
		if other == queue {
			of++
		}
	}
	f.most[queue] = max(f.most[queue], of)
}

// finish ends the oldest of the running jobs.
func (f *fleet) finish(n int) {
	n = min(n, len(f.running))
	for _, queue := range f.running[:n] {
		f.Done(queue)
	}
	f.running = slices.Delete(f.running, 0, n)
}

// fill fetches until all slots are taken or no queue is ready.
func (f *fleet) fill() {
	for len(f.running) < f.slots && f.AnyReady() {
		for _, call := range f.take() {
			f.run(call)()
		}
	}
}

// work starts jobs until there were as many starts. Jobs end in groups of a size.
func (f *fleet) work(starts, together int) {
	for len(f.starts) < starts {
		f.fill()
		if len(f.running) == 0 {
			return
		}
		f.finish(together)
	}
}

// count returns how many of the starts were of each queue.
func count(starts []int) map[int]int {
	by := map[int]int{}
	for _, queue := range starts {
		by[queue]++
	}
	return by
}
