package timing

import (
	"syscall"
	"time"
)

// sleepExactly sleeps with the kernel's timers. It blocks a thread, so it is for very
// short times only.
func sleepExactly(wait time.Duration) {
	rest := syscall.NsecToTimespec(int64(wait))
	for syscall.Nanosleep(&rest, &rest) == syscall.EINTR {
	}
}
