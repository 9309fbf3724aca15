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

// memberVariable makes this program run as a Go worker with the flags and output of worker.mjs.
const memberVariable = "CHAOS_MEMBER"

// message is a line of a worker's output, in either language.
type message struct {
	Event           string  `json:"event"`
	ID              string  `json:"id,omitempty"` // of the job
	Sequence        *int    `json:"sequence,omitempty"`
	AttemptsMade    int     `json:"attemptsMade,omitempty"`
	AttemptsStarted int     `json:"attemptsStarted,omitempty"`
	Final           bool    `json:"final,omitempty"`
	Message         string  `json:"message,omitempty"`
	Reachable       bool    `json:"reachable,omitempty"`
	HeapMiB         float64 `json:"heapMiB,omitempty"`
	Goroutines      int     `json:"goroutines,omitempty"`
}

// payload is the data of a job.
type payload struct {
	Sequence         int `json:"sequence"`
	FailUntilAttempt int `json:"failUntilAttempt,omitempty"`
}

// MaybeWork runs the worker and exits if memberVariable is set.
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
	flags.StringVar(&site.Address, "redis", "", "address of Redis")
	flags.StringVar(&site.Prefix, "prefix", "bull", "prefix of all keys")
	queue := flags.String("queue", "", "name of the queue")
	further := flags.String("further", "", "names of further queues, separated by commas, which a MultiWorker serves too")
	capabilities := flags.String("capabilities", "", "if set, the worker serves the routes of the queue that need these, separated by commas")
	shards := flags.Int("shards", 0, "if above 0, the worker is that of a queue with so many shards, on the servers of -redis, separated by commas")
	flags.StringVar(&options.Name, "name", "", "name of the worker")
	flags.IntVar(&options.Concurrency, "concurrency", 1, "number of concurrent jobs")
	ms("lock-duration", &options.LockDuration, "duration of a lock")
	ms("stalled-interval", &options.StalledInterval, "interval of the stalled check")
	flags.IntVar(&options.MaxStalledCount, "max-stalled-count", 1, "how often a job may stall; -1 for never")
	ms("sleep", &sleep, "duration of a job")
	jumps := flags.Bool("jumps", false, "set the clock ahead by the duration on each line of standard input: \"1m\"")
	usage := flags.Bool("usage", false, "report memory and goroutines four times a second")
	flags.Bool("brief", true, "accepted for compatibility; output is always brief")
	if err := flags.Parse(arguments); err != nil {
		return err
	}

	m := &member{}
	options.Logger = bullmq.Zerolog(zerolog.New(os.Stderr).With().Timestamp().Logger().Level(zerolog.WarnLevel))
	options.Events.Completed = func(job *bullmq.Job, _ any) { m.report("completed", job, true) }
	options.Events.Failed = func(job *bullmq.Job, _ error) { m.report("failed", job, !job.FinishedOn.IsZero()) }
	options.Events.Error = func(err error) { m.write(message{Event: "error", Message: err.Error()}) }
	options.OnHealth = func(h bullmq.Health) { m.write(message{Event: "health", Reachable: h.Reachable}) }
	options.Events.LocksLost = func(ids []string) { m.write(message{Event: "locksLost", Message: strings.Join(ids, " ")}) }
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
	handler := func(_ context.Context, job *bullmq.Job) (any, error) {
		m.report("started", job, false)
		time.Sleep(sleep)
		var data payload
		if err := job.Decode(&data); err != nil {
			return nil, bullmq.Unrecoverable(err)
		}
		if job.AttemptsMade+1 < data.FailUntilAttempt {
			return nil, errors.New("this attempt fails as planned in the job's data")
		}
		return data.Sequence, nil
	}
	var worker runner
	if *shards > 0 {
		sharded, err := site.Sharded(context.Background(), *queue, *shards, bullmq.ShardedQueueOptions{})
		if err != nil {
			return err
		}
		defer sharded.Close()
		worker, err = bullmq.NewShardedWorker(context.Background(), sharded.ShardedQueue, handler, &options)
		if err != nil {
			return err
		}
		return m.run(worker, *usage)
	}
	connection, err := site.Connect(context.Background())
	if err != nil {
		return err
	}
	defer connection.Close()
	options.Connection, options.Prefix = connection, site.Prefix
	if *further != "" {
		multi := &bullmq.MultiWorkerOptions{Worker: options, Queues: []bullmq.ServedQueue{{Name: *queue}}}
		for name := range strings.SplitSeq(*further, ",") {
			multi.Queues = append(multi.Queues, bullmq.ServedQueue{Name: name})
		}
		worker, err = bullmq.NewMultiWorker(context.Background(), handler, multi)
	} else if *capabilities != "" {
		options.Registration = &bullmq.RegistrationOptions{
			Interval: 200 * time.Millisecond, Lease: 2 * time.Second, Capabilities: strings.Split(*capabilities, ","),
		}
		worker, err = bullmq.NewRoutedWorker(context.Background(), *queue, handler, &bullmq.RoutedWorkerOptions{Worker: options})
	} else {
		worker, err = bullmq.NewWorker(context.Background(), *queue, handler, &options)
	}
	if err != nil {
		return err
	}
	return m.run(worker, *usage)
}

// member writes the Go worker's output.
type member struct{ mu sync.Mutex }

// runner is a worker of any kind.
type runner interface {
	Run(ctx context.Context) error
}

// run runs a worker until SIGTERM.
func (m *member) run(worker runner, usage bool) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	m.write(message{Event: "ready"})
	if usage {
		go m.reportUsage()
	}
	return worker.Run(ctx)
}

// write writes a line at once, so that it is not lost if the process is killed.
func (m *member) write(line message) {
	text, err := json.Marshal(line)
	if err != nil {
		panic(err) // the fields always encode
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	_, _ = os.Stdout.Write(append(text, '\n'))
}

// reportUsage reports the heap after a garbage collection and the number of goroutines.
func (m *member) reportUsage() {
	for range time.Tick(250 * time.Millisecond) {
		runtime.GC()
		var memory runtime.MemStats
		runtime.ReadMemStats(&memory)
		m.write(message{Event: "usage", HeapMiB: float64(memory.HeapAlloc) / (1 << 20), Goroutines: runtime.NumGoroutine()})
	}
}

func (m *member) report(event string, job *bullmq.Job, final bool) {
	sequence := sequenceOf(string(job.Data))
	m.write(message{Event: event, ID: job.ID, Sequence: &sequence, AttemptsMade: job.AttemptsMade, AttemptsStarted: job.AttemptsStarted, Final: final})
}
