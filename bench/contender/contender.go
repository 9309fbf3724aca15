// Package contender is shared by the Go programs that the benchmark measures. It implements the parts that
// they play and the messages that they exchange with the benchmark. interop/node/bench.mjs is its counterpart
// for Node.
//
// A program is started for one part and exits when its input ends:
//
//	preload    adds jobs and exits
//	add, bulk, process, events
//	           warms up, writes {"ready":true}, waits for a line, does the measured
//	           work and writes {"seconds":…,"cpuSeconds":…}
//	worker, producer
//	           write {"ready":true} and then the messages described in latency.go
package contender

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"
)

// Library is a job queue library with the calls that the benchmark makes. redis is HOST:PORT.
type Library struct {
	Producer func(redis, queue string) (Producer, error)
	// Consumer calls handle once for each job, with the job's id.
	Consumer func(redis, queue string, concurrency int, handle func(id string)) (Consumer, error)
	// Tail is nil if the library has no events.
	Tail func(redis, queue string) (Tail, error)
	// ActiveKey returns the key of the list of active jobs.
	ActiveKey func(queue string) string
}

// Producer adds jobs.
type Producer interface {
	Add(ctx context.Context, delay time.Duration) (id string, due time.Time, err error)
	// AddBulk adds jobs in one call. It returns errors.ErrUnsupported if the library has no bulk add.
	AddBulk(ctx context.Context, jobs int) error
	Close() error
}

// Consumer runs jobs from Start to Stop.
type Consumer interface {
	Start() error
	Stop() error
}

// Tail reads a queue's events from the start of the stream.
type Tail interface {
	Read(ctx context.Context, events int) error
	Close() error
}

// The content of the benchmark's jobs.
const (
	JobName = "greet"
	JobData = `{"to":"ada@example.org","number":4711}`
)

// The measured queue, and the queue for warming up.
const (
	Queue     = "bench"
	WarmQueue = "warm"
)

// Part is the work that a program is started for.
type Part struct {
	Name        string
	Redis       string // HOST:PORT
	Count       int    // jobs or events to measure
	Warm        int    // jobs or events before the measurement
	Concurrency int    // running jobs, or adds in flight; jobs per call in bulk
}

// Arguments returns the part as program arguments.
func (p Part) Arguments() []string {
	return []string{"-part", p.Name, "-redis", p.Redis, "-count", fmt.Sprint(p.Count),
		"-warm", fmt.Sprint(p.Warm), "-concurrency", fmt.Sprint(p.Concurrency)}
}

// Main plays the part named by the arguments. It exits the program with an error if that fails.
func Main(library Library, arguments []string) {
	var p Part
	flags := flag.NewFlagSet("contender", flag.ExitOnError)
	flags.StringVar(&p.Name, "part", "", "part to play")
	flags.StringVar(&p.Redis, "redis", "127.0.0.1:6379", "HOST:PORT")
	flags.IntVar(&p.Count, "count", 0, "jobs or events to measure")
	flags.IntVar(&p.Warm, "warm", 0, "jobs or events before the measurement")
	flags.IntVar(&p.Concurrency, "concurrency", 1, "concurrent jobs or adds")
	_ = flags.Parse(arguments)
	if err := play(library, p); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func play(library Library, p Part) error {
	switch p.Name {
	case "preload":
		return preload(library, p)
	case "add":
		return produce(library, p, AddEach)
	case "bulk":
		return produce(library, p, addBulks)
	case "process":
		return process(library, p)
	case "events":
		return readEvents(library, p)
	case "worker":
		return serveWorker(library, p)
	case "producer":
		return serveProducer(library, p)
	}
	return errors.New("unknown part: " + p.Name)
}
