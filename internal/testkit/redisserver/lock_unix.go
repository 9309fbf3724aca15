//go:build unix

package redisserver

import (
	"os"
	"syscall"
)

// tryLock locks the file until it is closed or the process ends. It reports whether the file was unlocked.
func tryLock(file *os.File) bool {
	return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}
