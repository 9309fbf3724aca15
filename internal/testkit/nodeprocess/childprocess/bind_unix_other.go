//go:build unix && !linux

package childprocess

import "syscall"

// dieWithParent does nothing: only Linux supports it. Elsewhere a program survives if this process is killed.
func dieWithParent(*syscall.SysProcAttr) {}
