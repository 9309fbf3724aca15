package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/17a2ac88/bullmq-go/bench/contender"
	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmq/middleware"
)

// What job types, a mux and middleware cost. The same scenarios run without and with them, in turns.
// Both encode and decode the same struct.

const typedName = "bullmq-go, typed"

// greeting is the data of the benchmark's jobs.
type greeting struct {
	To     string `json:"to"`
	Number int    `json:"number"`
}

var (
	ada               = greeting{To: "ada@example.org", Number: 4711} // contender.JobData
	greet             = bullmq.Define[greeting, any](contender.JobName)
	requestID, tenant = middleware.RequestID(), middleware.Tenant()
	errNoNumber       = errors.New("the data has no number")
)

// untyped is this SDK without job types, mux and middleware.
var untyped = contender.Library{
	Producer: func(redis, queue string) (contender.Producer, error) {
		q, err := bullmq.NewQueue(context.Background(), queue, &bullmq.QueueOptions{URL: "redis://" + redis})
		return untypedProducer{ownProducer{q}}, err
	},
	Consumer: func(redis, queue string, concurrency int, handle func(string)) (contender.Consumer, error) {
		handler := func(_ context.Context, job *bullmq.Job) (any, error) {
			var data greeting
			if err := job.Decode(&data); err != nil {
				return nil, err
			}
			if data.Number == 0 {
				return nil, errNoNumber
			}
			handle(job.ID)
			return nil, nil
		}
		w, err := bullmq.NewWorker(context.Background(), queue, handler, &bullmq.WorkerOptions{URL: "redis://" + redis, Concurrency: concurrency})
		return &ownConsumer{worker: w}, err
	},
	ActiveKey: own.ActiveKey,
}

type untypedProducer struct{ ownProducer }

func (p untypedProducer) Add(ctx context.Context, _ time.Duration) (string, time.Time, error) {
	job, err := p.queue.Add(ctx, contender.JobName, ada, nil)
	if err != nil {
		return "", time.Time{}, err
	}
	return job.ID, job.Timestamp, nil
}

// typed is this SDK with all that a typical service puts around its handlers and adds.
var typed = contender.Library{
	Producer: func(redis, queue string) (contender.Producer, error) {
		pass := func(next bullmq.AddFunc) bullmq.AddFunc { return next }
		q, err := bullmq.NewQueue(context.Background(), queue, &bullmq.QueueOptions{
			URL: "redis://" + redis, Middleware: []bullmq.AddMiddleware{requestID.Add, tenant.Add, pass},
		})
		return typedProducer{ownProducer{q}}, err
	},
	Consumer: func(redis, queue string, concurrency int, handle func(string)) (contender.Consumer, error) {
		mux := bullmq.NewMux()
		mux.Use(middleware.Timing(func(context.Context, middleware.Run) {}), requestID.Handle, tenant.Handle)
		bullmq.Handle(mux, greet, func(_ context.Context, job *bullmq.Job, data greeting) (any, error) {
			if data.Number == 0 {
				return nil, errNoNumber
			}
			handle(job.ID)
			return nil, nil
		})
		w, err := bullmq.NewWorker(context.Background(), queue, mux.ServeJob, &bullmq.WorkerOptions{URL: "redis://" + redis, Concurrency: concurrency})
		return &ownConsumer{worker: w}, err
	},
	ActiveKey: own.ActiveKey,
}

type typedProducer struct{ ownProducer }

func (p typedProducer) Add(ctx context.Context, delay time.Duration) (string, time.Time, error) {
	job, err := greet.Add(ctx, p.queue, ada, nil)
	if err != nil {
		return "", time.Time{}, err
	}
	return job.ID, job.Timestamp, nil
}

// typedCost is the cost of the typed layer.
type typedCost struct {
	untyped, typed map[string][]measurement // by scenario
	add            float64                  // what the layer alone costs an add, in microseconds
}

// typedScenarios are the scenarios that are compared.
var typedScenarios = []string{"add-100", "process-100"}

// measureTyped runs the scenarios without and with the typed layer.
func (h *harness) measureTyped(rounds int) (*typedCost, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	without := rival{name: ownName, command: []string{self, untypedArgument}, isBullMQ: true}
	with := rival{name: typedName, command: []string{self, typedArgument}, isBullMQ: true}
	layer, err := addLayer(h.redis.Addr())
	if err != nil {
		return nil, err
	}
	c := &typedCost{map[string][]measurement{}, map[string][]measurement{}, layer}
	for round := range rounds {
		for _, s := range throughput {
			if s.name != typedScenarios[0] && s.name != typedScenarios[1] {
				continue
			}
			order := []rival{without, with}
			if round%2 == 1 {
				order = []rival{with, without}
			}
			for _, r := range order {
				m, err := h.measure(s, r)
				if err != nil {
					return nil, fmt.Errorf("%s, %s: %w", r.name, s.name, err)
				}
				of := c.untyped
				if r.name == typedName {
					of = c.typed
				}
				of[s.name] = append(of[s.name], m)
				fmt.Fprintf(os.Stderr, "round %d of %d  %-14s %-16s %10.0f /s  client %6.2f µs a job\n", round+1, rounds, s.name, r.name, m.perSecond, m.clientCPU)
			}
		}
	}
	return c, nil
}

// ratio returns the typed layer's jobs per second divided by those without it.
func (c *typedCost) ratio(scenario string) float64 {
	f := figure{rounds: map[string][]float64{
		nodeName: each(c.untyped[scenario], perSecond), ownName: each(c.typed[scenario], perSecond),
	}}
	ratio, _ := f.ratio(ownName)
	return ratio
}

// extra returns the client CPU that the typed layer adds to a job, in microseconds.
func (c *typedCost) extra(scenario string) float64 {
	var differences []float64
	for i, m := range c.typed[scenario] {
		differences = append(differences, m.clientCPU-c.untyped[scenario][i].clientCPU)
	}
	return quantile(differences, 0.5)
}

// addLayer returns how many microseconds of CPU time an add spends in the job type and three
// middlewares. The last one refuses the add, so that nothing else is measured: between two
// programs that add to Redis, the difference is smaller than its noise.
func addLayer(redis string) (float64, error) {
	refused := errors.New("refused")
	refuse := func(bullmq.AddFunc) bullmq.AddFunc {
		return func(context.Context, []*bullmq.NewJob) error { return refused }
	}
	ctx := context.Background()
	q, err := bullmq.NewQueue(ctx, contender.Queue, &bullmq.QueueOptions{
		URL: "redis://" + redis, Middleware: []bullmq.AddMiddleware{requestID.Add, tenant.Add, refuse},
	})
	if err != nil {
		return 0, err
	}
	defer q.Close() //nolint:errcheck // nothing was added
	const adds = 20_000
	var micros []float64
	for range 50 {
		before := contender.CPUSeconds()
		for range adds {
			if _, err := greet.Add(ctx, q, ada, nil); !errors.Is(err, refused) {
				return 0, fmt.Errorf("add: %w", err)
			}
		}
		micros = append(micros, (contender.CPUSeconds()-before)*1e6/adds)
	}
	return quantile(micros, 0.5), nil
}

func perSecond(m measurement) float64 { return m.perSecond }

// table compares both.
func (c *typedCost) table() string {
	text := "| | without | with | ratio | client CPU per job |\n|---|--:|--:|--:|--:|\n"
	for _, s := range throughput {
		if len(c.untyped[s.name]) == 0 {
			continue
		}
		text += fmt.Sprintf("| %s | %s /s | %s /s | %s | %+.2f µs |\n", s.title,
			number(quantile(each(c.untyped[s.name], perSecond), 0.5)), number(quantile(each(c.typed[s.name], perSecond), 0.5)),
			ratioText(c.ratio(s.name)), c.extra(s.name))
	}
	return text + fmt.Sprintf("\nThe job type and three middlewares alone: %.2f µs per add.\n", c.add)
}
