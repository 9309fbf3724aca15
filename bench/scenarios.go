package main

// scenario is a measurement that all contenders share. A measured section should last about a second for Node
// and at least 0.3 seconds for the fastest contender. The counts are chosen accordingly.
type scenario struct {
	name, title string
	part        string // the part that the program plays
	count       int    // measured jobs or events
	warm        int    // jobs or events before the measurement, on another queue
	concurrency int    // concurrent jobs or adds, or jobs per bulk add
	preloaded   preload
}

// preload is the data in Redis before the program starts.
type preload int

const (
	nothing preload = iota
	jobs
	events
)

var throughput = []scenario{
	{"add-1", "add, one at a time", "add", 8_000, 2_000, 1, nothing},
	{"add-100", "add, 100 in flight", "add", 60_000, 5_000, 100, nothing},
	{"addbulk-1000", "addBulk of 1,000", "bulk", 80_000, 10_000, 1_000, nothing},
	{"process-1", "process, concurrency 1", "process", 6_000, 2_000, 1, jobs},
	{"process-10", "process, concurrency 10", "process", 20_000, 5_000, 10, jobs},
	{"process-100", "process, concurrency 100", "process", 30_000, 5_000, 100, jobs},
	{"process-500", "process, concurrency 500", "process", 30_000, 5_000, 500, jobs},
	{"events", "read events", "events", 200_000, 10_000, 1, events},
}
