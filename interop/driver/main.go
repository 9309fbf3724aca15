// driver is the Go driver of the parity protocol. It executes requests with the SDK's public API and
// reads and writes one JSON object per line. Its responses and keyspace are compared with those of the Node
// driver.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

type request struct {
	ID   int             `json:"id"`
	Op   string          `json:"op"`
	Args json.RawMessage `json:"args"`
}

type response struct {
	ID     int      `json:"id"`
	Result any      `json:"result,omitempty"`
	Error  *refusal `json:"error,omitempty"`
}

type refusal struct {
	Message string `json:"message"`
	Code    *int   `json:"code,omitempty"`
}

// dialect is the dialect of the queues. batchSize is the maximum number of jobs per call.
var (
	dialect   = bullmq.V6
	batchSize int
)

func main() {
	redis := flag.String("redis", "127.0.0.1:6379", "host:port of Redis")
	prefix := flag.String("prefix", bullmq.DefaultPrefix, "prefix of all keys")
	version := flag.String("bullmq", "6", "dialect of the queues: 6 or 5")
	flag.IntVar(&batchSize, "batch", 0, "BatchSize of queues and workers; 0 for the default")
	flag.Parse()
	selected, known := map[string]bullmq.Dialect{"6": bullmq.V6, "5": bullmq.V5}[*version]
	if !known {
		fmt.Fprintf(os.Stderr, "-bullmq must be 6 or 5, not %q\n", *version)
		os.Exit(2)
	}
	dialect = selected
	if err := serve(newSession(*redis, *prefix)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

// serve executes one request per line. An invalid request ends the driver, because an error as a response could
// be mistaken for agreement.
func serve(s *session) error {
	defer s.close()
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	for lines.Scan() {
		var in request
		if err := json.Unmarshal(lines.Bytes(), &in); err != nil {
			return fmt.Errorf("parse request %s: %w", lines.Bytes(), err)
		}
		reply := response{ID: in.ID, Result: json.RawMessage("null")}
		switch in.Op {
		case "close":
			return out.Encode(reply)
		case "reset":
			s.reset()
		default:
			operation, ok := operations[in.Op]
			if !ok {
				return fmt.Errorf("unknown operation %s", in.Op)
			}
			result, err := operation(context.Background(), s, in.Args)
			var misread *scenarioError
			if errors.As(err, &misread) {
				return fmt.Errorf("%s: %w", in.Op, err)
			}
			if err != nil {
				reply.Result, reply.Error = nil, refusalOf(err)
			} else if result != nil {
				reply.Result = result
			}
		}
		if err := out.Encode(reply); err != nil {
			return err
		}
	}
	return lines.Err()
}

func refusalOf(err error) *refusal {
	r := &refusal{Message: err.Error()}
	var coded *bullmq.Error
	if errors.As(err, &coded) {
		code := int(coded.Code)
		r.Code = &code
	}
	return r
}

// scenarioError is a mistake in a scenario, as opposed to an error of the library.
type scenarioError struct{ text string }

func (e *scenarioError) Error() string { return e.text }

func misread(format string, args ...any) error {
	return &scenarioError{fmt.Sprintf(format, args...)}
}

// read decodes arguments and rejects unknown ones.
func read(raw json.RawMessage, target any) error {
	if len(raw) == 0 {
		raw = json.RawMessage("{}")
	}
	if err := decodeStrictly(raw, target); err != nil {
		return misread("%v in %s", err, raw)
	}
	return nil
}
