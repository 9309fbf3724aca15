//go:build unix && !linux

package childprocess

import "syscall"

// dieWithParent does nothing: only Linux offers it. Elsewhere a program is left behind if we are killed.
func dieWithParent(*syscall.SysProcAttr) {}
