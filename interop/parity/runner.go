package parity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// Side is one of the two that are compared: a driver and the Redis server that it works on.
type Side struct {
	// Name is how reports call it: "bullmq 6.7.0".
	Name string
	// Redis is its server's HOST:PORT. The server is emptied again and again, so it must hold nothing
	// when a Runner takes it, and nobody else may use it.
	Redis string
	// Command builds the driver's command, which must be told of that server. It is called for each
	// driver that is started. Its standard streams belong to the Runner.
	Command func() *exec.Cmd
	// Resets says that the driver knows the operation reset, which leaves it as if newly started. Such
	// a driver is kept from one scenario to the next; others are started for each.
	Resets bool
}

// Options changes how a Runner works.
type Options struct {
	// StepTimeout is how long a driver may take for one step; 40 s when zero. A driver that has just
	// been started may take twice as long for its first answer.
	StepTimeout time.Duration
}

// Runner runs scenarios on two sides. It isn't for use by several goroutines at once.
type Runner struct {
	reference, subject *seat
	timeout            time.Duration
}

// New connects to both sides' servers. Close the Runner when done.
func New(reference, subject Side, options *Options) (*Runner, error) {
	timeout := 40 * time.Second
	if options != nil && options.StepTimeout > 0 {
		timeout = options.StepTimeout
	}
	if reference.Redis == subject.Redis {
		return nil, fmt.Errorf("both sides were given the Redis at %s: each needs one of its own", reference.Redis)
	}
	first, err := newSeat(reference)
	if err != nil {
		return nil, err
	}
	second, err := newSeat(subject)
	if err != nil {
		return nil, errors.Join(err, first.close(timeout))
	}
	return &Runner{first, second, timeout}, nil
}

// Close ends both drivers. An error says that one didn't end with status 0.
func (r *Runner) Close() error {
	return errors.Join(r.reference.close(r.timeout), r.subject.close(r.timeout))
}

// Run runs one scenario on both sides and stops at the first step that leaves them different.
func (r *Runner) Run(ctx context.Context, scenario Scenario) (result Result) {
	result = Result{Scenario: scenario, Reference: r.reference.Name, Subject: r.subject.Name}
	started := time.Now()
	defer func() { result.Elapsed = time.Since(started) }()
	if err := r.both(func(s *seat) error { return s.begin(ctx, r.timeout) }); err != nil {
		result.Err = err
		return result
	}
	run := scenarioRun{Runner: r, started: time.Now()}
	for index, step := range scenario.Steps {
		differences, notes, err := run.step(ctx, step)
		for _, note := range notes {
			result.Notes = append(result.Notes, fmt.Sprintf("step %d, %s: %s", index+1, step.Op, note))
		}
		if err != nil || len(differences) > 0 {
			result.Step, result.Differences, result.Err = index+1, differences, err
			break
		}
	}
	return result
}

// both does the same on both sides at once.
func (r *Runner) both(act func(*seat) error) error {
	var group sync.WaitGroup
	var errs [2]error
	for index, s := range []*seat{r.reference, r.subject} {
		group.Go(func() {
			if err := act(s); err != nil {
				errs[index] = fmt.Errorf("%s: %w", s.Name, err)
			}
		})
	}
	group.Wait()
	return errors.Join(errs[0], errs[1])
}

// scenarioRun is one scenario under way.
type scenarioRun struct {
	*Runner
	started time.Time
	longest time.Duration // the longest step so far
}

func (r *scenarioRun) step(ctx context.Context, step Step) (differences []Difference, notes []string, err error) {
	if step.Op == sleepOp {
		select {
		case <-time.After(step.Sleep):
			return nil, nil, nil
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
	began := time.Now()
	err = r.both(func(s *seat) error { return s.carryOut(ctx, step, r.timeout) })
	if err != nil {
		return nil, nil, err
	}
	ended := time.Now()
	r.longest = max(r.longest, ended.Sub(began))
	present := Present{
		Run: Window{r.started, ended},
		// The sides start each step together, so their clocks are read at most one step apart.
		Slack: time.Second + r.longest,
	}
	if step.Op != redisOp && !step.AnyResult {
		difference, note := CompareAnswers(step.Op, r.reference.answer, r.subject.answer, present)
		if difference != nil {
			differences = append(differences, *difference)
		}
		if note != "" {
			notes = append(notes, note)
		}
	}
	if step.NoSnap {
		return differences, notes, nil
	}
	if err := r.both(func(s *seat) error { return s.look(ctx) }); err != nil {
		return differences, notes, err
	}
	return append(differences, Compare(r.reference.keyspace, r.subject.keyspace, present)...), notes, nil
}

// seat is a side at work.
type seat struct {
	Side
	client   rueidis.Client
	driver   *driver
	expiries expiryTracker
	unseen   Window // the steps since the keyspace was last read

	answer   Answer
	keyspace Keyspace
}

func newSeat(side Side) (*seat, error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress:       []string{side.Redis},
		DisableCache:      true,
		ForceSingleClient: true,
	})
	if err != nil {
		if client != nil {
			client.Close()
		}
		return nil, fmt.Errorf("%s: connect to Redis at %s: %w", side.Name, side.Redis, err)
	}
	s := &seat{Side: side, client: client}
	if err := s.prepare(context.Background()); err != nil {
		client.Close()
		return nil, err
	}
	return s, nil
}

func (s *seat) prepare(ctx context.Context) error {
	keys, err := s.client.Do(ctx, s.client.B().Dbsize().Build()).AsInt64()
	if err != nil {
		return fmt.Errorf("%s: Redis at %s: %w", s.Name, s.Redis, err)
	}
	if keys > 0 {
		return fmt.Errorf("%s: the Redis at %s holds %d keys: comparing would delete them, so give it an empty one", s.Name, s.Redis, keys)
	}
	// Streams are trimmed by whole blocks. Blocks that are full at a number of bytes hold more or fewer
	// entries as their ids, which are times, take more or fewer bytes.
	return s.client.Do(ctx, s.client.B().ConfigSet().ParameterValue().
		ParameterValue("stream-node-max-bytes", "0").Build()).Error()
}

// begin gets an empty server and a driver that knows of nothing.
func (s *seat) begin(ctx context.Context, timeout time.Duration) error {
	if s.driver != nil {
		if err := s.renew(timeout); err != nil {
			return err
		}
	}
	if err := s.client.Do(ctx, s.client.B().Flushall().Build()).Error(); err != nil {
		return fmt.Errorf("empty the Redis at %s: %w", s.Redis, err)
	}
	s.expiries, s.unseen, s.answer, s.keyspace = expiryTracker{}, Window{}, Answer{}, nil
	if s.driver != nil {
		return nil
	}
	started, err := startDriver(s.Command())
	if err != nil {
		return err
	}
	s.driver = started
	// An instruction that changes nothing shows that the driver is ready. Loading a library can take
	// longer than any step.
	if _, err := started.do("clock", json.RawMessage("{}"), 2*timeout); err != nil {
		s.discard()
		return err
	}
	return nil
}

// renew resets the driver, or ends it where it can't be reset.
func (s *seat) renew(timeout time.Duration) error {
	if s.Resets {
		answer, err := s.driver.do("reset", nil, timeout)
		if err == nil && answer.Error != nil {
			err = fmt.Errorf("reset: %v", answer.Error)
		}
		if err != nil {
			s.discard()
		}
		return err
	}
	ended := s.driver
	s.driver = nil
	return ended.close(timeout)
}

func (s *seat) carryOut(ctx context.Context, step Step, timeout time.Duration) error {
	began := time.Now()
	if s.unseen.From.IsZero() {
		s.unseen.From = began
	}
	defer func() { s.unseen.To = time.Now() }()
	if step.Op == redisOp {
		command := s.client.B().Arbitrary(step.Redis...).Build()
		if err := s.client.Do(ctx, command).Error(); err != nil && !rueidis.IsRedisNil(err) {
			return fmt.Errorf("%v: %w", step.Redis, err)
		}
		return nil
	}
	var err error
	if s.answer, err = s.driver.do(step.Op, step.Args, timeout); err != nil {
		// A driver that failed a step can't be trusted with the next scenario.
		s.discard()
	}
	return err
}

// look reads the keyspace as the steps so far have left it.
func (s *seat) look(ctx context.Context) error {
	keyspace, ttls, read, err := readKeyspace(ctx, s.client)
	if err != nil {
		return fmt.Errorf("read the Redis at %s: %w", s.Redis, err)
	}
	for key, life := range s.expiries.update(ttls, read, s.unseen) {
		value := keyspace[key]
		value.Life = &life
		keyspace[key] = value
	}
	s.keyspace, s.unseen = keyspace, Window{}
	return nil
}

// discard ends the driver without asking: it is of no use any more.
func (s *seat) discard() {
	if s.driver != nil {
		s.driver.kill()
		s.driver = nil
	}
}

func (s *seat) close(timeout time.Duration) error {
	defer s.client.Close()
	if s.driver == nil {
		return nil
	}
	ended := s.driver
	s.driver = nil
	if err := ended.close(timeout); err != nil {
		return fmt.Errorf("%s: %w", s.Name, err)
	}
	return nil
}
