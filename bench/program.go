package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// program is a process that speaks lines of JSON, with a clock of its own.
type program struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	lines  chan []byte
	offset float64 // what its clock is ahead of ours, in ms
}

func start(cmd *exec.Cmd) (*program, error) {
	p := &program{cmd: cmd, lines: make(chan []byte, 4096)}
	var err error
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.lines)
		scanner := bufio.NewScanner(out)
		for scanner.Scan() {
			p.lines <- append([]byte{}, scanner.Bytes()...)
		}
	}()
	if err := p.read(&struct{}{}); err != nil { // ready
		p.close()
		return nil, err
	}
	return p, nil
}

// tell sends an instruction.
func (p *program) tell(in instruction) error {
	text, err := json.Marshal(in)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.stdin, "%s\n", text)
	return err
}

// read takes the next line.
func (p *program) read(line any) error {
	select {
	case text, ok := <-p.lines:
		if !ok {
			return fmt.Errorf("%s has ended", p.cmd)
		}
		return json.Unmarshal(text, line)
	case <-time.After(20 * time.Second):
		return fmt.Errorf("%s has said nothing for 20 s", p.cmd)
	}
}

// readClock asks for the program's clock some times and believes the quickest
// answer: it is at most half of its round trip off.
func (p *program) readClock() error {
	best := -1.0
	for n := range 20 {
		asked := nowMs()
		if err := p.tell(instruction{Clock: &n}); err != nil {
			return err
		}
		var reading clockReading
		if err := p.read(&reading); err != nil {
			return err
		}
		answered := nowMs()
		if trip := answered - asked; best < 0 || trip < best {
			best, p.offset = trip, reading.At-(asked+answered)/2
		}
	}
	return nil
}

func (p *program) close() {
	_ = p.stdin.Close()
	kill := time.AfterFunc(5*time.Second, func() { _ = p.cmd.Process.Kill() })
	defer kill.Stop()
	_ = p.cmd.Wait()
}
