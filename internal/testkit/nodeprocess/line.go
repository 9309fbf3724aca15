package nodeprocess

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// Line is one line of a program's standard output, without the line end.
type Line []byte

// Decode reads the line as JSON into v.
func (l Line) Decode(v any) error {
	if err := json.Unmarshal(l, v); err != nil {
		return fmt.Errorf("decode line %q: %w", l.short(), err)
	}
	return nil
}

func (l Line) String() string { return string(l) }

func (l Line) short() string {
	if len(l) > 200 {
		return string(l[:200]) + "…"
	}
	return string(l)
}

// readLines sends every non-blank line to lines and closes lines at the end of the output. Once abandoned is
// closed, lines without a receiver are dropped.
func readLines(from io.Reader, lines chan<- Line, abandoned <-chan struct{}) {
	defer close(lines)
	reader := bufio.NewReader(from)
	for {
		line, err := reader.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) > 0 {
			select {
			case lines <- line:
			default:
				select {
				case lines <- line:
				case <-abandoned:
				}
			}
		}
		if err != nil {
			return
		}
	}
}
