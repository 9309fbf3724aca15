package redisserver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// BinaryVariable names the environment variable that chooses the server program, for tests against
// another version of Redis or a program that speaks its protocol.
const BinaryVariable = "REDIS_SERVER"

// ErrNotInstalled is what Find and Start answer where no server program is to be found. Its text
// says what to install.
var ErrNotInstalled = errors.New("redis-server is not installed: run `apt-get install redis-server` " +
	"(Debian, Ubuntu) or `brew install redis` (macOS), or name a program in " + BinaryVariable)

// Find returns the server program: the one that REDIS_SERVER names, else redis-server, else
// valkey-server, from the PATH or from where packages put them.
func Find() (string, error) {
	if named := os.Getenv(BinaryVariable); named != "" {
		path, err := exec.LookPath(named)
		if err != nil {
			return "", fmt.Errorf("%s names a program that can't be run: %w", BinaryVariable, err)
		}
		return path, nil
	}
	for _, name := range []string{"redis-server", "valkey-server"} {
		for _, place := range append([]string{name}, installedAs(name)...) {
			if path, err := exec.LookPath(place); err == nil {
				return path, nil
			}
		}
	}
	return "", ErrNotInstalled
}

// installedAs lists where packages put a program; not every PATH has these directories.
var installedAs = func(name string) []string {
	return []string{"/usr/bin/" + name, "/usr/local/bin/" + name, "/opt/homebrew/bin/" + name}
}
