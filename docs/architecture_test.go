package docs_test

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

const architecturePage = "architecture.md"

// namedFiles returns the Go and Lua files that a page names in backquotes.
func namedFiles(page string) []string {
	var files []string
	for _, name := range regexp.MustCompile("`([\\w/]+\\.(?:go|lua))`").FindAllStringSubmatch(page, -1) {
		files = append(files, name[1])
	}
	return files
}

var _ = Describe("The architecture page", func() {
	It("names only files that exist", func() {
		files := namedFiles(read(architecturePage))
		Expect(len(files)).To(BeNumerically(">", 50))
		var there []string
		for _, directory := range []string{"../bullmq", "../bullmqhttp"} {
			Expect(filepath.WalkDir(directory, func(path string, _ fs.DirEntry, err error) error {
				there = append(there, filepath.ToSlash(path))
				return err
			})).To(Succeed())
		}
		for _, file := range files {
			Expect(slices.ContainsFunc(there, func(path string) bool { return strings.HasSuffix(path, "/"+file) })).
				To(BeTrue(), "%s names %s, which does not exist in bullmq or bullmqhttp", architecturePage, file)
		}
	})

	It("links to a README that names each part of the scripts", func() {
		parts, err := filepath.Glob("../bullmq/scripts/parts/*.lua")
		Expect(err).NotTo(HaveOccurred())
		Expect(parts).NotTo(BeEmpty())
		page := read("../bullmq/scripts/parts/README.md")
		for _, part := range parts {
			Expect(page).To(ContainSubstring("`"+filepath.Base(part)+"`"), "each part needs a row")
		}
	})

	It("describes each file of package bullmq", func() {
		files, err := filepath.Glob("../bullmq/*.go")
		Expect(err).NotTo(HaveOccurred())
		var names []string
		for _, file := range files {
			if !strings.HasSuffix(file, "_test.go") {
				names = append(names, filepath.Base(file))
			}
		}
		tables := section(read(architecturePage), "## Which file holds what")
		Expect(namedFiles(tables)).To(ContainElements(names), "each file needs a row in %s", architecturePage)
	})
})

var _ = Describe("The decision records", func() {
	var records []string

	BeforeEach(func() {
		var err error
		records, err = filepath.Glob("adr/[0-9]*.md")
		Expect(err).NotTo(HaveOccurred())
		Expect(len(records)).To(BeNumerically(">", 10))
	})

	It("are numbered without gaps and have the number in their title", func() {
		for i, record := range records {
			Expect(read(record)).To(MatchRegexp(`^# %d\. \S`, i+1), record)
			Expect(filepath.Base(record)).To(MatchRegexp(`^%04d-[a-z0-9-]+\.md$`, i+1))
		}
	})

	It("have a context, a decision and consequences", func() {
		for _, record := range records {
			for _, heading := range []string{"## Context", "## Decision", "## Consequences"} {
				Expect(strings.TrimSpace(section(read(record), heading))).NotTo(BeEmpty(), "%s: %s", record, heading)
			}
		}
	})

	It("each have a row in the index", func() {
		index := read("adr/README.md")
		for _, record := range records {
			Expect(index).To(ContainSubstring("(" + filepath.Base(record) + ")"))
		}
	})

	It("have no broken links", func() {
		for _, record := range append(records, "adr/README.md") {
			for _, link := range regexp.MustCompile(`\]\(([^)\s]+)\)`).FindAllStringSubmatch(read(record), -1) {
				if !strings.Contains(link[1], "://") {
					Expect(filepath.Join("adr", link[1])).To(BeAnExistingFile(), "%s links to it", record)
				}
			}
		}
	})
})
