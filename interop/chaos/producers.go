package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/nodeprocess"
)

// plan is a job that is to be added.
type plan struct {
	payload
	options bullmq.JobOptions
}

// draw creates a random job and records it in the ledger. Most jobs are plain; some have a delay, a priority
// or a custom id. Some fail at first, and one in a hundred fails on every attempt.
func draw(l *Ledger, by Library) plan {
	var p plan
	attempts := 1
	switch chance := rand.IntN(100); {
	case chance < 10:
		p.options.Delay = time.Duration(1+rand.IntN(300)) * time.Millisecond
	case chance < 20:
		p.options.Priority = 1 + rand.IntN(20)
	case chance < 24:
		attempts, p.FailUntilAttempt = 3, 2+rand.IntN(2)
		p.options.Backoff = bullmq.FixedBackoff(20 * time.Millisecond)
	case chance < 25:
		attempts, p.FailUntilAttempt = 2, 3
	}
	p.options.Attempts = attempts
	p.Sequence = l.Offer(by, attempts, max(p.FailUntilAttempt-1, 0))
	// In Node all jobs have an id: after an outage ioredis resends calls whose reply was lost.
	if by == Node || p.Sequence%4 == 0 {
		p.options.JobID = fmt.Sprintf("job-%d", p.Sequence)
	}
	return p
}

// adder is a queue that jobs are added to.
type adder interface {
	Add(ctx context.Context, name string, data any, options *bullmq.JobOptions) (*bullmq.Job, error)
	AddBulk(ctx context.Context, jobs []bullmq.BulkJob) ([]*bullmq.Job, error)
}

// Producer adds jobs from Go at a steady rate until it is stopped.
type Producer struct {
	queues []adder // each call is for a random one
	ledger *Ledger
	bulk   int // jobs per call; 0 for single adds
	stop   context.CancelFunc
	calls  context.Context // context of the adds
	kill   context.CancelFunc
	done   sync.WaitGroup
}

// produceInGo adds one job, or several in one call, per interval.
func produceInGo(l *Ledger, queues []adder, every time.Duration, bulk int) *Producer {
	ctx, cancel := context.WithCancel(context.Background())
	p := &Producer{queues: queues, ledger: l, bulk: bulk, stop: cancel}
	p.calls, p.kill = context.WithCancel(context.Background())
	p.done.Go(func() {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				p.add()
			}
		}
	})
	return p
}

// Stop stops the producer after the call in flight.
func (p *Producer) Stop() {
	p.stop()
	p.done.Wait()
}

// Kill stops the producer at once.
func (p *Producer) Kill() {
	p.kill()
	p.Stop()
}

// add makes one call and records its result.
func (p *Producer) add() {
	ctx, cancel := context.WithTimeout(p.calls, time.Minute)
	defer cancel()
	queue := p.queues[rand.IntN(len(p.queues))]
	if p.bulk == 0 {
		job := draw(p.ledger, Go)
		_, err := queue.Add(ctx, "work", job.payload, &job.options)
		p.enter(job, err)
		return
	}
	plans := make([]plan, p.bulk)
	jobs := make([]bullmq.BulkJob, p.bulk)
	for i := range plans {
		plans[i] = draw(p.ledger, Go)
		jobs[i] = bullmq.BulkJob{Name: "work", Data: plans[i].payload, Options: &plans[i].options}
	}
	made, err := queue.AddBulk(ctx, jobs)
	for i, plan := range plans {
		if made != nil && made[i].ID != "" {
			p.enter(plan, nil)
		} else {
			p.enter(plan, err)
		}
	}
}

func (p *Producer) enter(job plan, err error) {
	switch {
	case err == nil:
		p.ledger.Added(job.Sequence)
	case errors.Is(err, bullmq.ErrMaybeAdded):
		p.ledger.Doubtful(job.Sequence)
	default:
		p.ledger.Refused(job.Sequence)
	}
}

// NodeProducer runs producer.mjs and sends it the jobs to add.
type NodeProducer struct {
	process *nodeprocess.Process
	stop    context.CancelFunc
	done    sync.WaitGroup
}

// produceInNode adds a job per interval. While Redis is unavailable, the jobs wait in Node's offline queue,
// as they do by default.
func produceInNode(ctx context.Context, l *Ledger, site Site, queue string, every time.Duration) (*NodeProducer, error) {
	process, err := nodeprocess.Start("producer.mjs", "-redis", site.Address, "-prefix", site.Prefix, "-queue", queue, "-go-on")
	if err != nil {
		return nil, err
	}
	if _, err := process.WaitFor(ctx, func(line nodeprocess.Line) bool {
		var s message
		return line.Decode(&s) == nil && s.Event == "ready"
	}); err != nil {
		process.Kill()
		return nil, err
	}
	running, cancel := context.WithCancel(context.Background())
	p := &NodeProducer{process: process, stop: cancel}
	p.done.Go(func() {
		for line := range process.Lines() {
			var reply struct {
				Event, Message string
				Data           payload
			}
			switch err := line.Decode(&reply); {
			case err != nil:
			case reply.Event == "added":
				l.Added(reply.Data.Sequence)
			case reply.Event == "refused" && certain(reply.Message):
				l.Refused(reply.Data.Sequence)
			case reply.Event == "refused":
				l.Doubtful(reply.Data.Sequence)
			}
		}
	})
	p.done.Go(func() {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-running.Done():
				_ = process.CloseInput()
				return
			case <-ticker.C:
				job := draw(l, Node)
				line := map[string]any{"name": "work", "data": job.payload, "opts": optionsInNode(job.options)}
				if process.Send(line) != nil {
					return
				}
			}
		}
	})
	return p, nil
}

// certain reports whether an error of Redis guarantees that the command had no effect.
func certain(message string) bool {
	for _, code := range []string{"OOM ", "READONLY ", "BUSY ", "LOADING ", "MASTERDOWN ", "CLUSTERDOWN ", "TRYAGAIN ", "MISCONF "} {
		if strings.HasPrefix(message, code) {
			return true
		}
	}
	return false
}

func optionsInNode(o bullmq.JobOptions) map[string]json.RawMessage {
	options := map[string]json.RawMessage{}
	text, err := json.Marshal(o)
	if err == nil {
		err = json.Unmarshal(text, &options)
	}
	if err != nil {
		panic(err) // the fields always encode
	}
	return options
}

// Stop waits until all jobs given to Node are added.
func (p *NodeProducer) Stop(ctx context.Context) error {
	p.stop()
	status, err := p.process.Wait(ctx)
	if err != nil {
		p.process.Kill()
	} else if status != 0 {
		err = fmt.Errorf("producer.mjs exited with status %d: %s", status, p.process.Stderr())
	}
	p.done.Wait()
	return err
}

// Kill ends the program at once.
func (p *NodeProducer) Kill() {
	p.stop()
	p.process.Kill()
	p.done.Wait()
}
