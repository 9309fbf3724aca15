package main

import (
	"fmt"
	"os"
	"os/exec"
	"slices"

	"github.com/17a2ac88/bullmq-go/bench/contender"
)

// taken is what one run of a scenario took.
type taken struct {
	perSecond float64 // jobs or events
	redisCPU  float64 // µs of Redis a job
	clientCPU float64 // µs of the client a job
	peak      float64 // bytes of the client; 0 where unknown
}

// harness runs scenarios on one Redis.
type harness struct {
	redis         *redis
	rivals        []rival
	asynq         string // its program
	nodeDirectory string
	rounds        int

	taken     map[string]map[string][]taken    // by scenario and rival, one a round
	samples   map[string]map[string][][]sample // the same
	baselines []baseline                       // one a round
}

func newHarness(directory string, o options) (*harness, error) {
	h := &harness{rounds: o.rounds, taken: map[string]map[string][]taken{}, samples: map[string]map[string][][]sample{}}
	if err := h.findRivals(directory); err != nil {
		return nil, err
	}
	h.rivals = slices.DeleteFunc(h.rivals, func(r rival) bool { return !o.contenders.wants(r.name) })
	var err error
	h.redis, err = startRedis()
	return h, err
}

// run measures what is wanted.
func (h *harness) run(o options) (report, error) {
	r := report{names: []string{nodeName, ownName, asynqName}}
	for round := range h.rounds {
		for _, s := range throughput {
			if o.only.wants(s.name) {
				if err := h.throughput(round, s); err != nil {
					return r, err
				}
			}
		}
		if o.only.wants("baseline") {
			if err := h.baseline(); err != nil {
				return r, err
			}
		}
		for _, l := range latencies {
			if o.only.wants(l.name) {
				if err := h.latency(round, l); err != nil {
					return r, err
				}
			}
		}
	}
	var err error
	if o.only.wants("growth") {
		if r.growth, err = measureGrowth(fewAndMany, growthSteps); err != nil {
			return r, err
		}
	}
	if o.only.wants("queues") {
		row, err := measureQueues(oneAndThousand, spreadJobs)
		if err != nil {
			return r, err
		}
		r.growth = append(r.growth, row)
	}
	if o.only.wants("baseline") {
		among, err := baselineGrowth(fewAndMany, growthSteps)
		if err != nil {
			return r, err
		}
		r.baseline = h.baselineRows(among)
	}
	r.tables = h.tables()
	r.environment, err = h.environment()
	return r, err
}

// inTurns calls run for each rival in each round, each time beginning with
// another, so that none always comes first.
func (h *harness) inTurns(round int, part string, run func(rival) error) error {
	for i := range h.rivals {
		r := h.rivals[(round+i)%len(h.rivals)]
		if !r.can(part) {
			continue
		}
		if err := run(r); err != nil {
			return fmt.Errorf("%s, part %s: %w", r.name, part, err)
		}
	}
	return nil
}

func (h *harness) throughput(round int, s scenario) error {
	return h.inTurns(round, s.part, func(r rival) error {
		t, err := h.measure(s, r)
		if err != nil {
			return err
		}
		if h.taken[s.name] == nil {
			h.taken[s.name] = map[string][]taken{}
		}
		h.taken[s.name][r.name] = append(h.taken[s.name][r.name], t)
		fmt.Fprintf(os.Stderr, "round %d of %d  %-14s %-10s %10.0f /s  Redis %6.1f µs, client %6.1f µs a job, %4.0f MiB\n",
			round+1, h.rounds, s.name, r.name, t.perSecond, t.redisCPU, t.clientCPU, t.peak/mebi)
		return nil
	})
}

// baseline is measured on an empty Redis, as the scenarios are.
func (h *harness) baseline() error {
	f, err := h.redis.baseline(baselineJobs, h.redis.flush)
	h.baselines = append(h.baselines, f)
	return err
}

// measure runs a scenario once, on an empty Redis and in a process of its own.
func (h *harness) measure(s scenario, r rival) (taken, error) {
	part := contender.Part{Name: s.part, Redis: h.redis.Addr(), Count: s.count, Warm: s.warm, Concurrency: s.concurrency}
	if err := h.redis.flush(); err != nil {
		return taken{}, err
	}
	if err := h.fill(s, r, part); err != nil {
		return taken{}, err
	}
	p, err := r.start(part)
	if err != nil {
		return taken{}, err
	}
	defer p.close()
	before, err := h.redis.cpuSeconds()
	if err != nil {
		return taken{}, err
	}
	if err := p.tell(struct{}{}); err != nil {
		return taken{}, err
	}
	var m contender.Measured
	if err := p.read(&m); err != nil {
		return taken{}, err
	}
	after, err := h.redis.cpuSeconds()
	jobs := float64(s.count)
	return taken{
		perSecond: jobs / m.Seconds,
		redisCPU:  (after - before) / jobs * 1e6,
		clientCPU: m.CPUSeconds / jobs * 1e6,
		peak:      peakBytes(p.child.Pid()),
	}, err
}

// fill puts into Redis what the scenario finds there.
func (h *harness) fill(s scenario, r rival, part contender.Part) error {
	fill := map[preload]func(queue string, count int) error{jobs: h.redis.addJobs, events: h.redis.addEvents}[s.preloaded]
	switch {
	case s.preloaded == nothing:
		return nil
	case !r.isBullMQ:
		part.Name = "preload"
		command := exec.Command(r.command[0], slices.Concat(r.command[1:], part.Arguments())...)
		command.Stderr = os.Stderr
		return command.Run()
	}
	if err := fill(contender.WarmQueue, s.warm); err != nil {
		return err
	}
	return fill(contender.Queue, s.count)
}
