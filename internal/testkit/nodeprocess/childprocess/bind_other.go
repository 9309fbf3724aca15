//go:build !unix

package childprocess

import (
	"errors"
	"os/exec"
)

func bind(*exec.Cmd) {}

// terminate kills: there is no signal that asks.
func (c *Child) terminate() { c.kill() }

func (c *Child) kill() { _ = c.cmd.Process.Kill() }

// Freeze isn't to be had on this system.
func (c *Child) Freeze() error { return errors.ErrUnsupported }

// Thaw isn't to be had on this system.
func (c *Child) Thaw() error { return errors.ErrUnsupported }
