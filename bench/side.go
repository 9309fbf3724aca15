package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/17a2ac88/bullmq-go/internal/nodeprocess"
)

// side is one of the two that are compared: an idle worker in a process of its
// own, and what was measured of it.
type side struct {
	name, queue string
	cmd         *exec.Cmd
	stdin       io.WriteCloser
	lines       chan []byte
	offset      float64 // what its clock is ahead of ours, in ms

	pickups  [][]float64 // ms from add to handler, by round
	lateness []float64   // ms from the due time to the handler, over all rounds
}

type sides []*side

func startSides(address string) (sides, error) {
	node, err := nodeprocess.Find()
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	pair := sides{
		{name: "bullmq 6.7.0 (Node)", queue: "node", cmd: exec.Command(node.Node,
			filepath.Join(node.Directory, "bench-worker.mjs"), "-redis", address, "-queue", "node")},
		{name: "bullmq-go", queue: "go", cmd: exec.Command(self, "worker", "redis://"+address, "go")},
	}
	for _, s := range pair {
		if err := s.start(); err != nil {
			pair.close()
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return pair, nil
}

func (s *side) start() error {
	var err error
	if s.stdin, err = s.cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	s.cmd.Stderr = os.Stderr
	if err := s.cmd.Start(); err != nil {
		return err
	}
	s.lines = make(chan []byte, 4096)
	go func() {
		defer close(s.lines)
		scanner := bufio.NewScanner(out)
		for scanner.Scan() {
			s.lines <- append([]byte{}, scanner.Bytes()...)
		}
	}()
	if _, err := s.line(); err != nil { // ready
		return err
	}
	return s.readClock()
}

func (s *side) line() ([]byte, error) {
	select {
	case line, ok := <-s.lines:
		if !ok {
			return nil, fmt.Errorf("the worker has ended")
		}
		return line, nil
	case <-time.After(10 * time.Second):
		return nil, fmt.Errorf("the worker has said nothing for 10 s")
	}
}

// readClock asks for the worker's clock some times and believes the quickest
// answer: it is at most half of its round trip off.
func (s *side) readClock() error {
	best := -1.0
	for n := range 20 {
		asked := nowMs()
		if _, err := fmt.Fprintf(s.stdin, "{\"clock\":%d}\n", n); err != nil {
			return err
		}
		line, err := s.line()
		if err != nil {
			return err
		}
		answered := nowMs()
		var reading clockReading
		if err := json.Unmarshal(line, &reading); err != nil {
			return err
		}
		if trip := answered - asked; best < 0 || trip < best {
			best, s.offset = trip, reading.At-(asked+answered)/2
		}
	}
	return nil
}

func (s *side) started() (started, error) {
	line, err := s.line()
	if err != nil {
		return started{}, err
	}
	var job started
	err = json.Unmarshal(line, &job)
	job.At -= s.offset
	return job, err
}

func (pair sides) close() {
	for _, s := range pair {
		if s.cmd.Process == nil {
			continue
		}
		_ = s.stdin.Close()
		done := make(chan struct{})
		go func() { _ = s.cmd.Wait(); close(done) }()
		select {
		case <-done:
		case <-time.After(5 * time.Second):
			_ = s.cmd.Process.Kill()
		}
	}
}
