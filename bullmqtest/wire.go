package bullmqtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// UpdateVariable is the environment variable that makes [RequireWire] write its files:
//
//	BULLMQTEST_UPDATE=1 go test ./...
const UpdateVariable = "BULLMQTEST_UPDATE"

// RequireWire fails the test unless a job is stored as a file describes. The file has the
// job's name, data and options, as JSON with the names that are stored in Redis. Programs in
// other languages can read the same file in their tests. The order of an object's members does
// not count.
//
// job may come from [NewJob], or may have been read from a queue. With BULLMQTEST_UPDATE=1,
// RequireWire writes the file instead.
func RequireWire(t testing.TB, job *bullmq.Job, file string) {
	t.Helper()
	got, err := wireOf(job)
	if err != nil {
		t.Fatalf("bullmqtest: job %s (%s) as JSON: %v", job.ID, job.Name, err)
	}
	if os.Getenv(UpdateVariable) != "" {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatalf("bullmqtest: write %s: %v", file, err)
		}
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatalf("bullmqtest: write %s: %v", file, err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("bullmqtest: there is no file %s: write it by running the test with %s=1; it would have\n%s", file, UpdateVariable, got)
	}
	if err != nil {
		t.Fatalf("bullmqtest: %v", err)
	}
	wanted, err := decode(want)
	if err != nil {
		t.Fatalf("bullmqtest: %s is not JSON: %v", file, err)
	}
	tree, err := decode(got)
	if err != nil {
		t.Fatalf("bullmqtest: job %s (%s) as JSON: %v", job.ID, job.Name, err)
	}
	if lines := differences("job", tree, wanted); len(lines) > 0 {
		t.Fatalf("bullmqtest: the job is not as %s describes it:\n  %s\nIf all programs that use the queue can read it, update the file by %s=1. The job is\n%s",
			file, strings.Join(lines, "\n  "), UpdateVariable, got)
	}
}

// wireOf returns the content of a file that describes a job.
func wireOf(job *bullmq.Job) ([]byte, error) {
	wire := struct {
		Name string          `json:"name"`
		Data json.RawMessage `json:"data"`
		Opts json.RawMessage `json:"opts"`
	}{job.Name, job.Data, job.RawOptions}
	if len(wire.Opts) == 0 {
		wire.Opts = json.RawMessage("{}")
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(wire)
	return text.Bytes(), err
}
