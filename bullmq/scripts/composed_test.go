package scripts

import (
	goflag "flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var update = goflag.Bool("update", false, "write the composed scripts to "+composedDir)

const composedDir = "testdata/composed"

// composedFiles returns the scripts as Redis runs them, by file name. BullMQ 5
// has its own file if its script differs.
func composedFiles() map[string]string {
	files := map[string]string{}
	for name, c := range commands {
		v6, v5 := c.composed(V6), c.composed(V5)
		files[name+".lua"] = v6
		if v5 != v6 {
			files[name+".v5.lua"] = v5
		}
	}
	return files
}

// composed returns the script with a header that names its sources and its keys.
func (c *command) composed(dialect Dialect) string {
	var text strings.Builder
	fmt.Fprintf(&text, "-- Composed from %s.lua and its parts. Regenerate with make composed.\n", c.name)
	of := ""
	if c.several {
		of = ", of the queue in use"
	}
	for i, key := range c.forms[dialect].keys {
		fmt.Fprintf(&text, "-- KEYS[%d] %s%s\n", i+1, key, of)
	}
	return text.String() + "\n" + strings.TrimRight(c.forms[dialect].text, "\n") + "\n"
}

var _ = ginkgo.Describe("The composed scripts", func() {
	ginkgo.It("are equal to those in testdata/composed", func() {
		files := composedFiles()
		if *update {
			Expect(os.RemoveAll(composedDir)).To(Succeed())
			Expect(os.MkdirAll(composedDir, 0o755)).To(Succeed())
			for name, text := range files {
				Expect(os.WriteFile(filepath.Join(composedDir, name), []byte(text), 0o644)).To(Succeed())
			}
		}
		found, err := filepath.Glob(filepath.Join(composedDir, "*.lua"))
		Expect(err).NotTo(HaveOccurred())
		const remedy = "%s is out of date: run make composed and review its change"
		for _, path := range found {
			Expect(files).To(HaveKey(filepath.Base(path)), remedy, path)
		}
		for name, text := range files {
			path := filepath.Join(composedDir, name)
			written, err := os.ReadFile(path)
			Expect(err).NotTo(HaveOccurred(), remedy, path)
			Expect(firstChange(string(written), text)).To(BeEmpty(), remedy, path)
		}
	})
})

// firstChange returns the first line in which two texts differ, or "" if they are equal.
func firstChange(before, after string) string {
	is := strings.Split(after, "\n")
	for i, line := range strings.Split(before, "\n") {
		if i >= len(is) || line != is[i] {
			return fmt.Sprintf("line %d: %s", i+1, line)
		}
	}
	return strings.TrimPrefix(after, before)
}
