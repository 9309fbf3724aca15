package contender

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
)

// lines are JSON values, one a line: in from the benchmark, out to it.
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

func (l *lines) say(line any) { l.out <- line }

func (l *lines) ready() { l.say(map[string]bool{"ready": true}) }

// next takes a line; false at the end of the input.
func (l *lines) next(line any) (bool, error) {
	if !l.in.Scan() {
		return false, l.in.Err()
	}
	if err := json.Unmarshal(l.in.Bytes(), line); err != nil {
		return false, fmt.Errorf("a line that can't be read: %s: %w", l.in.Bytes(), err)
	}
	return true, nil
}
