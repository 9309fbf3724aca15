package childprocess

import "syscall"

// dieWithParent makes the kernel kill the program when this process dies in any way.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
