package parity_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/interop/parity"
)

// fakeDriverVariable makes this test binary run as a driver on the given Redis address. fakeEndpointVariable
// selects which of the two drivers it is.
const (
	fakeDriverVariable   = "PARITY_TEST_FAKE_DRIVER"
	fakeEndpointVariable = "PARITY_TEST_FAKE_SIDE"
)

func TestMain(m *testing.M) {
	if address := os.Getenv(fakeDriverVariable); address != "" {
		if err := fakeDriver(address); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(3)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// fakeDriver is a driver with operations for the specs. redis runs a command, say returns its argument,
// refuse returns an error, and age returns the number of requests since the start. The others misbehave.
// Arguments are {"both": …} or {"first": …, "second": …} for the two drivers.
func fakeDriver(address string) error {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{address}, DisableCache: true, ForceSingleClient: true})
	if err != nil {
		return err
	}
	age := 0
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var request struct {
			ID   int
			Op   string
			Args map[string]json.RawMessage
		}
		if err := json.Unmarshal(lines.Bytes(), &request); err != nil {
			return err
		}
		mine, ok := request.Args[os.Getenv(fakeEndpointVariable)]
		if !ok {
			mine = request.Args["both"]
		}
		age++
		response := func(result any) { writeJSON(map[string]any{"id": request.ID, "result": result}) }
		switch request.Op {
		case "clock":
			response(nil)
		case "redis":
			var command []string
			if err := json.Unmarshal(mine, &command); err != nil {
				return err
			}
			if err := client.Do(context.Background(), client.B().Arbitrary(command...).Build()).Error(); err != nil {
				return err
			}
			response(nil)
		case "say":
			response(mine)
		case "refuse":
			writeJSON(map[string]any{"id": request.ID, "error": mine})
		case "age":
			response(age)
		case "reset":
			age = 0
			response(nil)
		case "hang":
			select {}
		case "die":
			return fmt.Errorf("the fake driver exits as requested")
		case "babble":
			fmt.Println("not JSON")
		case "confuse":
			writeJSON(map[string]any{"id": request.ID + 1, "result": nil})
		case "close":
			response(nil)
			return nil
		}
	}
	return lines.Err()
}

func writeJSON(value any) {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(text))
}

// fakeEndpoint starts a Redis server and returns an endpoint with the fake driver on it.
func fakeEndpoint(name string) parity.Endpoint {
	GinkgoHelper()
	program, err := os.Executable()
	Expect(err).NotTo(HaveOccurred())
	address := startRedis()
	return parity.Endpoint{
		Name:  name,
		Redis: address,
		Command: func() *exec.Cmd {
			cmd := exec.Command(program)
			// A program with the race detector sleeps for a second before it exits.
			cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0",
				fakeDriverVariable+"="+address, fakeEndpointVariable+"="+name)
			return cmd
		},
	}
}

// scenarioOf returns a scenario with the given steps in the format of scenario files.
func scenarioOf(steps ...string) parity.Scenario {
	GinkgoHelper()
	text := `[{"name":"made up","steps":[`
	for index, step := range steps {
		if index > 0 {
			text += ","
		}
		text += step
	}
	scenarios, err := parity.Load(writeScenarios("made-up.json", text+`]}]`))
	Expect(err).NotTo(HaveOccurred())
	return scenarios[0]
}
