package browsertest

import (
	_ "embed"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// With -update, the layouts of the pages become the references.
var update = flag.Bool("update", false, "write the layouts of the pages to testdata")

//go:embed scripts/skeleton.js
var skeletonScript string

// tolerance is by how many pixels the position and the size of a part may differ from the reference.
const tolerance = 8

// skeleton returns the parts of the page with their boxes, one in a line.
func skeleton(t *tab) []string {
	GinkgoHelper()
	host, err := os.Hostname()
	Expect(err).NotTo(HaveOccurred())
	return eval[[]string](t, fmt.Sprintf("(%s)(%q)", skeletonScript, host))
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// reference returns the path of the reference of a page.
func reference(title string, v view) string {
	return filepath.Join("testdata", "layout", fmt.Sprintf("%s-%d.txt", notInNames.ReplaceAllString(title, "-"), v.width))
}

// compare compares the parts of a page with the reference, and returns the differences.
func compare(title string, v view, lines []string) []string {
	GinkgoHelper()
	path := reference(title, v)
	text := strings.Join(lines, "\n") + "\n"
	if *update {
		Expect(os.MkdirAll(filepath.Dir(path), 0o755)).To(Succeed())
		Expect(os.WriteFile(path, []byte(text), 0o644)).To(Succeed())
		return nil
	}
	stored, err := os.ReadFile(path)
	Expect(err).NotTo(HaveOccurred(), "the page has no reference yet: make browser FLAGS=-update writes it")
	wanted := strings.Split(strings.TrimSuffix(string(stored), "\n"), "\n")
	var differences []string
	for i := range max(len(lines), len(wanted)) {
		switch {
		case i >= len(lines):
			differences = append(differences, "missing: "+wanted[i])
		case i >= len(wanted):
			differences = append(differences, "new: "+lines[i])
		case !alike(lines[i], wanted[i]):
			differences = append(differences, fmt.Sprintf("%s, not %s", lines[i], wanted[i]))
		}
		if len(differences) == 10 {
			break
		}
	}
	return differences
}

// alike reports whether two lines are of the same part, in about the same place.
func alike(a, b string) bool {
	x, y := strings.SplitN(a, " ", 5), strings.SplitN(b, " ", 5)
	if len(x) != len(y) || x[0] != y[0] || len(x) == 5 && x[4] != y[4] {
		return false
	}
	for i := 1; i < 4 && i < len(x); i++ {
		m, err := strconv.ParseFloat(x[i], 64)
		n, err2 := strconv.ParseFloat(y[i], 64)
		if (err != nil || err2 != nil) && x[i] != y[i] || math.Abs(m-n) > tolerance {
			return false
		}
	}
	return true
}

var _ = Describe("The references of the layouts", func() {
	It("belong to a page each", func() {
		wanted := map[string]bool{}
		for _, p := range pages {
			for _, v := range widths {
				wanted[reference(p.title, v)] = true
			}
		}
		files, err := filepath.Glob("testdata/layout/*.txt")
		Expect(err).NotTo(HaveOccurred())
		for _, file := range files {
			if !wanted[file] && *update {
				Expect(os.Remove(file)).To(Succeed())
				continue
			}
			Expect(wanted).To(HaveKey(file), "remove it, or make browser FLAGS=-update")
		}
	})
})
