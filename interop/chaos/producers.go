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

// plan is a job of the mix, before it is added.
type plan struct {
	payload
	options bullmq.JobOptions
}

// draw makes a job of one of the kinds and enters it into the ledger: most are
// plain, some delayed, with a priority or an id of their own; some fail at
// first, and one of a hundred for good.
func draw(l *Ledger, by Side) plan {
	var p plan
	attempts := 1
	switch chance := rand.IntN(100); {
	case chance < 10:
		p.options.Delay = time.Duration(1+rand.IntN(300)) * time.Millisecond
	case chance < 20:
		p.options.Priority = 1 + rand.IntN(20)
	case chance < 24:
		attempts, p.FailUntilAttempt = 3, 2+rand.IntN(2)
		p.options.Backoff = bullmq.Fixed(20 * time.Millisecond)
	case chance < 25:
		attempts, p.FailUntilAttempt = 2, 3
	}
	p.options.Attempts = attempts
	p.Sequence = l.Offer(by, attempts, max(p.FailUntilAttempt-1, 0))
	// In Node all have an id: after an outage ioredis sends again what had no answer.
	if by == Node || p.Sequence%4 == 0 {
		p.options.JobID = fmt.Sprintf("job-%d", p.Sequence)
	}
	return p
}

// Producer adds jobs from Go at a steady pace until it is stopped.
type Producer struct {
	queue  *bullmq.Queue
	ledger *Ledger
	bulk   int // jobs of one call; 0 for single ones
	stop   context.CancelFunc
	calls  context.Context // of the adds
	kill   context.CancelFunc
	done   sync.WaitGroup
}

// produceInGo adds a job, or several in one call, in each interval.
func produceInGo(l *Ledger, queue *bullmq.Queue, every time.Duration, bulk int) *Producer {
	ctx, cancel := context.WithCancel(context.Background())
	p := &Producer{queue: queue, ledger: l, bulk: bulk, stop: cancel}
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

// Stop ends it after the call that is under way.
func (p *Producer) Stop() {
	p.stop()
	p.done.Wait()
}

// Kill ends it at once.
func (p *Producer) Kill() {
	p.kill()
	p.Stop()
}

// add makes one call and enters what it has answered.
func (p *Producer) add() {
	ctx, cancel := context.WithTimeout(p.calls, time.Minute)
	defer cancel()
	if p.bulk == 0 {
		job := draw(p.ledger, Go)
		_, err := p.queue.Add(ctx, "work", job.payload, &job.options)
		p.enter(job, err)
		return
	}
	plans := make([]plan, p.bulk)
	jobs := make([]bullmq.BulkJob, p.bulk)
	for i := range plans {
		plans[i] = draw(p.ledger, Go)
		jobs[i] = bullmq.BulkJob{Name: "work", Data: plans[i].payload, Options: &plans[i].options}
	}
	made, err := p.queue.AddBulk(ctx, jobs)
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

// NodeProducer is producer.mjs, which is told what to add.
type NodeProducer struct {
	process *nodeprocess.Process
	stop    context.CancelFunc
	done    sync.WaitGroup
}

// produceInNode adds a job in each interval; while Redis is away they wait in
// Node, as they do by default.
func produceInNode(ctx context.Context, l *Ledger, site Site, queue string, every time.Duration) (*NodeProducer, error) {
	process, err := nodeprocess.Start("producer.mjs", "-redis", site.Address, "-prefix", site.Prefix, "-queue", queue, "-go-on")
	if err != nil {
		return nil, err
	}
	if _, err := process.WaitFor(ctx, func(line nodeprocess.Line) bool {
		var s said
		return line.Decode(&s) == nil && s.Event == "ready"
	}); err != nil {
		process.Kill()
		return nil, err
	}
	running, cancel := context.WithCancel(context.Background())
	p := &NodeProducer{process: process, stop: cancel}
	p.done.Go(func() {
		for line := range process.Lines() {
			var told struct {
				Event, Message string
				Data           payload
			}
			switch err := line.Decode(&told); {
			case err != nil:
			case told.Event == "added":
				l.Added(told.Data.Sequence)
			case told.Event == "refused" && certain(told.Message):
				l.Refused(told.Data.Sequence)
			case told.Event == "refused":
				l.Doubtful(told.Data.Sequence)
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

// certain reports whether Redis's own words tell that a command did nothing.
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
		panic(err) // numbers and texts
	}
	return options
}

// Stop waits for the jobs that Node has been given to be added.
func (p *NodeProducer) Stop(ctx context.Context) error {
	p.stop()
	status, err := p.process.Wait(ctx)
	if err != nil {
		p.process.Kill()
	} else if status != 0 {
		err = fmt.Errorf("producer.mjs ended with status %d: %s", status, p.process.Stderr())
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
