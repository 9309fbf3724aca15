package main

import (
	"fmt"
	"os"
	"os/exec"
	"slices"

	"github.com/17a2ac88/bullmq-go/bench/contender"
)

// measurement is the result of one run of a scenario.
type measurement struct {
	perSecond float64 // jobs or events
	redisCPU  float64 // Redis CPU per job in microseconds
	clientCPU float64 // client CPU per job in microseconds
	peak      float64 // bytes of the client; 0 if unknown
}

// harness runs scenarios on one Redis.
type harness struct {
	redis         *redis
	rivals        []rival
	asynq         string // path of its program
	nodeDirectory string
	rounds        int

	results   map[string]map[string][]measurement // by scenario and rival, one per round
	samples   map[string]map[string][][]sample    // by scenario and rival, one per round
	baselines []baseline                          // one per round
}

func newHarness(directory string, o options) (*harness, error) {
	h := &harness{rounds: o.rounds, results: map[string]map[string][]measurement{}, samples: map[string]map[string][][]sample{}}
	if err := h.findRivals(directory); err != nil {
		return nil, err
	}
	h.rivals = slices.DeleteFunc(h.rivals, func(r rival) bool { return !o.contenders.wants(r.name) })
	var err error
	h.redis, err = startRedis()
	return h, err
}

// run measures what the options select.
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
		var rows, baselines []grown
		for range h.rounds { // each on new servers, whose memory is laid out differently
			row, baseline, err := measureQueues(oneAndThousand, spreadJobs, spreadSteps)
			if err != nil {
				return r, err
			}
			rows, baselines = append(rows, row), append(baselines, baseline)
		}
		r.growth = append(r.growth, medianRow(rows), medianRow(baselines))
	}
	if o.only.wants("shards") {
		if r.shards, err = measureShards(shardCounts, shardJobs, limitedShardJobs, h.rounds); err != nil {
			return r, err
		}
	}
	if o.only.wants("typed") {
		if r.typed, err = h.measureTyped(h.rounds); err != nil {
			return r, err
		}
	}
	if o.only.wants("baseline") {
		among, err := baselineGrowth(fewAndMany, growthSteps)
		if err != nil {
			return r, err
		}
		r.baseline = h.baselineRows(among)
	}
	if o.only.wants("http") { // last, so that it leaves nothing behind for the others
		if r.http, err = measureHTTP(h.rounds, httpLoad); err != nil {
			return r, err
		}
	}
	r.tables = h.tables()
	r.environment, err = h.environment()
	return r, err
}

// inTurns calls run for each rival. Each round starts with a different rival, so that none is always first.
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
		if h.results[s.name] == nil {
			h.results[s.name] = map[string][]measurement{}
		}
		h.results[s.name][r.name] = append(h.results[s.name][r.name], t)
		fmt.Fprintf(os.Stderr, "round %d of %d  %-14s %-10s %10.0f /s  Redis %6.1f µs, client %6.1f µs a job, %4.0f MiB\n",
			round+1, h.rounds, s.name, r.name, t.perSecond, t.redisCPU, t.clientCPU, t.peak/mebi)
		return nil
	})
}

// baseline measures the baseline on an empty Redis, like the scenarios.
func (h *harness) baseline() error {
	f, err := h.redis.baseline(baselineJobs, h.redis.flush)
	h.baselines = append(h.baselines, f)
	return err
}

// measure runs a scenario once, on an empty Redis and in a new process.
func (h *harness) measure(s scenario, r rival) (measurement, error) {
	part := contender.Part{Name: s.part, Redis: h.redis.Addr(), Count: s.count, Warm: s.warm, Concurrency: s.concurrency}
	if err := h.redis.flush(); err != nil {
		return measurement{}, err
	}
	if err := h.fill(s, r, part); err != nil {
		return measurement{}, err
	}
	p, err := r.start(part)
	if err != nil {
		return measurement{}, err
	}
	defer p.close()
	before, err := h.redis.cpuSeconds()
	if err != nil {
		return measurement{}, err
	}
	if err := p.send(struct{}{}); err != nil {
		return measurement{}, err
	}
	var m contender.Measured
	if err := p.read(&m); err != nil {
		return measurement{}, err
	}
	after, err := h.redis.cpuSeconds()
	jobs := float64(s.count)
	return measurement{
		perSecond: jobs / m.Seconds,
		redisCPU:  (after - before) / jobs * 1e6,
		clientCPU: m.CPUSeconds / jobs * 1e6,
		peak:      peakBytes(p.child.Pid()),
	}, err
}

// fill adds the data that the scenario starts with.
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
