package main

// figure is a row of a table: one number per contender and round.
type figure struct {
	title, unit  string
	lessIsBetter bool
	rounds       map[string][]float64 // by contender; missing if it was not measured
}

// of returns the contender's median.
func (f figure) of(name string) (value float64, known bool) {
	rounds := f.rounds[name]
	if len(rounds) == 0 {
		return 0, false
	}
	return quantile(rounds, 0.5), true
}

// better returns the factor by which the contender is better than Node.
func (f figure) better(name string) (float64, bool) {
	ratio, ok := f.ratio(name)
	if ok && f.lessIsBetter {
		ratio = 1 / ratio
	}
	return ratio, ok
}

// ratio returns the contender's number divided by Node's. It is the median of the ratios within each round,
// whose runs are seconds apart: on shared hardware the speed may change between rounds.
func (f figure) ratio(name string) (float64, bool) {
	node, own := f.rounds[nodeName], f.rounds[name]
	var ratios []float64
	for i := range min(len(node), len(own)) {
		if node[i] <= 0 || own[i] <= 0 {
			return 0, false
		}
		ratios = append(ratios, own[i]/node[i])
	}
	if len(ratios) == 0 {
		return 0, false
	}
	return quantile(ratios, 0.5), true
}

// table is a group of figures.
type table struct {
	title   string
	figures []figure
}

// tables returns the results, round by round.
func (h *harness) tables() []table {
	kinds := []struct {
		title, unit  string
		lessIsBetter bool
		of           func(measurement) float64
	}{
		{throughputTitle, "/s", false, func(t measurement) float64 { return t.perSecond }},
		{redisCPUTitle, "µs", true, func(t measurement) float64 { return t.redisCPU }},
		{clientCPUTitle, "µs", true, func(t measurement) float64 { return t.clientCPU }},
		{memoryTitle, "MiB", true, func(t measurement) float64 { return t.peak / mebi }},
	}
	var all []table
	for _, kind := range kinds {
		t := table{title: kind.title}
		for _, s := range throughput {
			f := figure{title: s.title, unit: kind.unit, lessIsBetter: kind.lessIsBetter, rounds: map[string][]float64{}}
			for name, rounds := range h.results[s.name] {
				f.rounds[name] = each(rounds, kind.of)
			}
			t.add(f)
		}
		all = append(all, t)
	}
	latencies := table{title: latencyTitle}
	for _, row := range []struct {
		title, scenario string
		q               float64
		of              func(sample) float64
	}{
		{pickupTitle + ", p50", "pickup", 0.5, wholeOf},
		{pickupTitle + ", p99", "pickup", 0.99, wholeOf},
		{"pickup, from the return of add, p50", "pickup", 0.5, pickupOf},
		{"pickup, from the return of add, p99", "pickup", 0.99, pickupOf},
		{latenessTitle + ", p50", "lateness", 0.5, lateOf},
		{latenessTitle + ", p95", "lateness", 0.95, lateOf},
		{latenessTitle + ", p99", "lateness", 0.99, lateOf},
	} {
		f := figure{title: row.title, unit: "ms", lessIsBetter: true, rounds: map[string][]float64{}}
		for name, rounds := range h.samples[row.scenario] {
			f.rounds[name] = each(rounds, func(samples []sample) float64 { return quantileOf(samples, row.q, row.of) })
		}
		latencies.add(f)
	}
	return append(all, latencies)
}

// baselineRow is a figure of a scenario that includes the baseline.
type baselineRow struct {
	figure
	among float64 // relative cost of the baseline with a million waiting jobs, in CPU or time
}

func (h *harness) baselineRows(among baseline) []baselineRow {
	var rows []baselineRow
	for _, kind := range []struct {
		scenario, title string
		of              func(baseline) cost
	}{
		{"add-100", "add, 100 in flight", addOf},
		{"process-100", "process, concurrency 100", processOf},
		{"process-100", "process, concurrency 100, with three checks", checkedOf},
	} {
		cpu := figure{title: kind.title + ": Redis CPU per job", unit: "µs", lessIsBetter: true,
			rounds: map[string][]float64{baselineName: each(h.baselines, func(f baseline) float64 { return kind.of(f).redisCPU })}}
		rate := figure{title: kind.title + ": jobs per second", unit: "/s",
			rounds: map[string][]float64{baselineName: each(h.baselines, func(f baseline) float64 { return 1e6 / kind.of(f).micros })}}
		for name, rounds := range h.results[kind.scenario] {
			cpu.rounds[name] = each(rounds, func(t measurement) float64 { return t.redisCPU })
			rate.rounds[name] = each(rounds, func(t measurement) float64 { return t.perSecond })
		}
		rows = append(rows, baselineRow{cpu, kind.of(among).redisCPU}, baselineRow{rate, kind.of(among).micros})
	}
	return rows
}

const (
	throughputTitle = "Throughput: jobs or events per second"
	redisCPUTitle   = "Redis CPU per job"
	clientCPUTitle  = "Client CPU per job"
	memoryTitle     = "Peak client memory"
	latencyTitle    = "Latency"

	pickupTitle   = "pickup, from the call to add"
	latenessTitle = "lateness of a delayed job"
)

func (t *table) add(f figure) {
	if len(f.rounds) > 0 {
		t.figures = append(t.figures, f)
	}
}

// find returns a figure of a table. It has no numbers if it was not measured.
func find(tables []table, title, figureTitle string) figure {
	for _, t := range tables {
		for _, f := range t.figures {
			if t.title == title && f.title == figureTitle {
				return f
			}
		}
	}
	return figure{}
}
