//go:build !unix

package childprocess

import (
	"errors"
	"os/exec"
)

func bind(*exec.Cmd) {}

// terminate kills the program: this system has no signal that asks it to exit.
func (c *Child) terminate() { c.kill() }

func (c *Child) kill() { _ = c.cmd.Process.Kill() }

// Freeze is not supported on this system.
func (c *Child) Freeze() error { return errors.ErrUnsupported }

// Thaw is not supported on this system.
func (c *Child) Thaw() error { return errors.ErrUnsupported }
