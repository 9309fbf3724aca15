package bullmq

import (
	"syscall"
	"time"
)

// sleepExactly is time.Sleep by the kernel's own timers, for very short times: a
// thread waits meanwhile.
func sleepExactly(wait time.Duration) {
	rest := syscall.NsecToTimespec(int64(wait))
	for syscall.Nanosleep(&rest, &rest) == syscall.EINTR {
	}
}
