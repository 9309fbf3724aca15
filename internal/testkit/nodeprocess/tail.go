package nodeprocess

import (
	"bytes"
	"io"
	"strings"
	"sync"
)

// tailBytes is how much of a program's standard error is kept.
const tailBytes = 64 << 10

// tail keeps the last bytes written to it.
type tail struct {
	mu    sync.Mutex
	text  []byte
	lines int // all lines written, kept or not
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	t.lines += bytes.Count(p, []byte("\n"))
	if extra := len(t.text) - tailBytes; extra > 0 {
		t.text = append(t.text[:0], t.text[extra:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}

func (t *tail) lineCount() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lines
}

// lastLines returns the last lines of the text for an error message.
func (t *tail) lastLines(count int) string {
	lines := strings.Split(strings.TrimSpace(t.String()), "\n")
	return strings.Join(lines[max(0, len(lines)-count):], "\n")
}

// keep copies everything into the tail and closes done at the end.
func (t *tail) keep(from io.Reader, done chan<- struct{}) {
	_, _ = io.Copy(t, from)
	close(done)
}
