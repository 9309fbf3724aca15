package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/17a2ac88/bullmq-go/internal/testkit/nodeprocess/childprocess"
)

// outputTimeout limits the time until a program's next output.
const outputTimeout = 60 * time.Second

// program is a process that exchanges lines of JSON.
type program struct {
	name  string
	child *childprocess.Child
	stdin io.WriteCloser
	lines chan []byte
}

// start starts a program and returns once it is ready.
func start(cmd *exec.Cmd) (*program, error) {
	p := &program{name: cmd.String(), lines: make(chan []byte, 4096)}
	var err error
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	cmd.Stdout, cmd.Stderr = theirs, os.Stderr
	if p.child, err = childprocess.Start(cmd); err != nil {
		_ = out.Close()
		return nil, err
	}
	go func() {
		defer out.Close()
		defer close(p.lines)
		scanner := bufio.NewScanner(out)
		for scanner.Scan() {
			p.lines <- append([]byte{}, scanner.Bytes()...)
		}
	}()
	var ready struct{ Ready bool }
	if err := p.read(&ready); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// send writes a line.
func (p *program) send(line any) error {
	text, err := json.Marshal(line)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.stdin, "%s\n", text)
	return err
}

// read reads the next line.
func (p *program) read(line any) error {
	select {
	case text, ok := <-p.lines:
		if !ok {
			return fmt.Errorf("%s has exited", p.name)
		}
		return json.Unmarshal(text, line)
	case <-time.After(outputTimeout):
		return fmt.Errorf("%s has written nothing for %v", p.name, outputTimeout)
	}
}

// close closes the program's input and kills the program if it does not exit.
func (p *program) close() {
	_ = p.stdin.Close()
	select {
	case <-p.child.Done():
	case <-time.After(10 * time.Second):
		p.child.Kill()
	}
}
