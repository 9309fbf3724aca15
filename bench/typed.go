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

const typedName = "bullmq-go, typed"

// typedArgument makes this program run as a contender with job types, a mux and middleware.
const typedArgument = "typed"

// greeting is the data of the benchmark's jobs.
type greeting struct {
	To     string `json:"to"`
	Number int    `json:"number"`
}

var (
	ada               = greeting{To: "ada@example.org", Number: 4711} // contender.JobData
	greet             = bullmq.Define[greeting, any](contender.JobName)
	requestID, tenant = middleware.RequestID(), middleware.Tenant()
)

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
				return nil, errors.New("the data has no number")
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
	plain, typed map[string][]measurement // by scenario
}

// typedScenarios are the scenarios that are compared.
var typedScenarios = []string{"add-100", "process-100"}

// measureTyped runs the scenarios without and with the typed layer.
func (h *harness) measureTyped(rounds int) (*typedCost, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	plain := rival{name: ownName, command: []string{self, contenderArgument}, isBullMQ: true}
	with := rival{name: typedName, command: []string{self, typedArgument}, isBullMQ: true}
	c := &typedCost{map[string][]measurement{}, map[string][]measurement{}}
	for round := range rounds {
		for _, s := range throughput {
			if s.name != typedScenarios[0] && s.name != typedScenarios[1] {
				continue
			}
			order := []rival{plain, with}
			if round%2 == 1 {
				order = []rival{with, plain}
			}
			for _, r := range order {
				m, err := h.measure(s, r)
				if err != nil {
					return nil, fmt.Errorf("%s, %s: %w", r.name, s.name, err)
				}
				of := c.plain
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
		nodeName: each(c.plain[scenario], perSecond), ownName: each(c.typed[scenario], perSecond),
	}}
	ratio, _ := f.ratio(ownName)
	return ratio
}

// extra returns the client CPU that the typed layer adds to a job, in microseconds.
func (c *typedCost) extra(scenario string) float64 {
	var differences []float64
	for i, m := range c.typed[scenario] {
		differences = append(differences, m.clientCPU-c.plain[scenario][i].clientCPU)
	}
	return quantile(differences, 0.5)
}

func perSecond(m measurement) float64 { return m.perSecond }

// table compares both.
func (c *typedCost) table() string {
	text := "| | plain | typed | ratio | client CPU per job |\n|---|--:|--:|--:|--:|\n"
	for _, s := range throughput {
		if len(c.plain[s.name]) == 0 {
			continue
		}
		text += fmt.Sprintf("| %s | %s /s | %s /s | %s | %+.2f µs |\n", s.title,
			number(quantile(each(c.plain[s.name], perSecond), 0.5)), number(quantile(each(c.typed[s.name], perSecond), 0.5)),
			ratioText(c.ratio(s.name)), c.extra(s.name))
	}
	return text
}
