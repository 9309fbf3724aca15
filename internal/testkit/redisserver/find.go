package redisserver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// BinaryVariable is the environment variable that selects the server program, for tests against another
// version of Redis or a compatible server.
const BinaryVariable = "REDIS_SERVER"

// ErrNotInstalled is returned by [Find] and [Start] if no server program is found. Its text names the package
// to install.
var ErrNotInstalled = errors.New("redis-server is not installed: run `apt-get install redis-server` " +
	"(Debian, Ubuntu) or `brew install redis` (macOS), or name a program in " + BinaryVariable)

// Find returns the path of the server program: the one named by REDIS_SERVER, or else redis-server, or else
// valkey-server. It searches PATH and the usual installation directories.
func Find() (string, error) {
	if named := os.Getenv(BinaryVariable); named != "" {
		path, err := exec.LookPath(named)
		if err != nil {
			return "", fmt.Errorf("%s names a program that cannot be run: %w", BinaryVariable, err)
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

// installedAs lists the usual installation paths of a program, which may be missing from PATH.
var installedAs = func(name string) []string {
	return []string{"/usr/bin/" + name, "/usr/local/bin/" + name, "/opt/homebrew/bin/" + name}
}
