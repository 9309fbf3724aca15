package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/17a2ac88/bullmq-go/internal/testkit/nodeprocess"
)

// Settings are those of all workers of a fleet.
type Settings struct {
	Lock        time.Duration // life of a lock
	Stalled     time.Duration // between two checks for stalled jobs
	Work        time.Duration // length of a job
	Concurrency int
}

func (s Settings) arguments() []string {
	ms := func(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
	return []string{
		"-lock-duration", ms(s.Lock), "-stalled-interval", ms(s.Stalled), "-sleep", ms(s.Work),
		"-concurrency", strconv.Itoa(s.Concurrency),
		"-max-stalled-count", "1000", // the account is of jobs that run, not of those given up
	}
}

// Fleet are the workers of one queue, each a process.
type Fleet struct {
	site     Site
	queue    string
	settings Settings
	ledger   *Ledger

	mu      sync.Mutex
	members []*Member
	ever    []*Member // also those that are gone
	started int
}

// Member is one worker.
type Member struct {
	*nodeprocess.Process
	Name string
	Side Side

	read chan struct{} // closed when all its lines have been entered

	mu        sync.Mutex
	complaint string // the last error that it told
	locksLost []string
	usage     []said
	health    []bool // reachable or not, as it told
}

// Start starts a worker and waits until it is ready.
func (f *Fleet) Start(ctx context.Context, side Side, more ...string) (*Member, error) {
	f.mu.Lock()
	f.started++
	m := &Member{Name: fmt.Sprintf("%v-%d", side, f.started), Side: side, read: make(chan struct{})}
	f.mu.Unlock()
	arguments := append([]string{"-redis", f.site.Address, "-prefix", f.site.Prefix, "-queue", f.queue, "-name", m.Name, "-brief"}, f.settings.arguments()...)
	arguments = append(arguments, more...)
	var err error
	if side == Node {
		m.Process, err = nodeprocess.Start("worker.mjs", arguments...)
	} else {
		command := exec.Command(os.Args[0], arguments...)
		command.Env = append(os.Environ(), memberVariable+"=worker")
		m.Process, err = nodeprocess.Run("Go worker "+m.Name, command)
	}
	if err != nil {
		return nil, err
	}
	_, err = m.WaitFor(ctx, func(line nodeprocess.Line) bool {
		var s said
		return line.Decode(&s) == nil && s.Event == "ready"
	})
	if err != nil {
		m.Kill()
		return nil, err
	}
	go m.listen(f.ledger)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.members, f.ever = append(f.members, m), append(f.ever, m)
	return m, nil
}

// StartAll starts so many on each side, all at once; those in Go with further
// arguments.
func (f *Fleet) StartAll(ctx context.Context, inGo, inNode int, moreInGo ...string) error {
	errs := make(chan error)
	start := func(side Side) {
		var more []string
		if side == Go {
			more = moreInGo
		}
		_, err := f.Start(ctx, side, more...)
		errs <- err
	}
	for range inGo {
		go start(Go)
	}
	for range inNode {
		go start(Node)
	}
	var failed error
	for range inGo + inNode {
		failed = errors.Join(failed, <-errs)
	}
	return failed
}

// listen enters what the worker says.
func (m *Member) listen(l *Ledger) {
	defer close(m.read)
	for line := range m.Lines() {
		var s said
		if line.Decode(&s) != nil {
			s = said{Event: "error", Message: string(line)}
		}
		switch {
		case s.Event == "error":
			m.mu.Lock()
			m.complaint = s.Message
			m.mu.Unlock()
		case s.Event == "locksLost":
			m.mu.Lock()
			m.locksLost = append(m.locksLost, s.Message)
			m.mu.Unlock()
		case s.Event == "usage":
			m.mu.Lock()
			m.usage = append(m.usage, s)
			m.mu.Unlock()
		case s.Event == "health":
			m.mu.Lock()
			m.health = append(m.health, s.Reachable)
			m.mu.Unlock()
		case s.Sequence == nil:
		case s.Event == "started":
			l.Started(*s.Sequence, s.AttemptsMade, m.Side)
		case s.Event == "completed":
			l.Ended(*s.Sequence, false)
		case s.Event == "failed" && s.Final:
			l.Ended(*s.Sequence, true)
		}
	}
}

// Complaint is the last error that the worker told, with its name.
func (m *Member) Complaint() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.Name + ": " + m.complaint
}

// Health is what the worker has told of Redis: reachable or not, in order.
func (m *Member) Health() []bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.health)
}

// Usage is what the worker has told of its memory and goroutines, in order.
func (m *Member) Usage() []said {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.usage)
}

// LocksLost is what the worker has told of locks that it lost, in Go.
func (m *Member) LocksLost() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.locksLost)
}

// Members are those that haven't been removed.
func (f *Fleet) Members(sides ...Side) []*Member { return f.some(&f.members, sides) }

// Ever are all that there have been.
func (f *Fleet) Ever(sides ...Side) []*Member { return f.some(&f.ever, sides) }

func (f *Fleet) some(of *[]*Member, sides []Side) []*Member {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(*of), func(m *Member) bool {
		return len(sides) > 0 && !slices.Contains(sides, m.Side)
	})
}

// Any is one of a side, by chance.
func (f *Fleet) Any(side Side) *Member {
	members := f.Members(side)
	return members[rand.IntN(len(members))]
}

// Remove ends a worker in a way of the caller's and waits until all that it
// had said is entered.
func (f *Fleet) Remove(m *Member, end func(*Member)) {
	f.mu.Lock()
	f.members = slices.DeleteFunc(f.members, func(other *Member) bool { return other == m })
	f.mu.Unlock()
	end(m)
	<-m.read
}

// Stop stops all of some sides, as a service manager would, and says which of
// them did not end well.
func (f *Fleet) Stop(sides ...Side) error {
	var all sync.WaitGroup
	var mu sync.Mutex
	var failed error
	for _, m := range f.Members(sides...) {
		all.Go(func() {
			f.Remove(m, func(m *Member) {
				if status := m.Stop(); status != 0 {
					mu.Lock()
					defer mu.Unlock()
					failed = errors.Join(failed, fmt.Errorf("worker %s ended with status %d: %s", m.Name, status, m.Stderr()))
				}
			})
		})
	}
	all.Wait()
	return failed
}

// Kill ends all at once.
func (f *Fleet) Kill() {
	for _, m := range f.Members() {
		f.Remove(m, func(m *Member) { m.Kill() })
	}
}
