// Package childprocess starts programs that do not outlive this process, if the system supports that. Ctrl-C at
// the terminal does not reach the programs, so this process can clean up first. Killing a program also kills the
// processes that it started.
package childprocess

import (
	"fmt"
	"os/exec"
	"runtime"
	"time"
)

// Child is a started program. Its methods are safe for concurrent use.
type Child struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// Start starts cmd in a separate session. Linux first divides the processors between sessions, so the threads of
// one program do not starve another program. The output of cmd should go to files (*os.File). With other writers,
// a grandchild that keeps the output open would delay the detection of the exit.
func Start(cmd *exec.Cmd) (*Child, error) {
	bind(cmd)
	child := &Child{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// Linux sends the parent-death signal when the thread that started the program ends. The thread is
		// therefore kept as long as the program runs.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		started <- nil
		_ = cmd.Wait() // see ExitCode
		close(child.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return child, nil
}

// Pid returns the process id.
func (c *Child) Pid() int { return c.cmd.Process.Pid }

// Done returns a channel that is closed when the program has exited.
func (c *Child) Done() <-chan struct{} { return c.done }

// ExitCode returns the exit status, or -1 if a signal ended the program. It is valid once Done is closed.
func (c *Child) ExitCode() int { return c.cmd.ProcessState.ExitCode() }

// Stop sends SIGTERM and kills the process group after the grace period. It returns when the program has
// exited and reports whether it exited by itself.
func (c *Child) Stop(grace time.Duration) bool {
	c.terminate()
	select {
	case <-c.done:
		return true
	case <-time.After(grace):
		c.Kill()
		return false
	}
}

// Kill ends the program and its process group at once and returns when the program has exited.
func (c *Child) Kill() {
	select {
	case <-c.done:
		return // its process id may already be reused
	default:
	}
	c.kill()
	<-c.done
}
