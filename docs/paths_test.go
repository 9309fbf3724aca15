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

var (
	// A file in backquotes, with or without its directory.
	fileName = regexp.MustCompile("`([\\w./-]*\\w\\.(?:go|lua|mjs|sh|yml|yaml|json|conf))`")
	// A file or a directory in backquotes that begins with a directory of the repository.
	pathName = regexp.MustCompile("`(?:\\./)?((?:bench|bullmq|cmd|docs|examples|internal|interop|scripts|tools|\\.ci|\\.github)/[\\w./-]*\\w)/?`")
)

// repository returns the paths of all files and directories, relative to the root.
func repository() []string {
	GinkgoHelper()
	var paths []string
	Expect(filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := entry.Name(); entry.IsDir() && (name == "node_modules" || name == ".git") {
			return fs.SkipDir
		}
		paths = append(paths, strings.TrimPrefix(filepath.ToSlash(path), "../"))
		return nil
	})).To(Succeed())
	return paths
}

var _ = Describe("The pages", func() {
	It("name only files and directories of the repository that exist", func() {
		paths := repository()
		exists := func(name string) bool {
			return slices.ContainsFunc(paths, func(path string) bool {
				return path == name || strings.HasSuffix(path, "/"+name)
			})
		}
		pages, err := filepath.Glob("*.md")
		Expect(err).NotTo(HaveOccurred())
		records, err := filepath.Glob("adr/*.md")
		Expect(err).NotTo(HaveOccurred())
		pages = append(append(pages, records...),
			"../README.md", "../CONTRIBUTING.md", "../SECURITY.md", "../bullmq/scripts/parts/README.md")

		var missing []string
		found := 0
		for _, page := range pages {
			text := read(page)
			names := append(fileName.FindAllStringSubmatch(text, -1), pathName.FindAllStringSubmatch(text, -1)...)
			for _, name := range names {
				path := strings.TrimPrefix(strings.TrimPrefix(name[1], "./"), "../")
				if strings.Contains(path, "...") || strings.HasSuffix(path, "vX.Y.Z") { // a pattern or a tag
					continue
				}
				found++
				if !exists(path) {
					missing = append(missing, page+": "+path)
				}
			}
		}
		Expect(missing).To(BeEmpty())
		Expect(found).To(BeNumerically(">", 300))
	})
})
