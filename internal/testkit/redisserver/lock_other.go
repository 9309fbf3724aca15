//go:build !unix

package redisserver

import "os"

// tryLock takes nothing here, so that no directory is ever thought to be without an owner.
func tryLock(*os.File) bool { return false }
