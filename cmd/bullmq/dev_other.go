//go:build !unix

package main

import "os/exec"

// detach does nothing on this system.
func detach(*exec.Cmd) {}
