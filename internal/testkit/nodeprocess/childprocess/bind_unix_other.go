//go:build unix && !linux

package childprocess

import "syscall"

// dieWithParent does nothing, because only Linux supports it. On other systems a program survives if this process
// is killed.
func dieWithParent(*syscall.SysProcAttr) {}
