// Package leaks checks that a spec leaves no goroutines, connections or files open in the process. A suite
// installs the check once:
//
//	var _ = BeforeEach(leaks.Check)
package leaks

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	"github.com/onsi/gomega/gleak"
)

// timeout limits the wait for closed resources to disappear.
const timeout = 10 * time.Second

// Check records the goroutines and open files before a spec. If there are more after the spec and its cleanup,
// it fails the spec. Specs in an ordered container share resources, so they are not checked one by one. To check
// what these specs leave when the suite ends, call Check at the beginning of BeforeSuite.
func Check() {
	if ginkgo.CurrentSpecReport().IsInOrderedContainer {
		return
	}
	goroutines, files := gleak.Goroutines(), open()
	ginkgo.DeferCleanup(func() {
		gomega.Eventually(gleak.Goroutines).WithTimeout(timeout).ShouldNot(gleak.HaveLeaked(goroutines), "the spec leaked goroutines")
		gomega.Eventually(func() []string { return more(files, open()) }).WithTimeout(timeout).
			Should(gomega.BeEmpty(), "the spec leaked connections or files")
	})
}

// directory lists the open files of the process by number. On Linux each entry is a link. Its target shows
// whether a number has been reused for another connection.
const directory = "/dev/fd"

// ofRuntime are the files with which the runtime waits for others. It opens them when the first one is waited for.
var ofRuntime = []string{"anon_inode:[eventpoll]", "anon_inode:[eventfd]"}

// open returns the open connections and files, or nil on systems that do not list them.
func open() []string {
	entries, err := os.ReadDir(directory)
	if err != nil {
		return nil
	}
	var files []string
	for _, entry := range entries {
		target := entry.Name()
		if runtime.GOOS == "linux" {
			if target, err = os.Readlink(filepath.Join(directory, entry.Name())); err != nil {
				continue // the descriptor of this listing, closed by now
			}
			if slices.Contains(ofRuntime, target) {
				continue
			}
		}
		files = append(files, target)
	}
	slices.Sort(files)
	return files
}

// more returns the entries of after that are not in before, counting duplicates.
func more(before, after []string) (left []string) {
	count := map[string]int{}
	for _, file := range before {
		count[file]++
	}
	for _, file := range after {
		if count[file]--; count[file] < 0 {
			left = append(left, fmt.Sprint(file))
		}
	}
	return left
}
