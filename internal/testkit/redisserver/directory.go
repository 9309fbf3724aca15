package redisserver

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

const directoryPrefix = "bullmq-go-redis-"

// directory holds the files of one server. This process keeps its lock file locked, so that a directory whose
// owner was killed can be recognized.
type directory struct {
	path string
	lock *os.File
}

func newDirectory() (*directory, error) {
	path, err := os.MkdirTemp("", directoryPrefix)
	if err != nil {
		return nil, fmt.Errorf("create directory for redis-server: %w", err)
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

// sweep removes the directories left by killed processes, once per process.
var sweep = sync.OnceFunc(func() {
	paths, _ := filepath.Glob(filepath.Join(os.TempDir(), directoryPrefix+"*"))
	for _, path := range paths {
		sweepOne(path, time.Minute)
	}
})

// sweepOne removes a directory that has no owner and is at least as old as age. A younger directory may have an
// owner that has not locked it yet.
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

// socketPath returns a short path: systems limit the path of a socket to about a hundred bytes.
func socketPath(directory string) string { return filepath.Join(directory, "redis.sock") }
