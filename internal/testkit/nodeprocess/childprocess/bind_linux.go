package childprocess

import "syscall"

// dieWithParent has the kernel kill the program when we die, however we die.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
