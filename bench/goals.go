package main

import (
	"fmt"
	"strings"
)

// goal is a limit for a figure.
type goal struct {
	title, unit string
	value       float64
	known       bool
	least, most float64 // only one is set; 0 for no limit
}

func (g goal) met() bool {
	if g.least > 0 {
		return g.value >= g.least
	}
	return g.value <= g.most
}

func (g goal) bound() string {
	if g.least > 0 {
		return fmt.Sprintf("≥ %g%s", g.least, g.unit)
	}
	return fmt.Sprintf("≤ %.3g%s", g.most, g.unit)
}

// goals returns the goals of this SDK relative to Node's library.
func (r report) goals() []goal {
	const times = " × Node's"
	relativeToNode := func(what, table, title string, least, most float64) goal {
		value, known := find(r.tables, table, title).ratio(ownName)
		return goal{what, times, value, known, least, most}
	}
	late, known := find(r.tables, latencyTitle, latenessTitle+", p95").of(ownName)
	goals := []goal{
		relativeToNode("addBulk of 1,000, jobs per second", throughputTitle, "addBulk of 1,000", 4, 0),
		relativeToNode("add with 100 in flight, jobs per second", throughputTitle, "add, 100 in flight", 3, 0),
		relativeToNode("process with concurrency 100, jobs per second", throughputTitle, "process, concurrency 100", 3, 0),
		relativeToNode("process with concurrency 1, jobs per second", throughputTitle, "process, concurrency 1", 1.5, 0),
		relativeToNode("Redis CPU, process with concurrency 100", redisCPUTitle, "process, concurrency 100", 0, 1.0/3),
		relativeToNode("peak client memory, concurrency 100", memoryTitle, "process, concurrency 100", 0, 0.5),
		relativeToNode(pickupTitle+", p50", latencyTitle, pickupTitle+", p50", 0, 0.5),
		relativeToNode(pickupTitle+", p99", latencyTitle, pickupTitle+", p99", 0, 0.5),
		{latenessTitle + ", p95", " ms", late, known, 0, 2},
	}
	for _, g := range r.growth {
		switch g.title {
		case waitingTitle:
			const against = " × with 1,000"
			goals = append(goals,
				goal{"process with 1,000,000 waiting, time per job", against, g.process.ratio.micros, true, 0, 1.1},
				goal{"process with 1,000,000 waiting, Redis CPU per job", against, g.process.ratio.redisCPU, true, 0, 1.1},
				goal{"add with 1,000,000 waiting, time per job", against, g.add.ratio.micros, true, 0, 1.1},
				goal{"add with 1,000,000 waiting, Redis CPU per job", against, g.add.ratio.redisCPU, true, 0, 1.1})
		case queuesTitle:
			const against = " × on one queue"
			goals = append(goals,
				goal{"process on 1,000 queues, time per job", against, g.process.ratio.micros, true, 0, 1.5},
				goal{"process on 1,000 queues, Redis CPU per job", against, g.process.ratio.redisCPU, true, 0, 1.7},
				goal{"add to 1,000 queues, time per job", against, g.add.ratio.micros, true, 0, 1.5},
				goal{"add to 1,000 queues, Redis CPU per job", against, g.add.ratio.redisCPU, true, 0, 1.7})
		}
	}
	if n := len(r.shards); n > 1 {
		one, many := r.shards[0], r.shards[n-1]
		const against = " × with one"
		for _, step := range []struct {
			what      string
			cpu, rate float64
		}{
			{"add to", many.add.redisCPU / one.add.redisCPU, many.adds / one.adds},
			{"process on", many.process.redisCPU / one.process.redisCPU, many.runs / one.runs},
		} {
			title := fmt.Sprintf("%s %d shards", step.what, many.shards)
			if many.limited {
				goals = append(goals, goal{title + ", jobs per second of a shard", against, step.rate / float64(many.shards), true, 0.85, 0})
			} else { // more servers than processors also share their caches, so the CPU says less
				goals = append(goals, goal{title + ", Redis CPU per job", against, step.cpu, true, 0, 1.15})
			}
		}
	}
	if r.typed != nil {
		goals = append(goals,
			goal{"process with concurrency 100, mux and three middlewares, jobs per second", " × without", r.typed.ratio("process-100"), true, 0.95, 0},
			goal{"add through a job type and three middlewares, additional client CPU", " µs", r.typed.add, true, 0, 0.3})
	}
	return append(goals, httpGoals(r.http)...)
}

// verdict returns the goals that were measured as a table.
func (r report) verdict() string {
	var t strings.Builder
	for _, g := range r.goals() {
		if !g.known {
			continue
		}
		met := "met"
		if !g.met() {
			met = "not met"
		}
		fmt.Fprintf(&t, "| %s | %s | %.2f%s | %s |\n", g.title, g.bound(), g.value, g.unit, met)
	}
	if t.Len() == 0 {
		return ""
	}
	return "| goal | target | measured | result |\n|---|---|---|---|\n" + t.String()
}
