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

// Endpoint is one of the two parties of a comparison: a driver and its Redis server.
type Endpoint struct {
	// Name identifies the endpoint in reports: "bullmq 6.7.0".
	Name string
	// Redis is the server's HOST:PORT. The Runner empties the server repeatedly. It must be empty at first,
	// and nothing else may use it.
	Redis string
	// Command returns a new command that starts the driver on that server. The Runner calls it for each
	// driver and uses its standard streams.
	Command func() *exec.Cmd
	// Resets reports whether the driver supports the operation reset, which returns it to its initial state.
	// Such a driver is reused for several scenarios. Others are started for each scenario.
	Resets bool
}

// Options configures a [Runner].
type Options struct {
	// StepTimeout is how long a driver may take for one step. The first response of a new driver may take twice
	// as long. Defaults to 40 seconds.
	StepTimeout time.Duration
}

// Runner runs scenarios on two endpoints. It is not safe for concurrent use.
type Runner struct {
	reference, subject *liveEndpoint
	timeout            time.Duration
}

// New connects to both servers. Call [Runner.Close] when done.
func New(reference, subject Endpoint, options *Options) (*Runner, error) {
	timeout := 40 * time.Second
	if options != nil && options.StepTimeout > 0 {
		timeout = options.StepTimeout
	}
	if reference.Redis == subject.Redis {
		return nil, fmt.Errorf("both endpoints use the Redis at %s: give each its own server", reference.Redis)
	}
	first, err := openEndpoint(reference)
	if err != nil {
		return nil, err
	}
	second, err := openEndpoint(subject)
	if err != nil {
		return nil, errors.Join(err, first.close(timeout))
	}
	return &Runner{first, second, timeout}, nil
}

// Close stops both drivers. It returns an error if one exits with a status other than 0.
func (r *Runner) Close() error {
	return errors.Join(r.reference.close(r.timeout), r.subject.close(r.timeout))
}

// Run runs one scenario on both endpoints and stops at the first step with a difference.
func (r *Runner) Run(ctx context.Context, scenario Scenario) (result Result) {
	result = Result{Scenario: scenario, Reference: r.reference.Name, Subject: r.subject.Name}
	started := time.Now()
	defer func() { result.Elapsed = time.Since(started) }()
	if err := r.both(func(s *liveEndpoint) error { return s.begin(ctx, r.timeout) }); err != nil {
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

// both calls act concurrently for both endpoints.
func (r *Runner) both(act func(*liveEndpoint) error) error {
	var group sync.WaitGroup
	var errs [2]error
	for index, s := range []*liveEndpoint{r.reference, r.subject} {
		group.Go(func() {
			if err := act(s); err != nil {
				errs[index] = fmt.Errorf("%s: %w", s.Name, err)
			}
		})
	}
	group.Wait()
	return errors.Join(errs[0], errs[1])
}

// scenarioRun is the execution of one scenario.
type scenarioRun struct {
	*Runner
	started time.Time
	longest time.Duration // duration of the longest step so far
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
	err = r.both(func(s *liveEndpoint) error { return s.runStep(ctx, step, r.timeout) })
	if err != nil {
		return nil, nil, err
	}
	ended := time.Now()
	r.longest = max(r.longest, ended.Sub(began))
	present := Present{
		Run: Window{r.started, ended},
		// Both endpoints start each step together, so their clocks are read at most one step apart.
		Slack: time.Second + r.longest,
	}
	if step.Op != redisOp && !step.AnyResult {
		difference, note := CompareResponses(step.Op, r.reference.response, r.subject.response, present)
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
	if err := r.both(func(s *liveEndpoint) error { return s.snapshot(ctx) }); err != nil {
		return differences, notes, err
	}
	return append(differences, Compare(r.reference.keyspace, r.subject.keyspace, present)...), notes, nil
}

// liveEndpoint is an endpoint with open connections.
type liveEndpoint struct {
	Endpoint
	client   rueidis.Client
	driver   *driver
	expiries expiryTracker
	unseen   Window // the steps since the keyspace was last read

	response Response
	keyspace Keyspace
}

func openEndpoint(endpoint Endpoint) (*liveEndpoint, error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress:       []string{endpoint.Redis},
		DisableCache:      true,
		ForceSingleClient: true,
	})
	if err != nil {
		if client != nil {
			client.Close()
		}
		return nil, fmt.Errorf("%s: connect to Redis at %s: %w", endpoint.Name, endpoint.Redis, err)
	}
	s := &liveEndpoint{Endpoint: endpoint, client: client}
	if err := s.prepare(context.Background()); err != nil {
		client.Close()
		return nil, err
	}
	return s, nil
}

func (s *liveEndpoint) prepare(ctx context.Context) error {
	keys, err := s.client.Do(ctx, s.client.B().Dbsize().Build()).AsInt64()
	if err != nil {
		return fmt.Errorf("%s: Redis at %s: %w", s.Name, s.Redis, err)
	}
	if keys > 0 {
		return fmt.Errorf("%s: the Redis at %s holds %d keys: the comparison would delete them; use an empty server", s.Name, s.Redis, keys)
	}
	// Streams are trimmed by whole blocks. With a limit in bytes, the number of entries in a block depends on
	// the length of their ids, which are times.
	return s.client.Do(ctx, s.client.B().ConfigSet().ParameterValue().
		ParameterValue("stream-node-max-bytes", "0").Build()).Error()
}

// begin empties the server and provides a driver in its initial state.
func (s *liveEndpoint) begin(ctx context.Context, timeout time.Duration) error {
	if s.driver != nil {
		if err := s.renew(timeout); err != nil {
			return err
		}
	}
	if err := s.client.Do(ctx, s.client.B().Flushall().Build()).Error(); err != nil {
		return fmt.Errorf("empty the Redis at %s: %w", s.Redis, err)
	}
	s.expiries, s.unseen, s.response, s.keyspace = expiryTracker{}, Window{}, Response{}, nil
	if s.driver != nil {
		return nil
	}
	started, err := startDriver(s.Command())
	if err != nil {
		return err
	}
	s.driver = started
	// A request without an effect shows that the driver is ready. Loading a library can take longer than
	// any step.
	if _, err := started.do("clock", json.RawMessage("{}"), 2*timeout); err != nil {
		s.discard()
		return err
	}
	return nil
}

// renew resets the driver, or stops it if it cannot be reset.
func (s *liveEndpoint) renew(timeout time.Duration) error {
	if s.Resets {
		response, err := s.driver.do("reset", nil, timeout)
		if err == nil && response.Error != nil {
			err = fmt.Errorf("reset: %v", response.Error)
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

func (s *liveEndpoint) runStep(ctx context.Context, step Step, timeout time.Duration) error {
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
	if s.response, err = s.driver.do(step.Op, step.Args, timeout); err != nil {
		// A driver that failed a step is not reused for the next scenario.
		s.discard()
	}
	return err
}

// snapshot reads the keyspace after the steps so far.
func (s *liveEndpoint) snapshot(ctx context.Context) error {
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

// discard kills a driver that is unusable.
func (s *liveEndpoint) discard() {
	if s.driver != nil {
		s.driver.kill()
		s.driver = nil
	}
}

func (s *liveEndpoint) close(timeout time.Duration) error {
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
