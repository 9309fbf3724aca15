package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/17a2ac88/bullmq-go/bench/contender"
)

const (
	pickupAdds    = 300
	pickupSpacing = 5 // milliseconds
	delayedJobs   = 150
	warmAdds      = 2_000
)

// latency is a scenario of jobs for an idle worker with concurrency 1. The producer and the worker are
// separate processes.
type latency struct {
	name   string
	delays func() []int // milliseconds, for each job
	every  int          // milliseconds between two adds
	of     func(sample) float64
}

var latencies = []latency{
	{"pickup", func() []int { return make([]int, pickupAdds) }, pickupSpacing, wholeOf},
	{"lateness", func() []int {
		delays := make([]int, delayedJobs)
		for i := range delays {
			delays[i] = 300 + rand.IntN(3000)
		}
		return delays
	}, 0, lateOf},
}

// sample holds the times until a job's handler started, in milliseconds.
type sample struct {
	whole  float64 // since the call of add
	pickup float64 // since the return of add
	late   float64 // since the job was due
}

func (h *harness) latency(round int, l latency) error {
	return h.inTurns(round, l.name, func(r rival) error {
		if err := h.redis.flush(); err != nil {
			return err
		}
		pair, err := startPair(r, h.redis.Addr())
		if err != nil {
			return err
		}
		defer pair.close()
		if _, err := pair.jobs(make([]int, warmAdds), 0); err != nil {
			return err
		}
		time.Sleep(200 * time.Millisecond) // lets the worker become idle
		samples, err := pair.jobs(l.delays(), l.every)
		if err != nil {
			return err
		}
		if h.samples[l.name] == nil {
			h.samples[l.name] = map[string][][]sample{}
		}
		h.samples[l.name][r.name] = append(h.samples[l.name][r.name], samples)
		fmt.Fprintf(os.Stderr, "round %d of %d  %-14s %-10s p50 %.2f ms, p99 %.2f ms\n",
			round+1, h.rounds, l.name, r.name, quantileOf(samples, 0.5, l.of), quantileOf(samples, 0.99, l.of))
		return nil
	})
}

func wholeOf(s sample) float64  { return s.whole }
func pickupOf(s sample) float64 { return s.pickup }
func lateOf(s sample) float64   { return s.late }

// pair is a producer and an idle worker.
type pair struct {
	producer, worker             *program
	producerOffset, workerOffset float64 // how far their clocks are ahead of ours, in milliseconds
}

func startPair(r rival, address string) (*pair, error) {
	p := &pair{}
	var err error
	if p.worker, err = r.start(contender.Part{Name: "worker", Redis: address}); err != nil {
		return nil, err
	}
	if p.producer, err = r.start(contender.Part{Name: "producer", Redis: address}); err == nil {
		if p.workerOffset, err = clockOffset(p.worker); err == nil {
			p.producerOffset, err = clockOffset(p.producer)
		}
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *pair) close() {
	for _, one := range []*program{p.producer, p.worker} {
		if one != nil {
			one.close()
		}
	}
}

// clockOffset reads a program's clock several times and uses the fastest reply. Its error is at most half of
// the round trip.
func clockOffset(p *program) (float64, error) {
	best, offset := -1.0, 0.0
	for n := range 20 {
		asked := contender.Millis(time.Now())
		if err := p.send(contender.Instruction{Clock: &n}); err != nil {
			return 0, err
		}
		var reading contender.Reading
		if err := p.read(&reading); err != nil {
			return 0, err
		}
		replied := contender.Millis(time.Now())
		if trip := replied - asked; best < 0 || trip < best {
			best, offset = trip, reading.At-(asked+replied)/2
		}
	}
	return offset, nil
}

// jobs makes the producer add a job for each delay and the worker run them.
func (p *pair) jobs(delays []int, every int) ([]sample, error) {
	if err := p.producer.send(contender.Instruction{Add: delays, Every: every}); err != nil {
		return nil, err
	}
	at := map[string]float64{}
	for range delays {
		var job contender.Started
		if err := p.worker.read(&job); err != nil {
			return nil, err
		}
		at[job.ID] = job.At - p.workerOffset
	}
	samples := make([]sample, len(delays))
	for i := range samples {
		var job contender.Added
		if err := p.producer.read(&job); err != nil {
			return nil, err
		}
		started := at[job.ID] + p.producerOffset // in the producer's time
		samples[i] = sample{started - job.Begun, started - job.Returned, started - job.Due}
	}
	return samples, nil
}
