package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/17a2ac88/bullmq-go/internal/nodeprocess"
)

const (
	pickupAdds    = 300
	pickupSpacing = 5 // ms
	delayedJobs   = 30
)

// side is one of the two that are compared: a producer and an idle worker of
// one library, each in a process of its own, and what was measured of them.
type side struct {
	name             string
	producer, worker *program

	whole    [][]float64 // ms from the call of add to the start of the handler, by round
	pickup   [][]float64 // ms from the return of add to the start of the handler, by round
	lateness []float64   // ms from the due time to the start of the handler, over all rounds
}

type sides []*side

func startSides(address string) (sides, error) {
	node, err := nodeprocess.Find()
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var pair sides
	for _, s := range []struct {
		name    string
		command func(role string) *exec.Cmd
	}{
		{"bullmq 6.7.0 (Node)", func(role string) *exec.Cmd {
			return exec.Command(node.Node, filepath.Join(node.Directory, "bench.mjs"), "-role", role, "-redis", address, "-queue", "node")
		}},
		{"bullmq-go", func(role string) *exec.Cmd {
			return exec.Command(self, role, "redis://"+address, "go")
		}},
	} {
		one := &side{name: s.name}
		pair = append(pair, one)
		if one.worker, err = start(s.command("worker")); err == nil {
			one.producer, err = start(s.command("producer"))
		}
		if err != nil {
			pair.close()
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return pair, nil
}

func (pair sides) close() {
	for _, s := range pair {
		for _, p := range []*program{s.producer, s.worker} {
			if p != nil {
				p.close()
			}
		}
	}
}

// round measures the side once.
func (s *side) round() error {
	for _, p := range []*program{s.producer, s.worker} {
		if err := p.readClock(); err != nil {
			return err
		}
	}
	time.Sleep(200 * time.Millisecond) // let the worker come to rest
	var whole, pickup []float64
	err := s.jobs(make([]int, pickupAdds), pickupSpacing, func(job added, at float64) {
		whole = append(whole, at-job.Begun)
		pickup = append(pickup, at-job.Returned)
	})
	if err != nil {
		return err
	}
	s.whole, s.pickup = append(s.whole, whole), append(s.pickup, pickup)

	delays := make([]int, delayedJobs)
	for i := range delays {
		delays[i] = 230 + rand.IntN(141)
	}
	return s.jobs(delays, 0, func(job added, at float64) {
		s.lateness = append(s.lateness, at-job.Due)
	})
}

// jobs lets the producer add jobs and hands out each with the time at which
// its handler started, all by our clock.
func (s *side) jobs(delays []int, every int, each func(job added, at float64)) error {
	if err := s.producer.tell(instruction{Add: delays, Every: every}); err != nil {
		return err
	}
	at := map[string]float64{}
	for range delays {
		var job started
		if err := s.worker.read(&job); err != nil {
			return err
		}
		at[job.ID] = job.At - s.worker.offset
	}
	for range delays {
		var job added
		if err := s.producer.read(&job); err != nil {
			return err
		}
		job.Begun -= s.producer.offset
		job.Returned -= s.producer.offset
		job.Due -= s.producer.offset
		each(job, at[job.ID])
	}
	return nil
}
