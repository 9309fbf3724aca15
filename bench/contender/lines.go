package contender

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
)

// lines exchanges JSON values with the benchmark, one per line.
type lines struct {
	in  *bufio.Scanner
	out chan any
}

func openLines() *lines {
	l := &lines{in: bufio.NewScanner(os.Stdin), out: make(chan any, 4096)}
	l.in.Buffer(nil, 1<<20)
	go func() {
		out := json.NewEncoder(os.Stdout)
		for line := range l.out {
			_ = out.Encode(line)
		}
	}()
	return l
}

func (l *lines) send(line any) { l.out <- line }

func (l *lines) ready() { l.send(map[string]bool{"ready": true}) }

// next reads a line. It returns false at the end of the input.
func (l *lines) next(line any) (bool, error) {
	if !l.in.Scan() {
		return false, l.in.Err()
	}
	if err := json.Unmarshal(l.in.Bytes(), line); err != nil {
		return false, fmt.Errorf("decode line %s: %w", l.in.Bytes(), err)
	}
	return true, nil
}
