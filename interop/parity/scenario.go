package parity

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Scenario is a named sequence of steps.
type Scenario struct {
	File  string // name of its file
	Name  string
	Steps []Step
}

// Step is one request to both drivers, or one of the runner's own operations: a Redis command for both
// servers, or a pause.
type Step struct {
	Op   string
	Args json.RawMessage // the request's arguments as written in the file

	Redis []string      // the command of a $redis step
	Sleep time.Duration // the pause of a $sleep step

	AnyResult bool // do not compare the responses
	NoSnap    bool // do not compare the keyspaces
}

// The operations of the runner itself.
const (
	redisOp = "$redis"
	sleepOp = "$sleep"
)

// String returns the step as written in the file.
func (s Step) String() string { return s.Op + " " + string(s.Args) }

// Load reads every scenario file (*.json) of a folder in the order of the names.
func Load(folder string) ([]Scenario, error) {
	paths, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("no scenario files (*.json) in %s", folder)
	}
	var scenarios []Scenario
	names := map[string]string{}
	for _, path := range paths {
		loaded, err := LoadFile(path)
		if err != nil {
			return nil, err
		}
		for _, scenario := range loaded {
			if other, taken := names[scenario.Name]; taken {
				return nil, fmt.Errorf("scenario %q is in both %s and %s: rename one", scenario.Name, other, scenario.File)
			}
			names[scenario.Name] = scenario.File
		}
		scenarios = append(scenarios, loaded...)
	}
	return scenarios, nil
}

// LoadFile reads the scenarios of one file: a list of {"name":…, "steps":[[op, args, flags]…]}.
func LoadFile(path string) ([]Scenario, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var entries []struct {
		Name  string
		Steps []json.RawMessage
	}
	file := filepath.Base(path)
	if err := decodeStrictly(text, &entries); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var scenarios []Scenario
	for _, entry := range entries {
		scenario := Scenario{File: file, Name: entry.Name}
		for index, raw := range entry.Steps {
			step, err := parseStep(raw)
			if err != nil {
				return nil, fmt.Errorf("%s: %q: step %d: %w", file, entry.Name, index+1, err)
			}
			scenario.Steps = append(scenario.Steps, step)
		}
		if scenario.Name == "" || len(scenario.Steps) == 0 {
			return nil, fmt.Errorf("%s: scenario %q needs a name and steps", file, scenario.Name)
		}
		scenarios = append(scenarios, scenario)
	}
	return scenarios, nil
}

func parseStep(raw json.RawMessage) (Step, error) {
	var parts []json.RawMessage
	if err := json.Unmarshal(raw, &parts); err != nil {
		return Step{}, err
	}
	if len(parts) < 2 || len(parts) > 3 {
		return Step{}, errors.New("a step must be [operation, arguments] or [operation, arguments, flags]")
	}
	step := Step{Args: parts[1]}
	if err := json.Unmarshal(parts[0], &step.Op); err != nil {
		return Step{}, fmt.Errorf("operation: %w", err)
	}
	if len(parts) == 3 {
		var flags struct{ AnyResult, NoSnap bool }
		if err := decodeStrictly(parts[2], &flags); err != nil {
			return Step{}, fmt.Errorf("flags: %w", err)
		}
		step.AnyResult, step.NoSnap = flags.AnyResult, flags.NoSnap
	}
	switch step.Op {
	case redisOp:
		if err := json.Unmarshal(step.Args, &step.Redis); err != nil || len(step.Redis) == 0 {
			return Step{}, errors.New("$redis needs a command as a list of strings")
		}
	case sleepOp:
		var ms float64
		if err := json.Unmarshal(step.Args, &ms); err != nil {
			return Step{}, errors.New("$sleep needs a number of milliseconds")
		}
		step.Sleep = time.Duration(ms * float64(time.Millisecond))
	}
	return step, nil
}

func decodeStrictly(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}
