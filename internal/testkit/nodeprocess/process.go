// Package nodeprocess runs the Node programs in interop/node for tests, demos and benchmarks, and
// talks to them in JSON, one value a line: ours on their standard input, theirs on their standard
// output.
//
//	worker, err := nodeprocess.Start("worker.mjs", "-redis", server.Addr())
//	if err != nil { … }
//	defer worker.Stop()
//	_, err = worker.WaitFor(ctx, func(line nodeprocess.Line) bool { … })
package nodeprocess

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/17a2ac88/bullmq-go/internal/testkit/nodeprocess/childprocess"
)

const (
	// stopGrace is how long a program may take to end after SIGTERM; a BullMQ worker finishes its
	// running jobs first.
	stopGrace = 10 * time.Second

	// lineBuffer is how many lines are kept for the reader. A program that writes more while nobody
	// reads is held up.
	lineBuffer = 1 << 15
)

// Process is a running Node program.
type Process struct {
	name  string
	child *childprocess.Child

	sending sync.Mutex
	stdin   io.WriteCloser

	lines      chan Line
	abandon    func()
	stderr     tail
	stderrDone chan struct{}
}

// Start runs a script with node. A relative path is one within interop/node, whose packages must be
// there; an absolute one needs just node. The program ends with this process at the latest.
func Start(script string, arguments ...string) (*Process, error) {
	command, err := command(script, arguments)
	if err != nil {
		return nil, err
	}
	return Run("node "+filepath.Base(script), command)
}

// Run starts any other program that speaks in lines as those do, under a name for errors.
func Run(name string, command *exec.Cmd) (process *Process, err error) {
	process = &Process{name: name, lines: make(chan Line, lineBuffer), stderrDone: make(chan struct{})}
	if process.stdin, err = command.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, theirStdout, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirStdout.Close()
	stderr, theirStderr, err := os.Pipe()
	if err != nil {
		_ = stdout.Close()
		return nil, err
	}
	defer theirStderr.Close()
	command.Stdout, command.Stderr = theirStdout, theirStderr
	if process.child, err = childprocess.Start(command); err != nil {
		_ = stdout.Close()
		_ = stderr.Close()
		return nil, err
	}
	abandoned := make(chan struct{})
	process.abandon = sync.OnceFunc(func() { close(abandoned) })
	go func() {
		defer stdout.Close()
		readLines(stdout, process.lines, abandoned)
	}()
	go func() {
		defer stderr.Close()
		process.stderr.keep(stderr, process.stderrDone)
	}()
	return process, nil
}

func command(script string, arguments []string) (*exec.Cmd, error) {
	if filepath.IsAbs(script) {
		node, err := findNode()
		if err != nil {
			return nil, err
		}
		return exec.Command(node, append([]string{script}, arguments...)...), nil
	}
	installation, err := Find()
	if err != nil {
		return nil, err
	}
	command := exec.Command(installation.Node, append([]string{script}, arguments...)...)
	command.Dir = installation.Directory
	return command, nil
}

// Send writes v to the program as one line of JSON.
func (p *Process) Send(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("send to %s: %w", p.name, err)
	}
	p.sending.Lock()
	defer p.sending.Unlock()
	if _, err := p.stdin.Write(append(text, '\n')); err != nil {
		return fmt.Errorf("send to %s: %w%s", p.name, err, p.said())
	}
	return nil
}

// CloseInput tells the program that nothing more will be sent.
func (p *Process) CloseInput() error {
	p.sending.Lock()
	defer p.sending.Unlock()
	return p.stdin.Close()
}

// Lines hands out the lines of the program, each once, and is closed after the last one.
func (p *Process) Lines() <-chan Line { return p.lines }

// WaitFor takes lines until one is as wanted, and returns that one. Those before it are gone.
func (p *Process) WaitFor(ctx context.Context, wanted func(Line) bool) (Line, error) {
	var last Line
	for {
		select {
		case line, more := <-p.lines:
			if !more {
				return nil, p.endedBefore(last)
			}
			if wanted(line) {
				return line, nil
			}
			last = line
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for a line of %s: %w; the last line was %q%s", p.name, context.Cause(ctx), last.short(), p.said())
		}
	}
}

// Done is closed once the program has ended.
func (p *Process) Done() <-chan struct{} { return p.child.Done() }

// Wait waits for the program's own end and returns its exit status, -1 where a signal ended it.
func (p *Process) Wait(ctx context.Context) (int, error) {
	select {
	case <-p.child.Done():
		return p.child.ExitCode(), nil
	case <-ctx.Done():
		return 0, fmt.Errorf("wait for the end of %s: %w%s", p.name, context.Cause(ctx), p.said())
	}
}

// Stop asks the program to end (SIGTERM), kills it if it doesn't, and returns its exit status: -1
// where a signal ended it. Lines written until then can still be read. Stopping again does nothing.
func (p *Process) Stop() int {
	if !p.child.Stop(stopGrace) {
		_, _ = fmt.Fprintf(&p.stderr, "(killed: still running %v after SIGTERM)\n", stopGrace)
	}
	p.abandon()
	return p.child.ExitCode()
}

// Kill ends the program without a chance to finish anything.
func (p *Process) Kill() {
	p.child.Kill()
	p.abandon()
}

// Freeze keeps the program from doing anything while its connections stay open; Thaw ends that.
func (p *Process) Freeze() error { return p.child.Freeze() }

// Thaw lets a frozen program go on.
func (p *Process) Thaw() error { return p.child.Thaw() }

// Pid is the program's process id.
func (p *Process) Pid() int { return p.child.Pid() }

// StderrLines is how many lines the program has written on standard error.
func (p *Process) StderrLines() int { return p.stderr.lineCount() }

// Stderr is what the program has said on standard error, at most the last 64 KiB.
func (p *Process) Stderr() string { return p.stderr.String() }

// said is the end of standard error as a further part of an error message.
func (p *Process) said() string {
	if text := p.stderr.lastLines(15); text != "" {
		return "; standard error ends:\n" + text
	}
	return ""
}

func (p *Process) endedBefore(last Line) error {
	// The output may have ended a moment before the process did.
	select {
	case <-p.child.Done():
		<-p.stderrDone
	case <-time.After(stopGrace):
		return errors.New(p.name + " closed its output before the line that was waited for")
	}
	return fmt.Errorf("%s ended (exit status %d) before the line that was waited for; the last line was %q%s",
		p.name, p.child.ExitCode(), last.short(), p.said())
}
