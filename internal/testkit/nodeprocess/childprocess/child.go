// Package childprocess starts a program whose life is bound to ours: it never outlives the process
// that started it (where the system can promise that), a Ctrl-C at the terminal doesn't reach it
// before its owner has tidied up, and killing it takes along whatever it started itself.
package childprocess

import (
	"fmt"
	"os/exec"
	"runtime"
	"time"
)

// Child is a started program. Its methods may be called from any goroutine.
type Child struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// Start starts cmd in a session of its own, as a service has one: Linux shares the processors between sessions
// first, so that the threads of one program don't crowd out another. cmd's output should go to files (an *os.File), not
// to other writers: then the end of the program isn't held up by a grandchild that keeps its output open.
func Start(cmd *exec.Cmd) (*Child, error) {
	bind(cmd)
	child := &Child{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// Linux sends the parent-death signal when the thread that started the program ends, so
		// that thread is kept for as long as the program runs.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		started <- nil
		_ = cmd.Wait() // ExitCode tells what there is to tell
		close(child.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return child, nil
}

// Pid is the program's process id.
func (c *Child) Pid() int { return c.cmd.Process.Pid }

// Done is closed once the program has ended and was waited for.
func (c *Child) Done() <-chan struct{} { return c.done }

// ExitCode is the program's exit status once Done is closed; -1 where a signal ended it.
func (c *Child) ExitCode() int { return c.cmd.ProcessState.ExitCode() }

// Stop asks the program to end (SIGTERM) and kills its group if it hasn't within the grace. It
// returns after the end, and tells whether the program went by itself.
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

// Kill ends the program and all of its group at once and returns after the end.
func (c *Child) Kill() {
	select {
	case <-c.done:
		return // its id may belong to another program by now
	default:
	}
	c.kill()
	<-c.done
}
