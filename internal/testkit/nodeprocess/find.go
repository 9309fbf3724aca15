package nodeprocess

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
)

// ErrNodeMissing and ErrPackagesMissing are returned by [Find] and [Start] if a Node program cannot run.
// Their texts state the remedy.
var (
	ErrNodeMissing     = errors.New("node is not installed: install Node.js 18 or later (Debian, Ubuntu: `apt-get install nodejs npm`)")
	ErrPackagesMissing = errors.New("the Node packages are not installed: run `npm ci` in interop/node")
)

// Installation holds the paths needed to run this module's Node programs.
type Installation struct {
	Node      string // path of the node program
	Directory string // interop/node, which holds the programs and their packages
}

// Find returns the installation, or a one-line error that names what is missing.
func Find() (Installation, error) {
	node, err := findNode()
	if err != nil {
		return Installation{}, err
	}
	root, err := ModuleRoot()
	if err != nil {
		return Installation{}, err
	}
	directory := filepath.Join(root, "interop", "node")
	for _, name := range []string{"bullmq", "bullmq5", "ioredis"} {
		if _, err := os.Stat(filepath.Join(directory, "node_modules", name, "package.json")); err != nil {
			return Installation{}, ErrPackagesMissing
		}
	}
	return Installation{Node: node, Directory: directory}, nil
}

func findNode() (string, error) {
	node, err := exec.LookPath("node")
	if err != nil {
		return "", ErrNodeMissing
	}
	return node, nil
}

// ModuleRoot returns the root of the repository: the nearest directory, from the working directory upwards, that
// contains a go.work. Tests run in their package's directory, which may belong to a nested module.
func ModuleRoot() (string, error) {
	directory, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(directory, "go.work")); err == nil {
			return directory, nil
		}
		parent := filepath.Dir(directory)
		if parent == directory {
			return "", errors.New("no go.work in this directory or above: run this from within the repository")
		}
		directory = parent
	}
}
