//go:build unix

package redisserver

import (
	"os"
	"syscall"
)

// tryLock takes the file's lock, which ends with this process or with the file's closing, and tells
// whether it was free.
func tryLock(file *os.File) bool {
	return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}
