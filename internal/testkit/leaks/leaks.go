// Package leaks looks at what a spec leaves behind in the process: goroutines, and open connections and
// files. A suite says it once:
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

// patience is how long what a spec has closed may take to be gone.
const patience = 10 * time.Second

// Check notes what is there before a spec. When the spec has ended, and all that it has put up to be
// cleaned up is cleaned up, nothing more may be there. Specs in an ordered container share what they
// open, so they are left to a Check at the beginning of BeforeSuite, which looks when all is over.
func Check() {
	if ginkgo.CurrentSpecReport().IsInOrderedContainer {
		return
	}
	goroutines, files := gleak.Goroutines(), open()
	ginkgo.DeferCleanup(func() {
		gomega.Eventually(gleak.Goroutines).WithTimeout(patience).ShouldNot(gleak.HaveLeaked(goroutines), "the spec left goroutines behind")
		gomega.Eventually(func() []string { return more(files, open()) }).WithTimeout(patience).
			Should(gomega.BeEmpty(), "the spec left connections or files open")
	})
}

// directory lists the open files of the process, by their numbers; on Linux each is a link that tells
// connections of the same number apart.
const directory = "/dev/fd"

// open lists connections and files that are open; nothing where the system doesn't tell.
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
				continue // the list's own, closed by now
			}
		}
		files = append(files, target)
	}
	slices.Sort(files)
	return files
}

// more are those of after that before doesn't have, or has less often.
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
