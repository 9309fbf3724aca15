//go:build unix

package childprocess

import (
	"os/exec"
	"syscall"
)

func bind(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setsid = true
	dieWithParent(cmd.SysProcAttr)
}

func (c *Child) terminate() { _ = c.cmd.Process.Signal(syscall.SIGTERM) }

// kill goes to the whole group, which is the session's: a redis-server that rewrites its append-only file has a child of its own.
func (c *Child) kill() { _ = syscall.Kill(-c.Pid(), syscall.SIGKILL) }

// Freeze stops the program in its tracks (SIGSTOP): its connections stay open and nothing answers,
// as with a machine that hangs.
func (c *Child) Freeze() error { return c.cmd.Process.Signal(syscall.SIGSTOP) }

// Thaw lets a frozen program go on.
func (c *Child) Thaw() error { return c.cmd.Process.Signal(syscall.SIGCONT) }
