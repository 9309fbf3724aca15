package main

// figure is a row of a table: a number of each contender.
type figure struct {
	title, unit  string
	lessIsBetter bool
	of           map[string]float64 // by contender; none where it wasn't measured
}

// better is how many times as good as Node's the contender's number is.
func (f figure) better(name string) (float64, bool) {
	ratio, ok := f.ratio(name)
	if ok && f.lessIsBetter {
		ratio = 1 / ratio
	}
	return ratio, ok
}

// ratio is the contender's number divided by Node's.
func (f figure) ratio(name string) (float64, bool) {
	node, own := f.of[nodeName], f.of[name]
	if node <= 0 || own <= 0 {
		return 0, false
	}
	return own / node, true
}

// table is a group of figures.
type table struct {
	title   string
	figures []figure
}

// tables are the medians over the rounds of what was measured.
func (h *harness) tables() []table {
	kinds := []struct {
		title, unit  string
		lessIsBetter bool
		of           func(taken) float64
	}{
		{throughputTitle, "/s", false, func(t taken) float64 { return t.perSecond }},
		{redisCPUTitle, "µs", true, func(t taken) float64 { return t.redisCPU }},
		{clientCPUTitle, "µs", true, func(t taken) float64 { return t.clientCPU }},
		{memoryTitle, "MiB", true, func(t taken) float64 { return t.peak / mebi }},
	}
	var all []table
	for _, kind := range kinds {
		t := table{title: kind.title}
		for _, s := range throughput {
			f := figure{title: s.title, unit: kind.unit, lessIsBetter: kind.lessIsBetter, of: map[string]float64{}}
			for name, rounds := range h.taken[s.name] {
				f.of[name] = medianOf(rounds, kind.of)
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
		{"pick-up, from the return of add, p50", "pickup", 0.5, pickupOf},
		{"pick-up, from the return of add, p99", "pickup", 0.99, pickupOf},
		{latenessTitle + ", p50", "lateness", 0.5, lateOf},
		{latenessTitle + ", p95", "lateness", 0.95, lateOf},
		{latenessTitle + ", p99", "lateness", 0.99, lateOf},
	} {
		f := figure{title: row.title, unit: "ms", lessIsBetter: true, of: map[string]float64{}}
		for name, rounds := range h.samples[row.scenario] {
			f.of[name] = medianOf(rounds, func(samples []sample) float64 { return quantileOf(samples, row.q, row.of) })
		}
		latencies.add(f)
	}
	return append(all, latencies)
}

const (
	throughputTitle = "Jobs (or events) a second"
	redisCPUTitle   = "CPU of Redis, for each job"
	clientCPUTitle  = "CPU of the client, for each job"
	memoryTitle     = "Peak memory of the client"
	latencyTitle    = "Latency"

	pickupTitle   = "pick-up, from the call of add"
	latenessTitle = "lateness of a delayed job"
)

func (t *table) add(f figure) {
	if len(f.of) > 0 {
		t.figures = append(t.figures, f)
	}
}

// find is the figure of a table; one without numbers where it wasn't measured.
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
