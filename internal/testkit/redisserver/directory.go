package redisserver

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

const directoryPrefix = "bullmq-go-redis-"

// directory is where one server keeps its files. Its lock file is held locked for as long as this
// process lives, so that a directory whose owner was killed can be told from one in use.
type directory struct {
	path string
	lock *os.File
}

func newDirectory() (*directory, error) {
	path, err := os.MkdirTemp("", directoryPrefix)
	if err != nil {
		return nil, fmt.Errorf("make a directory for redis-server: %w", err)
	}
	lock, err := os.Create(lockPath(path))
	if err != nil {
		_ = os.RemoveAll(path)
		return nil, err
	}
	tryLock(lock)
	return &directory{path: path, lock: lock}, nil
}

func (d *directory) remove() {
	_ = os.RemoveAll(d.path)
	_ = d.lock.Close()
}

// sweep removes, once a process, the directories of processes that died before they could.
var sweep = sync.OnceFunc(func() {
	paths, _ := filepath.Glob(filepath.Join(os.TempDir(), directoryPrefix+"*"))
	for _, path := range paths {
		sweepOne(path, time.Minute)
	}
})

// sweepOne removes a directory that nobody owns and that has been there for the given time: a
// younger one may be about to be locked.
func sweepOne(path string, age time.Duration) {
	lock, err := os.Open(lockPath(path))
	if err != nil {
		return
	}
	defer lock.Close()
	if info, err := lock.Stat(); err == nil && time.Since(info.ModTime()) >= age && tryLock(lock) {
		_ = os.RemoveAll(path)
	}
}

func lockPath(directory string) string { return filepath.Join(directory, "owner.lock") }

// socketPath is kept short: systems allow about a hundred bytes.
func socketPath(directory string) string { return filepath.Join(directory, "redis.sock") }
