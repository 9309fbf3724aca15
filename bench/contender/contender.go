// Package contender is what every Go program that the benchmark measures
// shares: the parts that it can play, and the lines that it speaks with the
// benchmark. interop/node/bench.mjs is the same for Node.
//
// A program is started for one part, and ends when its input does:
//
//	preload    adds jobs, and ends
//	add, bulk, process, events
//	           warms up, says {"ready":true}, waits for a line, does the work that
//	           is measured and says {"seconds":…,"cpuSeconds":…}
//	worker, producer
//	           say {"ready":true} and then speak as latency.go tells
package contender

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"
)

// Library is a job queue library, as the benchmark drives it. redis is
// HOST:PORT.
type Library struct {
	Producer func(redis, queue string) (Producer, error)
	// Consumer calls handle once for each job, with the job's id.
	Consumer func(redis, queue string, concurrency int, handle func(id string)) (Consumer, error)
	// Tail is nil where the library has no events.
	Tail func(redis, queue string) (Tail, error)
	// ActiveKey is the list of the jobs that run.
	ActiveKey func(queue string) string
}

// Producer adds jobs.
type Producer interface {
	Add(ctx context.Context, delay time.Duration) (id string, due time.Time, err error)
	// AddBulk adds so many jobs in one call; errors.ErrUnsupported where there is none.
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

// What a job of the benchmark is.
const (
	JobName = "greet"
	JobData = `{"to":"ada@example.org","number":4711}`
)

// Queues: the one that is measured, and the one on which programs warm up.
const (
	Queue     = "bench"
	WarmQueue = "warm"
)

// Part says what a program is started for.
type Part struct {
	Name        string
	Redis       string // HOST:PORT
	Count       int    // jobs or events to measure
	Warm        int    // the same before it
	Concurrency int    // jobs that run, or adds that are under way, at once; jobs in a bulk
}

// Arguments is the part as arguments of a program.
func (p Part) Arguments() []string {
	return []string{"-part", p.Name, "-redis", p.Redis, "-count", fmt.Sprint(p.Count),
		"-warm", fmt.Sprint(p.Warm), "-concurrency", fmt.Sprint(p.Concurrency)}
}

// Main plays the part that the arguments name, and ends the program when that
// fails.
func Main(library Library, arguments []string) {
	var p Part
	flags := flag.NewFlagSet("contender", flag.ExitOnError)
	flags.StringVar(&p.Name, "part", "", "what to do")
	flags.StringVar(&p.Redis, "redis", "127.0.0.1:6379", "HOST:PORT")
	flags.IntVar(&p.Count, "count", 0, "jobs or events to measure")
	flags.IntVar(&p.Warm, "warm", 0, "the same before it")
	flags.IntVar(&p.Concurrency, "concurrency", 1, "jobs or adds at once")
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
	return errors.New("there is no part named " + p.Name)
}
