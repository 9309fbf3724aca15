package timing

import (
	"syscall"
	"time"
)

// sleepExactly sleeps by the kernel's timers, for very short times: it blocks a
// thread.
func sleepExactly(wait time.Duration) {
	rest := syscall.NsecToTimespec(int64(wait))
	for syscall.Nanosleep(&rest, &rest) == syscall.EINTR {
	}
}
