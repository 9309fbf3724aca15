//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// detach keeps the signals of a terminal from a process.
func detach(command *exec.Cmd) { command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
