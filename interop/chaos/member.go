package chaos

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// memberVariable turns this program into a Go worker that takes the flags of
// worker.mjs and writes its lines.
const memberVariable = "CHAOS_MEMBER"

// said is a line of a worker, in either language.
type said struct {
	Event        string  `json:"event"`
	Sequence     *int    `json:"sequence,omitempty"`
	AttemptsMade int     `json:"attemptsMade,omitempty"`
	Final        bool    `json:"final,omitempty"`
	Message      string  `json:"message,omitempty"`
	Reachable    bool    `json:"reachable,omitempty"`
	HeapMiB      float64 `json:"heapMiB,omitempty"`
	Goroutines   int     `json:"goroutines,omitempty"`
}

// payload is the data of a job.
type payload struct {
	Sequence         int `json:"sequence"`
	FailUntilAttempt int `json:"failUntilAttempt,omitempty"`
}

// MaybeWork works, where this process was started to, and ends it.
func MaybeWork() {
	if os.Getenv(memberVariable) == "" {
		return
	}
	if err := work(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func work(arguments []string) error {
	flags := flag.NewFlagSet("worker", flag.ContinueOnError)
	var site Site
	var options bullmq.WorkerOptions
	ms := func(name string, into *time.Duration, usage string) {
		flags.Func(name, usage+", in ms", func(text string) (err error) {
			*into, err = time.ParseDuration(text + "ms")
			return err
		})
	}
	var sleep time.Duration
	flags.StringVar(&site.Address, "redis", "", "where Redis is")
	flags.StringVar(&site.Prefix, "prefix", "bull", "first part of all keys")
	queue := flags.String("queue", "", "the queue's name")
	flags.StringVar(&options.Name, "name", "", "the worker's name")
	flags.IntVar(&options.Concurrency, "concurrency", 1, "jobs at once")
	ms("lock-duration", &options.LockDuration, "life of a lock")
	ms("stalled-interval", &options.StalledInterval, "time between two checks")
	options.MaxStalledCount = flags.Int("max-stalled-count", 1, "how often a job may stall")
	ms("sleep", &sleep, "length of a job")
	jumps := flags.Bool("jumps", false, "take each line of standard input for how far the clock is ahead: \"1m\"")
	usage := flags.Bool("usage", false, "tell of memory and goroutines, four times a second")
	flags.Bool("brief", true, "lines are always brief here")
	if err := flags.Parse(arguments); err != nil {
		return err
	}

	m := &member{}
	options.Connection, options.Prefix = site.Connection(), site.Prefix
	options.Logger = zerolog.New(os.Stderr).With().Timestamp().Logger().Level(zerolog.WarnLevel)
	options.Events.Completed = func(job *bullmq.Job, _ any) { m.tell("completed", job, true) }
	options.Events.Failed = func(job *bullmq.Job, _ error) { m.tell("failed", job, !job.FinishedOn.IsZero()) }
	options.Events.Error = func(err error) { m.say(said{Event: "error", Message: err.Error()}) }
	options.OnHealth = func(h bullmq.Health) { m.say(said{Event: "health", Reachable: h.Reachable}) }
	options.Events.LocksLost = func(ids []string) { m.say(said{Event: "locksLost", Message: strings.Join(ids, " ")}) }
	var clock Clock
	if *jumps {
		options.Now = clock.Now
		go func() {
			for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
				if ahead, err := time.ParseDuration(strings.Trim(lines.Text(), `"`)); err == nil {
					clock.Jump(ahead)
				}
			}
		}()
	}
	worker, err := bullmq.NewWorker(context.Background(), *queue, func(_ context.Context, job *bullmq.Job) (any, error) {
		m.tell("started", job, false)
		time.Sleep(sleep)
		var data payload
		if err := job.Decode(&data); err != nil {
			return nil, bullmq.Unrecoverable(err)
		}
		if job.AttemptsMade+1 < data.FailUntilAttempt {
			return nil, errors.New("this attempt fails, as the job's data says")
		}
		return data.Sequence, nil
	}, &options)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	m.say(said{Event: "ready"})
	if *usage {
		go m.tellUsage()
	}
	return worker.Run(ctx)
}

// member is the Go worker at its standard output.
type member struct{ mu sync.Mutex }

// say writes a line at once, so that it is there whatever becomes of this process.
func (m *member) say(line said) {
	text, err := json.Marshal(line)
	if err != nil {
		panic(err) // numbers and texts
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	_, _ = os.Stdout.Write(append(text, '\n'))
}

// tellUsage tells what is in use, of the heap after a collection.
func (m *member) tellUsage() {
	for range time.Tick(250 * time.Millisecond) {
		runtime.GC()
		var memory runtime.MemStats
		runtime.ReadMemStats(&memory)
		m.say(said{Event: "usage", HeapMiB: float64(memory.HeapAlloc) / (1 << 20), Goroutines: runtime.NumGoroutine()})
	}
}

func (m *member) tell(event string, job *bullmq.Job, final bool) {
	sequence := sequenceOf(string(job.Data))
	m.say(said{Event: event, Sequence: &sequence, AttemptsMade: job.AttemptsMade, Final: final})
}
