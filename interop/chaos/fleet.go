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

// Settings configures all workers of a fleet.
type Settings struct {
	Lock        time.Duration // duration of a lock
	Stalled     time.Duration // interval of the stalled check
	Work        time.Duration // duration of a job
	Concurrency int
}

func (s Settings) arguments() []string {
	ms := func(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
	return []string{
		"-lock-duration", ms(s.Lock), "-stalled-interval", ms(s.Stalled), "-sleep", ms(s.Work),
		"-concurrency", strconv.Itoa(s.Concurrency),
		"-max-stalled-count", "1000", // jobs must not fail because they stalled
	}
}

// Fleet holds the workers of one queue, each in its own process. Flags may let Go workers serve further queues.
type Fleet struct {
	site     Site
	queue    string
	goFlags  []string // additional arguments of Go workers
	settings Settings
	ledger   *Ledger
	heard    func(*Member, message) // receives all output in place of the ledger, if set

	mu      sync.Mutex
	members []*Member
	ever    []*Member // including those that were removed
	started int
}

// Member is one worker.
type Member struct {
	*nodeprocess.Process
	Name    string
	Library Library

	read chan struct{} // closed when all its output has been recorded

	mu        sync.Mutex
	lastError string // the last error that it reported
	locksLost []string
	usage     []message
	health    []bool // the reachability that it reported
}

// Start starts a worker and waits until it is ready.
func (f *Fleet) Start(ctx context.Context, library Library, more ...string) (*Member, error) {
	f.mu.Lock()
	f.started++
	m := &Member{Name: fmt.Sprintf("%v-%d", library, f.started), Library: library, read: make(chan struct{})}
	f.mu.Unlock()
	arguments := append([]string{"-redis", f.site.Address, "-prefix", f.site.Prefix, "-queue", f.queue, "-name", m.Name, "-brief"}, f.settings.arguments()...)
	if library == Go {
		arguments = append(arguments, f.goFlags...)
	}
	arguments = append(arguments, more...)
	var err error
	if library == Node {
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
		var s message
		return line.Decode(&s) == nil && s.Event == "ready"
	})
	if err != nil {
		m.Kill()
		return nil, err
	}
	go m.listen(f)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.members, f.ever = append(f.members, m), append(f.ever, m)
	return m, nil
}

// StartAll starts the given number of Go and Node workers at once. moreInGo are additional arguments of the
// Go workers.
func (f *Fleet) StartAll(ctx context.Context, inGo, inNode int, moreInGo ...string) error {
	errs := make(chan error)
	start := func(library Library) {
		var more []string
		if library == Go {
			more = moreInGo
		}
		_, err := f.Start(ctx, library, more...)
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

// listen records the worker's output in the ledger, or passes it to heard.
func (m *Member) listen(f *Fleet) {
	defer close(m.read)
	l := f.ledger
	for line := range m.Lines() {
		var s message
		if line.Decode(&s) != nil {
			s = message{Event: "error", Message: string(line)}
		}
		switch {
		case f.heard != nil:
			f.heard(m, s)
		case s.Event == "error":
			m.mu.Lock()
			m.lastError = s.Message
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
			l.Started(*s.Sequence, s.AttemptsMade, s.AttemptsStarted, m.Library)
		case s.Event == "completed":
			l.Ended(*s.Sequence, false)
		case s.Event == "failed" && s.Final:
			l.Ended(*s.Sequence, true)
		}
	}
}

// LastError returns the last error that the worker reported, with its name.
func (m *Member) LastError() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.Name + ": " + m.lastError
}

// Health returns the reachability of Redis as the worker reported it, in order.
func (m *Member) Health() []bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.health)
}

// usageReports returns the memory and goroutines that the worker reported, in order.
func (m *Member) usageReports() []message {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.usage)
}

// LocksLost returns the locks that a Go worker reported as lost.
func (m *Member) LocksLost() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.locksLost)
}

// Members returns the workers that have not been removed.
func (f *Fleet) Members(libraries ...Library) []*Member { return f.some(&f.members, libraries) }

// Ever returns all workers, including removed ones.
func (f *Fleet) Ever(libraries ...Library) []*Member { return f.some(&f.ever, libraries) }

func (f *Fleet) some(of *[]*Member, libraries []Library) []*Member {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(*of), func(m *Member) bool {
		return len(libraries) > 0 && !slices.Contains(libraries, m.Library)
	})
}

// Any returns a random worker of a library.
func (f *Fleet) Any(library Library) *Member {
	members := f.Members(library)
	return members[rand.IntN(len(members))]
}

// Remove ends a worker by calling end and waits until all its output is recorded.
func (f *Fleet) Remove(m *Member, end func(*Member)) {
	f.mu.Lock()
	f.members = slices.DeleteFunc(f.members, func(other *Member) bool { return other == m })
	f.mu.Unlock()
	end(m)
	<-m.read
}

// Stop sends SIGTERM to all workers of the given libraries and returns an error for each that did not exit
// cleanly.
func (f *Fleet) Stop(libraries ...Library) error {
	var all sync.WaitGroup
	var mu sync.Mutex
	var failed error
	for _, m := range f.Members(libraries...) {
		all.Go(func() {
			f.Remove(m, func(m *Member) {
				if status := m.Stop(); status != 0 {
					mu.Lock()
					defer mu.Unlock()
					failed = errors.Join(failed, fmt.Errorf("worker %s exited with status %d: %s", m.Name, status, m.Stderr()))
				}
			})
		})
	}
	all.Wait()
	return failed
}

// Kill kills all workers at once.
func (f *Fleet) Kill() {
	for _, m := range f.Members() {
		f.Remove(m, func(m *Member) { m.Kill() })
	}
}
