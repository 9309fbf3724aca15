// Package nodeprocess runs the Node programs in interop/node for tests, demos and benchmarks. It exchanges
// JSON with them, one value per line, over their standard input and output.
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
	// stopGrace limits how long a program may take to exit after SIGTERM. A BullMQ worker finishes its
	// running jobs first.
	stopGrace = 10 * time.Second

	// lineBuffer is how many lines are buffered for the reader. When the buffer is full, the program blocks.
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

// Start runs a script with node. A relative path is resolved in interop/node; such a script needs the packages
// there. A script with an absolute path needs only node. The program ends with this process at the latest.
func Start(script string, arguments ...string) (*Process, error) {
	command, err := command(script, arguments)
	if err != nil {
		return nil, err
	}
	return Run("node "+filepath.Base(script), command)
}

// Run runs any other program that exchanges lines of JSON. Errors refer to it by name.
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
		return fmt.Errorf("send to %s: %w%s", p.name, err, p.stderrTail())
	}
	return nil
}

// CloseInput closes the program's standard input.
func (p *Process) CloseInput() error {
	p.sending.Lock()
	defer p.sending.Unlock()
	return p.stdin.Close()
}

// Lines returns the channel of the program's output lines. It is closed after the last one.
func (p *Process) Lines() <-chan Line { return p.lines }

// WaitFor discards lines until wanted reports true, and returns that line.
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
			return nil, fmt.Errorf("wait for a line of %s: %w; last line: %q%s", p.name, context.Cause(ctx), last.short(), p.stderrTail())
		}
	}
}

// Done returns a channel that is closed when the program has exited.
func (p *Process) Done() <-chan struct{} { return p.child.Done() }

// Wait waits for the program to exit and returns its exit status, or -1 if a signal ended it.
func (p *Process) Wait(ctx context.Context) (int, error) {
	select {
	case <-p.child.Done():
		return p.child.ExitCode(), nil
	case <-ctx.Done():
		return 0, fmt.Errorf("wait for %s to exit: %w%s", p.name, context.Cause(ctx), p.stderrTail())
	}
}

// Stop sends SIGTERM, kills the program if it does not exit in time, and returns its exit status, or -1 if a
// signal ended it. Lines written until then can still be read. It is safe to call Stop again.
func (p *Process) Stop() int {
	if !p.child.Stop(stopGrace) {
		_, _ = fmt.Fprintf(&p.stderr, "(killed: still running %v after SIGTERM)\n", stopGrace)
	}
	p.abandon()
	return p.child.ExitCode()
}

// Kill ends the program at once (SIGKILL).
func (p *Process) Kill() {
	p.child.Kill()
	p.abandon()
}

// Freeze suspends the program while its connections stay open. [Process.Thaw] resumes it.
func (p *Process) Freeze() error { return p.child.Freeze() }

// Thaw resumes a frozen program.
func (p *Process) Thaw() error { return p.child.Thaw() }

// Pid returns the process id.
func (p *Process) Pid() int { return p.child.Pid() }

// StderrLines returns the number of lines written to standard error.
func (p *Process) StderrLines() int { return p.stderr.lineCount() }

// Stderr returns the last 64 KiB written to standard error.
func (p *Process) Stderr() string { return p.stderr.String() }

// stderrTail returns the end of standard error as the last part of an error message.
func (p *Process) stderrTail() string {
	if text := p.stderr.lastLines(15); text != "" {
		return "; last lines of standard error:\n" + text
	}
	return ""
}

func (p *Process) endedBefore(last Line) error {
	// The output may close shortly before the process exits.
	select {
	case <-p.child.Done():
		<-p.stderrDone
	case <-time.After(stopGrace):
		return errors.New(p.name + " closed its output before the expected line")
	}
	return fmt.Errorf("%s exited (status %d) before the expected line; last line: %q%s",
		p.name, p.child.ExitCode(), last.short(), p.stderrTail())
}
