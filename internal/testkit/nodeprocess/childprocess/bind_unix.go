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

// kill kills the whole process group. For example, a redis-server that rewrites its append-only file has a child
// process.
func (c *Child) kill() { _ = syscall.Kill(-c.Pid(), syscall.SIGKILL) }

// Freeze suspends the program (SIGSTOP). Its connections stay open and nothing replies, like a machine that
// hangs.
func (c *Child) Freeze() error { return c.cmd.Process.Signal(syscall.SIGSTOP) }

// Thaw resumes a frozen program.
func (c *Child) Thaw() error { return c.cmd.Process.Signal(syscall.SIGCONT) }
